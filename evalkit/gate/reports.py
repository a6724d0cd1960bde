"""The result of a gate as JUnit, Markdown, JSON and text, without times and paths: equal results, equal bytes."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from evalkit.core.formatting import money
from evalkit.core.printable_text import printable
from evalkit.errors import counted
from evalkit.gate.results_and_exit_code import STATUSES, GateResult, Measured, TestResult, explanations

_NO_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_LINE, _PAGE = 200, 600  # characters shown of a text
_BAD = ("fail", "flaky", "warn")


def as_json(result: GateResult) -> bytes:
    """The whole result as JSON; `baseline` in a configuration reads it."""
    values: dict[str, Any] = {"schema_version": 1, "type": "verdict.result", "config": result.name}
    values |= {name: getattr(result, name) for name in ("exit_code", "strict", "counts", "cost_usd")}
    values |= {"tests": [_test(test) for test in result.tests], "suite": [asdict(suite) for suite in result.suites]}
    values["notes"] = list(result.notes)
    return orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _test(test: TestResult) -> dict[str, Any]:
    metrics = [
        {name: getattr(metric, name) for name in ("type", "status", "message", "min_score", "sources")}
        | {"judgments": [_judgment(one) for one in metric.measured if one.judgment is not None]}
        for metric in test.metrics
    ]
    return {"id": test.id, "status": test.status, "message": test.message, **dict(_texts(test)), "metrics": metrics}


def _texts(test: TestResult) -> list[tuple[str, str | None]]:
    return [("prompt", test.prompt), ("answer", test.answer)]


def _judgment(one: Measured) -> dict[str, Any]:
    assert one.judgment is not None
    names = ("rubric_version", "passed", "score", "source", "agreement", "judge", "verdict_key", "cost_usd", "error")
    values = {name: getattr(one.judgment, name) for name in (*names, "rationale")}
    values |= {"samples": list(one.judgment.samples), "line": one.line, "attempt": one.attempt}
    values["criteria"] = {name: asdict(criterion) for name, criterion in one.judgment.criteria.items()}
    values |= {} if one.points is None else {"points": one.points}
    return values | {"status": one.status, "input_hash": one.input_hash}


def as_junit(result: GateResult) -> bytes:
    """JUnit XML: a test case per test and suite bound; with `strict`, flaky and warned ones are failures.

    Flaky and warned tests that do not fail, and all bounds, have their message in ``system-out``. The properties say
    who judged.
    """
    cases = [_case(result, test.id, test.status, test.message, _detail(test)) for test in result.tests]
    bounds = [(f"{suite.name} ({suite.type})", suite.status, suite.message) for suite in result.suites]
    cases += [_case(result, *bound, "", is_bound=True) for bound in bounds]
    failures, errors = (str(sum(case.find(tag) is not None for case in cases)) for tag in ("failure", "error"))
    figures = {"tests": str(len(cases)), "failures": failures, "errors": errors}
    root = ET.Element("testsuites", {"name": "evalkit", **figures})
    of_suite = ET.SubElement(root, "testsuite", {"name": _xml(result.name) or "gate", **figures, "skipped": "0"})
    if result.judges:
        properties = ET.SubElement(of_suite, "properties")
        for (type_, judges), ids in result.judges.items():
            value = _xml(f"{judges}: {counted(len(ids), 'test')}")
            ET.SubElement(properties, "property", {"name": f"judged by ({_xml(type_)})", "value": value})
    of_suite.extend(cases)
    ET.indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _case(
    result: GateResult, name: str, status: str, message: str, detail: str, *, is_bound: bool = False
) -> ET.Element:
    case = ET.Element("testcase", {"classname": _xml(result.name) or "gate", "name": _xml(name)})
    failing = _BAD if result.strict else ("fail",)
    if status == "error" or status in failing:
        tag = "error" if status == "error" else "failure"
        ET.SubElement(case, tag, {"message": _xml(message), "type": status}).text = _xml(detail or message)
    elif status != "pass" or is_bound:
        ET.SubElement(case, "system-out").text = _xml(f"{status}: {message}\n{detail}".rstrip())
    return case


def _detail(test: TestResult) -> str:
    """Each metric with the source of its judgment and what the judges wrote; for repeats also each status."""
    lines = []
    for metric in test.metrics:
        lines.append(f"{metric.type}: {metric.status}: {metric.message}")
        for one in metric.measured:
            source = None if one.judgment is None else one.judgment.source
            explained = [] if source is None else list(explanations(one, metric.min_score)) or ["no explanation"]
            repeat = "" if one.attempt is None else f", attempt {one.attempt}"
            head = f"  line {one.line}{repeat}" + ("" if source is None else f", from {source}")
            if len(metric.measured) > 1:
                lines += [f"{head}: {one.status}: {one.message}", *(f"    {text}" for text in explained)]
            else:
                lines += [f"{head}: {text}" for text in explained]
    return "\n".join(lines)


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def as_markdown(result: GateResult) -> str:
    """A page for a pull request: counts, tests that did not pass, passed tests (folded), the source of each setting."""
    verdict = {0: "passed", 1: "failed", 2: "could not be decided"}[result.exit_code]
    lines = [f"# Gate {_cell(result.name or 'evalkit')}: {verdict}", "", f"{_counted(result)}."]
    lines += [f"\n> {_cell(note)}" for note in result.notes]
    if result.suites:
        lines += ["", "| suite bound | metric | status | result |", "| --- | --- | --- | --- |"]
        lines += [f"| {one.name} | {_cell(one.type)} | {one.status} | {_cell(one.message)} |" for one in result.suites]
    if result.judges:
        lines += ["", "| metric | judged by | tests |", "| --- | --- | --- |"]
        lines += [f"| {_cell(type_)} | {_cell(by)} | {len(ids)} |" for (type_, by), ids in result.judges.items()]
    bad = [test for test in result.tests if test.status != "pass"]
    good = [test for test in result.tests if test.status == "pass"]
    lines += _table(bad)
    if good:
        lines += ["", f"<details><summary>{len(good)} pass</summary>", *_table(good), "", "</details>"]
    for test in bad:
        if test.prompt is not None:
            lines += ["", f"## {_cell(test.id)}: {test.status}", ""]
            lines += [f"- {name}: {_cell(_short(text, _PAGE))}" for name, text in _texts(test) if text is not None]
            details = [(len(line) - len(line.lstrip()), line.strip()) for line in _detail(test).split("\n")]
            lines += [f"{' ' * depth}- {_cell(line)}" for depth, line in details]
    return "\n".join([*lines, *_settings(result)]) + "\n"


def _table(tests: list[TestResult]) -> list[str]:
    rows = [f"| {_cell(test.id)} | {test.status} | {_cell(test.message)} |" for test in tests]
    return ["", "| test | status | why |", "| --- | --- | --- |", *rows] if rows else []


def _short(text: str, most: int) -> str:
    """A text in one line, truncated if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _settings(result: GateResult) -> list[str]:
    sources: dict[tuple[str, str], dict[str, None]] = {}
    for test in result.tests:
        for metric in test.metrics:
            for name, place in metric.sources.items():
                sources.setdefault((metric.type, name), {})[place] = None
    if not sources:
        return []
    rows = [f"| {_cell(type_)} | {name} | {_cell(', '.join(places))} |" for (type_, name), places in sources.items()]
    return ["", "## Source of each setting", "", "| metric | setting | source |", "| --- | --- | --- |", *rows]


def _cell(text: str) -> str:
    """Text in one line, escaped so that it cannot become markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", " ".join(text.split()))


def _counted(result: GateResult) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in result.counts.items() if count)
    n = len(result.tests)
    bounds = [sum(one.status == status for one in result.suites) for status in STATUSES]
    suite = ", ".join(f"{count} {status}" for status, count in zip(STATUSES, bounds, strict=True) if count)
    tests = f"{counted(n, 'test')}: {counts or 'nothing to check'}"
    cost = money(result.cost_usd, "unknown")
    return tests + (f"; suite: {suite}" if suite else "") + ("" if result.cost_usd == 0 else f"; paid now: {cost}")


def _explanations(test: TestResult) -> list[str]:
    """What the judges wrote, of the first repeat with the worst status of each metric that has the test's status."""
    texts = list[str]()
    for metric in test.metrics:
        if metric.status == test.status and metric.measured:
            first = min(metric.measured, key=lambda one: STATUSES.index(one.status))
            texts += explanations(first, metric.min_score)
    return [f"       {_short(text, _LINE)}" for text in texts]


def as_text(result: GateResult) -> str:
    """For a terminal: tests that did not pass, then the counts."""
    lines = []
    for test in result.tests:
        if test.status != "pass":
            lines += [f"{test.status:5}  {test.id}: {test.message}", *_explanations(test)]
    lines += [f"{one.status:5}  {one.name} ({one.type}): {one.message}" for one in result.suites]
    lines.append(_counted(result))
    return printable("\n".join(" ".join(line.split("\n")) for line in lines))
