"""How kernels in Triton are compiled (server/worker/python/tunefarm_worker/triton_compile.py), by a stand-in for Triton."""

import json
import pathlib
import sys
import tempfile
import unittest

from google.protobuf import json_format

from python_worker_source import SOURCE, messages_by_name

sys.path.insert(0, str(SOURCE / "tests" / "data" / "fake_triton"))
import triton  # noqa: E402
from tunefarm_worker import messages, triton_compile  # noqa: E402
from tunefarm_worker.kernel_module import Config, KernelModule  # noqa: E402
from tunefarm_worker.trial import Ended, Trial  # noqa: E402

KERNELS = """
import triton
import triton.language as tl
from scale import FACTOR

@triton.jit(do_not_specialize=["M"], do_not_specialize_on_alignment=["K"])
def mm(a, b, M, N, K, stride: "i64", BLOCK: tl.constexpr, FAULT: tl.constexpr = "none", SCRATCH: tl.constexpr = FACTOR - 3):
    pass

@triton.autotune(configs=[], key=[])
@triton.jit
def reference(a, b, n, BLOCK: tl.constexpr):
    pass

@triton.heuristics({})
@triton.jit
def guessed(a):
    pass

def plain(a):
    pass
"""
SIGNATURE = "mm(*bf16,*fp32,i32=1,i32=1,i32:16,i64=1)"


def compile_with(values, signatures, entries=("mm", "reference"), bound=None, source=KERNELS, dims=(), derived=()):
    """The compiled kernels by signature."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = {"language": messages.LANGUAGE_TRITON, "dims": list(dims), "derived": list(derived),
                  "sources": [{"path": "tuned/kernels.py", "content": source.encode()},
                              {"path": "scale.py", "content": b"FACTOR = 3\n"}],
                  "parameters": [{"name": name, "bind": messages.BIND_COMPILE} for name in (bound or values)],
                  "launches": [{"kernel": {"entry": entries[0]}}],
                  "reference": {"steps": [{"kernel": {"entry": entry}} for entry in entries[1:]]}}
        module = KernelModule(kernel, str(pathlib.Path(folder) / "kernel"))
        try:
            compiler = triton_compile.TritonCompiler(kernel, module)
            config = Config(values, {}, {}, {"compute_capability": 90}, 1, folder)
            binary = compiler.compile(config, signatures)
        finally:
            module.forget()
    read = messages_by_name()["tunefarm.worker.v1.TritonBinary"]()
    json_format.Parse(binary.decode(), read)  # as the run worker does: with unknown fields refused
    return {one.signature: one for one in read.kernels}


def asked(kernel):
    return json.loads(kernel.cubin[4:].rstrip(b"\0"))


class Compile(unittest.TestCase):
    def refusal(self, *arguments, **more):
        with self.assertRaises(Ended) as caught:
            compile_with(*arguments, **more)
        return caught.exception

    def test_what_a_launch_needs_is_in_the_binary(self):
        found = compile_with({"BLOCK": 64, "num_warps": 8, "num_stages": 3, "maxnreg": 0, "num_ctas": 2, "SCRATCH": 16},
                             [SIGNATURE, "reference(*fp32,*fp32,i32:16)"])
        kernel = found[SIGNATURE]
        self.assertEqual((kernel.symbol, kernel.num_warps, kernel.num_ctas, kernel.shared_bytes), ("mm_0d1d", 9, 2, 64))
        self.assertEqual((kernel.global_scratch_bytes, kernel.global_scratch_alignment), (16, 128))
        self.assertEqual((kernel.profile_scratch_bytes, kernel.cooperative, kernel.programmatic_launch), (0, False, False))
        # N is 1 and became a constant; M is not specialised on, nor is what has a written type.
        self.assertEqual(list(kernel.parameters), [0, 1, 2, 4, 5, -1, -2])
        self.assertEqual(asked(kernel), {
            "function": "mm", "target": ["cuda", 90, 32], "options": {"num_warps": 8, "num_stages": 3, "num_ctas": 2},
            "signature": {"a": "*bf16", "b": "*fp32", "M": "i32", "N": "constexpr", "K": "i32", "stride": "i64",
                          "BLOCK": "constexpr", "FAULT": "constexpr", "SCRATCH": "constexpr"},
            "constants": {"N": 1, "BLOCK": 64, "FAULT": "none", "SCRATCH": 16}, "aligned": ["a", "b"]})
        other = found["reference(*fp32,*fp32,i32:16)"]
        self.assertEqual(asked(other)["aligned"], ["a", "b", "n"])
        self.assertEqual(list(other.parameters), [0, 1, 2, -1, -2])

    def test_specialised_alike_is_the_same_binary_and_otherwise_another(self):
        signatures = ["reference(*fp32,*fp32,i32)", "reference(*fp32,*fp32,i32:16)", "reference(*fp32,*fp32,i32=1)",
                      "reference(*fp32,*fp32,i64)"]
        found = compile_with({"BLOCK": 64}, signatures)
        self.assertEqual(len({one.cubin for one in found.values()}), len(signatures))
        again = compile_with({"BLOCK": 64}, signatures)
        self.assertEqual({name: one.SerializeToString() for name, one in found.items()},
                         {name: one.SerializeToString() for name, one in again.items()})

    def test_values_keep_their_types(self):
        for value in (True, 2.0, 2, "none"):
            constants = asked(compile_with({"BLOCK": 64, "FAULT": value}, [SIGNATURE])[SIGNATURE])["constants"]
            self.assertIs(type(constants["FAULT"]), type(value))

    def test_options_of_the_launch(self):
        kernel = compile_with({"BLOCK": 1, "launch_cooperative_grid": True, "launch_pdl": True}, [SIGNATURE])[SIGNATURE]
        self.assertTrue(kernel.cooperative and kernel.programmatic_launch)

    def test_what_does_not_fit_is_one_sentence(self):
        for expected, arguments, more in (
                ("'BLOK' is bound to the compiler, but neither", ({"BLOK": 64}, [SIGNATURE]), {}),
                ("the tl.constexpr 'BLOCK' of mm has no value", ({"num_warps": 4}, [SIGNATURE]), {}),
                ("mm takes 6 arguments that are not tl.constexpr (a, b, M, N, K, stride), but 1 are passed",
                 ({"BLOCK": 64}, ["mm(*bf16)"]), {}),
                ("'stride' of mm is annotated as i64, but a i32 is passed",
                 ({"BLOCK": 64}, ["mm(*bf16,*bf16,i32,i32,i32,i32)"]), {}),
                ("'plain' is no function with @triton.jit in tuned.kernels.py", ({}, []), {"entries": ("plain",)}),
                ("'gone' is no function with @triton.jit", ({}, []), {"entries": ("gone",)}),
                ("'guessed' is decorated by @triton.heuristics", ({}, []), {"entries": ("guessed",)}),
                ("importing the module raised ZeroDivisionError", ({}, []), {"source": "1 / 0\n"})):
            with self.subTest(expected):
                ended = self.refusal(*arguments, **more)
                self.assertIn(expected, str(ended))
                self.assertEqual(ended.outcome, messages.COMPILE_ERROR)
                self.assertEqual(len(str(ended).splitlines()), 1)

    def test_a_text_dim_need_not_be_a_constant(self):
        dims = [{"name": "dtype", "type": messages.VALUE_STRING, "bind": messages.BIND_COMPILE}, {"name": "M", "bind": 2}]
        kernel = compile_with({"BLOCK": 64, "dtype": "bf16", "M": 5}, [SIGNATURE], bound=("BLOCK",), dims=dims)[SIGNATURE]
        self.assertNotIn("dtype", asked(kernel)["constants"])

    def test_the_compilers_errors(self):
        ended = self.refusal({"BLOCK": 64, "FAULT": "error"}, [SIGNATURE])
        self.assertEqual(str(ended), "mm: at 7:4: module has no attribute nothing")
        self.assertIn("tl.nothing(x)", ended.log)
        self.assertEqual(ended.outcome, messages.COMPILE_ERROR)
        ended = self.refusal({"BLOCK": 64, "FAULT": "resources"}, [SIGNATURE])
        self.assertIn("Required: 300000", str(ended))
        self.assertEqual(ended.log, "")  # What was written to standard error takes its place.
        self.assertEqual(ended.outcome, messages.INFEASIBLE_LAUNCH)

    def test_versions_that_are_not_known_are_refused_by_name(self):
        for version in ("2.1.0", "3.7.1", "unknown"):
            triton.__version__ = version
            try:
                self.assertIn(f"Triton {version} of", str(self.refusal({"BLOCK": 64}, [SIGNATURE])))
            finally:
                triton.__version__ = "3.6.0"
        triton.__version__ = "3.6.0+git12ab"
        try:
            compile_with({"BLOCK": 64}, [SIGNATURE])
        finally:
            triton.__version__ = "3.6.0"

    def test_a_result_says_what_became_of_it(self):
        phases = []
        with tempfile.TemporaryDirectory() as folder:
            config = Config({}, {}, {}, {}, 1, folder)
            result, binary = Trial(None, phases.append).compile_triton(lambda own, signatures: b"{}", config, [])
            self.assertEqual((result["outcome"], binary, phases), (messages.OK, b"{}", [messages.PHASE_COMPILE]))
            result, binary = Trial(None, phases.append).compile_triton(self.fails, config, [])
        self.assertEqual((result["outcome"], result["message"], result["log"], binary),
                         (messages.COMPILE_ERROR, "no luck", "why", b""))

    @staticmethod
    def fails(config, signatures):
        raise Ended(messages.COMPILE_ERROR, "no luck", "why")


if __name__ == "__main__":
    unittest.main(verbosity=2)
