"""A kernel, its arguments and its parameters as a definition (tunefarm.v1.Kernel). Private."""

from __future__ import annotations

import ast
import math
import re
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from google.protobuf import text_format

from tunefarm import _wire
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline import _arguments, _source
from tunefarm.inline._arguments import Argument, Descriptor
from tunefarm.inline._expressions import (TEXT_BYTES_MAX, Domains, Formula, Untranslatable, binary, call, is_integer,
                                           plain, text_of)
from tunefarm.inline._source import CUDA, Source
from tunefarm.inline._space import Space
from tunefarm.v1 import kernel_pb2

# (array, data type) -> what names its content in a definition.
Upload = Callable[[Any, str], Any]

_BLOCK_NAMES = ("block_size_x", "block_size_y", "block_size_z")
_GRID_MAX = 3  # extents
_THREADS_X = 256  # of a block where no parameter says how many
_RTOL = 1e-5  # of numpy.allclose
# Where the outputs of other configs are compared with those of the first one: sums in another order differ by more.
_FIRST_CONFIG_TOLERANCE = {"f16": 1e-2, "bf16": 3e-2, "f32": 1e-3, "f64": 1e-9, "f8e4m3": 0.125}
_NOT_WORD = re.compile(r"\W+")
_DEFINE = re.compile(r"[!%&()*+,\-./0-9:<=>?A-Z\[\]^_a-z{}~]*")


class Launch:
    """How a CUDA kernel is launched: blocks and threads as expressions of the parameters. For the CPU they are macros
    alone, so that a problem may have no size."""

    def __init__(self, problem_size: Any, grid_div: Sequence[Any], block_size_names: Optional[Sequence[str]],
                 smem_args: Any, space: Space, language: str = CUDA) -> None:
        self._is_launched = language == CUDA
        self._space, self._domains, self._integers = space, space.domains, space.integers
        self.names = _block_names(block_size_names, space.domains)
        for name in self.names:
            if self._is_launched and isinstance(space.domains.get(name, [1])[0], str):
                raise InvalidArgumentError(f"tune_params: {name} has strings, and it is the size of a block; give numbers")
        sizes = [name if name in space.domains else str(_THREADS_X if axis == 0 else 1)
                 for axis, name in enumerate(self.names)]
        self.block = [size if size.isdigit() or size in self._integers else f"int({size})" for size in sizes]
        extents = _extents(problem_size, space, "problem_size", _GRID_MAX)
        extents += [Formula(1, "problem_size", space.domains)] * (3 - len(extents))
        self.grid = [self._blocks(size, divisor, axis) for axis, (size, divisor) in enumerate(zip(extents, grid_div))]
        self.thread_parameters = [name for name in self.names if name in space.domains]
        self.dynamic_shared_bytes = self._shared(smem_args)

    def _blocks(self, size: Formula, divisor: Any, axis: int) -> str:
        what = f"grid_div_{'xyz'[axis]}"
        total, by = _integer(size, self._space), None
        if self._is_launched:
            _check_positive(total, size.what)
        for part in self._divisors(divisor, self.names[axis], what):
            _check_positive(part, what)
            by = part if by is None else binary(by, ast.Mult(), part)
        if by is None or (isinstance(by, ast.Constant) and by.value == 1):
            return _text(total, what)
        if is_integer(by, self._integers):
            return _text(call("ceil_div", total, by), what)
        down = binary(binary(ast.UnaryOp(ast.USub(), total), ast.Div(), by), ast.FloorDiv(), ast.Constant(1))
        return _text(call("int", ast.UnaryOp(ast.USub(), down)), what)

    def _divisors(self, given: Any, default: Any, what: str) -> List[ast.expr]:
        if given is None:
            return [ast.Name(default, ast.Load())] if default in self._domains else []
        if isinstance(given, str):
            return [_integer(Formula(given, what, self._domains), self._space)]
        if callable(given) or not hasattr(given, "__iter__"):
            return [_tree(Formula(given, what, self._domains), self._space)]
        return [part for index, item in enumerate(given) for part in self._divisors(item, None, f"{what}[{index}]")]

    def _shared(self, smem_args: Any) -> str:
        if not smem_args:
            return ""
        if callable(smem_args):
            size = Formula(lambda config: smem_args(config)["size"], "smem_args", self._domains)
            return _text(_integer(size, self._space), "smem_args")
        if not isinstance(smem_args, Mapping) or set(smem_args) != {"size"}:
            raise InvalidArgumentError("smem_args is {'size': bytes of dynamic shared memory}; other keys are not "
                                       "supported")
        size = Formula(smem_args["size"], "smem_args['size']", self._domains)
        return _text(_integer(size, self._space), size.what)


def grid_of(given: Any, space: Space) -> List[str]:
    """Blocks in 1 to 3 dimensions: numbers, expressions as strings, functions of a config, or one function of all."""
    return extents_of(given, space, "grid", _GRID_MAX)


def extents_of(given: Any, space: Space, what: str, most: int) -> List[str]:
    """1 to `most` of them, as grid_of."""
    made = []
    for extent in _extents(given, space, what, most):
        tree = _integer(extent, space)
        _check_positive(tree, extent.what)
        made.append(_text(tree, extent.what))
    return made


def _tree(formula: Formula, space: Space) -> ast.expr:
    try:
        return formula.tree(space.domains)
    except Untranslatable:
        raise InvalidArgumentError(f"{formula.what} is no formula that the daemon can evaluate, and has too many values for a "
                                   f"table of {TEXT_BYTES_MAX} characters; write it as a string") from None


def _integer(formula: Formula, space: Space) -> ast.expr:
    tree = _tree(formula, space)
    return tree if is_integer(tree, space.integers) else call("int", tree)


def _check_positive(tree: ast.expr, what: str) -> None:
    """What is the same for all configs; the daemon says what is wrong with single ones."""
    is_negative = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub)
    number = tree.operand if is_negative else tree  # type: ignore[attr-defined]
    if isinstance(number, ast.Constant) and isinstance(number.value, (int, float)) and (is_negative or number.value <= 0):
        raise InvalidArgumentError(f"{what} is {text_of(tree)}; give a number above 0")


def _text(tree: ast.expr, what: str) -> str:
    text = text_of(tree)
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise InvalidArgumentError(f"{what} takes {len(text)} characters as an expression; at most {TEXT_BYTES_MAX} are "
                                   "possible")
    return text


def _block_names(given: Optional[Sequence[str]], domains: Domains) -> List[str]:
    """x, y and z. Without a list, other cases of the usual names are taken, too."""
    if given is None:
        return [next((own for own in domains if own.lower() == name), name) for name in _BLOCK_NAMES]
    if isinstance(given, str) or not all(isinstance(name, str) for name in given) or len(given) > 3:
        raise InvalidArgumentError("block_size_names is a list of up to 3 names of parameters")
    for name in given:
        if name not in domains:
            warnings.warn(f"block_size_names: '{name}' is no tunable parameter; blocks have their default size there",
                          stacklevel=5)
    return [*given, *_BLOCK_NAMES[len(given):]]


def _extents(given: Any, space: Space, what: str, most: int) -> List[Formula]:
    """1 to `most` of them."""
    names = space.domains
    parts: List[Formula]
    if callable(given):
        first = _parts(Formula(given, what, names).at(space.first()))

        def part(index: int) -> Callable[[Any], Any]:
            def value(config: Any) -> Any:
                item = _parts(given(config))[index]
                return Formula(item, what, names).at(config) if isinstance(item, str) else item

            return value

        parts = [Formula(part(index), what, names) for index in range(len(first))]
    else:
        parts = [Formula(item, what, names) for item in _parts(given)]
    if not 1 <= len(parts) <= most:
        raise InvalidArgumentError(f"{what} has {len(parts)} extents; write 1 to {most}")
    return parts


def _parts(given: Any) -> List[Any]:
    if isinstance(given, str) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) == 0:
        return [given]
    return list(given)


def begin(kernel_name: str, language: str, files: Mapping[str, str], arguments: Sequence[Argument], space: Space,
          first: Mapping[str, Any], upload: Upload) -> Any:
    """A definition with its sources, its parameters, of which `first` is the default config, and its arguments, which are
    uploaded. Its only launch has neither grid nor block yet."""
    kernel = kernel_pb2.Kernel(display_name=display_name(kernel_name),
                               description=f"{kernel_name}, tuned from Python.",
                               language=kernel_pb2.Language.Value(f"LANGUAGE_{language}"))
    for path, text in files.items():
        kernel.sources.add(path=path, content=text.encode())
    for name, values in space.domains.items():
        parameter = kernel.parameters.add(name=name)
        field = {int: "ints", float: "doubles", bool: "bools", str: "strings"}[type(values[0])]
        getattr(parameter.values, field).extend(values)
        if first[name] != values[0]:
            parameter.default_value.CopyFrom(_wire.value_to(first[name], name))
    for text in space.constraints():
        kernel.constraints.add(expression=text, reason="restrictions")
    for argument in arguments:
        _add_argument(kernel, argument, upload)
    step = kernel.launches.add().kernel
    step.entry = kernel_name.strip()
    step.arguments.extend(argument.descriptor.name if argument.descriptor else argument.name for argument in arguments)
    return kernel


def build(kernel_name: str, source: Source, arguments: Sequence[Argument], constants: Sequence[Argument], space: Space,
          launch: Launch, upload: Upload, *, defines: Optional[Mapping[str, Any]] = None,
          compiler_options: Optional[Sequence[str]] = None, atol: float = 1e-6, unverified_reason: str = "") -> Any:
    """Whole, but that its sources are not on disk. Uploads the arrays."""
    first = space.first(launch.thread_parameters if source.language == CUDA else ())
    kernel = begin(kernel_name, source.language, source.files, arguments, space, first, upload)
    kernel.compile_options.extend(_options(compiler_options))
    if defines is not None:
        for parameter in kernel.parameters:
            parameter.bind = kernel_pb2.BIND_RUN
    _add_macros(kernel, source, launch, space, defines)
    _name_by_macros(kernel)
    for constant in constants:
        symbol = kernel.arguments.add(name=constant.name).constant_symbol
        symbol.symbol, symbol.data_type = constant.given, _type(constant)
        symbol.length = str(constant.array.size)
        symbol.fill.CopyFrom(_fill(constant.array, constant.data_type, upload))
    if source.language == CUDA:
        step = kernel.launches[0].kernel
        step.grid.extend(launch.grid)
        step.block.extend(launch.block)
        step.dynamic_shared_bytes = launch.dynamic_shared_bytes
    if unverified_reason:
        kernel.unverified_reason = unverified_reason
    else:
        add_reference(kernel, arguments, upload, atol, _RTOL)
    return kernel


def display_name(kernel_name: str) -> str:
    name = _NOT_WORD.sub("_", kernel_name.partition("<")[0].lower()).strip("_")[:63]
    return name if "a" <= name[:1] <= "z" else f"kernel_{name}"[:63].rstrip("_")


def _options(given: Optional[Sequence[str]]) -> List[str]:
    if given is None:
        return []
    if isinstance(given, str):
        raise InvalidArgumentError("compiler_options is a list of options")
    for option in given:
        if str(option).startswith("-fopenmp"):
            raise InvalidArgumentError(f"compiler_options: '{option}' is not supported, because OpenMP's library is not linked")
    return [str(option) for option in given]


def _type(argument: Argument) -> Any:
    return kernel_pb2.DataType.Value("DATA_TYPE_" + argument.data_type.upper())


def _add_macros(kernel: Any, source: Source, launch: Launch, space: Space, defines: Optional[Mapping[str, Any]]) -> None:
    def add(name: str, expression: str) -> None:
        kernel.derived.add(name=name, expression=expression, bind=kernel_pb2.BIND_COMPILE)

    if defines is None:
        grid = zip(("grid_size_x", "grid_size_y", "grid_size_z"), launch.grid)
        for name, text in (*grid, *zip(launch.names, launch.block), ("kernel_tuner", "1")):
            if name not in space.domains and _source.mentions(source, name):
                add(name, text)
        return
    if not isinstance(defines, Mapping):
        raise InvalidArgumentError("defines is a dict of values by the names of macros")
    for name, given in defines.items():
        what = f"defines['{name}']"
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidArgumentError(f"defines: {name!r} is no name of a macro")
        if name in space.domains:
            if given == name:  # the parameter itself
                own = next(parameter for parameter in kernel.parameters if parameter.name == name)
                own.bind = kernel_pb2.BIND_COMPILE
                continue
            raise InvalidArgumentError(f"{what} has the name of a parameter; give the macro another name, or the "
                                       "parameter's")
        uses = isinstance(given, str) and re.search(
            "|".join(rf"\b{re.escape(parameter)}\b" for parameter in space.domains) or "$.", given)
        if isinstance(given, str) and not uses:
            if not _DEFINE.fullmatch(given):
                raise InvalidArgumentError(f"{what} is {given!r}; a macro's text has no spaces, quotes and backslashes")
            kernel.compile_options.append(f"-D{name}={given}" if given else f"-D{name}=")
            continue
        text = given
        if isinstance(given, str) and "." not in given and set(re.findall(r"[A-Za-z_]\w*", given)) <= space.integers:
            text = re.sub(r"(?<!/)/(?!/)", "//", given)  # what '/' of two integers means in C++
        try:
            add(name, text_of(Formula(text, what, space.domains).tree(space.domains)))
        except Untranslatable:
            raise InvalidArgumentError(f"{what} is no formula that the daemon can evaluate, and has too many values for a "
                                       f"table of {TEXT_BYTES_MAX} characters") from None


def _name_by_macros(kernel: Any) -> None:
    """The kernel's template arguments may be parameters that are no macros: they are macros with names of their own there,
    because the source may declare the parameters' names itself."""
    step = kernel.launches[0].kernel
    base, bracket, template_arguments = step.entry.partition("<")
    for parameter in kernel.parameters:
        word = rf"\b{re.escape(parameter.name)}\b"
        if parameter.bind == kernel_pb2.BIND_RUN and re.search(word, template_arguments):
            macro = f"tunefarm_{parameter.name}"
            kernel.derived.add(name=macro, expression=parameter.name, bind=kernel_pb2.BIND_COMPILE)
            template_arguments = re.sub(word, macro, template_arguments)
    step.entry = base + bracket + template_arguments


def _add_argument(kernel: Any, argument: Argument, upload: Upload) -> None:
    made = kernel.arguments.add(name=argument.name)
    if argument.array is None:
        made.scalar.data_type, made.scalar.value = _type(argument), argument.value
        return
    buffer = made.buffer
    buffer.data_type, buffer.length = _type(argument), str(argument.array.size)
    buffer.access = kernel_pb2.Access.Value(f"ACCESS_{argument.access}")
    if argument.access == _arguments.SCRATCH:
        buffer.init = kernel_pb2.INIT_ZERO
    else:
        buffer.fill.CopyFrom(_fill(argument.array, argument.data_type, upload))
    if argument.descriptor is not None:
        add_descriptor(kernel, argument.name, argument.descriptor)


def add_descriptor(kernel: Any, buffer: str, descriptor: Descriptor) -> None:
    """As an argument of the definition."""
    made = kernel.arguments.add(name=descriptor.name).tensor_descriptor
    made.buffer, made.oob_fill_nan = buffer, descriptor.oob_fill_nan
    made.shape.extend(map(str, descriptor.shape))
    made.block_shape.extend(descriptor.block_shape)


def uploaded(argument: Argument) -> List[Any]:
    """The argument's arrays that definitions name by digest."""
    is_filled = argument.array is not None and argument.access != _arguments.SCRATCH and argument.array.view("u1").any()
    return ([argument.array] if is_filled else []) + ([] if argument.expected is None else [argument.expected])


def _fill(array: Any, data_type: str, upload: Upload) -> Any:
    if not array.view("u1").any():  # need not be uploaded
        return kernel_pb2.Fill(zeros=kernel_pb2.ZerosFill())
    return kernel_pb2.Fill(file=upload(array, data_type))


def add_reference(kernel: Any, arguments: Sequence[Argument], upload: Upload, atol: Optional[float],
                  rtol: Optional[float]) -> None:
    """What the outputs must be: what is expected, else what the default config gives. Without tolerances, and where the
    default config is the reference, they are those of the outputs' types."""
    outputs = [argument for argument in arguments if argument.access == _arguments.INOUT]
    loosest = max(_FIRST_CONFIG_TOLERANCE.get(argument.data_type, 0.0) for argument in outputs)
    if all(argument.expected is None for argument in outputs):
        kernel.reference.steps.add().CopyFrom(kernel.launches[0])
        atol = rtol = None
    else:
        for argument in outputs:
            kernel.reference.files.add(buffer=argument.name, file=upload(argument.expected, argument.data_type))
    kernel.tolerance.atol = loosest if atol is None else _tolerance(atol, "atol")
    kernel.tolerance.rtol = loosest if rtol is None else _tolerance(rtol, "rtol")


def _tolerance(given: Any, what: str) -> float:
    if isinstance(given, bool) or not isinstance(plain(given, what), (int, float)) or not math.isfinite(given) or given < 0:
        raise InvalidArgumentError(f"{what} is {given!r}; give a number of at least 0")
    return float(given)


def of_one_config(kernel: Any, config: Mapping[str, Any]) -> Any:
    """The same kernel with one value for each parameter, and without what compares outputs."""
    made = kernel_pb2.Kernel()
    made.CopyFrom(kernel)
    for field in ("constraints", "reference", "tolerance"):
        made.ClearField(field)
    # Look-ups by name find what was submitted last, which is to be the kernel itself.
    made.display_name = kernel.display_name[:56] + "_config"
    made.unverified_reason = "It is one config of a kernel that is tuned and verified by itself."
    for argument in made.arguments:
        if argument.buffer.access == kernel_pb2.ACCESS_SCRATCH:  # which launches would not take from the caller
            argument.buffer.access = kernel_pb2.ACCESS_INOUT
            argument.buffer.ClearField("init")
            argument.buffer.fill.zeros.SetInParent()
    made.ClearField("parameters")
    for parameter in kernel.parameters:
        field = parameter.values
        own = made.parameters.add(name=parameter.name, bind=parameter.bind)
        value = config[parameter.name]
        name = next(descriptor.name for descriptor, _ in field.ListFields())
        getattr(own.values, name).append(value)
    return made


def write(kernel: Any, folder: Path) -> Path:
    """Into a folder, as definitions stand there; returns the definition's file."""
    written = kernel_pb2.Kernel()
    written.CopyFrom(kernel)
    for source in written.sources:
        path = folder / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.content)
        source.ClearField("content")
    file = folder / "kernel.pbtxt"
    file.write_text(text_format.MessageToString(written), encoding="utf-8")
    return file
