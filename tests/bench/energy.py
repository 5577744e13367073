#!/usr/bin/env python3
"""energy.py BUNDLE_DIRECTORY [--trials 60] [--case NAME ...] [--counter]

Energies of finalists on a GPU. --counter: the device's energy counter against its power, integrated over 10 s of products
(needs torch). For each case two jobs with the same config, whose energies should agree, and one that searches by energy: the
winner by energy beside the one by time. Prints tables.
"""

import argparse
import ctypes
import pathlib
import subprocess
import sys
import threading
import time

from daemon_of_its_own import DaemonOfItsOwn

CASES = {
    "matmul_bf16_4096": ("matmul", {"dtype": "bf16", "M": 4096, "N": 4096, "K": 4096}),
    "qwen3_up": ("grouped_gemm_forward", {"tokens": 4096, "topk": 8, "E": 128, "N": 1536, "K": 2048}),
}


def compare_counter():
    import torch

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device = ctypes.c_void_p()
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}".encode()
    if nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(device)) != 0:
        nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))

    def energy_joules():
        value = ctypes.c_ulonglong()
        if nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)) != 0:
            sys.exit("the device has no energy counter")
        return value.value / 1e3

    def at_change():
        first = energy_joules()
        while (now := energy_joules()) == first:
            time.sleep(0.001)
        return now, time.monotonic()

    stop = threading.Event()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def work():
        while not stop.is_set():
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(3)  # reported power is an average over a second
    before, start = at_change()
    samples = []
    while time.monotonic() - start < 10:
        value = ctypes.c_uint()
        nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(value))
        samples.append((time.monotonic(), value.value / 1e3))
        time.sleep(0.01)
    after, end = at_change()
    stop.set()
    worker.join()
    integral = sum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in zip(samples, samples[1:]))
    integral *= (end - start) / (samples[-1][0] - samples[0][0])
    print(f"counter {after - before:.1f} J, power integrated {integral:.1f} J over {end - start:.2f} s: "
          f"{(after - before) / integral - 1:+.2%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--finalists", type=int, default=4)
    parser.add_argument("--case", action="append", choices=sorted(CASES), default=[])
    parser.add_argument("--counter", action="store_true")
    arguments = parser.parse_args()
    if arguments.counter:
        # In a process that ends: the daemon does not measure while another process has the device open.
        subprocess.run([sys.executable, "-c", "import energy; energy.compare_counter()"], cwd=pathlib.Path(__file__).parent,
                       check=True)
    with DaemonOfItsOwn(arguments.bundle / "bin") as call:
        def finalists(job):
            trials = call.json("results", job, "--all").get("trials", [])
            return [t for t in trials if t.get("purpose") == "TRIAL_PURPOSE_FINALIST" and t.get("measurement", {}).get("energy", {}).get("millijoules")]

        job = 0
        for case in arguments.case or CASES:
            kernel, dims = CASES[case]
            common = ["tune", kernel, "--device", "cuda", *[f"--dim={k}={v}" for k, v in dims.items()], "--objective", "energy",
                      "--rows", 0, "--no-memory"]
            same = []
            for _ in range(2):
                start = time.monotonic()
                call(*common, "--max-trials", 1, "--measure", "final_rounds=3", "--measure", "no_reuse=true")
                job += 1
                same += [float(t["measurement"]["energy"]["millijoules"]) for t in finalists(job)]
                seconds = time.monotonic() - start
            print(f"{case}: the default config twice: {' and '.join(f'{e:.2f}' for e in same)} mJ, "
                  f"{max(same) / min(same) - 1:.2%} apart; {seconds:.0f} s a job", flush=True)
            call(*common, "--max-trials", arguments.trials, "--measure", f"finalists={arguments.finalists}", "--measure",
                 "final_rounds=6")
            job += 1
            rows = finalists(job)
            by_time = min(rows, key=lambda t: float(t["measurement"]["median_ns"]))
            by_energy = min(rows, key=lambda t: float(t["measurement"]["energy"]["millijoules"]))
            print(f"{'trial':>6} {'time us':>9} {'mJ':>9} {'95 % interval':>19} {'W':>6} {'idle W':>7}")
            for t in sorted(rows, key=lambda t: float(t["measurement"]["median_ns"])):
                m, e = t["measurement"], t["measurement"]["energy"]
                print(f"{t['ordinal']:>6} {float(m['median_ns']) / 1e3:9.1f} {float(e['millijoules']):9.2f} "
                      f"{float(e['ci_low_millijoules']):9.2f} {float(e['ci_high_millijoules']):9.2f} "
                      f"{float(e['power_watts']):6.0f} {float(e['idle_power_watts']):7.0f}"
                      f"{'  fastest' if t is by_time else ''}{'  least energy' if t is by_energy else ''}", flush=True)
            print(call("results", job, "--rows", "1").strip().splitlines()[-1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
