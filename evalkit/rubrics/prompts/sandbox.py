"""What templates may do: the constructs, filters and methods that are allowed, and a limit on the work of rendering."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

from jinja2 import (
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
    nodes,
    pass_context,
    pass_environment,
    pass_eval_context,
)
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

FAULTS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What rendering can raise: the template's mistakes, never the user's."""

_DEEPEST, _MOST_LOOPS = 40, 4
_NODE = 20  # the work of one construct in a loop, in characters
_WORK = 200_000
_WORK_PER_CHARACTER = 20

# What templates may call. Left out is what depends on chance (random), on the machine (pprint), or makes a text of
# any length from a short one (center, indent, wordwrap, format): templates come from other people.
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "items", "join", "last",
    "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "safe",
    "select", "selectattr", "sort", "string", "title", "tojson", "trim", "truncate", "unique", "upper", "wordcount",
)  # fmt: skip
_METHODS = (
    "capitalize", "count", "endswith", "find", "get", "items", "join", "keys", "lower", "lstrip", "replace", "rstrip",
    "split", "splitlines", "startswith", "strip", "title", "upper", "values",
)  # fmt: skip
_TESTS = (
    "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float", "ge", "gt", "in", "integer",
    "iterable", "le", "lower", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true",
    "undefined", "upper", "==", "!=", "<", "<=", ">", ">=",
)  # fmt: skip
_TAGS = ("block", "for", "if", "set", "with")
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Block, nodes.For, nodes.If, nodes.Assign,
    nodes.AssignBlock, nodes.With, nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair,
    nodes.Keyword, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Compare, nodes.Operand, nodes.CondExpr,
    nodes.Filter, nodes.Test, nodes.Call, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv,
    nodes.Mod, nodes.Neg, nodes.Pos, nodes.And, nodes.Or, nodes.Not,
)  # fmt: skip
_CALLED = {"Macro": "macro", "CallBlock": "call", "FilterBlock": "filter", "Pow": "**", "NSRef": "set of a field",
           "Scope": "autoescape"}  # fmt: skip
# Filters that the transformed source uses; no template can name them: they are looked for before the transformation
_CHARGED, _JOINED, _EACH = "charged", "joined", "each"


class _Work:
    """Characters that one rendering has read and written, against what it may.

    A thread that renders cannot be stopped from outside, so every construct that can make much from little counts
    what it is about to do, before it does it.
    """

    def __init__(self, variables: Mapping[str, Any], n_source: int) -> None:
        self._variables, self._n_source = variables, n_source
        self._left, self._is_extended = _WORK, False

    def charge(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0 and not self._is_extended:  # only now: most prompts need no look at the item's size
            self._is_extended = True
            self._left += work_limit(_size(self._variables) + self._n_source) - _WORK
        if self._left < 0:
            raise SecurityError(
                f"the template makes too much of what it is given: it may read and write {_WORK:,} characters and "
                f"{_WORK_PER_CHARACTER} for each one of item, rubric and template; let it loop less and double no text"
            )


_work: ContextVar[_Work] = ContextVar("work of a rendering")


def work_limit(n_given: int) -> int:
    """Most characters that a template may read and write, given that many of item, rubric and template."""
    return _WORK + _WORK_PER_CHARACTER * n_given


@contextlib.contextmanager
def metered(variables: Mapping[str, Any], n_source: int) -> Iterator[None]:
    """Count the work of what is rendered inside; SecurityError where it is more than `work_limit`."""
    token = _work.set(_Work(variables, n_source))
    try:
        yield
    finally:
        _work.reset(token)


def _size(value: Any) -> int:
    """Characters that a value holds, and eight for each element of a list, which takes memory too."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 8 * len(value) + sum(map(_size, value))
    if isinstance(value, Mapping):
        return 8 * len(value) + sum(_size(name) + _size(field) for name, field in value.items())
    fields = getattr(type(value), "__dataclass_fields__", ())  # the views of rubric and criterion
    return sum(_size(getattr(value, name)) for name in fields) or 8


def _charged(value: Any) -> Any:
    if isinstance(value, Iterator) or type(value).__name__ in ("dict_items", "dict_keys", "dict_values"):
        value = list(value)
    _work.get().charge(_size(value))
    return value


@pass_context  # which also keeps constants from being joined when a template is compiled
def _shown(_: Any, value: Any) -> Any:
    """What `{{ … }}` shows."""
    if isinstance(value, str):
        _work.get().charge(len(value))
        return value
    if isinstance(value, (int, float, StrictUndefined)):
        return value
    raise SecurityError(f"a {type(value).__name__} cannot be shown; show an input by fence('NAME')")


def _text(value: Any) -> str:
    return str(_shown(None, value))


def _joined(parts: list[Any]) -> str:
    texts = [_text(part) for part in parts]
    return "".join(texts)


def _each(values: Any, cost: int) -> Any:
    values = _charged(values)
    if not isinstance(values, (list, tuple, Mapping, StrictUndefined)):
        raise SecurityError(
            "a loop goes over a list, as rubric.inputs, criterion.scale or an input that is one, "
            f"not over a {type(values).__name__}"
        )
    _work.get().charge(cost * len(values))
    return values


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = _text(text), _text(old), _text(new)
    times = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    _work.get().charge(times * len(new))
    return str(text.replace(old, new, times))


@pass_environment
def _join(environment: Any, values: Any, between: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), _charged(values))
    return _glued(between, values)


def _glued(between: Any, values: Any) -> str:
    texts, between = [_text(value) for value in _charged(values)], _text(between)
    _work.get().charge(len(between) * len(texts))
    return str(between.join(texts))


@pass_eval_context
def _tojson(context: Any, value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= 8:
        raise SecurityError("the filter 'tojson' takes an indent of 0 to 8")
    return str(FILTERS["tojson"](context, value, indent))


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if not 0 <= precision <= 15:
        raise SecurityError("the filter 'round' takes a precision of 0 to 15")
    return FILTERS["round"](value, precision, method)


def _escape(value: Any) -> str:
    return str(FILTERS["escape"](_text(value)))


def _limited(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result are charged; elementwise ones pass their arguments to each element."""

    @wraps(plain)  # keeps what Jinja reads off it: which of context and environment comes first
    def limited(*args: Any, **kwargs: Any) -> Any:
        given = [*(args[1:] if hasattr(plain, "jinja_pass_arg") else args), *kwargs.values()]
        amount = sum(map(_size, given))
        if given and isinstance(given[0], (list, tuple)):
            amount += len(given[0]) * (_NODE + sum(map(_size, given[1:])))
        _work.get().charge(amount)
        return _charged(plain(*args, **kwargs))

    return limited


class _Sandbox(ImmutableSandboxedEnvironment):
    """No way to Python, to chance, or to more text than the template and the item hold."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "+" and not numbers:
            if not (isinstance(left, str) and isinstance(right, str)):
                raise SecurityError("the operator '+' takes two numbers or two texts")
            return _joined([left, right])
        if operator != "+" and not (numbers and abs(left) < 10**6 and abs(right) < 10**6):
            raise SecurityError(f"the operator {operator!r} takes small numbers alone")
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        # fields of the views that a template gets; the sandbox's own way costs most of a prompt's time
        known = attribute in getattr(type(obj), "__dataclass_fields__", ())
        return getattr(obj, attribute) if known else super().getattr(obj, attribute)

    def is_safe_callable(self, obj: Any) -> bool:
        name = getattr(obj, "__name__", "")
        return inspect.isfunction(obj) if name == "fence" else inspect.isbuiltin(obj) and name in _METHODS

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and self.is_safe_callable(obj):
            _work.get().charge(sum(map(_size, (owner, *args, *kwargs.values()))))
            if name == "replace":
                return _replace(owner, *args, **kwargs)
            if name == "join":
                return _glued(owner, *args)
        return _charged(super().call(context, obj, *args, **kwargs))


_OWN = {
    "replace": _replace, "join": _join, "tojson": _limited(_tojson), "round": _limited(_round), "string": _text,
    "safe": _text, "e": _escape, "escape": _escape, _CHARGED: _charged, _JOINED: _joined, _EACH: _each,
}  # fmt: skip


@lru_cache(maxsize=1)
def environment() -> ImmutableSandboxedEnvironment:
    """Where templates are compiled: allowed filters and tests alone, no globals."""
    made = _Sandbox(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        finalize=_shown,
        optimized=False,  # constants would be computed before anything is counted
    )
    made.globals.clear()
    made.filters = {name: _limited(made.filters[name]) for name in _FILTERS} | _OWN
    made.tests = {name: made.tests[name] for name in _TESTS}
    return made


def check_tree(tree: nodes.Template) -> None:
    """TemplateSyntaxError, with the line, for a construct that templates may not use."""
    waiting: list[tuple[nodes.Node, int, int, int]] = [(tree, 0, 0, 1)]
    while waiting:  # without recursion: depth is what is looked for
        node, depth, loops, line = waiting.pop()
        line, loops = node.lineno or line, loops + isinstance(node, nodes.For)
        if depth > _DEEPEST or loops > _MOST_LOOPS:
            raise TemplateSyntaxError(
                f"nested too deeply; allowed are {_MOST_LOOPS} loops and {_DEEPEST} constructs within each other", line
            )
        if problem := _problem(node):
            raise TemplateSyntaxError(problem, line)
        waiting.extend((child, depth + 1, loops, line) for child in node.iter_child_nodes())


def _problem(node: nodes.Node) -> str | None:
    """Why a template may not hold this node, and what it may instead."""
    kind = type(node).__name__
    if isinstance(node, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        return "a template includes no other one; its hash would not cover that"
    if not isinstance(node, _NODES):
        what, allowed = _CALLED.get(kind, kind.lower()), ", ".join(_TAGS)
        return f"'{what}' is not allowed; allowed are the tags {allowed} and the operators + - * / // % ~"
    if isinstance(node, nodes.For) and node.recursive:
        return "a recursive loop is not allowed; loop over a list, as criterion.scale"
    if isinstance(node, nodes.Filter):
        if node.node is None:
            return "a filter over a block is not allowed; apply it to a value, as in {{ name | upper }}"
        return _unknown("filter", node.name, _FILTERS)
    if isinstance(node, nodes.Test):
        return _unknown("test", node.name, _TESTS)
    if isinstance(node, nodes.Call):
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            return "'*' and '**' before an argument are not allowed; name the arguments one by one"
        if isinstance(node.node, nodes.Name):  # fence, or a name that templates do not see
            return None
        return _unknown("method", getattr(node.node, "attr", kind), _METHODS)
    literal = isinstance(node, (nodes.List, nodes.Pair)) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
    if literal and not all(isinstance(part, (nodes.Const, nodes.Neg)) for part in node.iter_child_nodes()):
        return "a list, tuple or mapping in a template holds constants alone; name the values one by one"
    return None


def _unknown(kind: str, name: str, allowed: tuple[str, ...]) -> str | None:
    return None if name in allowed else f"the {kind} {name!r} is not allowed; allowed are {', '.join(allowed)}"


class _Metering(NodeTransformer):
    """Puts a count before everything that Jinja itself does not let us intercept."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        node = super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.Concat):
            return _filter(nodes.List(node.nodes, lineno=node.lineno), _JOINED)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            node.node = _filter(node.node, _CHARGED)
        elif isinstance(node, nodes.For):
            parts = node.find_all(nodes.Node)
            cost = sum(len(part.data) if isinstance(part, nodes.TemplateData) else _NODE for part in parts)
            node.iter = _filter(node.iter, _EACH, nodes.Const(cost))
        elif isinstance(node, (nodes.Operand, nodes.Compare)):
            node.expr = _filter(node.expr, _CHARGED)
        elif isinstance(node, nodes.Test):
            node.node, node.args = _filter(node.node, _CHARGED), [_filter(value, _CHARGED) for value in node.args]
        return node


def _filter(node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def compiled(tree: nodes.Template) -> Any:
    """A checked tree as a template whose rendering is counted."""
    tree = _Metering().visit(tree)
    tree.set_environment(environment())
    return environment().from_string(tree)
