from .prompt_builder import PromptBuilder as PromptBuilder
from .prompt_builder import Template as Template
from .prompt_builder import fenced as fenced
from .prompt_builder import list_templates as list_templates
from .prompt_builder import load_template as load_template
from .prompt_builder import reply_schema as reply_schema
