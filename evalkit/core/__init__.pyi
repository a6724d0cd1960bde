from .judges import Judge as Judge
from .prompts_and_replies import Prompt as Prompt
from .prompts_and_replies import Reply as Reply
