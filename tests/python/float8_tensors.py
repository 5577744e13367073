"""PyTorch's tensors of 8-bit floating point, as far as the client reads them, where there is no PyTorch."""

import contextlib
import sys
import types
import unittest.mock


class Tensor:
    """Of the type's name, with the bits of an array of NumPy's."""

    is_cuda, is_cpu = False, True

    def __init__(self, name, bits):
        self.dtype, self.shape, self._bits = f"torch.{name}", bits.shape, bits
        self.numel, self.element_size, self.data_ptr = lambda: bits.size, lambda: 1, lambda: bits.ctypes.data
        self.detach = self.cpu = self.contiguous = lambda: self
        self.is_contiguous = lambda: bits.flags.c_contiguous
        self.stride = lambda: bits.strides

    def view(self, dtype):
        assert dtype == "torch.uint8", dtype
        return self

    def numpy(self):
        return self._bits


@contextlib.contextmanager
def installed():
    """Tensor, which the client takes for PyTorch's meanwhile."""
    torch = types.SimpleNamespace(Tensor=Tensor, uint8="torch.uint8", cuda=types.SimpleNamespace(is_available=lambda: False))
    with unittest.mock.patch.dict(sys.modules, torch=torch):
        yield Tensor
