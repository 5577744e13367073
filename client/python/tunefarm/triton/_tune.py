"""tune: a function of @triton.jit and its arguments as a definition, tuned by the daemon."""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import math
import re
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from tunefarm import _data_files, _optional, model
from tunefarm._display import a_type
from tunefarm.client import Client
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline import _arguments, _definition, _results, _tune
from tunefarm.inline._arguments import Argument
from tunefarm.inline._expressions import plain
from tunefarm.inline._launching import Program
from tunefarm.inline._space import Space
from tunefarm.triton import _descriptors, _source
from tunefarm.v1 import kernel_pb2

if TYPE_CHECKING:
    import pandas

_LANGUAGE = "TRITON"
OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 0}  # and what they are where a config lacks them
_TEXT = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_MISSING = object()
NOT_IN_BUFFERS = re.compile(r"bool|complex|float8(?!_e4m3fn\b)")


class Results(_results.Results):
    """A dict for each config that ran and was right, in the order of the search: its parameters, and "time" in ms.
    `failed` has the others, `verified_against_first_config` says whether there was a reference."""

    best: Union[Dict[str, Any], _results.NoBest]  # type: ignore[assignment]
    """The best config as keyword arguments of a launch: kernel[grid](*arguments, **results.best). Empty and false if no
    config ran and was right."""
    best_time: Optional[float] = None
    """Its median in ms."""
    kernel: str
    """ "kernels/ID", by which look-ups find the best config again."""
    job: str
    """ "jobs/NUMBER"."""

    def __init__(self, collected: _results.Results, job: model.Job) -> None:
        super().__init__()
        self.extend(collected)
        self.failed, self.kernel, self.job = collected.failed, job.kernel, job.name

    def triton_config(self) -> Any:
        """`best` as a triton.Config."""
        if not self.best:
            raise self.best.error()  # type: ignore[union-attr]
        triton = _optional.needed("triton", "triton_config", "best is the same as a dict")
        return triton.Config({name: value for name, value in self.best.items() if name not in OPTIONS},
                             **{name: value for name, value in self.best.items() if name in OPTIONS})

    def to_dataframe(self) -> "pandas.DataFrame":
        """The results, the fastest first. ImportError without pandas."""
        pandas = _optional.needed("pandas", "to_dataframe", "the results are dicts")
        return pandas.DataFrame(list(self)).sort_values("time", ignore_index=True) if self else pandas.DataFrame()


def tune(fn: Any, args: Any, configs: Optional[Sequence[Any]] = None, *, grid: Any,
         space: Optional[Mapping[str, Sequence[Any]]] = None, restrictions: Any = None,
         constexprs: Optional[Mapping[str, Any]] = None, block_shapes: Optional[Mapping[str, Any]] = None,
         outputs: Optional[Sequence[str]] = None, reference: Any = None,
         atol: Optional[float] = None, rtol: Optional[float] = None, device: int = 0, client: Optional[Client] = None,
         quiet: bool = False, **options: Any) -> Results:
    """Tunes a function decorated by @triton.jit.

    args: the values of its parameters that are not constexpr, in order or as a dict by name: contiguous arrays of PyTorch,
    CuPy or NumPy, TensorDescriptors of such arrays, ints and floats; None, True and False become constants of the kernel.
    constexprs: values by name of those that are not tuned (a dict as args may have them, too); others have their defaults.
    None, types such as tl.float16 and strings with other characters than words have become constants of the kernel.
    configs: dicts or triton.Configs, of which all are tried and no others; or space: a dict of lists by name, with
    restrictions as tune_kernel takes them. num_warps, num_stages, num_ctas and maxnreg are Triton's options.
    grid: the number of programs, 1 to 3 of them: numbers, expressions ("cdiv(n, BLOCK)"), or a function of META, as a
    launch takes it.
    block_shapes: of TensorDescriptors, by name, what depends on the config: a list of numbers, expressions ("BLOCK_M") and
    functions of META. In place of it the configs can have one pre_hook that sets them. Others are the descriptors' own. The
    best config's are for the caller to set.
    outputs: names of the arrays that the kernel writes, or of descriptors of them; without it, those that reference gives.
    They begin with what they hold in this call. reference: a function whose parameters are named like some of the kernel's,
    called here with their values (of descriptors their arrays), which returns what the outputs must be (an array, a tuple
    in the order of outputs, or a dict by name), or such a dict. Without it the outputs must be those of the first config
    (results.verified_against_first_config). atol, rtol: how close; by default 1e-3 for float32, 1e-2 for float16, 3e-2 for
    bfloat16 and 0.125 for float8_e4m3fn, both.
    device: which of the daemon's GPUs. client: a connection to a daemon; by default one that Client() makes. options: as
    Client.submit takes them (strategy, max_trials, policy, measure, ...); without a strategy all configs are tried where
    they are listed.

    The source is the file of the function if it stands at the module level of one, with the modules beside it that it
    imports; else (in __main__, in a notebook, in a function, in a file that calls functions when it is imported) the
    function, and what it uses by name. It must stand alone.
    InvalidArgumentError names what is not supported or wrong.
    """
    kernel = _kernel(fn)
    names = Parameters.of(kernel)
    given = _given_configs(fn, configs, space)
    chosen = Space(space, restrictions, "space") if given is None else Space.of_configs(given)
    if given is not None:
        if restrictions is not None:
            raise InvalidArgumentError("restrictions belong to space; leave out of configs what is not to be tried")
        options.setdefault("strategy", "exhaustive")
    values, fixed, constants = names.values(args, constexprs or {}, chosen)
    known = {**values, **fixed, **constants}
    blocks = _definition.grid_of(grid_over(grid, known), chosen)
    hook = _hook(fn, configs, space, values, block_shapes)
    seen = {name: value for name, value in known.items() if isinstance(value, (bool, int, float, str)) or is_scalar(value)}
    described = _descriptors.Blocks(values, chosen, hook, seen, block_shapes, lambda shape, what: grid_over(shape, known, what))
    arguments = _read(values, names.types, outputs, reference, constants, described)
    sources = _source.alone(kernel, constants) if constants else _source.of(kernel, fn)

    connect = _tune.connections(client)
    with connect() as connection:
        selector = _tune.device_selector(connection, _LANGUAGE, device)
        upload = functools.partial(connection.upload_array, progress=not quiet)
        made = _definition.begin(kernel.fn.__name__, _LANGUAGE, sources, arguments, chosen, chosen.first(), upload)
        for name, value in fixed.items():
            made.derived.add(name=name, expression=repr(value), bind=kernel_pb2.BIND_COMPILE)
        made.launches[0].kernel.grid.extend(blocks)
        _definition.add_reference(made, arguments, upload, atol, rtol)
        program = Program(made, _LANGUAGE, arguments, [], connect, selector, None)
        job = _tune.run(connection, program, progress=not quiet, device=selector,
                        **{"promote_given": True, "label": "tunefarm.triton.tune", **options})
        trials = connection.results(job).to_list()
    results = Results(_results.collect(trials, list(chosen.domains), []), job)
    results.verified_against_first_config = reference is None
    results.warn_of_differences("give a reference")
    if results:
        # The final's winner: times of configs that were in no final are others, and may be too short by chance.
        winner = job.best.config if job.best else {}
        best = next((result for result in results if all(result[name] == winner.get(name) for name in chosen.domains)),
                    min(results, key=lambda result: result["time"]))
        results.best = {name: best[name] for name in chosen.domains if name != "maxnreg" or best[name]}
        results.best_time = best["time"]
    else:
        results.best = _results.NoBest(results.no_config_text())
    if not quiet:
        print(f"best: {results.best}: {results.best_time:.6g} ms" if results.best else results.no_config_text())
    return results


def _kernel(fn: Any) -> Any:
    """The function of @triton.jit itself."""
    inner = fn
    if hasattr(fn, "configs") and hasattr(fn, "fn"):
        for name in ("reset_to_zero", "restore_value", "user_defined_pre_hook", "user_defined_post_hook"):
            if getattr(fn, name, None):
                raise InvalidArgumentError(f"fn is decorated by @triton.autotune with {name}, which is not supported; give "
                                           "fn.fn, and outputs that begin as they must")
        inner = fn.fn
    if not isinstance(getattr(inner, "fn", None), FunctionType) or not hasattr(inner, "params"):
        raise InvalidArgumentError(f"fn is {a_type(inner)}; give a function that is decorated by @triton.jit, and by "
                                   "nothing else but @triton.autotune")
    return inner


class Parameters(NamedTuple):
    """A kernel's parameters by name."""

    run_time: List[str]
    constexprs: List[str]
    defaults: Dict[str, Any]
    types: Dict[str, str]  # of scalars, where the kernel says them: "i64"

    @classmethod
    def of(cls, kernel: Any) -> "Parameters":
        defaults = {name: getattr(item.default, "value", item.default)
                    for name, item in inspect.signature(kernel.fn).parameters.items() if item.default is not item.empty}
        is_constexpr = {name: item.is_constexpr for name, item in zip(kernel.arg_names, kernel.params)}
        return cls([name for name in is_constexpr if not is_constexpr[name]],
                   [name for name in is_constexpr if is_constexpr[name]], defaults,
                   {name: item.annotation_type.replace("fp", "f") for name, item in zip(kernel.arg_names, kernel.params)
                    if getattr(item, "annotation_type", None)})

    def values(self, args: Any, constexprs: Mapping[str, Any],
               space: Space) -> "tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]":
        """Those known at run time, the constexprs that are not tuned, and what becomes constants of the source, by name:
        values of either kind that a definition cannot have."""
        if isinstance(args, Mapping):
            given = dict(args)
        elif isinstance(args, (list, tuple)):
            if len(args) > len(self.run_time):
                raise InvalidArgumentError(f"args has {len(args)} values, and the kernel has {len(self.run_time)} parameters "
                                           f"that are not constexpr: {', '.join(self.run_time)}")
            given = dict(zip(self.run_time, args))
        else:
            raise InvalidArgumentError("args is a list of arrays and numbers, or a dict of them by name")
        for name in given:
            if name not in self.run_time and name not in self.constexprs:
                raise InvalidArgumentError(f"args: the kernel has no parameter '{name}'")
        for name in (*constexprs, *space.domains):
            if name not in self.constexprs and name not in OPTIONS:
                raise InvalidArgumentError(f"'{name}' is neither a constexpr parameter of the kernel nor one of Triton's "
                                           f"options {', '.join(OPTIONS)}")
        own = {name: value for name, value in given.items() if name in self.constexprs}
        for name in (*own, *constexprs):
            if name in space.domains or name in own and name in constexprs:
                raise InvalidArgumentError(f"'{name}' is given twice: to be tuned, as a constexpr, or in args")
        fixed = {**own, **constexprs}
        for name in (*self.run_time, *self.constexprs):
            into = given if name in self.run_time else fixed
            if name in into or name in space.domains:
                continue
            if name not in self.defaults:
                raise InvalidArgumentError(f"the parameter '{name}' has no value; give it in "
                                           f"{'args' if into is given else 'constexprs, configs or space'}")
            # The default of a constexpr that is named like an option sets no option.
            if into is given or name not in OPTIONS:
                into[name] = self.defaults[name]
        for name, values in space.domains.items():
            for value in values:
                _check_text(value, name)
        at_run_time = {name: given[name] for name in self.run_time}
        constants = {name: value for name, value in at_run_time.items() if value is None or isinstance(value, bool)}
        bound = {}
        for name, value in fixed.items():
            value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
            if name not in self.constexprs or _is_bindable(value):
                bound[name] = _constexpr(value, name)
            elif value is not self.defaults.get(name, _MISSING):  # a default is the function's own
                constants[name] = value
        return at_run_time, bound, constants


def _is_bindable(value: Any) -> bool:
    """Whether a definition can have it: it has no None, type, infinity or empty string."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return _TEXT.fullmatch(value) is not None
    return isinstance(value, int) or hasattr(value, "item")


def _constexpr(value: Any, name: str) -> Any:
    if value is None or not isinstance(value, (bool, int, float, str)) and not hasattr(value, "item"):
        raise InvalidArgumentError(f"the constexpr '{name}' is {value!r}; a definition has ints, floats, bools and strings")
    value = plain(value, f"the constexpr '{name}'")
    _check_text(value, name)
    return value


def _check_text(value: Any, name: str) -> None:
    if isinstance(value, str) and not _TEXT.fullmatch(value):
        raise InvalidArgumentError(f"the constexpr '{name}' is {value!r}; a string has 1 to 64 characters of A-Z, a-z, 0-9 and "
                                   "_ . + -")


# ---- Configs and the grid ----


def _given_configs(fn: Any, configs: Any, space: Any) -> Optional[List[Dict[str, Any]]]:
    """Configs with the same names, or None for a space."""
    if (configs is not None) + (space is not None) == 2:
        raise InvalidArgumentError("configs and space are both given; give one of them")
    if space is not None:
        return None
    if configs is None:
        configs = getattr(fn, "configs", None)
    if not isinstance(configs, (list, tuple)) or not configs:
        raise InvalidArgumentError("give configs, a list of dicts or triton.Configs, or space, a dict of lists by name")
    return completed([_config(given, f"configs[{index}]") for index, given in enumerate(configs)])


def completed(made: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """With the same names in all: options that a config lacks have Triton's default."""
    names = list(dict.fromkeys(name for config in made for name in config))
    for index, config in enumerate(made):
        for name in names:
            if name not in config and name not in OPTIONS:
                raise InvalidArgumentError(f"configs[{index}] has no {name}, which others have")
            config.setdefault(name, OPTIONS.get(name))
    if all(config.get("num_ctas", 1) == 1 for config in made):
        names = [name for name in names if name != "num_ctas"]
    return [{name: config[name] for name in names} for config in made]


def _config(given: Any, what: str) -> Dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(getattr(given, "kwargs", None), Mapping):
        raise InvalidArgumentError(f"{what} is {a_type(given)}; give a dict or a triton.Config")
    if getattr(given, "ir_override", None) is not None:
        raise InvalidArgumentError(f"{what} has an ir_override, which is not supported")
    options = {name: getattr(given, name, None) for name in OPTIONS}
    return {**given.kwargs, **{name: value for name, value in options.items() if value is not None}}


def _hook(fn: Any, configs: Any, space: Any, values: Mapping[str, Any], block_shapes: Any) -> Any:
    """The pre_hook of all configs, which can set the block shapes of descriptors; None without one."""
    configs = getattr(fn, "configs", ()) if configs is None else configs
    if space is not None or not any(getattr(config, "pre_hook", None) is not None for config in configs):
        return None
    if not any(map(_descriptors.is_descriptor, values.values())):
        raise InvalidArgumentError("configs have a pre_hook, which is supported only where it sets the block_shape of "
                                   "TensorDescriptors in args")
    if block_shapes:
        raise InvalidArgumentError("block_shapes is given, and configs have a pre_hook; give one of them")
    return _descriptors.hook_of(configs)


def grid_over(given: Any, known: Mapping[str, Any], what: str = "grid") -> Any:
    """As _definition.grid_of takes it: with what is the same for all configs."""
    if callable(given):
        return lambda config: given(collections.ChainMap(config, dict(known)))
    if isinstance(given, (list, tuple)):
        return [grid_over(item, known, what) for item in given]
    if not isinstance(given, str):
        return given
    try:
        tree = ast.parse(given.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{what}: '{given}' is no Python expression: {error}") from None
    return ast.unparse(ast.fix_missing_locations(_Known(known).visit(tree)))


class _Known(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self._known.get(node.id)
        value = value.item() if is_scalar(value) else value
        return ast.Constant(value) if isinstance(value, (bool, int, float, str)) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) in ("cdiv", "triton.cdiv", "tl.cdiv"):
            node.func = ast.Name("ceil_div", ast.Load())
        return node


# ---- Arguments ----


def _read(values: Mapping[str, Any], types: Mapping[str, str], outputs: Any, reference: Any,
          constants: Mapping[str, Any], blocks: _descriptors.Blocks) -> List[Argument]:
    for name, value in values.items():
        if _descriptors.is_descriptor(value):
            _descriptors.check(value, f"args['{name}']")
    arrays = {name: _descriptors.base_of(value) for name, value in values.items()}
    expected = _expected(arrays, outputs, reference)
    _check_apart(arrays)
    passed = {name: value for name, value in arrays.items() if name not in constants}
    names = _arguments.names_of(list(passed))
    made = []
    for name in expected:
        if name in constants:
            raise InvalidArgumentError(f"outputs: '{name}' is {constants[name]}, which a kernel cannot change")
    for own, (name, given) in zip(names, passed.items()):
        what = f"args['{name}']"
        if isinstance(given, (bool, int, float)) or is_scalar(given):
            if name in expected:
                raise InvalidArgumentError(f"outputs: '{name}' is a number, which a kernel cannot change")
            made.append(scalar(own, given, types.get(name), what))
            continue
        _check_array(given, what)
        array, data_type = _arguments.flat_array(given, what)
        descriptor = None
        if _descriptors.is_descriptor(values[name]):
            descriptor = blocks.descriptor(name, _descriptors.name_of(own, names))
        if name not in expected:
            made.append(Argument(own, data_type, given, array, descriptor=descriptor))
            continue
        wanted = expected[name]
        if wanted is not None:
            wanted = _arguments.expected_of(wanted, array, data_type, f"reference of '{name}'")
        made.append(Argument(own, data_type, given, array, _arguments.INOUT, wanted, descriptor))
    return made


def _expected(values: Mapping[str, Any], outputs: Any, reference: Any) -> Dict[str, Any]:
    """What the outputs must be, by name: None for what the first config gives."""
    if outputs is not None:
        if isinstance(outputs, str) or not isinstance(outputs, (list, tuple)) or not outputs:
            raise InvalidArgumentError("outputs is a list of names of the kernel's parameters")
        for name in outputs:
            if name not in values:
                raise InvalidArgumentError(f"outputs: {name!r} is none of the kernel's parameters {', '.join(values)}")
    if reference is None:
        if outputs is None:
            raise InvalidArgumentError("outputs: name the arrays that the kernel writes, or give a reference that is a dict")
        return dict.fromkeys(outputs)
    given = _called(reference, values) if callable(reference) else reference
    if not isinstance(given, Mapping):
        if outputs is None:
            raise InvalidArgumentError("reference gives arrays without names; give a dict by name, or name the outputs")
        listed = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(listed) != len(outputs) or any(item is None for item in listed):
            raise InvalidArgumentError(f"reference gives {sum(item is not None for item in listed)} arrays for "
                                       f"{len(outputs)} outputs")
        return dict(zip(outputs, listed))
    for name in (*given, *(outputs or ())):
        if name not in given or name not in (outputs or values):
            raise InvalidArgumentError(f"reference: '{name}' is {'no output' if name in given else 'missing'}; it gives "
                                       f"{', '.join(given)}")
    if not given:
        raise InvalidArgumentError("reference gives no array")
    return dict(given)


def _called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    try:
        wanted = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InvalidArgumentError("reference has no names of parameters; wrap it: lambda x: function(x)") from None
    if any(item.kind is item.VAR_KEYWORD for item in wanted):
        return function(**values)
    for item in wanted:
        if item.name not in values and item.default is item.empty:
            raise InvalidArgumentError(f"reference has the parameter '{item.name}', which the kernel does not have; there are "
                                       f"{', '.join(values)}")
    return function(**{item.name: values[item.name] for item in wanted if item.name in values})


def is_scalar(given: Any) -> bool:
    """NumPy's; a tensor without dimensions is a pointer."""
    import numpy

    return isinstance(given, numpy.generic)


def scalar(name: str, given: Any, annotated: Optional[str], what: str) -> Argument:
    """Of the type that Triton gives it."""
    import numpy

    value = plain(given, what)
    if isinstance(value, (bool, str)):  # a bool of NumPy's
        raise InvalidArgumentError(f"{what} is {a_type(given)}; declare the parameter tl.constexpr, or give an int")
    if isinstance(value, float):
        return Argument(name, annotated if annotated == "f64" else "f32", numpy.float64(value))
    own = "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
    return Argument(name, annotated if annotated in _data_files.WIDTHS else own, numpy.int64(value))


def _check_array(given: Any, what: str) -> None:
    kind = NOT_IN_BUFFERS.search(str(getattr(given, "dtype", "")))
    if kind is not None:
        raise InvalidArgumentError(f"{what} has elements of type {given.dtype}, which a definition's buffers do not have; "
                                   "give another type")
    is_contiguous = getattr(given, "is_contiguous", None)
    flags = getattr(given, "flags", None)
    if not (is_contiguous() if callable(is_contiguous) else getattr(flags, "c_contiguous", True)):
        raise InvalidArgumentError(f"{what} is not contiguous, which is not supported; give a contiguous copy, with its "
                                   "strides")


def _check_apart(values: Mapping[str, Any]) -> None:
    """Arrays that share memory would be buffers of their own."""
    places = sorted((*extent, name) for name, given in values.items() for extent in [_extent(given)] if extent)
    for (_, end, one), (begin, _, other) in zip(places, places[1:]):
        if begin < end:
            raise InvalidArgumentError(f"args['{one}'] and args['{other}'] share memory, which is not supported; give copies")


def _extent(given: Any) -> "Optional[tuple[int, int]]":
    """Its first address and the one behind its last, as far as they are known; None for a number."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        begin = given.data_ptr()
        return begin, begin + given.numel() * given.element_size()
    interface = getattr(given, "__cuda_array_interface__", None) or getattr(given, "__array_interface__", None)
    if not interface or is_scalar(given) or not hasattr(given, "nbytes"):
        return None
    begin = interface["data"][0]
    return begin, begin + given.nbytes
