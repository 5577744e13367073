#!/usr/bin/env python3
"""How good the configs are that `tunefarm tune-moe` finds: its winner for each number of tokens beside the best config
of an exhaustive search, the framework's default and a published table's row, all in one interleaved final on routings
that no search has seen. Needs a GPU, and an interpreter with Triton 3.6.

Usage: fused_moe_winners.py BIN [--python FILE] [--tokens N,...] [--for vllm|sglang] [--operands bf16|u8]
           [--table FILE] [--max-trials N] [--time-limit SECONDS] [--data-dir DIR]

BIN is the folder of the programs: build/release/bin, or bin of a bundle. --table names a file of configs that vLLM or
SGLang read, such as those that they ship; its key nearest to the number of tokens counts. Of vLLM both products are
judged together, of SGLang the first. No number of tokens is begun that would not end within --time-limit, as far as
earlier ones tell; a later call with the same --data-dir goes on from there. Exit code 1: a winner is more than 1 %
behind the best config of the exhaustive search or behind the better of default and table; 3: some were not judged.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

LAYER = {"E": 128, "topk": 8, "hidden": 2048, "intermediate": 768}  # Qwen3-30B-A3B
SEEDS = ("2", "3")  # as tune-moe's own comparison; searches have the default one
PARAMETERS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
CONFIG_TEXT = re.compile(r"(\d+)x(\d+)x(\d+), group (\d+), (\d+) warps, (\d+) stages")
BEHIND_MAX = 1.01  # of the exhaustive search's best
GAIN_MIN = 0.99  # over the better of default and table


class Tunefarm:
    """The command line with a private daemon on `directory`, which ends with the block. `python`: an interpreter with
    Triton, called python3."""

    def __init__(self, folder, directory, python):
        self.program = str(folder.resolve() / "tunefarm")
        # The private daemon takes python3 of PATH, whichever command starts it.
        path = f"{pathlib.Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = dict(os.environ, TUNEFARM_DATA_DIR=str(directory), PATH=path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([self.program, "stop", "--now"], env=self.environment, capture_output=True)

    def start(self, *arguments):
        return subprocess.Popen([self.program, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)

    def call(self, *arguments):
        process = self.start(*arguments)
        answer, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"tunefarm {' '.join(arguments)} ended with {process.returncode}")
        return answer

    def call_until(self, end, *arguments):
        """None where it has not ended at `end` of time.monotonic(): the command is interrupted, and its job remains."""
        process = self.start(*arguments)
        try:
            answer, _ = process.communicate(timeout=max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.communicate()
            return None
        if process.returncode != 0:
            raise SystemExit(f"tunefarm {' '.join(arguments)} ended with {process.returncode}")
        return answer

    def json(self, *arguments):
        return json.loads(self.call("--output", "json", *arguments))

    def newest_job(self):
        return max(int(job["name"].rpartition("/")[2]) for job in self.json("jobs", "list").get("jobs", []))


def words_of(dims):
    return [word for name, value in dims.items() for word in ("--dim", f"{name}={value}")]


def config_of(proto):
    return {name: int(value) for name, value in proto.items()}


def layer_words():
    return ["--experts", str(LAYER["E"]), "--topk", str(LAYER["topk"]), "--hidden", str(LAYER["hidden"]),
            "--intermediate", str(LAYER["intermediate"])]


def report_rows(text):
    """Of tune-moe's report, by number of tokens: the config without the table, and the winner of the search."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0].isdigit():
            rows[int(cells[0])] = tuple(dict(zip(PARAMETERS, map(int, CONFIG_TEXT.fullmatch(cells[i]).groups())))
                                        for i in (1, 3))
    return rows


def row_of_table(path, tokens):
    table = {int(key): row for key, row in json.loads(path.read_text()).items() if key.isdigit()}
    row = table[min(table, key=lambda key: abs(key - tokens))]
    return {name: int(row.get(name, {"num_warps": 4, "num_stages": 3}.get(name, 1))) for name in PARAMETERS}


def measured(farm, kernel, dims, configs):
    """The medians in ns of all `configs` in one interleaved final, None for those that failed."""
    different = [dict(config) for config in {tuple(sorted(config.items())) for config in configs}]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": [
            {"timestamp": "", "configuration": config, "objectives": ["time"], "invalidity": "correct",
             "correctness": 1, "measurements": [{"name": "time", "value": 1, "unit": "ms"}],
             "times": {"compilation_time": 0, "runtimes": [1], "framework": 0, "search_algorithm": 0, "validation": 0}}
            for config in different]}, file)
        file.flush()
        seeds = [word for seed in SEEDS for word in ("--input-seed", seed)]
        farm.call("tune", kernel, *words_of(dims), *seeds, "--starting-configs", file.name, "--max-trials",
                  str(len(different)), "--no-memory", "--measure", "no_early_stop=true",
                  "--measure", "final_rounds=9", "--measure", f"finalists={max(2, len(different))}")
    times = {}
    for trial in farm.json("results", str(farm.newest_job()), "--all").get("trials", []):
        config = tuple(sorted(config_of(trial["config"]).items()))
        if trial.get("purpose") == "TRIAL_PURPOSE_FINALIST" and "measurement" in trial:
            times[config] = float(trial["measurement"]["median_ns"])
        elif len(different) == 1 and "measurement" in trial:
            times.setdefault(config, float(trial["measurement"]["median_ns"]))
    return [times.get(tuple(sorted(config.items()))) for config in configs]


def tuned(farm, tokens, folder, options):
    """The default and the winner of tune-moe."""
    words = ["--dtype", "fp8_w8a8", "--block-shape", "128,128"] if options.operands == "u8" else []
    farm.call("tune-moe", *layer_words(), "--for", options.reader, *words, "--batch-size", str(tokens), "--max-trials",
              options.max_trials, "--dir", str(folder), "--force")
    report = next(path for path in folder.rglob("*.md") if not path.stem.endswith("_down"))
    return report_rows(report.read_text())[tokens]


def exhaustive_best(farm, dims):
    farm.call("tune", "fused_moe", *words_of(dims), "--strategy", "exhaustive", "--missing-only")
    return config_of(farm.json("best", "fused_moe", *words_of(dims), "--exact")["best"]["config"])


def judge(tokens, root, options):
    """Times in us by the name of the config."""
    dims = dict(LAYER, M=tokens, operands=options.operands, product="both" if options.reader == "vllm" else "up")
    with Tunefarm(options.bin, root / "tuned", options.python) as farm:
        default, winner = tuned(farm, tokens, root / f"table_{tokens}", options)
    configs = {"winner": winner, "default": default}
    if options.table:
        configs["table"] = row_of_table(options.table, tokens)
    # Apart, since a search is guided by what earlier ones measured.
    with Tunefarm(options.bin, root / "exhaustive", options.python) as farm:
        configs["exhaustive"] = exhaustive_best(farm, dims)
        times = measured(farm, "fused_moe", dims, list(configs.values()))
    return {name: ns and ns / 1000 for name, ns in zip(configs, times)}


def verdict(times):
    """How far behind the exhaustive search's best, the gain over the better of default and table, and whether both are
    as they should be."""
    known = [times[name] for name in ("default", "table") if times.get(name)]
    if not times["winner"] or not times["exhaustive"]:
        return None, None, False
    behind = times["winner"] / times["exhaustive"]
    gain = min(known) / times["winner"] if known else None
    return behind, gain, behind <= BEHIND_MAX and (gain is None or gain >= GAIN_MIN)


def text_of(number, form):
    return format(number, form) if number else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tokens", default="1,64,1024,4096")
    parser.add_argument("--for", dest="reader", default="vllm", choices=("vllm", "sglang"))
    parser.add_argument("--operands", default="bf16", choices=("bf16", "u8"))
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--max-trials", default="300")
    parser.add_argument("--time-limit", type=float, default=460)
    parser.add_argument("--data-dir", type=pathlib.Path)
    options = parser.parse_args()
    began, longest = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="tunefarm-moe.") as temporary:
        root = options.data_dir or pathlib.Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        kept = root / f"winners_{options.reader}_{options.operands}.json"
        results = json.loads(kept.read_text()) if kept.exists() else {}
        asked = options.tokens.split(",")
        for tokens in asked:
            if tokens in results:
                continue
            start = time.monotonic()
            if start - began + longest > options.time_limit:
                break
            results[tokens] = judge(int(tokens), root, options)
            longest = max(longest, time.monotonic() - start)
            kept.write_text(json.dumps(results, indent=1))
            print(f"{tokens} tokens judged in {time.monotonic() - start:.0f} s: {results[tokens]}", flush=True)
    print(f"\n{options.reader}, {options.operands}, {options.max_trials} trials; us of one final on other routings")
    print("| tokens | winner | exhaustive | behind | default | table | gain | |")
    print("|---:|---:|---:|---:|---:|---:|---:|---|")
    is_ok = True
    for tokens in asked:
        if tokens not in results:
            print(f"| {tokens} | not judged within {options.time_limit:.0f} s |")
            continue
        times = results[tokens]
        behind, gain, is_good = verdict(times)
        is_ok &= is_good
        print(f"| {tokens} | {text_of(times['winner'], '.1f')} | {text_of(times['exhaustive'], '.1f')} | "
              f"{text_of(behind, '.4f')} | {text_of(times['default'], '.1f')} | {text_of(times.get('table'), '.1f')} | "
              f"{text_of(gain, '.3f')} | {'ok' if is_good else 'NOT OK'} |")
    sys.exit(1 if not is_ok else 3 if any(tokens not in results for tokens in asked) else 0)


if __name__ == "__main__":
    main()
