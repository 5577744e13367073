"""scaled_grouped_mm: the forward product in fp8 with block scales as an operator, tunefarm::scaled_grouped_mm. Private.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from tunefarm._block_scales import layout_of, pitch, refusal
from tunefarm._grouped_products import ALIGNMENT, FP8, Key, Product, Role, remember
from tunefarm.errors import InvalidArgumentError, NotFoundError
from tunefarm.torch import _grouped_mm as ops

_UNKNOWN: Any = object()


def scaled_grouped_mm(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor,
                      out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Rows offs[e - 1] to offs[e] of `input` [R, K] times mat2[e] of `mat2` [E, K, N], both in fp8 with block scales, as
    [R, N] in bfloat16:

        y[r, n] = sum over k of input[r, k] * scale_a[r, k // 128] * mat2[e, k, n] * scale_b[e, k // 128, n // 128]

    input, mat2: torch.float8_e4m3fn; K is a multiple of 16, N of 8. mat2 is a transposed view of weights [E, N, K].
    scale_a [R, ceil(K / 128)]: float32, row-major or column-major with columns of R rounded up to a multiple of 4;
    another layout, or one that no package has a kernel for, is copied. scale_b [E, ceil(K / 128), ceil(N / 128)]:
    float32, a transposed view of scales [E, ceil(N / 128), ceil(K / 128)]. offs [E]: int32, where the groups end,
    ascending and at most R, which is not checked, since that would wait for the device. Rows after offs[-1] are neither
    read nor written. All are on one CUDA device. out_dtype: torch.bfloat16 or None.

    Torch does not compute this product, so that a number of rows for which no config is tuned gets the kernel's default
    config, which the logger "tunefarm.torch" says once. InvalidArgumentError: arguments of other types, shapes, layouts
    or devices, or tensors that need gradients, which this product has not. NotFoundError: no loaded package has the
    kernel. LaunchError: the launch failed."""
    if out_dtype is not None and out_dtype != torch.bfloat16:
        raise InvalidArgumentError(f"scaled_grouped_mm: out_dtype is {out_dtype}; the result is torch.bfloat16")
    if ops.needs_gradient(input, mat2, scale_a, scale_b):
        raise InvalidArgumentError("scaled_grouped_mm has no gradients: call it in torch.no_grad(), or detach() what "
                                   "needs one")
    if ops.is_direct(input, mat2, offs, scale_a, scale_b):
        return scaled_multiply_now(input, mat2, scale_a, scale_b, offs)
    return _scaled_grouped_mm(input, mat2, scale_a, scale_b, offs)


def scaled_multiply_now(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor) -> Tensor:
    known = known_of(FP8, 1, input.shape[0], input, mat2, scale_a, scale_b, offs)
    rows = input.shape[0]
    if known is None:
        raise NotFoundError(f"{_missing(mat2)}; torch does not compute this product: load a package with its kernel by "
                            "tunefarm.torch.load")
    if not rows:
        return _empty(input, mat2)
    ends = offs.contiguous()
    # What a packed product does not use is handed over all the same.
    out = enqueued(known, rows, rows, input, mat2, scale_a, scale_b, ends, ends, ends)
    if out is None:
        raise NotFoundError(f"no config of the loaded packages can be launched for {rows} rows in fp8; load a package "
                            "with other configs of grouped_gemm_forward_fp8")
    return out


class Known(NamedTuple):
    """Calls of one kind, whose arguments have been checked."""

    product: Product
    copied_to: str  # the layout to which the rows' scales are copied; "": they are in the kernel's


def known_of(roles: Dict[str, Role], topk: int, tokens: int, input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor,
             offs: Tensor) -> Optional[Known]:
    """The kernel of a role by the layout of the rows' scales: that for the given layout, else one for another; None: no
    package has either. `tokens`: of the launch. Arguments as those of scaled_grouped_mm; InvalidArgumentError where they
    are none."""
    layout = layout_of(scale_a.shape, scale_a.stride()) if scale_a.dim() == 2 else None
    # All that decides how the product is computed, but the rows.
    signature = (*roles.values(), topk, layout, input.shape[1:], scale_a.shape[1:],
                 scale_a.shape[:1] == input.shape[:1], mat2.shape, mat2.stride(), scale_b.shape, scale_b.stride(),
                 offs.shape, input.dtype, mat2.dtype, scale_a.dtype, scale_b.dtype, offs.dtype,
                 input.get_device(), mat2.get_device(), scale_a.get_device(), scale_b.get_device(), offs.get_device())
    # load() in another thread puts another table in its place.
    calls = ops.products.calls
    known: Any = calls.get(signature, _UNKNOWN)
    if known is not _UNKNOWN:
        return known
    _check(input, mat2, scale_a, scale_b, offs)
    known = None
    for each in sorted(roles, key=lambda name: name != layout):
        product = ops.find(_key(roles[each], topk, mat2), max(tokens, 1))
        if product is not None:
            known = Known(product, "" if each == layout else each)
            break
    remember(calls, signature, known)
    return known


def enqueued(known: Known, tokens: int, rows: int, input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor,
             ends: Tensor, indices: Tensor, weights: Tensor) -> Optional[Tensor]:
    """The result [rows, N], or None where no config can be launched for so many tokens."""
    launcher = known.product.launcher(tokens)
    if not launcher:
        return None
    out = ops.new_rows(input, rows, mat2.shape[2], torch.bfloat16, input.get_device())
    enqueue(launcher, known, input, mat2, scale_a, scale_b, (out, ends, indices, weights))
    return out


def enqueue(launcher: Any, known: Known, input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor,
            others: Tuple[Tensor, ...]) -> None:
    """Enqueues what known.product.launcher returned, with the result and all that follows it as `others`."""
    device = input.get_device()
    if mat2.data_ptr() % ALIGNMENT:
        mat2 = mat2.clone()
    if known.copied_to:
        scale_a = _copied(scale_a, known.copied_to)
    arrays = (ops.fitting(input), mat2, scale_a, scale_b, *others)
    launcher(tuple([each.data_ptr() for each in arrays]), ops.stream_of(device))


def _key(role: Role, topk: int, mat2: Tensor) -> Key:
    experts, inner, columns = mat2.shape
    return role, experts, columns, inner, mat2.dtype, topk, mat2.get_device()


def _missing(mat2: Tensor) -> str:
    reasons = [ops.products.missing.get(_key(role, 1, mat2)) for role in FP8.values()]
    return next(filter(None, reasons), "no loaded package has grouped_gemm_forward_fp8")


def _check(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor) -> None:
    reason = refusal(input, mat2, scale_a, scale_b, offs)
    if reason is not None:
        raise InvalidArgumentError(f"scaled_grouped_mm: {reason}")


def _empty(input: Tensor, mat2: Tensor) -> Tensor:
    """The result, not yet computed."""
    return input.new_empty((input.shape[0], mat2.shape[2]), dtype=torch.bfloat16)


def _copied(scales: Tensor, layout: str) -> Tensor:
    """The rows' scales in this layout; in mn_major as its memory."""
    if layout == "row_major":
        return scales.contiguous()
    rows, columns = scales.shape
    copy = scales.new_empty((columns, pitch(rows)))
    copy[:, :rows].copy_(scales.t())
    return copy


def _fake_scaled_grouped_mm(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor) -> Tensor:
    _check(input, mat2, scale_a, scale_b, offs)
    return _empty(input, mat2)


_scaled_grouped_mm = ops.define(
    "scaled_grouped_mm", "(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor offs) -> Tensor",
    scaled_multiply_now, _fake_scaled_grouped_mm)
