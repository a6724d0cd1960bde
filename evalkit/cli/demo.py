"""`evalkit demo`."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Its parser."""
    add_command(commands, "demo", _demo, "judge the bundled examples offline: what evalkit does, in a minute")


def _demo(_: argparse.Namespace) -> None:
    from evalkit.cli.demonstration import run

    run()
