"""What goes to the person at the terminal beside the data: one line each, on stderr."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from evalkit.errors import EvalkitWarning

__all__ = ["one_line", "spoken", "tell", "warnings_told"]

# Options of the Python functions that are flags here. Their values may be a text, a number, True or a gap.
_FLAGS = (
    "across_modes|adopt|aggregate|apply|budget_usd|cache|concurrency|export_to|item_id|items|keep_generations|labels|max_calls|"
    "min_self_agreement|offline|on_miss|quorum|recorded|refresh|retries|rubric|samples|template|ties|unscored"
)
_JUDGE_FLAG = re.compile(r"\bJudge\((api_key_env|base_url|max_tokens|temperature)=…\)")
_FLAG = re.compile(rf"(?<![\w-])({_FLAGS})=('[^']*'|[\d.]+(?<!\.)|True|…)?")
_PHRASES = {
    "profile.with_rubric(rubric)": "--rubric",
    "ek.engine.replies(judgments)": "the replies (evalkit judge … --replies)",
    "ek.explain(evaluation.judgments) says": "the lines below say",
    "the same call": "the same command",
    "pass evaluations (they hold the scores)": "name folders of 'evalkit evaluate --out'",
    "give a Rubric, a Profile, or the name or path of one": "name a rubric",
}


def tell(text: str) -> None:
    """One line on stderr, marked as evalkit's."""
    print(f"evalkit: {one_line(text)}", file=sys.stderr)


def one_line(text: str) -> str:
    r"""Text of others in one line that does not steer the terminal.

    Examples
    --------
    >>> one_line("a\x1b[2Jb\nc")
    'a�[2Jb c'
    """
    line = " ".join(text.split())
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)


def spoken(text: str) -> str:
    """A message of the Python functions in the words of the command line.

    Examples
    --------
    >>> spoken("judge again with refresh='unscored', or offline=True")
    'judge again with --refresh unscored, or --offline'
    >>> spoken("set Judge(api_key_env=…), or name another column with item_id=")
    'set --judge-api-key-env, or name another column with --item-id'
    """
    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    text = _JUDGE_FLAG.sub(lambda found: f"--judge-{found[1].replace('_', '-')}", text)
    return _FLAG.sub(_flag, text)


def _flag(found: re.Match[str]) -> str:
    name = f"--{found[1].replace('_', '-')}"
    value = (found[2] or "").strip("'")
    return name if value in ("", "True", "…") else f"{name} {value}"


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(f"warning: {spoken(record.getMessage())}")


@contextlib.contextmanager
def warnings_told() -> Iterator[None]:
    """Inside, evalkit's warnings and log become lines on stderr, each said once."""
    log, handler, said = logging.getLogger("evalkit"), _Handler(logging.WARNING), set[str]()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, EvalkitWarning):
                others(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                tell(f"warning: {spoken(str(message))}")

        warnings.simplefilter("always", EvalkitWarning)
        warnings.showwarning = show
        propagate, log.propagate = log.propagate, False
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = propagate
