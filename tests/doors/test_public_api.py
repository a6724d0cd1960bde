"""What is public: the names of the facades, their signatures, and that a page of the API reference explains them."""

from __future__ import annotations

import inspect
from importlib import import_module

from places import ROOT
from public_api import facades, lines

import evalkit as ek


def test_public_names_and_signatures_change_on_purpose_only() -> None:
    recorded = (ROOT / "tests/public_api.txt").read_text("utf-8").splitlines()
    advice = "on purpose? python tests/support/public_api.py > tests/public_api.txt, and a line in CHANGELOG.md"
    found = lines()
    assert sorted(set(found) ^ set(recorded)) == [], advice
    assert found == recorded, advice


def test_every_public_name_has_a_docstring_and_its_package_a_page_of_the_reference() -> None:
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs/api").glob("*.md"))
    for package, names in facades().items():
        if package == "evalkit":
            continue
        assert f"automodule:: {package}\n" in pages, f"{package} has no page in docs/api"
        module = import_module(package)
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                assert (value.__doc__ or "").strip(), f"{package}.{name} has no docstring"
                assert not (value.__doc__ or "").startswith(f"{name}("), f"{package}.{name}: a dataclass's own words"
                assert len((value.__doc__ or "").splitlines()) <= 60, f"the docstring of {package}.{name} is long"


def test_every_function_and_class_of_the_root_shows_an_example() -> None:
    values = {name: getattr(ek, name) for name in ek.__all__}
    documented = {name for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    assert len(documented) > 40
    assert {name for name in documented if "Examples\n" not in (inspect.getdoc(values[name]) or "")} == set()
