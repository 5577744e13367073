"""Look-ups of a run by a process that may lose the daemon, which the test plays. Needs none."""

import pathlib
import struct
import tempfile
import types
import unittest

import tunefarm
from tunefarm import _definitions, _run, _snapshot
from tunefarm.v1 import lookup_service_pb2

KERNEL, DIGEST, CLASS, UUID = "k" * 64, "d" * 64, "example-cpu-1", "HOST-1"


class SnapshotBytes:
    """A file with one kernel, as tunefarm export snapshot writes it."""

    def __init__(self, revision, bests):
        self.texts, self.pairs = [], []
        kernel_dims = self.add_pairs({"N": None, "dtype": "f32"})
        records = []
        for dims, config in bests:
            first_dim, first_value = self.add_pairs(dims), self.add_pairs(config)
            words = [0, self.text(CLASS), self.text("Example CPU"), self.text("N"), self.text("jobs/1"), self.text("1.0"),
                     self.text("13.0"), first_dim, len(dims), first_value, len(config), 1]
            records.append(struct.pack("<12I4d2q", *words, 1000.0, 990.0, 1010.0, 2000.0, 3, 1800000000000))
        kernel = struct.pack("<8I", self.text("matmul"), self.text(KERNEL), self.text(DIGEST), kernel_dims, 2, 0, len(bests), 0)
        text, strings = b"", b""
        for one in self.texts:
            strings += struct.pack("<II", len(text), len(one))
            text += one
        parts = [(strings, len(self.texts)), (text, len(text)), (kernel, 1), (b"".join(self.pairs), len(self.pairs)),
                 (b"".join(records), len(bests))]
        sections, body = [], b""
        for part, count in parts:
            sections += [128 + len(body), count]
            body += part + bytes(-len(part) % 8)
        rest = struct.pack("<qq10Q", revision, 1800000000000, *sections) + body
        checksum = _snapshot.xxh3(rest)
        self.bytes = struct.pack("<8sIIQQ", b"TFSNAP\r\n", 1, 128, 32 + len(rest), checksum) + rest

    def text(self, text):
        if text.encode() not in self.texts:
            self.texts.append(text.encode())
        return self.texts.index(text.encode())

    def add_pairs(self, values):
        first = len(self.pairs)
        for name, value in values.items():
            if value is None:
                kind, payload = 0, 0
            elif isinstance(value, bool):
                kind, payload = 3, int(value)
            elif isinstance(value, int):
                kind, payload = 1, value % (1 << 64)
            elif isinstance(value, float):
                kind, payload = 2, struct.unpack("<Q", struct.pack("<d", value))[0]
            else:
                kind, payload = 4, self.text(value)
            self.pairs.append(struct.pack("<IIQ", self.text(name), kind, payload))
        return first


BESTS = [({"N": 64, "dtype": "f32"}, {"TILE": -8, "FAST": True, "RATIO": 0.5, "MODE": "wide"}),
         ({"N": 64, "dtype": "bf16"}, {"TILE": 16, "FAST": False, "RATIO": 1.5, "MODE": "narrow"})]


class PlayedClient:
    """A Client as far as a Run sees it."""

    def __init__(self):
        self.calls, self.is_away, self.begun_at_ms = [], False, 1000
        self._lookup = types.SimpleNamespace(AgreeConfig=self.agree)

    def agree(self, request):
        self.calls.append(request)
        response = lookup_service_pb2.AgreeConfigResponse(run_begun_at_ms=self.begun_at_ms, run_revision=7)
        if request.HasField("question"):
            response.agreed_at_ms = 2000
            response.answer.match = tunefarm.Match.NOT_FOUND.value
        return response

    def _read(self, method, request, timeout):
        if self.is_away:
            raise tunefarm.UnavailableError("nobody answers", code="UNAVAILABLE")
        return method(request)

    def _asked(self, kernel, timeout):
        if not _definitions.is_path(kernel):
            return str(kernel), ""
        return self._read(lambda _: ("matmul", DIGEST), None, timeout)

    def devices(self, *, timeout=None):
        return [types.SimpleNamespace(uuid=UUID, device_class=types.SimpleNamespace(id=CLASS))]


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "bests.tfsnap"
        self.file.write_bytes(SnapshotBytes(7, BESTS).bytes)
        self.client = PlayedClient()

    def join(self, snapshot=True):
        return _run.Run(self.client, "job", self.file if snapshot else None, None)

    def cut_off(self, run, *arguments, **named):
        with self.assertRaises(tunefarm.UnavailableError) as raised:
            run.best(*arguments, **named)
        return str(raised.exception)

    def test_the_id_is_given_or_torchruns(self):
        self.assertEqual(_run.chosen_id("mine", {"TORCHELASTIC_RUN_ID": "theirs"}), "mine")
        self.assertEqual(_run.chosen_id(None, {"TORCHELASTIC_RUN_ID": "theirs"}), "theirs")
        for environment in ({}, {"TORCHELASTIC_RUN_ID": ""}, {"TORCHELASTIC_RUN_ID": "none"}):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "--rdzv-id"):
                _run.chosen_id(None, environment)

    def test_an_answer_is_asked_for_once_and_stays(self):
        run = self.join()
        self.assertEqual((run.revision, run.begun_at_ms), (7, 1000))
        answer = run.best("matmul", N=64)
        self.assertEqual((answer.match, answer.run, answer.agreed_at_ms), (tunefarm.Match.NOT_FOUND, "job", 2000))
        self.client.is_away = True
        self.assertEqual(run.best("matmul", N=64), answer)
        self.assertEqual([call.run_id for call in self.client.calls], ["job", "job"])

    def test_another_run_of_the_name_is_an_error(self):
        run = self.join()
        self.client.begun_at_ms = 1001
        with self.assertRaises(tunefarm.FailedPreconditionError) as raised:
            run.best("matmul", N=64)
        self.assertEqual(raised.exception.reason, "RUN_FORGOTTEN")

    def test_a_process_that_is_cut_off_takes_no_other_answer(self):
        run = self.join(snapshot=False)
        self.client.is_away = True
        self.assertRegex(self.cut_off(run, f"kernels/{KERNEL}", UUID, N=64), "other processes of run job .* no snapshot")

    def test_a_snapshot_of_the_runs_revision_answers_exactly_or_not_at_all(self):
        run = self.join()
        run.best("./matmul", UUID, N=1)  # what the path names is known from now on
        self.client.is_away = True
        kernel = f"kernels/{KERNEL}"
        for asked, device, more in ((kernel, UUID, {}), (kernel, CLASS, {}), ("./matmul", UUID, {"dtype": "f32"})):
            answer = run.best(asked, device, N=64, **more)
            self.assertEqual((answer.match, answer.agreed_at_ms, answer.run), (tunefarm.Match.EXACT, 0, "job"))
            self.assertEqual(dict(answer.config), {"TILE": -8, "FAST": True, "RATIO": 0.5, "MODE": "wide"})
            self.assertEqual((answer.time_ns, answer.best.job, answer.kernel), (1000.0, "jobs/1", kernel))
        self.assertEqual(run.best(kernel, UUID, dtype="bf16", N=64).config["TILE"], 16)
        for problem in ({"N": 65}, {"N": True}, {}, {"N": 64, "more": 1}):
            self.assertRegex(self.cut_off(run, kernel, UUID, problem=problem), "no exact answer", problem)
        # Definitions of one program may have other defaults.
        self.assertRegex(self.cut_off(run, "./matmul", UUID, N=64), "no exact answer")
        self.assertRegex(self.cut_off(run, "kernels/other", UUID, N=64), "no exact answer")
        self.assertRegex(self.cut_off(run, "matmul", UUID, N=64), "kernels/ID")
        self.assertRegex(self.cut_off(run, "./other", UUID, N=64), "kernels/ID")
        self.assertRegex(self.cut_off(run, kernel, None, N=64), "UUID or class")
        self.assertRegex(self.cut_off(run, kernel, UUID, "EXACT", N=64), "STALE")

    def test_a_snapshot_of_another_revision_does_not_answer(self):
        self.file.write_bytes(SnapshotBytes(8, BESTS).bytes)
        run = self.join()
        self.client.is_away = True
        self.assertRegex(self.cut_off(run, f"kernels/{KERNEL}", UUID, N=64), "revision 8, the run agreed on 7")

    def test_a_damaged_snapshot_is_refused_when_the_run_is_joined(self):
        whole = self.file.read_bytes()
        for at in range(len(whole)):
            self.file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            with self.assertRaises(tunefarm.InvalidArgumentError, msg=at):
                self.join()
        for size in (0, 127, 128, 200, len(whole) - 1):
            self.file.write_bytes(whole[:size])
            with self.assertRaises(tunefarm.InvalidArgumentError, msg=size):
                self.join()

    def test_the_checksum_is_that_of_the_format(self):
        for size, expected in ((241, 0x541B19226F0052E8), (1024, 0xDC5ACF0B043C445B), (1025, 0xE1D9CD946277AE26),
                               (2048, 0x848D24CC268F7498), (5000, 0x6ABE8BE5ABCB2760)):
            self.assertEqual(_snapshot.xxh3(bytes(i * 7 % 256 for i in range(size))), expected, size)


if __name__ == "__main__":
    unittest.main()
