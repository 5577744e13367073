#!/usr/bin/env python3
"""Whether a captured Triton kernel is the same work as Triton's own launch: 40 configs each of a matmul, a row softmax,
a layer-norm backward with atomics and the fused mixture-of-experts kernel. Needs a GPU, PyTorch and Triton 3.6.

Usage: triton_same_judge.py BUNDLE [--rounds N] [--configs N] [--kernel NAME ...]

BUNDLE is what `./dev bundle` makes. Of each config, on the same inputs:
- Times. In-process: Triton's launcher in this process, its launches enqueued at once behind flushes of the L2 cache,
  between CUDA events (device_timing.py). Captured: the daemon's medians of the search, with events and as many samples.
  This process times all configs before and after each of the daemon's jobs of all configs, so that both have the same
  clocks.
- Outputs. Configs whose in-process outputs are equal bit by bit make a job, which expects these outputs with a
  tolerance of 0: each config's captured outputs must equal its in-process ones (+0 and -0 are alike). Not for the
  atomics, whose sums have no order.

Prints a table last. Ends with 1 if a config did not run, if a kernel's median ratio is off by more than 2 %, or if
outputs differ.
"""

import argparse
import concurrent.futures
import importlib
import itertools
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KERNEL_FOLDERS = (SOURCE / "tests" / "data" / "triton", SOURCE / "kernels" / "fused_moe")
BOUND = 0.02  # of a kernel's median ratio
SAMPLES, WARM = 20, 3
CLIENTS = 8  # jobs at a time whose times do not matter
# Each config by itself and to the end, by events as here.
TIMED = {"min_samples": SAMPLES, "max_samples": SAMPLES, "warmup_launches": WARM, "time_budget_ms": 2000,
         "no_early_stop": True, "no_reuse": True, "method": "cuda_events", "finalists": 1, "final_rounds": 1}
UNTIMED = {"min_samples": 1, "max_samples": 1, "warmup_launches": 1, "warm_cache": True, "no_early_stop": True,
           "no_reuse": True, "noisy_relative_half_width": -1.0, "finalists": 1, "final_rounds": 1}


class Case(NamedTuple):
    """A kernel, its arguments on the host by name, and its configs: constants and options of Triton."""

    name: str
    function: Any
    arguments: Dict[str, Any]
    constants: Dict[str, Any]
    outputs: Tuple[str, ...]
    grid: Callable[[Any], Tuple[int, ...]]
    configs: List[Dict[str, int]]
    is_deterministic: bool = True


def _configs(**values: Any) -> List[Dict[str, int]]:
    return [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]


def matmul(torch, triton, generator):
    m, n, k = 2048, 2048, 4096
    a, b = (torch.randn(shape, generator=generator).half() for shape in ((m, k), (k, n)))
    configs = [{"BLOCK_M": rows, "BLOCK_N": columns, "GROUP_M": 8, **rest}
               for rows, columns in ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256))
               for rest in _configs(BLOCK_K=(32, 64), num_warps=(4, 8), num_stages=(2, 3))]
    return Case("matmul", importlib.import_module("kernels").matmul,
                {"a_ptr": a, "b_ptr": b, "c_ptr": torch.zeros(m, n, dtype=torch.float16), "M": m, "N": n, "K": k,
                 "stride_am": k, "stride_bk": n, "stride_cm": n}, {}, ("c_ptr",),
                lambda META: (triton.cdiv(m, META["BLOCK_M"]) * triton.cdiv(n, META["BLOCK_N"]),), configs)


def softmax(torch, triton, generator):
    rows, columns = 4096, 4096
    x = torch.randn(rows, columns, generator=generator)
    return Case("softmax", importlib.import_module("norms").softmax,
                {"y_ptr": torch.zeros(rows, columns, dtype=torch.float16), "x_ptr": x, "columns": columns}, {},
                ("y_ptr",), lambda META: (rows // META["ROWS"],),
                _configs(BLOCK=(256, 512, 1024, 2048, 4096), ROWS=(1, 4), num_warps=(2, 4, 8, 16)))


def layer_norm_backward(torch, triton, generator):
    rows, columns = 8192, 2048
    x, dy = (torch.randn(rows, columns, generator=generator).half() for _ in range(2))
    return Case("layer norm backward", importlib.import_module("norms").layer_norm_backward,
                {"dx_ptr": torch.zeros_like(x), "dw_ptr": torch.zeros(columns), "db_ptr": torch.zeros(columns),
                 "dy_ptr": dy, "x_ptr": x, "w_ptr": torch.randn(columns, generator=generator),
                 "mean_ptr": x.float().mean(1), "rstd_ptr": x.float().var(1, correction=0).add(1e-5).rsqrt(),
                 "rows": rows, "columns": columns},
                {"BLOCK": columns}, ("dx_ptr", "dw_ptr", "db_ptr"), lambda META: (triton.cdiv(rows, META["ROWS"]),),
                _configs(ROWS=(16, 24, 32, 40, 48, 56, 64, 80, 96, 128), num_warps=(2, 4, 8, 16)), is_deterministic=False)


def fused_moe(torch, triton, generator):
    """The first product. Rows are sorted for tiles of one height, since they are arguments."""
    tokens, topk, experts, n, k, height = 2048, 2, 8, 2048, 1024, 64
    chosen = torch.rand(tokens, experts, generator=generator).topk(topk).indices.reshape(-1)
    rows = chosen.numel()
    sorted_rows, tile_experts = [], []
    for expert in range(experts):
        own = (chosen == expert).nonzero().reshape(-1)
        tiles = -(-own.numel() // height)
        sorted_rows += [own, torch.full((tiles * height - own.numel(),), rows)]
        tile_experts += [expert] * tiles
    sorted_rows = torch.cat(sorted_rows).int()
    padded = sorted_rows.numel()
    x = torch.randn(tokens, k, generator=generator).bfloat16()
    w = torch.randn(experts, n, k, generator=generator).mul_(0.05).bfloat16()
    arguments = {"a_ptr": x, "b_ptr": w, "c_ptr": torch.zeros(rows, n, dtype=torch.bfloat16),
                 "a_scale_ptr": torch.ones(16), "b_scale_ptr": torch.ones(16), "topk_weights_ptr": torch.ones(rows),
                 "sorted_token_ids_ptr": sorted_rows, "expert_ids_ptr": torch.tensor(tile_experts, dtype=torch.int32),
                 "num_tokens_post_padded_ptr": torch.tensor([padded], dtype=torch.int32), "N": n, "K": k, "EM": padded,
                 "num_valid_tokens": rows, "stride_am": k, "stride_ak": 1, "stride_be": n * k, "stride_bk": 1,
                 "stride_bn": k, "stride_cm": n, "stride_cn": 1,
                 **dict.fromkeys(("stride_asm", "stride_ask", "stride_bse", "stride_bsk", "stride_bsn"), 1)}
    configs = _configs(BLOCK_SIZE_N=(64, 128), BLOCK_SIZE_K=(32, 64), num_warps=(4, 8), num_stages=(2, 3, 4, 5, 6))
    return Case("fused MoE", importlib.import_module("fused_moe").up, arguments,
                {"BLOCK_SIZE_M": height, "GROUP_SIZE_M": 8, "topk": topk, "has_other_ranks": False}, ("c_ptr",),
                lambda META: (padded // height * triton.cdiv(n, META["BLOCK_SIZE_N"]),), configs)


CASES = {"matmul": matmul, "softmax": softmax, "layer_norm_backward": layer_norm_backward, "fused_moe": fused_moe}


def made_cases(names, configs):
    import torch
    import triton
    cases = [CASES[name](torch, triton, torch.Generator().manual_seed(1)) for name in names]
    return [case._replace(configs=case.configs[:configs]) for case in cases]


def text(config):
    return ",".join(f"{name}={value}" for name, value in config.items())


# ---- In this process ----


class InProcess:
    """Triton's own launches of a case, on arrays of its own."""

    def __init__(self, torch, timer, case):
        self._torch, self._timer, self._case = torch, timer, case
        self._drawn = random.Random(1)
        self.times = [[] for _ in case.configs]  # microseconds: a median for each pass
        self._place()

    def _place(self):
        """Each array elsewhere, in memory of its own: where arrays lie changes the times of all configs by a percent or
        more, and those of many programs that add to the same few lines by up to a half (H200)."""
        self._arrays = None
        self._torch.cuda.empty_cache()
        self._arrays = {}
        for name, value in self._case.arguments.items():
            if self._torch.is_tensor(value):
                size = value.numel() * value.element_size()
                begin = self._drawn.randrange(0, 64 << 20, 512)
                memory = self._torch.empty(begin + size, dtype=self._torch.uint8, device="cuda")
                value = memory[begin:].view(value.dtype).view(value.shape).copy_(value)
            self._arrays[name] = value

    def _launch(self, config):
        self._case.function[self._case.grid](**self._arrays, **self._case.constants, **config)

    def outputs(self, config):
        """Of one launch on outputs as they begin: copies by name."""
        for name in self._case.outputs:
            self._arrays[name].copy_(self._case.arguments[name])
        self._launch(config)
        return {name: self._arrays[name].clone() for name in self._case.outputs}

    def equal_bits(self, one, other):
        as_bytes = self._torch.uint8
        return all(self._torch.equal(one[name].view(as_bytes), other[name].view(as_bytes)) for name in one)

    def groups(self, problems):
        """[(outputs, configs that have them)]."""
        found = []
        for config in self._case.configs:
            outputs = self.outputs(config)
            if not self.equal_bits(outputs, self.outputs(config)):
                problems.append(f"{self._case.name} {text(config)}: two launches in this process differ")
            for known, configs in found:
                if self.equal_bits(known, outputs):
                    configs.append(config)
                    break
            else:
                found.append((outputs, [config]))
        return found

    def time_all(self):
        self._place()
        self._timer.begin_set()
        for config, times in zip(self._case.configs, self.times):
            for _ in range(WARM):
                self._launch(config)
            times.append(statistics.median(self._timer.batch_us(lambda: self._launch(config), SAMPLES)))
        self._torch.cuda.synchronize()


def compile_ahead(options):
    """Into Triton's cache, in as many processes as there are cores but one."""
    processes = max((os.cpu_count() or 2) - 1, 1)
    words = [word for name in options.kernel for word in ("--kernel", name)]
    command = [sys.executable, __file__, options.bundle, "--configs", str(options.configs), *words, "--share"]
    children = [subprocess.Popen([*command, str(index), str(processes)]) for index in range(processes)]
    for child in children:
        child.wait()  # what it could not compile, the first launch compiles, or says why not


def compile_share(options):
    import torch
    index, count = options.share
    torch.set_num_threads(1)
    jobs = [(case, config) for case in made_cases(options.kernel, options.configs) for config in case.configs]
    for case, config in jobs[index::count]:
        arguments = [value.dtype if torch.is_tensor(value) else value for value in case.arguments.values()]
        case.function.warmup(*arguments, grid=(1,), **case.constants, **config)


# ---- By the daemon ----


def tuned(case, configs, expected, client, measure, **more):
    """Trials of the search, by config."""
    from tunefarm.model import TrialPurpose
    from tunefarm.triton import tune
    results = tune(case.function, case.arguments, configs, grid=case.grid, constexprs=case.constants,
                   outputs=case.outputs, reference=expected, policy="fast", measure=measure, no_memory=True,
                   no_promotion=True, promote_given=False, quiet=True, client=client, **more)
    trials = client.results(results.job, purpose=TrialPurpose.SEARCH).to_list()
    return {text({name: trial.config[name] for name in configs[0]}): trial for trial in trials}


def captured_times(case, expected, client, measure, problems):
    """Microseconds of each config; None where it did not run."""
    from tunefarm.model import Outcome
    trials = tuned(case, case.configs, expected, client, measure)
    times = []
    for config in case.configs:
        trial = trials.get(text(config))
        if trial is None or trial.outcome is not Outcome.OK:
            what = "no trial" if trial is None else f"{trial.outcome.name}: {trial.message}"
            problem = f"{case.name} {text(config)}: {what}"
            if problem not in problems:
                problems.append(problem)
            times.append(None)
        else:
            times.append(trial.measurement.median_ns / 1e3)
    return times


def count_equal(case, groups, connect, problems):
    """How many configs have the expected outputs bit by bit."""
    from tunefarm.model import Outcome

    def judge(group):
        expected, configs = group
        with connect() as client:
            return configs, tuned(case, configs, expected, client, UNTIMED, atol=0, rtol=0)

    equal = 0
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        for configs, trials in threads.map(judge, groups):
            for config in configs:
                trial = trials.get(text(config))
                if trial is not None and trial.outcome is Outcome.OK:
                    equal += 1
                else:
                    what = "no trial" if trial is None else f"{trial.outcome.name}: {trial.message}"
                    problems.append(f"{case.name} {text(config)}: with a tolerance of 0: {what}")
    return equal


def compare(torch, timer, case, rounds, connect, problems):
    """A row of the table."""
    process = InProcess(torch, timer, case)
    host = {name: output.cpu() for name, output in process.outputs(case.configs[0]).items()}
    captured = []
    with connect() as client:
        captured_times(case, host, client, UNTIMED, problems)  # compiles
        process.time_all()
        for _ in range(rounds):
            captured.append(captured_times(case, host, client, TIMED, problems))
            process.time_all()
    ratios = {}
    for index, config in enumerate(case.configs):
        times = [one[index] for one in captured]
        if None not in times:
            ratios[text(config)] = statistics.median(times) / statistics.median(process.times[index])
            print(f"{case.name} {text(config)}: captured {statistics.median(times):.2f} us, in-process "
                  f"{statistics.median(process.times[index]):.2f} us, ratio {ratios[text(config)]:.4f}", flush=True)
    if len(ratios) < len(case.configs):
        problems.append(f"{case.name}: {len(ratios)} of {len(case.configs)} configs were compared")
    if not ratios:
        return f"| {case.name} | 0 | | | |"
    median = statistics.median(ratios.values())
    furthest = max(ratios.values(), key=lambda ratio: max(ratio, 1 / ratio))
    if abs(median - 1) > BOUND:
        problems.append(f"{case.name}: the median ratio is {median:.4f}")
    equal = "not deterministic"
    if case.is_deterministic:
        groups = [({name: output.cpu() for name, output in outputs.items()}, configs)
                  for outputs, configs in process.groups(problems)]
        equal = f"{count_equal(case, groups, connect, problems)} of {len(case.configs)}, {len(groups)} outputs"
    return f"| {case.name} | {len(ratios)} | {median:.4f} | {furthest:.4f} | {equal} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--rounds", type=int, default=4, help="jobs of the daemon; the passes in this process are one more")
    parser.add_argument("--configs", type=int, default=40, help="of each kernel")
    parser.add_argument("--kernel", action="append", choices=list(CASES), help="by default all")
    parser.add_argument("--share", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.kernel = options.kernel or list(CASES)
    sys.path[:0] = [str(folder) for folder in KERNEL_FOLDERS]
    if options.share:
        return compile_share(options)
    os.environ.setdefault("TUNEFARM_BIN_DIR", os.path.join(options.bundle, "bin"))  # farm.py needs both
    os.environ.setdefault("TUNEFARM_SOURCE_DIR", str(SOURCE))
    sys.path[:0] = [os.path.join(os.path.abspath(options.bundle), "python"), str(SOURCE / "tests" / "e2e")]
    os.environ.pop("TUNEFARM_SERVER", None)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tunefarm-judge.") as folder:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
        compile_ahead(options)
        print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
        import torch
        import tunefarm
        from device_timing import DeviceTimer
        from farm import wait_for_daemon
        data = os.path.join(folder, "data")
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_CACHE_DIR"}
        daemon = subprocess.Popen([os.path.join(options.bundle, "bin", "tunefarmd"), "--data-dir", data,
                                   "--python-interpreter", sys.executable], stdin=subprocess.DEVNULL, env=environment)
        rows, problems = [], []
        try:
            def connect():
                return tunefarm.Client(data_directory=data, start=False)

            wait_for_daemon(daemon, data)
            timer = DeviceTimer(torch)
            for case in made_cases(options.kernel, options.configs):
                try:
                    rows.append(compare(torch, timer, case, options.rounds, connect, problems))
                except Exception as error:  # The other kernels are compared all the same.
                    problems.append(f"{case.name}: {type(error).__name__}: {error}")
                    rows.append(f"| {case.name} | 0 | | | |")
                torch.cuda.empty_cache()
        finally:
            daemon.terminate()
            daemon.wait()
    print(f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, {time.monotonic() - began:.0f} s")
    print("\n".join(problems) or "no problems")
    print("| kernel | configs | captured / in-process, median | furthest from 1 | equal outputs |")
    print("|---|---|---|---|---|")
    print("\n".join(rows))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
