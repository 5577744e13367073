"""tunefarm.triton.install with real kernels: the first start tunes through the daemon, later ones launch nothing for tuning,
also when the daemon was killed. Needs a GPU and an interpreter with torch, Triton and the packages of the client, which also
is the daemon's: the one that runs this file. Run it by hand, from the source folder, after a build:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        python3 tests/gpu/triton_autotune_test.py
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from farm import wait_for_daemon  # noqa: E402

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "triton"
CALLS = 3


def program():
    """One start of the user's program, which says what happened as JSON."""
    import torch
    import triton.runtime

    import tunefarm.triton
    from tunefarm.triton import _autotune

    begin = time.perf_counter()
    tunefarm.triton.install()
    install_ms = (time.perf_counter() - begin) * 1e3
    sys.path.insert(0, str(DATA))
    import autotuned

    counts = {"benchmarks": 0, "launches": 0}
    decided_ms = []

    def counting(owner, attribute, name):
        original = getattr(owner, attribute)

        def counted(*arguments, **named):
            counts[name] += 1
            return original(*arguments, **named)

        setattr(owner, attribute, counted)

    counting(triton.runtime.Autotuner, "_bench", "benchmarks")
    counting(triton.runtime.JITFunction, "run", "launches")
    decide = _autotune._Cache._decide

    def timed(*arguments):
        start = time.perf_counter()
        try:
            return decide(*arguments)
        finally:
            decided_ms.append((time.perf_counter() - start) * 1e3)

    _autotune._Cache._decide = timed

    torch.manual_seed(1)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((1000, 520), (520, 768)))
    q, k, v = (torch.randn((8, 1000, 64), device="cuda", dtype=torch.float16) for _ in range(3))
    rows, weights = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((600, 256), (4, 256, 384)))
    begins = torch.tensor([0, 100, 100, 357, 600], device="cuda", dtype=torch.int32)
    product = torch.cat([rows[start:end].float() @ weights[group].float()
                         for group, (start, end) in enumerate(zip(begins.tolist(), begins.tolist()[1:]))])
    for _ in range(CALLS):
        torch.testing.assert_close(autotuned.matmul(a, b), a @ b, atol=5e-2, rtol=1e-2)
        torch.testing.assert_close(autotuned.attention(q, k, v), torch.nn.functional.scaled_dot_product_attention(q, k, v),
                                   atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(autotuned.grouped(rows, weights, begins), product, atol=5e-2, rtol=1e-2)
    kernels = (autotuned.matmul_kernel, autotuned.attention_kernel, autotuned.grouped_kernel)
    print(json.dumps({**counts, "install_ms": install_ms, "decided_ms": decided_ms,
                      "configs": [str(kernel.best_config) for kernel in kernels]}))


class TritonAutotune(unittest.TestCase):
    def start(self, folder, number, **environment):
        """What a start says, with clean caches of Triton."""
        done = subprocess.run([sys.executable, __file__, "start"], capture_output=True, text=True,
                              env={**os.environ, "TUNEFARM_TRITON_LOG": "1", "TRITON_CACHE_DIR": f"{folder}/triton{number}",
                                   "XDG_CACHE_HOME": f"{folder}/cache", **environment})
        print(f"start {number} {environment}:\n{done.stderr}{done.stdout}", flush=True)
        self.assertEqual(done.returncode, 0)
        return {**json.loads(done.stdout.splitlines()[-1]), "counts": done.stderr.partition("tunefarm.triton: decisions ")[2]}

    def test_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            data = f"{folder}/data"
            os.environ["TUNEFARM_DATA_DIR"] = data
            os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
            os.environ.pop("TUNEFARM_SERVER", None)
            os.environ.pop("TUNEFARM_TRITON_POLICY", None)
            daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", data, "--python-interpreter", sys.executable],
                                      stdin=subprocess.DEVNULL)
            try:
                wait_for_daemon(daemon, data)
                first = self.start(folder, 1)
                tuned = self.trials_by_job(data)
                # The first start tuned each kernel by a job of all its configs.
                self.assertEqual(sorted(tuned.values()), [4, 4, 6])
                second = self.start(folder, 2)
                other = self.start(folder, 3, TUNEFARM_TRITON_POLICY="default")
                self.assertEqual(self.trials_by_job(data), tuned)
            finally:
                daemon.kill()
                daemon.wait()
            without = self.start(folder, 4)
            for run in (first, second, other, without):
                self.assertEqual((run["benchmarks"], run["launches"]), (0, 3 * CALLS))
                self.assertEqual(run["configs"], first["configs"])
                self.assertEqual(len(run["decided_ms"]), 3)
            self.assertRegex(first["counts"], "^3: 3 tuned by the daemon\n")
            for run in (second, other):
                self.assertRegex(run["counts"], "^3: 3 kept from an earlier start; asked again (.): \\1 unchanged\n")
            # A daemon that is away is asked once.
            self.assertRegex(without["counts"], "^3: 3 kept from an earlier start; asked again (.): \\1 without an answer\n")
            print(f"install: {second['install_ms']:.2f} ms; decisions of the second start: "
                  f"{', '.join(f'{ms:.2f}' for ms in second['decided_ms'])} ms")

    def trials_by_job(self, data):
        """How many configs the search of each job tried."""
        import tunefarm
        from tunefarm.model import JobState, TrialPurpose

        with tunefarm.Client(data_directory=data, start=False) as client:
            jobs = client.jobs()
            self.assertEqual({job.state for job in jobs}, {JobState.SUCCEEDED})
            return {job.name: len(client.results(job, purpose=TrialPurpose.SEARCH).to_list()) for job in jobs}


if __name__ == "__main__":
    if sys.argv[1:] == ["start"]:
        program()
    else:
        unittest.main(verbosity=2)
