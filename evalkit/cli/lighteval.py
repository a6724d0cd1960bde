"""`evalkit lighteval`: LightEval's own command line, with evalkit's tasks and checks."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command, add_value

_ABOUT = """\
Everything after `lighteval` goes to LightEval's own command line; `evalkit lighteval COMMAND --help` shows its options.
evalkit adds its tasks (--custom-tasks evalkit.lighteval.plugin, unless you name others), and checks judges, keys
and data before a model is loaded.

  --reuse-answers            take the model's stored answers of earlier runs. LightEval's cache looks at the model's
                             name and settings, not at weights, code, commit, or what a server runs.

who judges, by variables:
  EVALUATOR_SCORING_MODE     deterministic (default) | judge | jury
  EVALUATOR_SCORING_CONFIG   {"judges": [{"judge_model_name": "gpt-4o-mini", "judge_backend": "openai"}]}

as in:
  EVALUATOR_SCORING_MODE=judge \\
  EVALUATOR_SCORING_CONFIG='{"judges": [{"judge_model_name": "strict", "judge_backend": "fake"}]}' \\
  evalkit lighteval accelerate "model_name=…" "safety_guardrail|0" --output-dir out --save-details
"""


def add(commands: Commands) -> None:
    """Its parser: it explains the command; `passed_on` takes the arguments of all other calls."""
    parser = add_command(commands, "lighteval", _run, "LightEval's command line, with evalkit's tasks, judges, checks")
    parser.description = "Run LightEval's command line with evalkit's tasks, judges and checks."
    parser.epilog = _ABOUT
    add_value(parser, "arguments", "ARGUMENT", "LightEval's command and its arguments", nargs=argparse.REMAINDER)


def passed_on(given: list[str]) -> argparse.Namespace | None:
    """The command with its arguments unchanged; None if evalkit's own parser reads them."""
    asks_for_help = len(given) == 1 or given[1] in ("-h", "--help")
    return None if asks_for_help else argparse.Namespace(handler=_run, arguments=given[1:])


def _run(args: argparse.Namespace) -> int:
    from evalkit.lighteval.lighteval_main import launch

    return launch(args.arguments or ["--help"])
