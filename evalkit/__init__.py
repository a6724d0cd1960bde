"""evalkit: tune LLM judges and juries, and trust their scores.

``import evalkit as ek`` is cheap: everything is imported when it is first used. The functions of a usual day are here;
the rest is one step further: ``ek.stats``, ``ek.plots``, ``ek.rubrics``, ``ek.engine``,
``ek.evaluation``, ``ek.notebook``, ``ek.gate``, ``ek.lighteval``, ``ek.runs`` and ``ek.errors``.
"""

import re as _re
from pathlib import Path as _Path

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, _ = _attach_stub(__name__, __file__)
__all__ = _re.findall(
    r"^from \.\w+ import (\w+)", _Path(__file__).with_suffix(".pyi").read_text("utf-8"), _re.MULTILINE
)
