"""Prompts: sandboxed templates, fenced inputs, hashes."""

from evalkit.rubrics.prompts.builder import Asking, build_prompt, input_hash, lint, reply_schema, swapped
from evalkit.rubrics.prompts.delimiters import fenced
from evalkit.rubrics.prompts.templates import Template, list_templates, load_template

__all__ = [
    "Asking",
    "Template",
    "build_prompt",
    "fenced",
    "input_hash",
    "lint",
    "list_templates",
    "load_template",
    "reply_schema",
    "swapped",
]
