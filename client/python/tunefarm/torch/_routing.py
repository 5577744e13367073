"""Which rows each expert of a layer has, and how they are moved without kernels that do it. Private.

Rows: *flat* row token * topk + slot; *sorted* rows are those of expert 0 first, then those of expert 1, and so on.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor


class Rows(NamedTuple):
    """On the device."""

    ends: Tensor  # [E]: where each expert's sorted rows end
    indices: Tensor  # [R]: the flat row of each sorted one
    order: Tensor  # indices in 64 bits


def sorted_rows(topk_ids: Tensor, experts: int) -> Rows:
    sorted_ids, order = torch.sort(topk_ids.reshape(-1).to(torch.int32), stable=True)
    numbers = torch.arange(experts, dtype=torch.int32, device=topk_ids.device)
    ends = torch.searchsorted(sorted_ids, numbers, right=True, out_int32=True)
    return Rows(ends, order.to(torch.int32), order)


def scattered(sorted_rows: Tensor, indices: Tensor) -> Tensor:
    """The same rows in flat order."""
    return torch.empty_like(sorted_rows).index_copy_(0, indices.long(), sorted_rows)


def weighted(sorted_rows: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """In flat order, each times its weight (by flat row), which is rounded first."""
    return scattered(sorted_rows * weights.index_select(0, indices).to(sorted_rows.dtype).unsqueeze(1), indices)


def added_up(flat_rows: Tensor, tokens: int, topk: int) -> Tensor:
    """The sum of each token's rows, of their type also where autocast would make it single precision."""
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
