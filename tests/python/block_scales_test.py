"""Which tensors the product in fp8 takes, and what it says of others, without torch."""

import collections
import unittest

from tunefarm import _block_scales as scales

Device = collections.namedtuple("Device", "type index")
E, N, K, R = 4, 264, 144, 10


def row_major(shape):
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


class Tensor:
    def __init__(self, shape, dtype, strides=None, device=Device("cuda", 0)):
        self.shape, self.dtype, self.device = tuple(shape), f"torch.{dtype}", device
        self.stride = lambda: strides or row_major(shape)


def transposed(experts, first, second, dtype):
    """[E, first, second] that lies in memory as [E, second, first]."""
    return Tensor((experts, first, second), dtype, (first * second, 1, first))


def arguments(rows=R, n=N, k=K, **others):
    return {"input": Tensor((rows, k), "float8_e4m3fn"), "mat2": transposed(E, k, n, "float8_e4m3fn"),
            "scale_a": Tensor((rows, scales.blocks(k)), "float32"),
            "scale_b": transposed(E, scales.blocks(k), scales.blocks(n), "float32"), "offs": Tensor((E,), "int32"), **others}


class Layouts(unittest.TestCase):
    def test_of_scales_of_rows(self):
        for shape, strides, expected in (
                ((10, 16), (16, 1), "row_major"), ((10, 16), (1, 12), "mn_major"), ((12, 16), (1, 12), "mn_major"),
                ((10, 16), (1, 10), None), ((10, 16), (1, 16), None), ((10, 16), (32, 1), None), ((10, 16), (17, 1), None),
                ((10, 16), (0, 1), None), ((10, 16), (0, 0), None), ((1, 16), (16, 1), "row_major"),
                ((1, 16), (99, 1), "row_major"), ((1, 16), (1, 4), "mn_major"), ((10, 1), (1, 1), "row_major"),
                ((10, 1), (1, 12), "row_major"), ((10, 1), (3, 1), None), ((0, 16), (16, 1), "row_major"),
                ((1, 1), (7, 7), "row_major")):
            self.assertEqual(scales.layout_of(shape, strides), expected, (shape, strides))

    def test_pitch(self):
        self.assertEqual([scales.pitch(rows) for rows in (0, 1, 4, 5, 4096)], [0, 4, 4, 8, 4096])
        self.assertEqual([scales.blocks(elements) for elements in (1, 128, 129, 2048)], [1, 1, 2, 16])


class Refusals(unittest.TestCase):
    def test_what_is_taken(self):
        for rows, n, k in ((10, 264, 144), (0, 8, 16), (1, 128, 128), (4096, 1536, 2048), (3, 8, 144), (3, 264, 16)):
            self.assertIsNone(scales.refusal(**arguments(rows, n, k)), (rows, n, k))
        # One block of scales along a side: its stride does not matter.
        self.assertIsNone(scales.refusal(**arguments(n=128, scale_b=Tensor((E, 2, 1), "float32"))))
        for strides in ((1, 12), (1, R), (64, 3)):  # kernels read the first, the others are copied
            self.assertIsNone(scales.refusal(**arguments(scale_a=Tensor((R, 2), "float32", strides))))

    def test_what_is_refused_and_what_to_do(self):
        two = scales.blocks(K)
        for other, expected in (
                (dict(input=Tensor((2, R, K), "float8_e4m3fn")), r"input has 3 dimensions.*input \[R, K\], mat2"),
                (dict(offs=Tensor((), "int32")), "offs has 0 dimensions"),
                (dict(input=Tensor((R, K), "bfloat16")), "input is torch.bfloat16; give it as torch.float8_e4m3fn"),
                (dict(mat2=transposed(E, K, N, "float8_e5m2")), "mat2 is torch.float8_e5m2"),
                (dict(scale_a=Tensor((R, two), "bfloat16")), "scale_a is torch.bfloat16; give it as torch.float32"),
                (dict(offs=Tensor((E,), "int64")), "offs is torch.int64; give it as torch.int32"),
                (dict(input=Tensor((R, K), "float8_e4m3fn", device=Device("cpu", None))),
                 "input is on .*cpu.*CUDA devices, move it"),
                (dict(scale_b=Tensor((E, two, 3), "float32", device=Device("cuda", 1))),
                 "scale_b is on .*1.*, and input on .*0"),
                (dict(mat2=Tensor((E, N, K), "float8_e4m3fn")),
                 r"rows of 144 elements, and mat2 matrices of 264 rows; .*w\.transpose\(-2, -1\)"),
                (dict(mat2=Tensor((E, K, N), "float8_e4m3fn")),
                 r"mat2 does not lie in memory as \[E, N, K\].*w\.transpose\(-2, -1\)"),
                (dict(mat2=Tensor((E, K, N), "float8_e4m3fn", (K * N + 16, 1, K))), "without gaps"),
                (dict(scale_a=Tensor((R, two + 1), "float32")), r"scale_a is \(10, 3\); .*\(10, 2\)"),
                (dict(scale_a=Tensor((R + 1, two), "float32")), r"scale_a is \(11, 2\)"),
                (dict(scale_b=Tensor((E, 3, two), "float32")),
                 r"scale_b is \(4, 3, 2\); .*\(4, 2, 3\); .*w_scales\.transpose\(-2, -1\)"),
                (dict(scale_b=Tensor((E, two, 3), "float32")),
                 r"scale_b does not lie in memory.*w_scales\.transpose\(-2, -1\)"),
                (dict(scale_b=Tensor((E, two, 3), "float32", (0, 1, two))), "scale_b does not lie in memory"),
                (dict(offs=Tensor((E + 1,), "int32")), "offs has 5 ends of groups; it has one for each of the 4 matrices")):
            self.assertRegex(scales.refusal(**arguments(**other)), expected)
        for n, k in ((N, 136), (N, 8), (260, K), (1, K)):
            self.assertRegex(scales.refusal(**arguments(n=n, k=k)), f"K={k} and N={n}; K must be a multiple of 16 and N of 8")


if __name__ == "__main__":
    unittest.main()
