"""grouped_mm: two operators, whose gradients are each other, and the calls that go past the dispatcher. Private.

tunefarm::grouped_mm(input, mat2, offs) multiplies each group's rows by the group's matrix; the gradient of `input` is
the same operator with `mat2` transposed. tunefarm::grouped_mm_weights(a, b, offs) multiplies each group's columns of
a^T by its rows of b, which is the gradient of `mat2`. Which kernel computes a product follows from the layout of the
weights in memory, so that they are never copied.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Dict, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tunefarm import launch
from tunefarm._grouped_products import (ALIGNMENT, DW, DX, FORWARD, MULTIPLE, Key, Product, Products, note,
                                        remember, transposed)

_C: Any = torch._C
Package = launch.Package

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}
"""The kernels' names of types of elements whose products torch computes, too."""
_KERNEL_NAMES = {**NAMES, torch.float8_e4m3fn: "fp8"}

products = Products()
_UNKNOWN: Any = object()


def load(package: "Union[str, os.PathLike[str], Package]") -> Package:
    """Takes kernels from this package (a file, or what `tunefarm.launch.open` returned) before those of packages that
    were loaded earlier. What was not found until now is looked up again. Returns the package."""
    return products.load(package)


def grouped_mm(input: Tensor, mat2: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """torch._grouped_mm: rows offs[e - 1] to offs[e] of `input` [R, K] times mat2[e] of `mat2` [E, K, N], as [R, N].

    Tuned kernels compute it and its gradients where `mat2` is a transposed view of weights [E, N, K], or lies in memory
    as [E, K, N]. `offs` ascends and ends at R or before, which is not checked, since that would wait for the device. As
    in torch, rows after offs[-1] are neither read nor written: in the result and in the gradient of `input` they are
    undefined. An `input` or gradients with gaps or without alignment are copied. All else (other numbers of dimensions,
    other types of elements, `bias`, the CPU, a K or N that is no multiple of 8) is torch._grouped_mm itself, which the
    logger "tunefarm.torch" says once."""
    if (bias is None and out_dtype is None and not is_compiling() and type(input) in _PLAIN and
            type(mat2) in _PLAIN and type(offs) in _PLAIN and input.dim() == 2):
        known = products.calls.get(_signature(input, mat2, offs))
        if known is not None and not _is_watched():
            if torch.is_grad_enabled() and (input.requires_grad or mat2.requires_grad):
                return _apply_grouped_mm(input, mat2, offs, known.multiply)
            return known.multiply(input, mat2, offs)
    reason = not_covered(input, mat2, offs, bias, out_dtype)
    if reason is not None:
        _note(reason)
        return _torch_grouped_mm(input, mat2, offs=offs, bias=bias, out_dtype=out_dtype)
    return multiply(input, mat2, offs)


def not_covered(input: Tensor, mat2: Tensor, offs: Optional[Tensor], bias: Optional[Tensor],
                 out_dtype: Optional[torch.dtype]) -> Optional[str]:
    """Why the operators do not take such a call. torch.compile traces it: it reads nothing that depends on rows."""
    if offs is None or input.dim() != 2 or mat2.dim() != 3:
        return "grouped_mm is tuned for two dimensions times three, with offs; torch computes the others"
    if bias is not None:
        return "grouped_mm is tuned without bias; torch computes it with one"
    dtype = input.dtype
    if dtype not in NAMES or (out_dtype is not None and out_dtype != dtype):
        return "grouped_mm is tuned for bfloat16 and float16, with results of the same type; torch computes the others"
    if not input.is_cuda:
        return "grouped_mm is tuned for CUDA devices; torch computes it elsewhere"
    _, inner, columns = mat2.shape
    if inner % MULTIPLE or columns % MULTIPLE:
        return f"grouped_mm is tuned for matrices whose sides are multiples of {MULTIPLE}; torch computes the others"
    if not is_compiling() and (_is_foreign(type(input)) or _is_foreign(type(mat2))):
        return "grouped_mm is tuned for tensors of torch itself; torch computes it for other classes of tensors"
    return None


_torch_grouped_mm: Any = getattr(torch, "_grouped_mm", None) or getattr(torch.nn.functional, "grouped_mm", None)
if _torch_grouped_mm is None:
    raise ImportError(f"tunefarm.torch needs torch 2.8 or newer, which has grouped_mm; this is {torch.__version__}")
is_compiling = torch.compiler.is_compiling


def _note(reason: str) -> None:
    note(reason)


# torch.compile calls it while it traces. So says torch.compiler.assume_constant_result, which imports the compiler.
_note._dynamo_marked_constant = True  # type: ignore[attr-defined]


# ---- Past the dispatcher, which takes as long as the launch ----

_PLAIN: Tuple[Any, ...] = (Tensor, torch.nn.Parameter)
_foreign: Dict[Any, bool] = {}


def _is_foreign(kind: Any) -> bool:
    """Whether a class of tensors decides by itself what operators do, other than those with which torch traces."""
    found = _foreign.get(kind)
    if found is None:
        found = _foreign[kind] = (
            kind.__torch_dispatch__ is not Tensor.__torch_dispatch__ and
            not kind.__module__.startswith(("torch._subclasses.", "torch.fx.", "torch.testing._internal.")))
    return found


try:
    _dispatch_modes, _function_modes = _C._len_torch_dispatch_stack, _C._len_torch_function_stack
    _transform, _jit_trace = _C._functorch.peek_interpreter_stack, _C._get_tracing_state
    # What the code that torch generates calls; the public functions take 2 to 5 µs more.
    stream_of, _current_device = _C._cuda_getCurrentRawStream, _C._cuda_getDevice
    _empty_strided = _C._dynamo.guards._empty_strided_cuda
    forward_ad._current_level
except AttributeError:  # another version of torch: calls go through the dispatcher, and to public functions
    _PLAIN = ()

    def stream_of(device: int) -> int:
        return torch.cuda.current_stream(device).cuda_stream

    def _current_device() -> int:
        return -2


def _is_watched() -> bool:
    """Whether a mode, a transform or a trace wants to see the call."""
    return (_dispatch_modes() or _function_modes() or _transform() is not None or _jit_trace() is not None or
            forward_ad._current_level >= 0)


def is_direct(a: Tensor, b: Tensor, c: Tensor, *others: Tensor) -> bool:
    """Whether nobody wants to see a call with these tensors."""
    return (not is_compiling() and type(a) in _PLAIN and type(b) in _PLAIN and type(c) in _PLAIN and
            (not others or all([type(each) in _PLAIN for each in others])) and not _is_watched())


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether a call with these tensors is differentiated, in either mode."""
    return ((torch.is_grad_enabled() and any([each.requires_grad for each in tensors])) or
            (not is_compiling() and getattr(forward_ad, "_current_level", -1) >= 0))


def multiply(input: Tensor, mat2: Tensor, offs: Tensor) -> Tensor:
    """tunefarm::grouped_mm, differentiable."""
    if not is_direct(input, mat2, offs):
        return _grouped_mm(input, mat2, offs)
    if torch.is_grad_enabled() and (input.requires_grad or mat2.requires_grad):
        return _apply_grouped_mm(input, mat2, offs, multiply_now)
    return multiply_now(input, mat2, offs)


def multiply_weights(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """tunefarm::grouped_mm_weights, differentiable."""
    if not is_direct(a, b, offs):
        return _grouped_mm_weights(a, b, offs)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _apply_grouped_mm_weights(a, b, offs, multiply_weights_now)
    return multiply_weights_now(a, b, offs)


# ---- What the operators do ----

def multiply_now(input: Tensor, mat2: Tensor, offs: Tensor) -> Tensor:
    calls = products.calls
    signature = _signature(input, mat2, offs)
    known = calls.get(signature)
    if known is None:
        rows, inner = input.shape
        experts, depth, columns = mat2.shape
        dtype, device = input.dtype, input.get_device()
        layout = transposed(mat2.shape, mat2.stride())
        if layout is None:
            note("grouped_mm is tuned for weights that lie in memory without gaps; torch computes it for others")
        if (layout is None or depth != inner or mat2.dtype is not dtype or mat2.get_device() != device or
                not are_ends(offs, experts, device)):
            return _multiply_by_torch(input, mat2, offs)
        if not rows:
            return input.new_empty((0, columns))
        product = find((FORWARD, experts, columns, inner, dtype, 1, device) if layout else
                       (DX, experts, inner, columns, dtype, 1, device), rows)
        known = _Known(product, columns, layout, device)
        remember(calls, signature, known)
    return known.multiply(input, mat2, offs)


def multiply_weights_now(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    (rows, n), (b_rows, k), experts = a.shape, b.shape, offs.shape[0]
    dtype, device = a.dtype, a.get_device()
    if (rows != b_rows or b.dtype is not dtype or b.get_device() != device or not are_ends(offs, experts, device)):
        return _multiply_weights_by_torch(a, b, offs)
    if not rows:
        return a.new_zeros((experts, n, k))
    product = find((DW, experts, n, k, dtype, 1, device), rows)
    launcher = product is not None and product.launcher(rows)
    if not launcher:
        return _multiply_weights_by_torch(a, b, offs)
    a, b, offs = fitting(a), fitting(b), offs.contiguous()
    out, ends = a.new_empty((experts, n, k)), offs.data_ptr()
    launcher((a.data_ptr(), b.data_ptr(), out.data_ptr(), ends, ends), stream_of(device))
    return out


def _signature(input: Tensor, mat2: Tensor, offs: Tensor) -> Tuple[Any, ...]:
    """All that decides how a product is computed, but the rows."""
    return (input.shape[1], mat2.shape, mat2.stride(), offs.shape, input.dtype, mat2.dtype, offs.dtype,
            input.get_device(), mat2.get_device(), offs.get_device())


class _Known:
    """Calls of one signature, which has been checked."""

    __slots__ = ("product", "columns", "is_forward", "device")

    def __init__(self, product: Optional[Product], columns: int, is_forward: bool, device: int) -> None:
        self.product, self.columns, self.is_forward, self.device = product, columns, is_forward, device

    def multiply(self, input: Tensor, mat2: Tensor, offs: Tensor) -> Tensor:
        rows, columns, device = input.shape[0], self.columns, self.device
        if not rows:
            return input.new_empty((0, columns))
        launcher = self.product is not None and self.product.launcher(rows)
        if not launcher:
            return _multiply_by_torch(input, mat2, offs)
        a, w = input.data_ptr(), mat2.data_ptr()
        if (a | w) % ALIGNMENT or not input.is_contiguous() or not offs.is_contiguous():
            input, offs = fitting(input), offs.contiguous()
            mat2 = mat2 if w % ALIGNMENT == 0 else mat2.clone()
            a, w = input.data_ptr(), mat2.data_ptr()
        out = new_rows(input, rows, columns, input.dtype, device)
        y, ends = out.data_ptr(), offs.data_ptr()
        # What a packed product does not use is handed over all the same.
        launcher((a, w, y, ends, ends, ends) if self.is_forward else (a, w, y, ends, ends), stream_of(device))
        return out


def find(key: Key, tokens: int) -> Optional[Product]:
    """The kernel for a key; `tokens`: of the launch."""
    product = products.found.get(key, _UNKNOWN)
    if product is _UNKNOWN:
        return products.find(key, _KERNEL_NAMES.get(key[4], str(key[4])), tokens)
    return product


def are_ends(offs: Tensor, experts: int, device: int) -> bool:
    """Whether these are ends of groups of so many experts on the device of this number."""
    return (offs.dtype is torch.int32 and offs.dim() == 1 and offs.shape[0] == experts and
            offs.get_device() == device)


def new_rows(like: Tensor, rows: int, columns: int, dtype: torch.dtype, device: int) -> Tensor:
    """Memory for a result on the device of `like`, which has this number."""
    if _current_device() == device:
        return _empty_strided((rows, columns), (columns, 1), dtype)
    return like.new_empty((rows, columns), dtype=dtype)


def fitting(tensor: Tensor) -> Tensor:
    """The tensor, or a copy without gaps that begins where kernels can read it."""
    if tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _multiply_by_torch(input: Tensor, mat2: Tensor, offs: Tensor) -> Tensor:
    if 0 in mat2.stride():  # an expanded gradient of a gradient, which torch refuses
        mat2 = mat2.contiguous()
    elif mat2.is_cuda and mat2.data_ptr() % ALIGNMENT:  # which it refuses, too
        mat2 = mat2.clone()
    return _torch_grouped_mm(fitting(input), mat2, offs=offs.contiguous())


def _multiply_weights_by_torch(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    return _torch_grouped_mm(fitting(a).transpose(-2, -1), fitting(b), offs=offs.contiguous())


# ---- Operators ----

try:
    _is_transforming: Any = _C._are_functorch_transforms_active
    _at_one_level: Any = torch._functorch.utils.enable_single_level_autograd_function
except AttributeError:  # another version of torch, whose transforms refuse what has gradients
    _is_transforming, _at_one_level = lambda: False, contextlib.nullcontext

library = torch.library.Library("tunefarm", "DEF")
"""Operators live as long as this object."""

_TAGS = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order))


def define(name: str, schema: str, impl: Any, fake: Any, differentiable: Any = None) -> Any:
    """An operator. `differentiable`: apply of an autograd.Function, which takes the operator's arguments and what
    computes it without gradients; None: it has none."""
    library.define(f"{name}{schema}", tags=_TAGS)
    for key in ("CUDA", "CPU"):
        library.impl(name, impl, key)
    torch.library.register_fake(f"tunefarm::{name}", fake, lib=library)
    operator: Any = getattr(torch.ops.tunefarm, name).default

    def autograd(keys: Any, *args: Any) -> Any:
        tensors = [each for each in args if isinstance(each, Tensor)]
        if getattr(forward_ad, "_current_level", -1) >= 0 or (
                torch.is_grad_enabled() and any([each.requires_grad for each in tensors])):
            with _at_one_level() if _is_transforming() else contextlib.nullcontext():
                return differentiable(*args, functools.partial(_below_autograd, operator, keys))
        return _below_autograd(operator, keys, *args)

    if differentiable is not None:
        library.impl(name, autograd, "Autograd", with_keyset=True)
    return operator


def apply_of(function: Any) -> Any:
    """An autograd.Function's apply without its care for transforms (torch.func), which below an operator is the
    dispatcher's, and without the 3 µs that it takes."""
    return super(torch.autograd.Function, function).apply


def _below_autograd(operator: Any, keys: Any, *args: Any) -> Any:
    """The operator without gradients, seen by modes and classes of tensors."""
    with _C._AutoDispatchBelowAutograd():
        return operator.redispatch(keys & _C._after_autograd_keyset, *args)


class _GroupedMm(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, input: Tensor, mat2: Tensor, offs: Tensor, work: Any) -> Tensor:
        needs_mat2 = input.requires_grad
        ctx.save_for_backward(input if mat2.requires_grad else None, mat2 if needs_mat2 else None, offs)
        if not needs_mat2:
            ctx.is_transposed = mat2.stride(1) == 1
        return work(input, mat2, offs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        input, mat2, offs = ctx.saved_tensors
        of_input = of_mat2 = None
        grad = grad.contiguous()  # once for its two uses
        if ctx.needs_input_grad[0]:
            of_input = multiply(grad, mat2.transpose(-2, -1), offs)
        if ctx.needs_input_grad[1]:  # in the layout of mat2
            if ctx.is_transposed if mat2 is None else mat2.stride(1) == 1:
                of_mat2 = multiply_weights(grad, input, offs).transpose(-2, -1)
            else:
                of_mat2 = multiply_weights(input, grad, offs)
        return of_input, of_mat2, None, None


class _GroupedMmWeights(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, offs: Tensor, work: Any) -> Tensor:
        ctx.save_for_backward(a, b, offs)
        return work(a, b, offs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b, offs = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = multiply(b, grad.transpose(-2, -1), offs)
        if ctx.needs_input_grad[1]:
            of_b = multiply(a, grad, offs)
        return of_a, of_b, None, None


def _fake_grouped_mm(input: Tensor, mat2: Tensor, offs: Tensor) -> Tensor:
    torch._check(input.dim() == 2 and mat2.dim() == 3 and offs.dim() == 1, lambda: (
        f"grouped_mm multiplies [R, K] by [E, K, N], not {input.dim()} by {mat2.dim()} dimensions"))
    torch._check(input.shape[1] == mat2.shape[1], lambda: (
        f"grouped_mm cannot multiply rows of {input.shape[1]} by matrices with {mat2.shape[1]} rows"))
    return input.new_empty((input.shape[0], mat2.shape[2]))


def _fake_grouped_mm_weights(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    torch._check(a.shape[0] == b.shape[0], lambda: (
        f"grouped_mm_weights needs equal numbers of rows, not {a.shape[0]} and {b.shape[0]}"))
    return a.new_empty((offs.shape[0], a.shape[1], b.shape[1]))


_apply_grouped_mm, _apply_grouped_mm_weights = apply_of(_GroupedMm), apply_of(_GroupedMmWeights)
_grouped_mm = define("grouped_mm", "(Tensor input, Tensor mat2, Tensor offs) -> Tensor", multiply_now,
                     _fake_grouped_mm, _apply_grouped_mm)
_grouped_mm_weights = define("grouped_mm_weights", "(Tensor a, Tensor b, Tensor offs) -> Tensor", multiply_weights_now,
                             _fake_grouped_mm_weights, _apply_grouped_mm_weights)
