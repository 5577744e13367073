"""What was looked up in vain: counted, kept over a SIGKILL, tuned by one command, through the real daemon and the CLI."""

import unittest
import urllib.request

from farm import Farm, wait_until

BRIEF = ["--policy", "fast", "--max-samples", "3", "--max-trials", "6"]


def dims(n):
    return ["--dim", "M=64", "--dim", f"N={n}", "--dim", "K=64"]


def metric(farm, name):
    with urllib.request.urlopen(farm.info()["http_address"] + "/metrics") as page:
        lines = page.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).rsplit(" ", 1)[1])


class Misses(unittest.TestCase):
    def listed(self, farm):
        return {m["problem"]["key"]: int(m["count"]) for m in farm.json("misses").get("misses", [])}

    def test_what_was_asked_in_vain_is_tuned(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            self.assertIn("No misses", farm.cli("misses").stderr)
            self.assertIn("Nothing to tune", farm.cli("tune", "--misses").stderr)
            farm.cli("tune", "matmul_host", *dims(64), *BRIEF)
            self.assertEqual(farm.json("best", "matmul_host", *dims(64))["match"], "MATCH_EXACT")
            self.assertEqual(self.listed(farm), {})
            for _ in range(3):
                self.assertEqual(farm.json("best", "matmul_host", *dims(128))["match"], "MATCH_NEAREST_SHAPE")
            self.assertEqual(farm.cli("best", "matmul_host", *dims(96), "--exact", check=False).returncode, 3)
            self.assertNotEqual(farm.cli("best", "no_such_kernel", check=False).returncode, 0)
            asked = {"K=64,M=64,N=128": 3, "K=64,M=64,N=96": 1}
            self.assertEqual(self.listed(farm), asked)
            shown = farm.cli("misses", "matmul_host")
            self.assertRegex(shown.stdout, r"matmul_host +K=64,M=64,N=128 .* 3  NEAREST_SHAPE 1 ")
            self.assertIn("tunefarm tune --misses", shown.stderr)

            wait_until(lambda: metric(farm, "tunefarm_unwritten_misses") == 0, "the writing of misses")
            farm.kill()
            farm.start()
            self.assertEqual(self.listed(farm), asked)

            done = farm.cli("tune", "--misses", *BRIEF)
            self.assertRegex(done.stdout, r"matmul_host +.* 2 +2\n")
            self.assertEqual(self.listed(farm), {})
            for n in (128, 96):
                self.assertEqual(farm.json("best", "matmul_host", *dims(n))["match"], "MATCH_EXACT")
            self.assertEqual(self.listed(farm), {})
            farm.kill()  # whatever the database still has of them
            farm.start()
            self.assertEqual(self.listed(farm), {})

    def test_an_orderly_end_writes_them_down_and_clearing_forgets_them(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "matmul_host", *dims(64), *BRIEF)
            farm.cli("best", "matmul_host", *dims(128))
            farm.stop()
            farm.start()
            self.assertEqual(self.listed(farm), {"K=64,M=64,N=128": 1})
            self.assertIn("1 problem is forgotten", farm.cli("misses", "--clear").stdout)
            farm.kill()
            farm.start()
            self.assertEqual(self.listed(farm), {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
