"""Key parts and replies for the tests of the cache, and Python processes of their own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache import ReplyStore

BASE = KeyParts(
    provider="openai",
    service="api.openai.com",
    model="gpt-4o-mini",
    rubric="support",
    rubric_version="v1",
    rubric_hash="a" * 64,
    template_hash="b" * 64,
    temperature=1.0,
    max_tokens=512,
    params={},
)


def parts(number: int = 0, sample: int = 0, **changes: Any) -> KeyParts:
    """Key parts of input `number`; `changes` are shared parts."""
    input_hash = hashlib.sha256(b"input %d" % number).hexdigest()
    return replace(BASE, **changes, input_hash=input_hash, sample=sample)


def reply(text: str | None = "2", created: float = 1000.0, **fields: Any) -> Reply:
    """A reply received at `created`."""
    return Reply(text, created=created, **fields)


BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]
"""The databases that a store may have."""
in_a_file = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
"""Marks a test that is about the file alone."""


def opened(request: pytest.FixtureRequest, folder: Path) -> ReplyStore:
    """A store of the kind that a fixture's parameter names."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return ReplyStore.open(folder)
    from postgres import fresh_database

    return ReplyStore.open(
        fresh_database(request.getfixturevalue("postgres_url"), f"{folder.parent.name}-{folder.name}")
    )


def rows_of(store: ReplyStore, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query, whatever the store's database is."""
    with store.database.reading() as connection:
        return [] if connection is None else list(connection.execute(sql, parameters))


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run code in a Python process of its own, with this project and these tests on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(code: str, *arguments: object) -> str:
    """What a Python process printed; an error of it is this test's."""
    process = python(code, *arguments)
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out
