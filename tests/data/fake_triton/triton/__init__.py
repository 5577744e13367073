"""As much of Triton's interface as tests need where it is not installed."""

import inspect

from triton import language


class JITFunction:
    def __init__(self, fn):
        self.fn = fn
        self.__module__ = fn.__module__
        self.arg_names = list(inspect.signature(fn).parameters)
        self.params = [Parameter(item) for item in inspect.signature(fn).parameters.values()]


class Parameter:
    def __init__(self, item):
        self.name = item.name
        self.is_constexpr = item.annotation is language.constexpr or "constexpr" in str(item.annotation)


class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None):
        self.kwargs, self.pre_hook = kwargs, pre_hook
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg


class Autotuner:
    def __init__(self, fn, configs, reset_to_zero):
        self.fn, self.configs, self.reset_to_zero = fn, configs, reset_to_zero


def jit(fn=None, **options):
    return jit if fn is None else JITFunction(fn)


def autotune(configs, key, reset_to_zero=None):
    return lambda fn: Autotuner(fn, configs, reset_to_zero)


def cdiv(x, y):
    return (x + y - 1) // y
