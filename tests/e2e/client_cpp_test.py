"""The C++ client with a real daemon that is killed, stopped and started again."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

from farm import BIN, HANG_SECONDS, Farm, wait_until

PROBE = pathlib.Path(os.environ["TUNEFARM_CLIENT_PROBE"])


def tune(farm, m, **options):
    farm.cli("tune", "matmul_host", "--policy", "fast", "--strategy", "random", "--max-trials", "2", "--dim", f"M={m}",
             "--dim", "N=64", "--dim", "K=64", **options)


def newest(farm):
    return int(farm.json("best", "history", "--limit", "1")["changes"][0]["revision"])


class Probe:
    def __init__(self, address):
        self.process = subprocess.Popen([PROBE, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(HANG_SECONDS)
        self.process.stdout.close()

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def wait_for(self, revision):
        assert self.ask("wait", revision, HANG_SECONDS * 1000) == {"error": "OK", "reason": ""}


class ClientCpp(unittest.TestCase):
    def test_over_tls_with_a_certificate_or_a_token(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (["init", folder], ["issue", folder, "--name", "control", "--host", "127.0.0.1"],
                            ["issue", folder, "--name", "look", "--role", "lookup"]):
                subprocess.run([BIN / "tunefarm", "certs", *command], check=True, capture_output=True)
            with Farm("--listen", "127.0.0.1:0", "--tls-certificate", f"{folder}/control.pem", "--tls-key",
                      f"{folder}/control.key", "--tls-client-ca", f"{folder}/ca.pem") as farm:
                farm.start()
                tune(farm, 64)
                address = next(a for a in farm.info()["addresses"] if not a.startswith("unix:"))
                token = farm.cli("token", "create", "ci", "--role", "lookup").stdout.strip()
                tls = {"TUNEFARM_TLS_CA": f"{folder}/ca.pem"}
                certificate = {"TUNEFARM_CLIENT_CERTIFICATE": f"{folder}/look.pem", "TUNEFARM_CLIENT_KEY": f"{folder}/look.key"}
                for who in (certificate, {"TUNEFARM_TOKEN": token}):
                    with mock.patch.dict(os.environ, {**tls, **who}), Probe(address) as probe:
                        probe.wait_for(newest(farm))
                        self.assertEqual(probe.ask("find", 64)["match"], "EXACT")
                with mock.patch.dict(os.environ, tls), Probe(address) as probe:
                    self.assertNotEqual(probe.ask("lookup", 96, 60000).get("match"), "NEAREST_SHAPE")

    def test_a_definition_is_asked_for_by_its_digest(self):
        with Farm() as farm:
            farm.start()
            tune(farm, 64)
            own = farm.json("best", "history", "--limit", "1")["changes"][0]["best"]["program_digest"]
            edited = "0" * len(own)  # was never submitted
            snapshot = farm.directory / "bests.tfsnap"
            farm.cli("export", "snapshot", snapshot)
            address = next(a for a in farm.info()["addresses"] if a.endswith("client.sock"))
            with Probe(address) as probe:
                exact = probe.ask("lookup-program", own, 64)
                self.assertEqual(exact["match"], "EXACT")
                stale = probe.ask("lookup-program", edited, 64)
                self.assertEqual((stale["match"], stale["config"]), ("STALE_SOURCE", exact["config"]))
                self.assertEqual(probe.ask("lookup", 64, 60000)["match"], "EXACT")
                self.assertEqual(probe.ask("open-snapshot", snapshot, own)["match"], "EXACT")
                self.assertEqual(probe.ask("open-snapshot", snapshot, edited),
                                 {"error": "NOT_FOUND", "reason": "KERNEL_NOT_FOUND"})

    def test_a_package_comes_from_the_daemon(self):
        with Farm() as farm:
            farm.start()
            tune(farm, 64)
            tune(farm, 96)
            address = next(a for a in farm.info()["addresses"] if a.endswith("client.sock"))
            file = farm.directory / "one.tfpack"
            with Probe(address) as probe:
                self.assertEqual(probe.ask("package", file, 64), {"bests": 1, "left_out": 0})
                self.assertEqual(probe.ask("package", file, 7), {"error": "NOT_FOUND", "reason": "BEST_NOT_FOUND"})
            shown = farm.json("inspect", file)
            tuned = [choice for choice in shown["kernels"][0]["choices"] if choice["kind"] == "TUNED"]
            self.assertEqual([choice["problem"]["M"] for choice in tuned], [64])

    def test_answers_go_on_whatever_becomes_of_the_daemon(self):
        with Farm() as farm:
            farm.start()
            sockets = {pathlib.Path(a).name: a for a in farm.info()["addresses"]}
            farm.server = sockets["admin.sock"]
            tune(farm, 64)
            with Probe(sockets["client.sock"]) as probe:
                probe.wait_for(newest(farm))
                exact = probe.ask("find", 64)
                self.assertEqual((exact["match"], exact["from_stream"]), ("EXACT", True))
                self.assertEqual(probe.ask("lookup", 96, 60000)["match"], "NEAREST_SHAPE")

                farm.kill()
                wait_until(lambda: not probe.ask("state")["is_live"], "the client notices that the daemon is dead")
                self.assertEqual(probe.ask("find", 64)["config"], exact["config"])
                self.assertEqual(probe.ask("find", 96)["match"], "NEAREST_SHAPE")
                self.assertEqual(probe.ask("lookup", 1000, 60000)["error"], "UNAVAILABLE")
                wait_until(lambda: probe.ask("find", 64)["age_ms"] > 0, "the answer ages")

                farm.start()
                tune(farm, 96)
                probe.wait_for(newest(farm))
                self.assertEqual(probe.ask("find", 96)["match"], "EXACT")
                self.assertEqual(probe.ask("state")["resets"], 1)  # it went on where it was

                farm.process.send_signal(signal.SIGSTOP)
                self.assertEqual(probe.ask("find", 64)["config"], exact["config"])
                self.assertEqual(probe.ask("lookup", 64, 100)["config"], exact["config"])
                self.assertEqual(probe.ask("lookup", 2000, 100)["error"], "DEADLINE_EXCEEDED")
                wait_until(lambda: not probe.ask("state")["is_live"], "the client notices that the daemon is silent")
                farm.process.send_signal(signal.SIGCONT)
                tune(farm, 128)
                probe.wait_for(newest(farm))
                self.assertEqual(probe.ask("find", 128)["match"], "EXACT")

                self.assertEqual(probe.ask("tune", 160), {"state": "SUCCEEDED"})
                probe.wait_for(newest(farm))
                self.assertEqual(probe.ask("find", 160)["match"], "EXACT")

                snapshot = farm.directory / "bests.tfsnap"
                farm.cli("export", "snapshot", snapshot)
                farm.kill()
                offline = probe.ask("open-snapshot", snapshot)
                self.assertEqual((offline["match"], offline["config"]), ("EXACT", exact["config"]))


if __name__ == "__main__":
    unittest.main()
