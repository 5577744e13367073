"""C = A * B in Triton, and what may go wrong with it."""

import functools
import os

import torch
import triton
import triton.language as tl

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
# In the kernel a fault is a number: those that go wrong on the GPU.
FAULTS = {"compile_error": 1, "illegal_address": 2, "infinite_loop": 3, "wrong_result": 4, "unwritten_output": 5}


@triton.jit
def multiply(a, b, c, flag, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
             GROUP_M: tl.constexpr, FAULT: tl.constexpr):
    tl.static_assert(FAULT != 1, "this config is meant to be refused by the compiler")
    # Tiles are walked in bands of GROUP_M rows, column by column: tiles at work together share rows and columns.
    tile = tl.program_id(0)
    tiles_down = tl.cdiv(M, BLOCK_M)
    tiles_across = tl.cdiv(N, BLOCK_N)
    band = tile // (GROUP_M * tiles_across)
    rows_of_band = tl.minimum(tiles_down - band * GROUP_M, GROUP_M)
    place = tile % (GROUP_M * tiles_across)
    tile_row = band * GROUP_M + place % rows_of_band
    tile_column = place // rows_of_band

    rows = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    terms = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (begin + terms)[None, :],
                       mask=(rows < M)[:, None] & (begin + terms < K)[None, :], other=0.0)
        right = tl.load(b + (begin + terms)[:, None] * N + columns[None, :],
                        mask=(begin + terms < K)[:, None] & (columns < N)[None, :], other=0.0)
        total += tl.dot(left, right)

    if FAULT == 2:
        tl.store(flag + (1 << 40), 1)
    if FAULT == 3:
        seen = tl.load(flag, volatile=True)
        while seen == 0:
            seen = tl.load(flag, volatile=True)
    if FAULT == 4:
        total += 1.0
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    if FAULT == 5:
        inside = inside & (columns < N - 1)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def constants(config):
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
    return {**{name: config[name] for name in names}, "FAULT": FAULTS.get(config["FAULT"], 0)}


class NoGpu:
    """What Triton asks of a driver to compile where there is none: for which GPU."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_device(self):
        return self.capability  # What Triton keeps by device it then keeps by kind of GPU.

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


def compile(config):
    """Ahead, into TRITON_CACHE_DIR, by the path that a launch takes: so the launch finds it. A release of Triton that
    goes another way compiles when it launches."""
    try:
        triton.runtime.driver.set_active(NoGpu(config.device["compute_capability"]))
        dtype = DTYPES[config["dtype"]]
        multiply.warmup(dtype, dtype, dtype, torch.int32, config["M"], config["N"], config["K"], grid=(1,),
                        **constants(config))
    except (AttributeError, ImportError, TypeError) as error:
        print(f"not compiled ahead: {type(error).__name__}: {error}")


@functools.lru_cache(maxsize=2)
def problem(m, n, k, dtype, seed):
    """Inputs, and their product in twice the precision. Sums have the size of their terms, whatever K is."""
    numbers = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn((m, k), generator=numbers, device="cuda")
    b = torch.randn((k, n), generator=numbers, device="cuda") * k ** -0.5
    a, b = a.to(DTYPES[dtype]), b.to(DTYPES[dtype])
    return a, b, (a.float() @ b.float()).to(DTYPES[dtype])


def make_run_and_gt(config):
    m, n, k = config["M"], config["N"], config["K"]
    a, b, expected = problem(m, n, k, config["dtype"], config.seed)
    c = torch.empty_like(expected)
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    given = constants(config)
    tiles = triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"])

    def run():
        if config["FAULT"] == "raise":
            raise RuntimeError("this config is meant to fail")
        if config["FAULT"] == "abort":
            os.abort()
        multiply[(tiles,)](a, b, c, flag, m, n, k, **given)

    run.outputs = (c,)
    return run, expected
