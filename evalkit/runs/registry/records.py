"""Plugins and judge templates as frozen records; `model_validate` reads one from its row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from evalkit.errors import RegistryError


class EntryError(RegistryError):
    """The registry has no such entry, or the code of a plugin is missing or changed; the database itself works."""


class Record(BaseModel):
    """Something with a name and a version, which are unique together: letters, digits, dots, dashes, underscores."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    name: str
    version: str

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"


class Plugin(Record):
    """A registered judge plugin.

    Attributes
    ----------
    plugin_type
        ``task``, ``metric`` or ``bundle``.
    storage_uri
        The source of its code: dotted package path, or file or folder.
    content_hash
        sha256 of its files at registration; checked at each run.
    requirements
        What its package requires, as in ``Requires-Dist``.
    created_at
        When it was registered (UTC).
    """

    plugin_type: str
    storage_uri: str
    content_hash: str
    requirements: tuple[str, ...]
    created_at: datetime


class JudgeTemplate(Record):
    """A registered judge template; its label is the ``judge_template_id`` of configs; versions are ``v1``, ``v2`` …

    Attributes
    ----------
    prompt_template
        The Jinja source, as in ``rubrics/templates/``.
    response_schema
        JSON schema of the reply, or None for the schema of the rubric's scale.
    content_hash
        sha256 of the source, as in reply keys.
    created_at
        When it was registered (UTC).
    """

    prompt_template: str
    response_schema: dict[str, Any] | None
    content_hash: str
    created_at: datetime
