"""Formulas of tunable parameters, which callers give as numbers, Python expressions in strings, or functions, as texts of
the daemon's expression language. Private.

A string whose parts the language has is taken as it is. A function is traced: it is called with symbols instead of
values, and once more for each way that a condition in it can go. What cannot be traced (int(), math.ceil, a loop over
range(p["x"])) is called for all values of the parameters that it reads, and becomes a table.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import math
import random
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError

Config = Mapping[str, Any]
Domains = Mapping[str, Sequence[Any]]

TEXT_BYTES_MAX = 4096  # of an expression of the daemon
TABLE_MAX = 1_000_000  # calls of a function that becomes a table
_CONSTRAINTS_MAX = 100  # of one condition; a definition has 128
_PATHS_MAX = 32  # through a function that is traced
_SAMPLES = 64  # configs for which a traced function is compared with its text
_FUNCTIONS = {"abs": (1, 1), "min": (1, 64), "max": (1, 64), "int": (1, 1), "float": (1, 1), "bool": (1, 1),
              "round": (1, 2), "sum": (1, 1), "any": (1, 1), "all": (1, 1)}
_LIST_FUNCTIONS = ("min", "max", "sum", "any", "all")
# What strings may use where this process evaluates them.
_NAMESPACE = {name: getattr(builtins, name) for name in
              (*_FUNCTIONS, "divmod", "len", "pow", "range", "list", "tuple", "set", "sorted", "str", "zip", "map")}
_NAMESPACE["math"] = math
_FUNCTIONS["ceil_div"] = (2, 2)
_NAMESPACE["ceil_div"] = lambda total, by: -(-total // by)


class Untranslatable(Exception):
    """No text of the language stands for it, or none that is short enough."""


class Formula:
    """A value that depends on a config. `what` names it in errors. A condition that divides by zero is false, as it is in
    the daemon, and so is a function that ends without a value."""

    def __init__(self, given: Any, what: str, names: Iterable[str], is_condition: bool = False) -> None:
        self.what = what
        self._is_condition = is_condition
        self._divided_by_zero = False
        self._names = tuple(names)
        self._tree: Optional[ast.expr] = None
        if isinstance(given, str):
            self._tree = _parse(given, what, self._names)
            self._function: Callable[[Config], Any] = _evaluator(self._tree, self._names)
        elif callable(given):
            self._function = given
        else:
            value = plain(given, what)
            self._tree = _constant(value)
            self._function = lambda config: value

    def at(self, config: Config) -> Any:
        """The value for a config."""
        try:
            value = self._function(config)
            return False if value is None and self._is_condition else value
        except KeyError as error:
            if error.args and error.args[0] in self._names:
                raise
            raise InvalidArgumentError(f"{self.what} reads the unknown parameter {error}; parameters are "
                                       f"{', '.join(self._names)}") from error
        except ZeroDivisionError:
            if self._is_condition:
                self._divided_by_zero = True
                return False
            raise InvalidArgumentError(f"{self.what} divides by zero for {dict(config)}") from None
        except Exception as error:
            raise InvalidArgumentError(f"{self.what} fails for {dict(config)}: {type(error).__name__}: {error}") from error

    def tree(self, domains: Domains, truth: bool = False) -> ast.expr:
        """As an expression of the language. `truth`: only whether it is true counts."""
        try:
            if self._tree is None:
                traced = _checked(_trace(self._function, domains, truth))
                if self._agrees(traced, domains, truth) and not _computes_with_text(traced, domains, truth):
                    return traced
            elif _is_of_language(self._tree) and not _computes_with_text(self._tree, domains, truth):
                return _checked(self._tree)
        except Untranslatable:
            pass
        return _checked(Table(self, domains).tree(truth))

    def _agrees(self, traced: ast.expr, domains: Domains, truth: bool) -> bool:
        """Tried for some configs: a function may look at types or identities, which symbols do not have."""
        evaluate = _evaluator(traced, self._names)
        chooser = random.Random(1)
        compared = 0
        for _ in range(_SAMPLES):
            config = {name: chooser.choice(values) for name, values in domains.items()}
            try:
                wanted = self._function(config)
                found = evaluate(config)
            except Exception:
                continue
            if bool(wanted) != bool(found) if truth else wanted != found:
                return False
            compared += 1
        return compared > 0

    def constraints(self, domains: Domains) -> List[str]:
        """As constraints that must all hold: one, or several where one would be too long."""
        try:
            tree = self.tree(domains, truth=True)
            # A job ends at a rule that cannot be evaluated; a table has no divisions.
            if any(isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)) and
                   not isinstance(node.right, ast.Constant) for node in ast.walk(tree)):
                table = Table(self, domains) if Table.count(self, domains) <= TABLE_MAX else None
                if table is not None and self._divided_by_zero:
                    tree = _checked(table.tree(truth=True))
            return [text_of(tree)]
        except Untranslatable:
            return Table(self, domains).split()


def plain(value: Any, what: str) -> Any:
    """A bool, int, float or str, of NumPy's scalars too."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # numpy.float64 is a float, and has another repr
        value = value.item()
    if not isinstance(value, (bool, int, float, str)):
        raise InvalidArgumentError(f"{what} is {a_type(value)}; give an int, a float, a bool or a string")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise InvalidArgumentError(f"{what} is {value}, which has more than 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgumentError(f"{what} is {value}, which is no finite number")
    return value


def text_of(tree: ast.expr) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _checked(tree: ast.expr) -> ast.expr:
    if len(text_of(tree).encode()) > TEXT_BYTES_MAX:
        raise Untranslatable
    return tree


def is_integer(tree: ast.expr, integers: Set[str]) -> bool:
    """Whether the value is an int whatever the config; `integers` are the parameters with only such values."""
    if isinstance(tree, ast.Constant):
        return type(tree.value) is int
    if isinstance(tree, ast.Name):
        return tree.id in integers
    if isinstance(tree, ast.UnaryOp):
        return not isinstance(tree.op, ast.Not) and is_integer(tree.operand, integers)
    if isinstance(tree, ast.BinOp):
        whole = not isinstance(tree.op, (ast.Div, ast.Pow))
        return whole and is_integer(tree.left, integers) and is_integer(tree.right, integers)
    if isinstance(tree, ast.IfExp):
        return is_integer(tree.body, integers) and is_integer(tree.orelse, integers)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        if tree.func.id in ("abs", "min", "max"):
            return all(is_integer(argument, integers) for argument in tree.args)
        return tree.func.id in ("int", "ceil_div")
    return False


def call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), list(arguments), [])


def binary(left: ast.expr, operator: ast.operator, right: ast.expr) -> ast.expr:
    return ast.BinOp(left, operator, right)


# ---- Strings ----


def _parse(text: str, what: str, names: Sequence[str]) -> ast.expr:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{what}: '{text}' is no Python expression: {error}") from None
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in bound and node.id not in names and node.id not in _NAMESPACE:
            raise InvalidArgumentError(f"{what}: '{text}' has the unknown name '{node.id}'; parameters are "
                                       f"{', '.join(names)}")
    return tree


def _evaluator(tree: ast.expr, names: Sequence[str]) -> Callable[[Config], Any]:
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "<expression>", "eval")
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    own = [name for name in names if name in used]
    return lambda config: eval(code, {"__builtins__": _NAMESPACE, **{name: config[name] for name in own}})


def _is_of_language(tree: ast.expr) -> bool:
    """Whether the language has all of it, with the same meaning."""
    if isinstance(tree, ast.Constant):
        return isinstance(tree.value, (bool, int, float, str))
    if isinstance(tree, ast.Name):
        return tree.id not in _NAMESPACE
    if isinstance(tree, ast.BoolOp):
        return all(map(_is_of_language, tree.values))
    if isinstance(tree, ast.UnaryOp):
        return _is_of_language(tree.operand)
    if isinstance(tree, ast.BinOp):
        return not isinstance(tree.op, ast.MatMult) and _is_of_language(tree.left) and _is_of_language(tree.right)
    if isinstance(tree, ast.IfExp):
        return all(map(_is_of_language, (tree.test, tree.body, tree.orelse)))
    if isinstance(tree, ast.Compare):
        right = zip(tree.ops, tree.comparators)
        return _is_of_language(tree.left) and all(
            _is_list(side) if isinstance(op, (ast.In, ast.NotIn)) else
            not isinstance(op, (ast.Is, ast.IsNot)) and _is_of_language(side) for op, side in right)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        fewest, most = _FUNCTIONS.get(tree.func.id, (1, 0))
        if not fewest <= len(tree.args) <= most:
            return False
        if len(tree.args) == 1 and tree.func.id in _LIST_FUNCTIONS:
            return _is_list(tree.args[0])
        return all(map(_is_of_language, tree.args))
    return False


def _computes_with_text(tree: ast.expr, domains: Domains, truth: bool) -> bool:
    """The language compares strings, and chooses one; it has no operators for them, and they are neither true nor false."""
    def is_text(node: ast.AST) -> bool:
        return (isinstance(node, ast.Name) and isinstance(domains.get(node.id, (0,))[0], str) or
                isinstance(node, ast.Constant) and isinstance(node.value, str))

    takes = (ast.Compare, ast.Tuple, ast.List) if truth else (ast.Compare, ast.Tuple, ast.List, ast.IfExp)
    return truth and is_text(tree) or any(
        not isinstance(node, takes) and any(map(is_text, ast.iter_child_nodes(node))) for node in ast.walk(tree))


def _is_list(tree: ast.expr) -> bool:
    return isinstance(tree, (ast.List, ast.Tuple)) and bool(tree.elts) and all(map(_is_of_language, tree.elts))


# ---- Functions that are traced ----


class _Fork(BaseException):
    """A condition whose truth is not decided yet. No Exception: functions may catch those."""

    def __init__(self, condition: ast.expr) -> None:
        super().__init__()
        self.condition = condition


class _Symbol:
    """Stands for a value that is not known. What is done with it becomes a tree; its truth is decided by `decisions`."""

    __array_ufunc__ = None  # NumPy's scalars leave their operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tree: ast.expr, decisions: "List[Tuple[bool, ...]]", asked: List[int]) -> None:
        self.tree = tree
        self._decisions, self._asked = decisions, asked

    def made(self, tree: ast.expr) -> "_Symbol":
        return _Symbol(tree, self._decisions, self._asked)

    def __bool__(self) -> bool:
        number = self._asked[0]
        if number >= len(self._decisions[0]):
            raise _Fork(self.tree)
        self._asked[0] += 1
        return self._decisions[0][number]

    def __repr__(self) -> str:
        raise Untranslatable  # a text would not show what it depends on

    def __abs__(self) -> "_Symbol":
        return self.made(call("abs", self.tree))

    def __ceil__(self) -> "_Symbol":
        down = binary(ast.UnaryOp(ast.USub(), self.tree), ast.FloorDiv(), _constant(1))
        return self.made(call("int", ast.UnaryOp(ast.USub(), down)))

    def __floor__(self) -> "_Symbol":
        return self.made(call("int", binary(self.tree, ast.FloorDiv(), _constant(1))))

    def __round__(self, digits: Any = None) -> "_Symbol":
        return self.made(call("round", self.tree, *([] if digits is None else [_tree_of(digits)])))


def _add_operators() -> None:
    def both(operator: ast.operator) -> Tuple[Any, Any]:
        return (lambda self, other: self.made(binary(self.tree, operator, _tree_of(other))),
                lambda self, other: self.made(binary(_tree_of(other), operator, self.tree)))

    def compared(operator: ast.cmpop) -> Any:
        return lambda self, other: self.made(ast.Compare(self.tree, [operator], [_tree_of(other)]))

    def unary(operator: ast.unaryop) -> Any:
        return lambda self: self.made(ast.UnaryOp(operator, self.tree))

    for name, operator in (("add", ast.Add()), ("sub", ast.Sub()), ("mul", ast.Mult()), ("truediv", ast.Div()),
                           ("floordiv", ast.FloorDiv()), ("mod", ast.Mod()), ("pow", ast.Pow()), ("and", ast.BitAnd()),
                           ("or", ast.BitOr()), ("xor", ast.BitXor()), ("lshift", ast.LShift()),
                           ("rshift", ast.RShift())):
        forward, backward = both(operator)
        setattr(_Symbol, f"__{name}__", forward)
        setattr(_Symbol, f"__r{name}__", backward)
    for name, comparison in (("eq", ast.Eq()), ("ne", ast.NotEq()), ("lt", ast.Lt()), ("le", ast.LtE()),
                             ("gt", ast.Gt()), ("ge", ast.GtE())):
        setattr(_Symbol, f"__{name}__", compared(comparison))
    for name, sign in (("neg", ast.USub()), ("pos", ast.UAdd()), ("invert", ast.Invert())):
        setattr(_Symbol, f"__{name}__", unary(sign))


_add_operators()


def _constant(value: Any) -> ast.expr:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def _tree_of(value: Any) -> ast.expr:
    if isinstance(value, _Symbol):
        return value.tree
    try:
        return _constant(plain(value, ""))
    except InvalidArgumentError:
        raise Untranslatable from None


def _trace(function: Callable[[Config], Any], domains: Domains, truth: bool) -> ast.expr:
    paths = 0

    def explore(decided: Tuple[bool, ...]) -> ast.expr:
        nonlocal paths
        paths += 1
        if paths > _PATHS_MAX:
            raise Untranslatable
        decisions, asked = [decided], [0]
        symbols = {name: _Symbol(ast.Name(name, ast.Load()), decisions, asked) for name in domains}
        try:
            value = function(symbols)
            return _tree_of(False if value is None and truth else value)
        except _Fork as fork:
            condition = fork.condition
        except Exception:
            raise Untranslatable from None
        return choice(condition, explore(decided + (True,)), explore(decided + (False,)), truth)

    return explore(())


# ---- Choices and tables ----


def _is_constant(tree: ast.expr, value: bool) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is value


def _negated(tree: ast.expr) -> ast.expr:
    opposite = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE,
                ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        return ast.Compare(tree.left, [opposite[type(tree.ops[0])]()], tree.comparators)
    return ast.UnaryOp(ast.Not(), tree)


def _joined(operator: ast.boolop, *trees: ast.expr) -> ast.expr:
    parts: List[ast.expr] = []
    for tree in trees:
        same = isinstance(tree, ast.BoolOp) and isinstance(tree.op, type(operator))
        parts.extend(tree.values if same else [tree])  # type: ignore[attr-defined]
    return ast.BoolOp(operator, parts)


def choice(test: ast.expr, yes: ast.expr, no: ast.expr, truth: bool) -> ast.expr:
    if ast.dump(yes) == ast.dump(no):
        return yes
    if truth:
        # Of "and" the condition itself is the result where it is false, of "or" where it is true.
        no = ast.Constant(False) if ast.dump(no) == ast.dump(test) else no
        yes = ast.Constant(True) if ast.dump(yes) == ast.dump(test) else yes
        if _is_constant(yes, True):
            return test if _is_constant(no, False) else _joined(ast.Or(), test, no)
        if _is_constant(no, False):
            return _joined(ast.And(), test, yes)
        if _is_constant(yes, False):
            return _negated(test) if _is_constant(no, True) else _joined(ast.And(), _negated(test), no)
        if _is_constant(no, True):
            return _joined(ast.Or(), _negated(test), yes)
    return ast.IfExp(test, yes, no)


class _Reads(Dict[str, Any]):
    """A config that remembers what was read of it."""

    def __init__(self, config: Config, read: Set[str]) -> None:
        super().__init__(config)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self._read.add(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def _all(self) -> None:
        self._read.update(super().keys())

    def __iter__(self) -> Any:
        self._all()
        return super().__iter__()

    def keys(self) -> Any:
        self._all()
        return super().keys()

    def values(self) -> Any:
        self._all()
        return super().values()

    def items(self) -> Any:
        self._all()
        return super().items()


class Table:
    """The values of a formula for all values of the parameters that it reads."""

    def __init__(self, formula: Formula, domains: Domains) -> None:
        self._what = formula.what
        self._domains = domains
        first = {name: values[0] for name, values in domains.items()}
        read = names_read(formula, first)[1]
        while True:
            self._names = [name for name in domains if name in read]
            count = math.prod(len(domains[name]) for name in self._names)
            if count > TABLE_MAX:
                raise InvalidArgumentError(
                    f"{formula.what} would have to be called for {count} combinations of {', '.join(self._names)}, more "
                    f"than {TABLE_MAX}; write it without int(), math functions and loops over parameters, or as a string")
            self._values: Dict[Tuple[Any, ...], Any] = {}
            for values in itertools.product(*(domains[name] for name in self._names)):
                config = _Reads({**first, **dict(zip(self._names, values))}, read)
                self._values[values] = plain(formula.at(config), formula.what)
            if all(name in self._names for name in read):
                return

    @staticmethod
    def count(formula: Formula, domains: Domains) -> int:
        """About how many calls it takes."""
        read = names_read(formula, {name: values[0] for name, values in domains.items()})[1]
        return math.prod(len(domains[name]) for name in read)

    def tree(self, truth: bool) -> ast.expr:
        return self._tree((), truth)

    def split(self) -> List[str]:
        """As several constraints that must all hold."""
        return split(self._names, self._domains, lambda chosen: self._tree(chosen, True), self._what)

    def _tree(self, chosen: Tuple[Any, ...], truth: bool) -> ast.expr:
        if len(chosen) == len(self._names):
            value = self._values[chosen]
            return _constant(bool(value) if truth else value)
        name = self._names[len(chosen)]
        groups: Dict[str, Tuple[ast.expr, List[Any]]] = {}
        for value in self._domains[name]:
            tree = self._tree(chosen + (value,), truth)
            groups.setdefault(ast.dump(tree), (tree, []))[1].append(value)
        return _chosen_by(name, list(groups.values()), truth)


def split(names: Sequence[str], domains: Domains, rest: Callable[[Tuple[Any, ...]], ast.expr], what: str) -> List[str]:
    """One constraint, or where it would be too long one for each value of the first parameter, and so on: what `rest` says
    of the other parameters where the first ones have the chosen values."""
    made: List[str] = []

    def visit(chosen: Tuple[Any, ...]) -> None:
        tree = rest(chosen)
        if _is_constant(tree, True):
            return
        for name, value in reversed(list(zip(names, chosen))):
            other = ast.Compare(ast.Name(name, ast.Load()), [ast.NotEq()], [_constant(value)])
            tree = choice(other, ast.Constant(True), tree, True)
        text = text_of(tree)
        if len(text.encode()) <= TEXT_BYTES_MAX:
            made.append(text)
        elif len(chosen) < len(names) - 1:
            for value in domains[names[len(chosen)]]:
                visit(chosen + (value,))
        else:
            there = ", ".join(f"{name}={value}" for name, value in zip(names, chosen))
            raise InvalidArgumentError(f"{what} is no formula, and too irregular for a table: the configs that it allows for "
                                       f"{there} take {len(text)} characters, more than {TEXT_BYTES_MAX}; write it as a "
                                       "string or with fewer parameters")

    visit(())
    if len(made) > _CONSTRAINTS_MAX:
        raise InvalidArgumentError(f"{what} is no formula, and too irregular for a table: it takes {len(made)} constraints, "
                                   f"more than {_CONSTRAINTS_MAX}; write it as a string or with fewer parameters")
    return made


class Listed:
    """A condition that holds for the given configs alone."""

    what = "configs"

    def __init__(self, names: Sequence[str], rows: Iterable[Tuple[Any, ...]]) -> None:
        self._names, self._rows = list(names), set(rows)

    def at(self, config: Config) -> bool:
        return tuple(config[name] for name in self._names) in self._rows

    def constraints(self, domains: Domains) -> List[str]:
        """As constraints that must all hold; none where all combinations are listed."""
        def rest(chosen: Tuple[Any, ...]) -> ast.expr:
            return tree(len(chosen), [row for row in self._rows if row[:len(chosen)] == chosen])

        def tree(level: int, rows: List[Tuple[Any, ...]]) -> ast.expr:
            if level == len(self._names) or not rows:
                return ast.Constant(bool(rows))
            groups: Dict[str, Tuple[ast.expr, List[Any]]] = {}
            for value in domains[self._names[level]]:
                below = tree(level + 1, [row for row in rows if row[level] == value])
                groups.setdefault(ast.dump(below), (below, []))[1].append(value)
            return _chosen_by(self._names[level], list(groups.values()), True)

        return split(self._names, domains, rest, self.what)


def _chosen_by(name: str, groups: List[Tuple[ast.expr, List[Any]]], truth: bool) -> ast.expr:
    """Halved again and again, so that many values nest little."""
    if len(groups) == 1:
        return groups[0][0]
    first, second = groups[:len(groups) // 2], groups[len(groups) // 2:]
    values = [_constant(value) for _, group in first for value in group]
    variable = ast.Name(name, ast.Load())
    test = (ast.Compare(variable, [ast.Eq()], values) if len(values) == 1 else
            ast.Compare(variable, [ast.In()], [ast.Tuple(values, ast.Load())]))
    return choice(test, _chosen_by(name, first, truth), _chosen_by(name, second, truth), truth)


def names_read(formula: Union[Formula, Listed], config: Config) -> Tuple[Any, Set[str]]:
    """The value for a config, and the parameters that were read for it."""
    read: Set[str] = set()
    return formula.at(_Reads(config, read)), read
