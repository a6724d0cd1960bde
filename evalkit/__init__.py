"""evalkit: tune LLM judges and juries, and trust their scores.

``import evalkit as ek`` is cheap: everything is imported when it is first used. The functions of a usual day are here,
listed in ``__init__.pyi``; the rest is one step further: ``ek.stats``, ``ek.plots``, ``ek.probes``, ``ek.rubrics``,
``ek.engine``, ``ek.evaluation``, ``ek.notebook``, ``ek.gate``, ``ek.lighteval``, ``ek.runs`` and ``ek.errors``.
"""

from lazy_loader import attach_stub

from evalkit._version import __version__ as __version__

_PACKAGES = {
    *("core", "engine", "errors", "evaluation", "gate", "lighteval", "notebook"),
    *("plots", "probes", "rubrics", "runs", "stats", "tables"),
}
__getattr__, __dir__, _names = attach_stub(__name__, __file__)
__all__ = [name for name in _names if name not in _PACKAGES]
