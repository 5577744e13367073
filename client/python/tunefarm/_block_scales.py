"""Block scales of products in fp8: in which layouts kernels read them, and what is refused. Private; needs no torch.

The rows x [R, K] have a float for each 128 elements, the matrices [E, K, N] one for each block of 128 x 128 elements.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from tunefarm._grouped_products import MULTIPLE, transposed

BLOCK = 128  # elements that a scale multiplies, along each side
_PITCH = 4  # rows: columns of scales begin at multiples of 16 bytes
_MULTIPLE = 16  # elements of K: rows of fp8 are made of units of 16 bytes
_NAMES = ("input", "mat2", "scale_a", "scale_b", "offs")
_DIMENSIONS = (2, 3, 2, 3, 1)
_TYPES = ("torch.float8_e4m3fn", "torch.float8_e4m3fn", "torch.float32", "torch.float32", "torch.int32")


def blocks(elements: int) -> int:
    return -(-elements // BLOCK)


def pitch(rows: int) -> int:
    """Floats from one column of scales to the next one in the layout mn_major."""
    return -(-rows // _PITCH) * _PITCH


def layout_of(shape: Sequence[int], strides: Sequence[int]) -> Optional[str]:
    """The definition's scale_layout of scales [R, ceil(K / 128)]; None: it has no name for it."""
    if _is_row_major(shape, strides):
        return "row_major"
    rows, columns = shape
    return "mn_major" if (rows == 1 or strides[0] == 1) and strides[1] == pitch(rows) else None


def refusal(input: Any, mat2: Any, scale_a: Any, scale_b: Any, offs: Any) -> Optional[str]:
    """Why these are no arguments of the product, and what to do, as a sentence; None: they are. Reads of tensors what
    is known without the device."""
    tensors = (input, mat2, scale_a, scale_b, offs)
    for name, tensor, dimensions, dtype in zip(_NAMES, tensors, _DIMENSIONS, _TYPES):
        if len(tensor.shape) != dimensions:
            return (f"{name} has {len(tensor.shape)} dimensions; the arguments are input [R, K], mat2 [E, K, N], "
                    "scale_a [R, K / 128], scale_b [E, K / 128, N / 128] and offs [E]")
        if str(tensor.dtype) != dtype:
            return f"{name} is {tensor.dtype}; give it as {dtype}"
        if tensor.device.type != "cuda":
            return f"{name} is on {tensor.device}; the product is one of CUDA devices, move it there"
        if tensor.device != input.device:
            return f"{name} is on {tensor.device}, and input on {input.device}; move them to one device"
    (rows, inner), (experts, depth, columns) = input.shape, mat2.shape
    hint = "; give weights [E, N, K] as w.transpose(-2, -1)"
    if depth != inner:
        return f"input has rows of {inner} elements, and mat2 matrices of {depth} rows{hint}"
    if inner % _MULTIPLE or columns % MULTIPLE:
        return (f"K={inner} and N={columns}; K must be a multiple of {_MULTIPLE} and N of {MULTIPLE}: pad them with "
                "zeros")
    if transposed(mat2.shape, mat2.stride()) is not True:
        return f"mat2 does not lie in memory as [E, N, K] without gaps, as the kernels read it{hint}"
    if tuple(scale_a.shape) != (rows, blocks(inner)):
        return (f"scale_a is {tuple(scale_a.shape)}; it has a scale for each {BLOCK} elements of each row, "
                f"{(rows, blocks(inner))}")
    hint = "; give scales [E, N / 128, K / 128] as w_scales.transpose(-2, -1)"
    if tuple(scale_b.shape) != (experts, blocks(inner), blocks(columns)):
        return (f"scale_b is {tuple(scale_b.shape)}; it has a scale for each {BLOCK} x {BLOCK} elements of mat2, "
                f"{(experts, blocks(inner), blocks(columns))}{hint}")
    first, second, third = scale_b.stride()
    if not _is_row_major((experts, blocks(columns), blocks(inner)), (first, third, second)):
        return f"scale_b does not lie in memory as [E, N / 128, K / 128] without gaps, as the kernels read it{hint}"
    if offs.shape[0] != experts:
        return f"offs has {offs.shape[0]} ends of groups; it has one for each of the {experts} matrices"
    return None


def _is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """In row-major order without gaps; the stride of a single element does not matter."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
