"""evalkit: tune LLM judges and juries, and trust their scores.

``import evalkit as ek`` is cheap: everything is imported when it is first used. The functions of a usual day are here;
the rest is one step further: ``ek.stats``, ``ek.plots``, ``ek.probes``, ``ek.rubrics``, ``ek.engine``,
``ek.evaluation``, ``ek.notebook``, ``ek.gate``, ``ek.lighteval``, ``ek.runs`` and ``ek.errors``.
"""

from pathlib import Path

from lazy_loader import attach_stub

__getattr__, __dir__, _names = attach_stub(__name__, __file__)
_packages = {package.parent.name for package in Path(__file__).parent.glob("*/__init__.py")}
__all__ = [name for name in _names if name not in _packages]
