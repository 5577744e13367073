"""What the operators of tunefarm.torch launch, and with which arrays, without torch: on a stand-in for it. GPUs and torch
itself are the matter of tests/gpu/torch_grouped_mm_test.py."""

import logging
import os
import sys
import unittest
from unittest import mock

import numpy

sys.path.insert(0, os.path.dirname(__file__))
import torch_stub as stub

PRODUCTS_BY_TORCH = []
sys.modules.update(stub.modules(PRODUCTS_BY_TORCH))
import torch

import tunefarm.torch
from tunefarm import InvalidArgumentError, NotFoundError
from tunefarm import _grouped_products as roles
from tunefarm.torch import _grouped_mm as ops

E, I, K, TOPK = 4, 264, 144, 2
SIZES = (3, 0, 1, 6)
ENDS = (3, 3, 4, 10)


def random(*shape, dtype=None, seed=1):
    dtype = dtype or torch.bfloat16
    values = stub.aligned(shape, dtype)
    values[...] = numpy.random.default_rng(seed).standard_normal(shape)
    return stub.Tensor(values, dtype)


def ends_of(*ends):
    return stub.Tensor(numpy.array(ends, numpy.int32), torch.int32)


class Test(unittest.TestCase):
    def setUp(self):
        stub.Tensor.at.clear()
        roles._noted.clear()
        PRODUCTS_BY_TORCH.clear()
        for patched in (mock.patch.object(ops.products, "_packages", []),
                        mock.patch.object(roles.launch, "Package", stub.Package),
                        mock.patch.object(roles.logger, "handlers", [logging.NullHandler()]),
                        mock.patch.object(roles.logger, "propagate", False),
                        mock.patch.dict(os.environ, {roles.ENVIRONMENT: ""})):
            patched.start()
            self.addCleanup(patched.stop)
        ops.products.forget()

    def load(self, *of, tokens=None):
        return tunefarm.torch.load(stub.Package(*of, tokens=tokens))

    def assert_close(self, got, expected):
        self.assertEqual(got.shape, expected.shape)
        numpy.testing.assert_allclose(got.values, expected, rtol=1e-3, atol=1e-3)


class Scaled(Test):
    def arguments(self, rows=10, n=I, ends=ENDS):
        """As a caller has them, and what the product is."""
        blocks, n_blocks = -(-K // 128), -(-n // 128)
        x, w = random(rows, K, dtype=torch.float8_e4m3fn), random(E, n, K, dtype=torch.float8_e4m3fn, seed=2)
        a = random(rows, blocks, dtype=torch.float32, seed=3)
        b = random(E, n_blocks, blocks, dtype=torch.float32, seed=4)
        exact_x = x.values * a.values.repeat(128, 1)[:, :K]
        exact_w = w.values * b.values.repeat(128, 1).repeat(128, 2)[:, :n, :K]
        return ([x, w.transpose(-2, -1), a, b.transpose(-2, -1), ends_of(*ends)],
                stub.grouped(exact_x, exact_w.swapaxes(1, 2), ends))

    def test_a_launch(self):
        package = self.load(roles.FP8["row_major"])
        for rows, n, ends in ((10, I, ENDS), (10, 8, ENDS), (1, 128, (0, 0, 1, 1)), (10, I, ENDS)):
            given, expected = self.arguments(rows, n, ends)
            y = tunefarm.torch.scaled_grouped_mm(*given)
            self.assertIs(y.dtype, torch.bfloat16)
            self.assert_close(y, expected)
        self.assertEqual(package.launched, ["forward_fp8 row_major"] * 4)
        given, _ = self.arguments(0, ends=(0,) * E)
        self.assertEqual(tunefarm.torch.scaled_grouped_mm(*given, out_dtype=torch.bfloat16).shape, (0, I))
        self.assertEqual(len(package.launched), 4)

    def test_layouts_of_scales(self):
        given, expected = self.arguments()
        padded = stub.aligned((2, 12), torch.float32)
        padded[:, :10] = given[2].values.T
        columns = stub.Tensor(padded, torch.float32)[:, :10].t()
        apart = stub.Tensor(numpy.repeat(given[2].values, 2, axis=1), torch.float32)[:, ::2]
        unpadded = stub.Tensor(given[2].values.T.copy(), torch.float32).t()
        for packaged, launched in ((("row_major",), "RRRR"), (("mn_major",), "MMMM"), (("row_major", "mn_major"), "RMRR")):
            package = self.load(*(roles.FP8[each] for each in packaged))
            for scales in (given[2], columns, apart, unpadded):
                self.assert_close(tunefarm.torch.scaled_grouped_mm(*given[:2], scales, *given[3:]), expected)
            names = {"R": "forward_fp8 row_major", "M": "forward_fp8 mn_major"}
            self.assertEqual(package.launched, [names[each] for each in launched])
            ops.products._packages.clear()

    def test_arrays_that_kernels_cannot_read_are_copied(self):
        self.load(roles.FP8["row_major"])
        given, expected = self.arguments()
        wide = stub.aligned((10, K + 16), torch.float8_e4m3fn)
        wide[:, 16:] = given[0].values
        given[0] = stub.Tensor(wide, torch.float8_e4m3fn)[:, 16:]
        spread = numpy.zeros(2 * E, numpy.int32)
        spread[::2] = ENDS
        given[4] = stub.Tensor(spread, torch.int32)[::2]
        self.assert_close(tunefarm.torch.scaled_grouped_mm(*given), expected)

    def test_a_number_of_rows_that_nobody_has_tuned(self):
        package = self.load(roles.FP8["row_major"], tokens=(4096,))
        given, expected = self.arguments()
        with self.assertLogs(roles.logger, logging.WARNING) as logs:
            for _ in range(3):
                self.assert_close(tunefarm.torch.scaled_grouped_mm(*given), expected)
        self.assertEqual((len(logs.output), len(package.launched)), (1, 3))
        self.assertIn("default config", logs.output[0])

    def test_what_is_refused(self):
        given, _ = self.arguments()
        for _ in range(2):
            with self.assertRaisesRegex(NotFoundError, "^no loaded package has grouped_gemm_forward_fp8 "
                                        "tuned for E=4, N=264, K=144, dtype=fp8, .*torch does not compute this product.*"
                                        "tunefarm.torch.load"):
                tunefarm.torch.scaled_grouped_mm(*given)
        self.load(roles.FORWARD)
        with self.assertRaisesRegex(NotFoundError, "no loaded package has grouped_gemm_forward_fp8"):
            tunefarm.torch.scaled_grouped_mm(*given)
        package = self.load(roles.FP8["row_major"])
        tunefarm.torch.scaled_grouped_mm(*given)  # nearly what follows, which is checked all the same
        other_rows, _ = self.arguments(11)
        for at, value, expected in ((0, given[0].to(torch.bfloat16), "input is torch.bfloat16"),
                                    (0, given[0][0], "input has 1 dimensions"),
                                    (1, given[1].transpose(-2, -1), "input has rows of 144"),
                                    (2, other_rows[2], "scale_a is"), (2, given[2][:, :1], "scale_a is"),
                                    (2, given[2][:, 0], "scale_a has 1 dimensions"),
                                    (3, given[3].transpose(-2, -1), "scale_b is"),
                                    (4, given[4].long(), "offs is torch.int64")):
            with self.assertRaisesRegex(InvalidArgumentError, f"^scaled_grouped_mm: {expected}"):
                tunefarm.torch.scaled_grouped_mm(*given[:at], value, *given[at + 1:])
        with self.assertRaisesRegex(InvalidArgumentError, "out_dtype is torch.float32"):
            tunefarm.torch.scaled_grouped_mm(*given, out_dtype=torch.float32)
        given[2].requires_grad = True
        with self.assertRaisesRegex(InvalidArgumentError, "no gradients"):
            tunefarm.torch.scaled_grouped_mm(*given)
        self.assertEqual((len(package.launched), PRODUCTS_BY_TORCH), (1, []))

    def test_the_operator(self):
        self.load(roles.FP8["row_major"])
        given, expected = self.arguments()
        self.assert_close(torch.ops.tunefarm.scaled_grouped_mm.default(*given), expected)


class GateUp(Test):
    def arguments(self, layout="split", inner=I, dtype=None):
        x, w = random(10, K, dtype=dtype), random(E, 2 * inner, K, dtype=dtype, seed=2)
        rows = stub.grouped(x.values, w.values.swapaxes(1, 2), ENDS)
        rows = rows.reshape(10, -1, 2, inner if layout == "split" else 128)
        return (x, w, ends_of(*ENDS), layout), (stub.silu(rows[:, :, 0]) * rows[:, :, 1]).reshape(10, -1)

    def test_a_launch(self):
        package = self.load(*roles.GATE_UP.values())
        for layout, inner in (("split", I), ("split", 8), ("blocks", 128), ("blocks", 384)):
            given, expected = self.arguments(layout, inner)
            self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected)
        self.assertEqual((package.launched, PRODUCTS_BY_TORCH), (["gate_up split"] * 2 + ["gate_up blocks"] * 2, []))
        empty = tunefarm.torch.grouped_gate_up(random(0, K), given[1], ends_of(0, 0, 0, 0))
        self.assertEqual(empty.shape, (0, 384))

    def test_what_no_package_has_is_a_product_and_the_activation(self):
        for of, launched in (((roles.FORWARD,), ["forward"]), ((), []),
                             ((roles.GATE_UP["blocks"], roles.FORWARD), ["forward"])):
            ops.products._packages.clear()
            package, (given, expected) = self.load(*of), self.arguments()
            roles._noted.clear(), PRODUCTS_BY_TORCH.clear()
            with self.assertLogs(roles.logger, logging.WARNING) as logs:
                for _ in range(2):
                    self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected)
            self.assertEqual((package.launched, len(PRODUCTS_BY_TORCH)), (2 * launched, 0 if launched else 2))
            self.assertIn("grouped_gemm_gate_up tuned for E=4, N=528, K=144, dtype=bf16, gate_up=split", logs.output[0])
            self.assertEqual(len(logs.output), 1 if launched else 2)
        given, expected = self.arguments("blocks", 256)
        ops.products._packages.clear()
        self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected)

    def test_what_kernels_do_not_do(self):
        package = self.load(*roles.GATE_UP.values(), roles.FORWARD)
        given, expected = self.arguments(dtype=torch.float32)
        self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected)
        given, expected = self.arguments(inner=4)
        self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected)
        given, expected = self.arguments()
        apart = stub.Tensor(numpy.repeat(given[1].values, 2, axis=0), torch.bfloat16)[::2]
        self.assert_close(tunefarm.torch.grouped_gate_up(given[0], apart, *given[2:]), expected)
        self.assertEqual((package.launched, len(PRODUCTS_BY_TORCH)), (["gate_up split"], 2))

    def test_what_is_refused(self):
        given, _ = self.arguments()
        for arguments, expected in (
                ((*given[:3], "interleaved"), "layout is 'interleaved'; it is 'split' .* or 'blocks'"),
                ((*given[:3], "blocks"), "528 rows for each expert, with layout 'blocks' a multiple of 256"),
                ((given[0], given[1][:, :7], given[2]), "7 rows for each expert"),
                ((given[0][:, :8], *given[1:]), "do not fit together"), ((given[0][0], *given[1:]), "do not fit together"),
                ((given[0], given[1][0], *given[2:]), "do not fit together")):
            with self.assertRaisesRegex(InvalidArgumentError, f"grouped_gate_up: .*{expected}"):
                tunefarm.torch.grouped_gate_up(*arguments)


class Layers(Test):
    def arguments(self, tokens=7):
        generator = numpy.random.default_rng(5)
        ids = stub.Tensor(generator.integers(0, E - 1, (tokens, TOPK)), torch.int64)
        weights = stub.Tensor(generator.random((tokens, TOPK), numpy.float32), torch.float32)
        x, w_up, w_down = random(tokens, K), random(E, 2 * I, K, seed=2), random(E, K, I, seed=3)
        expected = numpy.zeros((tokens, K), numpy.float32)
        for token in range(tokens):
            for slot, e in enumerate(ids.values[token]):
                up = w_up.values[e] @ x.values[token]
                expected[token] += weights.values[token, slot] * (w_down.values[e] @ (stub.silu(up[:I]) * up[I:]))
        return (x, w_up, w_down, ids, weights), expected

    def test_which_kernels_a_layer_without_gradients_launches(self):
        everything = (roles.UP_ACTIVATED, roles.GATE_UP["split"], roles.UP, roles.DOWN, roles.FORWARD)
        for hidden, launched in (((), ["gate_up split gathered", "forward scattered"]),
                                 (everything[:1], ["gate_up split", "forward scattered"]),
                                 (everything[:2], ["forward gathered", "forward scattered"]),
                                 (everything[:3], ["forward", "forward scattered"]),
                                 (everything[:4], ["forward", "forward"]),
                                 (everything, [])):
            ops.products._packages.clear()
            package = self.load(*(role for role in everything if role not in hidden))
            PRODUCTS_BY_TORCH.clear()
            given, expected = self.arguments()
            got = tunefarm.torch.moe_mlp(*given)
            self.assertEqual((package.launched, len(PRODUCTS_BY_TORCH)), (launched, 2 - len(launched)))
            self.assertEqual(got.shape, expected.shape)
            self.assertLess(numpy.linalg.norm(got.values - expected), 1e-4 * numpy.linalg.norm(expected))

    def fp8_arguments(self):
        """The same with weights in fp8, which are exact here."""
        (x, w_up, w_down, ids, weights), _ = self.arguments()
        x, w_up, w_down = (stub.Tensor(each.values[..., :inner].copy(), dtype) for each, inner, dtype in (
            (x, 128, torch.bfloat16), (w_up, 128, torch.float8_e4m3fn), (w_down, 256, torch.float8_e4m3fn)))
        w_up = stub.Tensor(w_up.values[:, :512].copy(), torch.float8_e4m3fn)
        w_down = stub.Tensor(w_down.values[:, :128].copy(), torch.float8_e4m3fn)
        scales = random(E, 4, 1, dtype=torch.float32, seed=6), random(E, 1, 2, dtype=torch.float32, seed=7)
        expected = numpy.zeros(x.shape, numpy.float32)
        exact_up, exact_down = (w.values * of.values.repeat(128, 1).repeat(128, 2)
                                for w, of in zip((w_up, w_down), scales))
        for token, experts in enumerate(ids.values):
            for slot, e in enumerate(experts):
                up = exact_up[e] @ x.values[token]
                expected[token] += weights.values[token, slot] * (exact_down[e] @ (stub.silu(up[:256]) * up[256:]))
        return (x, w_up, w_down, ids, weights, *scales), expected

    def test_fp8(self):
        up, down, packed = roles.FP8_UP, roles.FP8_DOWN, roles.FP8
        name, names = "forward_fp8 row_major", ["forward_fp8 row_major gathered", "forward_fp8 row_major scattered"]
        activated = "gate_up_fp8 split row_major gathered"
        for of, launched in (((roles.FP8_UP_ACTIVATED, *up.values(), *down.values()), [activated, names[1]]),
                             ((roles.FP8_UP_ACTIVATED, packed["row_major"]), [activated, name]),
                             ((roles.FP8_UP_ACTIVATED, down["mn_major"]), [activated, "forward_fp8 mn_major scattered"]),
                             ((up["row_major"], down["row_major"], packed["row_major"]), names),
                             ((up["mn_major"], down["row_major"]), ["forward_fp8 mn_major gathered", names[1]]),
                             ((packed["row_major"],), [name, name]),
                             ((up["row_major"], packed["row_major"]), [names[0], name])):
            ops.products._packages.clear()
            package, (given, expected) = self.load(*of), self.fp8_arguments()
            got = tunefarm.torch.moe_mlp(*given)
            self.assertEqual((package.launched, PRODUCTS_BY_TORCH), (launched, []))
            self.assertIs(got.dtype, torch.bfloat16)
            self.assertLess(numpy.linalg.norm(got.values - expected), 1e-4 * numpy.linalg.norm(expected))

    def test_what_a_layer_in_fp8_refuses(self):
        given, _ = self.fp8_arguments()
        with self.assertRaisesRegex(NotFoundError, "no loaded package has grouped_gemm_forward_fp8 .*tunefarm.torch.load"):
            tunefarm.torch.moe_mlp(*given)
        for at, value, expected in ((0, given[0].to(torch.float16), "x is torch.float16; with weights in fp8"),
                                    (1, given[1].to(torch.bfloat16),
                                     "w_up torch.bfloat16 and w_down torch.float8_e4m3fn; they"),
                                    (5, None, "torch.float8_e4m3fn, without w_up_scales; they have one type"),
                                    (6, given[5], r"w_down_scales are torch.float32 \(4, 4, 1\) .*\(4, 1, 2\)"),
                                    (6, given[6].to(torch.bfloat16), "w_down_scales are torch.bfloat16"),
                                    (2, given[2].transpose(1, 2).contiguous().transpose(1, 2), r"w_down .*contiguous\(\)")):
            with self.assertRaisesRegex(InvalidArgumentError, f"^moe_mlp: .*{expected}"):
                tunefarm.torch.moe_mlp(*given[:at], value, *given[at + 1:])
        for at in (0, 1, 2, 4, 5, 6):
            given[at].requires_grad = True
            with mock.patch.object(stub.Tensor, "float", lambda self: self), \
                    self.assertRaisesRegex(InvalidArgumentError, "no gradients with weights in fp8"):
                tunefarm.torch.moe_mlp(*given)
            given[at].requires_grad = False

    def test_one_that_needs_gradients_keeps_gate_and_up(self):
        package = self.load(roles.UP_ACTIVATED, roles.GATE_UP["split"], roles.UP, roles.DOWN)
        given, _ = self.arguments()
        given[1].requires_grad = True
        with mock.patch.object(tunefarm.torch._moe._MoeMlp, "apply", mock.Mock(return_value="from apply")) as apply:
            self.assertEqual(tunefarm.torch.moe_mlp(*given), "from apply")
        self.assertEqual((len(apply.call_args.args), package.launched), (5, []))


if __name__ == "__main__":
    unittest.main()
