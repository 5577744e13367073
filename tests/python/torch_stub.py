"""PyTorch as far as tunefarm.torch uses it without gradients, on arrays of NumPy that say they lie on a CUDA device, and
packages whose kernels compute on them. Floats of all types have single precision here."""

import collections
import types

import numpy

from tunefarm.launch import Argument, Plan

Device = collections.namedtuple("Device", "type index")
CUDA = Device("cuda", 0)


class Dtype(str):
    """Its name is its text."""


NAMES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "int8", "uint8", "int16", "int32", "int64")
TYPES = {name: Dtype(f"torch.{name}") for name in NAMES}


def storage_of(dtype):
    name = dtype.split(".")[1]
    return getattr(numpy, name) if "int" in name else numpy.float32


class Tensor:
    requires_grad, is_cuda = False, True
    at = {}  # tensors by address, as long as a test

    def __torch_dispatch__(self):
        raise NotImplementedError

    def __init__(self, values, dtype, device=CUDA):
        self.values = numpy.asarray(values)
        assert self.values.dtype == storage_of(dtype), (self.values.dtype, dtype)
        self.dtype, self.device = dtype, device
        self.is_cuda = device.type == "cuda"
        Tensor.at[self.data_ptr()] = self

    def _like(self, values, dtype=None):
        dtype = dtype or self.dtype
        return Tensor(numpy.asarray(values).astype(storage_of(dtype), copy=False), dtype, self.device)

    shape = property(lambda self: self.values.shape)
    dim = lambda self: self.values.ndim
    data_ptr = lambda self: self.values.__array_interface__["data"][0]
    stride = lambda self: tuple(stride // self.values.itemsize for stride in self.values.strides)
    get_device = lambda self: self.device.index if self.is_cuda else -1
    is_contiguous = lambda self: self.values.flags.c_contiguous
    transpose = lambda self, a, b: self._like(self.values.swapaxes(a, b))
    t = lambda self: self._like(self.values.T)
    contiguous = lambda self: self if self.is_contiguous() else self._like(self.values.copy())
    to = lambda self, dtype: self if dtype is self.dtype else self._like(self.values, dtype)
    float = lambda self: self.to(TYPES["float32"])
    long = lambda self: self.to(TYPES["int64"])
    new_empty = lambda self, shape, dtype=None: self._like(aligned(shape, dtype or self.dtype), dtype)
    new_zeros = lambda self, shape: self._like(aligned(shape, self.dtype) * 0)
    reshape = lambda self, *shape: self._like(self.values.reshape(*shape))
    view = lambda self, *shape: self if isinstance(shape[0], Dtype) else self.reshape(*shape)
    unsqueeze = lambda self, at: self._like(numpy.expand_dims(self.values, at))
    index_select = lambda self, at, indices: self._like(self.values.take(indices.values, at))
    sum = lambda self, at, dtype=None: self._like(self.values.sum(at))
    unflatten = lambda self, at, sizes: self.reshape(*self.shape[:at], *sizes, *self.shape[at + 1:])
    flatten = lambda self, at: self.reshape(*self.shape[:at], -1)
    __getitem__ = lambda self, key: self._like(self.values[key])
    abs = lambda self: self._like(abs(self.values))
    amax = lambda self, at: self._like(self.values.max(at))
    __mul__ = lambda self, other: self._like(self.values * other.values)
    __truediv__ = lambda self, other: self._like(self.values / getattr(other, "values", other))
    lt = lambda self, other: self.values < other
    masked_fill = lambda self, chosen, other: self._like(numpy.where(chosen, other, self.values))
    __floordiv__ = lambda self, other: self._like(self.values // other)

    def clone(self, memory_format=None):
        copy = aligned(self.shape, self.dtype)
        copy[...] = self.values
        return self._like(copy)

    def copy_(self, other):
        self.values[...] = other.values
        return self

    def index_copy_(self, at, indices, other):
        self.values[indices.values] = other.values
        return self


def aligned(shape, dtype):
    """Memory that begins where kernels can read it, full of what must not be read."""
    size = int(numpy.prod(shape)) * numpy.dtype(storage_of(dtype)).itemsize
    memory = numpy.full(size + 64, 0x77, numpy.uint8)
    begin = -memory.__array_interface__["data"][0] % 64
    return memory[begin:begin + size].view(storage_of(dtype)).reshape(shape)


def grouped(x, w, ends):
    """Rows of each group times its matrix [K, N], of arrays."""
    out = numpy.zeros((x.shape[0], w.shape[2]), numpy.float32)
    for e, (begin, end) in enumerate(zip([0, *ends], ends)):
        out[begin:end] = x[begin:end] @ w[e]
    return out


def silu(values):
    return values / (1 + numpy.exp(-values))


def modules(products_by_torch):
    """torch; `products_by_torch` gets a word for each product that torch computes."""
    operators = types.SimpleNamespace()

    class Library:
        def __init__(self, *_):
            pass

        def define(self, schema, tags):
            setattr(operators, schema.split("(")[0], types.SimpleNamespace(default=None))

        def impl(self, name, function, key, **_):
            if key == "CUDA":
                getattr(operators, name).default = function

    def by_torch(input, mat2, offs, bias=None, out_dtype=None):
        products_by_torch.append("product")
        return input._like(grouped(input.values, mat2.values, offs.values))

    def sort(tensor, stable):
        order = numpy.argsort(tensor.values, kind="stable")
        return tensor[order], tensor._like(order, TYPES["int64"])

    zero, functional = lambda: 0, types.SimpleNamespace(
        silu=lambda rows: rows._like(silu(rows.values)),
        pad=lambda rows, sides: rows._like(numpy.pad(rows.values, ((0, 0), sides))))
    torch = types.ModuleType("torch")
    torch.__dict__.update(TYPES)
    torch.dtype, torch.Tensor, torch.ops = Dtype, Tensor, types.SimpleNamespace(tunefarm=operators)
    torch.contiguous_format, torch.is_grad_enabled, torch._grouped_mm = "contiguous", lambda: True, by_torch
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    torch.nn = types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}), functional=functional)
    torch.autograd = types.ModuleType("torch.autograd")
    torch.autograd.forward_ad = types.SimpleNamespace(_current_level=-1)
    torch.autograd.Function = type("Function", (type("Base", (), {"apply": None}),), {})
    torch.library = types.SimpleNamespace(Library=Library, register_fake=lambda *_, **__: None)
    torch.Tag = types.SimpleNamespace(pt2_compliant_tag=0, needs_fixed_stride_order=1)
    torch.sort, torch.empty_like = sort, lambda tensor: tensor.new_empty(tensor.shape)
    torch.arange = lambda count, dtype, device: Tensor(numpy.arange(count, dtype=storage_of(dtype)), dtype, device)
    torch.searchsorted = lambda rows, numbers, right, out_int32: numbers._like(
        numpy.searchsorted(rows.values, numbers.values, "right"))
    torch._C = types.SimpleNamespace(
        _len_torch_dispatch_stack=zero, _len_torch_function_stack=zero, _get_tracing_state=lambda: None,
        _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None),
        _cuda_getCurrentRawStream=lambda device: 7, _cuda_getDevice=zero,
        _dynamo=types.SimpleNamespace(guards=types.SimpleNamespace(
            _empty_strided_cuda=lambda shape, strides, dtype: Tensor(aligned(shape, dtype), dtype))))
    return {"torch": torch, "torch.autograd": torch.autograd}


class Kernel:
    """A kernel of grouped_gemm that computes on tensors at the addresses that it gets."""

    dims = ("tokens",)

    def __init__(self, package, name, arguments, given):
        self.name, self.package, self.given = name, package, given
        self.arguments = tuple(Argument(each, "f32", "IN") for each in arguments)

    def _look_up(self, dims):
        match = "EXACT" if self.package.tokens is None or dims[0] in self.package.tokens else "DEFAULT"
        return types.SimpleNamespace(plan=Plan(1, 0, False, match, 0.0, None, ""), dims=dims)

    def _launch_checked(self, problem, pointers, stream):
        assert stream == 7 and len(pointers) == len(self.arguments)
        given = self.given
        self.package.launched.append(" ".join(filter(None, (
            self.name[len("grouped_gemm_"):], given.get("gate_up"), given.get("scale_layout"),
            "gathered" if given["permute_x"] else "scattered" if given["permute_y"] else ""))))
        read = {argument.name: Tensor.at[pointer] for argument, pointer in zip(self.arguments, pointers)}
        ends, rows, (e, n, k) = read["m_sizes"].values, problem.dims[0] * given["topk"], (given[name] for name in "ENK")
        # Of memory, whatever view of it a tensor is.
        x_rows = problem.dims[0] if given["permute_x"] else rows
        x, w = memory(read["x"], x_rows * k).reshape(x_rows, k), memory(read["w"], e * n * k).reshape(e, n, k)
        if self.name.endswith("_fp8"):
            blocks, pitch = -(-k // 128), -(-x_rows // 4) * 4
            scales = (memory(read["x_scales"], x_rows * blocks).reshape(x_rows, blocks)
                      if given["scale_layout"] == "row_major" else
                      memory(read["x_scales"], blocks * pitch).reshape(blocks, pitch)[:, :x_rows].T)
            of_w = memory(read["w_scales"], e * -(-n // 128) * blocks).reshape(e, -(-n // 128), blocks)
            x = x * scales.repeat(128, 1)[:, :k]
            w = w * of_w.repeat(128, 1).repeat(128, 2)[:, :n, :k]
        if given["permute_x"]:
            x = x[read["gather_indices"].values // given["topk"]]
        out = grouped(x, w.swapaxes(1, 2), ends)
        if "gate_up" in given:
            pairs = out.reshape(len(out), -1, 2, n // 2 if given["gate_up"] == "split" else 128)
            out = (silu(pairs[:, :, 0]) * pairs[:, :, 1]).reshape(len(out), -1)
        if given["permute_y"]:
            flat = read["gather_indices"].values
            out[flat] = out * read["topk_weights"].values[flat][:, None]
        if "y_scales" in read:
            blocks = numpy.pad(out, ((0, 0), (0, -out.shape[1] % 128))).reshape(len(out), -1, 128)
            scales = abs(blocks).max(2) / 448
            read["y_scales"].values[...] = scales
            out /= scales.repeat(128, 1)[:, :out.shape[1]]
        read["y"].values[...] = out


def memory(tensor, count):
    """Elements from the tensor's first one on."""
    return numpy.lib.stride_tricks.as_strided(tensor.values, (count,), (tensor.values.itemsize,))


class Package:
    """`roles`: what it has; `tokens`: those with a tuned config, None: all."""

    def __init__(self, *roles, tokens=None):
        self.roles, self.tokens, self.launched = roles, tokens, []
        self.kernels = tuple({role.kernel for role in roles})

    def kernel(self, name, *, device, **given):
        from tunefarm.errors import NotFoundError
        for role in self.roles:
            if role.kernel == name and role.dims().items() <= given.items():
                return Kernel(self, name, role.arguments, given)
        raise NotFoundError(f"there is no {name} with {given}")
