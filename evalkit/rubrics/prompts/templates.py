"""Prompt templates: sandboxed Jinja files whose hash is that of their source."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from evalkit.errors import RubricError, guess, listed
from evalkit.rubrics.folders import rubric_folders
from evalkit.tables import canonical_text

BLOCKS = ("system", "task", "item", "closing", "user")
_HEADER = re.compile(r"\A\s*\{#-?\s*evalkit\b(.*?)-?#\}", re.DOTALL)
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]*)(?:@v([1-9][0-9]*))?")
_FILE = re.compile(r"v([1-9][0-9]*)\.jinja")
_FORMS = ("json", "tagged", "number", "label")
_LONGEST = 100_000  # characters of a source
_VISIBLE = frozenset({"rubric", "criterion", "fence"})
_STEADY = {"rubric", "criterion"}


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
        How the reply is to look, from the file's header.
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

    @property
    def fields(self) -> frozenset[str]:
        """Fields of an item that the source names; a loop over the rubric's inputs names none."""
        return frozenset(_names(self)[0] - _VISIBLE)

    @classmethod
    def of(cls, name: str, version: str, source: str) -> Template:
        """A template from its source; RubricError when the header is missing or names no known form."""
        source = canonical_text(source)
        if len(source) > _LONGEST:
            raise RubricError(
                f"template {name}@{version} has {len(source):,} characters; at most {_LONGEST:,} are read"
            )
        header = _header(name, version, source)
        unknown = [key for key in header if key not in ("form", "description")]
        if unknown:
            raise RubricError(
                f"template {name}@{version}: unknown header key {listed(unknown)}; allowed are form, description"
            )
        form = header.get("form")
        if not isinstance(form, str) or (form not in _FORMS and not form.startswith("regex:")):
            allowed = f"{', '.join(_FORMS)}, regex:PATTERN"
            raise RubricError(f"template {name}@{version}: form {form!r} is unknown; allowed are {allowed}")
        if form.startswith("regex:"):
            try:
                re.compile(form.removeprefix("regex:"))
            except re.error as problem:
                raise RubricError(
                    f"template {name}@{version}: the pattern of form {form!r} is wrong: {problem}"
                ) from None
        return cls(name, version, source, form)

    def __reduce__(self) -> tuple[type[Template], tuple[str, str, str, str]]:
        return Template, (self.name, self.version, self.source, self.form)

    @cached_property
    def _compiled(self) -> Any:
        return _compile(self)

    def blocks(self, variables: Mapping[str, Any], known: dict[str, str] | None = None) -> dict[str, str]:
        """The rendered blocks by name; a template without blocks is one `user` block.

        Parameters
        ----------
        variables
            All that the template sees.
        known
            Blocks that were rendered for the same rubric, criterion and set of inputs: those that show nothing of
            the item are taken from it, and put into it. A block takes longer than a call's share of the network.

        Raises
        ------
        RubricError
            When the template names something that it does not see.
        """
        from evalkit.rubrics.prompts.sandbox import FAULTS, metered

        compiled = self._compiled
        try:
            with metered(variables, len(self.source)):
                context = compiled.new_context(dict(variables))
                if not compiled.blocks:
                    return {"user": "".join(compiled.root_render_func(context)).strip("\n")}
                empty = dict.fromkeys(compiled.blocks, "")
                found = empty if known is None else empty | known
                for name, block in compiled.blocks.items():
                    if known is None or name not in known:
                        found[name] = "".join(block(context)).strip("\n")
        except FAULTS as problem:
            raise RubricError(f"template {self.label}{_line(problem, compiled)}: {problem}") from None
        if known is not None:
            known.update((name, found[name]) for name in found if not _reads(self)[name] & set(variables) - _STEADY)
        return found

    def parse(self) -> None:
        """RubricError unless the source can be compiled and its blocks are those that there are."""
        _compile(self)

    def check(self, inputs: tuple[str, ...]) -> None:
        """RubricError unless the template sees only what it may and uses every one of `inputs`."""
        names, uses_all = _names(self)
        unknown = names - _VISIBLE - set(inputs)
        if unknown:
            raise RubricError(
                f"template {self.label} uses {listed(sorted(unknown))}, which it does not see; "
                f"it sees rubric, criterion, fence and the rubric's inputs ({', '.join(inputs)})"
            )
        unused = [] if uses_all else [name for name in inputs if name not in names]
        if unused:
            raise RubricError(
                f"template {self.label} does not use the input {listed(unused)}; "
                "remove it from the rubric's inputs or choose another template"
            )


def _header(name: str, version: str, source: str) -> Mapping[str, Any]:
    found = _HEADER.match(source)
    if not found:
        raise RubricError(
            f"template {name}@{version} has no header; it starts with {{#- evalkit, the line 'form: json' and -#}}"
        )
    header: dict[str, Any] = {}
    for line in found[1].strip().splitlines():
        if line.strip():
            key, colon, value = line.partition(":")
            if not colon:
                raise RubricError(f"template {name}@{version}: header line {line.strip()!r} is not 'key: value'")
            header[key.strip()] = value.strip()
    return header


def _parse(template: Template) -> Any:
    """The syntax tree, which holds nothing but what templates may use."""
    from jinja2 import TemplateSyntaxError

    from evalkit.rubrics.prompts.sandbox import check_tree, environment

    try:
        tree = environment().parse(template.source)
        check_tree(tree)
    except TemplateSyntaxError as problem:
        raise RubricError(f"template {template.label}, line {problem.lineno}: {problem.message}") from None
    except (RecursionError, ValueError) as problem:  # nested too deeply for the parser; a number of 5,000 digits
        raise RubricError(f"template {template.label} cannot be read: {problem}") from None
    return tree


def _compile(template: Template) -> Any:
    from jinja2 import TemplateSyntaxError, nodes

    from evalkit.rubrics.prompts.sandbox import compiled

    tree = _parse(template)
    blocks = [node.name for node in tree.find_all(nodes.Block)]
    unknown = [name for name in blocks if name not in BLOCKS]
    if unknown:
        raise RubricError(
            f"template {template.label}: unknown block {listed(unknown)}; allowed are {', '.join(BLOCKS)}"
        )
    if blocks and ("user" in blocks) == ("task" in blocks and "item" in blocks):
        raise RubricError(f"template {template.label} needs either the block user or the blocks task and item")
    if blocks and any(_stray(node, nodes) for node in tree.body):
        raise RubricError(
            f"template {template.label} has text or settings outside its blocks; they would never be used"
        )
    if any(next(block.find_all(nodes.Block), None) is not None for block in tree.find_all(nodes.Block)):
        raise RubricError(f"template {template.label} has a block inside another; it would be sent twice")
    try:
        return compiled(tree)
    except TemplateSyntaxError as problem:
        raise RubricError(f"template {template.label}, line {problem.lineno}: {problem.message}") from None
    except (SyntaxError, RecursionError) as problem:  # of the Python that Jinja makes of it
        raise RubricError(f"template {template.label} cannot be compiled: {problem}") from None


def _line(problem: BaseException, compiled: Any) -> str:
    """``, line 5``: where in its source a template failed."""
    of_source = [
        number
        for frame, number in traceback.walk_tb(problem.__traceback__)
        if frame.f_globals.get("__jinja_template__") is compiled
    ]
    return f", line {compiled.get_corresponding_lineno(of_source[-1])}" if of_source else ""


def _stray(node: Any, nodes: Any) -> bool:
    if isinstance(node, nodes.Output):
        return any(not isinstance(part, nodes.TemplateData) or part.data.strip() for part in node.nodes)
    return not isinstance(node, nodes.Block)


@lru_cache(maxsize=256)
def _names(template: Template) -> tuple[set[str], bool]:
    """Names that a template reads (variables and fenced inputs), and whether it goes over all inputs."""
    from jinja2 import meta, nodes

    tree = _parse(template)
    names = set(meta.find_undeclared_variables(tree))
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "fence":
            names |= {arg.value for arg in call.args if isinstance(arg, nodes.Const) and isinstance(arg.value, str)}
    uses_all = any(
        isinstance(node.iter, nodes.Getattr)
        and isinstance(node.iter.node, nodes.Name)
        and (node.iter.node.name, node.iter.attr) == ("rubric", "inputs")
        for node in tree.find_all(nodes.For)
    )
    return names, uses_all


@lru_cache(maxsize=256)
def _reads(template: Template) -> dict[str, set[str]]:
    """For each block the names in it."""
    from jinja2 import nodes

    blocks = _parse(template).find_all(nodes.Block)
    return {block.name: {name.name for name in block.find_all(nodes.Name)} for block in blocks}


def _places(name: str) -> Iterator[tuple[int, Path]]:
    for folder in rubric_folders():
        for path in (folder / "templates" / name).glob("v*.jinja"):
            if match := _FILE.fullmatch(path.name):
                yield int(match[1]), path


def load_template(name: str) -> Template:
    """A template by ``name@version``, or by ``name``: the newest.

    Raises
    ------
    RubricError
        When there is none (listing those that are there) or its header is wrong.
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise RubricError(f"{name!r} is no template name; give name@version, as in default@v1")
    versions: dict[int, Path] = {}
    for number, path in _places(match[1]):
        versions.setdefault(number, path)
    number = int(match[2]) if match[2] else max(versions, default=0)
    if number not in versions:
        searched = ", ".join(str(folder / "templates") for folder in rubric_folders())
        there = list_templates()
        meant = guess(match[1], [label.partition("@")[0] for label in there])
        raise RubricError(f"there is no template {name!r}; {meant}there are {listed(there, most=20)} (in {searched})")
    path = versions[number]
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise RubricError(f"{path} cannot be read: {problem}") from None
    # by its text: time and size stay as they were where a file is written twice within a tick of the clock
    return _load(match[1], number, source)


@lru_cache(maxsize=256)
def _load(name: str, number: int, source: str) -> Template:
    return Template.of(name, f"v{number}", source)


def list_templates() -> list[str]:
    """All templates that can be loaded, as ``name@version``."""
    found = {
        (path.parent.name, int(match[1]))
        for folder in rubric_folders()
        for path in (folder / "templates").glob("*/v*.jinja")
        if (match := _FILE.fullmatch(path.name))
    }
    return [f"{name}@v{number}" for name, number in sorted(found)]
