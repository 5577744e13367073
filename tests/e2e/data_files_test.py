"""The users' own data, from .npy files and arrays to trials: a sparse kernel with real rows, remotely too, after a restart, and
what cannot be used."""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import stat
import tempfile
import threading
import unittest

import numpy
import permitted
import tunefarm
from farm import KERNELS, Farm, SharedFarm, outcome, search
from limits_test import SmallDisk
from machines import Machines
from tunefarm.v1 import data_file_service_pb2

MIB = 1 << 20
FAST = ["--policy", "fast"]
FEW = [*FAST, "--max-trials", "6"]
SPMV = KERNELS / "examples" / "spmv"
NAMES = ("row_starts", "columns", "values")


def digest_of(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


class Matrix:
    """The kernel and its matrix in a folder of their own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        shutil.copytree(SPMV, self.folder, dirs_exist_ok=True)
        self.definition = self.folder / "spmv_host.pbtxt"
        self.data = {name: numpy.load(self.file(name)) for name in NAMES}
        self.rows = len(self.data["row_starts"]) - 1

    def file(self, name):
        return self.folder / "matrix" / f"{name}.npy"

    def save(self, name, array, **options):
        numpy.save(self.file(name), array, **options)
        return self.file(name)

    def product(self, x):
        """A x, computed here."""
        y = numpy.zeros(self.rows)
        rows = numpy.repeat(numpy.arange(self.rows), numpy.diff(self.data["row_starts"]))
        numpy.add.at(y, rows, self.data["values"].astype("f8") * x[self.data["columns"]])
        return y.astype("f4")


class WithFolder(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix="tunefarm-data.")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def matrix(self):
        return Matrix(self.folder())

    def refused(self, farm, sentence, *command, code=2):
        done = farm.cli(*command, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        messages = [line for line in done.stderr.splitlines() if line.startswith("tunefarm: ")]
        self.assertEqual(len(messages), 1, done.stderr)
        self.assertRegex(messages[0], sentence)

    def held(self, farm, array):
        return farm.directory / "data_files" / digest_of(array)

    def assert_tuned(self, farm, job):
        trials = search(farm.trials(job))
        self.assertGreater(len(trials), 0)
        self.assertEqual({outcome(trial) for trial in trials}, {"OK"})


class SparseKernel(WithFolder):
    def test_is_tuned_on_the_rows_of_its_files(self):
        with Farm() as farm:
            farm.start()
            matrix = self.matrix()
            self.assertIn("matrix/columns.npy: ", farm.cli("kernels", "check", matrix.definition).stdout)
            farm.cli("tune", matrix.definition, *FEW)
            self.assert_tuned(farm, 1)
            files = [self.held(farm, matrix.data[name]) for name in NAMES]
            before = [file.stat() for file in files]
            self.assertEqual({stat.S_IMODE(status.st_mode) for status in before}, {0o400})
            self.assertIn("EXACT", farm.cli("best", matrix.definition).stdout)
            # The same content under other names is the same program, and is not stored again.
            for name in NAMES:
                matrix.file(name).rename(matrix.folder / "matrix" / f"my_{name}.npy")
            text = matrix.definition.read_text()
            matrix.definition.write_text(re.sub(r"matrix/(\w+)\.npy", r"matrix/my_\1.npy", text))
            self.assertIn("EXACT", farm.cli("best", matrix.definition).stdout)
            farm.cli("run", matrix.definition, "--policy", "fast")
            self.assertEqual([file.stat().st_ino for file in files], [status.st_ino for status in before])
            # Another value is another program.
            values = matrix.data["values"].copy()
            values[0] += 1
            numpy.save(matrix.folder / "matrix" / "my_values.npy", values)
            self.assertIn("STALE_SOURCE", farm.cli("best", matrix.definition).stdout)

    def test_files_of_the_command_line_take_the_place_of_the_definitions(self):
        with Farm() as farm:
            farm.start()
            matrix = self.matrix()
            x = numpy.linspace(-1, 1, matrix.rows, dtype="f4")
            y = matrix.product(x)
            numpy.save(matrix.folder / "x.npy", x)
            y.tofile(matrix.folder / "y.raw")
            data = ["--input", f"x={matrix.folder}/x.npy", "--expected", f"y={matrix.folder}/y.raw"]
            done = farm.cli("tune", "spmv_host", *FEW, *data)
            self.assert_tuned(farm, 1)
            asked = re.search(r"tunefarm best (kernels/\w+)", done.stderr)
            self.assertIn("EXACT", farm.cli("best", asked[1]).stdout)
            self.assertIn("--expected", farm.cli("run", "spmv_host", *FAST, *data).stderr)
            farm.cli("kernels", "check", "spmv_host", "--run", *data)
            # What is expected is what is compared with.
            y[7] += 1
            y.tofile(matrix.folder / "y.raw")
            done = farm.cli("run", "spmv_host", *FAST, *data, check=False)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("WRONG_RESULT", done.stdout)
            # A stored definition, too.
            farm.cli("run", asked[1], *FAST, "--input", f"x={matrix.folder}/x.npy")

    def test_runs_again_after_a_restart_without_the_users_files(self):
        with Farm() as farm:
            farm.start()
            matrix = self.matrix()
            farm.cli("tune", matrix.definition, *FEW)
            kernel = farm.json("jobs", "show", 1)["kernel"]
            shutil.rmtree(matrix.folder)
            matrix.folder.mkdir()
            farm.kill()
            farm.start()
            done = farm.cli("run", kernel, *FAST)
            self.assertIn("OK", done.stdout)

    def test_is_tuned_through_a_remote_agent(self):
        with Machines(agents=1) as machines:
            matrix = self.matrix()
            machines.control.cli("tune", matrix.definition, *FEW)
            self.assert_tuned(machines.control, 1)
            for name in NAMES:
                self.assertTrue(self.held(machines.control, matrix.data[name]).exists(), name)
                self.assertTrue(self.held(machines.agents[0], matrix.data[name]).exists(), name)
            # The agent has them already, and after its own restart too.
            machines.agents[0].kill()
            machines.agents[0].spawn()
            machines.control.cli("run", matrix.definition, *FAST)

    def test_is_tuned_from_arrays(self):
        with Farm() as farm:
            farm.start()
            matrix = self.matrix()
            x = numpy.linspace(-1, 1, matrix.rows, dtype="f4")
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                measure = {"noisy_relative_half_width": -1, "warm_cache": True}
                job = client.tune(matrix.definition, inputs={**matrix.data, "x": x}, expected={"y": matrix.product(x)},
                                  policy="fast", max_trials=6, measure=measure, progress=False)
                self.assertIsNotNone(job.best)
                self.assertEqual({trial.outcome for trial in client.results(job)}, {tunefarm.Outcome.OK})
                self.assertEqual(client.best(matrix.definition).match, tunefarm.Match.STALE_SOURCE)
                wrong = client.tune(matrix.definition, inputs={"x": x}, expected={"y": x}, policy="fast", max_trials=1,
                                    measure=measure, progress=False)
                self.assertIsNone(wrong.best)

    def test_indices_beyond_their_limit_are_found_before_any_config_runs(self):
        with Farm() as farm:
            farm.start()
            matrix = self.matrix()
            columns = matrix.data["columns"].copy()
            columns[5] = matrix.rows
            matrix.save("columns", columns)
            done = farm.cli("tune", matrix.definition, *FEW, check=False)
            self.assertEqual(done.returncode, 5, done.stderr)
            messages = {trial["message"] for trial in farm.trials(1)}
            self.assertTrue(any(f"columns[5] is {matrix.rows}" in message and "index_limit" in message for message in messages),
                            messages)


class Refusals(WithFolder, SharedFarm):
    def test_each_file_that_cannot_be_used_is_named_in_one_sentence(self):
        matrix = self.matrix()
        good = matrix.file("values").read_bytes()
        values = matrix.data["values"]
        two = numpy.asfortranarray(values[:100].reshape(10, 10))
        for content, sentence in (
                (values.astype("f8"), r"values.npy holds f64, and 'values' is f32; save array.astype\(numpy.float32\)"),
                (values[:-1], f"values.npy' have {4 * (len(values) - 1)} bytes.* {4 * len(values)} bytes"),
                (two, r"values.npy is in Fortran order; save numpy.ascontiguousarray\(array\)"),
                (values.astype(">f4"), "values.npy is big-endian"),
                (numpy.array([{}, None]), "values.npy holds pickled Python objects"),
                (numpy.zeros(3, "i4,f4"), "values.npy has a structured dtype"),
                (values.astype("c8"), "values.npy has elements of dtype '<c8'"),
                (values[:0], "values.npy holds no elements"),
                (good[:-1], "values.npy is truncated"), (good[:50], "values.npy is truncated"),
                (good + b"\0", "values.npy has 1 bytes behind its elements"),
                (b"\x80\x04pickled", "values.npy is no .npy file")):
            if isinstance(content, bytes):
                matrix.file("values").write_bytes(content)
            else:
                matrix.save("values", content, allow_pickle=True)
            for command in ("kernels check", "tune", "run"):
                self.refused(self.farm, sentence, *command.split(), matrix.definition)
        self.assertFalse(self.held(self.farm, values[:-1]).exists(), "what does not fit is not uploaded")
        matrix.file("values").unlink()
        self.refused(self.farm, "values.npy: No such file", "tune", matrix.definition, code=3)
        matrix.file("values").symlink_to("/etc/hostname")
        self.refused(self.farm, "outside of its folder", "tune", matrix.definition)
        self.assertEqual(self.farm.json("jobs", "list").get("jobs", []), [])

    def test_options_that_name_no_input(self):
        matrix = self.matrix()
        x = matrix.folder / "x.npy"
        numpy.save(x, numpy.ones(matrix.rows, dtype="f4"))
        for options, sentence in (
                (["--input", f"z={x}"], "no buffer of that name; its buffers are row_starts, columns, values, x, y"),
                (["--input", f"y={x}"], "--input y: the kernel does not read buffer 'y'"),
                (["--expected", f"x={x}"], "--expected x: the kernel does not write 'x'"),
                (["--input", "x"], "write --input NAME=FILE"), (["--input", "x="], "write --input NAME=FILE"),
                (["--input", f"x={x}", "--input", f"x={x}"], "there is already a file for x"),
                (["--expected", f"y={x}"], "the data of 'x' is random")):
            self.refused(self.farm, sentence, "run", matrix.definition, *options)
        self.refused(self.farm, "No such file", "run", matrix.definition, "--input", f"x={x}.none", code=3)
        # A definition whose rules name the device.
        self.refused(self.farm, f"'x.npy' have {4 * matrix.rows} bytes, and buffer 'a' has 6 elements of f32", "kernels",
                     "check", "matmul_host", "--dim", "M=2", "--dim", "K=3", "--input", f"a={x}")
        self.refused(self.farm, "no dim 'nosuch'", "kernels", "check", "matmul_host", "--dim", "nosuch=1")

    def test_a_file_that_changes_while_it_is_read(self):
        big = self.folder() / "big.npy"
        numpy.save(big, numpy.zeros(1, dtype="u1"))
        header = big.read_bytes()[:-1]
        size = 512 * MIB  # so large that the writer has its turn while the file is read
        big.write_bytes(header.replace(b"(1,), }" + b" " * 10, f"({size},), }} ".encode().ljust(17)))
        os.truncate(big, len(header) + size)
        matrix = self.matrix()
        definition = matrix.definition.read_text()
        definition = definition.replace('name: "x" buffer { data_type: F32', 'name: "x" buffer { data_type: U8')
        matrix.definition.write_text(definition)
        ended = threading.Event()

        def write():
            moment = os.stat(big).st_mtime_ns
            while not ended.is_set():
                moment += 1
                os.utime(big, ns=(moment, moment))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            self.refused(self.farm, "big.npy changed while it was read", "tune", matrix.definition, "--input", f"x={big}")
        finally:
            ended.set()
            writer.join()
        self.assertFalse([file for file in (self.farm.directory / "data_files").iterdir() if file.stat().st_size >= MIB])

    def test_a_digest_that_the_daemon_does_not_have(self):
        matrix = self.matrix()
        text = matrix.definition.read_text()
        unknown = f'file {{ digest: "{"ab" * 32}" bytes: {4 * len(matrix.data["values"])} }}'
        matrix.definition.write_text(text.replace('file: "matrix/values.npy"', unknown))
        done = self.farm.cli("tune", matrix.definition, *FEW, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ab" * 32, done.stderr)
        self.assertIn("upload it", done.stderr)


class Uploads(WithFolder):
    def test_an_upload_goes_on_where_it_broke_off(self):
        with Farm() as farm:
            farm.start()
            array = numpy.arange(16 * MIB // 4, dtype="u4")
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                digest = digest_of(array)
                content = array.tobytes()
                call = client._data_link(None, False).call
                for offset in range(0, 9 * MIB, MIB):
                    call("UploadDataFile", data_file_service_pb2.UploadDataFileRequest(
                        digest=digest, total_bytes=len(content), offset=offset, part=content[offset:offset + MIB]))
                farm.kill()
                farm.start()
                known = call("GetDataFile", data_file_service_pb2.GetDataFileRequest(digest=digest))
                self.assertEqual((known.is_whole, known.received_bytes), (False, 9 * MIB))
            folder = self.folder()
            numpy.save(folder / "x.npy", array)
            (folder / "sum.cc").write_text(
                'extern "C" void total(const unsigned* x, unsigned* y, int n) {\n'
                "  unsigned sum = 0;\n  for (int i = 0; i < n; i += STEP)\n"
                "    for (int j = i; j < n && j < i + STEP; ++j) sum += x[j];\n  y[0] = sum;\n}\n")
            (folder / "kernel.pbtxt").write_text(f'''
display_name: "total" language: HOST sources {{ path: "sum.cc" }}
dims {{ name: "N" default_value: {len(array)} }}
parameters {{ name: "STEP" values: [1, 64] }}
arguments {{ name: "x" buffer {{ data_type: U32 length: "N" access: IN fill {{ file {{ path: "x.npy" }} }} }} }}
arguments {{ name: "y" buffer {{ data_type: U32 length: 1 access: OUT }} }}
arguments {{ name: "n" scalar {{ data_type: I32 value: "N" }} }}
launches {{ kernel {{ entry: "total" arguments: ["x", "y", "n"] }} }}
reference {{ files {{ buffer: "y" file: "y.bin" }} }}
''')
            numpy.array([array.sum(dtype="u4")], dtype="u4").tofile(folder / "y.bin")
            done = farm.cli("tune", folder, *FAST)
            self.assertRegex(done.stderr, r"Uploading .*x\.npy: 16\S* MiB, from 9\S* MiB on")
            self.assert_tuned(farm, 1)

    def test_many_upload_the_same_at_once(self):
        with Farm() as farm:
            farm.start()
            array = numpy.arange(8 * MIB, dtype="u1")

            def upload(_):
                with tunefarm.Client(data_directory=farm.directory, start=False, retry_seconds=60) as client:
                    return client.upload_array(array).digest

            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                self.assertEqual(set(pool.map(upload, range(6))), {digest_of(array)})
            self.assertEqual(self.held(farm, array).read_bytes(), array.tobytes())
            self.assertEqual(len(list((farm.directory / "data_files").iterdir())), 1)

    def test_the_daemons_memory_is_flat(self):
        def peak(farm):
            status = pathlib.Path(f"/proc/{farm.process.pid}/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10

        with Farm() as farm:
            farm.start()
            folder = self.folder()
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                client.upload_array(numpy.ones(4 * MIB, dtype="u1"))
                before = peak(farm)
                array = numpy.arange(64 * MIB // 8, dtype="u8")
                array.tofile(folder / "x.bin")
                client.upload_file(folder / "x.bin")
                self.assertTrue(self.held(farm, array).exists())
                self.assertLess(peak(farm) - before, 32 * MIB)

    def test_a_quota_refuses_what_has_no_room_and_loses_nothing(self):
        with Farm("--max-data-file-bytes", 8 * MIB) as farm:
            farm.start()
            matrix = self.matrix()
            farm.cli("tune", matrix.definition, *FEW)
            big = matrix.folder / "big.bin"
            big.write_bytes(bytes(5 * MIB))
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                with self.assertRaisesRegex(tunefarm.ResourceExhaustedError, "data file has 5.*DATA_FILE_QUOTA"):
                    client.upload_file(big)
                # What nothing names makes room for what comes; what a kernel names stays.
                arrays = [numpy.full(3 * MIB, number, dtype="u1") for number in range(3)]
                for array in arrays:
                    client.upload_array(array)
            self.assertEqual([self.held(farm, array).exists() for array in arrays], [False, False, True])
            for name in NAMES:
                self.assertTrue(self.held(farm, matrix.data[name]).exists(), name)
            farm.cli("run", matrix.definition, *FAST)

    def test_a_full_disk_is_said_and_nothing_is_lost(self):
        with SmallDisk(600) as disk, Farm("--min-free-disk-bytes", 100 * MIB, directory=disk.path / "data") as farm:
            farm.start()
            matrix = self.matrix()
            farm.cli("tune", matrix.definition, *FEW)
            big = self.folder() / "big.bin"
            with open(big, "wb") as file:
                file.truncate(700 * MIB)
            with tunefarm.Client(data_directory=farm.directory, start=False) as client:
                with self.assertRaisesRegex(tunefarm.ResourceExhaustedError, "free"):
                    client.upload_file(big)
            self.assertFalse([file for file in (farm.directory / "data_files").iterdir() if file.suffix == ".part"])
            farm.cli("run", matrix.definition, *FAST)
            self.assertEqual(farm.json("jobs", "show", 1)["state"], "JOB_STATE_SUCCEEDED")


if __name__ == "__main__":
    permitted.main(verbosity=2)
