"""`evalkit freeze`."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.reading_and_printing import put_either
from evalkit.cli.settings_from_flags import rules_of, spec_arguments
from evalkit.cli.stderr_messages import note

_USAGE = "NAME.yaml (--rubric R | --profile P) --judge J [--judge J …] [options]"
_END = """\
  evalkit freeze support.yaml --rubric faithfulness --judge openai:gpt-4o-mini --samples 5 --vote majority
  evalkit freeze strict-support.yaml --profile strict --rubric faithfulness --judge openai:gpt-4o-mini"""


def add(commands: Commands) -> None:
    """Its parser."""
    text = "write rubric, judges, samples and rules to a profile, for use elsewhere"
    parser = add_command(commands, "freeze", _freeze, text, _END, _USAGE)
    add_value(parser, "path", "NAME.yaml", "the new file; an existing file is never overwritten")
    parser.add_what()
    parser.add_rules()
    add_flags(parser, "json", "quiet")


def _freeze(args: argparse.Namespace) -> None:
    from evalkit.evaluation.freeze_and_calibrate import write_profile

    profile = write_profile(args.path, **spec_arguments(args), **rules_of(args))
    note(args, f"wrote profile {profile.profile} to {args.path}; use it with --profile {args.path}")
    put_either(args, profile.to_dict(), str(profile).rstrip())
