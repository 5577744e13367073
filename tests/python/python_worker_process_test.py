"""The process of the worker of kernels in Python (server/worker/python) without a daemon: what it answers, and how it ends.
Run by an interpreter with NumPy and protobuf."""

import base64
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import json_format

from python_worker_source import PACKAGE, SOURCE, messages_by_name
from tunefarm_worker import channel, messages

MODULE = b"""
import os, sys
import numpy

def compile(config):
    if config["FAULT"] == "compile":
        raise ValueError("not this one")
    open(os.path.join(config.cache_directory, "binary"), "w").write(str(config["BLOCK"]))

def make_run_and_gt(config):
    compiled = open(os.path.join(config.cache_directory, "binary")).read()
    assert compiled == str(config["BLOCK"]) and config["twice"] == 2 * config["BLOCK"], dict(config)
    x = numpy.arange(config["N"], dtype=numpy.float64)
    y = numpy.empty_like(x)
    def run():
        if config["FAULT"] == "raise":
            raise RuntimeError("no " + "luck" * 10_000)
        if config["FAULT"] == "abort":
            os.abort()
        if config["FAULT"] == "exit":
            sys.exit(3)
        if config["FAULT"] == "limits":
            import resource
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        if config["FAULT"] == "memfd":
            os.memfd_create("kept")
        if config["FAULT"] == "priority":
            os.nice(1)
        if config["FAULT"] == "child" and os.fork() == 0:
            import signal
            signal.pause()
        numpy.multiply(x, 2, out=y)
        if config["FAULT"] == "wrong":
            y[5] = 0
        return y
    return run, 2 * x
"""


class Process(unittest.TestCase):
    """The worker as a process, by frames over a socket, as the daemon speaks with it."""

    def begin(self, role, backend="python-host"):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.scratch = tempfile.mkdtemp(prefix="python-worker.")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        os.set_inheritable(theirs.fileno(), True)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(PACKAGE / "main.py"), f"--role={role}", f"--backend={backend}",
             f"--channel-fd={theirs.fileno()}", f"--scratch={self.scratch}", "--interpreter=python",
             "--sandbox-level=L0"],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        theirs.close()
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.channel = channel.Channel(ours.detach())
        frame, _ = self.receive()
        self.assertEqual((frame["hello"]["version"], frame["hello"]["role"]), (1, role))
        return frame["hello"]

    def receive(self):
        """The next frame, which is one by the definitions too."""
        frame, files = self.channel.receive()
        json_format.ParseDict(frame, messages_by_name()["tunefarm.worker.v1.Frame"]())
        return frame, files

    def prepare(self, source=MODULE, module="kernel"):
        kernel = messages.encode({"display_name": "k", "python": {"module": module, "device": 2},
                                  "sources": [{"path": module + ".py", "content": base64.b64encode(source).decode()}]})
        if self.process.args[4] == "--role=run":
            self.channel.send({"warm_start": {}})
        self.channel.send({"prepare": {"problem": {"dims": {"N": {"int_value": 64}}},
                                       "device_class": {"l2_bytes": 1 << 20}, "tolerance": {"atol": 0.0}}}, kernel)
        frame, _ = self.receive()
        self.assertTrue(frame["prepared"].get("ok"), frame)

    def evaluate(self, fault, artifact=None, number=1, **more):
        self.channel.send({"evaluate": dict({
            "evaluation_id": number, "input_seed": 1, "derived": {"twice": {"int_value": 8}},
            "config": {"values": {"BLOCK": {"int_value": 4}, "FAULT": {"string_value": fault}}},
            "policy": {"warmup_launches": 1, "min_samples": 3, "max_samples": 6, "time_budget_ms": 1000,
                       "target_relative_half_width": 0.5, "noisy_relative_half_width": -1.0}}, **more)}, artifact)
        phases = []
        while True:
            frame, files = self.receive()
            if "result" in frame:
                self.assertEqual(frame["result"]["evaluation_id"], number)
                return frame["result"], phases, files
            phases.append(frame["phase_began"]["phase"])

    def compiled(self):
        self.begin("compile")
        self.prepare()
        result, phases, files = self.evaluate("none")
        self.assertEqual((result["outcome"], phases, len(files)), (messages.OK, [messages.PHASE_COMPILE], 1))
        refused, _, none = self.evaluate("compile", number=2)
        self.assertEqual((refused["outcome"], none), (messages.COMPILE_ERROR, []))
        self.assertIn("not this one", refused["message"])
        self.assertIn("Traceback", refused["log"])
        self.channel.send({"shutdown": {}})
        self.assertEqual(self.process.wait(), 0)
        return files[0]

    def test_no_files_in_memory_for_kernels_on_a_gpu(self):
        artifact = self.compiled()
        self.begin("run", "python-cuda")
        self.prepare()
        result, _, _ = self.evaluate("memfd", artifact)
        self.assertEqual(result["outcome"], messages.RUN_CRASH)
        self.assertIn("PermissionError", result["message"] + result["log"])
        self.assertEqual(self.evaluate("none", artifact, 2)[0]["outcome"], messages.OK)
        self.channel.send({"shutdown": {}})
        self.assertEqual(self.process.wait(), 0)

    def test_a_kernel_in_triton_is_compiled_by_what_the_frames_say(self):
        fake = SOURCE / "tests" / "data" / "fake_triton"
        sources = {"product.py": "import triton\nimport triton.language as tl\n@triton.jit\ndef mm(a, n, N: tl.constexpr, "
                                 "BLOCK: tl.constexpr, FAULT: tl.constexpr):\n    pass\n"}
        sources.update({str(path.relative_to(fake)): path.read_text() for path in fake.rglob("*.py")})
        kernel = {"display_name": "k", "language": 4, "launches": [{"kernel": {"entry": "mm"}}],
                  "dims": [{"name": "N", "bind": 1}, {"name": "M", "bind": 2}], "derived": [{"name": "twice", "bind": 2}],
                  "parameters": [{"name": "BLOCK", "bind": 1}, {"name": "FAULT", "bind": 1}],
                  "sources": [{"path": path, "content": base64.b64encode(text.encode()).decode()}
                              for path, text in sources.items()]}
        self.begin("compile")
        self.channel.send({"prepare": {"problem": {"dims": {"N": {"int_value": 64}, "M": {"int_value": 5}}},
                                       "device_class": {"compute_capability": 90}}}, messages.encode(kernel))
        self.assertTrue(self.receive()[0]["prepared"].get("ok"))
        result, phases, files = self.evaluate("none", triton_signatures=["mm(*fp32,i32:16)"])
        self.assertEqual((result["outcome"], phases, len(files)), (messages.OK, [messages.PHASE_COMPILE], 1), result)
        binary = json_format.Parse(files[0].decode(), messages_by_name()["tunefarm.worker.v1.TritonBinary"]())
        self.assertEqual([one.signature for one in binary.kernels], ["mm(*fp32,i32:16)"])
        self.assertIn(b'"constants": {"BLOCK": 4, "FAULT": "none", "N": 64}', binary.kernels[0].cubin)
        refused, _, none = self.evaluate("error", number=2, triton_signatures=["mm(*fp32,i32:16)"])
        self.assertEqual((refused["outcome"], none), (messages.COMPILE_ERROR, []))
        self.assertEqual(refused["message"], "mm: at 7:4: module has no attribute nothing")
        self.assertEqual(self.evaluate("none", number=3, triton_signatures=["mm(*fp32,i32)"])[0]["outcome"], messages.OK)

    def test_several_configs_in_turn_and_what_each_comes_to(self):
        artifact = self.compiled()
        self.begin("run")
        self.prepare()
        good, phases, _ = self.evaluate("none", artifact, 1, keep_samples=True)
        self.assertEqual(good["outcome"], messages.OK, good)
        self.assertEqual(phases, [1, 2, 3, 4, 5, 4])
        self.assertGreater(good["measurement"]["median_ns"], 0)
        self.assertEqual(good["measurement"]["method"], messages.METHOD_STEADY_CLOCK)
        self.assertEqual(len(good["measurement"]["sample_ns"]), good["measurement"]["samples"])
        self.assertEqual(good["verification"]["elements"], 64)
        self.assertEqual(good["message"], "")
        checked, phases, _ = self.evaluate("none", artifact, 2, verify_only=True)
        self.assertEqual((checked["outcome"], phases[-1]), (messages.OK, messages.PHASE_VERIFY))
        self.assertNotIn("measurement", checked)
        for number, (fault, outcome) in enumerate((("raise", messages.RUN_CRASH), ("exit", messages.RUN_CRASH),
                                                   ("wrong", messages.WRONG_RESULT), ("none", messages.OK)), 3):
            result, _, _ = self.evaluate(fault, artifact, number)
            self.assertEqual(result["outcome"], outcome, result)
            self.assertLessEqual(len(result["message"]), messages.MESSAGE_BYTES_MAX)
        self.assertIsNone(self.process.poll())

    def test_children_end_with_their_config(self):
        artifact = self.compiled()
        self.begin("run")
        self.prepare()
        self.assertEqual(self.evaluate("child", artifact)[0]["outcome"], messages.OK)
        # By the answer to the next frame they are gone.
        self.assertEqual(self.evaluate("none", artifact, 2)[0]["outcome"], messages.OK)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.assertEqual(children.split(), [])

    def test_a_config_changes_limits_and_cores_for_itself_alone(self):
        artifact = self.compiled()
        self.begin("run")
        self.prepare()

        def state():
            return (os.sched_getaffinity(self.process.pid), resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE),
                    os.getpriority(os.PRIO_PROCESS, self.process.pid))

        before = state()
        changed, _, _ = self.evaluate("limits", artifact)
        self.assertEqual((changed["outcome"], changed.get("worker_is_damaged", False)), (messages.OK, False))
        self.assertEqual(state(), before)
        # Only root may raise it again: the worker is replaced, or what it was is set back.
        changed, _, _ = self.evaluate("priority", artifact, 2)
        self.assertEqual(changed["outcome"], messages.OK)
        self.assertEqual(changed.get("worker_is_damaged", False), state() != before)

    def test_a_crash_closes_the_channel_and_says_how(self):
        artifact = self.compiled()
        self.begin("run")
        self.prepare()
        with self.assertRaises(channel.Closed):
            self.evaluate("abort", artifact)
        self.assertEqual(self.process.wait(), -signal.SIGABRT)

    def test_another_kernel_of_the_same_module_is_another(self):
        self.begin("run")
        for number, value in enumerate((1.0, 2.0), 1):
            self.prepare(b"import numpy\ndef make_run_and_gt(config):\n"
                         b"    return (lambda: numpy.full(3, %f)), numpy.ones(3)\n" % value)
            result = self.evaluate("none", None, number)[0]
            self.assertEqual(result["outcome"], messages.OK if value == 1.0 else messages.WRONG_RESULT, result)

    def test_a_comparison_that_says_little_is_noted(self):
        self.begin("run")
        self.prepare(b"import numpy\ndef make_run_and_gt(config):\n"
                     b"    return (lambda: numpy.full(32, 2.0)), numpy.full(32, 2.0)\n")
        for number, more in enumerate(({}, {"verify_only": True}), 1):
            result = self.evaluate("none", None, number, **more)[0]
            self.assertEqual(result["outcome"], messages.OK, result)
            self.assertIn("2 in every element would pass", result["message"])

    def test_modules_that_are_of_no_use(self):
        self.begin("run")
        for number, (source, outcome, words) in enumerate((
                (b"import nobody_has_this\n", messages.COMPILE_ERROR, "nobody_has_this"),
                (b"def make_run_and_gt(config:\n", messages.COMPILE_ERROR, "SyntaxError"),
                (b"x = 1\n", messages.LOAD_ERROR, "make_run_and_gt(config)"),
                (b"def make_run_and_gt(config):\n    return print\n", messages.LOAD_ERROR, "must give"),
                (b"def make_run_and_gt(config):\n    return (lambda: 'text'), 1.0\n", messages.RUN_CRASH, "output"),
                (b"def make_run_and_gt(config):\n    raise MemoryError()\n", messages.OUT_OF_MEMORY, "MemoryError"),
                # A name of the harness's own parts.
                (b"class OutOfResources(Exception): pass\n"
                 b"def make_run_and_gt(config):\n    raise OutOfResources('x')\n",
                 messages.INFEASIBLE_LAUNCH, "OutOfResources")), 1):
            self.prepare(source, "timing")
            result = self.evaluate("none", None, number)[0]
            self.assertEqual(result["outcome"], outcome, result)
            self.assertIn(words, result["message"])

    def test_the_daemon_s_end_is_the_worker_s(self):
        self.begin("run")
        self.channel._socket.close()
        self.assertEqual(self.process.wait(), 0)

    def test_the_probe_names_what_it_finds(self):
        hello = self.begin("probe")
        report = self.receive()[0]["probe_report"]
        self.assertIn("numpy", report["notes"][0])
        self.assertIn("Python 3", hello["toolchain"])
        # A release by which kernels can be compiled, or why there is none.
        is_off = any(note.startswith("kernels in Triton are off: python has ") for note in report["notes"])
        self.assertEqual(is_off, not report.get("triton_version"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
