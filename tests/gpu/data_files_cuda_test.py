"""The sparse kernel in CUDA on the users' own rows: by a daemon with a GPU, and through a remote agent that has the GPU. Needs
a GPU, NumPy and the Python client's packages. Run it by hand, from the source folder:

    TUNEFARM_SOURCE_DIR=$PWD TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        PYTHONPATH=$PWD/build/release/python:tests/e2e:tests/fault python3 tests/gpu/data_files_cuda_test.py
"""

import shutil
import subprocess
import sys
import unittest

import data_files_test
import numpy
from data_files_test import FAST, NAMES, SPMV
from farm import Farm
from machines import Machines


class SparseKernelOnAGpu(data_files_test.WithFolder):
    def matrix(self):
        matrix = super().matrix()
        matrix.definition = matrix.folder / "spmv_cuda.pbtxt"
        return matrix

    def assert_tuned_on_a_gpu(self, farm, job):
        self.assert_tuned(farm, job)
        devices = {trial["device_uuid"] for trial in farm.trials(job)}
        self.assertEqual({device[:4] for device in devices}, {"GPU-"}, devices)
        print(farm.cli("results", job, "--rows", "2").stdout, file=sys.stderr)

    def test_is_tuned_on_the_rows_of_its_files(self):
        with Farm() as farm:
            farm.devices = []
            farm.start()
            matrix = self.matrix()
            farm.cli("tune", matrix.definition, *FAST)
            self.assert_tuned_on_a_gpu(farm, 1)
            self.assertIn("EXACT", farm.cli("best", matrix.definition).stdout)

            # Another matrix for the same kernel, with a product that was computed elsewhere.
            large = matrix.folder / "large"
            subprocess.run([sys.executable, SPMV / "make_matrix.py", large, "--width", "300"], check=True, capture_output=True)
            matrix.data = {name: numpy.load(large / f"{name}.npy") for name in NAMES}
            matrix.rows = len(matrix.data["row_starts"]) - 1
            x = numpy.linspace(-1, 1, matrix.rows, dtype="f4")
            y = matrix.product(x)
            numpy.save(large / "x.npy", x)
            numpy.save(large / "y.npy", y)
            data = [f"--input={name}={large}/{name}.npy" for name in (*NAMES, "x")]
            data += [f"--expected=y={large}/y.npy"]
            data += [f"--dim=rows={matrix.rows}", f"--dim=nonzeros={len(matrix.data['values'])}"]
            farm.cli("tune", "spmv_cuda", *FAST, *data)
            self.assert_tuned_on_a_gpu(farm, 2)
            y[7] += 1
            numpy.save(large / "y.npy", y)
            wrong = farm.cli("run", "spmv_cuda", *FAST, *data, check=False)
            self.assertEqual(wrong.returncode, 5, wrong.stderr)
            self.assertIn("WRONG_RESULT", wrong.stdout)

            # Indices beyond their limit never reach the kernel.
            columns = matrix.data["columns"].copy()
            columns[3] = matrix.rows
            numpy.save(large / "columns.npy", columns)
            refused = farm.cli("run", "spmv_cuda", *FAST, *data, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(str(matrix.rows), refused.stdout + refused.stderr)

            # After a restart the users' files are not needed.
            kernel = farm.json("jobs", "show", 1)["kernel"]
            shutil.rmtree(matrix.folder)
            farm.kill()
            farm.start()
            self.assertIn("OK", farm.cli("run", kernel, *FAST).stdout)

    def test_is_tuned_through_a_remote_agent(self):
        machines = Machines(agents=1)
        machines.agents[0].devices = []
        with machines:
            matrix = self.matrix()
            machines.control.cli("tune", matrix.definition, *FAST)
            self.assert_tuned_on_a_gpu(machines.control, 1)
            for farm in (machines.control, machines.agents[0]):
                for name in NAMES:
                    self.assertTrue(self.held(farm, matrix.data[name]).exists(), f"{name} in {farm.directory}")
            machines.agents[0].kill()
            machines.agents[0].spawn()
            self.assertIn("OK", machines.control.cli("run", matrix.definition, *FAST).stdout)


if __name__ == "__main__":
    unittest.main()
