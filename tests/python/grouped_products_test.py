"""What tunefarm.torch knows without torch: which kernel computes a product, and how kernels of packages are found."""

import logging
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from tunefarm import NotFoundError
from tunefarm import _definitions
from tunefarm import _grouped_products as products
from tunefarm.launch import Argument, Plan
from tunefarm.v1 import kernel_pb2, value_pb2

KERNELS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "kernels" / "grouped_gemm"
ROLES = {**{name: role for name, role in vars(products).items() if isinstance(role, products.Role)},
         **{f"{name} {layout}": role for name in ("FP8", "FP8_UP", "FP8_DOWN", "GATE_UP")
            for layout, role in vars(products)[name].items()}}
BF16 = "the caller's bfloat16"


class Problem:
    def __init__(self, tokens, plan):
        self.tokens, self.plan = tokens, plan


class Kernel:
    """A loaded kernel that has another plan for each number of tokens."""

    def __init__(self, name, arguments, plans):
        self.name, self.plans, self.dims = name, plans, ("tokens",)
        self.arguments = tuple(Argument(each, "bf16", "IN") for each in arguments)
        self.looked_up, self.launched = [], []

    def _look_up(self, dims):
        self.looked_up.append(dims)
        plan = self.plans.get(dims[0])
        if plan is None:
            raise NotFoundError("no config for so many tokens")
        return Problem(dims[0], plan)

    def _launch_checked(self, problem, pointers, stream):
        self.launched.append((problem.tokens, pointers, stream))


def plan(match="NEAREST", workspace=0, needs_prepare=False):
    return Plan(1, workspace, needs_prepare, match, 0.0, None, "")


class Package:
    def __init__(self, plans, name="grouped_gemm_forward", arguments=products.FORWARD.arguments, refuses=None):
        self.kernels, self.given, self.refuses = (name,), [], refuses
        self.made = Kernel(name, arguments, plans)

    def kernel(self, name, **dims):
        self.given.append((name, dims))
        if self.refuses:
            raise NotFoundError(self.refuses)
        return self.made


def found(table, tokens=64, role=products.FORWARD, n=16):
    return table.find((role, 4, n, 32, BF16, 1, 0), "bf16", tokens)


class Layouts(unittest.TestCase):
    def test_how_weights_lie_in_memory(self):
        for shape, strides, expected in (((4, 16, 32), (512, 1, 16), True), ((4, 16, 32), (512, 32, 1), False),
                                         ((1, 16, 32), (7, 1, 16), True), ((1, 16, 32), (0, 32, 1), False),
                                         ((4, 16, 32), (0, 1, 16), None), ((4, 16, 32), (1024, 1, 16), None),
                                         ((4, 16, 32), (512, 1, 24), None), ((4, 16, 32), (640, 40, 1), None),
                                         ((4, 16, 32), (1, 128, 4), None), ((4, 16, 32), (0, 0, 0), None)):
            self.assertIs(products.transposed(shape, strides), expected, (shape, strides))

    def test_the_roles_are_what_the_definitions_say(self):
        self.assertEqual(len(ROLES), 19)
        for name, role in ROLES.items():
            definition = _definitions.load(KERNELS / f"{role.kernel}.pbtxt")
            # A package gives them in the order of the definition.
            given = {each for launch in definition.launches for each in launch.kernel.arguments}
            self.assertEqual(tuple(argument.name for argument in definition.arguments
                                   if argument.HasField("buffer") and argument.name in given), role.arguments, name)
            known = {dim.name: dim for dim in definition.dims if not dim.inputs_only}
            kinds = (value_pb2.VALUE_TYPE_BOOL, value_pb2.VALUE_TYPE_STRING)
            words = {each for each, dim in known.items() if dim.type in kinds}
            self.assertEqual(set(role.dims()), words - {"dtype"}, name)
            for each, value in role.dims().items():
                if isinstance(value, str):
                    self.assertIn(value, [one.string_value for one in known[each].values], name)
                else:
                    self.assertEqual(known[each].bind, kernel_pb2.BIND_COMPILE, name)
            self.assertIn("group_ends", known)
            if role.takes_default:
                self.assertIn("fp8", [one.string_value for one in known["dtype"].values])

    def test_nothing_needs_torch(self):
        code = "import sys; sys.modules.update(dict.fromkeys(('torch', 'grpc', 'google', 'numpy'))); import tunefarm._grouped_products"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)

    def test_without_torch_one_line_says_so(self):
        code = "import sys; sys.modules['torch'] = None; import tunefarm; tunefarm.torch"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
        self.assertRegex(done.stderr.splitlines()[-1], "^(ImportError|ModuleNotFoundError): .*torch")


class Finding(unittest.TestCase):
    def setUp(self):
        products._noted.clear()
        self.table = products.Products()
        for patched in (mock.patch.dict(os.environ, {products.ENVIRONMENT: ""}),
                        mock.patch.object(products.launch, "Package", Package),
                        mock.patch.object(products.logger, "propagate", False)):
            patched.start()
            self.addCleanup(patched.stop)

    def test_a_launch(self):
        package = Package({64: plan(), 65: plan("EXACT")})
        self.assertIs(self.table.load(package), package)
        product = found(self.table)
        self.assertEqual(package.given, [("grouped_gemm_forward", dict(
            device=0, E=4, N=16, K=32, dtype="bf16", topk=1, group_ends=1, permute_x=False, permute_y=False, fuse_mul_post=False))])
        for _ in range(2):
            self.assertTrue(product.launch(64, (1, 2), 7))
            self.assertTrue(product.launch(65, (3, 4), 8))
        self.assertEqual(package.made.launched, [(64, (1, 2), 7), (65, (3, 4), 8)] * 2)
        self.assertEqual(package.made.looked_up, [(64,), (65,)])
        self.assertIs(found(self.table), product)
        self.assertEqual(len(package.given), 1)

    def test_flags_are_compiled_in(self):
        package = Package({8: plan()}, "grouped_gemm_dx", products.DX.arguments)
        self.table.load(package)
        self.table.find((products.UP_DX, 4, 16, 32, BF16, 8, 1), "bf16", 8)
        ((_, dims),) = package.given
        self.assertEqual(dims, dict(device=1, E=4, N=16, K=32, dtype="bf16", topk=8, group_ends=1, permute_x=True, permute_y=False))

    def test_what_a_launch_cannot_do_is_refused_for_those_tokens(self):
        package = Package({1: plan("DEFAULT"), 2: plan(workspace=8), 3: plan(needs_prepare=True), 64: plan("SAME_ARCH")})
        self.table.load(package)
        product = found(self.table)
        with self.assertLogs(products.logger, logging.WARNING):
            for tokens in (1, 2, 3, 4, 1, 2, 3, 4):
                self.assertFalse(product.launch(tokens, (1, 2), 7))
        self.assertEqual((package.made.launched, len(package.made.looked_up)), ([], 5))

    def test_texts_are_compiled_in(self):
        package = Package({8: plan()}, "grouped_gemm_gate_up", products.UP_ACTIVATED.arguments)
        self.table.load(package)
        self.assertTrue(self.table.find((products.UP_ACTIVATED, 4, 16, 32, BF16, 8, 1), "bf16", 8).launcher(8))
        ((_, dims),) = package.given
        self.assertEqual(dims, dict(device=1, E=4, N=16, K=32, dtype="bf16", topk=8, group_ends=1, permute_x=True,
                                    permute_y=False, gate_up="split"))

    def test_where_nothing_else_computes_it_a_default_config_is_launched_and_said_once(self):
        role = products.FP8["row_major"]
        key = (role, 4, 16, 32, "e4m3", 1, 0)
        plans = {tokens: plan("DEFAULT", workspace=8 if tokens == 2 else 0) for tokens in (1, 2, 3, 64)}
        default = Package(plans, role.kernel, role.arguments)
        tuned = Package({64: plan()}, role.kernel, role.arguments)
        for package in (tuned, default):
            self.table.load(package)
        product = self.table.find(key, "fp8", 64)
        self.assertTrue(product.launch(64, (1,), 0))
        with self.assertLogs(products.logger, logging.WARNING) as logs:
            self.assertTrue(product.launch(1, (2,), 0))
            self.assertFalse(product.launch(2, (3,), 0))
            self.assertTrue(product.launch(3, (4,), 0))
        self.assertEqual((tuned.made.launched, default.made.launched), ([(64, (1,), 0)], [(1, (2,), 0), (3, (4,), 0)]))
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], "grouped_gemm_forward_fp8 tuned for E=4, N=16, K=32, dtype=fp8, "
                         "scale_layout=row_major on CUDA device 0, topk=1 .*such as 1, which get the default config$")

    def test_where_nothing_else_computes_it_the_reason_is_for_an_error(self):
        role = products.FP8["mn_major"]
        key = (role, 4, 16, 32, "e4m3", 1, 0)
        self.assertIsNone(self.table.find(key, "fp8", 64))
        self.assertEqual(products._noted, set())
        self.assertRegex(self.table.missing[key], "^no loaded package has grouped_gemm_forward_fp8 tuned for .*mn_major.*"
                         f"{products.ENVIRONMENT}")
        self.table.load(Package({64: plan()}))
        self.assertEqual(self.table.missing, {})

    def test_memory_of_plans_is_bounded(self):
        package = Package(dict.fromkeys(range(5000), plan()))
        self.table.load(package)
        product = found(self.table)
        for tokens in range(1, 5000):
            product.launch(tokens, (), 0)
        self.assertLessEqual(len(product._launchers), products._REMEMBERED_MAX)

    def test_the_last_package_is_asked_first(self):
        first, second, third = Package({64: plan()}), Package({64: plan()}), Package({64: plan("DEFAULT")})
        for package in (first, second, third):
            self.table.load(package)
        self.assertTrue(found(self.table).launch(64, (), 0))
        self.assertEqual([len(each.made.launched) for each in (first, second, third)], [0, 1, 0])

    def test_the_first_call_does_not_decide_for_others(self):
        """Its number of tokens may be too far from all tuned ones, as that of a short warm-up is, or be in one package alone."""
        large, small = Package({4096: plan()}), Package({64: plan(), 4096: plan("DEFAULT")})
        for package in (large, small):
            self.table.load(package)
        with self.assertLogs(products.logger, logging.WARNING) as logs:
            product = found(self.table, tokens=1)
            self.assertFalse(product.launch(1, (), 0))
        self.assertEqual(len(logs.output), 1)
        self.assertIn("grouped_gemm_forward tuned for E=4, N=16, K=32, dtype=bf16 on CUDA device 0, topk=1 for some numbers of "
                      "tokens, such as 1", logs.output[0])
        self.assertIs(found(self.table, tokens=4096), product)
        self.assertEqual([bool(product.launcher(tokens)) for tokens in (1, 64, 4096)], [False, True, True])
        for tokens in (64, 4096):
            self.assertTrue(product.launch(tokens, (tokens,), 0))
        self.assertEqual((small.made.launched, large.made.launched), ([(64, (64,), 0)], [(4096, (4096,), 0)]))
        self.assertEqual([len(each.given) for each in (small, large)], [1, 1])

    def test_what_is_not_found_is_remembered_until_a_package_is_loaded(self):
        with self.assertLogs(products.logger, logging.WARNING) as logs:
            self.assertIsNone(found(self.table))
            self.assertIsNone(found(self.table))
        self.assertEqual(len(logs.output), 1)
        self.assertIn(products.ENVIRONMENT, logs.output[0])
        refusing = Package({}, refuses="there is nothing for this device")
        self.table.load(refusing)
        with self.assertLogs(products.logger, logging.WARNING) as logs:
            self.assertIsNone(found(self.table))
            self.assertIsNone(found(self.table))
        self.assertRegex(logs.output[0], "grouped_gemm_forward tuned for E=4, N=16, K=32, dtype=bf16 on CUDA device 0 .*for this device")
        self.assertEqual((len(logs.output), len(refusing.given)), (1, 1))
        self.table.load(Package({64: plan()}))
        self.assertIsNotNone(found(self.table))

    def test_other_arguments_or_dims_than_expected_are_refused(self):
        other = Package({64: plan()}, arguments=("x", "w", "y"))
        open_dims = Package({64: plan()})
        open_dims.made.dims = ("tokens", "rows")
        for package in (other, open_dims):
            self.table.load(package)
        with self.assertLogs(products.logger, logging.WARNING) as logs:
            self.assertIsNone(found(self.table))
        self.assertIn("takes other values", logs.output[0])

    def test_packages_of_the_environment(self):
        packages = {"a.tfpack": Package({64: plan()}), "b.tfpack": Package({64: plan()})}

        def opened(path):
            if path not in packages:
                raise NotFoundError(f"there is no {path}")
            return packages[path]

        with mock.patch.dict(os.environ, {products.ENVIRONMENT: "nowhere.tfpack::a.tfpack:b.tfpack"}), \
                mock.patch.object(products.launch, "open", opened), self.assertLogs(products.logger, logging.WARNING) as logs:
            self.assertIsNotNone(found(self.table))
            self.assertIsNotNone(found(self.table, n=8))
        self.assertEqual([len(each.given) for each in packages.values()], [2, 2])
        self.assertEqual(len(logs.output), 1)
        self.assertIn("there is no nowhere.tfpack", logs.output[0])


if __name__ == "__main__":
    unittest.main()
