"""One item in full: inputs, prompt, and each judge's replies, explanations and vote."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.images import Image, image_in
from evalkit.engine import replies
from evalkit.errors import CacheMiss, EvalkitError, InputError
from evalkit.evaluation import Evaluation
from evalkit.rubrics import Rubric, build_prompt
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.scales import Scale
from evalkit.tables.files import records
from evalkit.tables.message_files import marks_in
from evalkit.tables.message_forms import shown_value
from evalkit.tables.messages import image_urls, messages_of, value_text, value_turns


def item_detail(
    evaluation: Evaluation, item_id: str, criterion: str, cache: Path | str | None = None
) -> dict[str, Any]:
    """One item as the tuner shows it, as plain values; texts are escaped when they are drawn, not here.

    Parameters
    ----------
    evaluation
        The evaluation.
    item_id, criterion
        Which item and criterion.
    cache
        The cache folder that holds the raw replies.

    Returns
    -------
    dict
        ``jury`` and ``passed``, its label and verdict; ``inputs`` and ``forms`` (see `item_texts`), ``prompt``,
        ``judges`` (name, vote, samples with label, explanation, error, reply).
    """
    items, rubric = evaluation.items, evaluation.rubric
    item = items[items["item_id"] == item_id].iloc[0]
    try:
        prompt = "" if evaluation.spec is None else str(build_prompt(rubric, item, criterion, inputs=evaluation.inputs))
    except EvalkitError as problem:
        prompt = f"({problem})"
    judged = evaluation.judgments
    mine = judged[(judged["item_id"] == item_id) & (judged["criterion"] == criterion)]
    try:
        mine = mine.assign(reply=replies(mine, cache=cache).to_numpy(dtype=object))
    except CacheMiss:
        mine = mine.assign(reply=None)  # they are in another cache
    votes, scores = (
        table[((table["item_id"] == item_id) & (table["criterion"] == criterion)).to_numpy()]
        for table in (evaluation.votes, evaluation.scores)
    )
    jury = next(iter(records(scores[["label", "passed"]])), {"label": None, "passed": None})
    judges = [_judge(vote, mine) for vote in records(votes)]
    texts = item_texts(items, evaluation.input_columns, item_id, rubric, criterion)
    jury = {"jury": jury["label"], "passed": jury["passed"]}
    return {"item_id": item_id, "criterion": criterion, **jury, **texts, "prompt": prompt, "judges": judges}


def side_by_side(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> dict[str, Any]:
    """The judges of an item in two versions: those of `now` with `before` and whether their replies are the `same`.

    ``gone`` has the judges that only `before` has.
    """
    old = {judge["judge"]: judge for judge in before}
    judges = []
    for judge in now:
        last = old.pop(judge["judge"], None)
        sides = [side["samples"] for side in (judge, last) if side]
        replies = [[(sample["reply"], sample["label"], sample["error"]) for sample in side] for side in sides]
        judges.append(judge | {"before": last, "same": len(replies) == 2 and replies[0] == replies[1]})
    return {"judges": judges, "gone": list(old.values())}


def item_texts(
    items: pd.DataFrame, columns: Mapping[str, str], item_id: str, rubric: Rubric, criterion: str
) -> dict[str, Any]:
    """What an item has: ``inputs`` (name and text), ``forms`` (how each is shown), ``levels`` (see `levels_of`).

    `columns` maps the inputs of the rubric to columns. A form is the ``kind`` (see `kind_of_text`), the ``turns`` of a
    conversation, whether the input is ``judged``, its ``images`` (see `images_of`), and the ``links`` to others.
    """
    item, judged = items[items["item_id"] == item_id].iloc[0], judged_inputs(rubric, criterion, list(columns))
    values = {name: (item[column], value_text(item[column], name)) for name, column in columns.items()}
    forms = {
        name: {
            "kind": kind_of_text(text),
            "turns": value_turns(value, name),
            "judged": name in judged,
            "images": _first(images_of(value)),
            "links": links_of(shown_value(value))[:_MOST_IMAGES],
        }
        for name, (value, text) in values.items()
    }
    levels = levels_of(
        scale_of_item(rubric.criterion(criterion), {name: item[column] for name, column in columns.items()})
    )
    inputs = [(name, text) for name, (_, text) in values.items() if text]
    return {"inputs": inputs, "forms": forms, "levels": levels}


def scale_of_item(criterion: Criterion, values: Mapping[str, Any]) -> Scale:
    """The scale of a criterion, with the item's own steps where these are its levels: numbered as judges see them."""
    name = criterion.steps_of
    if name is None:
        return criterion.scale
    with contextlib.suppress(InputError):  # what judges are not shown has no steps
        return criterion.of_item({name: messages_of(values[name])}).scale
    return criterion.of_item({}).scale


_MOST_IMAGES, _MOST_DATA = 12, 4_000_000  # of an input; they are sent with each item that is opened
_MEDIA = {"iVBORw0KGgo": "png", "/9j/": "jpeg", "R0lGOD": "gif", r"UklGR[\w+/]{6}XRUJQ": "webp"}  # RIFF holds sound too
_ADDRESS = re.compile(r"https?://\S+?(?=[\s,]*$|,?\s|,\s*https?://)", re.IGNORECASE)  # one may hold commas
_KINDS = {start[:4]: kind for start, kind in _MEDIA.items()}
_IMAGE = re.compile(rf"(?<![\w+/])(?:{'|'.join(_MEDIA)})[\w+/]{{40,{_MOST_DATA}}}={{0,2}}(?![\w+/])", re.ASCII)


def _first(images: list[str]) -> list[str]:
    sizes = accumulate(map(len, images))
    return [image for image, size in zip(images, sizes, strict=True) if size <= _MOST_DATA][:_MOST_IMAGES]


def images_of(value: Any) -> list[str]:
    """The images that a value of an item holds as base64, as addresses with data; no address is loaded.

    Examples
    --------
    >>> data = "iVBORw0KGgo" + "A" * 60
    >>> found = images_of([{"type": "image", "source": {"media_type": "image/png", "data": data}}, "a text"])
    >>> found == [f"data:image/png;base64,{data}"], images_of({"url": "https://example.org/a.png"})
    (True, [])
    >>> sound, picture = "UklGRugDAABXQVZF" + "A" * 60, "UklGRugDAABXRUJQ" + "A" * 60
    >>> images_of([sound, picture]) == [f"data:image/webp;base64,{picture}"]
    True
    """
    image = value if isinstance(value, Image) else image_in(value)
    if image is not None:
        return image_urls(image, _MOST_DATA)
    if isinstance(value, str):
        return [f"data:image/{_KINDS[match[0][:4]]};base64,{match[0]}" for match in _IMAGE.finditer(value)]
    elements = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [image for element in elements for image in images_of(element)]


def links_of(value: Any) -> list[str]:
    """The addresses of images in a value of `shown_value`, which are not loaded.

    Examples
    --------
    >>> links_of(shown_value([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "a text"]))
    ['https://example.org/a.png']
    """
    images = (mark["unseen"] for mark in marks_in(value) if mark["type"] == "image")
    return [address for image in images for address in _ADDRESS.findall(image)]


def judged_inputs(rubric: Rubric, criterion: str, names: Sequence[str]) -> list[str]:
    """The inputs that a criterion judges, of those that the items have.

    The answer, or both answers of a pair; else the input that the criterion's question, or the rubric's description,
    names first; else the last one.

    Examples
    --------
    >>> from evalkit.rubrics import load_rubric
    >>> judged_inputs(load_rubric("faithfulness"), "faithfulness", ["question", "answer", "context"])
    ['answer']
    """
    if answers := [name for name in ("answer", "answer_a", "answer_b") if name in names]:
        return answers
    for text in (rubric.criterion(criterion).description, rubric.description):
        words = re.sub(r"[_\W]+", " ", text.casefold())
        places = [(f" {words} ".find(f" {name.casefold().replace('_', ' ')} "), name) for name in names]
        if mentions := sorted(place_and_name for place_and_name in places if place_and_name[0] >= 0):
            return [mentions[0][1]]
    return list(names[-1:])


_LONGEST_TEXT, _SHOWN_TEXT = 2_000, 400
_DIFF = re.compile(r"^(diff --git |@@ .*@@|Index: |--- \S.*\n\+\+\+ )", re.MULTILINE)
_CODE = re.compile(
    r"""\s*(?:[\w.\[\]"']+\s*[-+*/|&]?=\s*\S|[\w.]+\(.*\)[;:]?\s*$|[})\]]+[;,)]*\s*$|@\w|//|/\*|\#include|</?\w+[^>]*>\s*$
    |(?:def|class|import|from|return|if|elif|else|for|while|try|except|finally|with|raise|async|await|const|let|var
    |function|public|private|static|export|package|using|namespace|struct|enum|fn|func|impl|pub|use|SELECT|INSERT|UPDATE
    |DELETE|CREATE|ALTER|FROM|WHERE|JOIN|Traceback)\b.*[:;({,)\w]\s*$)|.*[;{}]\s*$|.*=>\s*\S""",
    re.VERBOSE,
)
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s|.*[.!?]\s*$")


def kind_of_text(text: str) -> str:
    r"""``diff``, ``json``, ``code`` (all three keep their lines and a fixed width) or ``text``.

    Examples
    --------
    >>> kind_of_text("@@ -1 +1 @@\n-a\n+b"), kind_of_text('{"a": [1]}'), kind_of_text("def f(x):\n    return x")
    ('diff', 'json', 'code')
    >>> kind_of_text("# Title\n\n- one\n- two"), kind_of_text("Is x = 2?")
    ('text', 'text')
    """
    if _DIFF.search(text):
        return "diff"
    if text.lstrip()[:1] in ("{", "["):
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
        else:
            return "json"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or "```" in text:  # a text with code in it is a text
        return "text"
    n_code = sum(bool(_CODE.match(line)) and not _BULLET.match(line) for line in lines)
    return "code" if 2 * n_code >= len(lines) else "text"


def row_texts(evaluation: Evaluation) -> list[dict[str, str]]:
    """The inputs that each item has, cut; of a diff only the changed lines."""
    items, columns = evaluation.items, evaluation.input_columns
    texts: list[dict[str, str]] = [{} for _ in range(len(items))]
    for name, column in columns.items():
        for row, value in zip(texts, items[column].tolist(), strict=True):
            if text := value_text(value, name):
                head = text[:_LONGEST_TEXT]
                if _DIFF.search(head):
                    head = "  ".join(re.findall(r"^(?:\+(?!\+)|-(?!-)).*", head, re.MULTILINE))
                row[name] = " ".join(head.split())[:_SHOWN_TEXT]
    return texts


def level_keys(scale: Scale) -> list[str]:
    """The keys that label an item, in the order of the levels; empty where all digits are taken.

    A code that is a digit is its own key. The other levels have the other digits, from 1 on, and 0 at last.

    Examples
    --------
    >>> from evalkit.rubrics import load_rubric
    >>> [level_keys(load_rubric(name).criteria[0].scale) for name in ("faithfulness", "preference")]
    [['0', '1', '2'], ['1', '2', '3']]
    >>> level_keys(Scale.of({-1: "rude", 0: "neutral", 1: "friendly"}))
    ['2', '0', '1']
    """
    free = iter([digit for digit in "1234567890" if digit not in scale.labels])
    return [code if code in [*"1234567890"] else next(free, "") for code in scale.labels]


def levels_of(scale: Scale) -> list[tuple[str, str, str]]:
    """The levels of a scale as code, text and key."""
    return list(zip(scale.labels, map(str, scale.values()), level_keys(scale), strict=True))


def _judge(vote: Mapping[str, Any], judgments: pd.DataFrame) -> dict[str, Any]:
    mine = judgments[(judgments["judge"] == vote["judge"]).to_numpy()]
    names = ["order", "label", "passed", "explanation", "error", "reply", "source"]
    samples = list(records(mine[names + ["pass_prob"] * ("pass_prob" in mine)]))
    verdict = {name: vote[name] for name in ("judge", "label", "score", "passed", "reason")}
    return verdict | {"score": verdict["score"] and round(verdict["score"], 2), "samples": samples}
