"""See ../README.md."""

import json
import re
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


def _map_of(kind):
    """As of a block in shared memory whose rows are at most 128 bytes."""
    name, block = re.fullmatch(r"tensordesc<(\w+)\[(.*)\]>", kind).groups()
    rows = [int(extent) for extent in block.split(",")]
    width, number = {"fp16": (2, 6), "bf16": (2, 10), "fp32": (4, 7), "fp64": (8, 9), "i8": (1, 0),
                     "fp8e4nv": (1, 0)}[name]
    return {"swizzle": 3, "elem_size": width, "elem_type": number, "fp4_padded": False,
            "block_size": [min(256, extent) for extent in rows[:-1]] + [min(128 // width, rows[-1])]}


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
    descriptors = [kind for kind in source.signature.values() if kind.startswith("tensordesc<")]
    metadata = types.SimpleNamespace(
        name=source.fn.__name__ + "_0d1d", num_warps=options.get("num_warps", 4) + 1, num_ctas=options.get("num_ctas", 1),
        shared=constants.get("BLOCK", 0), global_scratch_size=constants.get("SCRATCH", 0), global_scratch_align=128,
        profile_scratch_size=0, profile_scratch_align=1, tmem_size=1024 if fault == "tensor memory" else None,
        tensordesc_meta=[_map_of(kind) for kind in descriptors] if target.arch >= 90 else [],
        launch_cooperative_grid=options.get("launch_cooperative_grid", False), launch_pdl=options.get("launch_pdl", False))
    return types.SimpleNamespace(asm={"cubin": cubin}, metadata=metadata)
