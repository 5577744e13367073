"""What people decide about best configs holds against later jobs, and a watcher misses nothing, whatever dies."""

import json
import os
import random
import signal
import subprocess
import unittest

from farm import BIN, HANG_SECONDS, KERNELS, Farm, wait_until

PROBLEMS = ("64", "96", "128")
TUNE = ("matmul_host", "--policy", "fast", "--strategy", "random", "--max-trials", "4", "--measure", "no_reuse=true",
        "--dim", f"M={','.join(PROBLEMS)}", "--dim", "N=64", "--dim", "K=64")


def problem(m):
    return ("--dim", f"M={m}", "--dim", "N=64", "--dim", "K=64")


def environment(farm):
    return dict(os.environ, TUNEFARM_SERVER=farm.server, TUNEFARM_KERNELS=str(KERNELS))


class Watcher:
    """`tunefarm best watch`, which goes on by itself when its stream breaks; what it was told, applied."""

    def __init__(self, farm):
        self.path = farm.directory / "watched.jsonl"
        self.bests = {}
        self.revision = 0
        self.resets = 0
        self.read = 0
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen([BIN / "tunefarm", "--output", "json", "best", "watch"], stdout=out,
                                            stdin=subprocess.DEVNULL, env=environment(farm))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(HANG_SECONDS)

    def apply(self):
        """Whole lines that have come since."""
        with open(self.path, "rb") as file:
            file.seek(self.read)
            content = file.read()
        whole = content[:content.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in whole.splitlines():
            response = json.loads(line)
            if response.get("reset"):
                self.bests.clear()
                self.resets += 1
            for key in response.get("retired", []):
                self.bests.pop(key["problem_key"], None)
            for best in response.get("bests", []):
                self.bests[best["problem"]["key"]] = best
            self.revision = max(self.revision, int(response.get("revision", 0)))
        return self

    def has_reached(self, revision):
        self.apply()
        if self.process.poll() is not None:
            raise AssertionError(f"the watcher ended with {self.process.returncode}")
        return self.revision >= revision


def listed(farm):
    return {best["problem"]["key"]: best for best in farm.json("best", "list").get("bests", [])}


def history(farm):
    return farm.json("best", "history", "--limit", "1000").get("changes", [])


class Catalog(unittest.TestCase):
    def started(self, farm):
        """By its admin socket alone: no command starts a daemon of its own."""
        farm.start()
        farm.server = next(a for a in farm.info()["addresses"] if "admin" in a)
        return farm

    def test_a_watcher_misses_nothing_while_the_daemon_dies(self):
        seed = 11
        chance = random.Random(seed)
        with Farm() as farm:
            self.started(farm)
            farm.cli("tune", *TUNE)
            with Watcher(farm) as watcher:
                for life in range(4):
                    for step in range(6):
                        m = chance.choice(PROBLEMS)
                        # Whether it was heard is not known when the daemon dies: the catalog's history says.
                        command = chance.choice([("note", "matmul_host", f"{life}.{step}"), ("pin", "matmul_host"),
                                                 ("unpin", "matmul_host"), ("retire", "matmul_host")])
                        farm.cli("best", *command, *problem(m), check=False)
                        if not listed(farm) or chance.random() < 0.3:
                            retired = [c for c in history(farm) if c["kind"].endswith("RETIRED")]
                            if retired:
                                back = chance.choice(retired)["revision"]
                                farm.cli("best", "pin", "matmul_host", "--from-revision", back)
                    note = subprocess.Popen([BIN / "tunefarm", "best", "note", "matmul_host", f"last words {life}",
                                             *problem(chance.choice(PROBLEMS))], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL, env=environment(farm))
                    farm.kill()
                    note.wait(HANG_SECONDS)
                    farm.start()
                newest = int(history(farm)[0]["revision"])
                wait_until(lambda: watcher.has_reached(newest), f"revision {newest} at the watcher")
                self.assertEqual(watcher.bests, listed(farm), f"seed {seed}")
                self.assertEqual(watcher.resets, 1, "it resumes; only its beginning is whole")
                self.assertGreater(newest, 10)

    def test_a_pin_holds_against_jobs_until_it_is_lifted(self):
        with Farm() as farm:
            self.started(farm)
            one = ("matmul_host", "--policy", "fast", "--strategy", "random", "--measure", "no_reuse=true", *problem(64))
            farm.cli("tune", *one, "--max-trials", "2", "--seed", "1")
            first = farm.json("best", "matmul_host", *problem(64))["best"]
            farm.cli("best", "pin", "matmul_host", *problem(64), "--reason", "in production")
            farm.cli("tune", *one, "--max-trials", "12", "--seed", "2")
            kept = farm.json("best", "matmul_host", *problem(64))["best"]
            self.assertEqual(kept["config"], first["config"])
            self.assertTrue(kept["pinned"])
            self.assertIn("pinned", farm.cli("best", "matmul_host", *problem(64)).stdout)
            farm.kill()
            farm.start()
            farm.cli("best", "unpin", "matmul_host", *problem(64))
            shown = farm.cli("best", "retire", "matmul_host", *problem(64), "--reason", "for the test").stdout
            self.assertIn("retired", shown)
            self.assertEqual(farm.cli("best", "matmul_host", "--exact", *problem(64), check=False).returncode, 3)
            farm.cli("tune", *one, "--max-trials", "12", "--seed", "3")
            self.assertEqual(farm.json("best", "matmul_host", "--exact", *problem(64))["match"], "MATCH_EXACT")
            kinds = [change["kind"].removeprefix("BEST_CONFIG_CHANGE_KIND_") for change in history(farm)]
            self.assertEqual(kinds[:3], ["PROMOTED", "RETIRED", "UNPINNED"])
            self.assertEqual(kinds[-2:], ["PINNED", "PROMOTED"])


if __name__ == "__main__":
    unittest.main()
