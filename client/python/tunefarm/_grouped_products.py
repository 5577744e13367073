"""Which tuned kernel computes a grouped matrix product, and how it is launched: what `tunefarm.torch` knows that needs
no torch. Private.

The kernels are those of kernels/grouped_gemm, whose weights W are [E, N, K] in row-major order: forward Y = X W^T,
dX = dY W, dW = dY^T X, each for the rows of one expert.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from tunefarm import launch
from tunefarm.errors import InvalidArgumentError, TunefarmError

logger = logging.getLogger("tunefarm.torch")

ENVIRONMENT = "TUNEFARM_PACKAGES"
MULTIPLE = 8  # elements: rows of matrices are made of units of 16 bytes, which threads and the copy engine copy
ALIGNMENT = 16  # bytes, of the addresses of matrices
_REMEMBERED_MAX = 1024  # entries of a table of what was found out


@dataclasses.dataclass(frozen=True, eq=False)  # equal to itself alone, so that it is found fast as a part of a key
class Role:
    """A product and the flags that are compiled into its binary. Arguments in order: two matrices, the result, where
    the groups end, which rows are gathered or scattered, and for the forward product the weights of rows."""

    kernel: str
    arguments: Tuple[str, ...]
    permute_x: bool = False
    permute_y: bool = False
    fuse_mul_post: Optional[bool] = None  # None: the kernel has no such dim

    def dims(self) -> Dict[str, Any]:
        fused = {} if self.fuse_mul_post is None else {"fuse_mul_post": self.fuse_mul_post}
        return {"permute_x": self.permute_x, "permute_y": self.permute_y, **fused}


_FORWARD = ("grouped_gemm_forward", ("x", "w", "y", "m_sizes", "gather_indices", "topk_weights"))
_DX = ("grouped_gemm_dx", ("dy", "w", "dx", "m_sizes", "gather_indices"))
_DW = ("grouped_gemm_dw", ("dy", "x", "dw", "m_sizes", "gather_indices"))

FORWARD = Role(*_FORWARD, fuse_mul_post=False)
DX = Role(*_DX)
DW = Role(*_DW)
# Of a layer: its first product takes tokens and has sorted rows; its second one takes those and has a row for each of a
# token's experts, weighted.
UP = Role(*_FORWARD, permute_x=True, fuse_mul_post=False)
UP_DX = Role(*_DX, permute_x=True)
UP_DW = Role(*_DW, permute_x=True)
DOWN = Role(*_FORWARD, permute_y=True, fuse_mul_post=True)
DOWN_DX = Role(*_DX, permute_y=True)
DOWN_DW = Role(*_DW, permute_y=True)


def transposed(shape: Sequence[int], strides: Sequence[int]) -> Optional[bool]:
    """Of a matrix [E, K, N] of weights: whether its memory is [E, N, K] (True) or [E, K, N] (False) in row-major order
    without gaps; None: neither."""
    experts, rows, columns = shape
    if experts != 1 and strides[0] != rows * columns:
        return None
    if strides[1] == 1 and strides[2] == rows:
        return True
    if strides[2] == 1 and strides[1] == columns:
        return False
    return None


def remember(table: Dict[Any, Any], key: Any, value: Any) -> None:
    """table[key] = value, of not too many."""
    if len(table) >= _REMEMBERED_MAX:
        table.clear()
    table[key] = value


class Product:
    """A loaded kernel of which only the number of tokens is open."""

    def __init__(self, kernel: launch.Kernel) -> None:
        self._kernel = kernel
        self._launch = kernel._launch_checked
        self._problems: Dict[int, Any] = {}  # by tokens; see _choose
        self._has_noted = False

    def launch(self, tokens: int, pointers: Tuple[int, ...], stream: int) -> bool:
        """Enqueues it on checked arrays, or returns False: this number of tokens needs what is not given here."""
        problem = self._problems.get(tokens)
        if problem is None:
            problem = self._choose(tokens)
            if not problem and not self._has_noted:
                self._has_noted = True
                note(f"{self._kernel!r} has no tuned config for some numbers of tokens, such as {tokens}")
        if not problem:
            return False
        self._launch(problem, pointers, stream)
        return True

    def median_ns(self, tokens: int) -> float:
        """What was measured for the tuned problem that answers for these; infinite where nothing was."""
        problem = self._problems.get(tokens) or self._choose(tokens)
        return (problem and problem.plan.median_ns) or float("inf")

    def _choose(self, tokens: int) -> Any:
        """The problem; False where only the default config answers, which nobody has tuned, or where the launch needs a
        workspace or prepared arguments."""
        try:
            problem: Any = self._kernel._look_up((tokens,))
            plan = problem.plan
            if plan.match == "DEFAULT" or plan.workspace_bytes or plan.needs_prepare:
                problem = False
        except TunefarmError:
            problem = False
        remember(self._problems, tokens, problem)
        return problem


# Role, E, N, K, type of elements, topk, CUDA device. A type is the caller's own object; names maps it to the kernels'.
Key = Tuple[Role, int, int, int, Any, int, int]


class Products:
    """The kernels of the packages that were loaded, by what they compute. May be used from any thread."""

    def __init__(self) -> None:
        self._packages: List[launch.Package] = []
        self._has_read_environment = False
        self._lock = threading.RLock()
        self.found: Dict[Key, Optional[Product]] = {}
        """What was looked up; None: no package has it."""
        self.calls: Dict[Any, Any] = {}
        """What `tunefarm.torch` derives from it; kept by `remember` and forgotten with it."""

    def load(self, package: "Union[str, os.PathLike[str], launch.Package]") -> launch.Package:
        """Its kernels are taken before those of packages that were loaded earlier."""
        opened = package if isinstance(package, launch.Package) else launch.open(package)
        with self._lock:
            self._read_environment()
            self._packages.insert(0, opened)
            self.forget()
        return opened

    def forget(self) -> None:
        """What was looked up."""
        self.found, self.calls = {}, {}

    def find(self, key: Key, data_type: str, tokens: int) -> Optional[Product]:
        """Looks `key` up in all packages. `data_type`: the kernels' name of the key's; `tokens`: of the launch."""
        with self._lock:
            found = self.found
            if key in found:
                return found[key]
            self._read_environment()
            product, reason = self._load_product(key, data_type, tokens)
            role, experts, n, k, _, topk, device = key
            if product is None:
                flags = "".join(f", {name}" for name, value in role.dims().items() if value)
                note(f"no loaded package has {role.kernel} tuned for E={experts}, N={n}, K={k}, dtype={data_type}"
                     f"{flags} on {'the CPU' if device < 0 else f'CUDA device {device}'}{reason}")
            remember(found, key, product)
            return product

    def _load_product(self, key: Key, data_type: str, tokens: int) -> Tuple[Optional[Product], str]:
        """The product, else why there is none, as the end of a sentence."""
        role, experts, n, k, _, topk, device = key
        if device < 0:
            return None, ""
        if not self._packages:
            return None, f" (call tunefarm.torch.load, or name packages in {ENVIRONMENT})"
        reasons = []
        for package in self._packages:
            if role.kernel not in package.kernels:
                continue
            try:
                kernel = package.kernel(role.kernel, device=device, E=experts, N=n, K=k, dtype=data_type, topk=topk,
                                        group_ends=1, **role.dims())
                if kernel.dims != ("tokens",) or tuple(each.name for each in kernel.arguments) != role.arguments:
                    raise InvalidArgumentError(f"{kernel!r} takes other values than this version of tunefarm gives")
                product = Product(kernel)
                if product._choose(tokens):
                    return product, ""
                reasons.append(f"it has no tuned config for {tokens} tokens of topk={topk}")
            except TunefarmError as error:
                reasons.append(str(error))
        return None, f" ({'; '.join(reasons)})" if reasons else ""

    def _read_environment(self) -> None:
        if self._has_read_environment:
            return
        self._has_read_environment = True
        for path in filter(None, os.environ.get(ENVIRONMENT, "").split(":")):
            try:
                self._packages.append(launch.open(path))
            except TunefarmError as error:
                note(f"a package of {ENVIRONMENT} cannot be used: {error}")


_noted: Set[str] = set()
_NOTED_MAX = 1000


def note(reason: str) -> None:
    """Says once that and why something is not done by a tuned kernel."""
    if reason not in _noted and len(_noted) < _NOTED_MAX:
        _noted.add(reason)
        logger.warning("%s", reason)
