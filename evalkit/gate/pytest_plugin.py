"""The pytest plugin: ``def test_x(verdict): verdict.check(item, "faithfulness", min_score=0.85)``.

pytest loads it in every project where evalkit is installed, so it imports evalkit only when a test uses the fixture.
Judge, samples and cache are resolved as in the gate: option > ``VERDICT_…`` variable > `check` > default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from evalkit.core.judge_settings import JUDGE_SETTINGS  # loads no other library

if TYPE_CHECKING:
    from evalkit.gate import Trace
    from evalkit.gate.judgment import Judgment
    from evalkit.gate.results_and_exit_code import Measured, MetricResult

_OPTIONS: dict[str, tuple[str, Any, str]] = {
    **{
        setting.flag.removeprefix("judge-"): (setting.metavar, setting.of_flag, setting.text)
        for setting in JUDGE_SETTINGS.values()
    },
    "judge": ("JUDGE", str, "provider:model, fake, profile (all its judges), or none (default; makes no calls)"),
    "profile": ("PROFILE", str, "profile: name or .yaml file (judges, samples, rules)"),
    "cache": ("CACHE", str, "cache folder (default: EVALKIT_CACHE, else the project's)"),
    "budget-usd": ("USD", float, "spend at most this on live calls, per process"),
    "max-calls": ("N", int, "make at most N calls per check"),
    "concurrency": ("N", int, "at most N calls in flight for one service, model and key"),
    "retries": ("N", int, "retries of a failed call"),
    "requests-per-minute": ("N", float, "at most N requests per minute for one service, model and key"),
    "tokens-per-minute": ("N", float, "at most N tokens per minute for one service, model and key"),
}
_COUNTED = ("checks", "judgments", "live", "cost_usd", "n_unpriced")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--verdict-…``."""
    group = parser.getgroup("verdict", "judge metrics (evalkit)")
    for name, (metavar, kind, text) in _OPTIONS.items():
        group.addoption(f"--verdict-{name}", metavar=metavar, type=kind, help=text)
    group.addoption("--verdict-refresh", action="store_true", help="judge again, without recorded and cached judgments")
    group.addoption("--verdict-strict", action="store_true", help="a check also fails if its samples differ")


def pytest_configure(config: pytest.Config) -> None:
    """Start the counters."""
    config.stash[_TALLY] = dict.fromkeys(_COUNTED, 0.0)


_TALLY: pytest.StashKey[dict[str, float]] = pytest.StashKey()


class Verdict:
    """Judge checks in one test; the fixture `verdict` returns it."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        self._config, self._name = config, name

    def check(
        self,
        item: Mapping[str, Any] | Trace,
        rubric: str,
        *,
        min_score: float | Mapping[str, float] | None = None,
        min_points: float | Mapping[str, float] | None = None,
        rubric_version: str | None = None,
        samples: int | None = None,
    ) -> Judgment:
        """Fail the test unless the score of the item reaches `min_score`.

        Parameters
        ----------
        item
            The inputs of the rubric by name, such as ``{"question": …, "answer": …, "context": …}``, or a trace.
        rubric
            The id of a rubric, such as ``faithfulness``; or ``criteria``: those that the item brings, in its field
            ``criteria``. To use a profile, pass ``--verdict-profile``.
        min_score
            The lowest score that passes, 0-1, or criterion -> the lowest score of this criterion that passes; None:
            the verdict must be "passed".
        min_points
            For ``criteria``: the lowest share of the points that passes, or axis -> that of this axis.
        rubric_version, samples
            As in the gate's ``expected``.

        Returns
        -------
        Judgment
            Score, samples, agreement, explanation.

        Raises
        ------
        pytest.fail.Exception
            If the item fails or cannot be judged; the message contains the reason, samples and agreement.
        """
        from evalkit.errors import EvalkitError
        from evalkit.gate import GateConfig, run_gate

        __tracebackhide__ = True
        expected = {"type": rubric, "min_score": min_score, "min_points": min_points}
        expected |= {"rubric_version": rubric_version, "samples": samples}
        given = {name: value for name, value in expected.items() if value is not None}
        given |= {name: dict(value) for name, value in given.items() if isinstance(value, Mapping)}
        try:
            tests: list[Any] = [{"id": self._name, "expected": _checked(given, rubric)}]
            result = run_gate(GateConfig(tests=tests), [self._trace(item)], self._options())
        except EvalkitError as problem:
            what = rubric if isinstance(rubric, str) else self._name
            pytest.fail(f"{what}: could not be judged: {problem}", pytrace=False)
        (metric,) = result.tests[0].metrics
        measured = metric.measured[0]
        self._count(measured, result.cost_usd)
        if metric.status in ("error", "fail") or (metric.status != "pass" and result.strict):
            pytest.fail(_report(metric), pytrace=False)
        assert measured.judgment is not None
        return measured.judgment

    def _trace(self, item: Mapping[str, Any] | Trace) -> Trace:
        from dataclasses import replace

        from evalkit.core.validation_errors import validated
        from evalkit.errors import InputError
        from evalkit.gate import Trace
        from evalkit.gate.config import CheckedItem

        if isinstance(item, Trace):
            return replace(item, line=1, request_id=self._name, attempt=None)
        try:
            fields = dict(item.items())  # a row of a table has them, too
        except AttributeError:
            kind = type(item).__name__
            raise InputError(f"expected a mapping with the inputs of the rubric, or a Trace; got {kind}") from None
        values = validated(CheckedItem, fields, "the item", InputError)
        context = None if values.context is None else tuple(values.context)
        return Trace(1, self._name, values.question, context, values.answer, inputs=values.model_extra)

    def _options(self) -> Any:
        from evalkit.gate.precedence import PytestOptions

        names = [*_OPTIONS, "refresh", "strict"]
        options = {name.replace("-", "_"): self._config.getoption(f"--verdict-{name}") for name in names}
        options = {name: value for name, value in options.items() if value is not None}
        if "budget_usd" in options:
            options["budget_usd"] = max(0.0, options["budget_usd"] - self._config.stash[_TALLY]["cost_usd"])
        return PytestOptions(**options)

    def _count(self, measured: Measured, cost_usd: float | None) -> None:
        tally, judgment = self._config.stash[_TALLY], measured.judgment
        tally["checks"] += 1
        tally["judgments"] += judgment is not None and judgment.error is None
        tally["live"] += judgment is not None and judgment.source == "live"
        tally["cost_usd"] += cost_usd or 0.0
        tally["n_unpriced"] += cost_usd is None


def _checked(given: dict[str, Any], rubric: object) -> dict[str, Any]:
    """The expectation; InputError for invalid values, with the argument names of `Verdict.check`."""
    from evalkit.core.validation_errors import validated
    from evalkit.errors import InputError
    from evalkit.gate.checks import CHECKS
    from evalkit.gate.config import Expected

    if not isinstance(rubric, str):
        name = type(rubric).__name__
        advice = "to use a profile, pass --verdict-profile" if name == "Profile" else "pass its id"
        raise InputError(f"verdict.check expected the id of a rubric, such as 'faithfulness', got a {name}; {advice}")
    if rubric in CHECKS:
        raise InputError(f"{rubric!r} is a check without a judge; use a plain assert, or evalkit ci")
    validated(Expected, given, "verdict.check", InputError)
    return given


def _report(metric: MetricResult) -> str:
    from evalkit.gate.results_and_exit_code import explanations

    lines, judgment = [f"{metric.status}: {metric.type}: {metric.message}"], metric.measured[0].judgment
    if judgment is not None and judgment.samples:
        scored = [one for one in judgment.samples if one is not None]
        points = metric.measured[0].points
        n_scored = len(scored) if points is None else points["all"]["n_scored"]
        counts = f"{n_scored} of {len(judgment.samples)} scored, {sum(scored)} passed"
        agreement = "NA" if judgment.agreement is None else judgment.agreement
        what = "samples" if points is None else "criteria"
        lines.append(f"{what}: {counts}; agreement {agreement}; from {judgment.source}, by {judgment.judge}")
    return "\n".join([*lines, *explanations(metric.measured[0], metric.min_score)])


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """Judge metrics in a test: ``verdict.check(item, "faithfulness", min_score=0.85)`` (evalkit)."""
    return Verdict(request.config, request.node.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's counts to the main process (pytest-xdist)."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        counts = session.config.stash[_TALLY]
        output["verdict"] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001  # pytest-xdist's own names
    """Add the counts of a worker (pytest-xdist)."""
    counted = getattr(node, "workeroutput", {}).get("verdict", {})
    tally = node.config.stash[_TALLY]
    for name, value in counted.items():
        tally[name] += value


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line: how many checks, how many were judged, what they cost."""
    tally = config.stash[_TALLY]
    if not tally["checks"]:
        return
    from evalkit.core.formatting import money

    cost = money(None if tally["n_unpriced"] else tally["cost_usd"], "price unknown")
    terminalreporter.write_line(
        f"verdict: {tally['checks']:.0f} checks, {tally['judgments']:.0f} judged, {tally['live']:.0f} of them live "
        f"({cost})"
    )
