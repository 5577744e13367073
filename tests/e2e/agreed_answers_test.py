"""All processes of a run get the answer of the first, from real daemons: at once, later, after restarts, and cut off."""

import json
import os
import subprocess
import sys
import unittest

import tunefarm
from farm import HANG_SECONDS, Farm
from postgres import Postgres, programs

# A process of a run: connects, and asks when it is told to.
PROCESS = """
import json, sys, tunefarm
directory, run_id, worst, n = sys.argv[1:]
with tunefarm.Client(data_directory=directory, start=False, timeout=600) as client:
    print("ready", flush=True)
    sys.stdin.readline()
    answer = client.join_run(run_id).best("noop_host", worst_match=worst, N=int(n))
    best = [answer.best.revision, answer.best.job, answer.best.ordinal] if answer.best else []
    print(json.dumps([answer.match.name, dict(answer.config), best, answer.agreed_at_ms]))
"""


def ask(farms, run, worst="DEFAULT", n=64, processes=8, meanwhile=lambda: None):
    """What so many processes get that ask at once, each one of the daemons in turn."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    started = [subprocess.Popen([sys.executable, "-c", PROCESS, farms[i % len(farms)].directory, run, worst, str(n)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
               for i in range(processes)]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        meanwhile()
        answers = []
        for process in started:
            output, _ = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, output
            answers.append(json.loads(output))
        return answers
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def tune(farm, seed, n=64):
    farm.cli("tune", "noop_host", "--dim", f"N={n}", "--policy", "fast", "--strategy", "random", "--seed", seed, "--max-trials",
             3, "--measure", "no_reuse=true", "--no-memory")


def retire(farm):
    farm.cli("best", "retire", "noop_host", "--dim", "N=64", "--reason", "a test")


class AgreedAnswers(unittest.TestCase):
    def the_one(self, answers):
        self.assertEqual([answer for answer in answers if answer != answers[0]], [], answers[0])
        return answers[0]

    def test_one_daemon_whatever_is_tuned_meanwhile_and_after_a_restart(self):
        with Farm() as farm:
            farm.start()
            tune(farm, 1)
            first = self.the_one(ask([farm], "run"))
            self.assertEqual(first[0], "EXACT")
            unknown = self.the_one(ask([farm], "run", "EXACT", 128))
            self.assertEqual(unknown[:3], ["NOT_FOUND", {}, []])
            retire(farm)
            tune(farm, 2)
            tune(farm, 3)  # most likely a tie with the best of before
            tune(farm, 1, 128)
            for is_restarted in (False, True):
                if is_restarted:
                    farm.kill()
                    farm.start()
                self.assertEqual(self.the_one(ask([farm], "run")), first)
                self.assertEqual(self.the_one(ask([farm], "run", "EXACT", 128)), unknown)
                other = self.the_one(ask([farm], f"run {is_restarted}"))
                self.assertGreater(other[2][0], first[2][0])
                self.assertEqual(self.the_one(ask([farm], f"run {is_restarted}", "EXACT", 128))[0], "EXACT")
            shown = farm.json("best", "noop_host", "--dim", "N=64", "--run", "run")
            self.assertEqual(shown["best"]["revision"], first[2][0])
            self.assertEqual(shown["run"]["agreed_at_ms"], first[3])
            self.assertIn("fixed since", farm.cli("best", "noop_host", "--dim", "N=64", "--run", "run").stdout)
            refused = farm.cli("best", "noop_host", "--dim", "N=128", "--exact", "--run", "run", check=False)
            self.assertEqual((refused.returncode, "run run agreed on" in refused.stderr), (3, True), refused.stderr)
            self.assertEqual(farm.stop(), 0)

    def test_a_process_that_loses_the_daemon_says_so_or_has_the_runs_snapshot(self):
        with Farm() as farm:
            farm.start()
            tune(farm, 1)
            file = farm.directory / "bests.tfsnap"
            farm.cli("export", "snapshot", file)

            def connect():
                client = tunefarm.Client(data_directory=farm.directory, start=False, timeout=HANG_SECONDS, retry_seconds=0.1)
                self.addCleanup(client.close)
                return client

            client = connect()
            with_snapshot, without = client.join_run("cut off", snapshot=file), connect().join_run("cut off")
            kernel, (device,) = client.kernel("noop_host").name, client.devices()
            asked = without.best(kernel, device.uuid, N=65)
            farm.kill()
            self.assertEqual(without.best(kernel, device.uuid, N=65), asked)
            with self.assertRaisesRegex(tunefarm.UnavailableError, "other processes of run cut off"):
                without.best(kernel, device.uuid, N=64)
            with self.assertRaisesRegex(tunefarm.UnavailableError, "no exact answer"):
                with_snapshot.best(kernel, device.uuid, N=66)
            alone = with_snapshot.best(kernel, device.uuid, N=64)
            self.assertEqual((alone.match.name, alone.agreed_at_ms), ("EXACT", 0))
            # The others come later, when the best has changed, and get what it got.
            farm.start()
            retire(farm)
            tune(farm, 2)
            joined = connect().join_run("cut off")
            self.assertEqual(joined.revision, with_snapshot.revision)
            together = joined.best(kernel, device.device_class.id, N=64)
            self.assertEqual((together.config, together.best.job, together.best.revision),
                             (alone.config, alone.best.job, alone.best.revision))
            self.assertGreater(connect().best("noop_host", N=64).best.revision, together.best.revision)
            # Another revision's snapshot is of no use to a run that begins now.
            late = connect().join_run("late", snapshot=file)
            farm.kill()
            with self.assertRaisesRegex(tunefarm.UnavailableError, "has revision"):
                late.best(kernel, device.uuid, N=64)

    @unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
    def test_two_daemons_on_one_database(self):
        with Postgres() as server, Farm() as one, Farm() as other:
            store = server.url("agreed")
            one.start(TUNEFARM_STORE=store)
            other.start(TUNEFARM_STORE=store)
            tune(one, 1)
            # The best goes while they ask: some would find it, some not.
            first = self.the_one(ask([one, other], "run", meanwhile=lambda: retire(one)))
            tune(other, 2)
            self.assertEqual(self.the_one(ask([one, other], "run")), first)
            one.kill()
            self.assertEqual(self.the_one(ask([other], "run")), first)
            one.start(TUNEFARM_STORE=store)
            self.assertEqual(self.the_one(ask([one], "run")), first)
            self.assertEqual(server.sql("agreed", "SELECT count(*) FROM agreed_answer"), "1")
            self.the_one(ask([one, other], "another"))
            self.assertEqual(server.sql("agreed", "SELECT count(*) FROM agreed_run"), "2")
            self.assertEqual([one.stop(), other.stop()], [0, 0])


if __name__ == "__main__":
    unittest.main()
