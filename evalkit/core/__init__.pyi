from .judges import Judge as Judge
from .records import Prompt as Prompt
from .records import Reply as Reply
from .records import Request as Request
from .rules import Rules as Rules
