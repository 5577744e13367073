"""The helpers for grouped matrix products: counts, orders and formats that their users know."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

from tunefarm.grouped_gemm import device_properties, kernel_configs, tuning
from tunefarm.grouped_gemm.tuning import KernelConfig, KernelConfigForward, KernelResult, TritonTuningContext

GOLDEN = json.loads((pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests/data/seed_space_golden.json").read_text())
KINDS = {
    "forward": (tuning.KernelConfigForward, kernel_configs.FORWARD_RULES, tuning.prune_kernel_configs_fwd),
    "dX": (tuning.KernelConfigBackward_dX, kernel_configs.BACKWARD_DX_RULES, tuning.prune_kernel_configs_backward_dX),
    "dW": (tuning.KernelConfigBackward_dW, kernel_configs.BACKWARD_DW_RULES, tuning.prune_kernel_configs_backward_dW),
}


def by_kind(configs):
    forward, dw, dx = configs
    return {"forward": forward, "dX": dx, "dW": dw}


def loads(config):
    return [value for name, value in vars(config).items() if name.startswith("use_tma_load_")]


def result(triton_time, **config):
    return KernelResult(1.0, triton_time, 1.0 / triton_time, KernelConfigForward(**config))


class Configs(unittest.TestCase):
    def test_the_default_lists(self):
        self.assertEqual(tuning.DEFAULT_M_BLOCK_SIZES, [64, 128])
        self.assertEqual(tuning.DEFAULT_N_BLOCK_SIZES, [64, 128, 256])
        self.assertEqual(tuning.DEFAULT_K_BLOCK_SIZES, [64, 128, 256])
        self.assertEqual(tuning.DEFAULT_NUM_WARPS, [4, 8])
        self.assertEqual(tuning.DEFAULT_NUM_STAGES, [3, 4, 5])
        self.assertEqual(tuning.BOOLS, [True, False])

    def test_golden_counts_and_orders(self):
        golden = GOLDEN["get_kernel_configs_default"]
        for name, configs in by_kind(tuning.get_kernel_configs()).items():
            kind, rules, prune = KINDS[name]
            everything = kernel_configs.unpruned_kernel_configs(kind)
            self.assertEqual(len(everything), golden["before"])
            self.assertEqual(list(kernel_configs.dropped_by_rule(everything, rules).values()),
                             golden["dropped_by_rule_in_order"][name])
            self.assertEqual(prune(everything), configs)
            self.assertEqual(len(configs), golden["after"][name])
            self.assertEqual({type(config) for config in configs}, {kind})
            self.assertEqual(sum(all(loads(config)) for config in configs), golden["with_tma_after"])
            self.assertEqual(sum(config.permute_x or config.permute_y for config in configs),
                             golden["with_any_permute_after"])
            for config, expected in ((configs[0], golden["first_kept"]), (configs[-1], golden["last_kept"])):
                for field, value in expected.items():
                    self.assertEqual(loads(config) if field == "use_tma" else getattr(config, field),
                                     [value] * 2 if field == "use_tma" else value)

    def test_independent_flags(self):
        for key, stores in (("independent_flags_no_store", [False]), ("independent_flags_with_store", tuning.BOOLS)):
            golden = GOLDEN[key]
            kept = by_kind(tuning.get_kernel_configs(independent_flags=True, use_tma_store=stores))
            for name, configs in kept.items():
                everything = kernel_configs.unpruned_kernel_configs(KINDS[name][0], independent_flags=True,
                                                                    use_tma_store=stores)
                self.assertEqual((len(everything), len(configs)), (golden["before"], golden["after"][name]))
                self.assertTrue(any(config.permute_x for config in configs))
                self.assertTrue(any(config.permute_y for config in configs))

    def test_one_tile(self):
        one = dict(BLOCK_M=[64], BLOCK_N=[64], BLOCK_K=[64], num_warps=[4], num_stages=[3])
        kept = by_kind(tuning.get_kernel_configs(**one, independent_flags=True, use_tma_store=tuning.BOOLS))
        self.assertEqual({name: len(configs) for name, configs in kept.items()}, GOLDEN["one_tile_flag_grid"]["after"])

    def test_defaults_of_a_config(self):
        self.assertEqual(vars(KernelConfig()), dict(
            BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, num_warps=4, num_stages=2, flatten=True, permute_x=False,
            permute_y=False, fuse_mul_post=False, use_tma_store=False))

    def test_to_string(self):
        config = tuning.KernelConfigBackward_dW(64, 128, 64, permute_x=True, use_tma_store=True, use_tma_load_dy=True)
        self.assertEqual(config.to_string(), "permute_x")
        self.assertEqual(config.to_string(include_tma=True), "permute_x,use_tma_store,use_tma_load_dy")
        self.assertEqual(config.to_string(include_tuning_params=True), "permute_x,BLOCK_SIZE_M=64,BLOCK_SIZE_N=128,"
                         "BLOCK_SIZE_K=64,num_warps=4,num_stages=2,flatten=True")
        self.assertEqual(KernelConfig().to_string(), "")


class Results(unittest.TestCase):
    COLUMNS = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages", "flatten", "permute_x",
               "permute_y", "fuse_mul_post", "use_tma_store"]
    LOADS = {"forward": ["use_tma_load_w", "use_tma_load_x"], "dW": ["use_tma_load_dy", "use_tma_load_x"],
             "dX": ["use_tma_load_dy", "use_tma_load_w"]}
    TIMES = ["torch_time", "triton_time", "speedup"]

    def test_columns(self):
        for name, (kind, _, _) in KINDS.items():
            row = KernelResult(1.0, 2.0, 0.5, kind()).to_dict()
            self.assertEqual(list(row), self.COLUMNS + self.LOADS[name] + self.TIMES)
            self.assertEqual((row["torch_time"], row["triton_time"], row["speedup"]), (1.0, 2.0, 0.5))

    def test_csv(self):
        results = [result(0.5, BLOCK_SIZE_M=64), result(0.25, BLOCK_SIZE_M=128, use_tma_load_w=True)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.csv"
            KernelResult.to_csv(results, filename=path)
            self.assertEqual(path.read_text(), ",".join(self.COLUMNS + self.LOADS["forward"] + self.TIMES) + "\n"
                             "128,32,32,4,2,True,False,False,False,False,True,False,1.0,0.25,4.0\n"
                             "64,32,32,4,2,True,False,False,False,False,False,False,1.0,0.5,2.0\n")
            KernelResult.to_dataframe(results).to_csv(pathlib.Path(folder) / "p.csv", index=False)
            self.assertEqual(path.read_text(), (pathlib.Path(folder) / "p.csv").read_text())

    def test_a_frame_needs_pandas(self):
        with mock.patch.dict(sys.modules, pandas=None), self.assertRaises(ImportError) as caught:
            KernelResult.to_dataframe([result(0.5)])
        self.assertEqual(str(caught.exception), "to_dataframe needs pandas, which is not installed: pip install pandas; to_csv does "
                                                "without")

    def test_the_file_is_called_results_csv(self):
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            KernelResult.to_csv([result(0.5)])
            self.assertEqual(os.listdir(folder), ["results.csv"])
            os.chdir("/")

    def test_sorting_leaves_equal_results_in_their_order(self):
        results = [result(0.5, num_stages=stages) for stages in range(40)] + [result(0.25, num_stages=99)]
        for ascending, expected in ((False, [99, *range(40)]), (True, [*range(40), 99])):
            frame = KernelResult.to_dataframe(results, ascending=ascending)
            self.assertEqual(list(frame["num_stages"]), expected)
        self.assertEqual(list(KernelResult.to_dataframe(results, sort_by="num_stages")["num_stages"])[:2], [99, 39])

    def print_table(self, *arguments, **options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            KernelResult.print_table(*arguments, **options)
        return out.getvalue()

    def test_table(self):
        results = [result(time, BLOCK_SIZE_M=16 << at, num_stages=at) for at, time in enumerate((0.8, 0.123456789, 4.0))]
        self.assertEqual(self.print_table(results[:1]).splitlines()[0].split(), self.COLUMNS + self.LOADS["forward"] + self.TIMES)
        self.assertEqual(self.print_table(results).splitlines()[1].split()[-3:], ["1.0", "0.123457", "8.10"])
        # As pandas prints it, but for the number of spaces, which depends on its release; and without it.
        def words(text):
            return [line.split() for line in text.splitlines()]

        frame = words(KernelResult.to_dataframe(results).head(10).to_string(index=False))
        with mock.patch.dict("sys.modules", {"pandas": None}):
            table = self.print_table(results)
        self.assertEqual(words(table), frame)
        self.assertEqual({len(line) for line in table.splitlines()}, {len(table.splitlines()[0])})

    def test_at_most_ten_rows(self):
        results = [result(0.5 + at) for at in range(12)]
        self.assertEqual(len(self.print_table(results).splitlines()), 11)
        self.assertEqual(len(self.print_table(results, num_results=3).splitlines()), 4)


class OutOfResources(Exception):
    """As Triton's."""

    def __init__(self, required, limit, name):
        super().__init__()
        self.required, self.limit, self.name = required, limit, name


class Context(unittest.TestCase):
    def run_in(self, error):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), TritonTuningContext(KernelConfig()) as context:
            if error:
                raise error
        return context, out.getvalue()

    def test_success(self):
        context, said = self.run_in(None)
        self.assertTrue(context.success)
        self.assertIsNone(context.error)
        self.assertEqual(said, "")

    def test_any_exception_is_recorded(self):
        error = RuntimeError("no such instruction")
        context, said = self.run_in(error)
        self.assertFalse(context.success)
        self.assertIs(context.error, error)
        self.assertIn("no such instruction", said)

    def test_out_of_resources_says_what_and_how_much(self):
        context, said = self.run_in(OutOfResources(270336, 232448, "shared memory"))
        self.assertFalse(context.success)
        self.assertEqual((context.resource, context.required, context.limit), ("shared memory", 270336, 232448))
        for word in ("shared memory", "270336", "232448"):
            self.assertIn(word, said)

    def test_what_is_not_about_the_config_goes_on(self):
        with self.assertRaises(KeyboardInterrupt), TritonTuningContext(KernelConfig()) as context:
            raise KeyboardInterrupt
        self.assertFalse(context.success)


class Properties(unittest.TestCase):
    def setUp(self):
        device_properties._properties = None
        self.addCleanup(setattr, device_properties, "_properties", None)

    def test_from_torch_once(self):
        known = types.SimpleNamespace(multi_processor_count=132, regs_per_multiprocessor=65536, warp_size=32,
                                      shared_memory_per_block_optin=232448)
        cuda = mock.Mock()
        cuda.get_device_properties.return_value = known
        with mock.patch.dict("sys.modules", {"torch": types.SimpleNamespace(cuda=cuda)}):
            first = tuning.get_device_properties()
            self.assertIs(tuning.get_device_properties(), first)
        self.assertEqual(first, tuning.DeviceProperties(NUM_SM=132, NUM_REGS=65536, SIZE_SMEM=232448, WARP_SIZE=32))
        cuda.get_device_properties.assert_called_once()


if __name__ == "__main__":
    unittest.main()
