#!/usr/bin/env python3
"""A layer of experts in inference as vLLM computes it, in Triton: a peer for moe_mlp.py, which tunes and times it.

The products are kernels/fused_moe (the interface, the configs and the tiles of vLLM's fused kernel), here with kernels for
what is around them: rows aligned to tiles by expert (none with few tokens, where each row has a tile of its own as in
vLLM's naive block assignment), x quantised, silu(gate) * up, which in fp8 is quantised by the same kernel, and torch's sum
of each token's rows. Both products have one height of tiles, as they share the alignment; each has a config of its own.

As a program it compiles a share of all configs into Triton's cache:
triton_moe_mlp.py TOKENS,... INDEX COUNT.
"""

import collections
import functools
import pathlib
import sys

import torch
import triton
import triton.language as tl

# Before this folder, where a script has the kernel's name.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kernels/fused_moe"))
import fused_moe  # noqa: E402
import fused_moe_data  # noqa: E402
from triton_grouped_mm import compile_ahead as compile_by  # noqa: E402
from triton_grouped_mm import reason_of  # noqa: E402

BLOCK = 128  # elements of a scale
Layer = collections.namedtuple("Layer", "experts topk hidden inner")
QWEN3 = Layer(128, 8, 2048, 768)
Config = collections.namedtuple("Config", "tall wide deep group warps stages")
_SHARED_BYTES = 220 << 10  # of a block, for operands
_NAIVE_SHARE = 4  # vLLM aligns nothing where topk * tokens times this is at most the number of experts


# (columns of a tile, terms of a step, warps, stages)
_OF_BF16 = ((64, 64, 4, 4), (64, 128, 4, 3), (64, 128, 4, 4), (128, 64, 4, 3), (128, 64, 4, 4), (128, 64, 8, 4),
            (128, 128, 8, 3), (256, 64, 8, 3), (256, 64, 8, 4))
_OF_FP8 = ((32, 128, 4, 4), (64, 128, 4, 3), (64, 128, 4, 4), (64, 128, 4, 5), (128, 128, 4, 3), (128, 128, 4, 4),
           (128, 128, 8, 3), (128, 128, 8, 4), (256, 128, 8, 3))


def configs(is_fp8, tokens):
    """For one number of tokens, those worth a try, as in the frameworks' tables."""
    rows_of_expert = tokens * QWEN3.topk / QWEN3.experts
    heights = (16,) if rows_of_expert <= 1 else (16, 32) if rows_of_expert <= 8 else (32, 64) if rows_of_expert <= 64 else (
        64, 128)
    element = 1 if is_fp8 else 2
    return [Config(tall, wide, deep, group, warps, stages)
            for tall in heights for wide, deep, warps, stages in (_OF_FP8 if is_fp8 else _OF_BF16)
            if stages * (tall + wide) * deep * element <= _SHARED_BYTES
            for group in ((1,) if tall <= 16 else (1, 16) if tall == 32 else (16,))]


@triton.jit
def _quantized(value):
    largest = tl.max(tl.abs(value), 1)
    scale = tl.maximum(largest, 1e-10) / 448.0
    return (value / scale[:, None]).to(tl.float8e4nv), scale


@triton.jit
def quantize_kernel(x, values, scales, columns, blocks, BLOCKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * 128 + tl.arange(0, 128)[None, :]
    value = tl.load(x + row * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    quantized, scale = _quantized(value)
    tl.store(values + row * columns + column, quantized, mask=column < columns)
    tl.store(scales + row * blocks + block, scale, mask=block < blocks)


@triton.jit
def activate_kernel(pairs, out, scales, columns, blocks, IS_FP8: tl.constexpr, BLOCKS: tl.constexpr):
    """silu(gate) * up of rows [gate, up], in fp8 with its scales."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * 128 + tl.arange(0, 128)[None, :]
    gate = tl.load(pairs + row * 2 * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    up = tl.load(pairs + (row * 2 + 1) * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    value = gate / (1 + tl.exp(-gate)) * up
    if IS_FP8:
        quantized, scale = _quantized(value)
        tl.store(out + row * columns + column, quantized, mask=column < columns)
        tl.store(scales + row * blocks + block, scale, mask=block < blocks)
    else:
        tl.store(out + row * columns + column, value.to(out.dtype.element_ty), mask=column < columns)


class Weights:
    """w_up [E, 2 I, H] and w_down [E, H, I] in bf16, or in e4m3 with scales [E, rows / 128, columns / 128]."""

    def __init__(self, up, down, up_scales=None, down_scales=None):
        self.up, self.down, self.up_scales, self.down_scales = up, down, up_scales, down_scales
        self.is_fp8 = up_scales is not None
        self.empty = torch.empty(1, device="cuda")  # for what bf16 does not read


class Aligned:
    """Rows by expert in tiles of one height."""

    def __init__(self, layer, ids, tall):
        self.layer, self.ids, self.tall = layer, ids.reshape(-1), tall
        rows = self.ids.shape[0]
        self.is_naive = rows * _NAIVE_SHARE <= layer.experts
        if self.is_naive:
            self.padded = rows * tall
            self.sorted_ids = torch.full((rows, tall), rows, device="cuda", dtype=torch.int32)
            self.sorted_ids[:, 0] = torch.arange(rows, device="cuda", dtype=torch.int32)
            self.expert_ids = self.ids
            self.count = torch.full((1,), self.padded, device="cuda", dtype=torch.int32)
            return
        self.padded = triton.cdiv(rows + min(rows, layer.experts) * (tall - 1), tall) * tall
        self.sorted_ids = torch.empty(self.padded, device="cuda", dtype=torch.int32)
        self.expert_ids = torch.empty(self.padded // tall, device="cuda", dtype=torch.int32)
        self.count = torch.empty(1, device="cuda", dtype=torch.int32)
        self.counts = torch.empty(layer.experts, device="cuda", dtype=torch.int32)

    def launch(self):
        if self.is_naive:
            return
        rows, experts, block = self.ids.shape[0], self.layer.experts, 4096 if self.ids.shape[0] > 4096 else 512
        fused_moe_data.count[(experts,)](self.ids, self.counts, rows, COUNT=block, num_warps=16 if block > 512 else 4)
        fused_moe_data.align[(experts + 1,)](self.ids, self.counts, self.sorted_ids, self.expert_ids, self.count, rows,
                                             experts, experts, self.tall, self.padded, EXPERTS=128, COUNT=block,
                                             num_warps=16 if block > 512 else 4)


def _product(kernel, a, a_scales, w, w_scales, out, weights, aligned, config, topk):
    """What launches, and with which arguments: a product of rows [R, N]."""
    _, n, k = w.shape
    rows, is_fp8 = out.shape[0], a_scales is not None
    grid = (triton.cdiv(aligned.padded, config.tall) * triton.cdiv(n, config.wide),)
    none = aligned.count
    scale_strides = (a_scales.stride(0), 1, w_scales.stride(0), 1, w_scales.stride(1)) if is_fp8 else (0,) * 5
    positional = (a.view(torch.uint8) if is_fp8 else a, w.view(torch.uint8) if is_fp8 else w, out,
                  a_scales if is_fp8 else none, w_scales if is_fp8 else none, weights, aligned.sorted_ids, aligned.expert_ids,
                  aligned.count, n, k, aligned.padded, rows, k, 1, n * k, 1, k, n, 1, *scale_strides)
    named = dict(BLOCK_SIZE_M=config.tall, BLOCK_SIZE_N=config.wide, BLOCK_SIZE_K=config.deep, GROUP_SIZE_M=config.group,
                 has_other_ranks=False, num_warps=config.warps, num_stages=config.stages)
    if kernel is fused_moe.up:
        named["topk"] = topk
    return kernel, grid, positional, named


class Mlp:
    """The layer for one number of tokens, with memory of its own. Call it with configs of one height."""

    def __init__(self, layer, x, weights, ids, topk_weights):
        tokens, rows = x.shape[0], ids.numel()
        self.layer, self.x, self.weights, self.ids, self.topk_weights = layer, x, weights, ids, topk_weights.reshape(-1)

        def new(dtype, *shape):
            return torch.empty(*shape, device="cuda", dtype=dtype)

        element = torch.float8_e4m3fn if weights.is_fp8 else torch.bfloat16
        self.up = new(torch.bfloat16, rows, 2 * layer.inner)
        self.activated = new(element, rows, layer.inner)
        self.down = new(torch.bfloat16, rows, layer.hidden)
        self.out = new(torch.bfloat16, tokens, layer.hidden)
        self.x_values = self.x_scales = self.activated_scales = None
        if weights.is_fp8:
            self.x_values = new(element, tokens, layer.hidden)
            self.x_scales = new(torch.float32, tokens, layer.hidden // BLOCK)
            self.activated_scales = new(torch.float32, rows, layer.inner // BLOCK)
        self._aligned = functools.lru_cache(maxsize=None)(lambda tall: Aligned(layer, ids, tall))

    def up_product(self, config):
        return _product(fused_moe.up, self.x_values if self.weights.is_fp8 else self.x, self.x_scales, self.weights.up,
                        self.weights.up_scales, self.up, self.topk_weights, self._aligned(config.tall), config,
                        self.layer.topk)

    def down_product(self, config):
        return _product(fused_moe.down, self.activated, self.activated_scales, self.weights.down, self.weights.down_scales,
                        self.down, self.topk_weights, self._aligned(config.tall), config, 1)

    def align(self, tall):
        self._aligned(tall).launch()

    def quantize(self):
        if self.weights.is_fp8:
            tokens, blocks = self.x_scales.shape
            quantize_kernel[(tokens, triton.cdiv(blocks, 8))](self.x, self.x_values, self.x_scales, self.x.shape[1], blocks,
                                                             BLOCKS=8)

    def activate(self):
        blocks = triton.cdiv(self.layer.inner, BLOCK)
        scales = self.activated_scales if self.weights.is_fp8 else self.weights.empty
        activate_kernel[(self.ids.numel(), triton.cdiv(blocks, 8))](self.up, self.activated, scales, self.layer.inner, blocks,
                                                                   IS_FP8=self.weights.is_fp8, BLOCKS=8)

    def call(self, up_config, down_config):
        self.align(up_config.tall)
        self.quantize()
        launch(self.up_product(up_config))
        self.activate()
        launch(self.down_product(down_config))
        torch.sum(self.down.view(self.out.shape[0], self.layer.topk, self.layer.hidden), 1, out=self.out)
        return self.out


def launch(product):
    kernel, grid, positional, named = product
    kernel[grid](*positional, **named)


def tune(timer, mlp, tokens):
    """((config of up, config of down), reasons): the height whose best configs of both are fastest."""
    reasons, best = [], None
    mlp.quantize()
    candidates = configs(mlp.weights.is_fp8, tokens)
    for tall in sorted({each.tall for each in candidates}):
        mlp.align(tall)
        chosen = []
        for make in (mlp.up_product, mlp.down_product):
            times = {}
            for config in candidates:
                if config.tall == tall:
                    try:
                        product = make(config)
                        times[config] = timer.median_us(lambda: launch(product), samples=3, warm=1)
                    except Exception as error:  # Some tiles do not compile: the others are tried.
                        reasons.append(f"{tuple(config)}: {reason_of(error)}")
            finalists = sorted(times, key=times.get)[:4]
            again = {config: timer.median_us(lambda product=make(config): launch(product), samples=9) for config in finalists}
            if again:
                chosen.append(min((us, config) for config, us in again.items()))
            if make == mlp.up_product:
                mlp.activate()
        if len(chosen) == 2 and (best is None or sum(us for us, _ in chosen) < best[0]):
            best = (sum(us for us, _ in chosen), tuple(config for _, config in chosen))
    return best and best[1], reasons


def compile_ahead(processes, tokens):
    """Compiles all configs for these numbers of tokens into Triton's cache; the messages of what does not compile."""
    return compile_by(processes, __file__, (",".join(map(str, tokens)),))


def random_weights(layer, is_fp8):
    shapes = (layer.experts, 2 * layer.inner, layer.hidden), (layer.experts, layer.hidden, layer.inner)
    if not is_fp8:
        return Weights(*(torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes))
    return Weights(*(torch.empty(shape, device="cuda", dtype=torch.float8_e4m3fn) for shape in shapes),
                   *(torch.empty(shape[0], shape[1] // BLOCK, shape[2] // BLOCK, device="cuda") for shape in shapes))


def _compile_share(all_tokens, index, count):
    # As many experts as the layer has matter to no binary; their memory does.
    small = QWEN3._replace(experts=1)
    jobs = [(is_fp8, tokens, config, name) for is_fp8 in (False, True) for tokens in all_tokens
            for config in configs(is_fp8, tokens) for name in ("up_product", "down_product")]
    made = {}
    for is_fp8, tokens, config, name in jobs[index::count]:
        key = (is_fp8, tokens)
        if key not in made:
            x = torch.empty(tokens, QWEN3.hidden, device="cuda", dtype=torch.bfloat16)
            ids = torch.zeros(tokens, QWEN3.topk, device="cuda", dtype=torch.int32)
            made[key] = Mlp(small, x, random_weights(small, is_fp8), ids, torch.empty(ids.shape, device="cuda"))
        try:
            kernel, _, positional, named = getattr(made[key], name)(config)
            kernel.warmup(*positional, grid=(1,), **named)
        except Exception as error:
            print(f"{name} {tuple(config)}: {reason_of(error)}")


if __name__ == "__main__":
    # Under the name that the kernels have where they are used.
    import triton_moe_mlp
    triton_moe_mlp._compile_share([int(each) for each in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3]))
