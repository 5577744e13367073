"""What `tunefarm run` measures of a package's config, against its launch from this process. A part of torch_grouped_mm.py.

Both have the same config and the same sizes of groups (routing=explicit: expert e has rows_(e % 8) rows; tokens in the
experts' order). They take turns on the device; a turn is as many samples, enqueued at once behind flushes of the L2 cache, of
which the median counts. The ratio is the median over the turns of launch / worker, so that drifts of the clocks cancel. Each
turn of this process has its arrays at other addresses: where arrays lie changes a kernel's time by more than a percent.
"""

import json
import os
import random
import statistics
import subprocess
import tempfile
import time

# Sizes of the groups of experts e % 8: like a multinomial draw, and all rows of the case in sum.
SIZES = {
    "qwen3_up": (251, 243, 272, 262, 238, 259, 266, 257),
    "qwen3_down": (251, 243, 272, 262, 238, 259, 266, 257),
    "llama4_up": (502, 520, 489, 531, 508, 517, 497, 532),
}
BOUNDS = {"qwen3_up": 0.01, "qwen3_down": 0.01, "llama4_up": 0.02}
KERNELS = {"forward": "grouped_gemm_forward", "dX": "grouped_gemm_dx", "dW": "grouped_gemm_dw"}
SAMPLES = 20
COOLING_S = 1.0  # before a turn: at the power limit a side that follows other work at once is slower


class Worker:
    """`tunefarm run` on a daemon of its own."""

    def __init__(self, bundle):
        self.program = os.path.join(os.path.abspath(bundle), "bin", "tunefarm")
        self.directory = tempfile.TemporaryDirectory(prefix="tunefarm-pairs.")
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=self.directory.name)
        self.environment.pop("TUNEFARM_SERVER", None)

    def call(self, *words):
        return subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True)

    def median_us(self, kernel, config, dims):
        words = ["run", kernel, *config, "--device", "cuda", "--policy", "fast", "--min-samples", str(SAMPLES),
                 "--max-samples", str(SAMPLES), "--measure", "no_reuse=true", "--measure", "no_early_stop=true", "--output", "json"]
        done = self.call(*words, *(word for name, value in dims.items() for word in ("--dim", f"{name}={value}")))
        try:
            trial = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"tunefarm run {kernel}: {done.stderr.strip()[-500:]}") from None
        if trial.get("outcome") != "OUTCOME_OK":
            raise RuntimeError(f"tunefarm run {kernel}: {trial.get('outcome')} {trial.get('message', '')}")
        return float(trial["measurement"]["median_ns"]) / 1e3

    def stop(self):
        self.call("stop", "--now")
        self.directory.cleanup()


def launch_of(torch, kernel, takes_ends, op, case, sizes, turn):
    """A call that launches the kernel on arrays of its own, and what lies between them, which places those of other turns
    elsewhere."""
    from torch_grouped_mm import CASES
    tokens, topk, experts, n, k = CASES[case]
    rows = tokens * topk
    sizes = torch.tensor(sizes, dtype=torch.int32)
    generator = torch.Generator(device="cuda").manual_seed(1)
    drawn = random.Random(turn)

    def normal(deviation, *shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=generator).mul_(deviation)

    # The deviations are the definitions'.
    made = {
        "x": lambda: normal(1, rows, k), "w": lambda: normal(0.05, experts, n, k),
        "dy": lambda: normal(0.05 if op == "dW" else 1, rows, n),
        "y": lambda: torch.empty(rows, n, device="cuda", dtype=torch.bfloat16),
        "dx": lambda: torch.empty(rows, k, device="cuda", dtype=torch.bfloat16),
        "dw": lambda: torch.empty(experts, n, k, device="cuda", dtype=torch.bfloat16),
        "m_sizes": lambda: (sizes.cumsum(0) if takes_ends else sizes).to("cuda", torch.int32),
        "gather_indices": lambda: torch.arange(rows, device="cuda", dtype=torch.int32),
        "topk_weights": lambda: torch.ones(rows, device="cuda"),
    }
    arrays, gaps = {}, []
    for argument in kernel.arguments:
        gaps.append(torch.empty(drawn.randint(1, 64) << 20, device="cuda", dtype=torch.uint8))
        arrays[argument.name] = made[argument.name]()
    dims = dims_of(kernel, case)
    return lambda: kernel(**arrays, **dims), gaps


def dims_of(kernel, case):
    from torch_grouped_mm import CASES
    tokens, topk, *_ = CASES[case]
    return {name: {"tokens": tokens, "topk": topk}[name] for name in kernel.dims}


def pair(torch, timer, worker, packages, case, op, turns):
    import tunefarm.launch
    from torch_grouped_mm import CASES
    from torch_host_cost import package_kernel
    tokens, topk, experts, n, k = CASES[case]
    eight = SIZES[case]
    sizes = [eight[expert % 8] for expert in range(experts)]
    assert sum(sizes) == tokens * topk
    kernel, takes_ends = package_kernel(tunefarm.launch, packages, KERNELS[op], False, E=experts, N=n, K=k)
    plan = kernel.plan(**dims_of(kernel, case))
    config = plan.config.split(",")
    dims = {"tokens": tokens, "topk": topk, "E": experts, "N": n, "K": k, "routing": "explicit",
            **{f"rows_{index}": size for index, size in enumerate(eight)}}
    worker.median_us(KERNELS[op], config, dims)  # compiles
    times = {"launch": [], "worker": []}
    for turn in range(turns):
        for side in ("launch", "worker") if turn % 2 == 0 else ("worker", "launch"):
            if side == "launch":
                call, gaps = launch_of(torch, kernel, takes_ends, op, case, sizes, turn)
                torch.cuda.synchronize()
                time.sleep(COOLING_S)
                timer.batch_us(call, 3)  # as the worker, which warms up
                times[side].append(statistics.median(timer.batch_us(call, SAMPLES)))
                del call, gaps
                torch.cuda.empty_cache()
            else:
                torch.cuda.synchronize()
                time.sleep(COOLING_S)
                times[side].append(worker.median_us(KERNELS[op], config, dims))
    ratios = [launch / run for launch, run in zip(times["launch"], times["worker"])]
    return {"case": case, "op": op, "match": plan.match, "config": config, "turns_us": times, "ratio": statistics.median(ratios),
            "launch_us": statistics.median(times["launch"]), "worker_us": statistics.median(times["worker"])}


def run(torch, timer, options):
    """(the report, lines of a table, problems)."""
    worker, results, problems = Worker(options.bundle), [], []
    timer.begin_set()
    try:
        for case in options.cases:
            for op in KERNELS:
                try:
                    results.append(pair(torch, timer, worker, options.packages, case, op, 3 if options.quick else 5))
                    print(f"worker, {case} {op}: launch / worker {results[-1]['ratio']:.4f}", flush=True)
                except Exception as error:
                    problems.append(f"{case} {op}: {error}")
                torch.cuda.empty_cache()
    finally:
        worker.stop()
    lines = ["Launch from a package against `tunefarm run` of the same config and sizes: us",
             "| case | launch | worker | launch / worker | allowed | |", "|---|---|---|---|---|---|"]
    for row in results:
        bound = BOUNDS[row["case"]]
        verdict = "ok" if abs(row["ratio"] - 1) <= bound else "NOT REACHED"
        lines.append(f"| {row['case']} {row['op']} | {row['launch_us']:.1f} | {row['worker_us']:.1f} | {row['ratio']:.4f} | "
                     f"{bound:.0%} | {verdict} |")
    return results, lines, problems
