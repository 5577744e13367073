"""A layer of experts whose weights are in fp8 with block scales, without gradients. Private; see _moe.py.

Activations are quantised in blocks of 128 elements of a row, as the definitions of the kernels do it: those of the
second product by the kernel of the first one, where a package has it, else here, like tokens.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from tunefarm._block_scales import BLOCK, blocks
from tunefarm._grouped_products import FP8_DOWN, FP8_UP, FP8_UP_ACTIVATED
from tunefarm.errors import InvalidArgumentError
from tunefarm.torch import _gate_up, _routing
from tunefarm.torch import _grouped_mm as ops
from tunefarm.torch import _scaled_grouped_mm as scaled

_MAX = 448.0  # the largest e4m3


class Scaled(NamedTuple):
    """e4m3 elements and their block scales."""

    values: Tensor
    scales: Tensor


def moe_mlp_fp8(x: Tensor, w_up: Scaled, w_down: Scaled, topk_ids: Tensor, topk_weights: Tensor) -> Tensor:
    """moe_mlp of checked arguments."""
    tokens, topk = topk_ids.shape
    rows = _routing.sorted_rows(topk_ids, w_down.values.shape[0])
    activated = _activated(quantized(x), w_up, rows, topk)
    y = _product("down", activated, w_down, rows, topk_weights.reshape(-1), topk)
    return _routing.added_up(y, tokens, topk)


def checked(x: Tensor, w_up: Tensor, w_down: Tensor, w_up_scales: Optional[Tensor],
            w_down_scales: Optional[Tensor]) -> Tuple[Scaled, Scaled]:
    """The weights, whose shapes fit x. InvalidArgumentError: other types, scales or layouts."""
    if (w_up.dtype != torch.float8_e4m3fn or w_down.dtype != torch.float8_e4m3fn or w_up_scales is None or
            w_down_scales is None):
        missing = "".join([f", without {name}" for name, scales in (("w_up_scales", w_up_scales),
                                                                    ("w_down_scales", w_down_scales)) if scales is None])
        raise InvalidArgumentError(f"moe_mlp: x is {x.dtype}, w_up {w_up.dtype} and w_down {w_down.dtype}{missing}; they "
                                   "have one type, or both weights are torch.float8_e4m3fn and have w_up_scales and "
                                   "w_down_scales")
    if x.dtype != torch.bfloat16:
        raise InvalidArgumentError(f"moe_mlp: x is {x.dtype}; with weights in fp8 it is torch.bfloat16")
    if w_down.shape[1] % 16 or w_down.shape[2] % 16:
        raise InvalidArgumentError(f"moe_mlp: H is {w_down.shape[1]} and I is {w_down.shape[2]}; with weights in fp8 they "
                                   "are multiples of 16: pad them with zeros")
    weights = Scaled(w_up, w_up_scales), Scaled(w_down, w_down_scales)
    for name, (w, scales) in zip(("w_up", "w_down"), weights):
        wanted = (w.shape[0], blocks(w.shape[1]), blocks(w.shape[2]))
        if scales.dtype != torch.float32 or tuple(scales.shape) != wanted or scales.device != x.device:
            raise InvalidArgumentError(f"moe_mlp: {name}_scales are {scales.dtype} {tuple(scales.shape)} on "
                                       f"{scales.device}; a scale for each {BLOCK} x {BLOCK} elements of {name} is "
                                       f"torch.float32 {wanted} on {x.device}")
        if not w.is_contiguous() or not scales.is_contiguous():
            raise InvalidArgumentError(f"moe_mlp: {name} and {name}_scales in fp8 lie in memory in row-major order "
                                       "without gaps; call contiguous()")
    return weights


def quantized(rows: Tensor) -> Scaled:
    """Rows [R, C] in e4m3 with scales [R, ceil(C / 128)]: a block's largest magnitude divided by 448, or 1 where that
    magnitude is below 2^-117."""
    columns, kernels = rows.shape[1], _routing.kernels
    if kernels is not None and ops.is_direct(rows, rows, rows) and kernels.is_current(rows):
        values = rows.new_empty(rows.shape, dtype=torch.float8_e4m3fn)
        found = Scaled(values, rows.new_empty((rows.shape[0], blocks(columns)), dtype=torch.float32))
        kernels.quantize_rows(rows.contiguous(), *found)
        return found
    padded = torch.nn.functional.pad(rows.float(), (0, -columns % BLOCK)).unflatten(1, (blocks(columns), BLOCK))
    largest = padded.abs().amax(2)
    scales = (largest / _MAX).masked_fill(largest.lt(2.0**-117), 1.0)
    values = (padded / scales.unsqueeze(2)).to(torch.float8_e4m3fn).flatten(1)
    return Scaled(values[:, :columns].contiguous(), scales)


def _activated(x: Scaled, w_up: Scaled, rows: _routing.Rows, topk: int) -> Scaled:
    """silu(gate) * up of the sorted rows, quantised."""
    if w_up.values.shape[1] % (2 * BLOCK):  # the kernel has whole blocks of gate and of up
        return quantized(_gate_up.activated(_product("up", x, w_up, rows, None, topk), "split"))
    arguments = (x.values, w_up.values, x.scales, w_up.scales, rows.ends, rows.indices, topk)
    if ops.is_direct(x.values, w_up.values, rows.ends, x.scales, w_up.scales):
        return Scaled(*scaled_up_activated_now(*arguments))
    return Scaled(*_scaled_up_activated(*arguments))


def scaled_up_activated_now(x: Tensor, w: Tensor, x_scales: Tensor, w_scales: Tensor, ends: Tensor, indices: Tensor,
                            topk: int) -> Tuple[Tensor, Tensor]:
    """x [T, K] by token, w [E, 2 I, K]; the elements [R, I] of the sorted rows, and their scales in row-major order."""
    rows, columns = indices.shape[0], w.shape[1] // 2
    if rows and x.shape[0] * topk == rows and _routing.are_lists(ends, indices, None, x.get_device()):
        mat2, scale_b = w.transpose(-2, -1), w_scales.transpose(-2, -1)
        known = scaled.known_of({"row_major": FP8_UP_ACTIVATED}, topk, x.shape[0], x, mat2, x_scales, scale_b, ends)
        launcher = known.product.launcher(x.shape[0]) if known is not None else None
        if known is not None and launcher:
            values = ops.new_rows(x, rows, columns, torch.float8_e4m3fn, x.get_device())
            scales = ops.new_rows(x, rows, blocks(columns), torch.float32, x.get_device())
            scaled.enqueue(launcher, known, x, mat2, x_scales, scale_b, (values, scales, ends, indices))
            return values, scales
    up = scaled_layer_product_now("up", x, w, x_scales, w_scales, ends, indices, None, topk)
    return quantized(_gate_up.activated(up, "split"))


def _product(product: str, a: Scaled, w: Scaled, rows: _routing.Rows, weights: Optional[Tensor], topk: int) -> Tensor:
    arguments = (product, a.values, w.values, a.scales, w.scales, rows.ends, rows.indices, weights, topk)
    if ops.is_direct(a.values, w.values, rows.ends, a.scales, w.scales):
        return scaled_layer_product_now(*arguments)
    return _scaled_layer_product(*arguments)


def scaled_layer_product_now(product: str, a: Tensor, w: Tensor, scale_a: Tensor, scale_w: Tensor, ends: Tensor,
                             indices: Tensor, weights: Optional[Tensor], topk: int) -> Tensor:
    """One of the layer's products, by name, in bfloat16; scales lie like their matrices:

    | up   | x [T, K] by token | w [E, N, K] | sorted rows [R, N]              |
    | down | x [R, K], sorted  | w [E, N, K] | flat rows [R, N], times weights |"""
    rows, mat2, scale_b = indices.shape[0], w.transpose(-2, -1), scale_w.transpose(-2, -1)
    if not rows:
        return a.new_empty((0, w.shape[1]), dtype=torch.bfloat16)
    is_up = product == "up"
    if (rows % topk == 0 and a.shape[0] == (rows // topk if is_up else rows) and (is_up or weights is not None) and
            _routing.are_lists(ends, indices, weights, a.get_device())):
        known = scaled.known_of(FP8_UP if is_up else FP8_DOWN, topk, rows // topk, a, mat2, scale_a, scale_b, ends)
        if known is not None:
            out = scaled.enqueued(known, rows // topk, rows, a, mat2, scale_a, scale_b, ends, indices,
                                  ends if weights is None else weights)
            if out is not None:
                return out
    if is_up:
        tokens = indices // topk
        a, scale_a = _taken(a, tokens), scale_a.index_select(0, tokens)
    y = scaled.scaled_multiply_now(a, mat2, scale_a, scale_b, ends)
    return y if is_up or weights is None else _routing.weighted(y, indices, weights)


def _taken(rows: Tensor, indices: Tensor) -> Tensor:
    """As bytes, since torch does not select rows of every type of 8 bits."""
    return rows.view(torch.uint8).index_select(0, indices).view(rows.dtype)


def _fake_scaled_layer_product(product: str, a: Tensor, w: Tensor, scale_a: Tensor, scale_w: Tensor, ends: Tensor,
                               indices: Tensor, weights: Optional[Tensor], topk: int) -> Tensor:
    return a.new_empty((indices.shape[0], w.shape[1]), dtype=torch.bfloat16)


def _fake_scaled_up_activated(x: Tensor, w: Tensor, x_scales: Tensor, w_scales: Tensor, ends: Tensor, indices: Tensor,
                              topk: int) -> Tuple[Tensor, Tensor]:
    rows, columns = indices.shape[0], w.shape[1] // 2
    return (x.new_empty((rows, columns)), x_scales.new_empty((rows, blocks(columns))))


_scaled_up_activated = ops.define(
    "scaled_up_activated",
    "(Tensor x, Tensor w, Tensor x_scales, Tensor w_scales, Tensor ends, Tensor indices, int topk) -> (Tensor, Tensor)",
    scaled_up_activated_now, _fake_scaled_up_activated)

_scaled_layer_product = ops.define(
    "scaled_layer_product",
    "(str product, Tensor a, Tensor w, Tensor scale_a, Tensor scale_w, Tensor ends, Tensor indices, Tensor? weights, "
    "int topk) -> Tensor", scaled_layer_product_now, _fake_scaled_layer_product)
