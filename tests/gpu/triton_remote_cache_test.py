"""Triton's own RemoteCacheManager over the daemon: the second start, with clean local caches, compiles nothing and times only
what Triton's cache leaves out; a start without the daemon does all itself. Needs a GPU and an interpreter with torch, Triton
and the packages of the client. Run it from the source folder, after a build:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        python3 tests/gpu/triton_remote_cache_test.py
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


def program():
    """One start of the user's program, which says what happened as JSON."""
    import torch
    import triton.runtime.build
    from triton import knobs

    sys.path.insert(0, str(DATA))
    import autotuned

    compiled, found, timed, built = [], [], [], []
    knobs.compilation.listener = lambda *, src, cache_hit, **_: (found if cache_hit else compiled).append(src.name)
    bench, build = triton.runtime.Autotuner._bench, triton.runtime.build._build

    def counted_bench(self, *arguments, **named):
        timed.append(self.base_fn.__name__)
        return bench(self, *arguments, **named)

    def counted_build(name, *arguments, **named):
        built.append(name)
        return build(name, *arguments, **named)

    triton.runtime.Autotuner._bench, triton.runtime.build._build = counted_bench, counted_build
    begin = time.perf_counter()
    torch.manual_seed(1)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((1000, 520), (520, 768)))
    torch.testing.assert_close(autotuned.matmul(a, b), a @ b, atol=5e-2, rtol=1e-2)
    rows, weights = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((600, 256), (4, 256, 384)))
    begins = torch.tensor([0, 100, 100, 357, 600], device="cuda", dtype=torch.int32)
    product = torch.cat([rows[start:end].float() @ weights[group].float()
                         for group, (start, end) in enumerate(zip(begins.tolist(), begins.tolist()[1:]))])
    torch.testing.assert_close(autotuned.grouped(rows, weights, begins), product, atol=5e-2, rtol=1e-2)
    print(json.dumps({"compiled": len(compiled), "found": len(found), "built": built, "timed": sorted(set(timed)),
                      "config": str(autotuned.matmul_kernel.best_config), "seconds": time.perf_counter() - begin}))


class TritonRemoteCache(unittest.TestCase):
    def start(self, folder, number, warnings=0):
        """What a start says, with clean caches of Triton."""
        done = subprocess.run([sys.executable, __file__, "start"], capture_output=True, text=True,
                              env={**os.environ, "TRITON_CACHE_DIR": f"{folder}/triton{number}", "TRITON_CACHE_AUTOTUNING": "1",
                                   "TRITON_CACHE_MANAGER": "triton.runtime.cache:RemoteCacheManager",
                                   "TRITON_REMOTE_CACHE_BACKEND": "tunefarm.triton:RemoteCache"})
        print(f"start {number}:\n{done.stderr}{done.stdout}", flush=True)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("tunefarm: the remote cache"), warnings)
        return json.loads(done.stdout.splitlines()[-1])

    def test_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            data = f"{folder}/data"
            os.environ["TUNEFARM_DATA_DIR"] = data
            os.environ.pop("TUNEFARM_SERVER", None)
            daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", data, "--no-gpu"], stdin=subprocess.DEVNULL)
            try:
                wait_for_daemon(daemon, data)
                first = self.start(folder, 1)
                second = self.start(folder, 2)
            finally:
                daemon.kill()
                daemon.wait()
            without = self.start(folder, 3, warnings=1)
        self.assertGreater(first["compiled"], 0)
        self.assertEqual(first["timed"], ["grouped_kernel", "matmul_kernel"])
        self.assertNotEqual(first["built"], [])
        self.assertEqual((second["compiled"], second["built"]), (0, []))
        self.assertGreater(second["found"], 0)
        # Its configs have a pre_hook.
        self.assertEqual(second["timed"], ["grouped_kernel"])
        self.assertEqual(second["config"], first["config"])
        self.assertEqual(without["compiled"], first["compiled"])
        self.assertEqual(without["timed"], first["timed"])


if __name__ == "__main__":
    if sys.argv[1:] == ["start"]:
        program()
    else:
        unittest.main(verbosity=2)
