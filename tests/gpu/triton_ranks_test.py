"""All ranks of torchrun launch the same configs of kernels for @triton.autotune: 20 starts with clean caches of Triton on two
GPUs, or on one that the ranks share, one rank after the end of the tuning that the other began, later starts of the same
run, and ranks without the daemon, which have the run's configs or say that they do not know them. Needs a GPU and an
interpreter with torch, Triton and the packages of the client, which also is the daemon's: the one that runs this file. Takes
one to two minutes. Run it by hand, from the source folder, after a build:

    TUNEFARM_SOURCE_DIR=$PWD PYTHONPATH=$PWD/build/release/python TUNEFARM_BIN_DIR=$PWD/build/release/bin \
        python3 tests/gpu/triton_ranks_test.py
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["TUNEFARM_BIN_DIR"])
DATA = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "triton"
PAIRS = 5  # of starts of one run, by --rdzv-id
SINGLES = 10  # starts with --standalone, each a run of its own
PARALLEL = 8  # starts at a time
SECONDS_MAX = 195  # for all starts
DAEMON_SECONDS = 60
END_SECONDS = 20  # of torchrun and its ranks, once they are told to end
# What becomes of the rank that comes second.
CONNECTED, CUT_OFF, CUT_OFF_ELSEWHERE = "connected", "cut off", "cut off, on a machine without notes"


def rank():
    """A rank: launches, and writes which configs it used, and why."""
    plan = json.loads(os.environ["RANKS_TEST_PLAN"])
    folder, own = pathlib.Path(plan["folder"]), int(os.environ["LOCAL_RANK"])
    is_first = own == plan["first"]
    if not is_first and plan["second"] != CONNECTED:
        os.environ["TUNEFARM_DATA_DIR"] = str(folder / "no daemon")
        if plan["second"] == CUT_OFF_ELSEWHERE:
            os.environ["XDG_CACHE_HOME"] = str(folder / "no notes")
    os.environ["TRITON_CACHE_DIR"] = str(folder / f"triton{own}")
    import torch
    import triton

    import tunefarm.triton
    from tunefarm.triton import _autotune, _session

    # Where there are two, the first ranks of half of the starts are on either GPU.
    torch.cuda.set_device((own + plan["number"]) % min(2, torch.cuda.device_count()))
    tunefarm.triton.install("wait")
    sys.path.insert(0, str(DATA))
    import autotuned
    import kernels

    # Its first config is slow. No other run has its key.
    axpy = tunefarm.triton.autotune(
        configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 1), (1024, 4), (2048, 8))],
        key=["n"], policy="default")(kernels.axpy)
    decisions = []
    decide = _autotune._Cache._decide

    def noted(cache, key, call):
        decision = decide(cache, key, call)
        decisions.append([f"{cache._tuner.base_fn.__name__} {key}", str(decision.config), decision.why])
        return decision

    _autotune._Cache._decide = noted
    benchmarks = []
    bench = triton.runtime.Autotuner._bench
    triton.runtime.Autotuner._bench = lambda *arguments, **named: benchmarks.append(1) or bench(*arguments, **named)

    torch.manual_seed(1)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((1000, 520), (520, 768)))
    q, k, v = (torch.randn((8, 1000, 64), device="cuda", dtype=torch.float16) for _ in range(3))
    count = (1 << 22) + 1024 * plan["run"]
    x, y = (torch.randn(count, device="cuda") for _ in range(2))
    if not is_first:
        wait_for_file(folder / "tuned")
    torch.testing.assert_close(autotuned.matmul(a, b), a @ b, atol=5e-2, rtol=1e-2)
    torch.testing.assert_close(autotuned.attention(q, k, v), torch.nn.functional.scaled_dot_product_attention(q, k, v),
                               atol=1e-2, rtol=1e-2)
    wanted = y + 0.5 * x
    axpy[lambda META: (triton.cdiv(count, META["BLOCK"]),)](y, x, 0.5, count)
    torch.testing.assert_close(y, wanted)
    torch.cuda.synchronize()
    (key,) = axpy.cache
    name = axpy.cache._kernel.name(key)
    (folder / f"rank{own}.json").write_text(json.dumps(
        {"run_id": os.environ.get("TORCHELASTIC_RUN_ID"), "decisions": decisions, "benchmarks": len(benchmarks), "name": name}))
    if is_first:
        session = _session.current()
        job = session.job_of(name)
        if job is not None:
            session.client().wait(job, timeout=SECONDS_MAX)
        (folder / "tuned").touch()


def wait_for_file(path):
    end = time.monotonic() + SECONDS_MAX
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{path} did not come within {SECONDS_MAX} s")
        time.sleep(0.05)


class Start:
    """One call of torchrun. `number` counts all starts, `run` the runs."""

    def __init__(self, folder, number, run, is_paired):
        self.number, self.run = number, run
        self.folder = pathlib.Path(folder) / f"start{number}"
        self.folder.mkdir()
        self.notes = pathlib.Path(folder) / "notes" / str(run)
        self.second = (CONNECTED, CONNECTED, CUT_OFF, CONNECTED, CUT_OFF_ELSEWHERE)[number % 5]
        self.first = number // 2 % 2
        self.rendezvous = (["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", f"run{run}"] if is_paired
                           else ["--standalone"])
        self.problem, self.output, self.seconds = "it was not made, for lack of time", "", 0.0

    def make(self, end):
        left = end - time.monotonic()
        if left <= 0:
            return
        begin = time.monotonic()
        plan = {"folder": str(self.folder), "number": self.number, "run": self.run, "first": self.first, "second": self.second}
        process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *self.rendezvous, "--nproc-per-node", "2", __file__, "rank"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "RANKS_TEST_PLAN": json.dumps(plan), "XDG_CACHE_HOME": str(self.notes), "OMP_NUM_THREADS": "1",
                 "TUNEFARM_TRITON_LOG": "1"})
        try:
            self.output, _ = process.communicate(timeout=left)
            self.problem = f"torchrun ended with {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            self.problem = "it did not end in time"
            process.terminate()  # torchrun ends its ranks
            try:
                self.output, _ = process.communicate(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self.seconds = time.monotonic() - begin

    def ranks(self):
        """(whether it may not know, what it wrote) of each."""
        return [(number != self.first and self.second == CUT_OFF_ELSEWHERE,
                 json.loads((self.folder / f"rank{number}.json").read_text())) for number in range(2)]


class TritonRanks(unittest.TestCase):
    def test_all_agree_or_say_that_they_do_not_know(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            data = f"{folder}/data"
            os.environ["TUNEFARM_DATA_DIR"] = data
            os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
            for name in list(os.environ):
                if name.startswith(("TUNEFARM_SERVER", "TUNEFARM_TRITON", "TORCHELASTIC")):
                    del os.environ[name]
            daemon = subprocess.Popen([BIN / "tunefarmd", "--data-dir", data, "--python-interpreter", sys.executable],
                                      stdin=subprocess.DEVNULL)
            try:
                with self.connected(daemon, data) as client:
                    if not any(device.device_class.kind.name == "CUDA" for device in client.devices()):
                        self.skipTest("there is no GPU")
                    runs = self.make_starts(folder)
                    self.check(client, runs)
            finally:
                daemon.kill()
                daemon.wait()

    def make_starts(self, folder):
        begin = time.monotonic()
        runs = [[Start(folder, 2 * run, run, True), Start(folder, 2 * run + 1, run, True)] for run in range(PAIRS)]
        runs += [[Start(folder, PAIRS + run, run, False)] for run in range(PAIRS, PAIRS + SINGLES)]

        def make(starts):
            for start in starts:
                start.make(begin + SECONDS_MAX)

        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(make, runs))
        starts = [start for run in runs for start in run]
        print(f"{len(starts)} starts in {time.monotonic() - begin:.0f} s, each in "
              f"{min(start.seconds for start in starts):.0f} to {max(start.seconds for start in starts):.0f} s", flush=True)
        return runs

    def check(self, client, runs):
        failures, told_apart, agreed, unknown = [], 0, 0, 0
        for starts in runs:
            used = {}  # by kernel and key: (config, rank and why) of all ranks that say that they agree
            names, ids, keys = set(), set(), set()
            for start in starts:
                what = f"start {start.number} of run {start.run} ({start.second})"
                if start.problem:
                    failures.append(f"{what}: {start.problem}\n{start.output[-6000:]}")
                    continue
                for number, (may_not_know, written) in enumerate(start.ranks()):
                    names.add(written["name"])
                    ids.add(written["run_id"])
                    keys.add(tuple(sorted(key for key, _, _ in written["decisions"])))
                    if written["benchmarks"]:
                        failures.append(f"{what}, rank {number}: Triton tuned: {written['benchmarks']} benchmarks")
                    for key, config, why in written["decisions"]:
                        is_known = "NOT AGREED" not in why
                        if is_known == may_not_know:
                            failures.append(f"{what}, rank {number}, {key}: {config} ({why}); it was to "
                                            f"{'say that it does not know' if may_not_know else 'agree'}")
                        if is_known:
                            used.setdefault(key, []).append((config, f"{what}, rank {number}: {why}"))
                        else:
                            unknown += 1
            if len(keys) > 1 or len(ids) > 1 or len(names) > 1:
                failures.append(f"run {starts[0].run}: the ranks are of runs {ids}, with kernels {names} and keys {keys}")
            for key, entries in used.items():
                agreed += len(entries)
                if len({config for config, _ in entries}) > 1:
                    failures.append(f"run {starts[0].run}, {key}: different configs:\n" +
                                    "\n".join(f"    {config}   ({who})" for config, who in entries))
                if key.startswith("axpy") and len(names) == 1:
                    best = client.best(*names, worst_match="STALE_SOURCE").config
                    told_apart += not entries[0][0].startswith(f"BLOCK: {best.get('BLOCK')},")
        print(f"{agreed} decisions agreed, {unknown} said that they do not know; in {told_apart} runs a rank by itself would "
              "have launched another config", flush=True)
        self.assertEqual(failures, [], "\n" + "\n".join(failures))
        self.assertGreater(told_apart, 0, "no tuning found another config than the one that the ranks agreed on before")
        self.assertGreater(unknown, 0)

    def connected(self, daemon, data):
        import tunefarm

        end = time.monotonic() + DAEMON_SECONDS
        while True:
            try:
                return tunefarm.Client(data_directory=data, start=False)
            except tunefarm.UnavailableError:
                if daemon.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        rank()
    else:
        unittest.main(verbosity=2)
