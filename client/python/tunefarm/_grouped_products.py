"""Which tuned kernel computes a grouped matrix product, and how it is launched: what `tunefarm.torch` knows that needs
no torch. Private.

The kernels are those of kernels/grouped_gemm, whose weights W are [E, N, K] in row-major order: forward Y = X W^T,
dX = dY W, dW = dY^T X, each for the rows of one expert; forward in fp8 with block scales, and gate and up with their
activation.
"""

from __future__ import annotations

import dataclasses
import functools
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
    """A product and the dims that belong to its binary. Arguments in order: two matrices, in fp8 their scales, the
    result, the scales of one in fp8, where the groups end, which rows are gathered or scattered, and the weights of rows
    except for dX, dW and results in fp8."""

    kernel: str
    arguments: Tuple[str, ...]
    permute_x: bool = False
    permute_y: bool = False
    # None: the kernel has no such dim.
    fuse_mul_post: Optional[bool] = None
    scale_layout: Optional[str] = None
    gate_up: Optional[str] = None
    takes_default: bool = False  # is launched with a config that nobody has tuned: nothing else computes the product

    def dims(self) -> Dict[str, Any]:
        own = {"fuse_mul_post": self.fuse_mul_post, "scale_layout": self.scale_layout, "gate_up": self.gate_up}
        return {"permute_x": self.permute_x, "permute_y": self.permute_y,
                **{name: value for name, value in own.items() if value is not None}}


_FORWARD = ("grouped_gemm_forward", ("x", "w", "y", "m_sizes", "gather_indices", "topk_weights"))
_DX = ("grouped_gemm_dx", ("dy", "w", "dx", "m_sizes", "gather_indices"))
_DW = ("grouped_gemm_dw", ("dy", "x", "dw", "m_sizes", "gather_indices"))
_FP8 = ("grouped_gemm_forward_fp8", ("x", "w", "x_scales", "w_scales", "y", "m_sizes", "gather_indices", "topk_weights"))
_GATE_UP = ("grouped_gemm_gate_up", ("x", "w", "y", "m_sizes", "gather_indices", "no_weights"))
_GATE_UP_FP8 = ("grouped_gemm_gate_up_fp8",
                ("x", "w", "x_scales", "w_scales", "y", "y_scales", "m_sizes", "gather_indices"))

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
_SCALE_LAYOUTS = ("row_major", "mn_major")
FP8 = {layout: Role(*_FP8, fuse_mul_post=False, scale_layout=layout, takes_default=True) for layout in _SCALE_LAYOUTS}
"""By the layout of the rows' scales."""
FP8_UP = {layout: Role(*_FP8, permute_x=True, fuse_mul_post=False, scale_layout=layout) for layout in _SCALE_LAYOUTS}
FP8_DOWN = {layout: Role(*_FP8, permute_y=True, fuse_mul_post=True, scale_layout=layout) for layout in _SCALE_LAYOUTS}
GATE_UP = {layout: Role(*_GATE_UP, gate_up=layout) for layout in ("split", "blocks")}
"""By how the weights hold gate and up."""
# UP of a layer with its activation, where no gradient needs gate and up.
UP_ACTIVATED = Role(*_GATE_UP, permute_x=True, gate_up="split")
FP8_UP_ACTIVATED = Role(*_GATE_UP_FP8, permute_x=True, gate_up="split", scale_layout="row_major")


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
    """Loaded kernels that compute the same, of which only the number of tokens is open. The first one that has a tuned
    config for it is launched, and with `takes_default` otherwise the first one with its default config."""

    def __init__(self, kernels: Sequence[launch.Kernel], what: str, takes_default: bool = False) -> None:
        self._kernels = tuple(kernels)
        self._what = what  # is not tuned where that is so, for people
        self._takes_default = takes_default
        self._launchers: Dict[int, Any] = {}  # by tokens
        self._has_noted = False

    def launch(self, tokens: int, pointers: Tuple[int, ...], stream: int) -> bool:
        """Enqueues it on checked arrays, or returns False: this number of tokens needs what is not given here."""
        launcher = self.launcher(tokens)
        if not launcher:
            return False
        launcher(pointers, stream)
        return True

    def launcher(self, tokens: int) -> Any:
        """A function of addresses and a stream that enqueues it, or False where only a default config answers that is
        not taken, or where the launch needs a workspace or prepared arguments."""
        launcher = self._launchers.get(tokens)
        if launcher is None:
            launcher = self._look_up(tokens)
            remember(self._launchers, tokens, launcher)
        return launcher

    def _look_up(self, tokens: int) -> Any:
        launcher: Any = False
        for kernel in self._kernels:
            try:
                problem = kernel._look_up((tokens,))
            except TunefarmError:
                continue
            plan = problem.plan
            if plan.workspace_bytes or plan.needs_prepare:
                continue
            if plan.match != "DEFAULT":
                return functools.partial(kernel._launch_checked, problem)
            if self._takes_default and not launcher:
                launcher = functools.partial(kernel._launch_checked, problem)
        if not self._has_noted:
            self._has_noted = True
            note(f"no loaded package has {self._what} for some numbers of tokens, such as {tokens}"
                 f"{', which get the default config' if launcher else ''}")
        return launcher


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
        self.missing: Dict[Key, str] = {}
        """Which kernel no package has, and why, for those where nothing else computes the product."""
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
        self.found, self.missing, self.calls = {}, {}, {}

    def find(self, key: Key, data_type: str, tokens: int) -> Optional[Product]:
        """Looks `key` up in all packages. `data_type`: the kernels' name of the key's; `tokens`: of the launch, whose
        config is looked up as well. Whether it has one does not matter: other launches may."""
        with self._lock:
            found = self.found
            if key in found:
                return found[key]
            self._read_environment()
            role, experts, n, k, _, topk, device = key
            flags = "".join(f", {name}" if value is True else f", {name}={value}"
                            for name, value in role.dims().items() if value)
            what = (f"{role.kernel} tuned for E={experts}, N={n}, K={k}, dtype={data_type}{flags} on "
                    f"{'the CPU' if device < 0 else f'CUDA device {device}'}")
            product, reason = self._load_product(key, data_type, what)
            if product is not None:
                product.launcher(tokens)
            elif role.takes_default:
                remember(self.missing, key, f"no loaded package has {what}{reason}")
            else:
                note(f"no loaded package has {what}{reason}")
            remember(found, key, product)
            return product

    def _load_product(self, key: Key, data_type: str, what: str) -> Tuple[Optional[Product], str]:
        """The kernels of all packages that have it, else why there are none, as the end of a sentence."""
        role, experts, n, k, _, topk, device = key
        if device < 0:
            return None, ""
        if not self._packages:
            return None, f" (call tunefarm.torch.load, or name packages in {ENVIRONMENT})"
        kernels: List[launch.Kernel] = []
        reasons: List[str] = []
        for package in self._packages:
            if role.kernel not in package.kernels:
                continue
            try:
                kernel = package.kernel(role.kernel, device=device, E=experts, N=n, K=k, dtype=data_type, topk=topk,
                                        group_ends=1, **role.dims())
                if kernel.dims != ("tokens",) or tuple(each.name for each in kernel.arguments) != role.arguments:
                    raise InvalidArgumentError(f"{kernel!r} takes other values than this version of tunefarm gives")
                kernels.append(kernel)
            except TunefarmError as error:
                reasons.append(str(error))
        if kernels:
            return Product(kernels, f"{what}, topk={topk}", role.takes_default), ""
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
