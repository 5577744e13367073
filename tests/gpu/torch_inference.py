"""Products without gradients on a GPU: fp8 with block scales, gate and up with their activation, and layers of experts in
inference. Loaded and run by torch_grouped_mm_test.py, whose sizes and packages it takes."""

import contextlib
import logging
import unittest

import torch
import torch_grouped_mm_test as base
from torch_grouped_mm_test import drawn, ends_of, found, loop, only_kernels, random, without

import tunefarm.torch
from tunefarm import _grouped_products as roles
from tunefarm.torch import _grouped_mm as ops
from tunefarm.torch import _moe_fp8, _routing

E, N, K, ROWS, TOPK = base.E, base.N, base.K, base.ROWS, base.TOPK  # N is 2 I for gate and up
FP8_MAX = 448.0
# A row in fp8, of its norm; those of fewer than 128 columns may have one large element that is rounded to the next value.
FP8_BOUND, SHORT_FP8_BOUND = 3e-3, 8e-3
ON_HOPPER = unittest.skipUnless(base.DEVICE == "cuda" and torch.cuda.get_device_capability() == (9, 0),
                                "the kernels are for compute capability 9.0")


def blocks(elements):
    return -(-elements // 128)


def spread(scales, *extents):
    """A scale for each element: the last dimensions times 128, cut to these extents."""
    for at, extent in zip(range(-len(extents), 0), extents):
        scales = scales.repeat_interleave(128, at).narrow(at, 0, extent)
    return scales


def quantized(values, *sizes):
    """e4m3 elements and the float32 scales of the blocks of these sizes (1 or 128) in the last two dimensions."""
    rows, columns = values.shape[-2:]
    (of_rows, of_columns), lead = sizes, values.shape[:-2]
    padded = torch.nn.functional.pad(values.float(), (0, -columns % of_columns, 0, -rows % of_rows))
    parts = padded.view(*lead, -(-rows // of_rows), of_rows, -(-columns // of_columns), of_columns)
    scales = parts.abs().amax((-3, -1), keepdim=True).clamp(min=1e-6) / FP8_MAX
    elements = (parts / scales).to(torch.float8_e4m3fn).view(padded.shape)[..., :rows, :columns].contiguous()
    return elements, scales.squeeze(-1).squeeze(-2).contiguous()


def mn_major(scales):
    """The same scales of rows in columns of a multiple of 4."""
    rows, columns = scales.shape
    memory = scales.new_zeros((columns, -(-rows // 4) * 4))
    memory[:, :rows] = scales.t()
    return memory[:, :rows].t()


def drawn_fp8(rows, sizes, n=N, k=K, experts=E):
    """What scaled_grouped_mm takes, and the product of the dequantised operands in single precision."""
    x, x_scales = quantized(random(rows, k), 1, 128)
    w, w_scales = quantized(random(experts, n, k, scale=0.05), 128, 128)
    ends = ends_of(sizes)
    exact_x = x.float() * spread(x_scales, k)
    exact_w = w.float() * spread(w_scales, n, k)
    return [x, w.transpose(-2, -1), x_scales, w_scales.transpose(-2, -1), ends], loop(exact_x, exact_w, ends)


def dequantized(elements, scales):
    """Of rows."""
    return elements.float() * spread(scales, elements.shape[1])


def drawn_fp8_layer(tokens=ROWS // TOPK):
    """What moe_mlp takes with weights in fp8, and the weights in single precision."""
    layer = base.drawn_layer(tokens=tokens, needs=False)
    exact = {}
    for name in ("w_up", "w_down"):
        layer[name], layer[f"{name}_scales"] = quantized(layer[name], 128, 128)
        exact[name] = layer[name].float() * spread(layer[f"{name}_scales"], *layer[name].shape[1:])
    return layer, exact


def plain_fp8_layer(layer, exact):
    """In single precision, with activations that are quantised as moe_mlp does it, and rounded before where no kernel
    fuses the first product with the activation: what is rounded twice may come out a step of e4m3 apart."""
    is_fused = found(roles.FP8_UP_ACTIVATED, topk=TOPK, dtype=torch.float8_e4m3fn)
    x, inner = dequantized(*_moe_fp8.quantized(layer["x"])), layer["w_down"].shape[2]
    out = torch.zeros_like(x)
    for e in range(layer["w_up"].shape[0]):
        token, slot = (layer["topk_ids"] == e).nonzero(as_tuple=True)
        up = x[token] @ exact["w_up"][e].t()
        up = up if is_fused else up.bfloat16()
        rows = dequantized(*_moe_fp8.quantized(torch.nn.functional.silu(up[:, :inner]) * up[:, inner:]))
        y = rows @ exact["w_down"][e].t() * layer["topk_weights"][token, slot].bfloat16().float().unsqueeze(1)
        out.index_add_(0, token, y)
    return out


@contextlib.contextmanager
def default_configs():
    """Kernels are launched with configs that nobody has tuned, for sides that no package has tuned ones for."""
    original, roles.Product = roles.Product, lambda kernels, what, _: original(kernels, what, True)
    ops.products.forget()
    try:
        yield
    finally:
        roles.Product = original
        ops.products.forget()


class Products(base.Test):
    def assert_rows(self, got, expected, bound):
        """Each row within so much of its norm."""
        self.assertEqual(got.shape, expected.shape)
        self.assertTrue(bool(got.isfinite().all()))
        if got.numel():
            off = (got.float() - expected).norm(dim=1) / expected.norm(dim=1).clamp(min=1e-9)
            self.assertLessEqual(off.max().item(), bound)

    def captured(self, step):
        """A CUDA graph of it, and its result."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step()
        return graph, out

    def check_compiled(self, function, draw, check):
        """draw(rows) -> arguments and what is expected, with rows as a dynamic size."""
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(function, fullgraph=True)
        # None is a multiple of 4: columns of scales are longer than rows are many, so that both remain apart as symbols.
        for step, rows in enumerate((ROWS // 2 - 1, ROWS // 2 + 71, ROWS - 99, ROWS - 1)):
            with torch._dynamo.config.patch(error_on_recompile=True) if step > 1 else contextlib.nullcontext():
                given, expected = draw(rows)
                check(compiled(*given), expected)
        self.assertLessEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 2)


@ON_HOPPER
class Scaled(Products):
    def setUp(self):
        super().setUp()
        if not any(found(role, dtype=torch.float8_e4m3fn) for role in roles.FP8.values()):
            self.skipTest("no package has grouped_gemm_forward_fp8")

    def test_groups_of_all_kinds(self):
        one = [0] * E
        one[E // 2] = ROWS
        for sizes in (drawn(ROWS), one, [ROWS] + [0] * (E - 1), [0] * (E - 1) + [ROWS], [1] * (E - 1) + [ROWS - E + 1]):
            given, expected = drawn_fp8(ROWS, sizes)
            y = tunefarm.torch.scaled_grouped_mm(*given)
            self.assertIs(y.dtype, torch.bfloat16)
            self.assert_rows(y, expected, FP8_BOUND)

    def test_numbers_of_rows(self):
        for rows in (1, 2, 7, 63, 1000, ROWS + 1):
            given, expected = drawn_fp8(rows, drawn(rows, rows))
            self.assert_rows(tunefarm.torch.scaled_grouped_mm(*given), expected, FP8_BOUND)

    def test_no_rows_and_no_groups(self):
        given, _ = drawn_fp8(0, [0] * E)
        self.assertEqual(tunefarm.torch.scaled_grouped_mm(*given).shape, (0, N))
        given, _ = drawn_fp8(64, [0] * E)
        self.assertEqual(tunefarm.torch.scaled_grouped_mm(*given).shape, (64, N))
        torch.cuda.synchronize()

    def test_sides_that_are_no_multiples_of_128(self):
        for n, k in ((264, 144), (1544, 2064), (120, 400), (8, 16), (128, 272)):
            with self.subTest(n=n, k=k):
                given, expected = drawn_fp8(300, drawn(300, experts=8), n, k, experts=8)
                y = tunefarm.torch.scaled_grouped_mm(*given)
                self.assert_rows(y, expected, FP8_BOUND if n >= 128 else SHORT_FP8_BOUND)

    def test_rows_after_the_last_end(self):
        used = ROWS - 100
        given, expected = drawn_fp8(ROWS, drawn(used, 3))
        given[0].view(torch.uint8)[used:] = 0x7f  # NaN
        given[2][used:] = float("nan")
        self.assert_rows(tunefarm.torch.scaled_grouped_mm(*given)[:used], expected[:used], FP8_BOUND)

    def test_layouts(self):
        for rows in (ROWS, ROWS - 3):
            given, expected = drawn_fp8(rows, drawn(rows))
            x, mat2, scale_a, scale_b, ends = given
            wide = torch.zeros((rows, K + 16), device=base.DEVICE).to(torch.float8_e4m3fn)
            wide[:, 16:] = x
            far = torch.zeros(2 * E, dtype=torch.int32, device=base.DEVICE)
            far[::2] = ends
            for a, scales, offs in ((x, mn_major(scale_a), ends), (x, scale_a.t().contiguous().t(), ends),
                                    (x, scale_a.repeat_interleave(2, 1)[:, ::2], ends), (wide[:, 16:], scale_a, far[::2])):
                self.assert_rows(tunefarm.torch.scaled_grouped_mm(a, mat2, scales, scale_b, offs), expected, FP8_BOUND)
            for hidden in roles.FP8.values():  # then the scales are copied into the other layout, if a package has it
                other = next(role for role in roles.FP8.values() if role is not hidden)
                with without(hidden):
                    if found(other, dtype=torch.float8_e4m3fn):
                        for scales in (scale_a, mn_major(scale_a)):
                            y = tunefarm.torch.scaled_grouped_mm(x, mat2, scales, scale_b, ends)
                            self.assert_rows(y, expected, FP8_BOUND)

    def test_refusals(self):
        given, _ = drawn_fp8(64, drawn(64))
        x, mat2, scale_a, scale_b, ends = given
        for other in ((x.cpu(), *given[1:]), (x.view(torch.float8_e5m2), *given[1:]), (x, mat2.contiguous(), *given[2:]),
                      (x, mat2.transpose(-2, -1), *given[2:]), (x, mat2, scale_a[1:], scale_b, ends),
                      (x, mat2, scale_a, scale_b.contiguous(), ends), (*given[:4], ends.long())):
            for call in (tunefarm.torch.scaled_grouped_mm, torch.ops.tunefarm.scaled_grouped_mm):
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "^scaled_grouped_mm: "):
                    call(*other)
        with without(*roles.FP8.values()), self.assertRaisesRegex(tunefarm.NotFoundError, "load a package"):
            tunefarm.torch.scaled_grouped_mm(*given)

    def test_the_operator(self):
        given, _ = drawn_fp8(64, drawn(64))
        expected = tunefarm.torch.scaled_grouped_mm(*given)
        for mode in (contextlib.nullcontext(), torch.no_grad(), torch.inference_mode()):
            with mode:
                self.assertTrue(torch.equal(torch.ops.tunefarm.scaled_grouped_mm(*given), expected))
                self.assertTrue(torch.equal(tunefarm.torch.scaled_grouped_mm(*given), expected))
        # Other tests of opcheck compare tensors of fp8, which torch does not.
        torch.library.opcheck(torch.ops.tunefarm.scaled_grouped_mm.default, tuple(given), test_utils=("test_faketensor",))

    def test_compile(self):
        def check(y, expected):
            self.assert_rows(y, 2 * expected, 2 * FP8_BOUND)

        for layout in (torch.Tensor.contiguous, mn_major):
            def draw(rows):
                given, expected = drawn_fp8(rows, drawn(rows, rows))
                given[2] = layout(given[2])
                return given, expected

            self.check_compiled(lambda *given: tunefarm.torch.scaled_grouped_mm(*given) * 2, draw, check)

    def test_compile_with_cuda_graphs(self):
        torch._dynamo.reset()
        function = torch.compile(tunefarm.torch.scaled_grouped_mm, mode="reduce-overhead")
        for seed in range(4):
            given, expected = drawn_fp8(ROWS, drawn(ROWS, seed))
            self.assert_rows(function(*given), expected, FP8_BOUND)

    def test_cuda_graph(self):
        given, _ = drawn_fp8(ROWS, drawn(ROWS))
        graph, y = self.captured(lambda: tunefarm.torch.scaled_grouped_mm(*given))
        for seed in range(3):
            fresh, expected = drawn_fp8(ROWS, drawn(ROWS, 100 + seed))
            for one, other in zip(given, fresh):
                one.copy_(other)
            graph.replay()
            self.assert_rows(y, expected, FP8_BOUND)


class GateUp(Products):
    def drawn_gate_up(self, rows, sizes, layout="split", n=N, k=K, dtype=torch.bfloat16):
        """What grouped_gate_up takes, and its result in single precision."""
        x, w, ends = random(rows, k, dtype=dtype), random(len(sizes), n, k, dtype=dtype, scale=0.05), ends_of(sizes)
        return (x, w, ends, layout), self.exact(x, w, ends, layout)

    def exact(self, x, w, ends, layout):
        rows, columns, half = x.shape[0], w.shape[1], 128 if layout == "blocks" else w.shape[1] // 2
        pairs = loop(x, w, ends).view(rows, columns // (2 * half), 2, half)
        return (torch.nn.functional.silu(pairs[:, :, 0]) * pairs[:, :, 1]).flatten(1)

    def kernels(self, layout):
        """What torch must not compute where a package has the kernel."""
        return only_kernels() if found(roles.GATE_UP[layout]) else contextlib.nullcontext()

    def assert_fused(self, got, expected, layout="split"):
        # Three roundings in place of one without the kernel.
        self.assert_close(got, expected, loosen=1 if found(roles.GATE_UP[layout]) else 2)

    def test_groups_of_all_kinds(self):
        one = [0] * E
        one[E // 2] = ROWS
        for layout in roles.GATE_UP:
            for sizes in (drawn(ROWS), one, [0] * (E - 1) + [ROWS], [1] * (E - 1) + [ROWS - E + 1]):
                given, expected = self.drawn_gate_up(ROWS, sizes, layout)
                with self.kernels(layout):
                    y = tunefarm.torch.grouped_gate_up(*given)
                self.assert_fused(y, expected, layout)

    def test_numbers_of_rows(self):
        for rows in (0, 1, 2, 7, 63, 1000, ROWS + 1):
            given, expected = self.drawn_gate_up(rows, drawn(rows, rows))
            self.assert_close(tunefarm.torch.grouped_gate_up(*given), expected, loosen=2)

    @ON_HOPPER
    def test_sides_that_are_no_multiples_of_128(self):
        for layout, n, k in (("split", 272, 200), ("split", 16, 8), ("split", 1552, 2056), ("blocks", 256, 136),
                             ("blocks", 768, 72)):
            for rows in (1, 300):
                with self.subTest(layout, n=n, k=k, rows=rows), default_configs():
                    given, expected = self.drawn_gate_up(rows, drawn(rows, experts=8), layout, n, k)
                    product = ops.find((roles.GATE_UP[layout], 8, n, k, torch.bfloat16, 1, given[0].get_device()), rows)
                    has = product is not None and bool(product.launcher(rows))
                    with only_kernels() if has else contextlib.nullcontext():
                        y = tunefarm.torch.grouped_gate_up(*given)
                    self.assert_close(y, expected, loosen=1 if has else 2)

    def test_rows_after_the_last_end(self):
        used = ROWS - 100
        (x, w, ends, layout), expected = self.drawn_gate_up(ROWS, drawn(used, 3))
        x[used:] = float("nan")
        self.assert_fused(tunefarm.torch.grouped_gate_up(x, w, ends)[:used], expected[:used])

    def test_arrays_that_kernels_cannot_read(self):
        (x, w, ends, layout), expected = self.drawn_gate_up(ROWS, drawn(ROWS))
        wide = random(ROWS, K + 8)
        wide[:, 8:] = x
        apart = random(E * N * K + 1)
        apart[1:] = w.flatten()
        exchanged = w.transpose(1, 2).contiguous().transpose(1, 2)
        for a, weights in ((wide[:, 8:], w), (x, apart[1:].view(E, N, K)), (x, exchanged)):
            self.assert_close(tunefarm.torch.grouped_gate_up(a, weights, ends), expected, loosen=2)

    def test_what_no_package_has(self):
        for dtype in (torch.bfloat16, torch.float16):
            for hidden in ((roles.GATE_UP["split"],), (roles.GATE_UP["split"], roles.FORWARD)):
                given, expected = self.drawn_gate_up(ROWS, drawn(ROWS), dtype=dtype)
                with without(*hidden), self.assertLogs("tunefarm.torch", logging.WARNING) as logs:
                    roles._noted.clear()
                    for _ in range(2):
                        y = tunefarm.torch.grouped_gate_up(*given)
                self.assert_close(y, expected, loosen=3)
                self.assertEqual(sum("grouped_gemm_gate_up" in line for line in logs.output), 1)

    def test_gradients(self):
        for layout in roles.GATE_UP:
            (x, w, ends, _), _ = self.drawn_gate_up(ROWS, drawn(ROWS), layout)
            results, gradient = [], random(ROWS, N // 2)
            for call, kind in ((tunefarm.torch.grouped_gate_up, torch.bfloat16), (self.exact, torch.float32)):
                one, two = x.to(kind, copy=True).requires_grad_(), w.to(kind, copy=True).requires_grad_()
                results.append(torch.autograd.grad(call(one, two, ends, layout), (one, two), gradient.to(kind)))
            for got, expected in zip(*results):
                self.assertLess(((got.float() - expected).norm() / expected.norm()).item(), 0.015)

    def test_opcheck(self):
        for layout in roles.GATE_UP:
            given, _ = self.drawn_gate_up(64, drawn(64), layout)
            torch.library.opcheck(torch.ops.tunefarm.grouped_gate_up.default, given,
                                  test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))
            self.assertTrue(torch.equal(torch.ops.tunefarm.grouped_gate_up(*given), tunefarm.torch.grouped_gate_up(*given)))

    def test_compile(self):
        def draw(rows):
            given, expected = self.drawn_gate_up(rows, drawn(rows, rows))
            return given[:3], 2 * expected

        self.check_compiled(lambda x, w, ends: tunefarm.torch.grouped_gate_up(x, w, ends) * 2, draw,
                            lambda y, expected: self.assert_close(y, expected, loosen=2))

    @base.ON_CUDA
    def test_cuda_graph(self):
        given, _ = self.drawn_gate_up(ROWS, drawn(ROWS))
        graph, y = self.captured(lambda: tunefarm.torch.grouped_gate_up(*given))
        for seed in range(3):
            fresh, expected = self.drawn_gate_up(ROWS, drawn(ROWS, 100 + seed))
            for one, other in zip(given[:3], fresh[:3]):
                one.copy_(other)
            graph.replay()
            self.assert_fused(y, expected)


@base.ON_CUDA
class AroundProducts(Products):
    """Kernels in Triton against the same by torch."""

    @contextlib.contextmanager
    def by_torch(self):
        original, _routing.kernels = _routing.kernels, None
        try:
            yield
        finally:
            _routing.kernels = original

    def test_rows_by_experts(self):
        for experts in (1, 8, 128, 300):
            for rows in (0, 1, 7, 512, 513, 4096, 4097, 40000):
                for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
                    # Two are no experts: rows without one come last.
                    low, high = max(-1, torch.iinfo(dtype).min), min(experts, torch.iinfo(dtype).max)
                    ids = torch.randint(low, high + 1, (rows, 1), device=base.DEVICE, dtype=dtype)
                    ends, indices = _routing.sorted_rows(ids, experts)
                    with self.by_torch():
                        expected_ends, expected_indices = _routing.sorted_rows(ids, experts)
                    self.assertEqual(ends.tolist(), expected_ends.tolist(), (experts, rows, dtype))
                    self.assertEqual(indices.tolist(), expected_indices.tolist(), (experts, rows, dtype))
                    self.assertEqual((ends.dtype, indices.dtype), (torch.int32, torch.int32))

    @ON_HOPPER
    def test_quantisation(self):
        for rows, columns in ((0, 128), (1, 16), (3, 128), (5, 144), (257, 2048), (64, 7168)):
            for dtype in (torch.bfloat16, torch.float32):
                x = random(rows, columns, dtype=dtype, scale=3.0)
                if rows > 1:
                    x[0] = 0
                    x[1, :3] = torch.tensor([2.0**-120, -2.0**-118, 0.0])
                values, scales = _moe_fp8.quantized(x)
                with self.by_torch():
                    expected, expected_scales = _moe_fp8.quantized(x)
                # torch multiplies by the reciprocal of 448, which may round another way, and elements with it.
                torch.testing.assert_close(scales, expected_scales, rtol=2.0**-22, atol=0)
                others = (values.view(torch.uint8) != expected.view(torch.uint8)).sum().item()
                self.assertLessEqual(others, 0.001 * rows * columns, (rows, columns, dtype))


    def test_sums(self):
        for tokens, topk, columns in ((0, 8, 64), (1, 1, 8), (3, 8, 2048), (100, 5, 1032), (4096, 8, 2048)):
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                rows = random(tokens * topk, columns, dtype=dtype)
                got = _routing.added_up(rows, tokens, topk)
                exact = rows.double().view(tokens, topk, columns).sum(1)
                self.assertIs(got.dtype, dtype)
                # Rounded once: half of the last bit, and the errors of sums in single precision.
                bound = exact.abs() * torch.finfo(dtype).eps / 2 + 1e-5
                self.assertTrue(bool(((got.double() - exact).abs() <= bound).all()), (tokens, topk, columns, dtype))


class Inference(Products):
    """Layers without gradients."""

    FUSED = (roles.UP_ACTIVATED, roles.GATE_UP["split"])

    def check_layer(self, layer, call=tunefarm.torch.moe_mlp):
        with torch.no_grad():
            out = call(**layer)
        exact = {name: each.float() if each.is_floating_point() else each for name, each in layer.items()}
        expected = base.plain_layer(**exact)
        self.assertEqual(out.shape, expected.shape)
        self.assertLess(((out.float() - expected).norm() / expected.norm().clamp(min=1e-9)).item(), 0.015)
        return out

    def test_which_kernels(self):
        layer = base.drawn_layer(needs=False)
        gathered = (*self.FUSED, roles.UP, roles.DOWN)
        for hidden in ((), self.FUSED[:1], self.FUSED, gathered, (*gathered, roles.FORWARD)):
            with without(*hidden):
                self.check_layer(layer)
        if found(roles.UP_ACTIVATED, topk=TOPK) and found(roles.DOWN, n=K, k=N // 2, topk=TOPK):
            with only_kernels(), without(roles.UP, roles.FORWARD):
                self.check_layer(layer)

    def check_fp8_layer(self, tokens=ROWS // TOPK, call=tunefarm.torch.moe_mlp):
        layer, exact = drawn_fp8_layer(tokens)
        with torch.no_grad():
            out = call(**layer)
        self.assertIs(out.dtype, torch.bfloat16)
        for expected, bound in ((plain_fp8_layer(layer, exact), 0.015),
                                # e4m3 has 3 bits: each quantisation of activations costs 0.03.
                                (base.plain_layer(layer["x"].float(), **exact, topk_ids=layer["topk_ids"],
                                                  topk_weights=layer["topk_weights"]), 0.1)):
            self.assertEqual(out.shape, expected.shape)
            self.assertLess(((out.float() - expected).norm() / expected.norm().clamp(min=1e-9)).item(), bound)
        return layer

    @ON_HOPPER
    def test_fp8(self):
        if not any(found(role, dtype=torch.float8_e4m3fn) for role in roles.FP8.values()):
            self.skipTest("no package has grouped_gemm_forward_fp8")
        gathered = (*roles.FP8_UP.values(), *roles.FP8_DOWN.values())
        for hidden in ((), (roles.FP8_UP_ACTIVATED,), (roles.FP8_UP_ACTIVATED, *gathered)):
            with without(*hidden):
                for tokens in (0, 1, 3, ROWS // TOPK):
                    layer = self.check_fp8_layer(tokens)
        torch._dynamo.reset()
        function = torch.compile(tunefarm.torch.moe_mlp, fullgraph=True)
        for step, tokens in enumerate((16, 40, 100, ROWS // TOPK)):
            with torch._dynamo.config.patch(error_on_recompile=True) if step > 1 else contextlib.nullcontext():
                self.check_fp8_layer(tokens, function)
        graph, out = self.captured(lambda: tunefarm.torch.moe_mlp(**layer))
        fresh, _ = drawn_fp8_layer()
        for name, each in layer.items():
            each.copy_(fresh[name])
        graph.replay()
        self.assertTrue(torch.equal(out, tunefarm.torch.moe_mlp(**layer)))
        layer["x"].requires_grad_()
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "no gradients"):
            tunefarm.torch.moe_mlp(**layer)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "without w_up_scales"), torch.no_grad():
            tunefarm.torch.moe_mlp(**{**layer, "w_up_scales": None})

    def test_without_the_fused_kernel_it_is_what_training_computes(self):
        layer = base.drawn_layer()
        with without(*self.FUSED):
            expected = tunefarm.torch.moe_mlp(**layer).detach()
            with torch.no_grad():
                self.assertTrue(torch.equal(tunefarm.torch.moe_mlp(**layer), expected))

    def test_few_tokens(self):
        for tokens in (0, 1, 3):
            self.check_layer(base.drawn_layer(tokens=tokens, needs=False))

    def test_compile(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        function = torch.compile(tunefarm.torch.moe_mlp, fullgraph=True)
        for step, tokens in enumerate((16, 40, 100, ROWS // TOPK)):
            with torch._dynamo.config.patch(error_on_recompile=True) if step > 1 else contextlib.nullcontext():
                self.check_layer(base.drawn_layer(tokens=tokens, needs=False), function)
        self.assertLessEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 2)

    @base.ON_CUDA
    def test_cuda_graph(self):
        layer = base.drawn_layer(needs=False)
        graph, out = self.captured(lambda: tunefarm.torch.moe_mlp(**layer))
        fresh = base.drawn_layer(needs=False)
        for name, each in layer.items():
            each.copy_(fresh[name])
        graph.replay()
        self.assertTrue(torch.equal(out, tunefarm.torch.moe_mlp(**layer)))

