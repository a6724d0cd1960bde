"""The work list of a call of `judge`: items × criteria × judges × orders × samples, and the key of each row."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import pandas as pd

from evalkit.core.images import Image, image_in
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import SKIPPED, Reason
from evalkit.core.prompts_and_replies import OWN_ANSWER, Prompt
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyMaker, KeyParts, SampleKeys, digest, recorded_hash
from evalkit.engine.judging.specification import Spec
from evalkit.engine.request import TOKENS_PER_CRITERION, ReadReply, Request
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted, guess, listed
from evalkit.readers.foreign_forms import LOOKS_LIKE, looks_like
from evalkit.rubrics import Rubric
from evalkit.rubrics.criteria import Criterion, groups_of
from evalkit.rubrics.inputs import IMAGE_INPUT, QUESTIONS, inputs_by_item, question_of, shown_columns, swapped
from evalkit.rubrics.item_criteria import refuse_other_scales, with_rows
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.tables.items import LIST_INPUTS, ItemsLike, as_frame, as_items
from evalkit.tables.lists_in_texts import hold_lists
from evalkit.tables.message_files import marks_in, media_of_cell
from evalkit.tables.messages import CONVERSATIONS, conversation_value, holds_chats

_LONG, _SHOWN, _LOOKED_AT = 1_000_000, 60, 100
_LACKS = "missing input"
_SHOW_IMAGES = "pass images=True to a judge of openai, anthropic, decisions or systemone whose model takes them"


@dataclass(frozen=True)
class Worklist:
    """All rows that a call of `judge` returns, in order, with their keys.

    A row's number is ``(item · criteria + criterion) · n + slot``, where `slots` has the `n` rows of an item and a
    criterion.
    `ids` are the ids under which replies were recorded for the items. `skipped` has the numbers of
    the items that no judge is asked about, since they lack an input or hold an image, and the reason, `with_images`
    those of the others that are shown with images, to the judges that take some. `own` holds, by
    judge and hash of a question, the judge's own answer and why there is none, for templates that ask for it first;
    keys do not depend on it.
    """

    spec: Spec
    items: pd.DataFrame
    inputs: list[dict[str, Any]]
    ids: Sequence[str]
    skipped: Mapping[int, Reason] = field(default_factory=dict)
    with_images: frozenset[int] = frozenset()
    own: Mapping[tuple[int, str], tuple[str, str | None]] = field(default_factory=dict)
    alone: set[int] = field(default_factory=set)  # rows that a reply on several criteria of their item left unscored
    remarks: tuple[str, ...] = ()
    first: frozenset[str] = frozenset()  # the ids of items that are asked about before the others

    @classmethod
    def of(
        cls, spec: Spec, items: ItemsLike, item_id: str | None = None, *, ids: Sequence[str] = (), quiet: bool = False
    ) -> Worklist:
        """The work list of these items; `ids` are those of their recorded replies, where they differ from `item_id`.

        It warns of inputs that may not be what is meant (see `remarks`), unless it is to be `quiet`.

        Items with criteria of their own become one row per criterion, if the rubric asks for a requirement.

        Raises
        ------
        InputError
            When a column or a value that the rubric needs is missing, when `inputs` names a missing column, and for
            criteria of items with a scale of their own that is not the rubric's.
        """
        with gc_paused():
            rubric = spec.rubric
            items, item_id = with_rows(items, rubric, spec.inputs, item_id)
            column_of = {name: spec.inputs.get(name, name) for name in rubric.input_names}
            frame = as_items(items, item_id=item_id, columns=[*column_of.values(), *(["of_item"] * spec.per_item)])
            has_scales = rubric.has_requirements and "scale" not in column_of.values()
            if has_scales and {"of_item", "scale"} <= {*(rows := as_frame(items)).columns}:
                judged_on = [criterion.scale for criterion in rubric.criteria]
                refuse_other_scales(zip(frame["item_id"], rows["scale"], strict=True), judged_on)
            columns = {
                name: frame[column].tolist()
                for name, column in column_of.items()
                if column in frame.columns and column != "item_id"
            }
            needed = {*rubric.required_inputs, *spec.inputs}
            missing = [name for name in column_of if name in needed and name not in columns]
            if missing and len(frame):
                without_ids = as_frame(items).drop(columns=item_id or "item_id", errors="ignore")
                raise InputError(_missing_columns(spec, missing, without_ids))
            remarks = (*_lists_in_texts(column_of, columns), *_unread_images(items, column_of))
            cells_by_input = shown_columns(rubric, columns)
            inputs = inputs_by_item(cells_by_input, len(frame))
            ids = list(ids) or frame["item_id"].tolist()  # by which the user knows the items, too
            skipped, with_images, more = _check_inputs(ids, cells_by_input, inputs, spec)
            _check_steps(
                [item for number, item in enumerate(zip(ids, inputs, strict=True)) if number not in skipped], spec
            )
            for text in () if quiet else (*remarks, *more):
                warnings.warn(text, EvalkitWarning, stacklevel=3)
            return cls(spec, frame, inputs, ids, skipped, with_images, remarks=(*remarks, *more))

    @cached_property
    def slots(self) -> list[tuple[int, int, int]]:
        """Judge, order and sample of each row of an item and a criterion."""
        orders = range(len(self.spec.orders))
        return [
            (judge, order, sample)
            for judge, n_samples in enumerate(self.spec.counts)
            for order in orders
            for sample in range(n_samples)
        ]

    def with_samples(self, samples: int) -> Worklist:
        """The same work list with another number of samples, the same of each judge."""
        worklist = replace(self, spec=self.spec.with_samples(samples), alone=set())
        cached = ("hashes", "parts", "bundles", "bundle_hashes", "bundle_parts")
        worklist.__dict__.update({name: self.__dict__[name] for name in cached if name in self.__dict__})
        return worklist

    @property
    def n_rows(self) -> int:
        """Number of judgments."""
        return len(self.inputs) * len(self.spec.rubric.criteria) * len(self.slots)

    @property
    def n_asked(self) -> int:
        """Number of judgments without those of skipped items."""
        return sum(map(self.n_asked_of, range(len(self.spec.judges))))

    def n_asked_of(self, judge: int) -> int:
        """Number of one judge's judgments without those of items that are skipped, for all or for it."""
        n_skipped = len(self.skipped) + (0 if self.spec.judges[judge].sees_images else len(self.with_images))
        n_of_item = self.n_rows // max(1, len(self.inputs)) * self.spec.counts[judge] // sum(self.spec.counts)
        return n_of_item * (len(self.inputs) - n_skipped)

    def reason_of(self, row: int) -> Reason | None:
        """Why no judge, or not this one, is asked about the item of a row; None if it is."""
        item, _, judge, _, _ = self.place(row)
        is_unseen = item in self.with_images and not self.spec.judges[judge].sees_images
        return "unseen_image" if is_unseen else self.skipped.get(item)

    @property
    def n_unseen(self) -> int:
        """Number of items that are skipped since they hold an image or a file."""
        return sum(reason != SKIPPED[0] for reason in self.skipped.values())

    @cached_property
    def hashes(self) -> list[list[str]]:
        """Input hash of each item in each order."""
        with gc_paused():
            if self.spec.rubric.mode != "pairwise":
                return [[digest(inputs)] for inputs in self.inputs]
            return [[digest(inputs), digest(swapped(inputs))] for inputs in self.inputs]

    @cached_property
    def bundles(self) -> list[tuple[int, ...]]:
        """For each item number those that one reply judges with it: an item's own criteria, at fixed places."""
        bundles: list[tuple[int, ...]] = [(number,) for number in range(len(self.inputs))]
        if not self.spec.per_item:
            return bundles
        of_item = self.items["of_item"].tolist() if "of_item" in self.items else [None] * len(bundles)
        together: dict[tuple[Any, str], list[int]] = {}
        for number, inputs in enumerate(self.inputs):
            if number not in self.skipped:
                shared = digest({name: value for name, value in inputs.items() if name != REQUIREMENT})
                together.setdefault((of_item[number], shared), []).append(number)
        for numbers in together.values():
            size = self.spec.per_call(len(numbers))
            for first in range(0, len(numbers), size):
                bundle = tuple(numbers[first : first + size])
                for number in bundle:
                    bundles[number] = bundle
        return bundles

    @cached_property
    def bundle_hashes(self) -> list[str]:
        """For each item number the input hash of its bundle."""
        hashes: dict[tuple[int, ...], str] = {}
        for bundle in self.bundles:
            if bundle not in hashes:
                shared = {name: value for name, value in self.inputs[bundle[0]].items() if name != REQUIREMENT}
                texts = [self.inputs[number][REQUIREMENT] for number in bundle] if len(bundle) > 1 else []
                hashes[bundle] = digest(shared | {"requirements": texts}) if texts else self.hashes[bundle[0]][0]
        return [hashes[bundle] for bundle in self.bundles]

    def bundle_of(self, row: int) -> tuple[int, ...]:
        """The item numbers that the reply of a row judges."""
        item = self.place(row)[0]
        return (item,) if row in self.alone else self.bundles[item]

    @property
    def n_unique(self) -> int:
        """Number of items that differ in content."""
        return len({tuple(hashes) for hashes in self.hashes})

    @cached_property
    def clusters(self) -> list[str]:
        """For each item a text that items of equal content share."""
        return [min(hashes) for hashes in self.hashes]

    @cached_property
    def parts(self) -> list[list[KeyParts]]:
        """The key parts that all rows of a criterion and judge have in common, by criterion and judge."""
        rubric, groups = self.spec.rubric, self.spec.groups
        return [
            [
                parts_of_calls(judge, builder, [rubric.criteria[number] for number in group])
                for judge, builder in zip(self.spec.judges, self.spec.prompt_builders, strict=True)
            ]
            for group in groups
        ]

    @cached_property
    def bundle_parts(self) -> list[list[KeyParts]]:
        """As `parts`, of replies on several of an item's own criteria."""
        if not self.spec.per_item:
            return self.parts
        hashes = [digest({"together": builder.together.template.hash}) for builder in self.spec.prompt_builders]
        return [
            [replace(parts, template_hash=text) for parts, text in zip(row, hashes, strict=True)] for row in self.parts
        ]

    def keys(
        self, *, content: bool = False, recorded: bool = False, rows: Container[int] | None = None
    ) -> Iterator[bytes]:
        """The key (32 bytes) of each row, or of each of these, in order; with `content` its content key.

        With `recorded` the keys of the replies that were recorded for each item alone.
        """
        maker_of = KeyMaker if recorded else SampleKeys  # a recorded reply has no seed of its own
        makers = [maker_of(parts.as_dict(), content=content) for row in self.parts for parts in row]
        if self.spec.per_item and not recorded:
            yield from self._keys_of_bundles(makers, content=content, rows=rows)
            return
        orders, counts = self.spec.orders, self.spec.counts
        if not recorded:  # "BA" of (x, y) is the same draw as "AB" of (y, x), swapped before the key
            orders = orders[:1] * len(orders)
        cells = [
            (number, *around)
            for maker, n_samples in zip(makers, counts * len(self.parts), strict=True)
            for number, order in enumerate(orders)
            for around in maker.around(order, range(n_samples))
        ]
        if rows is None and len(cells) == 1:  # most often, and in two thirds of the time
            ((_, head, tail),) = cells
            for hashes, item_id in zip(self.hashes, self.ids, strict=True):
                key_hash = head.copy()
                key_hash.update((recorded_hash(hashes[0], item_id) if recorded else hashes[0]).encode() + tail)
                yield key_hash.digest()
            return
        numbers = count()
        for hashes, item_id in zip(self.hashes, self.ids, strict=True):
            texts = [(recorded_hash(text, item_id) if recorded else text).encode() for text in hashes]
            for order_number, head, tail in cells:
                if rows is None or next(numbers) in rows:
                    key_hash = head.copy()  # as `key_of`, without a call for each of a million rows
                    key_hash.update(texts[order_number] + tail)
                    yield key_hash.digest()

    def _keys_of_bundles(self, makers: Sequence[Any], *, content: bool, rows: Container[int] | None) -> Iterator[bytes]:
        several = [SampleKeys(parts.as_dict(), content=content) for row in self.bundle_parts for parts in row]
        order, counts, numbers = self.spec.orders[0], self.spec.counts * len(self.parts), count()
        for item, bundle in enumerate(self.bundles):
            for alone, together, n_samples in zip(makers, several, counts, strict=True):
                for sample in range(n_samples):
                    row = next(numbers)
                    if rows is None or row in rows:
                        is_several = len(bundle) > 1 and row not in self.alone
                        input_hash = self.bundle_hashes[item] if is_several else self.hashes[item][0]
                        yield from (together if is_several else alone)(input_hash, order, [sample])

    def recorded_hashes(self, item: int) -> list[str]:
        """Input hash of an item's recorded replies in each order."""
        return [recorded_hash(input_hash, self.ids[item]) for input_hash in self.hashes[item]]

    def place(self, row: int) -> tuple[int, int, int, int, int]:
        """Item, criterion, judge, order and sample of a row."""
        cell, slot = divmod(row, len(self.slots))
        item, criterion = divmod(cell, len(self.spec.rubric.criteria))
        return item, criterion, *self.slots[slot]

    def own_answer(self, item: int, judge: int) -> tuple[str, str | None]:
        """A judge's own answer to the question of an item, and why there is none; a text of full length if unknown."""
        limit = self.spec.judges[judge].max_tokens or TOKENS_PER_CRITERION
        return self.own.get((judge, digest(question_of(self.inputs[item]))), ("x" * 4 * limit, None))

    def without_skipped(self, keys: dict[int, bytes]) -> dict[int, bytes]:
        """Rows and their keys without those of skipped items."""
        if not (self.skipped or self.with_images):
            return keys
        return {row: key for row, key in keys.items() if self.reason_of(row) is None}

    def parts_of(self, row: int, *, recorded: bool = False) -> KeyParts:
        """The full key parts of a row; with `recorded` those of the reply recorded for the item alone."""
        item, criterion, judge, order, sample = self.place(row)
        hashes = self.recorded_hashes(item) if recorded else self.hashes[item]
        key_order = self.spec.orders[order if recorded else 0]
        all_parts = self.parts
        if not recorded and len(self.bundle_of(row)) > 1:
            hashes, all_parts = [self.bundle_hashes[item]], self.bundle_parts
        parts = replace(all_parts[criterion][judge], input_hash=hashes[order], order=key_order, sample=sample)
        return parts if recorded else parts.of_sample(sample)

    def requests(self, rows: list[int], read: ReadReply | None = None) -> list[Request]:
        """The requests for these rows; their prompts are rendered when they are sent.

        Samples of one prompt are one request; a prompt that several items share is asked once. `read` is that of each.
        """
        groups = self.spec.groups
        samples_of: dict[tuple[int, int, str], set[int]] = {}
        first: dict[tuple[int, int, str], tuple[tuple[int, ...], int]] = {}
        for row in rows:
            item, criterion, judge, order, sample = self.place(row)
            bundle = (item,) if row in self.alone else self.bundles[item]  # as `bundle_of`
            cell = (
                groups[criterion][0],
                judge,
                self.hashes[item][order] if len(bundle) == 1 else self.bundle_hashes[item],
            )
            samples_of.setdefault(cell, set()).add(sample)
            first.setdefault(cell, (bundle, order))
        all_parts = {1: self.parts, 2: self.bundle_parts}  # of replies on one of an item's own criteria, and on several
        makers = {n: [[SampleKeys(parts.as_dict()) for parts in row] for row in rows] for n, rows in all_parts.items()}
        key_order = self.spec.orders[0]
        requests: list[Request] = []
        for (criterion, judge, input_hash), numbers in samples_of.items():
            bundle, order = first[criterion, judge, input_hash]
            n = min(2, len(bundle))
            samples = tuple(sorted(numbers))
            parts = all_parts[n][criterion][judge].of_input(input_hash, key_order)
            keys = tuple(makers[n][criterion][judge](input_hash, key_order, samples))
            prompt = self._prompt_of(bundle, criterion, judge, order)
            requests.append(Request(self.spec.judges[judge], prompt, parts, samples, keys, read))
        return requests

    def _prompt_of(self, bundle: tuple[int, ...], criterion: int, judge: int, order: int) -> Callable[[], Prompt]:
        """What renders the prompt of a reply on these items, of one content but for an item's own criteria."""
        builder, all_inputs = self.spec.prompt_builders[judge], [self.inputs[item] for item in bundle]
        if len(bundle) > 1:
            return partial(builder.prompt_of_requirements, all_inputs)
        inputs = swapped(all_inputs[0]) if order else all_inputs[0]
        if builder.template.commits:
            inputs = {**inputs, OWN_ANSWER: self.own_answer(bundle[0], judge)[0]}
        group = [self.spec.rubric.criteria[number] for number in self.spec.groups[criterion]]
        if len(group) == 1:
            return partial(builder.prompt, group[0], inputs)
        return partial(builder.prompt_together, group, inputs)


def parts_of_calls(judge: Judge, builder: PromptBuilder, criteria: Sequence[Criterion]) -> KeyParts:
    """The key parts that all items share which a judge is asked about by one prompt for these criteria."""
    return KeyParts(
        provider=judge.provider,
        service=judge.service,
        model=judge.model,
        rubric=builder.rubric.id,
        rubric_version=builder.rubric.version,
        **builder.key_hashes(criteria),
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        params=judge.params,
    )


def rubric_hashes(rubric: Rubric) -> set[str]:
    """What its keys may have as `rubric_hash`, for any number of criteria per reply."""
    criteria = rubric.criteria
    return {
        rubric.prompt_hash([criteria[number].name for number in group])
        for size in range(1, len(criteria) + 1)
        for group in groups_of(criteria, size)
    }


def _missing_columns(spec: Spec, missing: list[str], frame: pd.DataFrame) -> str:
    """The message on inputs of the rubric without a column; `frame` are the items without their ids."""
    columns = [str(name) for name in frame.columns]
    present = f"the items have {listed(columns, most=30)}"
    for name in missing:
        if name in spec.inputs:
            column = spec.inputs[name]
            fact = f"inputs= maps {name!r} to column {column!r}, which the items do not have"
            return f"{fact}; {guess(column, columns)}{present}"
    advice = f"if yours has another name, map it, as in inputs={{{missing[0]!r}: 'your_column'}} (--input)"
    if spec.rubric.has_requirements and REQUIREMENT in missing:
        advice = ("items bring theirs as 'criteria'; for another column of criteria, name it, as in "
                  "inputs={'criteria': 'rubric'} (--input criteria=rubric); if each row holds one statement, as in "
                  "inputs={'requirement': 'text'} (--input requirement=text)")  # fmt: skip
    chats = [name for name, (_, cells) in zip(columns, frame.items(), strict=True) if holds_chats(cells)]
    if chats and {*missing} & {"question", "answer"}:
        advice = (f"{chats[0]!r} holds chats: ek.tables.split_messages(items, {chats[0]!r}) makes questions and "
                  "answers of them; ek.start(items) opens a card that does the same")  # fmt: skip
    if {*missing} & {*CONVERSATIONS}:  # the rows may be those of another program's log
        rows = [row.dropna().to_dict() for _, row in frame.head(_LOOKED_AT).iterrows()]
        form = looks_like(rows)
        if {"role", "content"} <= {*columns}:
            form = (
                f"{LOOKS_LIKE}the messages of one conversation: use ek.load_items([{{'task': '…', 'messages': log}}])"
            )
        is_known = form.startswith(LOOKS_LIKE)
        advice = f"{form}, log being the JSON of the file" if is_known else f"{advice}; of a log, {form}"
    fact = f"rubric {spec.rubric.id!r} needs {counted(len(missing), 'column')} that the items do not have"
    return f"{fact}: {listed(missing)}; {present}; {advice}"


def _unread_images(items: ItemsLike, column_of: Mapping[str, str]) -> Iterator[str]:
    """A remark if items bring images in a column that the rubric does not read."""
    if IMAGE_INPUT in {*column_of, *column_of.values()}:
        return
    cells: Iterable[Any] = ()
    if isinstance(items, pd.DataFrame) and IMAGE_INPUT in items:
        cells = items[IMAGE_INPUT]
    elif isinstance(items, list):
        cells = (item.get(IMAGE_INPUT) for item in items if isinstance(item, Mapping))
    if any(image_in(cell) is not None or (isinstance(cell, str) and media_of_cell(cell) is not None) for cell in cells):
        yield (
            "the items have images in the column 'image', which is no input of the rubric, so no judge is shown them; "
            "add it, as in rubric.edit(inputs=[*rubric.inputs, 'image?'])"
        )


def _lists_in_texts(column_of: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Remarks on inputs that a CSV file made texts: a judge would read one text, with brackets and quotation marks."""
    remarks = []
    for name, values in columns.items():
        is_answer = name.startswith("answer")  # which may be a list in some language
        if name in CONVERSATIONS:  # whose texts with calls or nulls are read as lists
            with contextlib.suppress(InputError):  # which is raised with its row where inputs are read
                values = [conversation_value(value) if isinstance(value, str) else value for value in values]
        example = None if is_answer else hold_lists(values, may_be_lists=name in LIST_INPUTS)
        if example is not None:
            example = example if len(example) <= _SHOWN else f"{example[:_SHOWN]}…"
            where = repr(name) if column_of[name] == name else f"{name!r} (column {column_of[name]!r})"
            remarks.append(
                f"the input {where} holds lists that were written as text, as in {example}; the judges read each as "
                "one text. Pass lists, or save the items as JSONL or parquet"
            )
    return remarks


def _check_inputs(
    ids: list[str], columns: Mapping[str, list[Any]], inputs: list[dict[str, Any]], spec: Spec
) -> tuple[dict[int, Reason], frozenset[int], list[str]]:
    """The numbers of the items that are skipped, and why; those with images; remarks on them, on long and empty inputs.

    InputError for items that lack an input, unless the specification skips them.

    InputError also for items whose label the prompt shows as that of an example.
    """
    examples = spec.rubric.example_inputs
    if examples and (leaked := [item for item, content in zip(ids, inputs, strict=True) if content in examples]):
        fact = f"{counted(len(leaked), 'item')} cannot be judged, because the rubric shows their labels as examples"
        raise InputError(f"{fact}: {listed(leaked, most=5)}; pass rubric.without_examples(items)")
    needed = spec.rubric.required_inputs
    skipped, remarks = dict[int, Reason](), list[str]()
    for text, missing in _missing(columns, inputs, spec).items():
        if missing and spec.on_missing == "raise":
            fact = f"{len(missing)} of {counted(len(ids), 'item has', 'items have')} no {text}"
            advice = (
                "fill it (an empty text counts as a value, an empty cell of a CSV file does not), leave these items"
            )
            advice += " out, or pass on_missing='skip' (--on-missing skip) to count them as unscored"
            raise InputError(f"{fact}: item {listed([ids[number] for number in missing])}; {advice}")
        skipped.update(dict.fromkeys(missing, SKIPPED[0]))
    for number in skipped:
        inputs[number][_LACKS] = True  # no input has this name, so no stored reply belongs to this content
    not_texts = [name for name, cells in columns.items() if not {*map(type, cells)} <= {str}]
    marks_of = {
        number: marks
        for number, row in enumerate(zip(*(columns[name] for name in not_texts), strict=True))
        if number not in skipped and (marks := [*marks_in([*row])])
    }
    unseen, with_images, of_images = _check_images(ids, marks_of, spec)
    skipped |= unseen
    remarks += of_images
    for name, cells in columns.items():
        lengths = list(map(_length if name in not_texts else len, cells))
        numbered = enumerate(lengths if max(lengths, default=0) > _LONG else ())
        long = [ids[number] for number, n in numbered if n > _LONG and number not in skipped]
        empty = [
            ids[number]
            for number, cell in enumerate(cells if name in needed else ())
            if (not cell or (type(cell) is str and cell.isspace())) and number not in skipped
        ]
        gaps = [ids[number] for number, cell in enumerate(cells) if type(cell) is list and {None, ""} & _texts(cell)]
        for items, have, then in (
            (long, "more than a million characters in",
             "few judges read that much, and you pay for all of it; plan shows the cost"),
            (empty, "an empty", "it is judged as an empty text"),
            (gaps, "a list with a missing or empty element in", "the judge sees it; take it out of the list"),
        ):  # fmt: skip
            if items:
                n_items = counted(len(ids), "item has", "items have")
                remarks.append(f"{len(items)} of {n_items} {have} {name!r} (item {listed(items)}); {then}")
    return skipped, with_images, remarks


def _check_images(
    ids: Sequence[str], marks_of: Mapping[int, list[dict[str, str]]], spec: Spec
) -> tuple[dict[int, Reason], frozenset[int], list[str]]:
    """Of the items with images and files, the numbers of those that are skipped, and why; the others; remarks."""
    limit, remarks = spec.rubric.most_images, list[str]()
    to_send = {number: shown_marks(marks, limit) for number, marks in marks_of.items()}
    reasons = {number: unseen_reason(marks, spec.judges) for number, marks in to_send.items()}
    skipped = {number: reason for number, reason in reasons.items() if reason is not None}
    with_images = frozenset(number for number, marks in to_send.items() if marks and number not in skipped)
    if skipped:
        first = min(skipped)
        remarks.append(
            f"{len(skipped)} of {counted(len(ids), 'item has', 'items have')} an image or a file in an input (item "
            f"{listed([ids[number] for number in skipped])}); judges cannot be shown it, so no judge is asked, and the "
            f"item is unscored unless its reply is stored. Item {ids[first]!r}: {_why_unseen(to_send[first])}"
        )
    images = {
        ids[number]: [mark for mark in to_send[number] if isinstance(mark, Image)] for number in sorted(with_images)
    }
    _check_sendable(images, [judge for judge in spec.judges if judge.sees_images])
    if with_images and (blind := [judge.name for judge in spec.judges if not judge.sees_images]):
        names = listed([ids[number] for number in sorted(with_images)])
        remarks.append(
            f"{counted(len(with_images), 'item')} with images (item {names}): unscored for {listed(blind)}, which is "
            f"not shown images; {_SHOW_IMAGES}"
        )
    if n_hidden := sum(len(marks) - len(to_send[number]) for number, marks in marks_of.items()):
        remarks.append(f"{counted(n_hidden, 'image')} not shown, as the rubric has images: {spec.rubric.images}")
    return skipped, with_images, remarks


def _check_sendable(images_of: Mapping[str, list[Image]], judges: Iterable[Judge]) -> None:
    """Raise for images of an item that one of the judges cannot be sent as they are."""
    detailed = [
        item for item, images in images_of.items() if any(image.detail not in (None, "auto") for image in images)
    ]
    for judge in judges:
        provider = PROVIDERS[judge.provider]
        limit = provider.most_images
        if many := [item for item, images in images_of.items() if limit is not None and len(images) > limit]:
            raise ConfigError(
                f"item {listed(many)} has more than {limit} images, the most of a request to judge '{judge.name}'; "
                f"show fewer, as by `images: last {limit}` in the rubric, or ask another judge"
            )
        if detailed and not provider.takes_detail:
            raise InputError(
                f"item {listed(detailed)} names the detail of an image, which the provider {judge.provider!r} does not "
                "know; take `detail` out of the image parts, or use judges of openai or decisions"
            )


def _why_unseen(marks: list[dict[str, str]]) -> str:
    """Why judges are not shown the first of an item's files that they are not shown."""
    for mark in marks:
        if mark["type"] != "image":
            return f"evalkit sends no {mark['type']}; write what judges need as text"
        if not isinstance(mark, Image):
            return f"{mark['unseen']} is no image in the item; pass its bytes, and evalkit fetches no address"
        if mark.problem:
            return f"{mark['unseen']}: {mark.problem}"
    return f"no judge is shown images; {_SHOW_IMAGES}"


def _check_steps(items: list[tuple[str, dict[str, Any]]], spec: Spec) -> None:
    """InputError for items without a step, if a criterion has an item's steps as its levels."""
    for criterion in [criterion for criterion in spec.rubric.criteria if criterion.steps_of]:
        if lacking := [item for item, inputs in items if len(criterion.of_item(inputs).scale) < 2]:
            raise InputError(
                f"{counted(len(lacking), 'item has', 'items have')} no step in {criterion.steps_of!r}: item "
                f"{listed(lacking, most=5)}; pass messages with one of an assistant, or of somebody with a name"
            )


def _missing(columns: Mapping[str, list[Any]], inputs: list[dict[str, Any]], spec: Spec) -> dict[str, list[int]]:
    """The numbers of the items that lack an input, or a question to answer first, by what they lack."""
    missing = {
        f"{name!r}, which rubric {spec.rubric.id!r} needs": [
            number for number, cell in enumerate(columns.get(name, ())) if cell is None
        ]
        for name in spec.rubric.required_inputs
    }
    if all(builder.template.commits for builder in spec.prompt_builders):
        text = f"question, which template {spec.prompt_builders[0].template.label} asks first"
        missing[text] = [n for n, item in enumerate(inputs) if question_of(item).keys().isdisjoint(QUESTIONS)]
    return missing


def shown_marks(marks: list[dict[str, str]], limit: int | None) -> list[dict[str, str]]:
    """The marks of an item's files, and of its images the last `limit`."""
    images = [mark for mark in marks if mark["type"] == "image"]
    hidden = [] if limit is None else images[:-limit]
    return [mark for mark in marks if not any(mark is image for image in hidden)]


def unseen_reason(marks: list[dict[str, str]], judges: Sequence[Judge]) -> Reason | None:
    """Why no judge is asked about an item with these images and files; None if one is shown them."""
    if any(mark["type"] != "image" for mark in marks):
        return "unseen_image" if marks[0]["type"] == "image" else "unseen_file"
    is_readable = all(isinstance(mark, Image) and mark.header is not None for mark in marks)
    is_seen = not marks or (is_readable and any(judge.sees_images for judge in judges))
    return None if is_seen else "unseen_image"


def _texts(values: list[Any]) -> set[str | None]:
    """The texts of a list, without spaces at the ends, and None for what is missing in it."""
    return {
        value.strip() if isinstance(value, str) else None for value in values if value is None or type(value) is str
    }


def _length(value: Any) -> int:
    """The number of characters of a text, or of all texts in a list or mapping."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list):
        value = [*value, *value.values()] if isinstance(value, Mapping) else ()
    return sum(map(_length, value))


@contextmanager
def gc_paused() -> Iterator[None]:
    """Switch the garbage collector off inside: building a million small objects would start it over and over.

    After it, what was built counts as old without a look at each object: hardly any is in a cycle.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # what the user has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
