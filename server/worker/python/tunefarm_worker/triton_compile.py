"""Compiles the functions of a kernel in Triton for a GPU that need not be there, and writes what launches need of them
(TritonBinary of proto/tunefarm/worker/v1). All that depends on the version of Triton is in this file."""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import sys
from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple

from . import messages
from .kernel_module import Config, KernelModule
from .trial import Ended, outcome_of, sentence_of

# (major, minor) of the releases whose compiler and launcher this file was written for.
VERSIONS = ((3, 6),)
# Names of Triton's options. Functions may have constants of these names too, as for Triton's own launcher.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl")
_WARP_SIZE = 32
# What Triton's launcher refuses.
_BLOCK_THREADS_MAX, _TENSOR_MEMORY_COLUMNS_MAX = 1024, 512
# Types of scalars that a launch can pass.
_SCALARS = frozenset(("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64"))
# TritonKernel.parameters
_GLOBAL_SCRATCH, _PROFILE_SCRATCH = -1, -2
_POINTER_ALIGNMENT = [["tt.divisibility", 16]]
_DESCRIPTOR = "tensordesc<"
# Triton numbers the types of elements as the device does; where CUtensorMapDataType differs.
_MAP_TYPES = {8: 10, 9: 8, 10: 9}


def is_known(version: str) -> bool:
    """Whether kernels can be compiled by this release."""
    return _release(version) in VERSIONS


def known_releases() -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)


class TritonCompiler:
    """Of one definition; `module` has its sources."""

    def __init__(self, kernel: Dict[str, Any], module: KernelModule) -> None:
        self._kernel = kernel
        self._module = module
        module.name = _module_name(kernel["sources"][0]["path"])

    def compile(self, config: Config, signatures: List[str]) -> bytes:
        """Returns the binary. Raises Ended with the outcome and one sentence."""
        triton = self._import_triton()
        values = self._constants(config)
        functions = self._functions(triton)
        self._check_names(values, functions)
        run_bound = self._run_bound()
        capability = int(config.device.get("compute_capability", 0))
        kernels = []
        for signature in signatures:
            name, arguments = _read_signature(signature)
            kernels.append({"signature": signature,
                            **self._compile_one(triton, functions[name], arguments, values, run_bound, capability)})
        return json.dumps({"kernels": kernels}, sort_keys=True, separators=(",", ":")).encode("ascii")

    def _import_triton(self) -> Any:
        try:
            triton = importlib.import_module("triton")
            importlib.import_module("triton.compiler")
            importlib.import_module("triton.backends.compiler")
        except Exception as error:
            _lose(f"cannot be imported ({type(error).__name__}: {' '.join(str(error).split())})", _log_of(error))
        version = str(getattr(triton, "__version__", "?"))
        if not is_known(version):
            _lose(f"{version} is not known here")
        return triton

    def _constants(self, config: Config) -> Dict[str, Any]:
        """What is bound to the compiler, by name."""
        return {item["name"]: config[item["name"]]
                for kind in ("dims", "parameters", "derived") for item in self._kernel.get(kind, [])
                if item.get("bind") == messages.BIND_COMPILE}

    def _run_bound(self) -> Set[str]:
        """The names of values that are known at run time alone."""
        return {item["name"] for kind in ("dims", "parameters", "derived") for item in self._kernel.get(kind, [])
                if item.get("bind") != messages.BIND_COMPILE}

    def _functions(self, triton: Any) -> Dict[str, Any]:
        """The functions that any step launches, by name."""
        try:
            module = self._module.load()
        except BaseException as error:
            advice = ("" if isinstance(error, (ImportError, SyntaxError)) else
                      "; it is imported where there is no GPU: keep what needs one out of its top level")
            raise Ended(messages.COMPILE_ERROR,
                        self._without_paths(f"importing the module raised {sentence_of(error)}{advice}"),
                        self._without_paths(_log_of(error))) from None
        reference, baseline = self._kernel.get("reference", {}), self._kernel.get("baseline", {})
        steps = [*self._kernel.get("launches", []), *(item.get("step", {}) for item in self._kernel.get("prepare", [])),
                 *reference.get("steps", []), *baseline.get("steps", [])]
        return {name: _function(triton, module, name)
                for name in sorted({step["kernel"]["entry"] for step in steps if "kernel" in step})}

    def _check_names(self, values: Dict[str, Any], functions: Dict[str, Any]) -> None:
        known: Set[str] = set(OPTIONS).union(*(function.arg_names for function in functions.values()))
        # They are bound to the compiler whatever the definition wants, such as a type of buffers.
        known.update(dim["name"] for dim in self._kernel.get("dims", []) if dim.get("type") == messages.VALUE_STRING)
        for name in values:
            if name not in known:
                _fail(f"'{name}' is bound to the compiler, but neither is it an option of Triton nor has "
                      f"{' or '.join(functions)} a parameter of that name; write bind: RUN, or correct the name")

    def _compile_one(self, triton: Any, function: Any, types: List[Tuple[str, str]], values: Dict[str, Any],
                     run_bound: Set[str], capability: int) -> Dict[str, Any]:
        signature, constants, attributes, remaining = _specialise(function, types, values, run_bound)
        options = {name: values[name] for name in OPTIONS if name in values and (name != "maxnreg" or values[name])}
        try:
            source = triton.compiler.ASTSource(function, signature, constants, attributes)
            target = triton.backends.compiler.GPUTarget("cuda", capability, _WARP_SIZE)
            compiled = triton.compile(source, target=target, options=options)
            return _described(function.__name__, compiled, remaining, types)
        except Ended:
            raise
        except Exception as error:
            raise Ended(outcome_of(error, messages.COMPILE_ERROR),
                        self._without_paths(f"{function.__name__}: {_message_of(error)}"),
                        self._without_paths(_log_of(error))) from None

    def _without_paths(self, text: str) -> str:
        return text.replace(self._module.directory + os.sep, "")


def _specialise(function: Any, types: List[Tuple[str, str]], values: Dict[str, Any],
                run_bound: Set[str]) -> Tuple[Dict[str, str], Dict[Any, Any], Dict[Any, Any], List[int]]:
    """Returns the signature, the constants and the attributes as the compiler wants them, and the indices of the
    arguments that remain parameters of the binary."""
    name = function.__name__
    signature: Dict[str, str] = {}
    constants: Dict[Any, Any] = {}
    attributes: Dict[Any, Any] = {}
    remaining: List[int] = []
    expected = [parameter for parameter in function.params if not parameter.is_constexpr]
    if len(expected) < len(types) or not all(parameter.has_default for parameter in expected[len(types):]):
        names = ", ".join(parameter.name for parameter in expected)
        _fail(f"{name} takes {len(expected)} arguments that are not tl.constexpr ({names}), but {len(types)} are passed")
    position = 0
    for index, parameter in enumerate(function.params):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constants[(index,)] = _constant_of(name, parameter, values, run_bound)
            continue
        if position == len(types):
            signature[parameter.name] = "constexpr"
            constants[(index,)] = _constant_of_default(name, parameter)
            continue
        kind, fact = types[position]
        annotated = getattr(parameter, "annotation_type", None)
        if annotated and not kind.startswith("*") and annotated != kind:
            advice = ("give its scalar that data type" if annotated in _SCALARS and not kind.startswith(_DESCRIPTOR) else
                      "drop the annotation, or make it a tl.constexpr")
            _fail(f"'{parameter.name}' of {name} is annotated as {annotated}, but {kind} is passed; {advice}")
        # Triton makes no constant of a parameter whose type is written down.
        if fact == "=1" and not parameter.do_not_specialize and not annotated:
            signature[parameter.name] = "constexpr"
            constants[(index,)] = 1
        else:
            if kind.startswith("*") and getattr(parameter, "is_const", False):
                kind = "*k" + kind[1:]
            signature[parameter.name] = kind
            remaining.append(position)
            is_aligned = kind.startswith("*") or fact == ":16"
            if is_aligned and not parameter.do_not_specialize and not parameter.do_not_specialize_on_alignment:
                attributes[(index,)] = _POINTER_ALIGNMENT
        position += 1
    return signature, constants, attributes, remaining


def _constant_of(function: str, parameter: Any, values: Dict[str, Any], run_bound: Set[str]) -> Any:
    if parameter.name in values:
        return values[parameter.name]
    if parameter.name in run_bound:
        _fail(f"'{parameter.name}' is a tl.constexpr of {function}, but the dim, parameter or derived value of that name is "
              "bound at run time; give it bind COMPILE")
    if parameter.has_default:
        return parameter.default
    _fail(f"the tl.constexpr '{parameter.name}' of {function} has no value: give it by a parameter, dim or derived value of "
          "that name with bind COMPILE, or by a default")


def _constant_of_default(function: str, parameter: Any) -> Any:
    """Of a parameter that is no tl.constexpr and is not passed: None and 1, which Triton makes constants."""
    default = parameter.default
    is_one = type(default) is int and default == 1 and not parameter.do_not_specialize
    if (default is None or is_one) and not getattr(parameter, "annotation_type", None):
        return default
    _fail(f"'{parameter.name}' of {function} is not passed; add a scalar with the value of its default, {default!r}, to the "
          "arguments of the launch, or make it a tl.constexpr")


def _described(function: str, compiled: Any, remaining: List[int], types: List[Tuple[str, str]]) -> Dict[str, Any]:
    """A TritonKernel, without its signature. The launcher of Triton 3.6 passes two pointers behind the arguments."""
    metadata = compiled.metadata
    for what, needed, limit in (
            ("threads", metadata.num_warps * _WARP_SIZE, _BLOCK_THREADS_MAX),
            ("columns of tensor memory", getattr(metadata, "tmem_size", None) or 0, _TENSOR_MEMORY_COLUMNS_MAX)):
        if needed > limit:
            raise Ended(messages.INFEASIBLE_LAUNCH, f"{function}: a block needs {needed} {what}, the limit is {limit}")
    scratch_bytes = (metadata.global_scratch_size or 0) + (metadata.profile_scratch_size or 0)
    if metadata.launch_pdl and scratch_bytes:
        raise Ended(messages.INFEASIBLE_LAUNCH,
                    f"{function}: with launch_pdl launches overlap, and would share the {scratch_bytes} bytes of scratch "
                    "memory of each block, such as tensor descriptors that the kernel makes; set no launch_pdl")
    return {
        "symbol": metadata.name,
        "cubin": base64.b64encode(compiled.asm["cubin"]).decode("ascii"),
        "num_warps": metadata.num_warps,
        "num_ctas": metadata.num_ctas,
        "shared_bytes": metadata.shared,
        "global_scratch_bytes": metadata.global_scratch_size or 0,
        "global_scratch_alignment": metadata.global_scratch_align or 0,
        "profile_scratch_bytes": metadata.profile_scratch_size or 0,
        "profile_scratch_alignment": metadata.profile_scratch_align or 0,
        "cooperative": bool(metadata.launch_cooperative_grid),
        "programmatic_launch": bool(metadata.launch_pdl),
        "parameters": [*remaining, _GLOBAL_SCRATCH, _PROFILE_SCRATCH],
        "descriptors": _descriptors(metadata, types),
    }


def _descriptors(metadata: Any, types: List[Tuple[str, str]]) -> List[Dict[str, Any]]:
    """TritonDescriptors, one for each argument that is a tensor descriptor. The compiler says in their order how it lowered
    them to tensor maps; of devices without those it says nothing."""
    positions = [position for position, (kind, _) in enumerate(types) if kind.startswith(_DESCRIPTOR)]
    maps = getattr(metadata, "tensordesc_meta", None) or [None] * len(positions)
    made = []
    for position, own in zip(positions, maps):
        descriptor = {"argument": position, "rank": types[position][0].count(",") + 1}
        if own is not None:
            descriptor.update(box=list(own["block_size"]), swizzle=own["swizzle"], fp4_padded=bool(own["fp4_padded"]),
                              element_type=_MAP_TYPES.get(own["elem_type"], own["elem_type"]))
        made.append(descriptor)
    return made


def _function(triton: Any, module: Any, name: str) -> Any:
    function = getattr(module, name, None)
    # Its configs and hooks are not ours: parameters and the buffers of the definition take their place.
    while type(function).__name__ == "Autotuner":
        function = function.fn
    if type(function).__name__ == "Heuristics":
        _fail(f"'{name}' is decorated by @triton.heuristics; give its values by derived values with bind COMPILE, and leave "
              "the decorator out")
    if not isinstance(function, triton.JITFunction):
        _fail(f"'{name}' is no function with @triton.jit in {module.__name__}.py")
    is_gluon = getattr(function, "is_gluon", None)
    if is_gluon is not None and is_gluon():
        _fail(f"'{name}' is a function of Gluon, which is not supported; use @triton.jit")
    return function


def _module_name(path: str) -> str:
    name = path[:-len(".py")]
    name = name[:-len("/__init__")] if name.endswith("/__init__") else name
    return name.replace("/", ".")


def _read_signature(signature: str) -> Tuple[str, List[Tuple[str, str]]]:
    """The function, and of each argument its type and ":16", "=1" or nothing."""
    name, _, rest = signature[:-1].partition("(")
    types = []
    for argument in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,]*)?", rest):  # no comma in brackets ends an argument
        for fact in (":16", "=1", ""):
            if argument.endswith(fact):
                types.append((argument[:len(argument) - len(fact)], fact))
                break
    return name, types


def _release(version: str) -> Optional[Tuple[int, int]]:
    try:
        major, minor = version.split(".")[:2]
        return int(major), int(minor)
    except ValueError:
        return None


def _message_of(error: BaseException) -> str:
    """The first line of what Triton says. Its errors begin with a place in the source, quote it, and end with the
    message behind a line with a caret."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("at ") and len(lines) > 1:
        carets = [i for i, line in enumerate(lines) if line.strip() == "^"]
        after = lines[carets[-1] + 1:] if carets else []
        if not after:
            cause = error.__cause__
            return f"{lines[0].rstrip(':')}: " + (_message_of(cause) if cause is not None else type(error).__name__)
        return f"{lines[0].rstrip(':')}: {after[0].strip()}"
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def _log_of(error: BaseException) -> str:
    """The whole error and its causes. Nothing where the message says it all: the log is then what the compiler wrote to
    standard error."""
    parts = []
    seen: Optional[BaseException] = error
    while seen is not None and len(parts) < 8:
        parts.append(f"{type(seen).__name__}: {seen}")
        seen = seen.__cause__ or seen.__context__
    whole = "\n\n".join(parts)
    return whole if "\n" in whole else ""


def _lose(what: str, log: str = "") -> NoReturn:
    """The machine, and not the kernel, is the reason."""
    raise Ended(messages.LOST, f"Triton {what}: install {known_releases()} for {sys.executable}, or name an interpreter that "
                               "has it, and restart the daemon or agent on this machine", log) from None


def _fail(message: str) -> NoReturn:
    raise Ended(messages.COMPILE_ERROR, message) from None
