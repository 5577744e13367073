"""See ../README.md."""

import inspect
import json
import types

from . import language
from .backends import compiler as backends_compiler  # noqa: F401

__version__ = "3.6.0"


class OutOfResources(Exception):
    pass


class CompilationError(Exception):
    pass


class KernelParam:
    def __init__(self, number, parameter, do_not_specialize, do_not_specialize_on_alignment):
        self.num = number
        self.name = parameter.name
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.is_constexpr = parameter.annotation is language.constexpr
        self.annotation_type = parameter.annotation if isinstance(parameter.annotation, str) else ""
        self.is_const = False
        self.has_default = parameter.default is not inspect.Parameter.empty
        self.default = parameter.default


class JITFunction:
    def __init__(self, function, do_not_specialize=(), do_not_specialize_on_alignment=()):
        self.fn = function
        self.__name__ = function.__name__
        self.params = [KernelParam(i, parameter, parameter.name in do_not_specialize,
                                   parameter.name in do_not_specialize_on_alignment)
                       for i, parameter in enumerate(inspect.signature(function).parameters.values())]
        self.arg_names = [parameter.name for parameter in self.params]

    def is_gluon(self):
        return False


def jit(function=None, **options):
    if function is None:
        return lambda decorated: JITFunction(decorated, **options)
    return JITFunction(function)


class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None):
        self.kwargs, self.pre_hook = kwargs, pre_hook
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg


class Autotuner:
    def __init__(self, function, configs, reset_to_zero):
        self.fn, self.configs, self.reset_to_zero = function, configs, reset_to_zero


class Heuristics:
    def __init__(self, function):
        self.fn = function


def autotune(configs, key, reset_to_zero=None):
    return lambda function: Autotuner(function, configs, reset_to_zero)


def heuristics(values):
    return Heuristics


def cdiv(x, y):
    return (x + y - 1) // y


def compile(source, target=None, options=None):
    constants = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items()}
    fault = constants.get("FAULT")
    if fault == "error":
        raise CompilationError("at 7:4:\n    tl.nothing(x)\n    ^\nmodule has no attribute nothing")
    if fault == "resources":
        raise OutOfResources("out of resource: shared memory, Required: 300000, Hardware limit: 232448")
    aligned = sorted(source.fn.arg_names[path[0]] for path in source.attrs)
    asked = {"function": source.fn.__name__, "signature": source.signature, "constants": constants, "aligned": aligned,
             "options": options, "target": [target.backend, target.arch, target.warp_size]}
    cubin = b"\x7fELF" + json.dumps(asked, sort_keys=True, default=str).encode() + bytes(64)
    metadata = types.SimpleNamespace(
        name=source.fn.__name__ + "_0d1d", num_warps=options.get("num_warps", 4) + 1, num_ctas=options.get("num_ctas", 1),
        shared=constants.get("BLOCK", 0), global_scratch_size=constants.get("SCRATCH", 0), global_scratch_align=128,
        profile_scratch_size=0, profile_scratch_align=1, tmem_size=1024 if fault == "tensor memory" else None,
        launch_cooperative_grid=options.get("launch_cooperative_grid", False), launch_pdl=options.get("launch_pdl", False))
    return types.SimpleNamespace(asm={"cubin": cubin}, metadata=metadata)
