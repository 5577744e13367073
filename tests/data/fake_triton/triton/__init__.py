"""See ../README.md."""

import json
import types

from . import language  # noqa: F401
from .backends import compiler as backends_compiler  # noqa: F401
from .runtime import Autotuner, Config, Heuristics, JITFunction, autotune, heuristics  # noqa: F401
from .runtime.jit import jit  # noqa: F401

__version__ = "3.6.0"


class OutOfResources(Exception):
    pass


class CompilationError(Exception):
    pass


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
