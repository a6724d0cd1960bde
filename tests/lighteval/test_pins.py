"""The upper bounds in the extra `lighteval`: each has a cause in LightEval's source, and goes when that is gone."""

from __future__ import annotations

import ast
import importlib.metadata
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from places import ROOT

EXTRA = [
    Requirement(text)
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]["lighteval"]
]
BOUNDED = {one.name: one for one in EXTRA if any(bound.operator in ("<", "<=", "==", "~=") for bound in one.specifier)}


def folder() -> Path:
    try:
        found = importlib.metadata.distribution("lighteval")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs the extra lighteval")
    return Path(str(found.locate_file("lighteval")))


@lru_cache(maxsize=4)
def nodes_of(place: Path, word: str) -> tuple[ast.AST, ...]:
    """All parts of the source files that hold a word; nothing of them is imported."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(place.rglob("*.py"))]
    return tuple(node for text in texts if word in text for node in ast.walk(ast.parse(text)))


def calls(nodes: tuple[ast.AST, ...], name: str) -> Iterator[ast.Call]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
            yield node


def is_encoded(argument: ast.expr) -> bool:
    """Whether an argument is bytes: a literal, or a text that is encoded on the spot."""
    if isinstance(argument, ast.Constant):
        return isinstance(argument.value, bytes)
    return (
        isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr == "encode"
    )


def hashes_texts(place: Path) -> bool:
    """xxhash 4 takes bytes alone: `Strings must be encoded before hashing`."""
    return any(call.args and not is_encoded(call.args[0]) for call in calls(nodes_of(place, "xxhash"), "xxh64"))


def lists_models_by_name(place: Path) -> bool:
    """huggingface_hub 2 knows no such argument, and a built-in task gives it when it is imported."""
    found = calls(nodes_of(place, "list_models"), "list_models")
    return any(keyword.arg == "model_name" for call in found for keyword in call.keywords)


def keeps_replies_by_litellm(place: Path) -> bool:
    """From 1.80 on, a reply out of litellm's cache needs modules that it does not install."""
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == "cache"
        and isinstance(target.value, ast.Name)
        and target.value.id == "litellm"
        for node in nodes_of(place, "litellm.cache")
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


CAUSES: dict[str, Callable[[Path], bool]] = {
    "xxhash": hashes_texts,
    "huggingface_hub": lists_models_by_name,
    "litellm": keeps_replies_by_litellm,
}


def test_each_upper_bound_has_a_cause() -> None:
    assert set(BOUNDED) == {"lighteval", *CAUSES}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_bound_is_still_there(name: str) -> None:
    assert CAUSES[name](folder()), (
        f"lighteval {importlib.metadata.version('lighteval')} no longer needs {BOUNDED[name]}: {CAUSES[name].__doc__} "
        "That is gone from its source. Drop the bound from the extra in pyproject.toml, and its line here"
    )


def test_what_is_installed_is_what_the_extra_allows() -> None:
    folder()
    installed = {name: importlib.metadata.version(name) for name in BOUNDED}
    wrong = [f"{name} {there}" for name, there in installed.items() if there not in BOUNDED[name].specifier]
    assert not wrong, f"outside the extra lighteval: {', '.join(wrong)}"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("xxhash", "h = xxhash.xxh64(doc.query)", "h = xxhash.xxh64(doc.query.encode()) + xxhash.xxh64(b'')"),
        ("huggingface_hub", "m = api.list_models(model_name=x)", "m = api.list_models(search=x)"),
        ("litellm", "litellm.cache = Cache(type=DISK)", "cache = litellm.cache"),
    ],
)
def test_a_release_without_the_cause_is_noticed(name: str, before: str, after: str, tmp_path: Path) -> None:
    for folder_, text in (("before", before), ("after", after)):
        (tmp_path / folder_).mkdir()
        (tmp_path / folder_ / "module.py").write_text(f"import {name}\n{text}\n")
    assert CAUSES[name](tmp_path / "before")
    assert not CAUSES[name](tmp_path / "after")
