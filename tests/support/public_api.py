"""The public names of evalkit and their parameters: `python tests/support/public_api.py > tests/public_api.txt`.

Public is what a facade (a package's ``__init__.pyi``) names. A parameter or its default changes on purpose only: a
test compares.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module

from places import ROOT
from pydantic import BaseModel

HOUSE = ROOT / "evalkit"


def facades() -> dict[str, list[str]]:
    """The names of each facade, by the package's dotted name."""
    return {
        ".".join(stub.parent.relative_to(ROOT).parts): [
            alias.asname or alias.name
            for node in ast.parse(stub.read_text("utf-8")).body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        ]
        for stub in sorted(HOUSE.rglob("__init__.pyi"))
    }


def lines() -> list[str]:
    """One line for each public name and for each public method of a public class."""
    listed = []
    for package, names in facades().items():
        module = import_module(package)
        listed += [line for name in sorted(names) for line in _described(f"{package}.{name}", getattr(module, name))]
    return listed


def _described(name: str, value: object) -> list[str]:
    if package_of(name) == "evalkit" and name != "evalkit.__version__":
        home = getattr(value, "__module__", "").split(".")[:2]
        return [f"{name} = {'.'.join(home)}"]  # its signature is that of the package's name
    if inspect.isclass(value):
        members = [
            f"  .{member}{_signature(inspect.getattr_static(value, member))}"
            for member in sorted(vars(value))
            if not member.startswith("_")
        ]
        return [f"class {name}{_signature(value)}", *members]
    return [f"{name}{_signature(value)}" if callable(value) else f"{name}: {type(value).__name__}"]


def package_of(name: str) -> str:
    """The package of a dotted name."""
    return name.rpartition(".")[0]


def _signature(value: object) -> str:
    value = getattr(value, "__func__", value)  # of a static or class method
    if isinstance(value, type) and issubclass(value, BaseModel):
        value.model_rebuild()  # until then pydantic knows no signature
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    text = text.replace(sys.executable, "python").replace(str(ROOT), "ROOT")
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    print("\n".join(lines()))
