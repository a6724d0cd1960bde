"""Projects to start from: `new_plugin` writes one that works as it is."""

from evalkit.runs.plugin_template.projects import new_plugin

__all__ = ["new_plugin"]
