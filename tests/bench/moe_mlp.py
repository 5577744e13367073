#!/usr/bin/env python3
"""A whole layer of experts in inference, from the tokens' experts to y: tunefarm.torch.moe_mlp against the layer as vLLM
computes it in Triton; and what fusing the activation with the first product costs. One GPU, Qwen3-30B-A3B (128 experts, 8
of a token, hidden 2048, intermediate 768).

Usage: moe_mlp.py --packages A.tfpack ... [--bundle BUNDLE] [--tokens 1,64,1024,4096] [--dtype bf16,fp8]
           [--seeds 101,102,103] [--rounds N] [--json FILE]

Needs PyTorch 2.9 or newer with CUDA, Triton, and packages with the layer's products tuned
for this GPU: grouped_gemm_gate_up and _forward, or those of fp8, with gathered and with scattered and weighted rows.

layer    Both layers share x, weights, experts and their weights. Each is captured in a CUDA graph, whose launches are
         timed; in every round each has one sample, in drawn order. How samples are taken: device_timing.py. The peer is
         triton_moe_mlp.py, tuned here on a routing of its own. A token's experts are drawn without repetition; --seeds
         draw routings on which nothing was tuned.
products each of our two products beside the floor by bytes, which goes by a copy that is measured in the run, and the fused
         first product beside the product alone with the same rows, which writes gate and up.

Results are compared with products in single precision of the same (dequantised) weights, of which activations in fp8
differ by their quantisation. The table comes last, with all that is not as it must be above it. Exit code 1: a result is
wrong, a kernel is missing, or our layer called torch for a product.
"""

import argparse
import json
import os
import statistics
import sys
import time

from device_timing import DeviceTimer, alternate, paired_ratio, spread

TUNING_SEED = 7
RATIO_ASKED = {1: 1.0, 64: 1.0, 1024: 1.15, 4096: 1.15}
FUSED_ASKED = {"bf16": 1.03, "fp8": 1.08}
DECODE_SHARE = 0.9  # of the floor by bytes, with at most 64 tokens
BOUND = {"bf16": 0.015, "fp8": 0.06}  # ||out - reference|| / ||reference||


class Layer:
    """Operands of one data type."""

    def __init__(self, torch, peer, dtype):
        self.torch, self.peer, self.dtype = torch, peer, dtype
        layer = peer.QWEN3
        generator = torch.Generator(device="cuda").manual_seed(1)
        shapes = (layer.experts, 2 * layer.inner, layer.hidden), (layer.experts, layer.hidden, layer.inner)
        found, self.exact = [], []
        for shape in shapes:
            # A deviation for which values remain of the order of one.
            values = torch.randn(shape, device="cuda", generator=generator).mul_(shape[2]**-0.5)
            found.append(self._stored(values))
        if dtype == "fp8":
            (self.up, self.up_scales), (self.down, self.down_scales) = found
            self.weights = peer.Weights(self.up, self.down, self.up_scales, self.down_scales)
        else:
            self.up, self.down = found
            self.up_scales = self.down_scales = None
            self.weights = peer.Weights(self.up, self.down)

    def _stored(self, values):
        if self.dtype == "bf16":
            return values.bfloat16()
        experts, rows, columns = values.shape
        blocks = values.view(experts, rows // 128, 128, columns // 128, 128)
        scales = blocks.abs().amax((2, 4)) / 448
        return (blocks / scales[:, :, None, :, None]).view_as(values).to(self.torch.float8_e4m3fn), scales

    def _exact(self, stored, scales, expert):
        values = stored[expert].float()
        if scales is not None:
            values *= scales[expert].repeat_interleave(128, 0).repeat_interleave(128, 1)
        return values

    def drawn(self, tokens, seed):
        """x, topk_ids and topk_weights."""
        torch, layer = self.torch, self.peer.QWEN3
        generator = torch.Generator(device="cuda").manual_seed(seed)
        x = torch.randn(tokens, layer.hidden, device="cuda", generator=generator).bfloat16()
        scores = torch.rand(tokens, layer.experts, device="cuda", generator=generator)
        weights, ids = scores.topk(layer.topk)
        return x, ids.int(), (weights / weights.sum(-1, keepdim=True)).contiguous()

    def ours(self, call, x, ids, weights):
        return call(x, self.up, self.down, ids, weights, self.up_scales, self.down_scales)

    def reference(self, x, ids, weights):
        torch, inner = self.torch, self.peer.QWEN3.inner
        out = torch.zeros(x.shape, device="cuda")
        for expert in range(self.peer.QWEN3.experts):
            token, slot = (ids == expert).nonzero(as_tuple=True)
            if token.numel():
                both = x[token].float() @ self._exact(self.up, self.up_scales, expert).t()
                rows = torch.nn.functional.silu(both[:, :inner]) * both[:, inner:]
                rows = rows @ self._exact(self.down, self.down_scales, expert).t()
                out.index_add_(0, token, rows * weights[token, slot, None])
        return out

    def bytes_of(self, ids):
        """That the two products move at least: (first, second)."""
        layer, rows = self.peer.QWEN3, ids.numel()
        used, element = int(ids.unique().numel()), 1 if self.dtype == "fp8" else 2
        matrix = layer.hidden * layer.inner * element
        return (used * 2 * matrix + (ids.shape[0] * layer.hidden + rows * layer.inner) * element,
                used * matrix + rows * layer.inner * element + 2 * rows * layer.hidden)


class Products:
    """Our products as the layer calls them."""

    def __init__(self, torch, layer, x, ids, weights):
        import tunefarm.torch._moe as moe
        import tunefarm.torch._moe_fp8 as moe_fp8
        import tunefarm.torch._routing as routing
        topk = ids.shape[1]
        rows = routing.sorted_rows(ids, layer.up.shape[0])
        flat_weights = weights.reshape(-1)
        if layer.dtype == "bf16":
            def product(name, a, w, of_rows=None):
                return lambda: moe.layer_product_now(name, a, w, rows.ends, rows.indices, of_rows, topk)

            self.fused = product("up_activated", x, layer.up)
            self.alone = product("up", x, layer.up)
            self.down = product("down", self.fused(), layer.down, flat_weights)
            self._around(routing, ids, layer)
            return
        values, scales = moe_fp8.quantized(x)

        def product(name, a, a_scales, w, w_scales, of_rows=None):
            return lambda: moe_fp8.scaled_layer_product_now(name, a, w, a_scales, w_scales, rows.ends, rows.indices, of_rows,
                                                            topk)

        self.fused = lambda: moe_fp8.scaled_up_activated_now(values, layer.up, scales, layer.up_scales, rows.ends,
                                                             rows.indices, topk)
        self.alone = product("up", values, scales, layer.up, layer.up_scales)
        self.down = product("down", *self.fused(), layer.down, layer.down_scales, flat_weights)
        self._around(routing, ids, layer)

    def _around(self, routing, ids, layer):
        flat, (tokens, topk) = self.down(), ids.shape
        self.sort = lambda: routing.sorted_rows(ids, layer.up.shape[0])
        self.sum = lambda: routing.added_up(flat, tokens, topk)


def captured(torch, call):
    """(a launch of the call's CUDA graph, the result that it fills)."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    return graph.replay, out


def measure(torch, peer, timer, layer, tokens, options, bandwidth, problems):
    import tunefarm.torch
    name = f"{layer.dtype}, {tokens} tokens"
    timer.begin_set()
    x, ids, weights = layer.drawn(tokens, TUNING_SEED)
    configs, reasons = peer.tune(timer, peer.Mlp(peer.QWEN3, x, layer.weights, ids, weights), tokens)
    problems.extend(f"{name}, Triton: {reason}" for reason in reasons[:2])
    samples, of_products, off, floors = {}, {}, {}, []
    for seed in options.seeds:
        x, ids, weights = layer.drawn(tokens, seed)
        reference = layer.reference(x, ids, weights)
        mlp = peer.Mlp(peer.QWEN3, x, layer.weights, ids, weights)
        calls = {"ours": lambda: layer.ours(tunefarm.torch.moe_mlp, x, ids, weights)}
        if configs:
            calls["Triton"] = lambda: mlp.call(*configs)
        replays = {}
        for contender, call in calls.items():
            replay, out = captured(torch, call)
            out.fill_(float("nan"))
            replay()
            error = float((out.float() - reference).norm() / reference.norm())
            off[contender] = max(off.get(contender, 0.0), error)
            if not error <= BOUND[layer.dtype]:
                problems.append(f"{name}, seed {seed}: the result of {contender} is off by {error:.3f}")
            replays[contender] = replay
        timer.begin_set()
        for contender, values in alternate(timer, replays, options.rounds, seed).items():
            samples.setdefault(contender, []).extend(values)
        products = Products(torch, layer, x, ids, weights)
        parts = {"fused": products.fused, "alone": products.alone, "down": products.down, "sort": products.sort,
                 "sum": products.sum}
        if configs:
            up, down = mlp.up_product(configs[0]), mlp.down_product(configs[1])
            parts["Triton up"], parts["Triton down"] = lambda: peer.launch(up), lambda: peer.launch(down)
        timer.begin_set()
        for part, values in alternate(timer, parts, options.rounds, seed).items():
            of_products.setdefault(part, []).extend(values)
        floors.append([each / bandwidth * 1e6 for each in layer.bytes_of(ids)])
    up_floor, down_floor = (statistics.mean(each) for each in zip(*floors))
    medians = {contender: statistics.median(values) for contender, values in samples.items()}
    parts = {part: statistics.median(values) for part, values in of_products.items()}
    row = {"dtype": layer.dtype, "tokens": tokens, "medians_us": medians,
           "spreads": {each: spread(values) for each, values in samples.items()}, "products_us": parts,
           "byte_floors_us": (up_floor, down_floor), "off": off, "triton_configs": configs and [c._asdict() for c in configs],
           "fused_ratio": paired_ratio(of_products["fused"], of_products["alone"])}
    if configs:
        row["ratio"] = paired_ratio(samples["Triton"], samples["ours"])
    return row


def table(rows):
    def us(row, what, name):
        return f"{row[what][name]:.1f}" if name in row[what] else "-"

    lines = ["us; shares are those of the floor by bytes",
             "| dtype | tokens | ours | Triton | Triton / ours | asked | first product fused (share) | alone | "
             "fused / alone | asked | second (share) | sort, sum | Triton's products | off: ours, Triton |", "|---" * 14 + "|"]
    for row in rows:
        products, floors = row["products_us"], row["byte_floors_us"]
        lines.append(
            f"| {row['dtype']} | {row['tokens']} | {us(row, 'medians_us', 'ours')} ({row['spreads']['ours']:.1%}) | "
            f"{us(row, 'medians_us', 'Triton')} ({row['spreads'].get('Triton', 0):.1%}) | "
            f"{row.get('ratio', 0):.3f} | {RATIO_ASKED.get(row['tokens'], '-')} | "
            f"{products['fused']:.1f} ({floors[0] / products['fused']:.0%}) | {products['alone']:.1f} | "
            f"{row['fused_ratio']:.3f} | {FUSED_ASKED[row['dtype']]} | {products['down']:.1f} "
            f"({floors[1] / products['down']:.0%}) | {products['sort']:.1f}, {products['sum']:.1f} | "
            f"{us(row, 'products_us', 'Triton up')}, "
            f"{us(row, 'products_us', 'Triton down')} | {row['off']['ours']:.4f}, {row['off'].get('Triton', 0):.4f} |")
    return lines


def arguments():
    parser = argparse.ArgumentParser(description="A layer of experts in inference against vLLM's in Triton.")
    parser.add_argument("--packages", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--bundle", help="a bundle of tunefarm, for its Python package")
    parser.add_argument("--tokens", default="1,64,1024,4096")
    parser.add_argument("--dtype", default="bf16,fp8")
    parser.add_argument("--seeds", default="101,102,103")
    parser.add_argument("--rounds", type=int, default=20, help="samples of each contender and seed")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    options.tokens = [int(tokens) for tokens in options.tokens.split(",")]
    options.dtypes = options.dtype.split(",")
    if TUNING_SEED in options.seeds or not set(options.dtypes) <= set(FUSED_ASKED):
        parser.error(f"--seeds are other numbers than {TUNING_SEED}, on which Triton is tuned; --dtype is bf16 or fp8")
    return options


def main():
    options = arguments()
    if options.bundle:
        sys.path.insert(0, os.path.join(os.path.abspath(options.bundle), "python"))
    import torch
    import triton_moe_mlp as peer
    import tunefarm.torch
    from torch_grouped_mm import Fallbacks
    torch.set_float32_matmul_precision("highest")
    fallbacks = Fallbacks()
    for package in options.packages:
        tunefarm.torch.load(package)
    begin = time.monotonic()
    messages = peer.compile_ahead(min(16, os.cpu_count() or 1), options.tokens)
    print(f"Triton: compiled ahead in {time.monotonic() - begin:.0f} s, {len(messages)} messages"
          f"{': ' + messages[0] if messages else ''}", flush=True)
    timer = DeviceTimer(torch)
    bandwidth = timer.bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, a copy moves {bandwidth / 1e12:.2f} TB/s", flush=True)
    rows, problems = [], []
    with torch.no_grad():
        for dtype in options.dtypes:
            layer = Layer(torch, peer, dtype)
            for tokens in options.tokens:
                rows.append(measure(torch, peer, timer, layer, tokens, options, bandwidth, problems))
                print(f"{dtype}, {tokens}: {rows[-1]['medians_us']}", flush=True)
                if options.json:
                    with open(options.json, "w") as file:
                        json.dump({"device": torch.cuda.get_device_name(), "bandwidth": bandwidth, "rows": rows,
                                   "problems": problems, "logged": fallbacks.messages}, file)
            del layer
    for sentence in [*problems, *sorted(set(fallbacks.messages))]:
        print("NOT AS IT MUST BE:", sentence)
    print("\n".join(table(rows)))
    return 1 if problems or fallbacks.messages else 0


if __name__ == "__main__":
    sys.exit(main())
