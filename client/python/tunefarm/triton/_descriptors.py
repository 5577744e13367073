"""Tensor descriptors that a program makes and passes to a kernel (triton.tools.tensor_descriptor.TensorDescriptor).
Private."""

from __future__ import annotations

import collections
import math
import types
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError
from tunefarm.inline import _definition
from tunefarm.inline._arguments import Descriptor
from tunefarm.inline._space import Space

RANK_MAX = 5
_NAME_MAX = 45  # characters of 63


def is_descriptor(given: Any) -> bool:
    return hasattr(given, "block_shape")


def base_of(given: Any) -> Any:
    """Its array; what is no descriptor is returned as it is."""
    return given.base if is_descriptor(given) else given


def name_of(array: str, names: Sequence[str]) -> str:
    """In a definition where arrays have `names`, that of the descriptor of one."""
    made = f"{array[:_NAME_MAX]}_descriptor"
    while made in names:
        made += "_"
    return made


def check(given: Any, what: str) -> None:
    """InvalidArgumentError for what a definition's tensor descriptor cannot be, with the name `what`."""
    kind = a_type(given)
    for attribute in ("layout", "round_f32_to_tf32"):
        if getattr(given, attribute, None):
            raise InvalidArgumentError(f"{what} is {kind} with {attribute}, which is not supported; give a "
                                       "triton.tools.tensor_descriptor.TensorDescriptor")
    shape, strides = [int(extent) for extent in given.shape], [int(stride) for stride in given.strides]
    if not 1 <= len(shape) <= RANK_MAX:
        raise InvalidArgumentError(f"{what} is {kind} with {len(shape)} dimensions; 1 to {RANK_MAX} are possible")
    contiguous = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    if strides != contiguous:
        raise InvalidArgumentError(f"{what} is {kind} of the shape {shape} with the strides {strides}, which is not supported; "
                                   f"give one of a contiguous array, whose strides are {contiguous}")
    if math.prod(shape) > math.prod(given.base.shape):
        raise InvalidArgumentError(f"{what} is {kind} of {math.prod(shape)} elements over an array of "
                                   f"{math.prod(given.base.shape)}; give it the shape of its array")


def stand_in(given: Any) -> Any:
    """For a hook: of a descriptor what it may read and set, and no array."""
    return types.SimpleNamespace(shape=list(given.shape), strides=list(given.strides), block_shape=list(given.block_shape),
                                 padding=getattr(given, "padding", "zero"))


class Blocks:
    """The block shapes of the descriptors among a kernel's arguments, as far as they depend on the config."""

    def __init__(self, arguments: Mapping[str, Any], space: Space, hook: Any = None, seen: Optional[Mapping[str, Any]] = None,
                 block_shapes: Optional[Mapping[str, Any]] = None, over: Optional[Callable[[Any, str], Any]] = None) -> None:
        """`arguments`: the kernel's, by name. `hook`: the pre_hook of all configs, which may set block shapes; it sees `seen`
        beside the config and the descriptors. Or `block_shapes`: by a descriptor's name its block shape; `over` replaces the
        names in one that are the same for all configs."""
        self._descriptors = {name: given for name, given in arguments.items() if is_descriptor(given)}
        self._hook, self._seen, self._space = hook, seen or {}, space
        self._given, self._over = dict(block_shapes or {}), over or (lambda shape, what: shape)
        for name in self._given:
            if name not in self._descriptors:
                raise InvalidArgumentError(f"block_shapes: '{name}' is no tensor descriptor among the arguments; there are "
                                           f"{', '.join(self._descriptors) or 'none'}")

    def descriptor(self, name: str, own: str) -> Descriptor:
        """Of the argument `name`, which is one. `own`: its name in the definition."""
        given = self._descriptors[name]
        what = f"block_shapes['{name}']"
        if name in self._given:
            wanted = self._over(self._given[name], what)
        elif self._hook is not None:
            what = f"the block_shape that the pre_hook of the configs gives '{name}'"
            wanted = self._set_by_hook(name)
        else:
            wanted = list(given.block_shape)
        block = _definition.extents_of(wanted, self._space, what, RANK_MAX)
        if len(block) != len(given.shape):
            raise InvalidArgumentError(f"{what} has {len(block)} extents, and the descriptor has {len(given.shape)} dimensions")
        return Descriptor(own, [int(extent) for extent in given.shape], block, getattr(given, "padding", "zero") == "nan")

    def _set_by_hook(self, name: str) -> Callable[[Any], List[Any]]:
        """A function of a config. The hook is called with stand-ins, so that it changes nothing."""
        def block_shape(config: Any) -> List[Any]:
            stand_ins = {other: stand_in(given) for other, given in self._descriptors.items()}
            written: Dict[str, Any] = {}
            self._hook(collections.ChainMap(written, config, stand_ins, dict(self._seen)))
            return list(stand_ins[name].block_shape)

        return block_shape


def hook_of(configs: Any) -> Any:
    """The pre_hook of triton.Configs; None without one. InvalidArgumentError if they have different ones."""
    hooks = [getattr(config, "pre_hook", None) for config in configs]
    if any(hook is not hooks[0] for hook in hooks):
        raise InvalidArgumentError("the configs have different pre_hooks, and the kernel has tensor descriptors, whose blocks only "
                                   "one function of the config may set; give one pre_hook to all")
    return hooks[0] if hooks else None
