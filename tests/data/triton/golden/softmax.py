from triton.language import float16 as OUT_TYPE
import triton
import triton.language
import triton.language as tl

factor = triton.language.constexpr(1)
LOWEST = triton.language.constexpr(float('-inf'))
LOG2_E = triton.language.constexpr(1.4426950408889634)

@triton.jit
def shifted(values, most):
    return tl.exp2((values - most) * LOG2_E)

@triton.jit
def softmax(out_ptr, x_ptr, columns, BLOCK: tl.constexpr, SHIFT: tl.constexpr=2.5):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=LOWEST) * factor
    parts = shifted(x, tl.max(x, axis=0) + SHIFT - SHIFT)
    tl.store(out_ptr + row * columns + at, (parts / tl.sum(parts, axis=0)).to(OUT_TYPE), mask=at < columns)
