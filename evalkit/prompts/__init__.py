"""Prompts: sandboxed templates, fenced inputs, hashes."""

from evalkit.prompts.building import Asking, build_prompt, input_hash, lint, reply_schema, swapped
from evalkit.prompts.fences import fenced
from evalkit.prompts.templates import Template, list_templates, load_template

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
