#!/usr/bin/env python3
"""grouped_gemm_forward_fp8 against its peers on one GPU: DeepGEMM, torch._scaled_grouped_mm and Triton.

Usage: fp8_grouped_mm.py --packages A.tfpack ... [--bundle BUNDLE] [--case NAME ...] [--seeds 101,102,103] [--rounds N]
           [--json FILE] [--quick]

Needs PyTorch 2.9 or newer with CUDA, Triton, DeepGEMM (the Python package deep_gemm), and the packages' kernels tuned for this
GPU. BUNDLE (what `./dev bundle` makes) has the Python package, unless PYTHONPATH does.

Operands are normal, quantised once: e4m3, the activations with a float for each 1 x 128, the weights with one for each
128 x 128. Rows are routed by multinomial draws of --seeds; all tuning here uses another seed. Of DeepSeek-V3's experts 32 are
on the GPU, and get 8 rows for each token. In every round each contender has one sample, in drawn order. How samples are
taken: device_timing.py.

ours      the package's kernel, launched with the ends of the groups (our_product)
DeepGEMM  its layouts that apply (deepgemm_grouped_mm.py): rows/N and ends/N, which pad each group's rows to a multiple of N,
          and masked where groups have few rows. Operands are padded, copied and their scales transposed ahead.
torch     torch._scaled_grouped_mm of the same values, quantised ahead with one scale for each row of X and of W[e]; "fast"
          adds all products in the tensor cores' own precision (use_fast_accum)
Triton    triton_scaled_grouped_mm.py, tuned here; the scales of X are transposed ahead

Results are compared with float32 products of each contender's dequantised operands: each row within 3e-3 of its norm. A peer
whose result is out of bounds is no best peer. The flop floor goes by a dense product of e4m3 that is measured in the run, the
byte floor by a copy. The table comes last, with all that is not as it must be above it; --json has everything. Exit code 1: a
result is wrong (of "fast" that is expected for long rows), a contender is missing, or a case failed.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import sys
import time
import traceback
from typing import Callable, NamedTuple

import deepgemm_grouped_mm
from device_timing import DeviceTimer, alternate, paired_ratio, spread, worst_row
from torch_grouped_mm import TUNING_SEED, multinomial_ends


class Case(NamedTuple):
    tokens: int
    topk: int
    experts: int
    n: int
    k: int

    @property
    def rows(self):
        return self.tokens * self.topk

    @property
    def is_decode(self):
        return self.rows < 32 * self.experts


CASES = {
    "qwen3_up": Case(4096, 8, 128, 1536, 2048),
    "qwen3_down": Case(4096, 8, 128, 2048, 768),
    "deepseek_up": Case(4096, 8, 32, 4096, 7168),
    "deepseek_down": Case(4096, 8, 32, 7168, 2048),
    "qwen3_up_decode": Case(64, 8, 128, 1536, 2048),
    "deepseek_up_decode": Case(64, 8, 32, 4096, 7168),
}
KERNEL = "grouped_gemm_forward_fp8"
BLOCK = 128
MAX_E4M3 = 448
BOUNDS = dict(bound=3e-3, atol=0.02, rtol=0.01)  # of rows and elements, as grouped_gemm_forward_fp8.pbtxt has them
DEEPGEMM = tuple(f"DeepGEMM {layout}" for layout in deepgemm_grouped_mm.LAYOUTS)
CONTENDERS = ("ours", *DEEPGEMM, "torch", "torch fast", "Triton")
LESS_EXACT = "torch fast"
LARGE = ("deepseek_up", "deepseek_down")
# Asked of best peer / ours (LARGE_LEAST: of each of LARGE), and of the share of the byte floor.
GEOMETRIC_MEAN, LARGE_LEAST, LEAST, DECODE_SHARE = 1.08, 1.02, 1.0, 0.92


def quantised(torch, values, high, wide):
    """(e4m3, float scales) of a float32 matrix: a block of high x wide elements has its largest magnitude / 448 as scale."""
    rows, columns = values.shape
    blocks = values.view(rows // high, high, columns // wide, wide)
    scales = blocks.abs().amax(dim=(1, 3)).clamp_min_(1e-10).div_(MAX_E4M3)
    return (blocks / scales[:, None, :, None]).view(rows, columns).to(torch.float8_e4m3fn), scales


def dequantised(values, scales):
    rows, columns = values.shape
    blocks = values.float().view(scales.shape[0], rows // scales.shape[0], scales.shape[1], columns // scales.shape[1])
    return (blocks * scales[:, None, :, None]).view(rows, columns)


class Operands:
    """Of one case: x [R, K], x_scales [R, K / 128], w [E, N, K] and w_scales [E, N / 128, K / 128]. The same values with a
    scale for each row: row_x, row_x_scales [R], row_w, row_w_scales [E, N]."""

    def __init__(self, torch, case):
        self.torch, self.case, self.n = torch, case, case.n
        generator = torch.Generator(device="cuda").manual_seed(1)
        values = torch.randn(case.rows, case.k, device="cuda", generator=generator)
        self.x, self.x_scales = quantised(torch, values, 1, BLOCK)
        self.row_x, scales = quantised(torch, values, 1, case.k)
        self.row_x_scales = scales.view(-1)
        self.x_scales_in_columns = self.x_scales.t().contiguous()  # [K / 128, R]
        self.w = torch.empty(case.experts, case.n, case.k, device="cuda", dtype=torch.float8_e4m3fn)
        self.row_w = torch.empty_like(self.w)
        self.w_scales = torch.empty(case.experts, case.n // BLOCK, case.k // BLOCK, device="cuda")
        self.row_w_scales = torch.empty(case.experts, case.n, device="cuda")
        for expert in range(case.experts):
            values = torch.randn(case.n, case.k, device="cuda", generator=generator).mul_(0.05)
            self.w[expert], self.w_scales[expert] = quantised(torch, values, BLOCK, BLOCK)
            self.row_w[expert], scales = quantised(torch, values, 1, case.k)
            self.row_w_scales[expert] = scales.view(-1)

    def reference(self, sizes, by_rows=False):
        """The float32 product of the dequantised operands."""
        x, x_scales = (self.row_x, self.row_x_scales[:, None]) if by_rows else (self.x, self.x_scales)
        w, w_scales = (self.row_w, self.row_w_scales[:, :, None]) if by_rows else (self.w, self.w_scales)
        out, begin = self.torch.empty(self.case.rows, self.n, device="cuda"), 0
        for expert, size in enumerate(sizes):
            if size > 0:
                rows = slice(begin, begin + size)
                weights = dequantised(w[expert], w_scales[expert])
                self.torch.mm(dequantised(x[rows], x_scales[rows]), weights.t(), out=out[rows])
            begin += size
        return out

    def floors_us(self, sizes, peak, bandwidth):
        """(by operations, by bytes)."""
        rows, n, k, matrices = self.case.rows, self.n, self.case.k, sum(size > 0 for size in sizes)
        elements = rows * k + matrices * n * k
        scales = rows * (k // BLOCK) + matrices * (n // BLOCK) * (k // BLOCK)
        return 2 * rows * n * k / peak * 1e6, (elements + 2 * rows * n + 4 * scales) / bandwidth * 1e6


def our_product(torch, packages, operands, ends):
    """(a call of our product, (how well the package's config fits, the config)). The one place that knows how it is called."""
    import tunefarm.launch
    case, reasons, found = operands.case, [], []
    for path in packages:
        try:
            kernel = tunefarm.launch.open(path).kernel(KERNEL, E=case.experts, N=case.n, K=case.k, group_ends=1,
                                                       scale_layout="row_major")
            dims = {name: {"tokens": case.tokens, "topk": case.topk}[name] for name in kernel.dims}
            found.append((kernel, dims, kernel.plan(**dims)))
        except Exception as error:
            reasons.append(f"{os.path.basename(path)}: {error}")
    if not found:
        raise RuntimeError(f"no package has {KERNEL} for E={case.experts}, N={case.n}, K={case.k}: {'; '.join(reasons)}")
    # A tuned config of any package before a default one.
    kernel, dims, plan = min(found, key=lambda each: each[2].match == "DEFAULT")
    out = torch.empty(case.rows, case.n, device="cuda", dtype=torch.bfloat16)
    arrays = {"x": operands.x, "w": operands.w, "y": out, "x_scales": operands.x_scales, "w_scales": operands.w_scales,
              "m_sizes": ends, "gather_indices": torch.zeros(1, device="cuda", dtype=torch.int32),
              "topk_weights": torch.ones(1, device="cuda")}
    arrays = {argument.name: arrays[argument.name] for argument in kernel.arguments}

    def call():
        kernel(**arrays, **dims)
        return out

    return call, (plan.match, plan.config)


def torch_product(torch, operands, ends, is_fast):
    w = operands.row_w.transpose(-2, -1)
    return lambda: torch._scaled_grouped_mm(operands.row_x, w, operands.row_x_scales, operands.row_w_scales, offs=ends,
                                            out_dtype=torch.bfloat16, use_fast_accum=is_fast)


def by_triton(triton_peer, operands, ends, config):
    return triton_peer.scaled_rows_product(operands.x, operands.w, operands.x_scales_in_columns, operands.w_scales, ends,
                                           config)


class Contender(NamedTuple):
    call: Callable
    in_order: Callable = lambda out: out  # the rows in the groups' order, of what the call returns
    has_row_scales: bool = False


class Comparison:
    def __init__(self, torch, timer, options):
        self.torch, self.timer, self.options = torch, timer, options
        self.problems, self.missing, self.triton_peer = [], {}, None
        self._find_peers()

    def _is_missing(self, name, error):
        self.missing[name] = (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
        self.problems.append(f"{name} is missing: {self.missing[name]}")

    def _find_peers(self):
        """Imports them, and lets all that they compile be compiled at once."""
        begin, processes, ahead = time.monotonic(), min(16, os.cpu_count() or 1), {}
        with concurrent.futures.ThreadPoolExecutor() as threads:
            try:
                import triton_scaled_grouped_mm
                self.triton_peer = triton_scaled_grouped_mm
                ahead["Triton"] = threads.submit(triton_scaled_grouped_mm.compile_ahead, processes)
            except Exception as error:
                self._is_missing("Triton", error)
            try:
                import deep_gemm
                print(f"DeepGEMM {getattr(deep_gemm, '__version__', '?')}", flush=True)
                ahead["DeepGEMM"] = threads.submit(deepgemm_grouped_mm.compile_ahead, self.options.cases, self.options.seeds,
                                                   processes)
            except Exception as error:
                self._is_missing("DeepGEMM", error)
            if not hasattr(self.torch, "_scaled_grouped_mm"):
                self._is_missing("torch", "it has no _scaled_grouped_mm")
        for name, future in ahead.items():
            try:
                messages = future.result()
            except Exception as error:
                messages = [str(error)]
            print(f"{name}: compiled ahead, {len(messages)} messages{': ' + messages[0] if messages else ''}", flush=True)
        print(f"compiled ahead in {time.monotonic() - begin:.0f} s", flush=True)

    def _tune_triton(self, name, operands):
        if self.triton_peer is None:
            return None
        case = operands.case
        ends, sizes = multinomial_ends(self.torch, case.rows, case.experts, TUNING_SEED)
        reference = operands.reference(sizes)
        self.timer.begin_set()
        from triton_grouped_mm import tune
        config, found = tune(self.timer, self.triton_peer.CONFIGS,
                             lambda each: by_triton(self.triton_peer, operands, ends, each),
                             lambda out: worst_row(self.torch, out, reference, **BOUNDS)[1])
        if config is None:
            self.problems.append(f"{name}: no Triton config works: {'; '.join(found[:3])}")
        return config

    def _contenders(self, name, operands, ends, sizes, config, about):
        """name -> Contender of all that can be made; `about` gets what is known of ours."""
        torch, found = self.torch, {}

        def add(contender, make):
            try:
                found[contender] = make()
            except Exception as error:
                self.problems.append(f"{name}: {contender} fails: {type(error).__name__}: {error}"[:500])

        def ours():
            call, about["ours"] = our_product(torch, self.options.packages, operands, ends)
            return Contender(call)

        add("ours", ours)
        if "DeepGEMM" not in self.missing:
            for layout in deepgemm_grouped_mm.layouts_of(operands.case.is_decode):
                add(f"DeepGEMM {layout}",
                    lambda layout=layout: Contender(*deepgemm_grouped_mm.product(torch, operands, sizes, layout)))
        if "torch" not in self.missing:
            for contender, is_fast in (("torch", False), ("torch fast", True)):
                add(contender, lambda is_fast=is_fast: Contender(torch_product(torch, operands, ends, is_fast),
                                                                 has_row_scales=True))
        if config is not None:
            add("Triton", lambda: Contender(by_triton(self.triton_peer, operands, ends, config)))
        return found

    def _check(self, name, seed, contenders, operands, sizes, worst, wrong):
        """Takes out those that fail, and notes the worst rows and who is wrong."""
        for has_row_scales in (False, True):
            reference = operands.reference(sizes, has_row_scales)
            for contender, each in list(contenders.items()):
                if each.has_row_scales != has_row_scales:
                    continue
                try:
                    error, fits = worst_row(self.torch, each.in_order(each.call()), reference, **BOUNDS)
                except Exception as failure:
                    self.problems.append(f"{name}, seed {seed}: {contender} fails: {type(failure).__name__}: {failure}"[:500])
                    del contenders[contender]
                    continue
                worst[contender] = max(worst.get(contender, 0.0), error)
                if not fits:
                    wrong.add(contender)
                    if contender != LESS_EXACT:
                        self.problems.append(f"{name}, seed {seed}: the result of {contender} is out of bounds "
                                             f"(worst row {error:.2e})")

    def measure(self, name, limits):
        case = CASES[name]
        operands = Operands(self.torch, case)
        config = self._tune_triton(name, operands)
        samples, worst, wrong, floors, about = {}, {}, set(), [], {}
        for seed in self.options.seeds:
            ends, sizes = multinomial_ends(self.torch, case.rows, case.experts, seed)
            contenders = self._contenders(name, operands, ends, sizes, config, about)
            self._check(name, seed, contenders, operands, sizes, worst, wrong)
            self.timer.begin_set()
            calls = {contender: each.call for contender, each in contenders.items()}
            for contender, values in alternate(self.timer, calls, self.options.rounds, seed).items():
                samples.setdefault(contender, []).extend(values)
            floors.append(operands.floors_us(sizes, *limits))
            del contenders, calls
        # Of each seed a sample, or none: a contender that failed for some seeds cannot be paired.
        samples = {n: values for n, values in samples.items() if len(values) == len(self.options.seeds) * self.options.rounds}
        medians = {contender: statistics.median(values) for contender, values in samples.items()}
        flop_floor, byte_floor = (statistics.mean(each) for each in zip(*floors))
        row = {"case": name, "medians_us": medians, "spreads": {n: spread(values) for n, values in samples.items()},
               "worst_rows": worst, "wrong": sorted(wrong), "flop_floor_us": flop_floor, "byte_floor_us": byte_floor,
               "floor_us": max(flop_floor, byte_floor), "triton_config": config and config._asdict(),
               "ours": about.get("ours"), "samples_us": samples}
        peers = [contender for contender in medians if contender != "ours" and contender not in wrong]
        if "ours" in medians and peers:
            row["best_peer"] = min(peers, key=medians.get)
            row["ratio"] = paired_ratio(samples[row["best_peer"]], samples["ours"])
        if about.get("ours", ("",))[0] == "DEFAULT":
            self.problems.append(f"{name}: no package has a tuned config; ours is the kernel's default")
        return row

    def run(self, limits):
        """Yields what was measured of each case."""
        for name in self.options.cases:
            begin = time.monotonic()
            try:
                row = self.measure(name, limits)
                print(f"{name}, {time.monotonic() - begin:.0f} s: " +
                      ", ".join(f"{n} {v:.1f}" for n, v in row["medians_us"].items()), flush=True)
                yield row
            except Exception as error:
                traceback.print_exc()
                self.problems.append(f"{name}: {type(error).__name__}: {error}"[:500])
            self.torch.cuda.empty_cache()


def goals(rows):
    """Lines about what is asked."""
    ratios = {row["case"]: row["ratio"] for row in rows if "ratio" in row}
    large = [ratio for name, ratio in ratios.items() if name in LARGE]
    shares = [row["byte_floor_us"] / row["medians_us"]["ours"] for row in rows
              if CASES[row["case"]].is_decode and "ours" in row["medians_us"]]
    decode_count = sum(case.is_decode for case in CASES.values())

    def line(what, values, count, reached, asked, form):
        if not values:
            return f"{what}: not measured (asked: {form.format(asked)})"
        verdict = "ok" if reached(values) >= asked else "NOT REACHED"
        return (f"{what}: {form.format(reached(values))} (asked: {form.format(asked)}), {len(values)} of {count} cases: "
                f"{verdict}")

    return [line("best peer / ours, geometric mean", ratios.values(), len(CASES), statistics.geometric_mean, GEOMETRIC_MEAN,
                 "{:.3f}"),
            line("best peer / ours, least of DeepSeek-V3 with 4096 tokens", large, len(LARGE), min, LARGE_LEAST, "{:.3f}"),
            line("best peer / ours, least", ratios.values(), len(CASES), min, LEAST, "{:.3f}"),
            line("share of the byte floor, least with 64 tokens", shares, decode_count, min, DECODE_SHARE, "{:.1%}")]


def table(rows, limits, missing):
    def cell(row, name):
        if name not in row["medians_us"]:
            if name == "DeepGEMM masked" and not CASES[row["case"]].is_decode:
                return "-"
            return "missing" if name.split()[0] in missing else "FAILED"
        return f"{row['medians_us'][name]:.1f} ({row['spreads'][name]:.1%}){' WRONG' if name in row['wrong'] else ''}"

    lines = ["us (half the distance of the quartiles). "
             f"P = {limits[0] / 1e12:.0f} TFLOP/s of e4m3, B = {limits[1] / 1e12:.2f} TB/s",
             "| case | floor by flops | by bytes | " + " | ".join(CONTENDERS) + " | best peer / ours | of floor | all right |",
             "|---" * (len(CONTENDERS) + 6) + "|"]
    for row in rows:
        ours = row["medians_us"].get("ours")
        lines.append(f"| {row['case']} | {row['flop_floor_us']:.1f} | {row['byte_floor_us']:.1f} | " +
                     " | ".join(cell(row, name) for name in CONTENDERS) + " | " +
                     (f"{row['ratio']:.3f} ({row['best_peer']})" if "ratio" in row else "-") +
                     f" | {format(row['floor_us'] / ours, '.0%') if ours else '-'} | " +
                     ("NO: " + ", ".join(row["wrong"]) if row["wrong"] else "yes") + " |")
    lines += ["", f"Worst rows, ||out - reference|| / ||reference||; {BOUNDS['bound']:.0e} allowed",
              "| case | " + " | ".join(CONTENDERS) + " |", "|---" * (len(CONTENDERS) + 1) + "|"]
    for row in rows:
        lines.append(f"| {row['case']} | " + " | ".join(f"{row['worst_rows'][name]:.1e}" if name in row["worst_rows"] else "-"
                                                        for name in CONTENDERS) + " |")
    lines.append("")
    for row in rows:
        if row["ours"]:
            lines.append(f"{row['case']}, ours ({row['ours'][0]}): {row['ours'][1]}")
        if row["triton_config"]:
            lines.append(f"{row['case']}, Triton: {','.join(f'{n}={v}' for n, v in row['triton_config'].items())}")
    lines += [f"{name} is missing: {reason}" for name, reason in missing.items()]
    return lines + ["", *goals(rows)]


def arguments():
    parser = argparse.ArgumentParser(description="The tuned grouped product in fp8 against its peers.")
    parser.add_argument("--packages", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--bundle", help="a bundle of tunefarm, for its Python package")
    parser.add_argument("--case", action="append", choices=list(CASES), dest="cases")
    parser.add_argument("--seeds", default="101,102,103")
    parser.add_argument("--rounds", type=int, help="samples of each contender and seed (30)")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer cases, seeds and rounds")
    options = parser.parse_args()
    options.cases = options.cases or (["qwen3_up", "deepseek_down", "qwen3_up_decode"] if options.quick else list(CASES))
    try:
        options.seeds = [int(seed) for seed in options.seeds.split(",")]
    except ValueError:
        parser.error("--seeds takes numbers, such as 101,102,103")
    if options.quick:
        options.seeds = options.seeds[:1]
    options.rounds = options.rounds or (8 if options.quick else 30)
    if TUNING_SEED in options.seeds:
        parser.error(f"{TUNING_SEED} is the seed that Triton is tuned on")
    return options


def main():
    options = arguments()
    if options.bundle:
        sys.path.insert(0, os.path.join(os.path.abspath(options.bundle), "python"))
    import torch
    torch.set_float32_matmul_precision("highest")
    begin = time.monotonic()
    comparison = Comparison(torch, DeviceTimer(torch), options)
    limits = comparison.timer.fp8_limits()
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "seeds": options.seeds,
              "rounds": options.rounds, "peak_flops": limits[0], "bandwidth": limits[1]}
    print(f"{report['device']}, torch {report['torch']}, packages {' '.join(options.packages)}", flush=True)
    rows, problems = [], comparison.problems

    def write():
        """After each case, so that a run that is cut off leaves what it has."""
        report.update(cases=rows, missing=comparison.missing, problems=problems, goals=goals(rows),
                      samples_retaken=comparison.timer.retaken, seconds=time.monotonic() - begin)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(report, file, indent=1, default=str)

    for row in comparison.run(limits):
        rows.append(row)
        write()
    write()
    lines = table(rows, limits, comparison.missing)
    print("\n".join(["", *problems, "", *lines, f"{report['seconds']:.0f} s, {comparison.timer.retaken} samples retaken, "
                     f"{len(problems)} problems"]), flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
