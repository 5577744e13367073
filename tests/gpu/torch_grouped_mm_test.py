"""tunefarm.torch on a GPU: results and gradients against products in single precision, all layouts and odd inputs, what
torch does with the operators (opcheck, torch.compile, CUDA graphs, transforms, threads), and whole layers of experts;
products without gradients are in torch_inference.py, whose tests are run with these. Needs torch and packages with the
grouped products tuned for E, N and K. Run it by hand:

    PYTHONPATH=build/release/python TUNEFARM_LAUNCH_LIBRARY=... python3 tests/gpu/torch_grouped_mm_test.py \
        [--experts 128] [--n 1536] [--k 2048] [--rows 4096] [--only TEXT] [PACKAGE ...]          # or TUNEFARM_PACKAGES
"""

import argparse
import contextlib
import logging
import os
import statistics
import subprocess
import sys
import threading
import time
import unittest

import torch
import torch.fx.experimental.proxy_tensor

import tunefarm.torch
from tunefarm import _grouped_products as roles
from tunefarm.torch import _grouped_mm as ops
from tunefarm.torch import _moe as moe

DEVICE = "cuda"
E, N, K, ROWS = 128, 1536, 2048, 4096
TOPK = 4
# Of the definitions, kernels/grouped_gemm: element by element, and each row as a whole.
BOUNDS = {torch.bfloat16: (0.01, 0.008, 5e-3), torch.float16: (2e-3, 2e-3, 1e-3)}
ON_CUDA = unittest.skipUnless(DEVICE == "cuda", "needs CUDA")


def random(*shape, dtype=torch.bfloat16, scale=1.0):
    return (torch.randn(shape, device=DEVICE) * scale).to(dtype)


def ends_of(sizes):
    return torch.tensor(sizes, device=DEVICE).cumsum(0).to(torch.int32)


def drawn(rows, seed=0, experts=None):
    """Sizes of groups that add up to `rows`; some are 0."""
    experts = experts or E
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(0, max(experts - experts // 4, 1), (rows,), generator=generator)
    return torch.bincount(chosen, minlength=experts).tolist()


def loop(x, w, ends):
    """Each expert's rows times w[e]^T in single precision, differentiable; rows after the last end are zero."""
    ends = ends.tolist()
    parts = [x[begin:end].float() @ w[e].float().t() for e, (begin, end) in enumerate(zip([0, *ends], ends))]
    return torch.cat([*parts, x.new_zeros((x.shape[0] - ends[-1], w.shape[1]), dtype=torch.float32)])


def found(*key_roles, n=None, k=None, topk=1, dtype=torch.bfloat16):
    """Whether the packages have these."""
    device = torch.empty(0, device=DEVICE).get_device()
    products = [ops.find((role, E, n or N, k or K, dtype, topk, device), ROWS // topk) for role in key_roles]
    return all(product is not None and product.launcher(ROWS // topk) for product in products)


def drawn_layer(tokens=None, needs=True):
    """What moe_mlp takes. N of the options is 2 I, K is H."""
    tokens = ROWS // TOPK if tokens is None else tokens
    ids = torch.rand((tokens, E), device=DEVICE).topk(TOPK, dim=1).indices
    ids[ids == E // 3] = E // 3 + 1  # one expert without rows; a token may have another one twice
    tensors = dict(x=random(tokens, K), w_up=random(E, N, K, scale=0.03), w_down=random(E, K, N // 2, scale=0.03))
    tensors = {name: each.requires_grad_(needs) for name, each in tensors.items()}
    weights = torch.rand((tokens, TOPK), device=DEVICE).softmax(1).requires_grad_(needs)
    return dict(**tensors, topk_ids=ids, topk_weights=weights)


def sorted_rows(layer):
    """Where each expert's rows end in the order of experts, and the flat row of each."""
    ids, order = layer["topk_ids"].reshape(-1).sort(stable=True)
    return torch.searchsorted(ids, torch.arange(E, device=DEVICE), right=True, out_int32=True), order


@contextlib.contextmanager
def without(*key_roles):
    """As if the packages had not these."""
    original = ops.products._load_product
    ops.products.forget()
    ops.products._load_product = lambda key, *rest: (None, " (hidden)") if key[0] in key_roles else original(key, *rest)
    try:
        yield
    finally:
        ops.products._load_product = original
        ops.products.forget()


@contextlib.contextmanager
def only_kernels():
    """A product by torch is an error."""
    def refuse(*arguments, **named):
        raise AssertionError("torch computed a product")

    original, ops._torch_grouped_mm = ops._torch_grouped_mm, refuse
    try:
        yield
    finally:
        ops._torch_grouped_mm = original


class Test(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def assert_close(self, got, expected, what="", dtype=None, loosen=1.0):
        atol, rtol, norm = (loosen * bound for bound in BOUNDS[dtype or got.dtype])
        got, expected = got.detach().float(), expected.detach().float()
        self.assertEqual(got.shape, expected.shape, what)
        if not got.numel():
            return
        difference = (got - expected).abs()
        excess = (difference - atol - rtol * expected.abs()).max().item()
        self.assertLessEqual(excess, 0, f"{what}: an element is off by {difference.max().item()}")
        rows, of = difference.flatten(0, -2).norm(dim=1), expected.flatten(0, -2).norm(dim=1)
        worst = (rows - norm * of - 1e-6).max().item()
        self.assertLessEqual(worst, 0, f"{what}: a row is off by more than {norm}")

    def check(self, x, w, ends, gradient=None, is_transposed=True, call=tunefarm.torch.grouped_mm):
        """Result and gradients for weights that lie in memory as [E, N, K] and are given transposed, to rows of K, or as
        they are, to rows of N. `x`: an input, or how many rows to draw. Returns the result."""
        if isinstance(x, int):
            x = random(x, K if is_transposed else N, dtype=w.dtype)
        x, weights = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = call(x, weights.transpose(-2, -1) if is_transposed else weights, ends)
        gradient = random(*y.shape, dtype=y.dtype) if gradient is None else gradient(y)
        y.backward(gradient)
        x2, w2 = (each.detach().float().requires_grad_() for each in (x, w))
        expected = loop(x2, w2 if is_transposed else w2.transpose(-2, -1), ends)
        used = ends[-1].item()
        expected[:used].backward(gradient[:used].float())
        self.assert_close(y[:used], expected[:used], "result")
        self.assert_close(x.grad[:used], x2.grad[:used], "gradient of input")
        self.assertEqual(weights.grad.stride(), weights.stride())
        self.assert_close(weights.grad, w2.grad, "gradient of weights")
        return y


class Results(Test):
    def test_both_layouts(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        has = found(roles.FORWARD, roles.DX, roles.DW)
        with only_kernels() if has else contextlib.nullcontext():
            self.check(ROWS, w, ends)
            self.check(ROWS, w, ends, is_transposed=False)

    def test_many_rows_after_few(self):
        w = random(E, N, K, scale=0.05)
        ops.products.forget()
        self.check(1, w, ends_of(drawn(1)))  # which nobody may have tuned
        with only_kernels() if found(roles.FORWARD, roles.DX, roles.DW) else contextlib.nullcontext():
            self.check(ROWS, w, ends_of(drawn(ROWS)))

    def test_float16(self):
        for is_transposed in (True, False):
            self.check(ROWS, random(E, N, K, dtype=torch.float16, scale=0.05), ends_of(drawn(ROWS)), is_transposed=is_transposed)

    def test_groups_of_all_kinds(self):
        w = random(E, N, K, scale=0.05)
        one = [0] * E
        one[E // 2] = ROWS
        first, last = [ROWS] + [0] * (E - 1), [0] * (E - 1) + [ROWS]
        odd = [1] * (E - 1) + [ROWS - E + 1]
        for sizes in (one, first, last, odd, drawn(ROWS, 5)):
            for is_transposed in (True, False):
                self.check(ROWS, w, ends_of(sizes), is_transposed=is_transposed)

    def test_numbers_of_rows(self):
        w = random(E, N, K, scale=0.05)
        for rows in (1, 2, 7, 63, 1000, ROWS + 1):
            for is_transposed in (True, False):
                self.check(rows, w, ends_of(drawn(rows, rows)), is_transposed=is_transposed)

    def test_no_rows(self):
        ends = torch.zeros(E, dtype=torch.int32, device=DEVICE)
        for is_transposed in (True, False):
            y = self.check(0, random(E, N, K), ends, is_transposed=is_transposed)
            self.assertEqual(y.shape, (0, N if is_transposed else K))

    def test_all_groups_empty(self):
        x = random(64, K).requires_grad_()
        w = random(E, N, K).requires_grad_()
        y = tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), torch.zeros(E, dtype=torch.int32, device=DEVICE))
        y.backward(torch.full_like(y, float("nan")))
        self.assertEqual(w.grad.abs().max().item(), 0)

    def test_rows_after_the_last_end(self):
        used = ROWS - 100
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(used, 3))

        def gradient(y):
            made = random(*y.shape)
            made[used:] = float("nan")
            return made

        for is_transposed in (True, False):
            x = random(ROWS, K if is_transposed else N)
            x[used:] = float("nan")
            self.check(x, w, ends, gradient, is_transposed)

    def test_gradients_of_all_kinds(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        kinds = {
            "expanded": lambda y: torch.ones((), device=DEVICE, dtype=y.dtype).expand(y.shape),
            "rows expanded": lambda y: random(1, y.shape[1]).expand(y.shape),
            "transposed": lambda y: random(y.shape[1], y.shape[0]).t(),
            "with gaps": lambda y: random(y.shape[0], y.shape[1] + 8)[:, 8:],
            "misaligned": lambda y: random(y.numel() + 1)[1:].view(y.shape),
        }
        for name, gradient in kinds.items():
            for is_transposed in (True, False):
                with self.subTest(name):
                    self.check(ROWS, w, ends, gradient, is_transposed)

    def test_inputs_of_all_kinds(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        for x in (random(K, ROWS).t(), random(ROWS, K + 8)[:, 8:], random(ROWS * K + 1)[1:].view(ROWS, K), random(1, K).expand(ROWS, K)):
            self.check(x, w, ends)
        wide = torch.zeros(2 * E, dtype=torch.int32, device=DEVICE)
        wide[::2] = ends
        self.check(random(ROWS, K), w, wide[::2])
        apart, x = random(E * N * K + 1, scale=0.05)[1:].view(E, N, K), random(ROWS, K)
        for hidden in ((), (roles.FORWARD,)):
            with without(*hidden):
                y = tunefarm.torch.grouped_mm(x, apart.transpose(-2, -1), ends)
                self.assert_close(y, loop(x, apart, ends))

    def test_one_needs_a_gradient(self):
        x, w, ends = random(ROWS, K), random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        gradient = random(ROWS, N)
        x2, w2 = x.float().requires_grad_(), w.float().requires_grad_()
        loop(x2, w2, ends).backward(gradient.float())
        for needs in ((True, False), (False, True)):
            x1, w1 = x.clone().requires_grad_(needs[0]), w.clone().requires_grad_(needs[1])
            y = tunefarm.torch.grouped_mm(x1, w1.transpose(-2, -1), ends)
            kept = [each for each in y.grad_fn.saved_tensors if each is not None]
            self.assertEqual(len(kept), 2)
            y.backward(gradient)
            if needs[0]:
                self.assert_close(x1.grad, x2.grad)
            else:
                self.assert_close(w1.grad, w2.grad)

    def test_gradients_of_gradients(self):
        rows = 64
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(rows))
        for is_transposed in (True, False):
            x, results = random(rows, K if is_transposed else N), []
            for function, kind in ((tunefarm.torch.grouped_mm, torch.bfloat16), (None, torch.float32)):
                x1 = x.to(kind, copy=True).requires_grad_()
                w1 = w.to(kind, copy=True).requires_grad_()
                mat2 = w1.transpose(-2, -1) if is_transposed else w1
                y = function(x1, mat2, ends) if function else loop(x1, mat2.transpose(-2, -1), ends)
                first = torch.autograd.grad((y * y.detach()).sum(), (x1, w1), create_graph=True)
                second = torch.autograd.grad((first[0] * x.to(kind)).sum() + (first[1] * 0.5).sum(), (x1, w1))
                results.append(second)
            for got, expected in zip(*results):
                difference = (got.float() - expected).norm() / expected.norm()
                self.assertLess(difference.item(), 0.02, is_transposed)

    def test_a_missing_kernel_is_one_of_torch(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        for hidden in ((roles.DW,), (roles.DX,), (roles.FORWARD,), (roles.FORWARD, roles.DX, roles.DW)):
            with without(*hidden):
                for is_transposed in (True, False):
                    self.check(ROWS, w, ends, is_transposed=is_transposed)


class Fallback(Test):
    def test_what_is_not_covered_is_computed_by_torch_and_said_once(self):
        x, w, ends = random(ROWS, K), random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        mat2 = w.transpose(-2, -1)
        calls = {
            "three dimensions": (random(E, 16, K), mat2, None),
            "two dimensions": (random(ROWS, 64).t(), random(ROWS, N), ends),
            "no package": (random(ROWS, 64), random(E, 64, 64), ends),
            "gaps in weights": (x, random(E, N, K + 8)[:, :, :K].transpose(-2, -1), ends),
        }
        for name, (a, b, offs) in calls.items():
            with self.subTest(name):
                roles._noted.clear()
                expected = torch._grouped_mm(a, b, offs=offs)
                ops.products.forget()
                with self.assertLogs("tunefarm.torch", logging.WARNING) as logs:
                    for _ in range(3):
                        got = tunefarm.torch.grouped_mm(a, b, offs)
                        self.assert_close(got, expected)
                self.assertEqual(len(logs.output), 1, logs.output)

    def test_torch_refuses_what_it_refuses(self):
        x, w, ends = random(ROWS, K), random(E, N, K), ends_of(drawn(ROWS))
        mat2 = w.transpose(-2, -1)
        for arguments in ((x, mat2, ends.long()), (x[:, :-8], mat2, ends), (x, mat2, ends[:-1]), (x, mat2, None)):
            with self.assertRaises((RuntimeError, ValueError)):
                torch._grouped_mm(arguments[0], arguments[1], offs=arguments[2])
            with self.assertRaises((RuntimeError, ValueError)):
                tunefarm.torch.grouped_mm(*arguments)
        with self.assertRaises(RuntimeError):
            tunefarm.torch.grouped_mm(x, mat2, ends, bias=random(N))

    def test_load_forgets_what_was_not_found(self):
        ops.products.found, ops.products.calls = {("something",): None}, {("something",): None}
        with self.assertRaises(tunefarm.TunefarmError):
            tunefarm.torch.load("/nowhere.tfpack")
        if ops.products._packages:
            tunefarm.torch.load(ops.products._packages.pop(0))
            self.assertEqual((ops.products.found, ops.products.calls), ({}, {}))

    def test_neither_grpc_nor_numpy_is_needed(self):
        code = "import sys; sys.modules.update(dict.fromkeys(('grpc', 'google', 'google.protobuf'))); import tunefarm.torch"
        subprocess.run([sys.executable, "-c", code], check=True)


class Torch(Test):
    def arguments(self, rows=64, needs=True):
        return random(rows, K).requires_grad_(needs), random(E, N, K, scale=0.05).requires_grad_(needs), ends_of(drawn(rows))

    def test_opcheck(self):
        x, w, ends = self.arguments()
        for a, mat2 in ((x, w.detach().transpose(-2, -1).requires_grad_()), (random(64, N).requires_grad_(), w)):
            torch.library.opcheck(torch.ops.tunefarm.grouped_mm.default, (a, mat2, ends))
        torch.library.opcheck(torch.ops.tunefarm.grouped_mm_weights.default, (random(64, N).requires_grad_(), x, ends))
        layer = drawn_layer(tokens=16)
        ends, order = sorted_rows(layer)
        tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        weights = layer["topk_weights"].detach().reshape(-1)
        rows = 16 * TOPK
        for product, a, b in (("up", layer["x"], layer["w_up"]), ("up_activated", layer["x"], layer["w_up"]),
                              ("up_dx", random(rows, N), layer["w_up"]), ("up_dw", random(rows, N), layer["x"]),
                              ("down", random(rows, N // 2), layer["w_down"]),
                              ("down_dx", random(16, K), layer["w_down"]), ("down_dw", random(16, K), random(rows, N // 2))):
            torch.library.opcheck(torch.ops.tunefarm.layer_product.default, (
                product, a.detach(), b.detach(), ends, (order // TOPK if product in ("down_dx", "down_dw") else order).int(),
                weights if product == "down" else None, TOPK), test_utils=tests)

    def test_the_dispatcher_gives_the_same(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        for is_transposed in (True, False):
            self.check(ROWS, w, ends, None, is_transposed, torch.ops.tunefarm.grouped_mm)

    def test_compile_with_rows_as_a_dynamic_size(self):
        w = random(E, N, K, scale=0.05).requires_grad_()

        @torch.compile(fullgraph=True)
        def function(x, w, ends):
            y = tunefarm.torch.grouped_mm(x * 2, w.transpose(-2, -1), ends)
            z = tunefarm.torch.grouped_mm(torch.nn.functional.silu(y), w, ends)
            return z * 0.5

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        has = found(roles.FORWARD, roles.DX, roles.DW)
        for step, rows in enumerate((ROWS // 2, ROWS // 2 + 72, ROWS - 99, ROWS)):
            with contextlib.ExitStack() as stack:
                if step > 1:  # the second one makes the rows a symbol
                    stack.enter_context(torch._dynamo.config.patch(error_on_recompile=True))
                if has:
                    stack.enter_context(only_kernels())
                x, ends = random(rows, K).requires_grad_(), ends_of(drawn(rows, rows))
                w.grad = None
                z = function(x, w, ends)
                z.backward(torch.ones_like(z))
            x2, w2 = x.detach().float().requires_grad_(), w.detach().float().requires_grad_()
            y2 = loop(x2 * 2, w2, ends)
            z2 = loop(torch.nn.functional.silu(y2), w2.transpose(-2, -1), ends) * 0.5
            z2.sum().backward()
            for got, expected in ((z, z2), (x.grad, x2.grad), (w.grad, w2.grad)):
                self.assertLess(((got.float() - expected).norm() / expected.norm()).item(), 0.01)
        self.assertLessEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 2)
        self.assertFalse(torch._dynamo.utils.counters["graph_break"])

    def test_compile_marked_dynamic(self):
        w, mark = random(E, N, K, scale=0.05), torch._dynamo.mark_dynamic
        torch._dynamo.reset()
        function = torch.compile(lambda x, w, ends: tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends), fullgraph=True)
        for step, rows in enumerate((64, 100, ROWS)):
            x, ends = random(rows, K), ends_of(drawn(rows, rows))
            mark(x, 0)
            with torch._dynamo.config.patch(error_on_recompile=step > 0):
                self.assert_close(function(x, w, ends), loop(x, w, ends))

    def test_a_trace_has_the_operator(self):
        x, w, ends = self.arguments(needs=False)

        def function(x, w, ends):
            return tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends)

        tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends)
        graph = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="symbolic")(x, w, ends)
        self.assertIn("tunefarm.grouped_mm", graph.code)
        x, ends = random(100, K), ends_of(drawn(100))
        self.assert_close(graph(x, w, ends), loop(x, w, ends))

    def test_compile_of_what_torch_computes(self):
        torch._dynamo.reset()
        roles._noted.clear()
        function = torch.compile(lambda a, b: tunefarm.torch.grouped_mm(a, b))
        a, b = random(4, 16, 64), random(4, 64, 32)
        with self.assertLogs("tunefarm.torch", logging.WARNING) as logs:
            self.assert_close(function(a, b), torch._grouped_mm(a, b))
            function(a, b)
        self.assertEqual(len(logs.output), 1)

    @ON_CUDA
    def test_cuda_graph(self):
        x, w, ends = self.arguments(ROWS)
        gradient = random(ROWS, N)

        def step():
            y = tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends)
            return (y, *torch.autograd.grad(y, (x, w), gradient))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = step()
        for seed in range(3):
            sizes = drawn(ROWS, 100 + seed)
            with torch.no_grad():
                x.copy_(random(ROWS, K)), ends.copy_(ends_of(sizes)), gradient.copy_(random(ROWS, N))
            graph.replay()
            x2, w2 = x.detach().float().requires_grad_(), w.detach().float().requires_grad_()
            y2 = loop(x2, w2, ends)
            y2.backward(gradient.float())
            for got, expected in zip(outputs, (y2, x2.grad, w2.grad)):
                self.assert_close(got, expected)

    @ON_CUDA
    def test_compile_with_cuda_graphs(self):
        w = random(E, N, K, scale=0.05)
        torch._dynamo.reset()
        function = torch.compile(lambda x, w, ends: tunefarm.torch.grouped_mm(x + 1, w.transpose(-2, -1), ends), mode="reduce-overhead")
        for seed in range(4):
            x, ends = random(ROWS, K), ends_of(drawn(ROWS, seed))
            self.assert_close(function(x, w, ends), loop(x + 1, w, ends))

    def test_modes(self):
        x, w, ends = self.arguments(ROWS)
        expected = loop(x, w, ends)
        mat2 = w.transpose(-2, -1)
        with torch.no_grad():
            y = tunefarm.torch.grouped_mm(x, mat2, ends)
            self.assertFalse(y.requires_grad)
            self.assert_close(y, expected)
        with torch.inference_mode():
            y = tunefarm.torch.grouped_mm(x, mat2, ends)
            self.assertTrue(y.is_inference())
            self.assert_close(y, expected)
        with torch.autocast(DEVICE, torch.bfloat16):
            y = tunefarm.torch.grouped_mm(x, mat2, ends)
            self.assert_close(y, expected)
            y.sum().backward()
        seen = []

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                seen.append(function)
                return function(*arguments, **(named or {}))

        with Watch():
            y = tunefarm.torch.grouped_mm(x, mat2, ends)
        self.assertIn(torch.ops.tunefarm.grouped_mm.default, seen)
        self.assertTrue(y.requires_grad)

    def test_transforms(self):
        x, w, ends = self.arguments(needs=False)
        expected_x, expected_w = x.float().requires_grad_(), w.float().requires_grad_()
        loop(expected_x, expected_w, ends).sum().backward()

        def total(x, w):
            return tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends).float().sum()

        got_x, got_w = torch.func.grad(total, argnums=(0, 1))(x, w)
        self.assert_close(got_x, expected_x.grad)
        self.assert_close(got_w, expected_w.grad)
        with self.assertRaises(Exception):
            torch.func.jvp(lambda x: tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends), (x,), (x,))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, x)
            with self.assertRaises(Exception):
                tunefarm.torch.grouped_mm(dual, w.transpose(-2, -1), ends)
        stacked = torch.stack([x, x * 2])
        y = torch.func.vmap(lambda x: tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends))(stacked)
        self.assert_close(y[1], loop(x * 2, w, ends))

    def test_hooks_and_checkpoints(self):
        x, w, ends = self.arguments(ROWS)
        seen = []
        y = tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends)
        y.register_hook(lambda gradient: seen.append("y"))
        x.register_hook(lambda gradient: seen.append("x"))
        w.register_post_accumulate_grad_hook(lambda parameter: seen.append("w"))
        y.sum().backward()
        self.assertEqual(sorted(seen), ["w", "x", "y"])
        kept = w.grad.clone()
        w.grad = None
        again = torch.utils.checkpoint.checkpoint(
            lambda x: tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends), x, use_reentrant=False)
        again.sum().backward()
        self.assertTrue(torch.equal(kept, w.grad))
        packed = []
        with torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each, lambda each: each):
            tunefarm.torch.grouped_mm(x, w.transpose(-2, -1), ends).sum().backward()
        self.assertEqual(len(packed), 3)

    @ON_CUDA
    def test_streams(self):
        w, ends = random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        streams = [torch.cuda.Stream() for _ in range(3)]
        inputs = [random(ROWS, K) for _ in streams]
        torch.cuda.synchronize()
        outputs = []
        for stream, x in zip(streams, inputs):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                made = x + 1  # on this stream, after the wait
                outputs.append(tunefarm.torch.grouped_mm(made, w.transpose(-2, -1), ends))
                made.zero_()
        torch.cuda.synchronize()
        for x, y in zip(inputs, outputs):
            self.assert_close(y, loop(x + 1, w, ends))

    def test_threads(self):
        w, failures = random(E, N, K, scale=0.05), []

        def work(seed):
            try:
                with torch.cuda.stream(torch.cuda.Stream()) if DEVICE == "cuda" else contextlib.nullcontext():
                    for rows in (64 + seed, ROWS):
                        self.check(rows, w, ends_of(drawn(rows, seed)), is_transposed=bool(seed % 2))
            except Exception as error:
                failures.append(error)

        torch.cuda.synchronize() if DEVICE == "cuda" else None
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    @unittest.skipUnless(torch.cuda.device_count() > 1, "there is one GPU")
    def test_another_device_than_the_current_one(self):
        x, w, ends = random(ROWS, K), random(E, N, K, scale=0.05), ends_of(drawn(ROWS))
        expected = loop(x, w, ends)
        with torch.cuda.device(0):
            y = tunefarm.torch.grouped_mm(x.to("cuda:1"), w.to("cuda:1").transpose(-2, -1), ends.to("cuda:1"))
            self.assertEqual(y.device, torch.device("cuda:1"))
            self.assert_close(y.to(DEVICE), expected)
        with self.assertRaises(RuntimeError):
            tunefarm.torch.grouped_mm(x, w.to("cuda:1").transpose(-2, -1), ends)


def plain_layer(x, w_up, w_down, topk_ids, topk_weights):
    """The layer in single precision."""
    inner = w_down.shape[2]
    out = torch.zeros_like(x)
    for e in range(w_up.shape[0]):
        token, slot = (topk_ids == e).nonzero(as_tuple=True)
        up = x[token] @ w_up[e].t()
        y = (torch.nn.functional.silu(up[:, :inner]) * up[:, inner:]) @ w_down[e].t()
        out = out.index_add(0, token, y * topk_weights[token, slot].unsqueeze(1))
    return out


class Layers(Test):
    def check_layer(self, layer, call=tunefarm.torch.moe_mlp):
        differentiable = [layer[name] for name in ("x", "w_up", "w_down", "topk_weights")]
        out = call(**layer)
        gradient = random(*out.shape)
        got = torch.autograd.grad(out, differentiable, gradient)
        exact = {name: each.detach().float().requires_grad_() if each.is_floating_point() else each for name, each in layer.items()}
        expected_out = plain_layer(**exact)
        expected = torch.autograd.grad(expected_out, [exact[name] for name in ("x", "w_up", "w_down", "topk_weights")], gradient.float())
        for name, one, other in zip(("result", "x", "w_up", "w_down", "topk_weights"), (out, *got), (expected_out, *expected)):
            self.assertEqual(one.shape, other.shape)
            if other.numel():
                # Five roundings to 8 bits one after another.
                self.assertLess(((one.float() - other).norm() / other.norm().clamp(min=1e-9)).item(), 0.015, name)
        return out

    def test_against_a_plain_layer(self):
        has = (found(roles.UP, roles.UP_DX, roles.UP_DW, topk=TOPK) and
               found(roles.DOWN, roles.DOWN_DX, roles.DOWN_DW, n=K, k=N // 2, topk=TOPK))
        print("with gathered rows" if has else "packed, around gathers", end=" ... ", file=sys.stderr)
        self.check_layer(drawn_layer())

    def test_packed_products_around_gathers(self):
        layer = drawn_layer()
        with without(roles.UP, roles.UP_DX, roles.UP_DW, roles.DOWN, roles.DOWN_DX, roles.DOWN_DW):
            self.check_layer(layer)

    def test_no_kernel_at_all(self):
        layer = drawn_layer()
        with without(*(each for each in vars(roles).values() if isinstance(each, roles.Role))):
            self.check_layer(layer)

    def test_few_tokens(self):
        for tokens in (0, 1, 3):
            layer = drawn_layer(tokens=tokens)
            if tokens:
                self.check_layer(layer)
            else:
                out = tunefarm.torch.moe_mlp(**layer)
                out.sum().backward()
                self.assertEqual((out.shape, layer["w_up"].grad.abs().max().item()), ((0, K), 0))

    def test_odd_inputs(self):
        layer = drawn_layer()
        layer["topk_ids"] = layer["topk_ids"].int()
        layer["x"] = random(ROWS // TOPK, K + 8)[:, 8:].requires_grad_()
        layer["w_down"] = layer["w_down"].detach().transpose(-2, -1).contiguous().transpose(-2, -1).requires_grad_()
        self.check_layer(layer)

    def test_wrong_shapes_are_refused_in_a_sentence(self):
        layer = drawn_layer(tokens=8, needs=False)
        for name, value in (("w_up", layer["w_up"][:, :-8]), ("x", layer["x"][:, :-8]), ("topk_ids", layer["topk_ids"][1:]),
                            ("w_down", layer["w_down"].half()), ("x", layer["x"][0])):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "moe_mlp"):
                tunefarm.torch.moe_mlp(**{**layer, name: value})
        for value in (layer["topk_ids"].float(), layer["topk_ids"] > 3):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "they are integers"):
                tunefarm.torch.moe_mlp(**{**layer, "topk_ids": value})
        for name in ("w_up", "w_down", "topk_ids", "topk_weights"):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"{name} is on meta, and x on {DEVICE}"):
                tunefarm.torch.moe_mlp(**{**layer, name: layer[name].to("meta")})

    def test_some_need_a_gradient(self):
        full = drawn_layer()
        out = tunefarm.torch.moe_mlp(**full)
        names = ("x", "w_up", "w_down", "topk_weights")
        expected = dict(zip(names, torch.autograd.grad(out.float().sum(), [full[name] for name in names])))
        for name in names:
            some = {other: each.detach().requires_grad_(other == name) if each.is_floating_point() else each for other, each in full.items()}
            tunefarm.torch.moe_mlp(**some).float().sum().backward()
            self.assertTrue(torch.equal(some[name].grad, expected[name]), name)

    def test_modes(self):
        layer = drawn_layer()
        expected = tunefarm.torch.moe_mlp(**layer).detach()
        for mode in (torch.no_grad(), torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16)):
            # Without gradients the activation would take sums that are not rounded.
            with self.subTest(type(mode).__name__), without(roles.UP_ACTIVATED, roles.GATE_UP["split"]):
                with mode:
                    out = tunefarm.torch.moe_mlp(**layer)
                self.assertEqual((out.dtype, out.requires_grad), (expected.dtype, isinstance(mode, torch.autocast)))
                self.assertTrue(torch.equal(out, expected))

    def test_gradients_of_gradients_are_refused(self):
        layer = drawn_layer(tokens=16)
        for name in ("x", "topk_weights"):
            for frozen in (False, True):
                given = {other: each.detach().requires_grad_() if each.is_floating_point() else each for other, each in layer.items()}
                if frozen:
                    given["w_up"], given["w_down"] = given["w_up"].detach(), given["w_down"].detach()
                out = tunefarm.torch.moe_mlp(**given)
                (first,) = torch.autograd.grad(out.float().sum(), given[name], create_graph=True)
                with self.assertRaisesRegex(Exception, "no gradients of gradients"):
                    (first.float().square().sum() + given["x"].float().square().sum()).backward()

    def test_what_does_not_fit_together_is_left_to_torch(self):
        layer = drawn_layer(tokens=16, needs=False)
        ends, order = sorted_rows(layer)
        good = ("up", layer["x"], layer["w_up"], ends, order.int(), None, TOPK)
        expected = torch.ops.tunefarm.layer_product(*good)
        spread = torch.zeros(2 * E, dtype=torch.int32, device=DEVICE)
        spread[::2] = ends
        for at, value in ((3, spread[::2]), (4, order)):  # with gaps, and of another type
            given = [*good[:at], value, *good[at + 1:]]
            self.assert_close(torch.ops.tunefarm.layer_product(*given), expected)
        for at, value in ((2, layer["w_up"].cpu()), (3, ends[1:]), (3, ends.long()))[DEVICE == "cpu":]:
            with self.assertRaises(RuntimeError):
                torch.ops.tunefarm.layer_product(*good[:at], value, *good[at + 1:])

    def test_compile(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        function = torch.compile(tunefarm.torch.moe_mlp, fullgraph=True)
        for step, tokens in enumerate((16, 40, 100, ROWS // TOPK)):
            with torch._dynamo.config.patch(error_on_recompile=step > 1):
                self.check_layer(drawn_layer(tokens=tokens), function)
        self.assertLessEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 2)

    @ON_CUDA
    def test_cuda_graph(self):
        layer = drawn_layer()
        names = ("x", "w_up", "w_down", "topk_weights")
        gradient = random(ROWS // TOPK, K)

        def step():
            out = tunefarm.torch.moe_mlp(**layer)
            return (out, *torch.autograd.grad(out, [layer[name] for name in names], gradient))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = step()
        fresh = drawn_layer()
        with torch.no_grad():
            for name, each in layer.items():
                each.copy_(fresh[name])
        graph.replay()
        captured = [each.clone() for each in outputs]
        for got, expected in zip(captured, step()):
            self.assertTrue(torch.equal(got, expected))


class HostCost(Test):
    @ON_CUDA
    def test_medians(self):
        """Microseconds a call; what is measured is printed and asserted nowhere."""
        rows = ROWS
        # Few of the rows belong to an expert, so that the device never keeps the host waiting.
        x, w, ends = random(rows, K), random(E, N, K, scale=0.05), ends_of([8] + [0] * (E - 1))
        mat2 = w.transpose(-2, -1)
        needs_x, needs_mat2 = x.clone().requires_grad_(), mat2.detach().requires_grad_()

        def median(call, count=3000):
            times = []
            for index in range(count):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
                if index % 50 == 0:
                    torch.cuda.synchronize()
            return 1e6 * statistics.median(times)

        cases = {
            "Tensor.new_empty": lambda: x.new_empty((rows, N)),
            "torch._grouped_mm": lambda: torch._grouped_mm(x, mat2, offs=ends),
            "torch._grouped_mm, grad": lambda: torch._grouped_mm(needs_x, needs_mat2, offs=ends),
            "tunefarm.torch.grouped_mm": lambda: tunefarm.torch.grouped_mm(x, mat2, ends),
            "tunefarm.torch.grouped_mm, grad": lambda: tunefarm.torch.grouped_mm(needs_x, needs_mat2, ends),
            "torch.ops.tunefarm.grouped_mm": lambda: torch.ops.tunefarm.grouped_mm(x, mat2, ends),
            "torch.ops.tunefarm.grouped_mm, grad": lambda: torch.ops.tunefarm.grouped_mm(needs_x, needs_mat2, ends),
        }
        key = (roles.FORWARD, E, N, K, torch.bfloat16, 1, 0)
        product = ops.find(key, rows)
        if product is not None:
            y = x.new_empty((rows, N))
            one = torch.zeros(1, dtype=torch.float32, device=DEVICE)
            cases["Kernel.__call__ of six tensors"] = lambda: product._kernels[0](
                x=x, w=w, y=y, m_sizes=ends, gather_indices=ends, topk_weights=one, tokens=rows)
            cases["allocation as generated code does it"] = lambda: ops._empty_strided((rows, N), (N, 1), torch.bfloat16)
            pointers = (x.data_ptr(), w.data_ptr(), y.data_ptr(), ends.data_ptr(), ends.data_ptr(), ends.data_ptr())
            stream = ops.stream_of(0)
            cases["a launch of checked tensors"] = lambda: product.launch(rows, pointers, stream)

        def backward():
            y = tunefarm.torch.grouped_mm(needs_x, needs_mat2, ends)
            torch.autograd.grad(y, (needs_x, needs_mat2), y)

        def backward_of_torch():
            y = torch._grouped_mm(needs_x, needs_mat2, offs=ends)
            torch.autograd.grad(y, (needs_x, needs_mat2), y)

        cases["forward and backward"], cases["forward and backward of torch"] = backward, backward_of_torch
        print(file=sys.stderr)
        for name, call in cases.items():
            print(f"  {median(call):6.1f} µs  {name}", file=sys.stderr)


def main():
    global E, N, K, ROWS
    parser = argparse.ArgumentParser()
    for name, value in (("experts", E), ("n", N), ("k", K), ("rows", ROWS)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", action="append", default=[], help="tests whose names have this text")
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    E, N, K, ROWS = options.experts, options.n, options.k, options.rows
    torch.backends.cuda.matmul.allow_tf32 = False
    for path in options.packages:
        tunefarm.torch.load(path)
    for name, role in vars(roles).items():
        if isinstance(role, roles.Role):
            role = {"": role}
        elif name not in ("FP8", "FP8_UP", "FP8_DOWN", "GATE_UP"):
            continue
        for layout, each in role.items():
            n, k = (K, N // 2) if "DOWN" in name else (N, K)
            has = found(each, n=n, k=k, topk=TOPK if each.permute_x or each.permute_y else 1,
                        dtype=torch.float8_e4m3fn if each.scale_layout else torch.bfloat16)
            print(f"{name} {layout}: {'in the packages' if has else 'not in the packages'}", file=sys.stderr)
    # Its tests use what is here, with these sizes.
    sys.modules["torch_grouped_mm_test"] = sys.modules["__main__"]
    import torch_inference
    globals().update({name: each for name, each in vars(torch_inference).items() if isinstance(each, type)})
    unittest.main(argv=[sys.argv[0], *(f"-k={text}" for text in options.only)], verbosity=2)


if __name__ == "__main__":
    main()
