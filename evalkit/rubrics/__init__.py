"""What is judged and how: rubrics, criteria, scales, profiles; prompts made of them, replies read by them."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
