#!/usr/bin/env python3
"""From when on a process that uses a GPU can do without memfd_create: what is then forbidden to kernels in Python.

    python3 tests/gpu/memfd_probe.py [--works driver,torch,triton,cupy]        # with the interpreter of `python_interpreter`

A child process for each work and each time at which a seccomp filter makes memfd_create fail with EPERM in all of its
threads: never, before the driver starts (cuInit), after that, and after the primary context exists. Prints a line for
each: whether the work succeeds, and the files in memory that the process has when it ends. Works whose packages are
not installed are skipped. Ends with 0 if every work succeeds once the primary context exists, with 1 if one fails, and
with 77 without a GPU. It needs nothing built, but this folder and that of
the worker in Python.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cuda_driver

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "server" / "worker" / "python"))
from tunefarm_worker.memfd_filter import forbid_memfds  # noqa: E402

CHILD_SECONDS_MAX = 300
FILES_SHOWN_MAX = 8
THREADS = 256
SKIPPED = 77
WHEN = ("never", "before cuInit", "after cuInit", "with a context")

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry one_more(.param .u64 where) {
  .reg .b32 %r<3>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [where];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r2, [%d3];
  add.s32 %r2, %r2, 1;
  st.global.u32 [%d3], %r2;
  ret;
}
"""

TRITON_SOURCE = """
import triton
import triton.language as tl

@triton.jit
def one_more(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


def do_driver():
    device = cuda_driver.Device()
    managed, pinned = ctypes.c_uint64(), ctypes.c_void_p()
    device.check(device.cu.cuMemAllocManaged(ctypes.byref(managed), ctypes.c_size_t(THREADS * 4), 1))
    device.check(device.cu.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(64 << 20), 0))
    function = device.function(device.module(PTX), "one_more")  # the driver compiles it for the device
    for memory in (device.allocate(THREADS * 4), managed.value):
        device.check(device.cu.cuMemsetD32_v2(ctypes.c_uint64(memory), 41, ctypes.c_size_t(THREADS)))
        device.launch(function, 1, THREADS, 0, 1, [("p", memory)])
        device.synchronize()
        found = (ctypes.c_uint32 * THREADS)()
        device.check(device.cu.cuMemcpyDtoH_v2(found, ctypes.c_uint64(memory), ctypes.c_size_t(THREADS * 4)))
        if set(found) != {42}:
            raise RuntimeError(f"the kernel leaves {sorted(set(found))[:3]}, not 42")


def do_torch():
    import torch
    x = torch.randn((512, 512), device="cuda", dtype=torch.bfloat16)
    product = x @ x
    torch.nn.functional.conv2d(x.view(1, 1, 512, 512), x[:3, :3].reshape(1, 1, 3, 3))
    torch.sort(torch.randn(1 << 20, device="cuda"))
    torch.empty(1 << 20, pin_memory=True).cuda(non_blocking=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        again = x @ x
    graph.replay()
    torch.cuda.synchronize()
    if not torch.equal(product, again):
        raise RuntimeError("a product in a graph differs")


def do_triton():
    import torch
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder  # so that everything is compiled, the launcher too
        path = pathlib.Path(folder, "probed_kernel.py")
        path.write_text(TRITON_SOURCE, encoding="ascii")
        spec = importlib.util.spec_from_file_location("probed_kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x = torch.full((1000,), 41, device="cuda", dtype=torch.int32)
        module.one_more[(4,)](x, 1000, BLOCK=256)
        torch.cuda.synchronize()
        if not bool((x == 42).all()):
            raise RuntimeError("the kernel leaves wrong values")


def do_cupy():
    import cupy
    kernel = cupy.RawKernel("extern \"C\" __global__ void one_more(int* x) { x[threadIdx.x] += 1; }", "one_more")
    x = cupy.full(256, 41, dtype=cupy.int32)
    kernel((1,), (256,), (x,))
    y = cupy.ones((256, 256), dtype=cupy.float32)
    if not bool((x == 42).all()) or float((y @ y)[0, 0]) != 256:
        raise RuntimeError("CuPy computes wrong values")


WORKS = {"driver": do_driver, "torch": do_torch, "triton": do_triton, "cupy": do_cupy}


def files_in_memory():
    """Those that this process has open or mapped, with their sizes."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            name, size = os.readlink(f"/proc/self/fd/{fd}"), os.stat(int(fd)).st_size
        except OSError:
            continue
        if "memfd:" in name:
            found.append(f"open {name} {size >> 10} KiB")
    for line in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        mapped = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) .*?(/memfd:.*)$", line)
        if mapped:
            kib = (int(mapped.group(2), 16) - int(mapped.group(1), 16)) >> 10
            found.append(f"mapped {mapped.group(4)} {mapped.group(3)} {kib} KiB")
    return found


def child(work, when):
    if when == "after cuInit" and ctypes.CDLL("libcuda.so.1").cuInit(0) != 0:
        raise RuntimeError("cuInit fails")
    if when == "with a context":
        cuda_driver.Device()  # the primary context, which torch and CuPy use too
    if when != "never":
        forbid_memfds()
    WORKS[work]()
    print(json.dumps(files_in_memory()))


def attempt(work, when):
    """Whether it succeeds, and what is to be said of it."""
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", work, when], capture_output=True,
                              text=True, timeout=CHILD_SECONDS_MAX, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False, f"does not end within {CHILD_SECONDS_MAX} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ends with {done.returncode}"]
        return False, lines[-1][:200]
    files = json.loads(done.stdout.strip().splitlines()[-1])
    more = f" and {len(files) - FILES_SHOWN_MAX} more" if len(files) > FILES_SHOWN_MAX else ""
    return True, ("; ".join(files[:FILES_SHOWN_MAX]) or "no files in memory") + more


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default=",".join(WORKS), help="separated by commas (default: %(default)s)")
    parser.add_argument("--child", nargs=2, metavar=("WORK", "WHEN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    unknown = set(options.works.split(",")) - set(WORKS)
    if unknown:
        parser.error(f"unknown works {sorted(unknown)}; there are {', '.join(WORKS)}")
    usable, why = attempt("driver", "never")
    if not usable:
        print(f"skipped: no GPU can be used: {why}")
        return SKIPPED
    failed = False
    for work in options.works.split(","):
        needs = {"driver": [], "torch": ["torch"], "triton": ["torch", "triton"], "cupy": ["cupy"]}[work]
        missing = [package for package in needs if importlib.util.find_spec(package) is None]
        if missing:
            print(f"{work:8} skipped: {', '.join(missing)} is not installed")
            continue
        for when in WHEN:
            succeeds, text = attempt(work, when)
            failed |= when in ("never", "with a context") and not succeeds
            print(f"{work:8} memfd_create forbidden {when:15} {'works' if succeeds else 'FAILS'}: {text}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
