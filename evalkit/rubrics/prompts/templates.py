"""Prompt templates: sandboxed Jinja files whose hash is that of their source."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from evalkit.errors import RubricError, guess, listed
from evalkit.rubrics.files import file_versions, read_text, rubric_folders
from evalkit.tables import canonical_text

if TYPE_CHECKING:
    from evalkit.rubrics.prompts.sandbox import Syntax

_HEADER = re.compile(r"\A\s*\{#-?\s*evalkit\b(.*?)-?#\}", re.DOTALL)
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]*)(?:@v([1-9][0-9]*))?")
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

    @property
    def fields(self) -> frozenset[str]:
        """Fields of an item that the source names; a loop over the rubric's inputs names none."""
        return frozenset(self._syntax.names - _VISIBLE)

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
        try:
            found = _HEADER.match(source)
            if not found:
                raise RubricError(
                    "the header is missing; a template starts with three lines: '{#- evalkit', 'form: json' (or "
                    "another form) and '-#}'"
                )
            lines = [line.partition(":") for line in found[1].strip().splitlines() if line.strip()]
            header = {key.strip(): value.strip() for key, _, value in lines}
            form = header.pop("form", "")
            check_form(form)
            if unknown := header.keys() - {"description"}:
                raise RubricError(f"unknown header key {listed(sorted(unknown))}; allowed: form, description")
            if len(source) > _LONGEST:
                raise RubricError(f"it has {len(source):,} characters; at most {_LONGEST:,} are allowed")
        except RubricError as problem:
            raise RubricError(f"template {name}@{version}: {problem}") from None
        return cls(name, version, source, form)

    def __reduce__(self) -> tuple[type[Template], tuple[str, str, str, str]]:
        return Template, (self.name, self.version, self.source, self.form)

    @cached_property
    def _syntax(self) -> Syntax:
        from jinja2 import TemplateSyntaxError

        from evalkit.rubrics.prompts.sandbox import compiled

        try:
            return compiled(self.source)
        except TemplateSyntaxError as problem:
            raise RubricError(f"template {self.label}, line {problem.lineno}: {problem.message}") from None
        except (SyntaxError, RecursionError, ValueError) as problem:  # nested too deeply; a number of 5,000 digits
            raise RubricError(f"template {self.label} cannot be read: {problem}") from None

    def blocks(self, variables: Mapping[str, Any], known: dict[str, str] | None = None) -> dict[str, str]:
        """The rendered blocks by name; a template without blocks is one `user` block.

        Parameters
        ----------
        variables
            The variables that the template sees.
        known
            Blocks already rendered for the same rubric, criterion and set of inputs. Blocks that show nothing of the
            item are taken from it, and added to it: rendering them takes longer than evalkit's other work on a call.

        Raises
        ------
        RubricError
            When the template uses a name that it does not see.
        """
        from evalkit.rubrics.prompts.sandbox import ERRORS, metered

        template, known = self._syntax.template, {} if known is None else known
        try:
            with metered(variables, len(self.source)):
                context = template.new_context(dict(variables))
                renderers = template.blocks or {"user": template.root_render_func}
                rendered = {
                    name: known[name] if name in known else "".join(render(context)).strip("\n")
                    for name, render in renderers.items()
                }
        except ERRORS as problem:
            raise RubricError(f"template {self.label}{_line(problem, template)}: {problem}") from None
        of_item = set(variables) - _STEADY
        known.update((name, text) for name, text in rendered.items() if not self._syntax.reads[name] & of_item)
        return rendered

    def parse(self) -> None:
        """RubricError unless the source can be compiled and its blocks fit together."""
        _ = self._syntax

    def check(self, inputs: tuple[str, ...]) -> None:
        """RubricError unless the template uses only visible names, and all of `inputs`."""
        names = self._syntax.names
        unknown = names - _VISIBLE - set(inputs)
        if unknown:
            raise RubricError(
                f"template {self.label} uses {listed(sorted(unknown))}, which is not available to it; "
                f"available: rubric, criterion, fence and the rubric's inputs ({', '.join(inputs)})"
            )
        unused = [] if self._syntax.uses_all else [name for name in inputs if name not in names]
        if unused:
            raise RubricError(
                f"template {self.label} does not use the input {listed(unused)}; "
                "remove it from the rubric's inputs or choose another template"
            )


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


def list_templates() -> list[str]:
    """All templates that can be loaded, as ``name@version``."""
    names = {path.name for folder in rubric_folders() for path in folder.glob("templates/*")}
    return [f"{name}@v{number}" for name in sorted(names) for number in file_versions(f"templates/{name}", ".jinja")]
