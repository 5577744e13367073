import collections
import inspect

from .. import language

# What kernels were launched with: the function's name, the grid and all values by name.
Launch = collections.namedtuple("Launch", "name grid values")
launches = []


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


class Launchable:
    def __getitem__(self, grid):
        return lambda *args, **named: self.run(*args, grid=grid, warmup=False, **named)


class JITFunction(Launchable):
    def __init__(self, function, do_not_specialize=(), do_not_specialize_on_alignment=(), repr=None, launch_metadata=None):
        self.fn = function
        self.raw_src = self._lines(function)
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.params = [KernelParam(i, parameter, parameter.name in do_not_specialize,
                                   parameter.name in do_not_specialize_on_alignment)
                       for i, parameter in enumerate(inspect.signature(function).parameters.values())]
        self.arg_names = [parameter.name for parameter in self.params]

    @staticmethod
    def _lines(function):
        try:
            return inspect.getsourcelines(function)[0]
        except OSError:
            return None

    def is_gluon(self):
        return False

    def run(self, *args, grid, warmup, **named):
        values = {**dict(zip(self.arg_names, args)), **named}
        launches.append(Launch(self.__name__, grid(values) if callable(grid) else grid, values))


def jit(function=None, **options):
    if function is None:
        return lambda decorated: JITFunction(decorated, **options)
    return JITFunction(function)
