#!/usr/bin/env python3
"""How exact the sums of grouped_gemm_forward_fp8 are before they are rounded to bfloat16, beside sums that the tensor cores
alone keep. One GPU of compute capability 9.0.

Usage: fp8_sums.py BUNDLE

Needs PyTorch with CUDA. BUNDLE: what `./dev bundle` makes. A copy of the kernel's folder stores its sums in single precision,
with epilogue=direct; each case is compared with a float32 product of the dequantised operands, all rows, routed by multinomial
draws. The other sums are those of torch._scaled_mm with use_fast_accum, where nothing is promoted within K, of the same
elements with all scales 1. The table comes last. Exit code 1: a row of ours is further off than asked.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from device_timing import worst_row

ASKED = 1e-3  # ||sums - reference|| / ||reference|| of each row
SEED = 101
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "kernels/grouped_gemm"
DIRECT = {"path": "hopper", "BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "num_warps": 8, "num_stages": 3,
          "GROUP_SIZE_M": 8, "persistent": 1, "warps_m": 1, "min_blocks": 1, "use_tma_load_x": True, "use_tma_load_w": True,
          "use_tma_store": False, "epilogue": "direct", "schedule": "coop", "cluster_m": 1, "cluster_n": 1,
          "epilogue_columns": 64, "swap_operands": False}
SMALL = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "num_stages": 6}
FP8_PBTXT = "grouped_gemm_forward_fp8.pbtxt"
CASES = ("qwen3_up", "qwen3_down", "deepseek_up", "deepseek_down", "qwen3_up_decode")
BOXES = """box: ["64 if slab_columns % 64 == 0 else 32", "16"] swizzle: "'128B' if slab_columns % 64 == 0 else '64B'\""""
CHANGES = (
    ("roles.cuh", "using OutElement = WideElement;", "using OutElement = float;"),
    ("hopper_epilogue.cuh", """\
        u32 pair = RoundPair(work, sums[tile][4 * i + 2 * half], sums[tile][4 * i + 2 * half + 1]);
        if (fuse_mul_post) pair = ScalePair(pair, factor);
        if (first_col + 8 * i < arguments.OutCols()) StoreGlobalPair(target + 8 * i, pair);
""", """\
        if (first_col + 8 * i < arguments.OutCols()) {
          target[8 * i] = sums[tile][4 * i + 2 * half];
          target[8 * i + 1] = sums[tile][4 * i + 2 * half + 1];
        }
"""),
    ("reference.cuh", "first_column + j] = ToElement(sum);", "first_column + j] = sum;"),
    (FP8_PBTXT, 'name: "y" buffer { data_type: DATA_TYPE_BF16', 'name: "y" buffer { data_type: DATA_TYPE_F32'),
    (FP8_PBTXT, 'dims: ["N", "rows"] byte_strides: ["2 * N"]', 'dims: ["N", "rows"] byte_strides: ["4 * N"]'),
    (FP8_PBTXT, BOXES, """box: ["32", "16"] swizzle: "'128B'\""""),
)


def copy_that_does_not_round(folder):
    shutil.copytree(FOLDER, folder)
    for name, before, after in CHANGES:
        text = (folder / name).read_text()
        if before not in text:
            sys.exit(f"fp8_sums.py: {name} has changed: it does not have {before!r}")
        (folder / name).write_text(text.replace(before, after, 1))
    return folder / FP8_PBTXT


def packed(bundle, work):
    """A package of the copy with one config for each case."""
    import fp8_grouped_mm
    environment = dict(os.environ, TUNEFARM_DATA_DIR=str(work / "data"))
    environment.pop("TUNEFARM_SERVER", None)

    def call(*words):
        done = subprocess.run([bundle / "bin/tunefarm", *map(str, words)], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"tunefarm {' '.join(map(str, words))}:\n{done.stdout}")

    kernel = copy_that_does_not_round(work / "grouped_gemm")
    try:
        for name in CASES:
            case = fp8_grouped_mm.CASES[name]
            config = dict(DIRECT, **SMALL if case.is_decode else {})
            (work / "config.json").write_text(json.dumps(
                {"tune_params_keys": list(config), "cache": {"one": dict(config, time=1.0)}}))
            dims = dict(tokens=case.tokens, topk=case.topk, E=case.experts, N=case.n, K=case.k, group_ends=1)
            call("tune", kernel, "--device", "cuda", *(f"--dim={dim}={value}" for dim, value in dims.items()), "--policy",
                 "fast", "--starting-configs", work / "config.json", "--max-trials", 1, "--promote")
        call("export", "package", work / "sums.tfpack", "--kernel", fp8_grouped_mm.KERNEL)
    finally:
        subprocess.run([bundle / "bin/tunefarm", "stop", "--now"], env=environment, capture_output=True)
    return work / "sums.tfpack"


def measure(torch, name, package):
    """(the worst rows of our sums, of the tensor cores' own)."""
    import fp8_grouped_mm
    import tunefarm.launch
    from torch_grouped_mm import multinomial_ends
    case = fp8_grouped_mm.CASES[name]
    operands = fp8_grouped_mm.Operands(torch, case)
    ends, sizes = multinomial_ends(torch, case.rows, case.experts, SEED)
    kernel = tunefarm.launch.open(package).kernel(fp8_grouped_mm.KERNEL, E=case.experts, N=case.n, K=case.k, group_ends=1,
                                                  topk=case.topk)
    out = torch.full((case.rows, case.n), float("nan"), device="cuda")
    arrays = {"x": operands.x, "w": operands.w, "y": out, "x_scales": operands.x_scales, "w_scales": operands.w_scales,
              "m_sizes": ends, "gather_indices": torch.zeros(1, device="cuda", dtype=torch.int32),
              "topk_weights": torch.ones(1, device="cuda")}
    kernel(**{argument.name: arrays[argument.name] for argument in kernel.arguments}, tokens=case.tokens)
    ours, _ = worst_row(torch, out, operands.reference(sizes))
    first = slice(0, sizes[0] // 16 * 16)
    if first.stop == 0:
        return ours, None
    one = torch.ones((), device="cuda")
    fast = torch._scaled_mm(operands.x[first], operands.w[0].t(), scale_a=one, scale_b=one, out_dtype=torch.float32,
                            use_fast_accum=True)
    theirs, _ = worst_row(torch, fast, operands.x[first].float() @ operands.w[0].float().t())
    return ours, theirs


def main():
    bundle = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(bundle / "python"))
    import torch
    torch.set_float32_matmul_precision("highest")
    with tempfile.TemporaryDirectory(prefix="tunefarm-sums.") as folder:
        package = packed(bundle, pathlib.Path(folder))
        rows = [(name, *measure(torch, name, package)) for name in CASES]
    print(f"{torch.cuda.get_device_name()}; worst rows, ||sums - reference|| / ||reference||, {ASKED:.0e} asked of ours")
    print("| case | ours | without promotion |\n|---|---|---|")
    for name, ours, theirs in rows:
        print(f"| {name} | {ours:.2e} | {'-' if theirs is None else format(theirs, '.2e')} |")
    return 0 if all(ours <= ASKED for _, ours, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
