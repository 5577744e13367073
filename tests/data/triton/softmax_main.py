"""A script whose kernels stand in __main__ and in a function, and use what is around them."""

import numpy
import triton
import triton.language as tl
from triton.language import float16 as OUT_TYPE

from tunefarm.triton import tune

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(float("-inf"))


@triton.jit
def shifted(values, most):
    # Base 2 is what the hardware has.
    return tl.exp2((values - most) * LOG2_E)


def made(scale):
    factor = tl.constexpr(scale)

    @triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 2048}, num_warps=8)],
                     key=["columns"])
    @triton.jit
    def softmax(out_ptr, x_ptr, columns, BLOCK: tl.constexpr, SHIFT: tl.constexpr = scale * 2.5):
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=LOWEST) * factor
        parts = shifted(x, tl.max(x, axis=0) + SHIFT - SHIFT)
        tl.store(out_ptr + row * columns + at, (parts / tl.sum(parts, axis=0)).to(OUT_TYPE), mask=at < columns)

    return softmax


def reference(x_ptr):
    parts = numpy.exp(x_ptr - x_ptr.max(axis=1, keepdims=True))
    return parts / parts.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    x = numpy.random.default_rng(1).standard_normal((64, 1000), dtype=numpy.float32)
    results = tune(made(1), [numpy.zeros(x.shape, numpy.float16), x, x.shape[1]], grid=(len(x),), outputs=["out_ptr"],
                   reference=reference)
