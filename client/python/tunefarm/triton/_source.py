"""The source of a Triton kernel as a module that stands alone. Private."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import math
import re
import site
import sys
import sysconfig
import textwrap
import weakref
from pathlib import Path
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from tunefarm import _files
from tunefarm.errors import InvalidArgumentError

_SOURCE_BYTES_MAX = 4 << 20
_SOURCES_MAX = 64
_DECORATORS = ("jit", "constexpr_function")  # others choose configs or launch
_FOR_PEOPLE = ("launch_metadata", "repr")  # of @triton.jit: they change no kernel
_NO_LITERAL = object()
_UNDEFINED = object()
PRUNING = ("early_config_prune", "perf_model")  # attributes of an Autotuner
_texts: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()
# By function: what it was made of, and what was made.
_prepared: "weakref.WeakKeyDictionary[FunctionType, Tuple[Tuple[Any, ...], _Written]]" = weakref.WeakKeyDictionary()


def of(kernel: Any, decorated: Any) -> Dict[str, str]:
    """Files by name, the first of which holds the kernel: its own file if the kernel, or what further decorators made of
    it, stands at its module level, with the modules beside it that it imports; else a file of the functions and constants
    that the kernel uses. Also where importing a file calls something, which may need a GPU, if that can be collected."""
    function = kernel.fn
    module = sys.modules.get(function.__module__ or "")
    file = getattr(module, "__file__", None)
    if module is not None and module.__name__ != "__main__" and file and Path(file).is_file():
        found = vars(module).get(function.__name__)
        files: Dict[str, str] = {}
        if (found is kernel or found is decorated) and _add_file(Path(file), module.__name__, files):
            if not any(_calls_when_imported(text) for text in files.values()):
                return files
            try:
                return alone(kernel)
            except InvalidArgumentError:
                return files
    return alone(kernel)


def alone(kernel: Any, constants: Mapping[str, Any] = MappingProxyType({})) -> Dict[str, str]:
    """A file of the functions and constants that the kernel uses. Parameters in `constants` become tl.constexpr ones, with
    these values as defaults: what a definition's arguments cannot be, such as None."""
    return {f"{kernel.fn.__name__}.py": _Collector().text(kernel, constants)}


class Text:
    """The source of a kernel, as `alone` has it, which can tell whether it would be another one now."""

    def __init__(self, kernel: Any) -> None:
        """InvalidArgumentError for what a source cannot be made of."""
        collector = _Collector()
        self.text = collector.text(kernel, {})
        self._functions, self._names = collector.read, collector.looked_up

    def is_current(self) -> bool:
        """Whether the functions that it was made of and the names that they use are what they were. A source that was read
        from a file is never current."""
        for jitted, function, lines, defaults, named_defaults in self._functions:
            if not (lines and jitted.fn is function and jitted.raw_src is lines and function.__defaults__ is defaults and
                    function.__kwdefaults__ is named_defaults):
                return False
        for namespace, name, value in self._names:
            found = namespace.cell_contents if isinstance(namespace, CellType) else namespace.get(name, _UNDEFINED)
            if found is not value:
                return False
        return True


class _Written(NamedTuple):
    """A function by itself."""

    text: str
    names: List[str]  # of what it uses
    needs_triton: bool  # @triton.jit was put there

    @classmethod
    def of(cls, tree: ast.FunctionDef, needs_triton: bool) -> "_Written":
        names = _names_used(tree)
        return cls(ast.unparse(ast.fix_missing_locations(tree)), names, needs_triton)


def _prepare(jitted: Any) -> _Written:
    """What of `alone` takes most of the time, and does not depend on what is defined later: 1 to 2 ms, and nothing when it is
    called again. InvalidArgumentError where the source cannot be read."""
    function, lines = jitted.fn, getattr(jitted, "raw_src", None)
    state = (lines, function.__defaults__, function.__kwdefaults__)
    kept = _prepared.get(function)
    if kept is not None and all(one is other for one, other in zip(kept[0], state)):
        return kept[1]
    written = _Written.of(*_tree_of(jitted))
    if lines:  # else its file is read, which may change
        _prepared[function] = (state, written)
    return written


def text_of(function: Any) -> str:
    """Its source, or "" where it cannot be found; read once."""
    try:
        return _texts[function]
    except (KeyError, TypeError):  # nothing refers weakly to it
        pass
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    try:
        _texts[function] = text
    except TypeError:
        pass
    return text


def is_heuristics(decorated: Any) -> bool:
    return type(decorated).__name__ == "Heuristics"


def prepare_all(tuner: Any) -> None:
    """Prepares what an Autotuner's first launch would wait for. Ignores errors, such as names that are defined later:
    the launch reports those that remain."""
    try:
        inner = tuner.fn
        while is_heuristics(inner):
            for function in inner.values.values():
                text_of(function)
            inner = inner.fn
        for name in PRUNING:
            text_of(getattr(tuner, name, None))
        alone(inner)
    except Exception:
        pass


def _calls_when_imported(text: str) -> bool:
    """Whether the module level calls anything but constexpr, apart from definitions with their decorators, and from what
    runs in __main__ alone."""
    for statement in ast.parse(text).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        if isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and _last_name(node) != "constexpr":
                return True
    return False


def _add_file(path: Path, module: str, files: Dict[str, str]) -> bool:
    """False where it cannot stand alone: it imports from the package that it is a part of."""
    try:
        text = _files.read(path, _SOURCE_BYTES_MAX).decode("utf-8")
        tree = ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        raise InvalidArgumentError(f"{path} is no source of Python in UTF-8") from None
    if len(files) >= _SOURCES_MAX:
        raise InvalidArgumentError(f"{path} and the modules beside it are more than {_SOURCES_MAX} files")
    files[re.sub(r"\W", "_", path.stem) + ".py"] = text
    package = module.partition(".")[0] if "." in module else None
    for node in ast.walk(tree):
        names = ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                 [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        for name in names:
            top = name.partition(".")[0]
            if (isinstance(node, ast.ImportFrom) and node.level) or top == package:
                return False
            beside = path.parent / f"{top}.py"
            if package is None and beside.name not in files and beside.is_file() and not _add_file(beside, top, files):
                return False
    return True


class _Collector:
    """Writes functions and what they use by name, each once."""

    def __init__(self) -> None:
        self._bound: Dict[str, Any] = {}
        self._imports: List[str] = []
        self._constants: List[str] = []
        self._functions: List[str] = []
        self._other_names: List[str] = []
        # All that was looked at, also for what is not written: functions with their lines and defaults; names, where they
        # were looked up, and what was found.
        self.read: List[Tuple[Any, FunctionType, Any, Any, Any]] = []
        self.looked_up: List[Tuple[Any, str, Any]] = []

    def text(self, kernel: Any, constants: Mapping[str, Any]) -> str:
        self._bound[kernel.fn.__name__] = kernel
        self._add_function(kernel.fn.__name__, kernel, constants)
        parts = ["\n".join(sorted(self._imports)), "\n".join(self._constants), *self._functions,
                 "\n".join(self._other_names)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _bind(self, name: str, value: Any, user: FunctionType) -> None:
        """A name of the module: what it is for `user`, one of the functions."""
        if name in self._bound:
            if self._bound[name] is not value and not _is_same_literal(self._bound[name], value):
                raise InvalidArgumentError(f"the name '{name}' means different things in the functions that the kernel uses; "
                                           "rename one of them")
            return
        self._bound[name] = value
        literal = _literal(value)
        if isinstance(value, ModuleType):
            if not _is_installed(value):
                raise _refused(name, user, f"is the module {value.__name__} of your program, which the daemon does not have; "
                                           "import the functions that are used by name")
            self._imports.append(f"import {value.__name__}" + ("" if name == value.__name__ else f" as {name}"))
        elif literal is not _NO_LITERAL:
            if _is_constexpr(value):
                self._need_triton()
                literal = f"triton.language.constexpr({literal})"
            self._constants.append(f"{name} = {literal}")
        elif self._writes(name, value):
            pass
        elif (imported := _import_of(value)) is not None:
            self._imports.append(imported + ("" if imported.endswith(f" {name}") else f" as {name}"))
        else:
            raise _refused(name, user, f"is of type {type(value).__name__}; a kernel's source has functions of @triton.jit, "
                                       "modules, numbers and strings alone")

    def _writes(self, name: str, value: Any) -> bool:
        """A function of @triton.jit, unless it is Triton's own. Of an installed package it is written if it can be: importing
        the package may need a GPU, and another release may have another function."""
        if not isinstance(getattr(value, "fn", None), FunctionType):
            return False
        can_be_imported = _import_of(value) is not None
        if can_be_imported and _is_of_triton(value.fn.__module__):
            return False
        state = {part: copy.copy(made) for part, made in vars(self).items() if part not in ("read", "looked_up")}
        try:
            self._add_function(name, value)
        except InvalidArgumentError:
            if not can_be_imported:
                raise
            vars(self).update(state)
            return False
        return True

    def _need_triton(self) -> None:
        self._need("triton.language")

    def _need(self, module: str) -> None:
        if f"import {module}" not in self._imports:
            self._imports.append(f"import {module}")

    def _add_function(self, name: str, jitted: Any, constants: Mapping[str, Any] = MappingProxyType({})) -> None:
        function = jitted.fn
        own = function.__name__
        if own != name:
            self._other_names.append(f"{name} = {own}")
            self._bind(own, jitted, function)
            return
        self.read.append((jitted, function, getattr(jitted, "raw_src", None), function.__defaults__, function.__kwdefaults__))
        if constants:
            tree, needs_triton = _tree_of(jitted)
            if needs_triton:
                self._need_triton()
            self._write_constants(tree, constants)
            written = _Written.of(tree, needs_triton)
        else:
            written = _prepare(jitted)
            if written.needs_triton:
                self._need_triton()
        # Where a function is used before it is defined, or by itself, does not matter: names are looked up in calls.
        for used in written.names:
            if used in function.__code__.co_freevars:
                cell = (function.__closure__ or ())[function.__code__.co_freevars.index(used)]
                self.looked_up.append((cell, used, cell.cell_contents))
                self._bind(used, cell.cell_contents, function)
                continue
            self.looked_up.append((function.__globals__, used, function.__globals__.get(used, _UNDEFINED)))
            if used in function.__globals__:
                self._bind(used, function.__globals__[used], function)
            elif used != "triton" and not hasattr(builtins, used):  # triton.jit may have been put there
                raise _refused(used, function, "is defined nowhere that can be seen")
        self._functions.append(written.text)

    def _write_constants(self, tree: ast.FunctionDef, constants: Mapping[str, Any]) -> None:
        self._need_triton()
        arguments = tree.args
        own = [*arguments.posonlyargs, *arguments.args]
        defaults: List[Optional[ast.expr]] = [None] * (len(own) - len(arguments.defaults))
        defaults += arguments.defaults
        for listed, values in ((own, defaults), (arguments.kwonlyargs, arguments.kw_defaults)):
            for index, argument in enumerate(listed):
                if argument.arg in constants:
                    argument.annotation = ast.parse("triton.language.constexpr", mode="eval").body
                    values[index] = self._constant(argument.arg, constants[argument.arg])
        # Behind a parameter with a default all others need one. Those of arguments are not looked at.
        first = next((index for index, value in enumerate(defaults) if value is not None), len(own))
        arguments.defaults = [ast.Constant(None) if value is None else value for value in defaults[first:]]

    def _constant(self, name: str, value: Any) -> ast.expr:
        literal = _literal(value)
        if literal is _NO_LITERAL:
            place = _place_of(value)
            if place is None:
                raise InvalidArgumentError(f"the constant '{name}' is of type {type(value).__name__}, which cannot be written "
                                           "into a source")
            self._need(place[0])
            literal = ".".join(place)
        return ast.parse(literal, mode="eval").body


def _tree_of(jitted: Any) -> "Tuple[ast.FunctionDef, bool]":
    """Its definition, and whether @triton.jit was put there."""
    function = jitted.fn
    tree = _definition(function, getattr(jitted, "raw_src", None))
    tree.decorator_list = [item for item in tree.decorator_list if _last_name(item) in _DECORATORS]
    needs_triton = not tree.decorator_list
    if needs_triton:
        tree.decorator_list = [ast.parse("triton.jit", mode="eval").body]
    for decorator in tree.decorator_list:
        if isinstance(decorator, ast.Call):
            decorator.keywords = [item for item in decorator.keywords if item.arg not in _FOR_PEOPLE]
    _write_defaults(tree, function)
    return tree, needs_triton


def _refused(name: str, user: FunctionType, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"'{name}', which {user.__name__} uses, {why}")


def _definition(function: FunctionType, lines: Any) -> ast.FunctionDef:
    """`lines`: what Triton has read of it, or None; its file may have changed since then."""
    try:
        body = ast.parse(textwrap.dedent("".join(lines) if lines else inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError) as error:
        raise InvalidArgumentError(f"the source of {function.__name__} cannot be read: {error}") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise InvalidArgumentError(f"{function.__name__} is no function that a def statement makes")
    return body[0]


def _last_name(decorator: ast.expr) -> str:
    """"jit" of @triton.jit(...)."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _write_defaults(tree: ast.FunctionDef, function: FunctionType) -> None:
    """As literals, where they are such: the names in them may be those of a function that has returned."""
    arguments = tree.args
    named = function.__kwdefaults__ or {}
    for index, value in enumerate(function.__defaults__ or ()):
        arguments.defaults[index] = _written(value, arguments.defaults[index])
    for index, argument in enumerate(arguments.kwonlyargs):
        if argument.arg in named:
            arguments.kw_defaults[index] = _written(named[argument.arg], arguments.kw_defaults[index])


def _written(value: Any, tree: Any) -> Any:
    literal = _literal(value)
    return tree if literal is _NO_LITERAL or _is_constexpr(value) else ast.parse(literal, mode="eval").body


def _names_used(tree: ast.FunctionDef) -> List[str]:
    """Of what stands outside of the function, in the order of their first use."""
    arguments = tree.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    outside: List[Any] = [*tree.decorator_list, *arguments.defaults, *arguments.kw_defaults, tree.returns,
                          *(argument.annotation for argument in every)]
    own: Set[str] = {argument.arg for argument in every}
    for node in _nodes(tree.body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            own.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            own.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    made: Dict[str, None] = {}
    for part, hidden in ((outside, set()), (tree.body, own)):
        for node in _nodes(part):
            if isinstance(node, ast.Name) and node.id not in hidden:
                made[node.id] = None
    return list(made)


def _nodes(trees: List[Any]) -> Iterator[ast.AST]:
    for tree in trees:
        if tree is not None:
            yield from ast.walk(tree)


def _is_constexpr(value: Any) -> bool:
    return type(value).__name__ == "constexpr" and hasattr(value, "value")


def _literal(value: Any) -> Any:
    """Its text."""
    if _is_constexpr(value):
        return _literal(value.value)
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if type(value) is tuple:
        parts = [_literal(item) for item in value]
        if all(part is not _NO_LITERAL for part in parts):
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return _NO_LITERAL


def _is_same_literal(one: Any, other: Any) -> bool:
    literal = _literal(one)
    return literal is not _NO_LITERAL and literal == _literal(other) and _is_constexpr(one) == _is_constexpr(other)


def _import_of(value: Any) -> Optional[str]:
    place = _place_of(value)
    return place and "from {} import {}".format(*place)


def _place_of(value: Any) -> "Optional[tuple[str, str]]":
    """The module and the name of what an installed module has, such as tl.float16."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or not _is_installed(module):
        return None
    return next(((module.__name__, name) for name, item in list(vars(module).items()) if item is value), None)


def _is_of_triton(module: Optional[str]) -> bool:
    return (module or "").partition(".")[0] == "triton"


def _is_installed(module: ModuleType) -> bool:
    """Whether the daemon's interpreter can be expected to have it."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or _is_of_triton(module.__name__) or not file:
        return module.__name__ != "__main__"
    return file.startswith(_installed_places()) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


@functools.lru_cache(maxsize=None)  # 0.1 ms a call, the first one 5 ms
def _installed_places() -> Tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + [site.getusersitepackages()]
    return tuple(f"{place}/" for place in places)
