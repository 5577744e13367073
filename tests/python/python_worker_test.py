"""The worker of kernels in Python (server/worker/python) without a daemon: its frames against the definitions, its
conversation as a process, its judgement of outputs and its times. Run by an interpreter with NumPy and protobuf."""

import base64
import functools
import io
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

import numpy
from google.protobuf import descriptor_pb2, json_format, message_factory

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
PACKAGE = SOURCE / "server" / "worker" / "python" / "tunefarm_worker"
sys.path.insert(0, str(PACKAGE.parent))
from tunefarm_worker import arrays, channel, checking, kernel_module, messages, timing  # noqa: E402
from tunefarm_worker.remove_tree import empty_directory, remove_tree  # noqa: E402


@functools.lru_cache(None)
def files():
    """The definitions as protoc reads them."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"-I{SOURCE / 'proto'}", "--include_imports", f"--descriptor_set_out={out.name}",
                        str(SOURCE / "proto" / "tunefarm" / "worker" / "v1" / "worker.proto")], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes()).file


@functools.lru_cache(None)
def messages_by_name():
    """The classes of the messages, made from the definitions."""
    return message_factory.GetMessages(files())


def definitions():
    """The fields of every message by its full name, and the enumerators."""
    found, enumerators = {}, {}
    for file in files():
        for message in file.message_type:
            found[f"{file.package}.{message.name}"] = message
        for enumeration in file.enum_type:
            enumerators.update({value.name: value.number for value in enumeration.value})
    return found, enumerators


def reachable(found, *names):
    """Every field of the messages and of those inside them, entries of maps aside, by the name of its message."""
    left, fields = list(names), {}
    while left:
        name = left.pop()
        if name in fields:
            continue
        nested = {f".{name}.{entry.name}": entry for entry in found[name].nested_type}
        fields[name] = []
        for field in found[name].field:
            entry = nested.get(field.type_name)
            value = entry.field[1] if entry is not None else field
            if entry is None:
                fields[name].append(field)
            if value.type == value.TYPE_MESSAGE:
                left.append(value.type_name[1:])
    return fields


Type = descriptor_pb2.FieldDescriptorProto
READ_AS = {Type.TYPE_INT64: int, Type.TYPE_UINT64: int, Type.TYPE_DOUBLE: float,
           Type.TYPE_BYTES: base64.b64decode}
# What a Python worker reads of the frames to it and of the kernel.
READ = ("tunefarm.worker.v1.Prepare", "tunefarm.worker.v1.Evaluate", "tunefarm.v1.Value", "tunefarm.v1.DeviceClass",
        "tunefarm.v1.Tolerance", "tunefarm.v1.MeasurementPolicy", "tunefarm.v1.SourceFile", "tunefarm.v1.PythonModule")


class Frames(unittest.TestCase):
    def test_fields_are_read_by_the_types_that_they_have(self):
        found, _ = definitions()
        fields = reachable(found, "tunefarm.worker.v1.Frame", "tunefarm.v1.Kernel")
        needed = {field.name: READ_AS[field.type] for name in READ for field in fields[name] if field.type in READ_AS}
        self.assertEqual(messages.READ_AS, needed)
        # A name means the same type in every message.
        for name, members in fields.items():
            for field in members:
                if field.name in messages.READ_AS:
                    self.assertIs(READ_AS.get(field.type), messages.READ_AS[field.name], f"{name}.{field.name}")

    def test_every_enumerator_is_as_it_is_defined(self):
        _, numbers = definitions()
        for name in ("OK", "INFEASIBLE_LAUNCH", "COMPILE_ERROR", "LOAD_ERROR", "OUT_OF_MEMORY", "RUN_CRASH",
                     "WRONG_RESULT", "NOISY", "LOST"):
            self.assertEqual(getattr(messages, name), numbers[f"OUTCOME_{name}"])
        for name in ("COMPILE", "LOAD", "FIRST_LAUNCH", "VERIFY", "MEASURE"):
            self.assertEqual(getattr(messages, f"PHASE_{name}"), numbers[f"PHASE_{name}"])
        for name in ("CONVERGED", "TIME_BUDGET", "SAMPLE_BUDGET", "LOSING"):
            self.assertEqual(getattr(messages, f"STOP_{name}"), numbers[f"STOP_REASON_{name}"])
        for name in ("CUDA_EVENTS", "STEADY_CLOCK"):
            self.assertEqual(getattr(messages, f"METHOD_{name}"), numbers[f"TIMING_METHOD_{name}"])
        self.assertEqual((messages.DEVICE_CUDA, messages.DEVICE_HOST),
                         (numbers["DEVICE_KIND_CUDA"], numbers["DEVICE_KIND_HOST"]))

    def test_limits_are_those_of_the_daemon(self):
        limits = (SOURCE / "server" / "exec" / "frame_limits.h").read_text()
        for line in ("kFrameProtocolVersion = 1;", "kFrameBytesMax = 128 << 10;", "kFrameFdsMax = 4;",
                     "kArtifactBytesMax = 64ull << 20;", "kKernelBytesMax = 16ull << 20;",
                     "kFrameMessageBytesMax = 4 << 10;", "kFrameLogBytesMax = 32 << 10;"):
            self.assertIn(line, limits)

    def test_values_are_exact_as_the_daemon_writes_them(self):
        frame = messages.decode("""{"evaluate": {
            "evaluation_id": "18446744073709551615", "verify_only": true, "race_limit_ns": 4.94065645841247e-324,
            "config": {"values": {
                "a": {"int_value": "-9223372036854775808"}, "b": {"double_value": 0.30000000000000004},
                "c": {"bool_value": false}, "d": {"string_value": "grün \\u003c\\u0000"},
                "whole": {"double_value": 2}, "minus": {"double_value": -0}, "none": {"double_value": "NaN"},
                "l2_bytes": {"double_value": "-Infinity"}, "big": {"double_value": 1.7976931348623157e+308}}},
            "policy": {"min_samples": 3, "target_relative_half_width": 1}}}""".encode())
        evaluate = frame["evaluate"]
        self.assertEqual((evaluate["evaluation_id"], evaluate["verify_only"]), ((1 << 64) - 1, True))
        self.assertEqual(evaluate["race_limit_ns"], 5e-324)
        self.assertEqual(evaluate["policy"]["min_samples"], 3)
        values = kernel_module.plain_values(evaluate["config"]["values"])
        self.assertTrue(math.isnan(values.pop("none")))
        self.assertEqual(math.copysign(1, values["minus"]), -1)
        expected = {"a": -(1 << 63), "b": 0.1 + 0.2, "c": False, "d": "grün <\0", "whole": 2.0, "minus": 0.0,
                    "l2_bytes": -math.inf, "big": sys.float_info.max}
        self.assertEqual(values, expected)
        self.assertEqual({name: type(value) for name, value in values.items()},
                         {name: type(value) for name, value in expected.items()})
        device = messages.decode(b'{"l2_bytes": "1099511627776", "grid_max": ["2147483647", "65535"], "sm_count": 132}')
        self.assertEqual(device, {"l2_bytes": 1 << 40, "grid_max": [2147483647, 65535], "sm_count": 132})
        self.assertEqual(messages.decode(b'{"content": "AP8="}'), {"content": b"\x00\xff"})

    def test_what_is_written_is_json_and_no_more(self):
        result = {"result": {"evaluation_id": (1 << 64) - 1, "outcome": messages.OK, "log": 'a "b"\n\udc80',
                             "verification": {"first_mismatches": [{"actual": math.nan, "expected": -math.inf}],
                                              "max_absolute_error": 0.1 + 0.2, "max_relative_error": math.inf}}}
        text = messages.encode(result).decode("utf-8")
        self.assertNotIn(" ", text.replace('a \\"b', ""))
        read = json.loads(text, parse_constant=self.fail)["result"]
        self.assertEqual((read["evaluation_id"], read["outcome"], read["log"]), ((1 << 64) - 1, 1, 'a "b"\n?'))
        self.assertEqual(read["verification"], {"first_mismatches": [{"actual": "NaN", "expected": "-Infinity"}],
                                                "max_absolute_error": 0.1 + 0.2, "max_relative_error": "Infinity"})

    def test_the_longest_results_fit_into_a_frame(self):
        text = {"message": '"' * messages.MESSAGE_BYTES_MAX, "log": "\n" * messages.LOG_BYTES_MAX}
        samples = [1.2345678e-9 + 1e-16 * i for i in range(4096)]
        self.assertLess(len(messages.encode({"result": text})), messages.FRAME_BYTES_MAX)
        self.assertLess(len(messages.encode({"result": {"measurement": {
            "sample_ns": timing.single_precision(samples)}}})), messages.FRAME_BYTES_MAX)

    def test_samples_keep_what_their_field_holds(self):
        draw = random.Random(3)
        samples = [draw.uniform(1, 10) * 10 ** draw.randrange(-3, 12) for _ in range(4096)]
        self.assertEqual([struct.pack("f", sample) for sample in timing.single_precision(samples)],
                         [struct.pack("f", sample) for sample in samples])

    def test_garbage_is_an_error_and_nothing_else(self):
        for data in (b"", b"{", b"[]", b"1", b"null", b"\xff", b'{"a": "\xff"}', b"[" * 100_000, b'{"int_value": "x"}',
                     b'{"int_value": null}', b'{"double_value": "x"}', b'{"content": "A"}', b'{"content": 1}'):
            with self.assertRaises(ValueError, msg=data[:20]):
                messages.decode(data)


class Judgement(unittest.TestCase):
    def check(self, own, expected, **tolerance):
        return checking.compare(arrays.leaves(own), arrays.leaves(expected), checking.Tolerance(**tolerance))

    def test_what_equals_passes_and_what_does_not_is_counted(self):
        truth = numpy.linspace(1, 2, 1000)
        self.assertIsNone(self.check(truth.copy(), truth).wrong)
        near = truth + 1e-6
        self.assertIsNone(self.check(near, truth, atol=1e-5).wrong)
        self.assertIsNone(self.check(near.astype("float32"), truth, rtol=1e-5).wrong)
        found = self.check(near, truth)
        self.assertEqual((found.elements, found.mismatches, len(found.first)), (1000, 1000, 8))
        self.assertAlmostEqual(found.max_absolute_error, 1e-6, places=9)

    def test_a_share_may_miss_but_nothing_may_be_far_off_or_no_number(self):
        truth = numpy.ones(1000)
        own = truth.copy()
        own[:10] = 1.5
        self.assertIsNone(self.check(own, truth, max_mismatch_fraction=0.01).wrong)
        self.assertIsNotNone(self.check(own, truth, max_mismatch_fraction=0.009).wrong)
        self.assertIsNotNone(self.check(own, truth, max_mismatch_fraction=0.01, catastrophic_bound=0.4).wrong)
        for value in (math.nan, math.inf, -math.inf):
            own = truth.copy()
            own[500] = value
            found = self.check(own, truth, atol=1e9, max_mismatch_fraction=0.5)
            self.assertIn("500", found.wrong)
        infinite = truth.copy()
        infinite[3] = math.inf
        self.assertIsNone(self.check(infinite.copy(), infinite).wrong)

    def test_what_the_truth_leaves_unwritten_must_stay_so(self):
        truth = numpy.array([1.0, math.nan])
        self.assertIsNone(self.check(numpy.array([1.0, math.nan]), truth).wrong)
        self.assertIsNotNone(self.check(numpy.array([1.0, 0.0]), truth).wrong)
        self.assertIn("only NaN", self.check(numpy.full(3, math.nan), numpy.full(3, math.nan)).wrong)

    def test_integers_truths_shapes_and_numbers(self):
        truth = numpy.array([2**62, 5])
        self.assertIsNotNone(self.check(truth + [1, 0], truth).wrong)
        self.assertIsNone(self.check(truth + [0, 1], truth, atol=1).wrong)
        self.assertIsNotNone(self.check(numpy.array([True]), numpy.array([False])).wrong)
        self.assertIn("shape", self.check(numpy.ones(3), numpy.ones((1, 3))).wrong)
        self.assertIn("outputs", self.check([numpy.ones(3)], [numpy.ones(3), 1]).wrong)
        self.assertIsNone(self.check({"a": [1.0, 2]}, {"a": (1.0, 2)}).wrong)
        self.assertIn("type", self.check(numpy.ones(3, int), numpy.ones(3)).wrong)
        with self.assertRaises(arrays.NotAnArray):
            self.check("text", numpy.ones(3))

    def test_rows_have_a_norm_of_their_own(self):
        truth = numpy.ones((4, 8))
        own = truth.copy()
        own[2] += 0.1
        self.assertIsNone(self.check(own, truth, atol=0.2, row_norm_bound=0.2, row_length=8).wrong)
        self.assertIn("row 2", self.check(own, truth, atol=0.2, row_norm_bound=0.05, row_length=8).wrong)

    def test_a_truth_that_varies_less_than_the_tolerance_has_a_constant_that_passes(self):
        truth = numpy.arange(64.0) % 8

        def constant(truth, **tolerance):
            return checking.passing_constant(truth, checking.Tolerance(**tolerance))

        self.assertEqual(constant(truth, atol=4.0), 3.5)
        self.assertIsNone(self.check(numpy.full(64, 3.5), truth, atol=4.0).wrong)
        self.assertIsNone(constant(truth, atol=3.4))
        self.assertIsNone(constant(truth[:15], atol=4.0))
        self.assertIsNone(constant(truth, atol=4.0, row_norm_bound=0.1, row_length=8))
        self.assertEqual(constant(numpy.where(truth < 4, truth, math.nan), atol=2.0), 1.5)
        self.assertIsNone(constant(numpy.where(truth < 7, truth, math.inf), atol=4.0))
        self.assertEqual(constant(numpy.full((4, 4), 7)), 7.0)
        self.assertIsNone(constant(numpy.arange(16) % 2, rtol=1.0, atol=0.9))
        note = checking.constant_note([("a", truth), ("b", numpy.ones(16))], checking.Tolerance())
        self.assertIn("1 in every element would pass for b", note)

    def test_both_parts_of_complex_numbers_are_compared(self):
        truth = numpy.arange(6) + 1j
        self.assertIsNone(self.check(truth.copy(), truth).wrong)
        for part, wrong in (("real", truth + 1), ("imag", truth + 1j), ("imag", truth.conj())):
            self.assertIn(f".{part} differ", self.check(wrong, truth).wrong)
        self.assertIn("is of type", self.check(truth.real, truth).wrong)
        self.assertIn("is of type", self.check(truth, truth.real).wrong)
        unwritten = numpy.empty(6, "complex64")
        arrays.poison(unwritten, 0)
        unwritten.real[:] = truth.real
        self.assertIn(".imag differ", self.check(unwritten, truth).wrong)

    def test_poison_is_in_every_element_and_of_two_kinds(self):
        for kind in ("float16", "float32", "float64", "complex64"):
            array = numpy.ones((3, 4), kind)[:, ::2]
            self.assertTrue(arrays.poison(array, 0))
            for part in (array.real, array.imag) if kind == "complex64" else (array,):
                self.assertTrue(numpy.isnan(part).all())
        for kind in ("int8", "uint8", "int32", "int64", "bool"):
            first, second = numpy.ones((3, 4), kind), numpy.ones((3, 4), kind)
            self.assertTrue(arrays.poison(first, 0) and arrays.poison(second, 1))
            self.assertTrue((first != second).all(), kind)
        fixed = numpy.ones(3)
        fixed.flags.writeable = False
        self.assertFalse(arrays.poison(fixed, 0))


class Times(unittest.TestCase):
    def test_the_interval_is_that_of_order_statistics(self):
        # Known ranks of the 95 % interval of a median.
        for count, low, high in ((6, 1, 6), (9, 2, 8), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
            interval = timing.median_interval([float(i) for i in range(1, count + 1)])
            self.assertEqual((interval.low, interval.high), (low, high), count)
            self.assertGreaterEqual(interval.coverage, 0.95)
        self.assertLess(timing.median_interval([1.0, 2.0, 3.0]).coverage, 0.95)

    def measure(self, samples, race_limit_ns=0.0, **policy):
        class Scripted(timing.Timer):
            def __init__(self):
                self.left = list(samples)

            def sample(self, run, launches, cold):
                run()
                return float(self.left.pop(0) if len(self.left) > 1 else self.left[0]) * launches

        policy = dict({"warmup_launches": 1, "time_budget_ms": 60_000}, **policy)
        return timing.measure(lambda: None, Scripted(), policy, race_limit_ns, True)

    def test_it_stops_when_it_knows_enough(self):
        found = self.measure([7e6] * 50, min_samples=10, max_samples=100, target_relative_half_width=0.01)
        self.assertEqual((found["samples"], found["stop_reason"]), (10, messages.STOP_CONVERGED))
        self.assertEqual((found["median_ns"], len(found["sample_ns"])), (7e6, 10))
        found = self.measure([1, 1e6, 9e6] * 99, min_samples=10, max_samples=30, target_relative_half_width=0.01)
        self.assertEqual((found["samples"], found["stop_reason"]), (30, messages.STOP_SAMPLE_BUDGET))
        self.assertTrue(timing.is_noisy(found, {"noisy_relative_half_width": 0.5}))
        self.assertFalse(timing.is_noisy(found, {"noisy_relative_half_width": -1.0}))

    def test_what_cannot_win_is_left(self):
        policy = {"min_samples": 50, "max_samples": 100, "first_look_samples": 6, "target_relative_half_width": 1e-9}
        lost = self.measure([9e6 + i for i in range(100)], 1e6, **policy)
        self.assertEqual((lost["samples"], lost["stop_reason"]), (6, messages.STOP_LOSING))
        kept = self.measure([9e6 + i for i in range(100)], 1e6, no_early_stop=True, **policy)
        self.assertEqual(kept["samples"], 100)


class Caches(unittest.TestCase):
    def test_what_is_packed_is_unpacked_and_nothing_leads_out(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        inside = pathlib.Path(folder, "one", "deep")
        inside.mkdir(parents=True)
        (inside / "a.so").write_bytes(b"\x7fELF")
        (inside / "link").symlink_to("/etc/passwd")
        packed = kernel_module.pack(os.path.join(folder, "one"))
        self.assertEqual(packed, kernel_module.pack(os.path.join(folder, "one")))
        kernel_module.unpack(packed, os.path.join(folder, "two"))
        self.assertEqual([p.name for p in pathlib.Path(folder, "two", "deep").iterdir()], ["a.so"])
        for name, kind in (("../a.so", tarfile.REGTYPE), ("/tmp/a.so", tarfile.REGTYPE), ("a.so", tarfile.SYMTYPE),
                           ("", tarfile.REGTYPE), ("a.so", tarfile.FIFOTYPE)):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as archive:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
            with self.assertRaises(ValueError, msg=name):
                kernel_module.unpack(out.getvalue(), os.path.join(folder, "three"))
            self.assertEqual(list(pathlib.Path(folder, "three").glob("**/*")), [])


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


class Conversation(unittest.TestCase):
    """The process, by frames over a socket, as the daemon speaks with it."""

    def begin(self, role):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.scratch = tempfile.mkdtemp(prefix="python-worker.")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        os.set_inheritable(theirs.fileno(), True)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(PACKAGE / "main.py"), f"--role={role}", "--backend=python-host",
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


class RemoveTree(unittest.TestCase):
    def test_modes_depth_and_links_do_not_matter(self):
        with tempfile.TemporaryDirectory() as directory:
            top = f"{directory}/top"
            os.makedirs(f"{top}/a/b/c")
            pathlib.Path(f"{top}/a/b/c/file").write_text("x")
            pathlib.Path(f"{directory}/kept").write_text("x")
            os.symlink(directory, f"{top}/link")
            at = os.open(f"{top}/a", os.O_RDONLY)
            for _ in range(1500):
                os.mkdir("d", dir_fd=at)
                below = os.open("d", os.O_RDONLY, dir_fd=at)
                os.close(at)
                at = below
            os.close(at)
            for name in ("a/b/c", "a/b", "a", ""):
                os.chmod(f"{top}/{name}", 0)
            empty_directory(top)
            self.assertEqual(os.listdir(top), [])
            os.chmod(top, 0)
            remove_tree(top)
            remove_tree(top)
            self.assertEqual(os.listdir(directory), ["kept"])
            remove_tree(f"{directory}/kept")
            self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
