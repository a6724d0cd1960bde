"""Rubric: what is judged, by which criteria and template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self, cast

import pandas as pd
from pydantic import Field, PrivateAttr, field_validator, model_validator

from evalkit.core.formatting import html_text
from evalkit.core.lists_of_choices import Layout, RubricMode
from evalkit.core.reply_keys import Params, digest
from evalkit.errors import RubricError, counted, error_at, guess, listed
from evalkit.rubrics import files
from evalkit.rubrics.criteria import TOOL_RESULT, Criterion, FileModel
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.linting import findings
from evalkit.rubrics.scales import code_text
from evalkit.tables.items import ItemsLike, as_items, canonical

_VERSION = re.compile(r"v[1-9][0-9]*")
_TEMPLATE = re.compile(rf"{files.ID.pattern}(@{_VERSION.pattern})?")
_INPUT = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\??")
REQUIREMENT = "requirement"
"""The input that holds an item's own criterion: it is part of the task, and several may share a call."""
OWN_CRITERIA = "criteria"
"""The name under which ``inputs=`` maps the column of all criteria of an item, which become rows."""
_RESERVED = frozenset({"rubric", "criterion", "fence", "item_id", "group_id", "system_id"})


class Rubric(FileModel):
    """A versioned set of criteria, with the inputs that they need and the template of the prompt.

    Attributes
    ----------
    id, version
        ``support``, ``v3``. A saved version never changes.
    description
        The question of the whole rubric; part of the prompt.
    mode
        ``pointwise``, or ``pairwise``: two answers (``answer_a``, ``answer_b``) are compared.
    inputs
        Columns of the items that the prompt shows. An input whose name ends in ``?`` is optional.
    template
        ``name@version``, or ``name`` for the newest.
    layout
        ``rubric_first`` (default; lets providers cache the beginning of the prompt) or ``item_first``.
    images
        Optional: ``last 1`` shows judges only the last image of an item, ``last 3`` three; the prompt marks the others.
    criteria
        One or more `Criterion`, names unique.
    pass_at
        Optional: the rubric passes at this combined score (0-1), instead of when every criterion does.
    limits
        Optional: ``{"tool_result": 4000}``, the most characters of a text in a tool's result among messages. What is
        longer is cut in its middle; the prompt says so there, and `cut_chars` of judgments counts it.

    Raises
    ------
    RubricError
        When something is missing, unknown or contradictory.

    Examples
    --------
    >>> criterion = Criterion(name="polite", scale={0: "rude", 1: "polite"}, pass_at=1)
    >>> rubric = Rubric(id="manners", inputs=["answer"], criteria=[criterion])
    >>> rubric.edit("polite", scale={1: "polite, or at least not rude"}).criterion("polite").scale[1]
    'polite, or at least not rude'
    """

    id: str
    version: str = "v1"
    description: str = ""
    mode: RubricMode = "pointwise"
    inputs: tuple[str, ...]
    template: str = "default"
    layout: Layout = "rubric_first"
    pass_at: float | None = Field(default=None, ge=0, le=1, strict=True)
    limits: Params = Params()
    images: str | None = Field(default=None, pattern=r"^last [1-9]\d{0,8}$")
    criteria: tuple[Criterion, ...]
    _saved: str = PrivateAttr(default="")

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._saved = self.content_hash

    @field_validator("id", "version", "template")
    @classmethod
    def _check_names(cls, text: str, info: Any) -> str:
        pattern, form = {
            "id": (files.ID, "lower-case letters, digits, '_' and '-'"),
            "version": (_VERSION, "'v' and a number, such as v1"),
            "template": (_TEMPLATE, "name and version, such as default@v1"),
        }[info.field_name]
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} must consist of {form}")
        if info.field_name == "id" and text in files.RESERVED_NAMES:
            raise ValueError(f"{text!r} is reserved for a folder beside the rubrics; choose another id")
        return text

    @field_validator("inputs")
    @classmethod
    def _check_inputs(cls, inputs: tuple[str, ...]) -> tuple[str, ...]:
        names = [name.removesuffix("?") for name in inputs]
        if not names:
            raise ValueError("inputs is empty; list the item columns that the prompt shows")
        wrong = [name for name in inputs if not _INPUT.fullmatch(name) or name.removesuffix("?") in _RESERVED]
        if wrong:
            raise ValueError(
                f"{listed(wrong)} cannot be the name of an input; use letters, digits and '_', but not "
                f"{listed(_RESERVED)}"
            )
        if len(set(names)) < len(names):
            raise ValueError("duplicate column in inputs")
        return inputs

    @field_validator("limits", mode="before")
    @classmethod
    def _check_limits(cls, limits: Any) -> Params:
        if not isinstance(limits, Mapping) or {*limits} - {TOOL_RESULT}:
            raise ValueError(
                f"expected a mapping with {TOOL_RESULT}, such as {{{TOOL_RESULT}: 4000}}; got {limits!r:.60}"
            )
        if wrong := [value for value in limits.values() if type(value) is not int or value < 1]:
            raise ValueError(f"{TOOL_RESULT} is {wrong[0]!r}; expected a whole number of characters from 1 up")
        return Params(limits)

    @model_validator(mode="after")
    def _check_whole(self) -> Rubric:
        if not self.criteria:
            raise ValueError("criteria is empty; add at least one criterion, with name and scale")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"two criteria have the same name among {listed(self.names)}; rename one")
        if unknown := {criterion.steps_of for criterion in self.criteria} - {None, *self.required_inputs}:
            raise ValueError(f"steps_of names {listed(unknown)}; it must be one of the inputs that every item has")
        if self.mode == "pairwise":
            missing = {"answer_a", "answer_b"} - set(self.required_inputs)
            if missing:
                lost = listed(sorted(missing))
                raise ValueError(f"a pairwise rubric needs the inputs answer_a and answer_b; add {lost}")
            for criterion in self.criteria:
                if criterion.level != "nominal" or not {"A", "B"} <= set(criterion.scale.codes) <= {"A", "B", "tie"}:
                    raise ValueError(
                        f"criterion {criterion.name!r} of a pairwise rubric must have level='nominal' and the codes A, "
                        "B and, optionally, tie"
                    )
        return self

    # -- what it holds
    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """All declared inputs, without the mark of optional ones."""
        return tuple(name.removesuffix("?") for name in self.inputs)

    @cached_property
    def required_inputs(self) -> tuple[str, ...]:
        """The inputs that every item must have."""
        return tuple(name for name in self.inputs if not name.endswith("?"))

    @property
    def most_images(self) -> int | None:
        """How many images of an item judges are shown at most; None: all."""
        return int(self.images.removeprefix("last ")) if self.images else None

    @property
    def has_requirements(self) -> bool:
        """Whether items bring their criteria: there is one criterion, and `REQUIREMENT` among the required inputs."""
        alone = len(self.criteria) == 1 and not self.criteria[0].examples
        is_free = "requirements" not in self.input_names  # the name under which a template sees several
        return alone and is_free and self.mode == "pointwise" and REQUIREMENT in self.required_inputs

    @property
    def mapped_names(self) -> tuple[str, ...]:
        """What ``inputs=`` may map to columns: its inputs, and `OWN_CRITERIA` if items bring theirs."""
        return (*self.input_names, *([OWN_CRITERIA] if self.has_requirements else []))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The criteria's names, in order."""
        return tuple(criterion.name for criterion in self.criteria)

    def criterion(self, name: str | None = None) -> Criterion:
        """The criterion of that name; the name may be omitted if there is only one."""
        if name is None:
            if len(self.criteria) > 1:
                raise RubricError(f"rubric {self.id!r} has several criteria; name one of {listed(self.names)}")
            return self.criteria[0]
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        raise RubricError(
            f"rubric {self.id!r} has no criterion {name!r}; {guess(name, self.names)}available: {listed(self.names)}"
        )

    # -- identity
    @cached_property
    def content_hash(self) -> str:
        """sha256 of everything but id and version."""
        values = self.to_dict()
        del values["id"], values["version"]
        values["criteria"] = [
            criterion | {"scale": [[str(code), text] for code, text in criterion.get("scale", {}).items()]}
            for criterion in values["criteria"]
        ]
        return digest(values)

    @property
    def edited(self) -> bool:
        """True if it differs from the version that was loaded or created."""
        return self.content_hash != self._saved

    @property
    def label(self) -> str:
        """The version as tables show it: ``v3``, or ``v3+1a2b3c4d`` (start of the content hash) when edited."""
        return f"{self.version}+{self.content_hash[:8]}" if self.edited else self.version

    @cached_property
    def prompt_hashes(self) -> dict[str, str]:
        """Criterion -> sha256 of what reaches its prompt; id, version, pass rule and weight do not."""
        shared = {name: getattr(self, name) for name in ("description", "mode", "inputs", "layout")}
        if self.limits:
            shared["limits"] = self.limits
        shared |= {"images": self.images} if self.images else {}  # the hashes of others stay what they were
        hashes = {}
        for criterion in self.criteria:
            content = {name: getattr(criterion, name) for name in ("name", "description", "steps", "level")}
            content |= {name: getattr(criterion.scale, name) for name in ("codes", "texts")}
            if criterion.examples:  # the hashes of others stay what they were
                content["examples"] = [[one["inputs"], one["label"]] for one in criterion.examples]
            if criterion.steps_of:
                content["steps_of"] = criterion.steps_of
            hashes[criterion.name] = digest(shared | {"criterion": content})
        return hashes

    def prompt_hash(self, names: Sequence[str]) -> str:
        """The hash in the key of a reply on these criteria."""
        hashes = [self.prompt_hashes[name] for name in names]
        return hashes[0] if len(hashes) == 1 else digest(hashes)

    def __str__(self) -> str:
        return files.dump_yaml(self.to_dict())

    def _repr_html_(self) -> str:
        return html_text(str(self))

    # -- change
    def to_dict(self) -> dict[str, Any]:
        """The rubric as in its file, defaults left out."""
        values = self._file_values("id", "version", "inputs", "template")
        return values | {"criteria": [criterion.to_dict() for criterion in self.criteria]}

    def edit(self, criterion: str | None = None, **changes: Any) -> Rubric:
        """A changed copy of the same version: of one criterion if it is named, else of the rubric's own keys.

        Parameters
        ----------
        criterion
            Which criterion to change.
        **changes
            Keys of `Criterion` or of `Rubric`; ``scale={1: "…"}`` changes only that level, or adds it if the
            scale has no such code; ``scale={1: None}`` removes it.

        Examples
        --------
        >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
        >>> edited = rubric.edit("c", scale={1: "fully"})
        >>> edited.criterion("c").scale[1], edited.edited, rubric.edited
        ('fully', True, False)
        """
        values = self.to_dict()
        if criterion is not None:
            target = self.criterion(criterion)
            values["criteria"] = [item.edit(**changes) if item is target else item for item in self.criteria]
        else:
            unknown = [name for name in changes if name not in type(self).model_fields]
            if unknown:
                raise RubricError(
                    f"unknown rubric key {listed(unknown)}; allowed: {', '.join(type(self).model_fields)}; to change a "
                    "criterion, pass its name first: rubric.edit('criterion', …)"
                )
            values |= changes
        made = Rubric(**values)
        if (made.id, made.version) == (self.id, self.version):
            made._saved = self._saved
        return made

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; with changed keys, what `edit` returns."""
        return cast(Self, self.edit(**update)) if update else super().model_copy(deep=deep)

    def with_examples(self, examples: pd.DataFrame) -> Rubric:
        """A copy whose prompts show these judged items, in place of earlier examples of the same criteria.

        Parameters
        ----------
        examples
            What `next_labels` returned for ``examples``, or such a table: `criterion`, `label`, and the rubric's
            inputs. Examples are part of the rubric, its version and its keys; other criteria keep their replies.

        Raises
        ------
        RubricError
            For an unknown criterion, a label off the scale, or an example without a required input or with an image.
        """
        made = self
        columns = {name: [*map(canonical, examples[name])] for name in self.input_names if name in examples}
        shown = item_inputs(self, columns, len(examples))
        ids = examples["item_id"].astype(str).tolist() if "item_id" in examples else [""] * len(examples)
        for name in dict.fromkeys(examples["criterion"].astype(str)):
            own = [at for at, criterion in enumerate(examples["criterion"].astype(str)) if criterion == name]
            if lacking := [ids[at] for at in own if not set(self.required_inputs) <= set(shown[at])]:
                raise RubricError(
                    f"examples {listed(lacking)} lack an input of rubric {self.id!r}; it needs "
                    f"{listed(self.required_inputs)}"
                )
            scale, labels = self.criterion(name).scale, examples["label"].tolist()
            codes = [scale.code(label) for label in labels]
            chosen = [
                {"item_id": ids[at], "inputs": shown[at], "label": labels[at] if codes[at] is None else codes[at]}
                for at in own
            ]
            made = made.edit(name, examples=chosen)
        return made

    def without_examples(self, items: ItemsLike) -> pd.DataFrame:
        """The items that are not among the examples: a judge that was shown the label of an item is not asked about it.

        Items are the same if their inputs are.
        """
        frame = as_items(items)
        columns = {name: frame[name].tolist() for name in self.input_names if name in frame}
        others = [inputs not in self.example_inputs for inputs in item_inputs(self, columns, len(frame))]
        return frame.loc[others].reset_index(drop=True)

    @cached_property
    def example_inputs(self) -> list[dict[str, Any]]:
        """The inputs of all examples."""
        return [dict(one["inputs"]) for criterion in self.criteria for one in criterion.examples]

    def diff(self, other: Rubric) -> str:
        """The changes from this rubric to another, in words, one per line; empty if there are none.

        Examples
        --------
        >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
        >>> print(rubric.diff(rubric.edit("c", scale={1: "fully"}, pass_at=1)))
        c: level 1 reads 'fully' instead of 'yes'
        c: pass_at is 1 instead of nothing (verdicts change, replies stay valid)
        """
        return _differences(self, other)

    def lint(self, items: ItemsLike | None = None, *, template: str | None = None) -> pd.DataFrame:
        """Problems to fix before the rubric is used.

        Parameters
        ----------
        items
            Optional: items to be judged; they must have the rubric's inputs.
        template
            Check this template instead of the rubric's.

        Returns
        -------
        pandas.DataFrame
            Columns `severity` (``error``: of the template or the items; ``warning``: about the wording), `where`,
            `message`; empty if there is no problem.
        """
        return findings(self, items, template)

    # -- in files
    @classmethod
    def of_file(cls, path: Path) -> Rubric:
        """The rubric of a YAML file; `load_rubric` takes names too."""
        if not path.exists():
            raise RubricError(f"rubric file not found: {path}")
        # cached by its text: a file written twice within one tick of the clock keeps its time and size
        return _parsed(path, files.read_text(path))

    def save(self, rubrics_folder: str | Path | None = None) -> Rubric:
        """Write the rubric as the next version of its id; existing files never change.

        If its content equals the newest version's, nothing is written. A rubric that was not edited keeps its own
        number if that number is free and the newest.

        Parameters
        ----------
        rubrics_folder
            The folder; by default the first of ``EVALKIT_RUBRICS``, else ``rubrics/`` beside the nearest
            ``pyproject.toml``, else ``rubrics/`` in the working folder.

        Returns
        -------
        Rubric
            The rubric with its version.

        Raises
        ------
        RubricError
            When the folder cannot be written.
        """
        target = files.save_folder(rubrics_folder)
        own = int(self.version[1:])
        while True:
            versions = files.file_versions(self.id, further=[target])
            newest = max(versions, default=0)
            if newest:
                last = Rubric.of_file(versions[newest])
                if last.content_hash == self.content_hash:
                    return last
            number = own if not self.edited and own > newest else max(own if self.edited else 0, newest) + 1
            made = Rubric(**(self.to_dict() | {"version": f"v{number}"}))
            try:
                files.write_new(target / self.id / f"v{number}.yaml", str(made))
            except FileExistsError:
                continue  # another process saved this number first
            return made


@lru_cache(maxsize=256)
def _parsed(path: Path, text: str) -> Rubric:
    values = files.parse_yaml(path, text)
    if not isinstance(values, Mapping):
        raise RubricError(f"{path}: expected a mapping with id, version, inputs and criteria")
    with error_at(str(path), RubricError):
        return Rubric(**{str(key): value for key, value in values.items()})


def _differences(old: Rubric, new: Rubric) -> str:
    """The changes from one rubric to another, one per line; empty if there are none (see `Rubric.diff`)."""
    lines = _changed(
        old, new, ("id", "description", "mode", "inputs", "template", "layout", "pass_at", "limits", "images")
    )
    lines += [f"criterion {name!r} is gone" for name in old.names if name not in new.names]
    lines += [f"criterion {name!r} is new" for name in new.names if name not in old.names]
    for name in new.names:
        if name in old.names:
            lines += [f"{name}: {line}" for line in _of_criterion(old.criterion(name), new.criterion(name))]
    return "\n".join(lines)


def _of_criterion(old: Criterion, new: Criterion) -> list[str]:
    lines = _changed(old, new, ("description", "level", "steps", "steps_of"))
    old_scale, new_scale = dict(old.scale), dict(new.scale)
    lines += [f"level {code_text(code)} is gone" for code in old_scale if code not in new_scale]
    for code, text in new_scale.items():
        if code not in old_scale:
            lines.append(f"level {code_text(code)} is new: {text!r}")
        elif old_scale[code] != text:
            lines.append(f"level {code_text(code)} reads {text!r} instead of {old_scale[code]!r}")
    was, now = ([(one["inputs"], one["label"]) for one in criterion.examples] for criterion in (old, new))
    if was != now:
        n_new, n_gone = sum(one not in was for one in now), sum(one not in now for one in was)
        lines.append(f"{counted(len(now), 'example')} instead of {len(was)}: {n_new} new, {n_gone} gone")
    rules = _changed(old, new, ("pass_at", "pass_if", "better", "weight", "critical"))
    return lines + [f"{line} (verdicts change, replies stay valid)" for line in rules]


def _changed(old: object, new: object, names: tuple[str, ...]) -> list[str]:
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in names}
    return [f"{name} is {_shown(now)} instead of {_shown(was)}" for name, (was, now) in pairs.items() if now != was]


def _shown(value: object) -> str:
    if value is None or value in ("", (), {}):
        return "nothing"
    if isinstance(value, Mapping):
        return str(dict(value))
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return repr(value) if isinstance(value, str) else str(value)
