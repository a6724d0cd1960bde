"""Templates, and the prompts built from them: the item's texts between delimiters, and the hash of its inputs.

Templates are sandboxed Jinja files whose hash is that of their source; `sandbox` says what they may contain.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from evalkit.core.prompts_and_replies import OWN_ANSWER, Message, Prompt
from evalkit.core.reply_keys import digest
from evalkit.errors import RubricError, error_at, guess, listed
from evalkit.rubrics.criteria import TOOL_RESULT
from evalkit.rubrics.decision_questions import FORM, answers_of
from evalkit.rubrics.files import file_versions, read_text, rubric_folders
from evalkit.tables.items import canonical_text
from evalkit.tables.message_files import attached, is_unseen
from evalkit.tables.message_forms import read_messages, shown_value
from evalkit.tables.messages import as_json, content_text, turns

if TYPE_CHECKING:
    from pathlib import Path

    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.parsing import Parsed
    from evalkit.rubrics.rubric import Rubric
    from evalkit.rubrics.template_sandbox import Syntax

_HEADER = re.compile(r"\A\s*\{#-?\s*evalkit\b(.*?)-?#\}", re.DOTALL)
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]*)(?:@v([1-9][0-9]*))?")
_LONGEST = 100_000  # characters of a source
_VISIBLE = frozenset({"rubric", "criterion", "fence"})
_STEADY = {"rubric", "criterion"}
_TOGETHER = {
    "default": "together@v1",
    "pairwise": "together@v1",
    "requirement": "requirements@v1",
}  # for several criteria in one prompt
_OF_REQUIREMENT = ("requirement", "decision_requirement")
_MARK = secrets.token_hex(16)  # around the name of an input whose fenced text goes there


@dataclass(frozen=True)
class Template:
    """A prompt template.

    Attributes
    ----------
    name, version
        ``default``, ``v1``.
    source
        The Jinja source.
    form
        The form of the reply, from the file's header.
    """

    name: str
    version: str
    source: str
    form: str

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    @cached_property
    def hash(self) -> str:
        """sha256 of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @cached_property
    def commits(self) -> bool:
        """Whether a judge answers the question first, as the block `commit` asks."""
        return "commit" in self._syntax.reads

    @classmethod
    def of_file(cls, label: str, path: Path) -> Template:
        """A template ``name@version`` from its file; see `of`."""
        name, _, version = label.rpartition("@")
        return cls.of(name, version, read_text(path))

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, name: str, version: str, source: str) -> Template:
        """A template from its source.

        Raises
        ------
        RubricError
            When the header is missing or invalid, or the source too long.
        """
        from evalkit.rubrics.parsing import check_form

        source = canonical_text(source)
        with error_at(f"template {name}@{version}", RubricError):
            header_match = _HEADER.match(source)
            if not header_match:
                raise RubricError(
                    "the header is missing; a template starts with three lines: '{#- evalkit', 'form: json' (or "
                    "another form) and '-#}'"
                )
            lines = [line.partition(":") for line in header_match[1].strip().splitlines() if line.strip()]
            header = {key.strip(): value.strip() for key, _, value in lines}
            if len(header) < len(lines):
                raise RubricError("its header names a key twice; keep one of the lines")
            form = header.pop("form", "")
            check_form(form)
            if unknown := header.keys() - {"description"}:
                raise RubricError(f"unknown header key {listed(sorted(unknown))}; allowed: form, description")
            if len(source) > _LONGEST:
                raise RubricError(f"its text has {len(source):,} characters; at most {_LONGEST:,} are allowed")
        return cls(name, version, source, form)

    def __reduce__(self) -> tuple[type[Template], tuple[str, str, str, str]]:
        return Template, (self.name, self.version, self.source, self.form)

    @cached_property
    def _syntax(self) -> Syntax:
        from jinja2 import TemplateSyntaxError

        from evalkit.rubrics.template_sandbox import compiled

        try:
            return compiled(self.source)
        except TemplateSyntaxError as problem:
            raise RubricError(f"template {self.label}, line {problem.lineno}: {problem.message}") from None
        except (SyntaxError, RecursionError, ValueError) as problem:  # nested too deeply; a number of 5,000 digits
            raise RubricError(f"template {self.label} cannot be read: {problem}") from None

    def blocks(
        self, variables: Mapping[str, Any], fence: Callable[[str], str], known: dict[str, list[str]] | None = None
    ) -> dict[str, str]:
        """The rendered blocks by name; a template without blocks is one `user` block.

        Parameters
        ----------
        variables
            The variables that the template sees.
        fence
            What it calls for the fenced text of an input.
        known
            Blocks already rendered for the same rubric, criterion and set of inputs: texts, and between them the names
            of the inputs that are fenced there. Blocks that show nothing else of the item are taken from it, and added
            to it: rendering them takes longer than evalkit's other work on a call.

        Raises
        ------
        RubricError
            When the template uses a name that it does not see.
        """
        known = {} if known is None else known
        if known.keys() >= self._syntax.reads.keys():
            return {name: _filled(texts, fence) for name, texts in known.items()}
        from evalkit.rubrics.template_sandbox import ERRORS, WORK_PER_CHARACTER, metered

        def marked(name: str) -> str:
            return f"{_MARK}{name}{_MARK}" if fence(name) else ""

        template, rendered = self._syntax.template, {}
        try:
            with metered(variables, len(self.source)):
                for name, render in (template.blocks or {"user": template.root_render_func}).items():
                    if name not in known and not self._syntax.reads[name] & {*(set(variables) - _STEADY), "fence"}:
                        context = template.new_context({**variables, "fence": marked})
                        texts = "".join(render(context)).strip("\n").split(_MARK)
                        if not texts[1::2] or max(map(texts.count, texts[1::2])) <= WORK_PER_CHARACTER:
                            known[name] = texts
                    if name in known:
                        rendered[name] = _filled(known[name], fence)
                    else:
                        context = template.new_context({**variables, "fence": fence})
                        rendered[name] = "".join(render(context)).strip("\n")
        except ERRORS as problem:
            raise RubricError(f"template {self.label}{_line(problem, template)}: {problem}") from None
        return rendered

    def parse(self) -> None:
        """RubricError unless the source can be compiled and its blocks fit together."""
        _ = self._syntax

    def check(self, inputs: tuple[str, ...]) -> None:
        """RubricError unless the template uses only visible names, and all of `inputs`."""
        names = self._syntax.names
        unknown = names - _VISIBLE - set(inputs) - ({OWN_ANSWER} if self.commits else set())
        if unknown:
            raise RubricError(
                f"template {self.label} uses {listed(sorted(unknown))}, which is not available to it; available: "
                f"rubric, criterion, fence and the rubric's inputs ({', '.join(inputs)})"
            )
        unused = [] if self._syntax.uses_all else [name for name in inputs if name not in names]
        if unused:
            raise RubricError(
                f"template {self.label} does not show the input {listed(unused)} of the rubric; remove it from the "
                "rubric's inputs, or choose another template"
            )


def _filled(texts: list[str], fence: Callable[[str], str]) -> str:
    """Texts and, between them, fenced inputs."""
    return texts[0] if len(texts) == 1 else "".join([fence(text) if at % 2 else text for at, text in enumerate(texts)])


def _line(problem: BaseException, compiled: Any) -> str:
    """``, line 5``: the line of the source at which a template failed."""
    of_source = [
        number
        for frame, number in traceback.walk_tb(problem.__traceback__)
        if frame.f_globals.get("__jinja_template__") is compiled
    ]
    return f", line {compiled.get_corresponding_lineno(of_source[-1])}" if of_source else ""


def load_template(name: str) -> Template:
    """A template by ``name@version``, or by ``name``: the newest.

    Raises
    ------
    RubricError
        When it is not found (the message lists the available ones) or its header is invalid.
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise RubricError(f"invalid template name {name!r}; expected name@version, such as default@v1")
    versions = file_versions(f"templates/{match[1]}", ".jinja")
    number = int(match[2]) if match[2] else max(versions, default=0)
    if number not in versions:
        searched = ", ".join(str(folder / "templates") for folder in rubric_folders())
        known = list_templates()
        meant = guess(match[1], [label.partition("@")[0] for label in known])
        raise RubricError(
            f"template {name!r} not found; {meant}available: {listed(known, most=20)} (searched {searched})"
        )
    # cached by its text: a file written twice within one tick of the clock keeps its time and size
    return Template.of(match[1], f"v{number}", read_text(versions[number]))


def decision_template(rubric: Rubric) -> str:
    """The name of evalkit's own template that asks decision models about a rubric."""
    return "decision_requirement" if rubric.has_requirements else "decision"


def list_templates() -> list[str]:
    """All templates that can be loaded, as ``name@version``."""
    names = {path.name for folder in rubric_folders() for path in folder.glob("templates/*")}
    return [f"{name}@v{number}" for name in sorted(names) for number in file_versions(f"templates/{name}", ".jinja")]


@dataclass(frozen=True)
class PromptBuilder:
    """A rubric with its template; builds prompts.

    Attributes
    ----------
    rubric, template
        The rubric and the template.
    reply_reader
        A function from a stored reply and the item's inputs to its score; None: replies are read by the form.
    """

    rubric: Rubric
    template: Template
    reply_reader: Callable[[Mapping[str, Any], Mapping[str, Any]], Parsed] | None = None
    # by criterion and names of inputs: what the template sees of the rubric, and blocks without an item
    _prepared: dict[tuple[str, ...], tuple[dict[str, Any], dict[str, list[str]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, rubric: Rubric, template: str | Template | None = None) -> PromptBuilder:
        """The rubric with `template`, or with its own.

        Raises
        ------
        RubricError
            When the template is not found, or requires a number for a nominal scale.
        """
        if not isinstance(template, Template):
            template = load_template(template or rubric.template)
        wordy = [criterion.name for criterion in rubric.criteria if criterion.level == "nominal"]
        if template.form == "number" and wordy:
            raise RubricError(
                f"template {template.label} asks for a number, but criterion {listed(wordy)} of rubric {rubric.id!r} "
                "is nominal; use template 'default', 'tagged' or 'label'"
            )
        return cls(rubric, template)

    @property
    def together(self) -> PromptBuilder:
        """The builder of prompts for several criteria: with its template if that shows all, else with evalkit's own.

        Raises
        ------
        RubricError
            When the template can show only one criterion, or requires another form than ``json``.
        """
        template, loop = self.template, "requirements" if self.has_requirements else "rubric.criteria"
        if template.form == FORM or (loop in template.source and template.form == "json"):
            return self
        if template.name not in _TOGETHER:
            raise RubricError(
                f"template {template.label} shows one criterion per prompt, but criteria_per_call asks for several; "
                "use template 'default' (for pairs: 'pairwise'), write a template with 'form: json' and a loop over "
                f"{loop}, or set criteria_per_call=1"
            )
        return PromptBuilder(self.rubric, load_template(_TOGETHER[template.name]))

    def prompt_together(self, criteria: Sequence[Criterion], inputs: Mapping[str, Any]) -> Prompt:
        """The prompt for several criteria and one item's inputs: one JSON object with an object for each criterion."""
        if self.template.form == FORM:
            prompts = {criterion.name: self.prompt(criterion, inputs) for criterion in criteria}
            return _one_request(prompts, (self, (*criteria,)))
        origin = self, (*criteria,)
        prompt = self.together.prompt(criteria[0], inputs, criteria[1:])
        parts = {
            one.name: {
                "schema": reply_schema(one), "level": one.level, "codes": one.scale.codes, "texts": one.scale.texts,
                "origin": origin,
            }
            for one in (criterion.of_item(inputs) for criterion in criteria)
        }  # fmt: skip
        return replace(_with_parts(prompt, parts), criterion=", ".join(parts), origin=origin)

    def key_hashes(self, criteria: Sequence[Criterion]) -> dict[str, Any]:
        """The hashes of rubric and template in the key of a reply on these criteria; one alone has its own."""
        alone = len(criteria) == 1
        template_hash = self.template.hash if alone else digest({"together": self.together.template.hash})
        rubric_hash = self.rubric.prompt_hash([criterion.name for criterion in criteria])
        return {"rubric_hash": rubric_hash, "template_hash": template_hash}

    @property
    def has_requirements(self) -> bool:
        """Whether items bring their criteria, and the template shows one or several of them as part of the task."""
        template = self.template
        shows_one = template.name in _OF_REQUIREMENT
        return self.rubric.has_requirements and ("requirements" in template.source or shows_one)

    @property
    def shown_inputs(self) -> tuple[str, ...]:
        """The inputs that the template must show; one for several of an item's criteria shows `requirements`."""
        names = self.rubric.input_names
        if not (self.has_requirements and "requirements" in self.template.source):
            return names
        return *(name for name in names if name != "requirement"), "requirements"

    def prompt_of_requirements(self, inputs: Sequence[Mapping[str, Any]]) -> Prompt:
        """The prompt for several of an item's own criteria: one JSON object with an entry for each, under its number.

        `inputs` are those of the item with each of the criteria; they differ in `requirement` alone.
        """
        builder, criterion = self.together, self.rubric.criteria[0]
        if self.template.form == FORM:
            return _one_request({str(n): self.prompt(criterion, fields) for n, fields in enumerate(inputs, 1)}, None)
        item_inputs = {name: value for name, value in inputs[0].items() if name != "requirement"}
        prompt = builder.prompt(criterion, item_inputs | {"requirements": [fields["requirement"] for fields in inputs]})
        answer = reply_schema(criterion)
        return _with_parts(
            prompt, {str(number): {"schema": answer, "inputs": fields} for number, fields in enumerate(inputs, start=1)}
        )

    def prompt(self, criterion: Criterion, inputs: Mapping[str, Any], others: Sequence[Criterion] = ()) -> Prompt:
        """The prompt for one criterion and one item's inputs; `others` are further criteria of the same call."""
        origin = self, (criterion, *others)
        criterion = criterion.of_item(inputs)
        names = dict.fromkeys(name for name in (*self.rubric.input_names, *inputs) if name in inputs)
        visible, images = attached({name: inputs[name] for name in names}, self.rubric.most_images)
        blocks = self._blocks(criterion, visible, others)
        if criterion.examples:
            blocks = {**blocks, "task": self._with_examples(criterion, blocks)}
        if "user" in blocks:
            parts = [blocks["user"]]
        else:
            order = ("task", "item") if self.rubric.layout == "rubric_first" else ("item", "task")
            parts = [blocks[name] for name in (*order, "closing") if blocks.get(name)]
        messages = [Message("user", "\n\n".join(parts))]
        if blocks.get("system"):
            messages.insert(0, Message("system", blocks["system"]))
        schema = reply_schema(criterion) if self.template.form == "json" else None
        if self.template.form == FORM:
            messages, schema = self._apart(blocks), answers_of(criterion.scale)
        return Prompt(
            messages=tuple(messages),
            form=self.template.form,
            schema=schema,
            rubric=self.rubric.id,
            rubric_version=self.rubric.label,
            criterion=criterion.name,
            template=self.template.label,
            level=criterion.level,
            codes=criterion.scale.codes,
            inputs=inputs,
            texts=criterion.scale.texts,
            origin=origin,
            images=images,
        )

    def _apart(self, blocks: Mapping[str, str]) -> list[Message]:
        """The question and the content: neither is part of the other."""
        if not blocks.get("task") or not blocks.get("item"):
            raise RubricError(
                f"template {self.template.label} has the form {FORM!r}, but lacks a text in its block 'task' (the "
                "question) or 'item' (the fenced inputs)"
            )
        return [Message("system", blocks["task"]), Message("user", blocks["item"])]

    def _blocks(
        self, criterion: Criterion, inputs: Mapping[str, Any], others: Sequence[Criterion] = ()
    ) -> dict[str, str]:
        """The rendered blocks for one item's inputs."""
        criteria = [one.of_item(inputs) for one in (criterion, *others)]
        steps = (*(label for one in criteria if one.steps_of for label in one.scale.labels),)
        known_as = *(one.name for one in criteria), "", *inputs, *steps
        prepared = self._prepared.get(known_as)
        if prepared is None:
            self.template.check(self.shown_inputs)
            names = tuple(name for name in self.rubric.input_names if name in inputs)
            shown = [
                SimpleNamespace(
                    name=one.name, description=one.description.strip(), level=one.level, steps=one.steps,
                    scale=[SimpleNamespace(code=label, text=text)
                           for label, text in zip(one.scale.labels, one.scale.texts, strict=True)],
                )
                for one in criteria
            ]  # fmt: skip
            rubric = SimpleNamespace(
                description=self.rubric.description.strip(), inputs=names, mode=self.rubric.mode, criteria=shown
            )
            prepared = self._prepared[known_as] = {"rubric": rubric, "criterion": shown[0]}, {}
        views, known = prepared

        def fence(name: str) -> str:
            if name not in self.rubric.input_names and not (name == OWN_ANSWER and self.template.commits):
                raise RubricError(
                    f"template {self.template.label} calls fence({name!r}), but the rubric has no input of this name"
                )
            return fenced(name, inputs[name], self.rubric.limits.get(TOOL_RESULT)) if name in inputs else ""

        return self.template.blocks({**inputs, **views}, fence, known)

    def _with_examples(self, criterion: Criterion, blocks: Mapping[str, str]) -> str:
        """The task with the criterion's examples, each as the template shows an item."""
        if not blocks.get("task") or not blocks.get("item"):
            raise RubricError(
                f"template {self.template.label} has no blocks 'task' and 'item', so it cannot show the examples of "
                f"criterion {criterion.name!r}; choose another template, such as default"
            )
        parts = [blocks["task"], "Examples that people have judged:"]
        for number, example in enumerate(criterion.examples, 1):
            item = self._blocks(criterion, example["inputs"])["item"]
            requirement = example["inputs"].get("requirement")
            if requirement is not None and requirement not in item:  # it stands in the task, which is shown once
                item += f"\n\nRequirement:\n{requirement}"
            parts.append(f"Example {number}:\n\n{item}\n\nPeople's answer to example {number}: {example['label']}")
        parts.append("End of the examples. Now the item to judge.")
        return "\n\n".join(parts)


def _with_parts(prompt: Prompt, parts: Mapping[str, Mapping[str, Any]]) -> Prompt:
    """A prompt whose reply is an object of several; by their names, what is not as in the prompt."""
    schemas = {name: fields["schema"] for name, fields in parts.items()}
    schema = {"type": "object", "properties": schemas, "required": [*schemas], "additionalProperties": False}
    together = tuple(replace(prompt, criterion=name, **fields) for name, fields in parts.items())
    return replace(prompt, schema=schema, together=together)


def _one_request(prompts: Mapping[str, Prompt], origin: tuple[Any, tuple[Any, ...]] | None) -> Prompt:
    """Several questions of decision models about one content, by the names of their criteria, as one request."""
    together = tuple(replace(prompt, criterion=name, origin=origin) for name, prompt in prompts.items())
    questions = [prompt.messages[0] for prompt in together]
    schema = {name: prompt.schema for name, prompt in prompts.items()}
    messages = *questions, together[0].messages[-1]
    return replace(together[0], messages=messages, schema=schema, criterion=", ".join(prompts), together=together)


def reply_schema(criterion: Criterion) -> dict[str, Any]:
    """JSON Schema of a reply in the form ``json``: explanation first, then ``score`` (``label`` if nominal)."""
    scale = criterion.scale
    name: str
    answer: dict[str, Any]
    if criterion.level == "nominal":
        name, answer = "label", {"type": "string", "enum": list(scale.codes)}
    elif criterion.level == "interval":
        name, answer = "score", {"type": "number", "minimum": scale.codes[0], "maximum": scale.codes[-1]}
    else:
        whole = all(isinstance(code, int) for code in scale.codes)
        name, answer = "score", {"type": "integer" if whole else "number", "enum": list(scale.codes)}
    properties = {"explanation": {"type": "string"}, name: answer}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def fenced(name: str, value: Any, longest_result: int | None = None) -> str:
    """A value between ``<name-HASH>`` and ``</name-HASH>``; HASH is the start of the text's sha256.

    Candidate text can hold a closing tag only by containing its own hash. Lists are numbered,
    conversations show the role of each message, other structures are shown as JSON. Texts of tools' results with more
    characters than `longest_result` are cut in their middle.

    Examples
    --------
    >>> print(fenced("answer", "42"))
    <answer-73475cb40a56>
    42
    </answer-73475cb40a56>
    """
    value = shown_value(value)
    plain = value if isinstance(value, str) else as_json(value)
    mark = hashlib.sha256(plain.encode()).hexdigest()[:12]
    folded = plain.casefold()
    while mark in folded:
        mark = hashlib.sha256((mark + plain).encode()).hexdigest()[:12]
    text = value if isinstance(value, str) else _marked(value, mark, longest_result)
    return f"<{name}-{mark}>\n{text}\n</{name}-{mark}>"


def _marked(value: Any, mark: str, longest_result: int | None) -> str:
    if not isinstance(value, list):
        return as_json(value)
    if (messages := read_messages(value)) is not None:
        headed = turns(messages, longest_result)
        return "\n".join(f"--- {at} {heading} ({mark}) ---\n{text}" for at, heading, text in headed)
    if any(map(is_unseen, value)):  # parts of a text, which is not sent
        return content_text(value)
    texts = [element if isinstance(element, str) else as_json(element) for element in value]
    if len(texts) < 2:
        return "".join(texts)
    return "\n".join(f"--- {at} ({mark}) ---\n{text}" for at, text in enumerate(texts, 1))
