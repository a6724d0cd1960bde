"""What templates may use, and a limit on the work of rendering them: templates come from other people."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from types import SimpleNamespace
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes, pass_context, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import htmlsafe_json_dumps
from jinja2.visitor import NodeTransformer

ERRORS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What rendering can raise: mistakes of the template, never of the user."""

_DEEPEST, _MOST_LOOPS = 40, 4
_NODE = 20  # the work of one construct in a loop, in characters
_WORK = 200_000
WORK_PER_CHARACTER = 20

# Not allowed: filters that depend on chance (random) or on the machine (pprint), or that make a string of any length
# from a short one (center, indent, wordwrap, format). Without operators on strings and methods, only filters make new
# strings, and each of them is counted.
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "first", "float", "int", "items", "join", "last", "length", "list",
    "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "select", "selectattr", "sort",
    "string", "title", "tojson", "trim", "truncate", "unique", "upper", "wordcount",
)  # fmt: skip
_TESTS = (
    "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float", "ge", "gt", "in", "integer",
    "iterable", "le", "lower", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true",
    "undefined", "upper", "==", "!=", "<", "<=", ">", ">=",
)  # fmt: skip
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Block, nodes.For, nodes.If, nodes.Assign,
    nodes.AssignBlock, nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Keyword, nodes.Getattr, nodes.Getitem,
    nodes.Slice, nodes.Compare, nodes.Operand, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Neg,
    nodes.And, nodes.Or, nodes.Not,
)  # fmt: skip
_LAYOUTS = ({"user"}, {"task", "item"}, {"task", "item", "closing"})  # the blocks of a template, without `system`
# Filters that the compiled source uses; no template can name them: they are added after its names are checked
_CHARGED, _EACH = "charged", "each"


_left: ContextVar[int] = ContextVar("characters that a rendering may still read and write")


def _charge(amount: int) -> None:
    """Count work before it is done: a thread that renders cannot be stopped from outside."""
    left = _left.get() - amount
    _left.set(left)
    if left < 0:
        raise SecurityError(
            f"the template reads and writes more characters than the limit ({_WORK:,}, and {WORK_PER_CHARACTER} more "
            "for each character of item, rubric and template); use fewer loops and shorter strings"
        )


@contextlib.contextmanager
def metered(variables: Mapping[str, Any], n_source: int) -> Iterator[None]:
    """Count the work of the rendering inside; SecurityError if it exceeds the limit for so much text."""
    token = _left.set(_WORK + WORK_PER_CHARACTER * (_size(variables) + n_source))
    try:
        yield
    finally:
        _left.reset(token)


def _size(value: Any) -> int:
    """Characters in a value, and eight for each element of a list, which takes memory too."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 8 * len(value) + sum(map(_size, value))
    if isinstance(value, dict):
        return 8 * len(value) + sum(_size(name) + _size(field) for name, field in value.items())
    if isinstance(value, SimpleNamespace):  # rubric and criterion
        return sum(map(_size, vars(value).values()))
    return 8


def _charged(value: Any) -> Any:
    _charge(_size(value))
    return value


@pass_context  # which also keeps constants from being joined when a template is compiled
def _shown(_: Any, value: Any) -> Any:
    """Check a value that `{{ … }}` shows."""
    if isinstance(value, (str, int, float, StrictUndefined)):
        return value
    raise SecurityError(
        f"a template cannot print a value of type {type(value).__name__}; print an input with fence('NAME')"
    )


def _text(value: Any) -> str:
    return str(_shown(None, value))


def _each(values: Any, cost: int) -> Any:
    if not isinstance(values, (list, tuple, StrictUndefined)):
        raise SecurityError(
            "a loop needs a list, such as rubric.inputs, criterion.scale or an input that is a list; got a "
            f"{type(values).__name__}"
        )
    _charge(cost * len(values))
    return values


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = _text(text), _text(old), _text(new)
    times = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    _charge(len(text) + times * len(new))
    return str(text.replace(old, new, times))


@pass_environment
def _join(environment: Any, values: Any, between: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    texts, between = [_text(value) for value in values], _text(between)
    _charge(_size(texts) + len(between) * len(texts))
    return str(between.join(texts))


def _limited(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result are charged; elementwise ones pass their arguments to each element."""

    @wraps(plain)  # keeps what Jinja reads off it: which of context and environment comes first
    def limited(*args: Any, **kwargs: Any) -> Any:
        values = [*(args[1:] if hasattr(plain, "jinja_pass_arg") else args), *kwargs.values()]
        amount = sum(map(_size, values))
        if values and isinstance(values[0], (list, tuple)):
            amount += len(values[0]) * (_NODE + sum(map(_size, values[1:])))
        _charge(amount)
        result = plain(*args, **kwargs)
        return _charged(list(result) if isinstance(result, Iterator) else result)

    return limited


class _Sandbox(ImmutableSandboxedEnvironment):
    """No access to Python, no randomness, and no text of unlimited length."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        # fields of rubric and criterion; the sandbox's own way costs most of a prompt's time
        known = type(obj) is SimpleNamespace and attribute in vars(obj)
        return getattr(obj, attribute) if known else super().getattr(obj, attribute)


# Where templates are compiled: only the allowed filters and tests, no globals
# Not optimized: constants would be computed before anything is counted.
_ENVIRONMENT = _Sandbox(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, finalize=_shown, optimized=False
)
_ENVIRONMENT.globals.clear()
_ENVIRONMENT.filters = {name: _limited(_ENVIRONMENT.filters[name]) for name in _FILTERS}
_ENVIRONMENT.filters |= {"replace": _replace, "join": _join, "string": _text, _CHARGED: _charged, _EACH: _each}
_ENVIRONMENT.filters["tojson"] = _limited(lambda value: str(htmlsafe_json_dumps(value)))
_ENVIRONMENT.tests = {name: _ENVIRONMENT.tests[name] for name in _TESTS}


class Syntax(NamedTuple):
    """A checked and compiled source.

    Attributes
    ----------
    template
        Jinja's template, whose rendering is counted.
    names
        The names that it reads: variables, and inputs that it fences by name.
    uses_all
        Whether it loops over all inputs.
    reads
        For each block the names in it; without blocks the whole source is the block ``user``. Where fenced texts are
        only printed, ``fence`` is not among them: such a block can be rendered before the texts are known.
    """

    template: Any
    names: frozenset[str]
    uses_all: bool
    reads: dict[str, frozenset[str]]


def compiled(source: str) -> Syntax:
    """Check and compile a source.

    Raises
    ------
    TemplateSyntaxError
        With the line, for a construct or a block that templates may not use.
    """
    tree = _ENVIRONMENT.parse(source)
    _check_tree(tree)
    _check_blocks(tree)
    names = set(meta.find_undeclared_variables(tree))
    for call in tree.find_all(nodes.Call):
        names |= {arg.value for arg in call.args if isinstance(arg, nodes.Const) and isinstance(arg.value, str)}
    looped = [node.iter for node in tree.find_all(nodes.For) if isinstance(node.iter, nodes.Getattr)]
    uses_all = any((getattr(part.node, "name", ""), part.attr) == ("rubric", "inputs") for part in looped)
    blocks: dict[str, nodes.Node] = {block.name: block for block in tree.find_all(nodes.Block)} or {"user": tree}
    reads = {name: frozenset(_names(block)) for name, block in blocks.items()}
    counted = _Metering().visit(tree)
    counted.set_environment(_ENVIRONMENT)
    return Syntax(_ENVIRONMENT.from_string(counted), frozenset(names), uses_all, reads)


def _names(block: nodes.Node) -> set[str]:
    names = {part.name for part in block.find_all(nodes.Name)}
    printed = {id(part) for output in block.find_all(nodes.Output) for part in output.nodes}
    if all(id(call) in printed for call in block.find_all(nodes.Call)) and block.find(nodes.AssignBlock) is None:
        names.discard("fence")
    return names


def _check_tree(tree: nodes.Template) -> None:
    waiting: list[tuple[nodes.Node, int, int, int]] = [(tree, 0, 0, 1)]
    while waiting:  # without recursion: depth is what is looked for
        node, depth, loops, line = waiting.pop()
        line, loops = node.lineno or line, loops + isinstance(node, nodes.For)
        if depth > _DEEPEST or loops > _MOST_LOOPS:
            raise TemplateSyntaxError(
                f"the template is nested too deeply; allowed: {_MOST_LOOPS} loops and {_DEEPEST} constructs inside "
                "each other",
                line,
            )
        if problem := _problem(node):
            raise TemplateSyntaxError(problem, line)
        waiting.extend((child, depth + 1, loops, line) for child in node.iter_child_nodes())


def _problem(node: nodes.Node) -> str | None:
    """Why a template may not contain this node, and what is allowed."""
    kind = type(node).__name__
    if not isinstance(node, _NODES):
        name = getattr(node, "operator", kind.removesuffix("Block").lower())
        return f"'{name}' is not allowed; allowed tags: block, for, if, set; operators: only comparisons, and, or, not"
    if isinstance(node, (nodes.Filter, nodes.Test)):
        allowed = _FILTERS if isinstance(node, nodes.Filter) else _TESTS
        return None if node.name in allowed else f"unknown {kind.lower()} {node.name!r}; allowed: {', '.join(allowed)}"
    if isinstance(node, nodes.Call) and getattr(node.node, "name", "") != "fence":
        name = getattr(node.node, "attr", getattr(node.node, "name", kind))
        return f"{name!r} cannot be called; only fence(…) can, and filters replace methods: {{{{ name | upper }}}}"
    if isinstance(node, nodes.Getitem) and isinstance(node.node, nodes.Const) and not isinstance(node.node.value, str):
        return f"{node.node.value} has no parts to select with [ ]"  # Python would warn when it compiles this
    literal = isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
    if literal and not all(isinstance(part, (nodes.Const, nodes.Neg)) for part in node.iter_child_nodes()):
        return "a list or tuple in a template may contain only constants"
    return None


def _check_blocks(tree: nodes.Template) -> None:
    blocks = list(tree.find_all(nodes.Block))
    if not blocks:
        return
    names = {block.name for block in blocks}
    if names - {"system", "commit"} not in _LAYOUTS:
        raise TemplateSyntaxError(
            f"the blocks {', '.join(sorted(names))} cannot be combined; use either 'user', or 'task' and 'item' "
            "(optionally with 'closing'). 'system' and 'commit' may be added to both",
            blocks[0].lineno,
        )
    for node in tree.body:
        blank = (
            isinstance(node, nodes.Output) and not "".join(getattr(part, "data", "x") for part in node.nodes).strip()
        )
        if not blank and not isinstance(node, nodes.Block):
            raise TemplateSyntaxError(
                "text or settings outside the template's blocks would never be used; move them into a block",
                node.lineno,
            )
    if len(blocks) > sum(isinstance(node, nodes.Block) for node in tree.body):
        raise TemplateSyntaxError(
            "a block inside another block would be sent twice; put the blocks one after the other", blocks[0].lineno
        )


class _Metering(NodeTransformer):
    """Charges every value that is looked up, and every round of a loop, before it is used."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        node = super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.For):
            texts = [getattr(part, "data", getattr(part, "value", None)) for part in node.find_all(nodes.Node)]
            cost = sum(_NODE + (len(text) if isinstance(text, str) else 0) for text in texts)
            node.iter = nodes.Filter(node.iter, _EACH, [nodes.Const(cost)], [], None, None, lineno=node.lineno)
            return node
        if isinstance(node, (nodes.Getattr, nodes.Getitem)):
            if isinstance(node.node, nodes.Filter) and node.node.name == _CHARGED:
                node.node = node.node.node  # type: ignore[assignment]  # only the last value of a chain is read in full
        elif not isinstance(node, nodes.Call) and not (isinstance(node, nodes.Name) and node.ctx == "load"):
            return node
        return nodes.Filter(node, _CHARGED, [], [], None, None, lineno=node.lineno)
