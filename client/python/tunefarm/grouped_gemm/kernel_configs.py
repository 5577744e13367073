"""The configs of a grouped matrix product: forward, and backward by dX and dW.

Rows of a group are gathered on the way in (permute_x) or scattered on the way out (permute_y). Flags of the backward
kernels are those of the forward pass they belong to. A TMA load needs contiguous rows, so that it excludes the permutation
of what it loads; a TMA store excludes the permutation of what is stored.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from typing import Callable, Dict, List, Sequence, Tuple, Type, TypeVar

DEFAULT_M_BLOCK_SIZES = [64, 128]
DEFAULT_N_BLOCK_SIZES = [64, 128, 256]
DEFAULT_K_BLOCK_SIZES = [64, 128, 256]
DEFAULT_NUM_WARPS = [4, 8]
DEFAULT_NUM_STAGES = [3, 4, 5]
BOOLS = [True, False]


@dataclass
class KernelConfig:
    """What all three kernels have in common. `flatten` is a hint for loops and changes no result."""

    BLOCK_SIZE_M: int = 32
    BLOCK_SIZE_N: int = 32
    BLOCK_SIZE_K: int = 32
    num_warps: int = 4
    num_stages: int = 2
    flatten: bool = True
    permute_x: bool = False
    permute_y: bool = False
    fuse_mul_post: bool = False
    use_tma_store: bool = False

    def to_string(self, include_tuning_params: bool = False, include_tma: bool = False) -> str:
        """The permutations that are on, then if asked for the tiling as NAME=VALUE, then the TMA flags that are on;
        comma-separated."""
        parts = [name for name in ("permute_x", "permute_y") if getattr(self, name)]
        if include_tuning_params:
            names = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages", "flatten")
            parts += [f"{name}={getattr(self, name)}" for name in names]
        if include_tma:
            names_of_flags = [field.name for field in fields(self) if field.name.startswith("use_tma_")]
            parts += [name for name in names_of_flags if getattr(self, name)]
        return ",".join(parts)


@dataclass
class KernelConfigForward(KernelConfig):
    """Y = X W^T."""

    use_tma_load_w: bool = False
    use_tma_load_x: bool = False


@dataclass
class KernelConfigBackward_dW(KernelConfig):
    """dW = dY^T X for each group."""

    use_tma_load_dy: bool = False
    use_tma_load_x: bool = False


@dataclass
class KernelConfigBackward_dX(KernelConfig):
    """dX = dY W."""

    use_tma_load_dy: bool = False
    use_tma_load_w: bool = False


Config = TypeVar("Config", bound=KernelConfig)

# A rule: why a config is dropped, and whether it is. In the order in which they are applied (and counted).
Rules = Tuple[Tuple[str, Callable[..., bool]], ...]

FORWARD_RULES: Rules = (
    ("a TMA load of X needs contiguous rows", lambda config: config.use_tma_load_x and config.permute_x),
    ("only one side may be permuted", lambda config: config.permute_x and config.permute_y),
    ("a TMA store of Y needs contiguous rows", lambda config: config.use_tma_store and config.permute_y),
)
BACKWARD_DX_RULES: Rules = (
    ("a TMA load of dY needs contiguous rows", lambda config: config.use_tma_load_dy and config.permute_y),
    ("only one side may be permuted", lambda config: config.permute_x and config.permute_y),
    ("a TMA store of dX needs contiguous rows", lambda config: config.use_tma_store and config.permute_x),
)
BACKWARD_DW_RULES: Rules = (
    ("a TMA load of dY needs contiguous rows", lambda config: config.use_tma_load_dy and config.permute_y),
    ("a TMA load of X needs contiguous rows", lambda config: config.use_tma_load_x and config.permute_x),
    ("only one side may be permuted", lambda config: config.permute_x and config.permute_y),
)


def _pruned(configs: Sequence[Config], rules: Rules) -> List[Config]:
    return [config for config in configs if not any(drops(config) for _, drops in rules)]


def dropped_by_rule(configs: Sequence[KernelConfig], rules: Rules) -> Dict[str, int]:
    """How many configs each rule drops, counted by the first that does."""
    counts = {reason: 0 for reason, _ in rules}
    for config in configs:
        for reason, drops in rules:
            if drops(config):
                counts[reason] += 1
                break
    return counts


def prune_kernel_configs_fwd(configs: Sequence[KernelConfigForward]) -> List[KernelConfigForward]:
    """Those that can run, in their order."""
    return _pruned(configs, FORWARD_RULES)


def prune_kernel_configs_backward_dX(configs: Sequence[KernelConfigBackward_dX]) -> List[KernelConfigBackward_dX]:
    """Those that can run, in their order."""
    return _pruned(configs, BACKWARD_DX_RULES)


def prune_kernel_configs_backward_dW(configs: Sequence[KernelConfigBackward_dW]) -> List[KernelConfigBackward_dW]:
    """Those that can run, in their order."""
    return _pruned(configs, BACKWARD_DW_RULES)


def unpruned_kernel_configs(kind: Type[Config], BLOCK_M: Sequence[int] = tuple(DEFAULT_M_BLOCK_SIZES),
                            BLOCK_N: Sequence[int] = tuple(DEFAULT_N_BLOCK_SIZES),
                            BLOCK_K: Sequence[int] = tuple(DEFAULT_K_BLOCK_SIZES),
                            num_warps: Sequence[int] = tuple(DEFAULT_NUM_WARPS),
                            num_stages: Sequence[int] = tuple(DEFAULT_NUM_STAGES),
                            use_tma_loads: Sequence[bool] = tuple(BOOLS), fuse_permute: Sequence[bool] = tuple(BOOLS), *,
                            independent_flags: bool = False, use_tma_store: Sequence[bool] = (False,)) -> List[Config]:
    """Every combination, the last argument fastest. Unless the flags are independent one value goes to both TMA loads,
    and one to both permutations."""
    first_load, second_load = [field.name for field in fields(kind) if field.name.startswith("use_tma_load_")]
    loads = list(itertools.product(use_tma_loads, repeat=2)) if independent_flags else [(v, v) for v in use_tma_loads]
    sides = list(itertools.product(fuse_permute, repeat=2)) if independent_flags else [(v, v) for v in fuse_permute]
    grid = itertools.product(BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages, loads, sides, use_tma_store)
    return [
        kind(BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k, num_warps=warps, num_stages=stages, permute_x=permute_x,
             permute_y=permute_y, use_tma_store=store, **{first_load: load_1, second_load: load_2})
        for m, n, k, warps, stages, (load_1, load_2), (permute_x, permute_y), store in grid
    ]


def get_kernel_configs(
        BLOCK_M: Sequence[int] = tuple(DEFAULT_M_BLOCK_SIZES), BLOCK_N: Sequence[int] = tuple(DEFAULT_N_BLOCK_SIZES),
        BLOCK_K: Sequence[int] = tuple(DEFAULT_K_BLOCK_SIZES), num_warps: Sequence[int] = tuple(DEFAULT_NUM_WARPS),
        num_stages: Sequence[int] = tuple(DEFAULT_NUM_STAGES), use_tma_loads: Sequence[bool] = tuple(BOOLS),
        fuse_permute: Sequence[bool] = tuple(BOOLS), *, independent_flags: bool = False,
        use_tma_store: Sequence[bool] = (False,),
) -> Tuple[List[KernelConfigForward], List[KernelConfigBackward_dW], List[KernelConfigBackward_dX]]:
    """The configs that can run: (forward, dW, dX).

    By default both permutations come from one value and both TMA loads from one, as users of these names know it; no
    permuted config survives that, since only one side may be permuted. `independent_flags` makes the four independent
    and so reaches all that can run; `use_tma_store` is a further list to choose from.
    """
    lists = (BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages, use_tma_loads, fuse_permute)

    def grid(kind: Type[Config]) -> List[Config]:
        return unpruned_kernel_configs(kind, *lists, independent_flags=independent_flags,
                                       use_tma_store=use_tma_store)

    return (prune_kernel_configs_fwd(grid(KernelConfigForward)),
            prune_kernel_configs_backward_dW(grid(KernelConfigBackward_dW)),
            prune_kernel_configs_backward_dX(grid(KernelConfigBackward_dX)))
