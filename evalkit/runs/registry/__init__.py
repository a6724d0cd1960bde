"""The registry: plugins, judge templates and packs in a database."""

from evalkit.errors import MissingExtraError, advise_extra

try:
    import sqlalchemy  # noqa: F401
except ImportError as problem:
    advice = f"{advise_extra('registry')}; for PostgreSQL, install '.[registry,postgres]'"
    raise MissingExtraError(f"the registry needs SQLAlchemy; {advice}") from problem

from evalkit.runs.registry.pack_files import STARTER_PACK, JudgeTemplate, Pack, PackTask, Plugin
from evalkit.runs.registry.registry import Registry

__all__ = ["STARTER_PACK", "JudgeTemplate", "Pack", "PackTask", "Plugin", "Registry"]
