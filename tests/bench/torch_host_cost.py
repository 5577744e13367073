"""What calls cost the host: launches from Python, tunefarm.torch's operator beside torch._grouped_mm, and the driver's own
cuLaunchKernelEx. A part of torch_grouped_mm.py; what launches cost in C is printed by gpu_worker_test (SaysWhatALaunchCosts).

Medians of 10,000 calls, of which at most 100 are under way. The products are so small (8 rows of one expert; all other rows
lie past the last group) that the device never keeps the host waiting.
"""

import ctypes
import gc
import random
import statistics
import time

ROWS, EXPERTS, N, K = 32768, 128, 2048, 768  # Qwen3-30B down
LAUNCH_ASKED_US = 12.0  # beyond what the driver's own call takes
_UNDER_WAY = 100

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e, .param .u64 f)
{
  ret;
}
"""


class LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


def medians_us(torch, calls, count, problems):
    """name -> median. The calls take turns of a hundred in drawn order: what else the host does meets all of them alike."""
    times, drawn = {}, random.Random(1)
    for name, call in calls.items():
        try:
            for _ in range(_UNDER_WAY):
                call()
            times[name] = []
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {error}")
    gc.collect()
    gc.disable()
    try:
        for _ in range(count // _UNDER_WAY):
            for name in drawn.sample(list(times), len(times)):
                call, own = calls[name], times[name]
                torch.cuda.synchronize()
                for _ in range(_UNDER_WAY):
                    begin = time.perf_counter_ns()
                    call()
                    own.append(time.perf_counter_ns() - begin)
    finally:
        gc.enable()
    torch.cuda.synchronize()
    return {name: statistics.median(own) / 1e3 for name, own in times.items()}


def driver_launch(torch):
    """A call of cuLaunchKernelEx by ctypes for an empty kernel with six pointers."""
    driver = ctypes.CDLL("libcuda.so.1")

    def check(status):
        if status != 0:
            raise RuntimeError(f"the CUDA driver answers {status}")

    torch.cuda.current_stream()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.cuModuleLoadData(ctypes.byref(module), PTX))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))
    config = LaunchConfig((1, 1, 1), (32, 1, 1), 0, torch.cuda.current_stream().cuda_stream, None, 0)
    values = [ctypes.c_uint64(0) for _ in range(6)]
    parameters = (ctypes.c_void_p * 6)(*(ctypes.addressof(value) for value in values))
    launch = driver.cuLaunchKernelEx
    launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    place = ctypes.addressof(config)
    check(launch(place, function, parameters, None))
    keep = (config, values, parameters, module)
    return lambda: launch(place, function, parameters, None), keep


def package_kernel(launch, packages, name, ends, **dims):
    """The first package's kernel for these dims, and whether it takes the ends of groups in place of their sizes: as `ends`
    says, if the package knows ends."""
    errors = []
    for path in packages:
        package = launch.open(path)
        if name not in package.kernels:
            continue
        for more in ({"group_ends": int(ends)}, {}):
            try:
                return package.kernel(name, dtype="bf16", **dims, **more), bool(more.get("group_ends"))
            except Exception as error:
                errors.append(f"{path}: {error}")
    raise RuntimeError(f"no package has {name} for {dims}: {'; '.join(errors)}")


def kernel_call(torch, packages):
    """A launch of the forward product by tunefarm.launch, with all six arrays."""
    import tunefarm.launch
    kernel, takes_ends = package_kernel(tunefarm.launch, packages, "grouped_gemm_forward", True, E=EXPERTS, N=N, K=K,
                                         topk=1)
    sizes = torch.zeros(EXPERTS, device="cuda", dtype=torch.int32)
    sizes[slice(None) if takes_ends else 0] = 8
    arrays = {
        "x": torch.randn(ROWS, K, device="cuda", dtype=torch.bfloat16),
        "w": torch.randn(EXPERTS, N, K, device="cuda", dtype=torch.bfloat16),
        "y": torch.empty(ROWS, N, device="cuda", dtype=torch.bfloat16),
        "m_sizes": sizes,
        "gather_indices": torch.arange(ROWS, device="cuda", dtype=torch.int32),
        "topk_weights": torch.ones(ROWS, device="cuda"),
    }
    arrays = {argument.name: arrays[argument.name] for argument in kernel.arguments}
    kernel(**arrays, tokens=ROWS)
    return lambda: kernel(**arrays, tokens=ROWS)


def run(torch, ours, options):
    """(the report, lines of a table, problems)."""
    count = 2000 if options.quick else 10000
    x = torch.randn(ROWS, K, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(EXPERTS, N, K, device="cuda", dtype=torch.bfloat16)
    x_grad, w_grad = x.clone().requires_grad_(), w.clone().requires_grad_()
    ends = torch.full((EXPERTS,), 8, device="cuda", dtype=torch.int32)
    mat2, mat2_grad = w.transpose(-2, -1), w_grad.transpose(-2, -1)
    torch_public = getattr(torch.nn.functional, "grouped_mm", None)
    calls, problems, keep = {}, [], None
    try:
        calls["cuLaunchKernelEx by ctypes, 6 pointers"], keep = driver_launch(torch)
    except Exception as error:
        problems.append(f"cuLaunchKernelEx: {error}")
    try:
        calls["tunefarm.launch, 6 tensors"] = kernel_call(torch, options.packages)
    except Exception as error:
        problems.append(f"tunefarm.launch: {error}")
    calls["tunefarm.torch.grouped_mm"] = lambda: ours.grouped_mm(x, mat2, offs=ends)
    calls["torch._grouped_mm"] = lambda: torch._grouped_mm(x, mat2, offs=ends)
    if torch_public is not None:
        calls["torch.nn.functional.grouped_mm"] = lambda: torch_public(x, mat2, offs=ends)
    calls["tunefarm.torch.grouped_mm, with grad"] = lambda: ours.grouped_mm(x_grad, mat2_grad, offs=ends)
    calls["torch._grouped_mm, with grad"] = lambda: torch._grouped_mm(x_grad, mat2_grad, offs=ends)
    times = medians_us(torch, calls, count, problems)
    by_driver = times.get("cuLaunchKernelEx by ctypes, 6 pointers")
    asked = {"tunefarm.launch, 6 tensors": None if by_driver is None else LAUNCH_ASKED_US + by_driver,
             "tunefarm.torch.grouped_mm": times.get("torch._grouped_mm"),
             "tunefarm.torch.grouped_mm, with grad": times.get("torch._grouped_mm, with grad")}
    lines = [f"Host: us a call, medians of {count:,}", "| call | us | at most | |", "|---|---|---|---|"]
    for name, value in times.items():
        limit = asked.get(name)
        lines.append(f"| {name} | {value:.2f} | " + ("| |" if limit is None else
                     f"{limit:.2f} | {'ok' if value <= limit else 'NOT REACHED'} |"))
    del keep
    return {"median_us": times, "calls": count}, lines, problems
