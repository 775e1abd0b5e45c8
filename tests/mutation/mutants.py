"""Small changes to the code of one module, each of which some test should notice.

Changed are the bodies of functions and the constants of a module. Imports, types, words and the fields of classes stay.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Change = Callable[[Any], ast.AST]
"""Makes of a copy of a node what stands in its place."""

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. `function` is the qualified name of what is changed, or the name of a constant of the module."""

    module: str
    function: str
    line: int
    text: str  # of the line
    mutation: str  # "before -> after"; "#2" follows where a line has several of the same
    is_constant: bool
    path: Path
    at: tuple[int, int, int]  # which part of the module, which node of it, which change

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What names it wherever in its file it stands."""
        return (self.module, self.function, self.text, self.mutation)

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line}: {self.function}: {self.mutation}\n    {self.text}"


def mutants_of(module: str, path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a module in the order of its text."""
    source = path.read_text()
    lines = source.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    for part, (function, node, is_constant) in enumerate(_parts(ast.parse(source), "")):
        for place, found in enumerate(_changeable(node)):
            for number, change in enumerate(_changes(found)):
                line = getattr(found, "lineno", node.lineno)
                text = lines[line - 1].strip()
                mutation = f"{_short(found)} -> {_short(change(copy.deepcopy(found)))}"
                seen[function, text, mutation] += 1
                again = seen[function, text, mutation]
                told = mutation if again == 1 else f"{mutation} #{again}"
                yield Mutant(module, function, line, text, told, is_constant, path, (part, place, number))


def mutated(mutant: Mutant) -> ast.Module:
    """Return the whole module with the change."""
    tree = ast.parse(mutant.path.read_text())
    part, place, number = mutant.at
    node = list(_parts(tree, ""))[part][1]
    found = list(_changeable(node))[place]
    after = ast.copy_location(list(_changes(found))[number](copy.deepcopy(found)), found)
    _Replace(found, after).visit(node)
    return ast.fix_missing_locations(tree)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _parts(node: ast.AST, prefix: str) -> Iterator[tuple[str, Any, bool]]:
    """Yield (qualified name, node, is it a constant) of the functions, methods and constants of a module."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef):
            yield f"{prefix}{inner.name}", inner, False
        elif isinstance(inner, ast.ClassDef):
            yield from ((name, part, False) for name, part, constant in _parts(inner, f"{inner.name}.") if not constant)
        elif isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            yield inner.targets[0].id, inner, True


def _changeable(part: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body or of a constant's value, without annotations, in a fixed order."""
    roots = part.body if isinstance(part, ast.FunctionDef) else [part.value]  # type: ignore[attr-defined]
    for root in roots:
        yield from _below(root)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return  # zip(strict=True) refuses what never comes
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(node, ast.JoinedStr | ast.FormattedValue):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST):
                yield from _below(inner)


class _Replace(ast.NodeTransformer):
    def __init__(self, before: ast.AST, after: ast.AST) -> None:
        self._before, self._after = before, after

    def visit(self, node: ast.AST) -> ast.AST:
        return self._after if node is self._before else self.generic_visit(node)


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield what may become of `node`."""
    if isinstance(node, ast.Compare):
        yield from (_with_operator(place) for place in range(len(node.ops)))
    elif isinstance(node, ast.BoolOp):
        yield lambda one: ast.BoolOp(_OTHER[type(one.op)](), one.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        yield lambda one: ast.BinOp(one.left, _OTHER[type(one.op)](), one.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield lambda one: one.operand
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        yield lambda one: ast.Call(ast.Name(_SWAPPED[one.func.id], ast.Load()), one.args, one.keywords)
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    elif isinstance(node, ast.stmt):
        yield from _statements(node)


def _with_operator(place: int) -> Change:
    def change(one: ast.Compare) -> ast.Compare:
        operators = [_OTHER[type(op)]() if at == place else op for at, op in enumerate(one.ops)]
        return ast.Compare(one.left, operators, one.comparators)  # type: ignore[arg-type]

    return change


def _constants(value: object) -> Iterator[Change]:
    if isinstance(value, bool):
        yield lambda one: ast.Constant(not one.value)
    elif isinstance(value, int):
        yield lambda one: ast.Constant(one.value + 1)
        if value > 0:
            yield lambda one: ast.Constant(one.value - 1)


def _statements(node: ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.Return) and not _is_none(node.value):
        yield lambda _: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.If) and not node.orelse:
        yield lambda one: ast.If(ast.Constant(False), one.body, [])
    elif isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Raise) or _does_something(node):
        yield lambda _: ast.Pass()


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _does_something(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)


class Unchanged(Exception):
    """The change cannot be put into the running program, or makes no difference to it."""


def install(mutant: Mutant) -> None:
    """Put `mutant` into the loaded module, and wherever its constants were imported.

    Raises:
        Unchanged: that cannot be done, or alters nothing.
    """
    module = sys.modules[mutant.module]
    code = compile(mutated(mutant), str(module.__file__), "exec")
    if mutant.is_constant:
        return _install_constant(module, mutant.function, code)
    function = _function(module, mutant.function)
    changed = _code(code, mutant.function.split("."))
    try:
        function.__code__ = changed
    except ValueError as error:
        raise Unchanged(str(error)) from error
    return None


def _function(module: ModuleType, qualified: str) -> FunctionType:
    found: Any = module
    for name in qualified.split("."):
        found = vars(found)[name]
    found = getattr(found, "fget", found)
    found = getattr(found, "__func__", found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    assert isinstance(found, FunctionType)
    return found


def _code(code: CodeType, names: list[str]) -> CodeType:
    for name in names:
        code = [one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name][-1]
    return code


def _install_constant(module: ModuleType, name: str, code: CodeType) -> None:
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    kept = sys.modules[module.__name__]
    sys.modules[module.__name__] = fresh  # dataclasses look themselves up there
    try:
        exec(code, vars(fresh))
    finally:
        sys.modules[module.__name__] = kept
    old, new = vars(module)[name], vars(fresh)[name]
    if callable(old) or type(old) is not type(new):
        raise Unchanged(f"{name} is no plain value")
    for other in list(sys.modules.values()):
        if vars(other).get(name, fresh) is old:
            setattr(other, name, new)
