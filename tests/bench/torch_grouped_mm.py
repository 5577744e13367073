#!/usr/bin/env python3
"""What tuned grouped products bring in PyTorch: tunefarm.torch against torch and its peers, on one GPU.

Usage: torch_grouped_mm.py --packages A.tfpack ... [--bundle BUNDLE] [--parts products,worker,layer,host] [--case NAME ...]
           [--layout transposed|row_major] [--seeds 101,102,103] [--rounds N] [--json FILE] [--quick]

Needs PyTorch 2.9 or newer with CUDA, Triton, and the packages' kernels tuned for this GPU. BUNDLE (what `./dev bundle` makes)
has the Python package, unless PYTHONPATH does, and the programs that the part `worker` runs.

products  tunefarm.torch.grouped_mm, forward and backward through autograd, against torch._grouped_mm in the same way, one
          cuBLAS product per expert (group sizes known to the host, outputs allocated beforehand), and Triton
          (triton_grouped_mm.py, tuned here). Operands are normal bf16 and shared; rows are routed by multinomial draws of
          --seeds, and all tuning here uses another seed. In every round each contender has one sample, in drawn order.
          How samples are taken: device_timing.py. dX and dW are timed separately, on graphs in which only one of the
          operands needs a gradient. All results are compared with float32 products of each expert.
worker    torch_worker_pairs.py: what `tunefarm run` measures of a package's config against its launch from here.
layer     torch_moe_layer.py: a whole layer of Qwen3-30B, eager, compiled, as a CUDA graph; 50 losses of a training.
host      torch_host_cost.py: what calls cost the host.

Tables come last, with all that is not as it must be above them; --json has everything. Exit code 1: a result is wrong, a
part failed, or our operator called torch.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import time
import traceback

from device_timing import DeviceTimer, alternate, paired_ratio, spread, worst_row

# name: (tokens, topk, E, N, K)
CASES = {
    "qwen3_up": (4096, 8, 128, 1536, 2048),
    "qwen3_down": (4096, 8, 128, 2048, 768),
    "llama4_up": (8192, 1, 16, 16384, 5120),
}
OPS = ("forward", "dX", "dW")
PEERS = ("torch", "cuBLAS", "Triton")
TUNING_SEED = 7
GEOMETRIC_MEAN, LEAST = 1.14, 0.97  # asked of best peer / ours


class Fallbacks(logging.Handler):
    """What tunefarm.torch logs: each product that it leaves to torch."""

    def __init__(self):
        super().__init__()
        self.messages = []
        logging.getLogger("tunefarm").addHandler(self)

    def emit(self, record):
        self.messages.append(record.getMessage())


def multinomial_ends(torch, rows, experts, seed):
    """Where each expert's rows end, and their numbers, on the device and on the host."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    routed = torch.randint(experts, (rows,), device="cuda", generator=generator)
    sizes = torch.bincount(routed, minlength=experts)
    return sizes.cumsum(0).to(torch.int32), sizes.tolist()


class Operands:
    """Of one case. `leaf` is the memory of the weights, [E, N, K] (transposed) or [E, K, N]; `mat2` is [E, K, N]."""

    def __init__(self, torch, case, layout):
        tokens, topk, self.experts, self.n, self.k = CASES[case]
        self.rows = tokens * topk
        self.is_transposed = layout == "transposed"
        generator = torch.Generator(device="cuda").manual_seed(1)

        def normal(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=generator)

        self.x, self.dy = normal(self.rows, self.k), normal(self.rows, self.n)
        shape = (self.n, self.k) if self.is_transposed else (self.k, self.n)
        self.leaf = normal(self.experts, *shape).mul_(0.05)

    def mat2(self, leaf):
        return leaf.transpose(-2, -1) if self.is_transposed else leaf

    def reference(self, torch, op, sizes):
        """In float32, of bf16 operands."""
        mat2 = self.mat2(self.leaf)
        xs, dys = self.x.split(sizes), self.dy.split(sizes)
        if op == "forward":
            return torch.cat([x.float() @ w.float() for x, w in zip(xs, mat2)])
        if op == "dX":
            return torch.cat([dy.float() @ w.float().t() for dy, w in zip(dys, mat2)])
        out = torch.empty(self.leaf.shape, device="cuda")
        for x, dy, to in zip(xs, dys, out):
            torch.mm(*((dy.float().t(), x.float()) if self.is_transposed else (x.float().t(), dy.float())), out=to)
        return out

    def floor_us(self, op, sizes, peak, bandwidth):
        matrices = self.experts if op == "dW" else sum(size > 0 for size in sizes)
        moved = 2 * (self.rows * (self.n + self.k) + matrices * self.n * self.k)
        return max(2 * self.rows * self.n * self.k / peak, moved / bandwidth) * 1e6


def through_autograd(torch, grouped_mm, operands, op, ends):
    """One product by an operator with torch._grouped_mm's signature."""
    if op == "forward":
        mat2 = operands.mat2(operands.leaf)

        def forward():
            with torch.no_grad():
                return grouped_mm(operands.x, mat2, offs=ends)

        return forward
    x = operands.x.detach().requires_grad_(op == "dX")
    leaf = operands.leaf.detach().requires_grad_(op == "dW")
    y = grouped_mm(x, operands.mat2(leaf), offs=ends)
    wanted = x if op == "dX" else leaf
    return lambda: torch.autograd.grad(y, wanted, operands.dy, retain_graph=True)[0]


def per_expert(torch, operands, op, sizes):
    """One cuBLAS product for each expert with rows."""
    xs, dys = operands.x.split(sizes), operands.dy.split(sizes)
    if op == "dW":
        out = torch.zeros_like(operands.leaf)
        triples = [(dy.t(), x, o) if operands.is_transposed else (x.t(), dy, o) for x, dy, o in zip(xs, dys, out)]
    else:
        out = torch.empty_like(operands.dy if op == "forward" else operands.x)
        lefts = xs if op == "forward" else dys
        mat2 = operands.mat2(operands.leaf)
        rights = mat2 if op == "forward" else mat2.transpose(-2, -1)
        triples = list(zip(lefts, rights, out.split(sizes)))
    triples = [triple for triple, size in zip(triples, sizes) if size > 0]

    def call():
        for left, right, to in triples:
            torch.mm(left, right, out=to)
        return out

    return call


def by_triton(triton_peer, operands, op, ends, config):
    if op == "forward":
        return triton_peer.rows_product(operands.x, operands.leaf, operands.is_transposed, ends, config)
    if op == "dX":
        return triton_peer.rows_product(operands.dy, operands.leaf, not operands.is_transposed, ends, config)
    left, right = (operands.dy, operands.x) if operands.is_transposed else (operands.x, operands.dy)
    return triton_peer.weights_product(left, right, operands.experts, ends, config)


class Products:
    """The comparison of single products."""

    def __init__(self, torch, timer, grouped_mm, options):
        self.torch, self.timer, self.grouped_mm, self.options = torch, timer, grouped_mm, options
        self.problems = []
        self.triton_peer = None
        try:
            import triton_grouped_mm
            self.triton_peer = triton_grouped_mm
            begin = time.monotonic()
            refused = triton_grouped_mm.compile_ahead(min(16, os.cpu_count() or 1))
            print(f"Triton: compiled ahead in {time.monotonic() - begin:.0f} s; "
                  f"{len(refused)} messages{': ' + refused[0] if refused else ''}", flush=True)
        except Exception as error:
            self.problems.append(f"Triton is no contender: {error}")

    def is_right(self, operands, op, sizes):
        reference = operands.reference(self.torch, op, sizes)
        return lambda out: worst_row(self.torch, out, reference)[1]

    def tune_triton(self, case, op, operands):
        if self.triton_peer is None:
            return None
        ends, sizes = multinomial_ends(self.torch, operands.rows, operands.experts, TUNING_SEED)
        configs = self.triton_peer.WEIGHTS_CONFIGS if op == "dW" else self.triton_peer.ROWS_CONFIGS
        self.timer.begin_set()
        config, found = self.triton_peer.tune(self.timer, configs,
                                              lambda each: by_triton(self.triton_peer, operands, op, ends, each),
                                              self.is_right(operands, op, sizes))
        if config is None:
            self.problems.append(f"{case} {op}: no Triton config works: {'; '.join(found[:3])}")
        return config

    def measure(self, case, op, operands, limits):
        torch = self.torch
        config = self.tune_triton(case, op, operands)
        samples, worst, floors, is_right = {}, {}, [], True
        for seed in self.options.seeds:
            ends, sizes = multinomial_ends(torch, operands.rows, operands.experts, seed)
            calls = {
                "ours": through_autograd(torch, self.grouped_mm, operands, op, ends),
                "torch": through_autograd(torch, torch._grouped_mm, operands, op, ends),
                "cuBLAS": per_expert(torch, operands, op, sizes),
            }
            if config is not None:
                calls["Triton"] = by_triton(self.triton_peer, operands, op, ends, config)
            reference = operands.reference(torch, op, sizes)
            for name, call in calls.items():
                error, fits = worst_row(torch, call(), reference)
                worst[name] = max(worst.get(name, 0.0), error)
                if not fits:
                    is_right = is_right and name != "ours"
                    self.problems.append(f"{case} {op}, seed {seed}: the result of {name} is out of bounds "
                                         f"(worst row {error:.2e})")
            del reference
            self.timer.begin_set()
            for name, values in alternate(self.timer, calls, self.options.rounds, seed).items():
                samples.setdefault(name, []).extend(values)
            floors.append(operands.floor_us(op, sizes, *limits))
        medians = {name: statistics.median(values) for name, values in samples.items()}
        best_peer = min((name for name in medians if name != "ours"), key=medians.get)
        return {"case": case, "op": op, "medians_us": medians, "spreads": {n: spread(v) for n, v in samples.items()},
                "best_peer": best_peer, "ratio": paired_ratio(samples[best_peer], samples["ours"]),
                "ratio_of_medians": medians[best_peer] / medians["ours"], "floor_us": statistics.mean(floors),
                "is_right": is_right, "worst_rows": worst, "triton_config": config and config._asdict(),
                "samples_us": samples}

    def run(self, limits):
        results = []
        for case in self.options.cases:
            operands = Operands(self.torch, case, self.options.layout)
            for op in OPS:
                try:
                    results.append(self.measure(case, op, operands, limits))
                    row = results[-1]
                    print(f"{case} {op}: " + ", ".join(f"{n} {v:.1f}" for n, v in row["medians_us"].items()), flush=True)
                except Exception as error:
                    traceback.print_exc()
                    self.problems.append(f"{case} {op}: {type(error).__name__}: {error}"[:500])
            del operands
            self.torch.cuda.empty_cache()
        return results


def products_table(results, limits, layout):
    lines = [f"Products, weights {layout}: us (half the distance of the quartiles). P = {limits[0] / 1e12:.0f} TFLOP/s, "
             f"B = {limits[1] / 1e12:.2f} TB/s",
             "| case | floor | ours | " + " | ".join(PEERS) + " | best peer / ours | of floor | right |", "|---" * (len(PEERS) + 6) + "|"]

    def cell(row, name):
        if name not in row["medians_us"]:
            return "-"
        return f"{row['medians_us'][name]:.1f} ({row['spreads'][name]:.1%})"

    for row in results:
        lines.append(f"| {row['case']} {row['op']} | {row['floor_us']:.1f} | {cell(row, 'ours')} | " +
                     " | ".join(cell(row, name) for name in PEERS) +
                     f" | {row['ratio']:.3f} ({row['best_peer']}) | {row['floor_us'] / row['medians_us']['ours']:.0%} | "
                     f"{'yes' if row['is_right'] else 'NO'} |")
    if results:
        ratios = [row["ratio"] for row in results]
        mean, least = statistics.geometric_mean(ratios), min(ratios)
        lines.append(f"geometric mean {mean:.3f} (asked: {GEOMETRIC_MEAN}), least {least:.3f} (asked: {LEAST}), over {len(ratios)}: "
                     f"{'ok' if mean >= GEOMETRIC_MEAN and least >= LEAST else 'NOT REACHED'}")
    return lines


def arguments():
    parser = argparse.ArgumentParser(description="tunefarm.torch against torch and its peers.")
    parser.add_argument("--packages", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--bundle", help="a bundle of tunefarm: its Python package and its programs")
    parser.add_argument("--parts", default="products,worker,layer,host")
    parser.add_argument("--case", action="append", choices=list(CASES), dest="cases")
    parser.add_argument("--layout", choices=("transposed", "row_major"), default="transposed")
    parser.add_argument("--seeds", default="101,102,103")
    parser.add_argument("--rounds", type=int, help="samples of each contender and seed (30)")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer cases, seeds and rounds")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    for part in options.parts:
        if part not in ("products", "worker", "layer", "host"):
            parser.error(f"'{part}' is no part")
    options.cases = options.cases or (["qwen3_up", "qwen3_down"] if options.quick else list(CASES))
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.quick:
        options.seeds = options.seeds[:1]
    options.rounds = options.rounds or (8 if options.quick else 30)
    if TUNING_SEED in options.seeds:
        parser.error(f"{TUNING_SEED} is the seed that Triton is tuned on")
    if "worker" in options.parts and not options.bundle:
        parser.error("the part 'worker' needs --bundle")
    return options


def main():
    options = arguments()
    os.environ["TUNEFARM_PACKAGES"] = ":".join(os.path.abspath(path) for path in options.packages)
    if options.bundle:
        sys.path.insert(0, os.path.join(os.path.abspath(options.bundle), "python"))
    import torch
    import tunefarm.torch
    torch.set_float32_matmul_precision("highest")
    fallbacks = Fallbacks()
    begin = time.monotonic()
    timer = DeviceTimer(torch)
    limits = timer.limits()
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "seeds": options.seeds,
              "rounds": options.rounds, "layout": options.layout, "peak_flops": limits[0], "bandwidth": limits[1]}
    print(f"{report['device']}, torch {report['torch']}, packages {' '.join(options.packages)}", flush=True)
    tables, problems = [], []

    def write():
        """After each part, so that a run that is cut off leaves what it has."""
        report.update(fallbacks=fallbacks.messages, samples_retaken=timer.retaken, seconds=time.monotonic() - begin,
                      problems=problems)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(report, file, indent=1, default=str)

    def part(name, run):
        if name not in options.parts:
            return
        start = time.monotonic()
        torch.cuda.empty_cache()
        try:
            report[name], lines, found = run()
            tables.extend(["", *lines])
            problems.extend(f"{name}: {problem}" for problem in found)
        except Exception as error:
            traceback.print_exc()
            problems.append(f"{name} failed: {type(error).__name__}: {error}")
        write()
        print(f"-- {name}: {time.monotonic() - start:.0f} s", flush=True)

    def host():
        import torch_host_cost
        return torch_host_cost.run(torch, tunefarm.torch, options)

    def products():
        comparison = Products(torch, timer, tunefarm.torch.grouped_mm, options)
        results = comparison.run(limits)
        return results, products_table(results, limits, options.layout), comparison.problems

    def layer():
        import torch_moe_layer
        return torch_moe_layer.run(torch, tunefarm.torch, options)

    def worker():
        import torch_worker_pairs
        return torch_worker_pairs.run(torch, timer, options)

    part("products", products)
    part("host", host)
    part("layer", layer)
    part("worker", worker)
    problems.extend(f"left to torch: {message}" for message in fallbacks.messages)
    write()
    print("\n".join(["", *problems, *tables, f"{report['seconds']:.0f} s, {timer.retaken} samples retaken, "
                     f"{len(problems)} problems"]), flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
