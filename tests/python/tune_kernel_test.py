"""tune_kernel without a daemon: the definitions that scripts become, options, results, and what is refused."""

import contextlib
import difflib
import hashlib
import io
import json
import os
import pathlib
import pickle
import re
import runpy
import unittest
import unittest.mock
import warnings

import float8_tensors
import numpy

import tunefarm
from tunefarm import _definitions, _launch_abi, model
from tunefarm.inline import _definition, _launching, _options, _results, _tune
from tunefarm.v1 import kernel_pb2

DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "tune_kernel"
VECTOR_ADD = """
__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


class Submitted(BaseException):
    """Ends a script where it would wait for the daemon."""


class FakeClient:
    """Keeps what it is told."""

    def __init__(self):
        self.definition = None
        self.submitted = None
        self.uploads = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def upload_array(self, array, data_type, progress):
        content = array.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        self.uploads[digest] = content
        return kernel_pb2.DataFile(digest=digest, bytes=len(content),
                                   data_type=kernel_pb2.DataType.Value("DATA_TYPE_" + data_type.upper()))

    def devices(self):
        return []

    def tune(self, path, **options):
        self.definition = _definitions.load(path)
        self.text = path.read_text()
        self.submitted = options
        raise Submitted


def submitted(*arguments, **options):
    """The client to which tune_kernel submitted its job."""
    client = FakeClient()
    with unittest.TestCase().assertRaises(Submitted):
        tunefarm.tune_kernel(*arguments, client=client, **options)
    return client


def vectors(count=1000):
    a, b = numpy.random.default_rng(count).random((2, count), "f4")
    return [numpy.zeros_like(a), a, b, numpy.int32(count)]


class Scripts(unittest.TestCase):
    """Scripts in Kernel Tuner's style, and what they ask the daemon for; golden/NAME.pbtxt has it."""

    def check(self, script, golden):
        client = FakeClient()
        folder = os.getcwd()
        self.addCleanup(os.chdir, folder)
        unchanged = unittest.mock.patch.object(_launching.Program, "outputs",
                                               lambda program, _: [argument.given for argument in program.arguments])
        library = unittest.mock.patch.object(_launch_abi, "library")
        with unittest.mock.patch.object(_tune, "Client", lambda: client), unchanged, library, contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaises(Submitted):
                runpy.run_path(str(DATA / script), run_name="__main__")
        text = re.sub(r'digest: "[0-9a-f]{64}"', 'digest: "..."', client.text)
        expected = (DATA / "golden" / golden).read_text()
        self.assertEqual(text, expected, "\n" + "".join(difflib.unified_diff(
            expected.splitlines(True), text.splitlines(True), "expected", "found")))

    def test_in_cxx(self):
        for name in ("vector_add", "matmul", "convolution", "reduction", "sparse"):
            with self.subTest(name):
                self.check(f"{name}.py", f"{name}.pbtxt")

    def test_in_cuda(self):
        for name in ("vector_add", "matmul", "convolution", "reduction", "expressions"):
            with self.subTest(name):
                self.check(f"cuda/{name}.py", f"{name}_cuda.pbtxt")


class Definitions(unittest.TestCase):
    PARAMS = {"block_size_x": [32, 64, 128]}

    def definition(self, code=VECTOR_ADD, params=None, **options):
        return submitted("vector_add", code, 1000, vectors(), params or self.PARAMS, **options).definition

    def test_the_default_config_is_the_first_that_keeps_the_restrictions(self):
        made = self.definition(params={"block_size_x": [32, 64, 2048], "t": [1, 2]}, restrictions=["block_size_x * t >= 128"])
        self.assertEqual([parameter.default_value.int_value for parameter in made.parameters], [64, 2])
        large = self.definition(params={"block_size_x": [2048, 256]})
        self.assertEqual(large.parameters[0].default_value.int_value, 256)

    def test_without_an_answer_the_first_config_is_the_reference(self):
        made = self.definition()
        self.assertEqual(made.reference.steps[0], made.launches[0])
        self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (1e-3, 1e-3))
        missing = tunefarm.LaunchError("no library", code="NO_LIBRARY")
        with unittest.mock.patch.object(_launch_abi, "library", side_effect=missing), self.assertRaises(tunefarm.LaunchError):
            self.definition(verify=lambda answer, outputs: True)  # before the search
        with unittest.mock.patch.object(_launch_abi, "library"):
            checked = self.definition(verify=lambda answer, outputs: True)
        self.assertFalse(checked.HasField("reference"))
        self.assertIn("caller's own function", checked.unverified_reason)

    def test_an_answer_is_uploaded_and_zeros_are_not(self):
        arguments = vectors()
        answer = [arguments[1] + arguments[2], None, None, None]
        client = submitted("vector_add", VECTOR_ADD, 1000, arguments, self.PARAMS, answer=answer, atol=0.25)
        made = client.definition
        self.assertEqual(client.uploads[made.reference.files[0].file.digest], answer[0].tobytes())
        self.assertEqual(client.uploads[made.arguments[1].buffer.fill.file.digest], arguments[1].tobytes())
        self.assertTrue(made.arguments[0].buffer.fill.HasField("zeros"))
        self.assertEqual(len(client.uploads), 3)
        self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (0.25, 1e-5))

    def test_macros(self):
        made = self.definition(code=VECTOR_ADD + "// grid_size_x block_size_y kernel_tuner\n")
        self.assertEqual([(item.name, item.expression) for item in made.derived],
                         [("grid_size_x", "ceil_div(1000, block_size_x)"), ("block_size_y", "1"), ("kernel_tuner", "1")])
        self.assertEqual(len(self.definition().derived), 0)
        own = self.definition(params={"block_size_x": [32], "t": [1, 2], "w": ["float"]}, compiler_options=["-use_fast_math"], defines={
            "A": 3, "B": "t*2", "C": "float4", "D": lambda p: p["t"] + 1, "E": "8/t", "F": "1.0/t", "G": "", "H": lambda p: f"x{p['t']}", "t": "t",
            "I": "w"})
        self.assertEqual([(item.name, item.expression) for item in own.derived], [
            ("A", "3"), ("B", "t * 2"), ("D", "t + 1"), ("E", "8 // t"), ("F", "1.0 / t"), ("H", "'x1' if t == 1 else 'x2'"), ("I", "w")])
        self.assertEqual(list(own.compile_options), ["-use_fast_math", "-DC=float4", "-DG="])
        self.assertEqual([parameter.bind for parameter in own.parameters],
                         [kernel_pb2.BIND_RUN, kernel_pb2.BIND_COMPILE, kernel_pb2.BIND_RUN])
        for defines, reason in (({"a b": 1}, "no name of a macro"), ({"t": 5}, "the name of a parameter"), ({"A": "float *"}, "no spaces"), ([1], "a dict")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"t": [1]}, defines=defines, client=FakeClient())

    def test_template_arguments_that_are_no_macros(self):
        code = "template <typename T, int block_size_x> " + VECTOR_ADD.strip()
        made = submitted("vector_add<T, 2 * block_size_x>", code, 1000, vectors(), {"block_size_x": [32], "T": ["float"]}, defines={"T": "T"}).definition
        self.assertEqual([(item.name, item.expression) for item in made.derived], [("tunefarm_block_size_x", "block_size_x")])
        self.assertEqual(made.launches[0].kernel.entry, "vector_add<T, 2 * tunefarm_block_size_x>")
        self.assertEqual(made.reference.steps[0].kernel.entry, made.launches[0].kernel.entry)

    def test_names(self):
        for name, shown in (("vector_add", "vector_add"), ("MatMul<float, 2>", "matmul"), ("ns::K", "ns_k"), ("_f", "f"), ("2x", "kernel_2x")):
            self.assertEqual(_definition.display_name(name), shown)
        made = submitted("f", "void f(double *stream, double *x, double *) { stream[0] = x[0]; }", 1, [numpy.ones(2)] * 3, {"t": [1]}).definition
        self.assertEqual([argument.name for argument in made.arguments], ["stream_", "x", "argument2"])

    def test_one_config_of_it(self):
        made = self.definition(params={"block_size_x": [32, 64], "w": ["float"], "f": [0.5, 1.0]}, restrictions=["f < 1"])
        one = _definition.of_one_config(made, {"block_size_x": 64, "w": "float", "f": 0.5})
        self.assertEqual([list(getattr(item.values, field)) for item, field in zip(one.parameters, ("ints", "strings", "doubles"))],
                         [[64], ["float"], [0.5]])
        self.assertEqual((one.display_name, len(one.constraints), one.HasField("reference")), ("vector_add_config", 0, False))
        self.assertEqual(one.launches, made.launches)

    def test_tensors_of_float8(self):
        code = "void scale(unsigned char *y, const unsigned char *x) { y[0] = x[0]; }"
        bits = numpy.arange(1, 9, dtype="u1")
        with float8_tensors.installed() as tensor:
            x, y = tensor("float8_e4m3fn", bits), tensor("float8_e4m3fn", 0 * bits)
            made = submitted("scale", code, 1, [y, x], {"n": [1]}).definition
            self.assertEqual([argument.buffer.data_type for argument in made.arguments], [kernel_pb2.DATA_TYPE_F8E4M3] * 2)
            self.assertEqual((made.tolerance.atol, made.tolerance.rtol), (0.125, 0.125))
            client = submitted("scale", code, 1, [y, x], {"n": [1]}, answer=[x, None])
            self.assertEqual(client.uploads[client.definition.reference.files[0].file.digest], bits.tobytes())
            for answer in (bits, tensor("float8_e5m2", bits)):
                with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "is not of type float8_e4m3fn, as its argument is"):
                    tunefarm.tune_kernel("scale", code, 1, [y, x], {"n": [1]}, answer=[answer, None], client=FakeClient())
            floats = code.replace("unsigned char *y", "float *y")
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "is of type f8e4m3, and the kernel's parameter is"):
                tunefarm.tune_kernel("scale", floats, 1, [y, x], {"n": [1]}, client=FakeClient())
            # Of other 8-bit floating point kernels see bytes.
            other = tensor("float8_e5m2", bits)
            made = submitted("scale", code, 1, [other, x], {"n": [1]}).definition
            self.assertEqual(made.arguments[0].buffer.data_type, kernel_pb2.DATA_TYPE_U8)

    def test_what_is_written_without_an_answer_belongs_to_the_caller(self):
        code = "void f(float *y, float *t) { t[0] = 1; y[0] = t[0]; }"
        made = submitted("f", code, 1, [numpy.zeros(2, "f4")] * 2, {"n": [1]}, answer=[numpy.ones(2), None]).definition
        buffer = made.arguments[1].buffer
        self.assertEqual((buffer.access, buffer.init, buffer.HasField("fill")),
                         (kernel_pb2.ACCESS_SCRATCH, kernel_pb2.INIT_ZERO, False))
        through = "void put(float *p) { *p = 1; }\nvoid f(float *y, float *t) { put(t); y[0] = t[0]; }"
        for code, other, access in ((through, numpy.zeros(2, "f4"), kernel_pb2.ACCESS_SCRATCH), (through, numpy.ones(2, "f4"), kernel_pb2.ACCESS_IN),
                                    (through.replace("float *t)", "const float *t)"), numpy.zeros(2, "f4"), kernel_pb2.ACCESS_IN)):
            found = submitted("f", code, 1, [numpy.zeros(2, "f4"), other], {"n": [1]}, answer=[numpy.ones(2), None]).definition
            self.assertEqual(found.arguments[1].buffer.access, access)
        buffer = _definition.of_one_config(made, {"n": 1}).arguments[1].buffer
        self.assertEqual((buffer.access, buffer.init), (kernel_pb2.ACCESS_INOUT, kernel_pb2.INIT_UNSPECIFIED))


class Data(unittest.TestCase):
    def test_what_the_daemon_has_dropped_is_uploaded_once_more(self):
        class Forgetful(FakeClient):
            left = 1

            def tune(self, path, **options):
                if self.left:
                    self.left -= 1
                    self.uploads.clear()
                    raise tunefarm.FailedPreconditionError("is not on this daemon", reason="DATA_FILE_NOT_FOUND")
                super().tune(path, **options)

        arguments = vectors()
        expected = arguments[1] + arguments[2]
        for times, raised in ((1, Submitted), (2, tunefarm.FailedPreconditionError)):
            client = Forgetful()
            client.left = times
            with self.assertRaises(raised):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, arguments, {"block_size_x": [32]}, client=client,
                                     answer=[expected, None, None, None])
        client = Forgetful()
        with self.assertRaises(Submitted):
            tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, arguments, {"block_size_x": [32]}, client=client,
                                 answer=[expected, None, None, None])
        self.assertEqual(set(client.uploads.values()), {array.tobytes() for array in (arguments[1], arguments[2], expected)})

    def test_uploads_are_silent_where_all_is(self):
        for quiet in (True, False):
            with unittest.mock.patch.object(FakeClient, "upload_array", side_effect=Submitted) as upload, self.assertRaises(Submitted):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": [32]}, client=FakeClient(), quiet=quiet)
            self.assertEqual(upload.call_args.kwargs, {"progress": not quiet})


class Options(unittest.TestCase):
    def run_with(self, **options):
        return submitted("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": [32, 64], "t": list(range(10))}, **options).submitted

    def test_searches(self):
        for options, expected in (
                ({}, ("exhaustive", {}, 0, 0)), ({"strategy": "brute_force", "strategy_options": {"max_fevals": 7}}, ("exhaustive", {}, 7, 0)),
                ({"strategy": "random_sample"}, ("random", {}, 2, 0)), ({"strategy": "random_sample", "strategy_options": {"fraction": 0.5}}, ("random", {}, 10, 0)),
                ({"strategy": "bayes_opt"}, ("bayes", {}, 100, 0)), ({"strategy": "mls", "strategy_options": {"time_limit": 1.5}}, ("local", {}, 0, 2)),
                ({"strategy": "genetic_algorithm", "strategy_options": {"popsize": 5}}, ("genetic", {"population": 5}, 100, 0)),
                ({"strategy": "pso", "strategy_options": {"popsize": 5}}, ("pack", {"pack": 5}, 100, 0))):
            made = self.run_with(**options)
            self.assertEqual((made["strategy"], made["strategy_options"], made["max_trials"], made["max_seconds"]), expected)

    def test_measuring(self):
        made = self.run_with(iterations=32, seed=5)
        self.assertEqual((made["measure"]["min_samples"], made["measure"]["max_samples"], made["seed"]), (32, 32, 5))
        self.assertTrue(made["measure"]["no_reuse"] and made["no_memory"] and made["retry_poisoned"])
        with self.assertWarnsRegex(UserWarning, "cache='file.json': no file is written; the daemon keeps every measurement"):
            made = self.run_with(cache="file.json")
        self.assertFalse(made["measure"]["no_reuse"] or made["no_memory"] or made["retry_poisoned"])
        self.assertEqual(self.run_with(measure={"finalists": 2})["measure"]["finalists"], 2)

    def test_an_objective_in_a_list(self):
        for options, expected in (({"objective": ["time"]}, ("time", False)), ({"objective": ["m"], "objective_higher_is_better": [True]}, ("m", True)),
                                  ({"objectives": {"m": False}}, ("m", False))):
            made = _options.objective(options.get("objective"), options.get("objective_higher_is_better"), options.get("objectives"), {"m": "time"}, "exhaustive")
            self.assertEqual(made, expected)

    def test_kernels_for_the_cpu_need_no_problem_size(self):
        code, arguments = "void f(float *x) { x[0] = k; }", [numpy.zeros(1, "f4")]
        for compiler in ("g++", "gcc"):
            self.assertEqual(len(submitted("f", code, 0, arguments, {"k": [1]}, compiler=compiler).definition.launches[0].kernel.grid), 0)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "problem_size is 0"):
            tunefarm.tune_kernel("vector_add", VECTOR_ADD, 0, vectors(), {"block_size_x": [32]}, client=FakeClient())

    def test_what_is_not_supported_is_refused_by_name(self):
        for options, reason in (
                ({"texmem_args": {"t": 1}}, "^texmem_args is not supported"), ({"simulation_mode": True}, "simulation_mode=True is not supported"),
                ({"observers": [1]}, "^observers is not supported"), ({"log": 10}, "log=10 is not supported"), ({"platform": 1}, "platform=1"),
                ({"parallel": 4}, "parallel=4 is not supported"), ({"compiler": "clang"}, "compiler='clang' is not supported"),
                ({"strategy": "annealing"}, "strategy='annealing' is not supported; write one of brute_force, "), ({"strategy": object()}, "strategy=.* is not supported"),
                ({"strategy": "mls", "strategy_options": {"neighbor": "Hamming"}}, "neighbor of mls is not supported; there are max_fevals, time_limit"),
                ({"strategy_options": {"max_fevals": 0}}, r"\['max_fevals'\] is 0"), ({"iterations": 0}, "iterations is 0"), ({"verify": True}, "verify is a function"),
                ({"objectives": {"time": False, "x": True}}, "several objectives"), ({"objective": ["time", "x"]}, "several objectives"),
                ({"objective": "energy"}, "neither time nor one of the metrics"), ({"objective": "x", "metrics": {"x": "time"}}, "say objective_higher_is_better"),
                ({"objective": "GFLOP/s", "metrics": {"GFLOP/s": "1"}, "strategy": "bayes_opt"}, "shortest time"), ({"metrics": [1]}, "metrics is a dict"),
                ({"metrics": {"t": "time"}}, r"metrics\['t'\] has the name of a parameter"), ({"metrics": {"x": 1}}, r"metrics\['x'\] is an int"), ({"device": 3}, "device=3: the daemon has 0 GPUs"), ({"lang": "OpenCL"}, "lang='OpenCL'"),
                ({"atol": -1, "answer": [vectors()[0], None, None, None]}, "atol is -1"), ({"block_size_names": "x"}, "block_size_names is a list"),
                ({"compiler_options": "-O3"}, "compiler_options is a list"),
                ({"compiler_options": ["-O3", "-fopenmp"]}, "'-fopenmp' is not supported, because OpenMP's library is not linked")):
            with self.subTest(str(options)), self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.run_with(**options)
        for name, reason in (("time", "names something else"), ("grid_size_x", "names something else"), ("nvml_gr_clock", "no config sets clocks")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"^tune_params: '{name}' .*{reason}"):
                tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": [32], name: [1]}, client=FakeClient())
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "^tune_params: block_size_x has strings, and it is the size of a block"):
            tunefarm.tune_kernel("vector_add", VECTOR_ADD, 1000, vectors(), {"block_size_x": ["32"]}, client=FakeClient())
        with self.assertRaises(TypeError):
            self.run_with(no_such_option=1)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "smem_args is shared memory, which C"):
            tunefarm.tune_kernel("f", "void f(float *x) { x[0] = 1; }", 1, [numpy.ones(1)], {"t": [1]}, smem_args={"size": 4}, client=FakeClient())
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "params is a dict"):
            tunefarm.run_kernel("f", "void f(float *x) { x[0] = 1; }", 1, [numpy.ones(1)], [1], client=FakeClient())


def trial(config, time_ms, purpose=model.TrialPurpose.SEARCH, outcome=model.Outcome.OK, message=""):
    measured = unittest.mock.Mock(median_ns=time_ms * 1e6, sample_ns=())
    return unittest.mock.Mock(config=config, purpose=purpose, outcome=outcome, message=message, compile_ms=1.0, run_ms=2.0,
                              measurement=measured if outcome is model.Outcome.OK else None)


class Results(unittest.TestCase):
    def test_trials_become_results(self):
        final = model.TrialPurpose.FINALIST
        found = _results.collect([trial({"x": 1}, 5), trial({"x": 2}, 3), trial({"x": 3}, 0, outcome=model.Outcome.WRONG_RESULT, message="off"),
                                  trial({"x": 4}, 1, purpose=model.TrialPurpose.BASELINE), trial({"x": 2}, 4, purpose=final)],
                                 ["x"], _options.metrics({"GFLOP/s": lambda p: 8 / p["time"], "twice": "GFLOP/s * 2 + x"}, ["x"]))
        self.assertEqual(list(found), [{"x": 1, "time": 5, "compile_time": 1, "benchmark_time": 2, "GFLOP/s": 1.6, "twice": 4.2},
                                       {"x": 2, "time": 4, "compile_time": 1, "benchmark_time": 4, "GFLOP/s": 2, "twice": 6}])
        self.assertEqual(found.failed, [{"x": 3, "outcome": "WRONG_RESULT", "message": "off"}])
        for name, higher, best in (("time", False, 2), ("time", True, 1), ("GFLOP/s", True, 2)):
            self.assertEqual(_results.by_objective(found, _options.Objective(name, higher))[0]["x"], best)
        for metric, reason in ((lambda p: p["nothing"], "KeyError: 'nothing'"), ("1 / (x - 1)", "ZeroDivisionError")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, rf"metrics\['m'\] fails for {{'x': 1, .*: {reason}"):
                _results.collect([trial({"x": 1}, 5)], ["x"], _options.metrics({"m": metric}, ["x"]))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "objective='m' is 'fast' for .*, which is no number"):
            _results.by_objective([{"m": "fast"}], _options.Objective("m", True))

    def test_strings_of_metrics_are_checked_before_the_search(self):
        for text, reason in (("nothing / time", r"metrics\['m'\]: .*unknown name 'nothing'; there are x, time"), ("1 +", "no Python expression")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                _options.metrics({"a": "x", "m": text}, ["x"])
        (_, metric), = _options.metrics({"m": "max(math.log2(x), sum(i for i in [x])) + time"}, ["x"])
        self.assertEqual(metric({"x": 4, "time": 1.5}), 5.5)

    def test_functions_of_metrics_are_checked_before_the_search(self):
        made = _options.metrics({"a": lambda p: 1 / (p["x"] - 1), "b": lambda p: p["a"] + p.get("times", 0), "m": lambda p: max(p["times"])}, ["x"])
        _options.check_metrics(made[:2], {"x": 1})  # it may be right for other configs
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, r"metrics\['m'\] reads 'times', which results do not have; there are x, time, .*, a, b$"):
            _options.check_metrics(made, {"x": 1})
        own = _options.metrics({"m": lambda p: {"u": 1}[p["s"]]}, ["s"])
        _options.check_metrics(own, {"s": "t"})  # what it does not find is not in the result

    def test_scalars_of_numpy_become_those_of_python(self):
        ((_, metric),) = _options.metrics({"m": lambda p: numpy.float32(p["time"])}, [])
        self.assertEqual(json.dumps(metric({"time": 1.5})), "1.5")

    def test_without_a_best_one_each_use_says_why(self):
        results = _results.Results()
        self.assertFalse(results.best)
        self.assertIsNone(results.best.get("time"))
        results.failed.append({"x": 1, "outcome": "COMPILE_ERROR", "message": "no such name"})
        results.best = _results.NoBest(results.no_config_text())
        pair = pickle.loads(pickle.dumps(_results.Tuning(results, {})))
        for best in (results.best, pair.best):
            for use in (lambda: best.launch(1, 2), lambda: best["time"], lambda: best.config):
                with self.assertRaisesRegex(tunefarm.FailedPreconditionError,
                                            "^there is no best config: no config ran and was right; the first: COMPILE_ERROR: no such name$"):
                    use()

    def test_a_tuning_is_a_pair(self):
        results = _results.Results()
        results.append({"x": 1, "time": 2.0})
        results.best = _results.Best(results[0], unittest.mock.Mock(), ["x"])
        pair = _results.Tuning(results, {"device_name": "d"})
        first, second = pair
        self.assertIs(first, results)
        self.assertEqual(json.loads(json.dumps(pair)), [[{"x": 1, "time": 2.0}], {"device_name": "d"}])
        again = pickle.loads(pickle.dumps(pair))
        self.assertEqual((again, type(again), again.best, type(again[0])), (pair, _results.Tuning, results[0], _results.Results))
        self.assertEqual((pair.best.config, pair.best["time"]), ({"x": 1}, 2.0))


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
