"""Prompts: sandboxed templates, fenced inputs, hashes."""

from evalkit.rubrics.prompts.delimiters import fenced
from evalkit.rubrics.prompts.prompt_builder import PromptBuilder, input_hash, item_inputs, reply_schema, swapped
from evalkit.rubrics.prompts.templates import Template, list_templates, load_template

__all__ = [
    "PromptBuilder",
    "Template",
    "fenced",
    "input_hash",
    "item_inputs",
    "list_templates",
    "load_template",
    "reply_schema",
    "swapped",
]
