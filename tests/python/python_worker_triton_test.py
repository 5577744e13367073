"""How kernels in Triton are compiled (server/worker/python/tunefarm_worker/triton_compile.py), by a stand-in for Triton."""

import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
from importlib import metadata

from google.protobuf import json_format

from python_worker_source import SOURCE, messages_by_name

sys.path.insert(0, str(SOURCE / "tests" / "data" / "fake_triton"))
import triton  # noqa: E402
from tunefarm_worker import main, messages, triton_compile  # noqa: E402
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

@triton.jit
def optional(a, n: "u1", nothing=None, one=1, BLOCK: tl.constexpr = 8, num_warps: tl.constexpr = 4, maxnreg: tl.constexpr = 0):
    pass

@triton.jit
def scaled(a, alpha=2.0, beta: "i64" = 1, gamma=1):
    pass

@triton.jit
def tiled(a, n, b, typed: "i64", BLOCK: tl.constexpr):
    pass

@triton.jit
def gluon(a):
    pass
gluon.is_gluon = lambda: True

@triton.heuristics({})
@triton.jit
def guessed(a):
    pass

def plain(a):
    pass
"""
SIGNATURE = "mm(*bf16,*fp32,i32=1,i32=1,i32:16,i64=1)"


def compile_with(values, signatures, entries=("mm", "reference"), bound=None, source=KERNELS, dims=(), derived=(),
                 path="tuned/kernels.py", capability=90):
    """The compiled kernels by signature."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = {"language": messages.LANGUAGE_TRITON, "dims": list(dims), "derived": list(derived),
                  "sources": [{"path": path, "content": source.encode()},
                              {"path": "scale.py", "content": b"FACTOR = 3\n"}],
                  "parameters": [{"name": name, "bind": messages.BIND_COMPILE} for name in (bound or values)],
                  "launches": [{"kernel": {"entry": entries[0]}}],
                  "reference": {"steps": [{"kernel": {"entry": entry}} for entry in entries[1:]]}}
        module = KernelModule(kernel, str(pathlib.Path(folder) / "kernel"))
        try:
            compiler = triton_compile.TritonCompiler(kernel, module)
            config = Config(values, {}, {}, {"compute_capability": capability}, 1, folder)
            binary = compiler.compile(config, signatures)
        finally:
            module.forget()
    read = messages_by_name()["tunefarm.worker.v1.TritonBinary"]()
    json_format.Parse(binary.decode(), read)  # as the run worker does: with unknown fields refused
    return {one.signature: one for one in read.kernels}


def asked(kernel):
    return json.loads(kernel.cubin[4:].rstrip(b"\0"))


class Probe(unittest.TestCase):
    def test_every_distribution_of_triton_is_looked_up(self):
        for distribution in ("triton", "pytorch-triton", "triton-nightly"):
            def version(name):
                if name != distribution:
                    raise metadata.PackageNotFoundError(name)
                return "3.6.0+git"

            with unittest.mock.patch.object(metadata, "version", version):
                self.assertEqual(main.packages_found(), ["triton 3.6.0+git"])

    def test_the_releases_that_are_known(self):
        self.assertEqual([triton_compile.is_known(version) for version in ("3.6.0", "3.6.1+git12ab", "3.60.0", "3.7.0", "")],
                         [True, True, False, False, False])


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

    def test_tensor_descriptors(self):
        signature = "tiled(tensordesc<bf16[128,64]>,i32=1,tensordesc<fp32[2,512,16]>,i64)"
        kernel = compile_with({"BLOCK": 64}, [signature], entries=("tiled",))[signature]
        self.assertEqual(asked(kernel)["signature"], {"a": "tensordesc<bf16[128,64]>", "n": "constexpr", "typed": "i64",
                                                      "b": "tensordesc<fp32[2,512,16]>", "BLOCK": "constexpr"})
        self.assertEqual(asked(kernel)["aligned"], [])
        self.assertEqual(list(kernel.parameters), [0, 2, 3, -1, -2])
        found = [(one.argument, one.rank, list(one.box), one.swizzle, one.element_type, one.fp4_padded)
                 for one in kernel.descriptors]
        self.assertEqual(found, [(0, 2, [128, 64], 3, 9, False), (2, 3, [2, 256, 16], 3, 7, False)])
        # A GPU without tensor maps is passed pointers.
        kernel = compile_with({"BLOCK": 64}, [signature], entries=("tiled",), capability=80)[signature]
        self.assertEqual([(one.argument, one.rank, list(one.box)) for one in kernel.descriptors], [(0, 2, []), (2, 3, [])])
        self.assertEqual(list(compile_with({"BLOCK": 64}, [SIGNATURE])[SIGNATURE].descriptors), [])

    def test_the_numbers_of_types_are_those_of_the_driver(self):
        for name, number in (("fp16", 6), ("bf16", 9), ("fp32", 7), ("fp64", 8), ("i8", 0), ("fp8e4nv", 0)):
            signature = f"tiled(tensordesc<{name}[16]>,i32,tensordesc<{name}[16]>,i64)"
            kernel = compile_with({"BLOCK": 64}, [signature], entries=("tiled",))[signature]
            self.assertEqual([one.element_type for one in kernel.descriptors], [number, number], name)

    def test_options_of_the_launch(self):
        kernel = compile_with({"BLOCK": 1, "launch_cooperative_grid": True, "launch_pdl": True}, [SIGNATURE])[SIGNATURE]
        self.assertTrue(kernel.cooperative and kernel.programmatic_launch)

    def test_what_does_not_fit_is_one_sentence(self):
        for expected, arguments, more in (
                ("'BLOK' is bound to the compiler, but neither", ({"BLOK": 64}, [SIGNATURE]), {}),
                ("the tl.constexpr 'BLOCK' of mm has no value", ({"num_warps": 4}, [SIGNATURE]), {}),
                ("mm takes 6 arguments that are not tl.constexpr (a, b, M, N, K, stride), but 1 are passed",
                 ({"BLOCK": 64}, ["mm(*bf16)"]), {}),
                ("'typed' of tiled is annotated as i64, but tensordesc<fp16[16]> is passed; drop the annotation",
                 ({"BLOCK": 64}, ["tiled(*bf16,i32,*bf16,tensordesc<fp16[16]>)"]), {"entries": ("tiled",)}),
                ("'stride' of mm is annotated as i64, but i32 is passed",
                 ({"BLOCK": 64}, ["mm(*bf16,*bf16,i32,i32,i32,i32)"]), {}),
                ("'plain' is no function with @triton.jit in tuned.kernels.py", ({}, []), {"entries": ("plain",)}),
                ("'gone' is no function with @triton.jit", ({}, []), {"entries": ("gone",)}),
                ("'guessed' is decorated by @triton.heuristics", ({}, []), {"entries": ("guessed",)}),
                ("'gluon' is a function of Gluon", ({}, []), {"entries": ("gluon",)}),
                ("'n' of optional is annotated as u1, but i32 is passed; drop the annotation, or make it a tl.constexpr",
                 ({}, ["optional(*bf16,i32)"]), {"entries": ("optional",)}),
                ("scaled takes 4 arguments that are not tl.constexpr (a, alpha, beta, gamma), but 0 are passed",
                 ({}, ["scaled()"]), {"entries": ("scaled",)}),
                ("'alpha' of scaled is not passed; add a scalar with the value of its default, 2.0,",
                 ({}, ["scaled(*bf16)"]), {"entries": ("scaled",)}),
                ("'beta' of scaled is not passed; add a scalar with the value of its default, 1,",
                 ({}, ["scaled(*bf16,fp32)"]), {"entries": ("scaled",)}),
                ("importing the module raised ZeroDivisionError: division by zero; it is imported where there is no GPU",
                 ({}, []), {"source": "1 / 0\n"}),
                ("importing the module raised ImportError: the name 'json' is that of a module of Python",
                 ({}, []), {"path": "json.py"})):
            with self.subTest(expected):
                ended = self.refusal(*arguments, **more)
                self.assertIn(expected, str(ended))
                self.assertEqual(ended.outcome, messages.COMPILE_ERROR)
                self.assertEqual(len(str(ended).splitlines()), 1)

    def test_a_text_dim_need_not_be_a_constant(self):
        dims = [{"name": "dtype", "type": messages.VALUE_STRING, "bind": messages.BIND_COMPILE}, {"name": "M", "bind": 2}]
        kernel = compile_with({"BLOCK": 64, "dtype": "bf16", "M": 5}, [SIGNATURE], bound=("BLOCK",), dims=dims)[SIGNATURE]
        self.assertNotIn("dtype", asked(kernel)["constants"])

    def test_an_option_that_is_a_constant_too_is_both(self):
        kernel = compile_with({"num_warps": 8, "maxnreg": 0, "num_stages": 2}, ["optional(*bf16,u1,i32,i32)"],
                              entries=("optional",))["optional(*bf16,u1,i32,i32)"]
        self.assertEqual(asked(kernel)["options"], {"num_warps": 8, "num_stages": 2})
        self.assertEqual(asked(kernel)["constants"], {"BLOCK": 8, "num_warps": 8, "maxnreg": 0})

    def test_defaults_that_triton_makes_constants_need_not_be_passed(self):
        kernel = compile_with({}, ["optional(*bf16,u1)"], entries=("optional",))["optional(*bf16,u1)"]
        self.assertEqual(asked(kernel)["constants"], {"nothing": None, "one": 1, "BLOCK": 8, "num_warps": 4, "maxnreg": 0})
        self.assertEqual(list(kernel.parameters), [0, 1, -1, -2])

    def test_a_constant_is_not_bound_at_run_time(self):
        for dims, derived in (([{"name": "SCRATCH", "bind": 2}], []), ([], [{"name": "SCRATCH", "bind": 2}])):
            ended = self.refusal({"BLOCK": 64, "SCRATCH": 16}, [SIGNATURE], bound=("BLOCK",), dims=dims, derived=derived)
            self.assertIn("'SCRATCH' is a tl.constexpr of mm, but the dim, parameter or derived value of that name is bound at "
                          "run time; give it bind COMPILE", str(ended))
            self.assertEqual(ended.outcome, messages.COMPILE_ERROR)

    def test_what_no_launch_can_have_is_infeasible(self):
        for values, expected in (({"num_warps": 32}, "mm: a block needs 1056 threads, the limit is 1024"),
                                 ({"FAULT": "tensor memory"},
                                  "mm: a block needs 1024 columns of tensor memory, the limit is 512"),
                                 ({"launch_pdl": True, "SCRATCH": 16},
                                  "mm: with launch_pdl launches overlap, and would share the 16 bytes of scratch memory of "
                                  "each block, such as tensor descriptors that the kernel makes; set no launch_pdl")):
            ended = self.refusal({"BLOCK": 64, **values}, [SIGNATURE])
            self.assertEqual((str(ended), ended.outcome), (expected, messages.INFEASIBLE_LAUNCH))

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
                ended = self.refusal({"BLOCK": 64}, [SIGNATURE])
                self.assertIn(f"Triton {version} is not known here: install 3.6 for {sys.executable}", str(ended))
                self.assertEqual(ended.outcome, messages.LOST)  # it says nothing of the config
            finally:
                triton.__version__ = "3.6.0"
        with unittest.mock.patch.dict(sys.modules, {"triton.compiler": None}):
            ended = self.refusal({"BLOCK": 64}, [SIGNATURE])
        self.assertRegex(str(ended), "Triton cannot be imported .*: install 3.6 .* and restart the daemon or agent")
        self.assertEqual(ended.outcome, messages.LOST)
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
