"""moe_mlp: a layer of experts, whose rows are sorted on the device and gathered and scattered by the kernels. Private.

Flat and sorted rows, `indices` and `ends` are those of _routing.py; the gradients of the second product take the token
of each sorted row as `indices`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from tunefarm._grouped_products import (DOWN, DOWN_DW, DOWN_DX, MULTIPLE, UP, UP_ACTIVATED, UP_DW, UP_DX, Role,
                                        transposed)
from tunefarm.errors import InvalidArgumentError
from tunefarm.torch import _gate_up, _moe_fp8, _routing
from tunefarm.torch import _grouped_mm as ops

_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def moe_mlp(x: Tensor, w_up: Tensor, w_down: Tensor, topk_ids: Tensor, topk_weights: Tensor,
            w_up_scales: Optional[Tensor] = None, w_down_scales: Optional[Tensor] = None) -> Tensor:
    """For each token t the sum over its experts e = topk_ids[t, s] of topk_weights[t, s] * down_e(silu(gate) * up),
    where gate and up are the first and the second half of up_e(x[t]). Returns [T, H] of x's type.

    x [T, H], w_up [E, 2 I, H], w_down [E, H, I]: bfloat16 or float16; topk_ids [T, topk]: integers from 0 to E - 1,
    which are not checked, since that would wait for the device; topk_weights [T, topk]: float32, rounded to x's type
    before the multiplication. Gradients of x, w_up, w_down and topk_weights, once: not gradients of gradients. Products
    for which no package has the kernel with gathered rows are packed ones around gathers of torch. Where no gradient is
    needed, a kernel that fuses the first product with the activation computes both, if a package has one: gate and up
    are not rounded to x's type then.

    Weights in fp8: w_up and w_down torch.float8_e4m3fn with a scale for each 128 x 128 elements, w_up_scales
    [E, ceil(2 I / 128), ceil(H / 128)] and w_down_scales [E, ceil(H / 128), ceil(I / 128)] in float32, H and I multiples
    of 16, and x bfloat16. x and silu(gate) * up are quantised, a scale for each 128 elements of a row; the latter by a
    kernel that fuses the first product with the activation and does not round gate and up, if a package has one. There
    are no gradients, and torch does not compute these products: see scaled_grouped_mm.

    InvalidArgumentError: types, shapes or devices that do not fit together, or gradients with weights in fp8.
    NotFoundError: no loaded package has grouped_gemm_forward_fp8. LaunchError: a launch failed."""
    _check(x, w_up, w_down, topk_ids, topk_weights)
    weights = topk_weights.float()
    if w_up.dtype != x.dtype or w_down.dtype != x.dtype or w_up_scales is not None or w_down_scales is not None:
        scaled_up, scaled_down = _moe_fp8.checked(x, w_up, w_down, w_up_scales, w_down_scales)
        if ops.needs_gradient(x, weights, *scaled_up, *scaled_down):
            raise InvalidArgumentError("moe_mlp has no gradients with weights in fp8: call it in torch.no_grad(), or "
                                       "detach() what needs one")
        return _moe_fp8.moe_mlp_fp8(x, scaled_up, scaled_down, topk_ids, weights)
    if ops.needs_gradient(x, w_up, w_down, weights):
        return _MoeMlp.apply(x, w_up, w_down, topk_ids, weights)
    rows = _routing.sorted_rows(topk_ids, w_down.shape[0])
    activated = _product("up_activated", x, w_up, rows.ends, rows.indices, None, topk_ids.shape[1])
    return _reduced(activated, w_down, rows, weights, topk_ids.shape[1])


def _check(x: Tensor, w_up: Tensor, w_down: Tensor, topk_ids: Tensor, topk_weights: Tensor) -> None:
    if x.dim() != 2 or w_up.dim() != 3 or w_down.dim() != 3 or topk_ids.dim() != 2 or topk_weights.dim() != 2:
        raise InvalidArgumentError("moe_mlp takes x [T, H], w_up [E, 2 I, H], w_down [E, H, I], topk_ids and "
                                   "topk_weights [T, topk]")
    experts, hidden, inner = w_down.shape
    if w_up.shape[0] != experts or w_up.shape[1] != 2 * inner or w_up.shape[2] != hidden or x.shape[1] != hidden:
        raise InvalidArgumentError(f"moe_mlp: x {tuple(x.shape)}, w_up {tuple(w_up.shape)} and w_down "
                                   f"{tuple(w_down.shape)} do not fit together: [T, H], [E, 2 I, H], [E, H, I]")
    if topk_ids.shape[1] != topk_weights.shape[1] or topk_ids.shape[0] != x.shape[0] or (
            topk_weights.shape[0] != x.shape[0]):
        raise InvalidArgumentError(f"moe_mlp: topk_ids {tuple(topk_ids.shape)} and topk_weights "
                                   f"{tuple(topk_weights.shape)} have a row for each of the {x.shape[0]} tokens")
    if topk_ids.dtype not in _INTEGERS:
        raise InvalidArgumentError(f"moe_mlp: topk_ids are {topk_ids.dtype}; they are integers, the numbers of experts")
    for name, tensor in (("w_up", w_up), ("w_down", w_down), ("topk_ids", topk_ids), ("topk_weights", topk_weights)):
        if tensor.device != x.device:
            raise InvalidArgumentError(f"moe_mlp: {name} is on {tensor.device}, and x on {x.device}")


# ---- Products of the layer ----

class _Step(NamedTuple):
    """One of the layer's products and what to do without its kernel. a and b: its matrices; see layer_product_now."""

    role: Role
    rows: str  # of a and b: T (tokens), R (sorted or flat rows) or E (experts)
    output: str  # the extents of the result, of R, E, N, K and I, which is N / 2
    without: Callable[..., Tensor]


def _down(a: Tensor, w: Tensor, ends: Tensor, indices: Tensor, weights: Tensor, topk: int) -> Tensor:
    return _routing.weighted(ops.multiply(a, w.transpose(-2, -1), ends), indices, weights)


def _up_activated(x: Tensor, w: Tensor, ends: Tensor, indices: Tensor, weights: Optional[Tensor],
                  topk: int) -> Tensor:
    if _gate_up.launcher_of(x, w, ends, indices.shape[0], "split"):
        return _gate_up.gate_up_now(x.index_select(0, indices // topk), w, ends, "split")
    return _gate_up.activated(layer_product_now("up", x, w, ends, indices, None, topk), "split")


# By the products' names in the operator. x and a are what the layer's products take, dy gradients of what they give.
_STEPS: Dict[str, _Step] = {
    "up": _Step(UP, "TE", "RN", lambda x, w, ends, indices, weights, topk: ops.multiply(
        x.index_select(0, indices // topk), w.transpose(-2, -1), ends)),
    "up_activated": _Step(UP_ACTIVATED, "TE", "RI", _up_activated),
    "up_dx": _Step(UP_DX, "RE", "RK", lambda dy, w, ends, indices, weights, topk: _routing.scattered(
        ops.multiply(dy, w, ends), indices)),
    "up_dw": _Step(UP_DW, "RT", "ENK", lambda dy, x, ends, indices, weights, topk: ops.multiply_weights(
        dy, x.index_select(0, indices // topk), ends)),
    "down": _Step(DOWN, "RE", "RN", _down),
    "down_dx": _Step(DOWN_DX, "TE", "RK", lambda dy, w, ends, indices, weights, topk: ops.multiply(
        dy.index_select(0, indices), w, ends)),
    "down_dw": _Step(DOWN_DW, "TR", "ENK", lambda dy, a, ends, indices, weights, topk: ops.multiply_weights(
        dy.index_select(0, indices), a, ends)),
}


def _extents(product: str, a: Tensor, b: Tensor, ends: Tensor, indices: Tensor) -> Tuple[Any, ...]:
    """Of the result."""
    step = _STEPS[product]
    if step.output == "ENK":
        return ends.shape[0], a.shape[1], b.shape[1]
    return indices.shape[0], {"RN": b.shape[1], "RI": b.shape[1] // 2, "RK": b.shape[2]}[step.output]


def layer_product_now(product: str, a: Tensor, b: Tensor, ends: Tensor, indices: Tensor, weights: Optional[Tensor],
                      topk: int) -> Tensor:
    """One of the layer's products, by name:

    | up           | x [T, K] by token   | w [E, N, K]       | sorted rows [R, N]                          |
    | up_activated | x [T, K] by token   | w [E, N, K]       | sorted rows [R, N / 2] of silu(gate) * up   |
    | up_dx        | dy [R, N], sorted   | w                 | flat rows [R, K]                            |
    | up_dw        | dy [R, N], sorted   | x [T, K] by token | [E, N, K]                                   |
    | down         | x [R, K], sorted    | w [E, N, K]       | flat rows [R, N], times weights             |
    | down_dx      | dy [T, N] by token  | w                 | sorted rows [R, K]                          |
    | down_dw      | dy [T, N] by token  | x [R, K], sorted  | [E, N, K]                                   |

    For down_dx and down_dw `indices` has the token of each sorted row: dy has one row for all rows of a token."""
    step = _STEPS[product]
    rows, dtype, device = indices.shape[0], a.dtype, a.get_device()
    shape = _extents(product, a, b, ends, indices)
    if not rows:
        return a.new_zeros(shape)
    if step.output == "ENK":
        experts, n, k = shape
        is_fit = True
    else:
        experts, n, k = b.shape
        is_fit = transposed(b.shape, b.stride()) is False
    if (is_fit and n % MULTIPLE == 0 and k % MULTIPLE == 0 and dtype in ops.NAMES and
            _fit_together(step, a, b, ends, indices, weights, topk)):
        kernel = ops.find((step.role, experts, n, k, dtype, topk, device), rows // topk)
        launcher = kernel is not None and kernel.launcher(rows // topk)
        if launcher:
            a, b = ops.fitting(a), ops.fitting(b)
            out = a.new_empty(shape)
            # The kernels of down_dx and down_dw expect dy in flat order, and read the rows of it that `indices` has.
            pointers = tuple([each.data_ptr() for each in (a, b, out, ends, indices)])
            if len(step.role.arguments) > len(pointers):  # weights of rows, which not every product uses
                pointers += ((ends if weights is None else weights).data_ptr(),)
            launcher(pointers, ops.stream_of(device))
            return out
    return step.without(a, b, ends, indices, weights, topk)


def _fit_together(step: _Step, a: Tensor, b: Tensor, ends: Tensor, indices: Tensor, weights: Optional[Tensor],
                  topk: int) -> bool:
    """Whether a kernel may read the arguments, which anybody may have given to the operator."""
    device, rows = a.get_device(), indices.shape[0]
    if step.role.fuse_mul_post and weights is None or not _routing.are_lists(
            ends, indices, weights if step.role.fuse_mul_post else None, device):
        return False
    extents = {"T": rows // topk, "R": rows, "E": ends.shape[0]}
    return (b.dtype is a.dtype and b.get_device() == device and rows % topk == 0 and
            (a.shape[0], b.shape[0]) == (extents[step.rows[0]], extents[step.rows[1]]) and
            (step.output == "ENK" or a.shape[1] == b.shape[1 if step.output == "RK" else 2]))


def _fake_layer_product(product: str, a: Tensor, b: Tensor, ends: Tensor, indices: Tensor, weights: Optional[Tensor],
                        topk: int) -> Tensor:
    return a.new_empty(_extents(product, a, b, ends, indices))


_layer_product = ops.define(
    "layer_product",
    "(str product, Tensor a, Tensor b, Tensor ends, Tensor indices, Tensor? weights, int topk) -> Tensor",
    layer_product_now, _fake_layer_product)


def _product(product: str, a: Tensor, b: Tensor, ends: Tensor, indices: Tensor, weights: Optional[Tensor],
             topk: int) -> Tensor:
    if ops.is_direct(a, b, ends):
        return layer_product_now(product, a, b, ends, indices, weights, topk)
    return _layer_product(product, a, b, ends, indices, weights, topk)


# ---- The layer ----

def _reduced(activated: Tensor, w_down: Tensor, rows: _routing.Rows, topk_weights: Tensor, topk: int) -> Tensor:
    """The second product, added up for each token."""
    y = _product("down", activated, w_down, rows.ends, rows.indices, topk_weights.reshape(-1), topk)
    return _routing.added_up(y, topk_weights.shape[0], topk)


class _MoeMlp(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, w_up: Tensor, w_down: Tensor, topk_ids: Tensor,
                topk_weights: Tensor) -> Tensor:
        topk = topk_ids.shape[1]
        rows = _routing.sorted_rows(topk_ids, w_down.shape[0])
        up = _product("up", x, w_up, rows.ends, rows.indices, None, topk)
        weights = topk_weights.reshape(-1)
        ctx.save_for_backward(x, w_up, w_down, up, weights, rows.ends, rows.indices)
        ctx.topk = topk
        return _reduced(_gate_up.activated(up, "split"), w_down, rows, topk_weights, topk)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ops.is_compiling() or not torch.is_grad_enabled():
            return _gradients(ctx, grad)
        # With create_graph: the rows between the products have no history, without which second gradients are wrong.
        with torch.no_grad():
            found = _gradients(ctx, grad)
        return _Once.apply(*[None if each is None else each.detach().requires_grad_() for each in found])


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Gradients that have none themselves."""

    @staticmethod
    def forward(ctx: Any, *gradients: Optional[Tensor]) -> Tuple[Optional[Tensor], ...]:
        return tuple([None if each is None else each.view_as(each) for each in gradients])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("tunefarm.torch.moe_mlp has gradients, and no gradients of gradients; "
                           "tunefarm.torch.grouped_mm has both")


def _gradients(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], ...]:
    """Of x, w_up, w_down, topk_ids and topk_weights."""
    x, w_up, w_down, up, weights, ends, indices = ctx.saved_tensors
    topk, tokens, inner = ctx.topk, x.shape[0], w_down.shape[2]
    needs_x, needs_up, needs_down, _, needs_weights = ctx.needs_input_grad
    of_x = of_up = of_down = of_weights = None
    grad = grad.contiguous()  # once for its two uses
    tokens_of_rows = indices // topk
    gate, linear = up[:, :inner], up[:, inner:]
    activated = torch.nn.functional.silu(gate)
    hidden_rows = activated * linear
    row_weights = weights.index_select(0, indices).to(up.dtype).unsqueeze(1)  # sorted, as the product rounds them
    if needs_down:
        # The weight of a row belongs to its gradient; here it is with the other factor, of which each row has one.
        of_down = _product("down_dw", grad, hidden_rows * row_weights, ends, tokens_of_rows, None, topk)
    if needs_x or needs_up or needs_weights:
        of_hidden = _product("down_dx", grad, w_down, ends, tokens_of_rows, None, topk)  # without the weights
        if needs_weights:
            # <grad, down(hidden)> = <down^T(grad), hidden>
            sums = (of_hidden * hidden_rows).sum(1, dtype=torch.float32)
            of_weights = torch.zeros_like(sums).scatter(0, indices.long(), sums).view(tokens, topk)
    if needs_x or needs_up:
        of_hidden = of_hidden * row_weights
        of_gate = torch.ops.aten.silu_backward(of_hidden * linear, gate)
        of_rows = torch.cat([of_gate, of_hidden * activated], 1)
        if needs_x:
            flat = _product("up_dx", of_rows, w_up, ends, indices, None, topk)
            of_x = flat.view(tokens, topk, x.shape[1]).sum(1, dtype=flat.dtype)
        if needs_up:
            of_up = _product("up_dw", of_rows, x, ends, indices, None, topk)
    return of_x, of_up, of_down, None, of_weights
