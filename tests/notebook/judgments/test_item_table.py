"""Labels in one notation, what is judged, and the matrix, on generated cases whose truth is known."""

from __future__ import annotations

import random

from evalkit.notebook.judgments.headline_numbers import confusion_cells
from evalkit.notebook.judgments.item_details import judged_inputs, kind_of_text
from evalkit.notebook.judgments.item_table import Query, Row, in_one_notation, page_of
from evalkit.rubrics import Rubric
from evalkit.rubrics.scales import Scale
from evalkit.tables.messages import value_turns

SCALES = [
    Scale.of({0: "no", 1: "yes"}, pass_at=1),
    Scale.of({0: "no", 1: "nearly", 2: "yes"}, pass_at=2),
    Scale.of({1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}, pass_at=3),
    Scale.of({0: "fine", 1: "slip", 2: "wrong"}, better="low", pass_at=0),
    Scale.of({"bad": "", "so-so": "", "good": ""}, level="nominal", pass_if=["good"]),
    Scale.of({"fail": "", "unsure": "", "pass": ""}, level="nominal", pass_if=["pass"]),
]


def written(code: str, draw: random.Random) -> str:
    """A code as another person, or a table program, writes it."""
    if code.isdigit():
        return draw.choice([code, f"{code}.0", f" {code} ", f"{code},0"])
    return draw.choice([code, code.upper(), code.title()])


def test_each_level_is_counted_once_however_it_is_written():
    """A label means its level, or the only level with its verdict; no label is lost, and each cell finds its items."""
    draw = random.Random(41)
    for case in range(200):
        scale = draw.choice(SCALES)
        passing = {code: bool(scale.passed(scale.codes[at])) for at, code in enumerate(scale.labels)}
        shares = draw.choice([(1, 0), (0, 1), (1, 1)])
        means: dict[str, str | bool] = {}
        for _ in range(draw.randint(1, 9)):
            if draw.choices([True, False], shares)[0]:
                code = draw.choice(scale.labels)
                means[written(code, draw)] = code
            else:
                verdict = draw.choice([True, False])
                word = str(verdict)
                means[draw.choice([word, word.lower(), word.upper()])] = verdict
        read = in_one_notation(means, scale)
        of_verdict = {passed: [code for code in passing if passing[code] == passed] for passed in (True, False)}
        only_verdicts = all(isinstance(meant, bool) for meant in means.values())
        plain = only_verdicts and max(map(len, of_verdict.values())) > 1
        for text, meant in means.items():
            if isinstance(meant, str):
                expected = meant
            elif plain:
                expected = "pass" if meant else "fail"
            else:
                expected = of_verdict[meant][0] if len(of_verdict[meant]) == 1 else ("pass" if meant else "fail")
            assert read[text] == expected, (case, scale.labels, text)

        juries = [draw.choice([*scale.labels, None]) for _ in means]
        rows = [
            Row(
                str(at),
                "",
                {"who": read[text], "not counted": "x"},
                False,
                jury,
                passing.get(jury),
                "ok",
                (),
                None,
                "",
                None,
                None,
                counted={"who": read[text]},
            )
            for at, (text, jury) in enumerate(zip(means, juries, strict=True))
        ]
        cells = confusion_cells(rows, scale)
        humans = list(dict.fromkeys(cell.human for cell in cells))
        assert len({(cell.human, cell.jury, cell.verdict) for cell in cells}) == len(cells)
        assert sum(cell.n for cell in cells) == len(rows)
        if not plain:
            assert [human for human in humans if human in scale.labels] == sorted(
                scale.labels, key=lambda code: (passing[code], scale.labels.index(code))
            )
            assert {*humans} - {*scale.labels} <= {"pass", "fail"}
        verdicts = [next(cell.human_passed for cell in cells if cell.human == human) for human in humans]
        assert verdicts == sorted(verdicts, key=bool)  # what fails stands above what passes
        for cell in (one for one in cells if one.n):  # the others cannot be pressed
            found = page_of(rows, Query(cell=(cell.human, cell.jury, cell.verdict)), size=99)
            assert found.n == cell.n, (case, cell)


def test_a_page_knows_its_place_and_all_annotators():
    rows = [
        Row(f"{at:03d}", f"text {at}", {f"p{at % 3}": "1"}, False, "1", True, "ok", (), None, "", None, None)
        for at in range(53)
    ]
    for order, first in (("file", "025"), ("item", "025")):
        page = page_of(rows, Query(sort=order, down=False, page=1))
        assert (page.start, page.rows[0].item_id, page.annotators) == (25, first, ["p0", "p1", "p2"])


def test_what_is_judged_is_the_answer_or_what_the_question_names_first():
    def judged(inputs: list[str], question: str = "", about: str = "") -> list[str]:
        criteria = [{"name": "c", "description": question, "scale": {0: "n", 1: "y"}}]
        rubric = Rubric(id="r", description=about, inputs=inputs, criteria=criteria)
        return judged_inputs(rubric, "c", inputs)

    assert judged(["question", "answer", "context"]) == ["answer"]
    assert judged(["question", "answer_a", "answer_b"]) == ["answer_a", "answer_b"]
    assert judged(["diff", "comment"], "Is what the comment says true of the diff?") == ["comment"]
    assert judged(["comment", "diff"], "Does the diff do what the comment asks?") == ["diff"]
    assert judged(["source", "summary"], "Is it true?", "A summary of a source.") == ["summary"]
    assert judged(["source_text", "target_text"], "Is the target text fluent?") == ["target_text"]
    assert judged(["source", "target"], "Is it fluent?") == ["target"]
    assert judged(["tool", "calls"], "Are toolkits named?") == ["calls"]  # whole words only


TEXTS = {
    "diff": ["@@ -1,2 +1,2 @@\n-a\n+b", "diff --git a/x b/x\nindex 1..2", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a"],
    "json": ['{"a": 1}', "[1, 2]", '  {"name": "x",\n "steps": []}\n'],
    "code": [
        "def f(x):\n    return x + 1",
        "import os\n\nfor name in os.listdir():\n    print(name)",
        "function f(a) {\n  return a;\n}",
        "SELECT a, b\nFROM t\nWHERE a = 1;",
        "const a = 1;\nlet b = a => a + 1;",
        "#include <stdio.h>\nint main() {\n  return 0;\n}",
        "<div>\n  <p>Hello</p>\n</div>",
        "x = 1\ny = x + 2\nprint(y)",
    ],
    "text": [
        "", "One line.", "x = 2", "# Title\n\n- first\n- second\n\nAnd a sentence.",
        "1. First, do this.\n2. Then do that.",
        "Dear all,\n\nwe return the form for you to sign.\nFor questions, ask me.\n\nBest,\nAnna",
        "Use this:\n\n```python\nx = 1\n```\nIt works.", "[see the appendix]", "{name} is missing",
        "From here on it rains.\nWhere it stops nobody knows.",
        "| a | b |\n| --- | --- |\n| 1 | 2 |", "If it rains, stay in.\nIf not, go out.\nWhile there, call me.",
    ],
}  # fmt: skip


def test_code_diffs_and_json_are_told_from_texts():
    for kind, texts in TEXTS.items():
        for text in texts:
            assert kind_of_text(text) == kind, text


def test_conversations_are_told_from_other_texts():
    chat = [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]
    numbered = [(1, "user", "Is it on?"), (2, "assistant", "Yes.")]
    assert value_turns(chat) == value_turns(chat, "conversation") == numbered
    assert [who for _, who, _ in value_turns("Human: a\n\nAI: b\nmore\nHuman: c")] == ["Human", "AI", "Human"]
    assert value_turns("**User:** a\n**Assistant:** b") == [(1, "User", "a"), (2, "Assistant", "b")]
    for other in (None, 3, "", "User: only one line", "An introduction.\nUser: a\nAssistant: b", ["a", "b"], {"a": 1}):
        assert value_turns(other) == [], other
    assert value_turns({"messages": chat}, "conversation") == []  # around the messages stand fields that nothing reads
    # a message with a call has two turns, and one number: that of its step
    call = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "a", "content": "on"}
    log = [chat[0], {"role": "assistant", "content": "I look.", "tool_calls": [call]}, result, chat[1]]
    assert [number for number, *_ in value_turns(log)] == [1, 2, 2, 3, 4]
