"""Which rows each expert of a layer has, and how they are moved without kernels that do it. Private.

Rows: *flat* row token * topk + slot; *sorted* rows are those of expert 0 first, then those of expert 1, and so on.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from tunefarm.torch import _grouped_mm as ops

kernels: Any
try:
    from tunefarm.torch import _triton_kernels as kernels
except ImportError:  # without Triton
    kernels = None


class Rows(NamedTuple):
    """On the device."""

    ends: Tensor  # [E]: where each expert's sorted rows end
    indices: Tensor  # [R]: the flat row of each sorted one


def sorted_rows(topk_ids: Tensor, experts: int) -> Rows:
    """Of the experts [T, topk] of tokens. What is no expert's number has rows after the last end."""
    ids = topk_ids.reshape(-1)
    return Rows(*(sorted_rows_now if ops.is_direct(ids, ids, ids) else _sorted_rows)(ids, experts))


def sorted_rows_now(ids: Tensor, experts: int) -> Tuple[Tensor, Tensor]:
    if (kernels is not None and ids.is_contiguous() and kernels.is_current(ids) and
            ids.shape[0] * experts <= kernels.SORTED_MAX):
        ends, indices = _new_rows(ids, experts)
        kernels.sort_rows(ids, ends, indices)
        return ends, indices
    ids = ids.to(torch.int32)
    ids = ids.masked_fill(ids.lt(0), experts)
    in_order, order = torch.sort(ids, stable=True)
    numbers = torch.arange(experts, dtype=torch.int32, device=ids.device)
    return torch.searchsorted(in_order, numbers, right=True, out_int32=True), order.to(torch.int32)


def _new_rows(ids: Tensor, experts: int) -> Tuple[Tensor, Tensor]:
    return ids.new_empty((experts,), dtype=torch.int32), ids.new_empty((ids.shape[0],), dtype=torch.int32)


_sorted_rows = ops.define("sorted_rows", "(Tensor ids, int experts) -> (Tensor, Tensor)", sorted_rows_now, _new_rows)


def scattered(sorted_rows: Tensor, indices: Tensor) -> Tensor:
    """The same rows in flat order."""
    return torch.empty_like(sorted_rows).index_copy_(0, indices.long(), sorted_rows)


def weighted(sorted_rows: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """In flat order, each times its weight (by flat row), which is rounded first."""
    return scattered(sorted_rows * weights.index_select(0, indices).to(sorted_rows.dtype).unsqueeze(1), indices)


def added_up(flat_rows: Tensor, tokens: int, topk: int) -> Tensor:
    """The sum of each token's rows, of their type also where autocast would make it single precision."""
    if kernels is not None and ops.is_direct(flat_rows, flat_rows, flat_rows) and kernels.is_current(flat_rows):
        out = flat_rows.new_empty((tokens, flat_rows.shape[1]))
        kernels.add_up(flat_rows.contiguous(), out)
        return out
    return flat_rows.view(tokens, topk, flat_rows.shape[1]).sum(1, dtype=flat_rows.dtype)


def are_lists(ends: Tensor, indices: Tensor, weights: Optional[Tensor], device: int) -> bool:
    """Whether a kernel on this device may read them."""
    given = [(ends, torch.int32), (indices, torch.int32)]
    if weights is not None:
        if weights.shape[0] != indices.shape[0]:
            return False
        given.append((weights, torch.float32))
    for each, dtype in given:
        if each.get_device() != device or each.dtype is not dtype or each.dim() != 1 or not each.is_contiguous():
            return False
    return True
