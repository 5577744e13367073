"""The frames of the worker of kernels in Python (server/worker/python) against the definitions."""

import base64
import json
import math
import random
import struct
import sys
import unittest

from google.protobuf import descriptor_pb2

from python_worker_source import SOURCE, files
from tunefarm_worker import kernel_module, messages, timing


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
        self.assertEqual((messages.LANGUAGE_TRITON, messages.BIND_COMPILE, messages.VALUE_STRING),
                         (numbers["LANGUAGE_TRITON"], numbers["BIND_COMPILE"], numbers["VALUE_TYPE_STRING"]))
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
