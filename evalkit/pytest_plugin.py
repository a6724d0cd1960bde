"""The pytest plugin: ``def test_x(verdict): verdict.check(item, "faithfulness", min_score=0.85)``.

pytest loads it in every project where evalkit is installed, so nothing of evalkit is imported before a test asks for
the fixture. Judge, samples and cache are those of the gate: option > ``VERDICT_…`` variable > `check` > default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evalkit.gate import Judgment, Measured, Trace

__all__ = ["Verdict", "verdict"]

_TEXTS = {
    "judge": "who judges: provider:model, fake, profile (all judges of the profile), or none (default): what is "
    "recorded or cached",
    "model": "model for a judge that names only its provider",
    "base-url": "OpenAI-compatible server",
    "api-key-env": "environment variable that holds the key",
    "profile": "profile: name or .yaml file (judges, samples, rules)",
    "cache": "cache folder (default: EVALKIT_CACHE, else the project's)",
}
_FLAG = re.compile(r"--(judge-[a-z-]+|judge|budget-usd|profile)\b(?!-)")
_COUNTED = ("checks", "judgments", "live", "cost_usd", "n_unpriced")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--verdict-…``."""
    group = parser.getgroup("verdict", "judge metrics (evalkit)")
    for name, text in _TEXTS.items():
        group.addoption(f"--verdict-{name}", metavar=name.upper(), help=text)
    group.addoption("--verdict-samples", metavar="K", type=int, help="samples a judge and check (default 3)")
    group.addoption("--verdict-budget-usd", metavar="USD", type=float, help="spend no more on live calls (a process)")
    group.addoption("--verdict-refresh", action="store_true", help="ask again, whatever the cache holds")
    group.addoption("--verdict-strict", action="store_true", help="samples that differ fail a check, too")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_TALLY] = dict.fromkeys(_COUNTED, 0.0)


_TALLY: pytest.StashKey[dict[str, float]] = pytest.StashKey()


class Verdict:
    """Checks of one test; the fixture `verdict` gives it."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        self._config, self._name = config, name

    def check(
        self,
        item: Mapping[str, Any] | Trace,
        rubric: str,
        *,
        min_score: float | None = None,
        rubric_version: str | None = None,
        samples: int | None = None,
    ) -> Judgment:
        """Fail the test unless a judge's score of the item reaches `min_score`.

        Parameters
        ----------
        item
            ``{"question": …, "answer": …, "context": …}`` and what else the rubric reads, or a trace.
        rubric
            Its id, such as ``faithfulness``.
        min_score
            Least score, 0-1; None: the verdict has to be "passed".
        rubric_version, samples
            As in the gate's ``expected``.

        Returns
        -------
        Judgment
            Score, samples, agreement, explanation.

        Raises
        ------
        pytest.fail.Exception
            When the item fails, or could not be judged; the message says which, and how sure the judge is.
        """
        from evalkit.errors import EvalkitError
        from evalkit.gate import GateConfig, run_gate

        __tracebackhide__ = True
        expected = {"type": rubric, "min_score": min_score, "rubric_version": rubric_version, "samples": samples}
        given = {name: value for name, value in expected.items() if value is not None}
        try:
            tests: list[Any] = [{"id": self._name, "expected": given}]
            result = run_gate(GateConfig(tests=tests), [self._trace(item)], self._options())
        except EvalkitError as problem:
            pytest.fail(f"{rubric}: could not be judged: {_spoken(str(problem))}", pytrace=False)
        measured = result.tests[0].metrics[0].measured[0]
        self._count(measured, result.cost_usd)
        status = result.tests[0].status
        if status in ("error", "fail") or (status != "pass" and result.strict):
            pytest.fail(_said(rubric, status, _spoken(result.tests[0].message), measured), pytrace=False)
        assert measured.judgment is not None
        return measured.judgment

    def _trace(self, item: Mapping[str, Any] | Trace) -> Trace:
        from evalkit.errors import InputError
        from evalkit.gate import Trace

        if isinstance(item, Trace):
            return Trace(1, self._name, item.prompt, item.context, item.answer, None, item.recorded, item.extra)
        missing = [name for name in ("question", "answer") if not isinstance(item.get(name), str)]
        if missing:
            raise InputError(f"the item has no text in {' and '.join(map(repr, missing))}; it has {', '.join(item)}")
        context = item.get("context")
        texts = None if context is None else (context,) if isinstance(context, str) else tuple(context)
        extra = {name: value for name, value in item.items() if name not in ("question", "answer", "context")}
        return Trace(1, self._name, item["question"], texts, item["answer"], extra=extra)

    def _options(self) -> Any:
        from evalkit.gate import GateOptions

        option = self._config.getoption
        cache, budget = option("--verdict-cache"), option("--verdict-budget-usd")
        if budget is not None:
            budget = max(0.0, budget - self._config.stash[_TALLY]["cost_usd"])
        return GateOptions(
            judge=option("--verdict-judge"),
            model=option("--verdict-model"),
            samples=option("--verdict-samples"),
            base_url=option("--verdict-base-url"),
            api_key_env=option("--verdict-api-key-env"),
            profile=option("--verdict-profile"),
            refresh=option("--verdict-refresh"),
            strict=option("--verdict-strict"),
            budget_usd=budget,
            cache=None if cache is None else Path(cache),
        )

    def _count(self, measured: Measured, cost_usd: float | None) -> None:
        tally, judgment = self._config.stash[_TALLY], measured.judgment
        tally["checks"] += 1
        tally["judgments"] += judgment is not None and judgment.error is None
        tally["live"] += judgment is not None and judgment.source == "live"
        tally["cost_usd"] += cost_usd or 0.0
        tally["n_unpriced"] += cost_usd is None


def _spoken(text: str) -> str:
    """A message of the gate in the options of pytest."""
    return _FLAG.sub(lambda found: f"--verdict-{found[1].removeprefix('judge-')}", text)


def _said(rubric: str, status: str, message: str, measured: Measured) -> str:
    lines = [f"{status}: {message}" if message.startswith(rubric) else f"{status}: {rubric}: {message}"]
    judgment = measured.judgment
    if judgment is not None and judgment.samples:
        scored = [one for one in judgment.samples if one is not None]
        lines.append(
            f"samples: {len(scored)} of {len(judgment.samples)} scored, {sum(scored)} passed; "
            f"agreement {'NA' if judgment.agreement is None else judgment.agreement}; from {judgment.source}, "
            f"by {judgment.judge}"
        )
    if judgment is not None and judgment.rationale:
        lines.append(f"the judge: {judgment.rationale}")
    return "\n".join(lines)


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """Judge metrics in a test: ``verdict.check(item, "faithfulness", min_score=0.85)`` (evalkit)."""
    return Verdict(request.config, request.node.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's counts to the process that started it (pytest-xdist)."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        tally = session.config.stash[_TALLY]
        output["verdict"] = {**tally}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001  # pytest-xdist's own names
    """Add a worker's counts."""
    counted = getattr(node, "workeroutput", {}).get("verdict", {})
    tally = node.config.stash[_TALLY]
    for name, value in counted.items():
        tally[name] += value


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line: how many checks, how many were judged, what they cost."""
    tally = config.stash[_TALLY]
    if not tally["checks"]:
        return
    cost = "price unknown" if tally["n_unpriced"] else f"US$ {tally['cost_usd']:.4f}"
    terminalreporter.write_line(
        f"verdict: {tally['checks']:.0f} checks, {tally['judgments']:.0f} judged, {tally['live']:.0f} of them live "
        f"({cost})"
    )
