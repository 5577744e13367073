"""A kernel's arguments as Kernel Tuner's users give them: arrays, NumPy's scalars, and expected outputs. Private."""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tunefarm import _data_files
from tunefarm._display import a_type, count_text
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline._source import CUDA, Parameter, Source

IN, INOUT, SCRATCH = "IN", "INOUT", "SCRATCH"

TYPES = {"bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
          "int64": "i64", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "f32",
          "complex128": "f64", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3"}
_NAMES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}  # of types that NumPy lacks
_TAKEN = ("stream", "workspace", "generation")  # by the call that launches a kernel


class Descriptor(NamedTuple):
    """A tensor descriptor of Triton's over an array, which the kernel is passed in place of the array. Outermost dimension
    first; contiguous."""

    name: str  # in the definition, beside that of the array
    shape: List[int]
    block_shape: List[str]  # expressions
    oob_fill_nan: bool


class Argument(NamedTuple):
    """An array, or a scalar if `array` is None."""

    name: str
    data_type: str
    given: Any  # as the caller has it
    array: Any = None  # NumPy's, of one dimension, of elements of data_type
    access: str = IN
    expected: Any = None  # likewise, of the same length
    descriptor: Optional[Descriptor] = None

    @property
    def value(self) -> str:
        """A scalar as an expression."""
        item = self.given.item()
        return repr(int(item) if isinstance(item, bool) else item)


def read(arguments: Any, answer: Any, verify: Any, source: Source) -> List[Argument]:
    """What the kernel takes, in order. Which arrays are outputs: those with an answer; without any answer all that the
    kernel may write."""
    if not isinstance(arguments, (list, tuple)):
        raise InvalidArgumentError("arguments is a list of arrays and NumPy scalars, in the order of the kernel's "
                                   "parameters")
    parameters = source.parameters
    if parameters is not None and len(parameters) != len(arguments):
        raise InvalidArgumentError(f"the kernel has {count_text(len(parameters), 'parameter')}, and "
                                   f"{count_text(len(arguments), 'argument is', 'arguments are')} given")
    answers = _answers(answer, len(arguments))
    names = names_of([parameter.name for parameter in parameters] if parameters else [""] * len(arguments))
    made = []
    for index, given in enumerate(arguments):
        what = f"arguments[{index}]"
        parameter = parameters[index] if parameters else None
        array, data_type = flat_array(given, what)
        if array is None:
            if answers[index] is not None:
                raise InvalidArgumentError(f"answer[{index}] belongs to a scalar, which a kernel cannot change")
            _check_scalar(given, what, parameter is not None and parameter.is_pointer)
            made.append(Argument(names[index], _scalar_type(given, data_type, parameter, what), given))
            continue
        if parameter is not None and parameter.element and not parameter.is_pointer:
            raise InvalidArgumentError(f"{what} is an array, and the kernel's parameter '{parameter.text}' is a scalar; give "
                                       f"numpy.{_numpy_type(parameter)}(...)")
        _check_type(data_type, parameter, what)
        is_const = parameter is not None and parameter.is_const
        access, expected = (IN if is_const else INOUT), None
        if any(item is not None for item in answers) and verify is None:
            if answers[index] is not None:
                access, expected = INOUT, expected_of(answers[index], array, data_type, f"answer[{index}]")
            elif not is_const:
                # What is written and has no answer is not compared. The function's text does not show what others write for
                # it, so that this holds for all that may be written and begins with zeros.
                access = IN if array.view("u1").any() else SCRATCH
                if access == IN and parameter is not None and parameter.is_written:
                    raise InvalidArgumentError(
                        f"{what} ('{names[index]}') is written by the kernel, begins with other values than zeros, and has "
                        "no answer; give an answer for it or a function as verify, or declare the parameter const")
        made.append(Argument(names[index], data_type, given, array, access, expected))
    if all(argument.access != INOUT for argument in made):
        raise InvalidArgumentError("the kernel has no output: no argument is an array that it may write")
    return made


def constants(cmem_args: Any, source: Source, taken: Sequence[Argument]) -> List[Argument]:
    """__constant__ variables by name."""
    if not cmem_args:
        return []
    if source.language != CUDA:
        raise InvalidArgumentError("cmem_args are variables in constant memory, which C++ for the CPU does not have")
    if not isinstance(cmem_args, dict):
        raise InvalidArgumentError("cmem_args is a dict of arrays by the names of __constant__ variables")
    import numpy

    made = []
    names = {argument.name for argument in taken}
    for symbol, given in cmem_args.items():
        array, data_type = flat_array(given, f"cmem_args['{symbol}']")
        array = numpy.array(given).reshape(1) if array is None else array.copy()  # launches take it as it is now
        name = symbol if symbol not in names and symbol not in _TAKEN else f"{symbol}_constant"
        made.append(Argument(name, data_type, symbol, array))
    return made


def flat_array(given: Any, what: str) -> Tuple[Any, str]:
    """NumPy's array of one dimension, or None for a scalar; and the type of its elements."""
    import numpy

    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(given, torch.Tensor)
    if not is_tensor and isinstance(given, numpy.generic):
        return None, _type(given.dtype, what)
    if not is_tensor and not hasattr(given, "__cuda_array_interface__") and not isinstance(given, numpy.ndarray):
        hint = ("give numpy.int32(...), numpy.float32(...) or the like, so that its type is known"
                if isinstance(given, (bool, int, float)) else "give an array of NumPy, CuPy or PyTorch, or a NumPy scalar")
        raise InvalidArgumentError(f"{what} is {a_type(given)}; {hint}")
    host, own = _data_files.on_host(given, what)
    if host.size == 0:
        raise InvalidArgumentError(f"{what} has no elements")
    if host.flags.f_contiguous and not host.flags.c_contiguous:
        raise InvalidArgumentError(f"{what} is in Fortran order; give numpy.ascontiguousarray(array), or array.T where the "
                                   "kernel takes columns one after another")
    data_type = own or _type(host.dtype, what)
    flat = numpy.ascontiguousarray(host).reshape(-1)
    if host.dtype.byteorder == ">":
        flat = flat.astype(host.dtype.newbyteorder("<"))
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return (flat.view(_data_files.BITS[data_type]) if data_type in _data_files.BITS else flat), data_type


def _type(dtype: Any, what: str) -> str:
    if dtype.name not in TYPES:
        raise InvalidArgumentError(f"{what} has elements of type {dtype}, which no kernel takes; convert it by astype, or give "
                                   "its bytes: array.view(numpy.uint8)")
    return TYPES[dtype.name]


def _check_scalar(given: Any, what: str, is_pointer: bool) -> None:
    if is_pointer:
        raise InvalidArgumentError(f"{what} is a scalar, and the kernel's parameter is a pointer; give an array")
    if given.dtype.kind == "c":
        raise InvalidArgumentError(f"{what} is a complex scalar, which is not supported; give its parts as two scalars")
    if given.dtype.kind == "f" and not math.isfinite(given):
        raise InvalidArgumentError(f"{what} is {given}; scalars are finite numbers")


def _check_type(data_type: str, parameter: Optional[Parameter], what: str) -> None:
    """Types of the same width that differ in sign alone are taken, and anything as bytes."""
    if parameter is None or parameter.element is None or (parameter.is_pointer and parameter.element[1] == 1):
        return
    kind = "i" if data_type[0] in "iu" else "f"
    if (kind, _data_files.WIDTHS[data_type]) != parameter.element:
        raise InvalidArgumentError(f"{what} is of type {data_type}, and the kernel's parameter is '{parameter.text}'; give it "
                                   f"as numpy.{_numpy_type(parameter)}")


def _scalar_type(given: Any, data_type: str, parameter: Optional[Parameter], what: str) -> str:
    """As the kernel takes it: numpy.int64(1000) is an int where the parameter is one."""
    if parameter is None or parameter.element is None:
        return data_type
    kind, width = parameter.element
    if kind != ("f" if given.dtype.kind == "f" else "i"):
        _check_type(data_type, parameter, what)
    if kind == "f":
        return f"f{8 * width}"
    if width == _data_files.WIDTHS[data_type]:
        return data_type
    wanted = _numpy_type(parameter)
    lowest, highest = (0, 2 ** (8 * width)) if wanted.startswith("u") else (-(2 ** (8 * width - 1)), 2 ** (8 * width - 1))
    if not lowest <= int(given) < highest:
        raise InvalidArgumentError(f"{what} is {given}, which the kernel's parameter '{parameter.text}' cannot hold")
    return f"{wanted[0]}{8 * width}"


def _numpy_type(parameter: Parameter) -> str:
    kind, width = parameter.element or ("i", 4)
    unsigned = "u" if kind == "i" and re.search(r"\bunsigned\b|\buint|\bsize_t\b", parameter.text) else ""
    return f"{unsigned}{'float' if kind == 'f' else 'int'}{8 * width}"


def _answers(answer: Any, count: int) -> List[Any]:
    if answer is None:
        return [None] * count
    if not isinstance(answer, (list, tuple)) or len(answer) != count:
        raise InvalidArgumentError(f"answer is a list with an item for each of the {count} arguments: an array, or None "
                                   "where nothing is compared")
    return list(answer)


def expected_of(given: Any, array: Any, data_type: str, what: str) -> Any:
    """The answer in the type of its argument."""
    import numpy

    host, own = _data_files.on_host(given, what)
    flat = numpy.ascontiguousarray(host).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if flat.size != array.size:
        raise InvalidArgumentError(f"{what} has {flat.size} elements, and its argument has {array.size}; give a function "
                                   "as verify where they are compared in another way")
    if data_type in _NAMES:
        if data_type in (own, TYPES.get(flat.dtype.name)):
            return flat.view(_data_files.BITS[data_type])
        raise InvalidArgumentError(f"{what} is not of type {_NAMES[data_type]}, as its argument is; convert it by PyTorch")
    if flat.dtype == array.dtype:
        return flat
    with numpy.errstate(invalid="ignore"):  # NaN as an integer
        converted = flat.astype(array.dtype)
    if array.dtype.kind in "iub" and not numpy.array_equal(converted, flat):
        raise InvalidArgumentError(f"{what} has values that {data_type}, the type of its argument, cannot hold; round it")
    return converted


def names_of(given: Sequence[str]) -> List[str]:
    """As a definition and a launch take them."""
    made: Dict[str, None] = {}
    for index, name in enumerate(given):
        name = name[:60] or f"argument{index}"
        if name in _TAKEN:
            name += "_"
        made[name if name not in made else f"argument{index}"] = None
    return list(made)
