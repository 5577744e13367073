"""What @triton.autotune and @triton.heuristics do, without a clock: the last config is the fastest."""

import inspect

from .jit import Launchable


class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs, self.pre_hook, self.ir_override = kwargs, pre_hook, ir_override
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg

    def all_kwargs(self):
        options = {name: getattr(self, name) for name in ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")}
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def __str__(self):
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


class Autotuner(Launchable):
    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by,
                 do_bench):
        self.fn, self.arg_names, self.configs, self.keys = fn, arg_names, configs, key
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = bool(pre_hook), bool(post_hook)
        self.early_config_prune = (prune_configs_by or {}).get("early_config_prune")
        self._do_bench = do_bench
        self.cache = {}
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn

    def prune_configs(self, named):
        return self.early_config_prune(self.configs, self.nargs, **named) if self.early_config_prune else self.configs

    def run(self, *args, **named):
        self.nargs = dict(zip(self.arg_names, args))
        config = self.configs[0]
        if len(self.configs) > 1:
            given = {**self.nargs, **named}
            key = tuple([given[name] for name in self.keys if name in given] +
                        [str(given[name].dtype) for name in self.arg_names if hasattr(given.get(name), "dtype")])
            if key not in self.cache:
                for config in self.prune_configs(named):
                    self.fn.run(*args, **named, **config.all_kwargs())
                self.cache[key] = config
            config = self.cache[key]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **named, **config.all_kwargs()})
        made = self.fn.run(*args, **named, **config.all_kwargs())
        self.nargs = None
        return made


class Heuristics(Launchable):
    def __init__(self, fn, arg_names, values):
        self.fn, self.arg_names, self.values = fn, arg_names, values

    def run(self, *args, **named):
        for name, function in self.values.items():
            named[name] = function({**dict(zip(self.arg_names, args)), **named})
        return self.fn.run(*args, **named)


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
             do_bench=None):
    """As triton.autotune."""
    return lambda fn: Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
                                prune_configs_by, do_bench)


def heuristics(values):
    return lambda fn: Heuristics(fn, fn.arg_names, values)
