"""Who may do what over the network, with certificates of `tunefarm certs` and tokens, against the real daemon. Whatever is
refused is refused with a reason and a line in the audit log, and the daemon goes on."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import grpc

from farm import BIN, HANG_SECONDS, KERNELS, Farm, wait_until

DIMS = ["--dim", "M=64", "--dim", "N=64", "--dim", "K=64"]
SMALL = ["--policy", "fast", "--max-trials", "4", "--measure", "noisy_relative_half_width=-1", "--warm-cache", *DIMS]
ERROR_DETAIL_KEY = "grpc-status-details-bin"


def run(*arguments, **environment):
    environment = {**os.environ, "TUNEFARM_KERNELS": str(KERNELS), **environment}
    return subprocess.run([BIN / "tunefarm", *map(str, arguments)], capture_output=True, text=True, env=environment,
                          timeout=HANG_SECONDS, stdin=subprocess.DEVNULL)


def made(*arguments):
    done = run("certs", *arguments)
    assert done.returncode == 0, done.stderr
    return done


class SecurityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-certs."))
        cls.ca, cls.other = cls.folder / "ca", cls.folder / "other"
        for folder in (cls.ca, cls.other):
            made("init", folder)
        made("issue", cls.ca, "--name", "short", "--role", "admin", "--expires", "1s")
        made("issue", cls.ca, "--name", "control", "--host", "127.0.0.1,localhost")
        made("issue", cls.ca, "--name", "elsewhere", "--host", "farm.example")
        made("issue", cls.ca, "--name", "over", "--host", "127.0.0.1", "--expires", "1s")
        made("issue", cls.other, "--name", "control", "--host", "127.0.0.1")
        made("issue", cls.other, "--name", "mallory", "--role", "admin")
        for name, roles in (("look", "lookup"), ("bob", "submit"), ("alice", "submit,kernels"), ("gpu7", "agent"),
                            ("root", "admin")):
            made("issue", cls.ca, "--name", name, "--role", roles)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    # What the tests are made of.

    def farm(self, *flags, certificate="control", folder=None):
        folder = folder or self.ca
        return Farm("--listen", "127.0.0.1:0", "--tls-certificate", folder / f"{certificate}.pem", "--tls-key",
                    folder / f"{certificate}.key", "--tls-client-ca", self.ca / "ca.pem", *flags)

    @staticmethod
    def address(farm):
        return next(a for a in farm.info()["addresses"] if not a.startswith("unix:"))

    def remote(self, farm, *arguments, name=None, folder=None, ca=None, token=None, **environment):
        options = ["--server", self.address(farm), "--tls-ca", (ca or self.ca) / "ca.pem"]
        folder = folder or self.ca
        if name:
            options += ["--tls-certificate", folder / f"{name}.pem", "--tls-key", folder / f"{name}.key"]
        if token:
            environment["TUNEFARM_TOKEN"] = token
        return run(*options, *arguments, **environment)

    @staticmethod
    def audit(farm):
        path = farm.directory / "audit.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def assert_audited(self, farm, **expected):
        return wait_until(lambda: [line for line in self.audit(farm)
                                   if all(str(value) in str(line.get(key, "")) for key, value in expected.items())],
                          f"the audit line {expected}; there are {self.audit(farm)}", 60)[-1]

    def assert_refused(self, done, *words, code=1):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_unharmed(self, farm):
        done = self.remote(farm, "tune", "matmul_host", *SMALL, "--measure", "no_reuse=true", name="alice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("config", self.remote(farm, "best", "matmul_host", *DIMS, "--output", "json", name="look").stdout)

    # Certificates.

    def test_each_role_may_do_its_part_and_no_more(self):
        with self.farm().start() as farm:
            self.assertEqual(self.remote(farm, "devices", name="look").returncode, 0)
            self.assert_refused(self.remote(farm, "submit", "matmul_host", *SMALL, name="look"),
                                "the certificate lookup/look may not submit jobs: it needs the role submit")
            line = self.assert_audited(farm, principal="lookup/look", call="TuningService/CreateJob")
            self.assertEqual((line["kind"], line["outcome"], line["reason"]),
                             ("certificate", "PERMISSION_DENIED", "RIGHT_MISSING"))
            self.assertIn("127.0.0.1", line["peer"])
            # A definition is code.
            self.assert_refused(self.remote(farm, "submit", "matmul_host", *SMALL, name="bob"),
                                "the certificate submit/bob may not submit a kernel with a job",
                                "it needs the role kernels")
            self.assert_audited(farm, principal="submit/bob", reason="RIGHT_MISSING")
            self.assertEqual(farm.json("jobs", "list").get("jobs", []), [])
            self.assert_unharmed(farm)
            done = self.assert_audited(farm, principal="submit+kernels/alice", call="CreateJob")
            self.assertEqual((done["outcome"], done["resource"]), ("OK", "jobs/1"))
            self.assertEqual(farm.json("jobs", "show", "1")["submitted_by"], "submit+kernels/alice")
            # What is stored may be tuned by who may submit jobs.
            kernel = farm.json("kernels", "list")["kernels"][0]["name"]
            done = self.remote(farm, "submit", kernel, *SMALL, name="bob")
            self.assertEqual(done.returncode, 0, done.stderr)
            for name, call in (("look", ["jobs", "cancel", "2"]), ("gpu7", ["submit", kernel, *SMALL]),
                               ("alice", ["db", "backup"]), ("bob", ["token", "list"]), ("alice", ["stop"]),
                               ("gpu7", ["misses", "--clear"])):
                with self.subTest(name=name, call=call):
                    self.assert_refused(self.remote(farm, *call, name=name), "may not ", "it needs the role")
            self.assertEqual(self.remote(farm, "db", "backup", "x.db", name="root").returncode, 0)
            self.assert_audited(farm, principal="admin/root", call="CreateBackup", outcome="OK", resource="x.db")
            self.assertFalse([line for line in self.audit(farm) if line["call"].endswith(("GetJob", "ListDevices"))])

    def test_certificates_that_are_none_of_ours(self):
        with self.farm().start() as farm:
            self.assert_refused(self.remote(farm, "devices"), "the call has no identity", "--token-file")
            self.assert_audited(farm, kind="unknown", reason="IDENTITY_MISSING", outcome="UNAUTHENTICATED")
            self.assert_refused(self.remote(farm, "db", "backup", name="mallory", folder=self.other),
                                "the certificate is not signed by this farm's CA")
            self.assert_audited(farm, reason="CERTIFICATE_UNTRUSTED", call="CreateBackup")
            wait_until(lambda: "has expired" in run("certs", "show", self.ca / "short.pem").stdout, "the end of a second")
            self.assert_refused(self.remote(farm, "db", "backup", name="short"), "expired on", "issue a new one")
            self.assert_audited(farm, reason="CERTIFICATE_EXPIRED")
            self.assert_refused(self.remote(farm, "devices", name="control"), "not made for clients")
            self.assert_audited(farm, reason="CERTIFICATE_UNTRUSTED", call="ListDevices")
            self.assertEqual(list((farm.directory / "backups").iterdir()), [])
            self.assert_unharmed(farm)

    def test_what_is_wrong_with_the_connection_is_said(self):
        with self.farm().start() as farm:
            self.assert_refused(self.remote(farm, "devices", name="alice", ca=self.other), "is not signed by the CA in",
                                code=4)
            self.assert_refused(run("--server", self.address(farm), "devices"), "expects TLS", "--tls-ca", code=4)
            line = self.assert_audited(farm, call="handshake", reason="HANDSHAKE_FAILED")
            self.assertIn("plain text", line["message"])
            self.assert_refused(run("--server", self.address(farm), "--tls-ca", self.ca / "nothing.pem", "devices"),
                                "nothing.pem", code=3)
            self.assert_refused(run("--server", self.address(farm), "--tls-certificate", self.ca / "bob.pem", "devices"),
                                "give both", code=2)
            self.assert_unharmed(farm)
        with self.farm(certificate="elsewhere").start() as farm:
            self.assert_refused(self.remote(farm, "devices", name="alice"), "is for farm.example, not for 127.0.0.1", code=4)
        wait_until(lambda: "has expired" in run("certs", "show", self.ca / "over.pem").stdout, "the end of a second")
        with self.farm(certificate="over").start() as farm:
            self.assert_refused(self.remote(farm, "devices", name="alice"), "the certificate of the daemon", "expired on",
                                code=4)
        with Farm("--listen", "127.0.0.1:0").start() as farm:
            self.assert_refused(self.remote(farm, "devices", name="alice"), "does not speak TLS", code=4)
            self.assertEqual(run("--server", self.address(farm), "devices").returncode, 0)

    def test_new_certificates_are_taken_without_a_restart(self):
        live = self.folder / "live"
        live.mkdir()
        for file in ("control.pem", "control.key", "ca.pem"):
            shutil.copy(self.ca / file, live / file)
        with Farm("--listen", "127.0.0.1:0", "--tls-certificate", live / "control.pem", "--tls-key", live / "control.key",
                  "--tls-client-ca", live / "ca.pem").start() as farm:
            self.assertEqual(self.remote(farm, "devices", name="look").returncode, 0)
            pid = farm.info()["pid"]
            for file in ("control.key", "control.pem", "ca.pem"):
                shutil.copy(self.other / file, live / "new")
                os.replace(live / "new", live / file)
            wait_until(lambda: self.remote(farm, "devices", name="mallory", folder=self.other, ca=self.other).returncode == 0,
                       "a connection with the new certificates")
            self.assert_refused(self.remote(farm, "devices", name="look"), "is not signed by the CA in", code=4)
            self.assert_refused(self.remote(farm, "devices", name="look", ca=self.other),
                                "is not signed by this farm's CA")
            self.assertEqual(farm.info()["pid"], pid)

    # Tokens.

    def token(self, farm, name, role, *options):
        return farm.cli("token", "create", name, "--role", role, *options).stdout.strip()

    def test_tokens_end_when_they_are_revoked_or_over(self):
        with self.farm().start() as farm:
            token = self.token(farm, "ci", "submit,kernels")
            self.assertRegex(token, "^tft_[0-9a-f]{64}$")
            done = self.remote(farm, "tune", "matmul_host", *SMALL, token=token)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_audited(farm, principal="ci", kind="token", call="CreateJob", outcome="OK")
            self.assert_refused(self.remote(farm, "db", "backup", token=token), "the token ci may not back up the database: it needs the role admin")
            listed = farm.json("token", "list")["tokens"][0]
            self.assertEqual((listed["name"], listed["roles"]), ("ci", ["submit", "kernels"]))
            # Nowhere on the disk but with its owner.
            for path in farm.directory.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    self.assertNotIn(token.encode(), path.read_bytes(), path)
            # A file instead of a variable.
            file = self.folder / "ci.token"
            file.write_text(token + "\n")
            file.chmod(0o644)
            self.assert_refused(self.remote(farm, "--token-file", file, "devices"), f"run: chmod 600 {file}", code=2)
            file.chmod(0o600)
            self.assertEqual(self.remote(farm, "--token-file", file, "devices").returncode, 0)
            self.assert_refused(farm.cli("token", "create", "ci", "--role", "lookup", check=False), "there is a token named ci")
            farm.cli("token", "revoke", "ci")
            self.assert_refused(self.remote(farm, "devices", token=token), "the token ci was revoked")
            self.assert_audited(farm, reason="TOKEN_REVOKED")
            self.assert_audited(farm, call="AccessService/RevokeToken", principal="admin.sock", kind="socket", resource="ci")
            short = self.token(farm, "short", "lookup", "--expires", "1s")
            wait_until(lambda: "has expired" in self.remote(farm, "devices", token=short).stderr, "the end of a second")
            self.assert_audited(farm, reason="TOKEN_EXPIRED")
            self.assert_refused(self.remote(farm, "devices", token="tft_" + 64 * "0"), "not one of this farm's")
            self.assert_audited(farm, reason="TOKEN_UNKNOWN")
            self.assert_refused(farm.cli("token", "create", "a", "--role", "agent", check=False), "needs a certificate", code=2)
            self.assert_refused(farm.cli("token", "create", "a", "--role", "sumbit", check=False), "did you mean 'submit'", code=2)
            self.assert_refused(farm.cli("token", "create", "a", "--role", "lookup", "--expires", "400d", check=False),
                                "1 s to 366 days", code=2)
            # They outlive the daemon.
            again = self.token(farm, "ci", "lookup")
            farm.stop()
            farm.start()
            self.assertEqual(self.remote(farm, "devices", token=again).returncode, 0)
            self.assert_refused(self.remote(farm, "devices", token=token), "not one of this farm's")
            self.assert_unharmed(farm)

    def test_the_python_client(self):
        sys.path.insert(0, str(BIN.parent / "python"))
        import tunefarm  # pylint: disable=import-outside-toplevel
        with self.farm().start() as farm:
            address, ca = self.address(farm), self.ca / "ca.pem"
            look = {"tls_certificate": self.ca / "look.pem", "tls_key": self.ca / "look.key"}
            with tunefarm.Client(address, tls_ca=ca, **look) as client:
                self.assertTrue(client.devices())
                with self.assertRaises(tunefarm.PermissionDeniedError) as refused:
                    client.submit("matmul_host", dims={"M": 64, "N": 64, "K": 64})
                self.assertEqual(refused.exception.reason, "RIGHT_MISSING")
            token = self.token(farm, "ci", "submit,kernels")
            with tunefarm.Client(address, tls_ca=ca, token=token) as client:
                job = client.submit("matmul_host", dims={"M": 64, "N": 64, "K": 64}, max_trials=2, policy="fast")
                client.wait(job)
            farm.cli("token", "revoke", "ci")
            with mock.patch.dict(os.environ, TUNEFARM_TLS_CA=str(ca), TUNEFARM_TOKEN=token):
                with tunefarm.Client(address) as client, self.assertRaises(tunefarm.PermissionDeniedError) as refused:
                    client.devices()
                self.assertEqual(refused.exception.reason, "TOKEN_REVOKED")
            with self.assertRaisesRegex(tunefarm.UnavailableError, "certificate of the daemon"):
                tunefarm.Client(address, tls_ca=self.other / "ca.pem", timeout=2, **look)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "plain text"):
                tunefarm.Client("192.0.2.1:7070", token=token)
            with tunefarm.Client(f"unix:{farm.directory}/run/client.sock", token=self.token(farm, "me", "lookup")) as client:
                self.assertTrue(client.devices())
                with self.assertRaises(tunefarm.PermissionDeniedError):
                    client.submit("matmul_host", dims={"M": 64})

    # Plain text.

    def test_plain_text_on_a_network_is_refused(self):
        with Farm("--listen", "0.0.0.0:0") as farm:
            done = subprocess.run([BIN / "tunefarmd", "--data-dir", farm.directory, *farm.flags], capture_output=True,
                                  text=True, timeout=HANG_SECONDS)
            self.assertEqual(done.returncode, 2)
            for word in ("is not loopback", "tls_certificate", "--insecure"):
                self.assertIn(word, done.stderr)
        with Farm("--listen", "0.0.0.0:0", "--insecure").start() as farm:
            address = "127.0.0.1:" + self.address(farm).rpartition(":")[2]
            self.assertEqual(run("--server", address, "devices").returncode, 0)
            token = self.token(farm, "ci", "lookup")
            self.assert_refused(run("--server", address, "devices", TUNEFARM_TOKEN=token), "sent as plain text")
            self.assert_audited(farm, reason="TOKEN_IN_PLAINTEXT")
        with tempfile.TemporaryDirectory() as empty:
            done = run("--server", "192.0.2.1:7070", "devices", TUNEFARM_TOKEN="tft_" + 64 * "0", HOME=empty)
            self.assert_refused(done, "a token is not sent to 192.0.2.1:7070 as plain text", code=2)

    def test_certificates_of_the_daemon_that_are_of_no_use(self):
        for flags, words in (
                (["--tls-certificate", self.ca / "control.pem"], ["tls_certificate is set without tls_key"]),
                (["--tls-certificate", self.ca / "control.pem", "--tls-key", self.ca / "bob.key"],
                 ["is not that of the certificate"]),
                (["--tls-certificate", self.ca / "none.pem", "--tls-key", self.ca / "bob.key"], ["none.pem"]),
                (["--tls-certificate", self.ca / "control.pem", "--tls-key", self.ca / "control.key", "--tls-client-ca",
                  self.ca / "bob.key"], ["there is no certificate in"])):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as directory:
                done = subprocess.run([BIN / "tunefarmd", "--data-dir", directory, "--no-gpu", "--listen", "127.0.0.1:0", *flags],
                                      capture_output=True, text=True, timeout=HANG_SECONDS)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_secrets_that_others_may_read_are_refused(self):
        """By the daemon, agents, the command line and the clients, with the command that mends it."""
        sys.path.insert(0, str(BIN.parent / "python"))
        import tunefarm  # pylint: disable=import-outside-toplevel
        key = self.folder / "open.key"
        shutil.copy(self.ca / "look.key", key)
        words = f"run: chmod 600 {key}"
        serving = ["--listen", "127.0.0.1:0", "--tls-certificate", self.ca / "look.pem", "--tls-key", key]
        agent = ["--role", "agent", "--control", "127.0.0.1:1", "--tls-ca", self.ca / "ca.pem", "--tls-certificate",
                 self.ca / "look.pem", "--tls-key", key]
        # These modes are refused for every owner; a key that root owns may be readable for its group.
        for mode in (0o644, 0o604, 0o620, 0o666):
            key.chmod(mode)
            for flags in (serving, agent):
                with self.subTest(mode=oct(mode), flags=flags), tempfile.TemporaryDirectory() as directory:
                    done = subprocess.run([BIN / "tunefarmd", "--data-dir", directory, "--no-gpu", *flags],
                                          capture_output=True, text=True, timeout=HANG_SECONDS)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(words, done.stderr)
            options = ["--tls-ca", self.ca / "ca.pem", "--tls-certificate", self.ca / "look.pem", "--tls-key", key]
            self.assert_refused(run("--server", "127.0.0.1:1", *options, "devices"), words, code=2)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "chmod 600"):
                tunefarm.Client("127.0.0.1:1", tls_ca=self.ca / "ca.pem", tls_certificate=self.ca / "look.pem", tls_key=key,
                                timeout=2)
        folder = self.folder / "open_ca"
        shutil.copytree(self.ca, folder)
        (folder / "ca.key").chmod(0o644)
        self.assert_refused(run("certs", "issue", folder, "--name", "x", "--role", "lookup"),
                            f"run: chmod 600 {folder}/ca.key", code=2)

    def test_what_the_daemon_keeps_is_its_user_s_alone(self):
        with self.farm() as farm:
            farm.directory.chmod(0o755)
            farm.start()
            farm.cli("tune", "matmul_host", "--policy", "fast", "--max-trials", "4", *DIMS)
            farm.cli("db", "backup", "copy.db")
            farm.stop()
            # What an earlier version left open is closed.
            for name in ("tunefarm.db", "audit.log", "tunefarmd.lock"):
                (farm.directory / name).chmod(0o644)
            farm.directory.chmod(0o777)
            farm.start()
            self.assertEqual(farm.directory.stat().st_mode & 0o777, 0o700)
            kept = [path for path in farm.directory.rglob("*") if path.is_file() and "scratch" not in path.parts]
            self.assertLessEqual({"tunefarm.db", "tunefarm.db-wal", "tunefarm.db-shm", "audit.log", "copy.db", "tunefarmd.lock"},
                                 {path.name for path in kept})
            self.assertEqual([(path, oct(path.stat().st_mode)) for path in kept if path.stat().st_mode & 0o077], [])

    # Too much.

    def test_limits_of_each_principal(self):
        with self.farm("--calls-per-second", "1", "--max-jobs-per-principal", "1").start() as farm:
            refused = wait_until(lambda: next((done for done in [self.remote(farm, "jobs", "list", name="bob")]
                                               if done.returncode != 0), None), "a refusal")
            self.assertIn("makes more than 1 calls per second", refused.stderr)
            self.assert_audited(farm, principal="submit/bob", reason="RATE_LIMIT", outcome="RESOURCE_EXHAUSTED")
            # Of others nothing is taken, and the sockets have no limit.
            self.assertEqual(self.remote(farm, "jobs", "list", name="look").returncode, 0)
            for _ in range(5):
                farm.cli("jobs", "list")
            submit = ["submit", "matmul_host", "--policy", "rigorous", "--strategy", "exhaustive"]
            first = wait_until(lambda: next((done for done in [self.remote(farm, *submit, name="alice")]
                                             if done.returncode == 0), None), "a job")
            second = wait_until(lambda: next((done for done in [self.remote(farm, *submit, name="alice")]
                                              if "per second" not in done.stderr), None), "an answer")
            self.assert_refused(second, "has 1 active job, as many as it may")
            self.assert_audited(farm, principal="submit+kernels/alice", reason="JOB_QUOTA")
            farm.cli("jobs", "cancel", "1")
            wait_until(lambda: self.remote(farm, *submit, name="alice").returncode == 0, "room for another job")
            del first

    def raw(self, farm, method, request, name):
        read = lambda file: (self.ca / file).read_bytes()
        channel = grpc.secure_channel(self.address(farm), grpc.ssl_channel_credentials(read("ca.pem"), read(f"{name}.key"),
                                                                                       read(f"{name}.pem")),
                                      options=[("grpc.max_send_message_length", -1)])
        with channel:
            return channel.unary_unary(method)(request, timeout=60)

    def test_an_admin_is_no_agent(self):
        with self.farm().start() as farm:
            token = self.token(farm, "boss", "admin")
            read = (self.ca / "ca.pem").read_bytes()
            method = "/tunefarm.agent.v1.AgentService/Register"
            with grpc.secure_channel(self.address(farm), grpc.ssl_channel_credentials(read)) as channel:
                with self.assertRaises(grpc.RpcError) as refused:
                    channel.unary_unary(method)(b"", metadata=[("authorization", "Bearer " + token)], timeout=60)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
            self.assertIn("it needs the role agent", refused.exception.details())
            with self.assertRaises(grpc.RpcError) as refused:
                self.raw(farm, method, b"", "root")
            self.assertEqual(refused.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
            self.assert_audited(farm, principal="admin/root", reason="RIGHT_MISSING", call="AgentService/Register")
            # An agent gets as far as the check of what it says.
            with self.assertRaises(grpc.RpcError) as refused:
                self.raw(farm, method, b"", "gpu7")
            self.assertIn(refused.exception.code(), (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT))

    def test_what_is_open_without_an_identity(self):
        with self.farm().start() as farm:
            read = (self.ca / "ca.pem").read_bytes()
            with grpc.secure_channel(self.address(farm), grpc.ssl_channel_credentials(read),
                                     [("grpc.max_send_message_length", -1)]) as channel:
                self.assertEqual(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60), b"\x08\x01")
                for method in ("/grpc.health.v1.Health/Watch",
                               "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"):
                    with self.assertRaises(grpc.RpcError) as refused:
                        channel.unary_unary(method)(b"", timeout=60)
                    self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
                # Refused for who calls: nothing of 31 MiB of empty entries is read.
                entries = b"\x4a\x00" * (15 << 20)
                with self.assertRaises(grpc.RpcError) as refused:
                    channel.unary_unary("/tunefarm.v1.KernelService/CreateKernel")(entries, timeout=60)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
            status = pathlib.Path(f"/proc/{farm.process.pid}/status").read_text()
            self.assertLess(int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)), 400 << 10)
            self.assert_unharmed(farm)

    def test_messages_that_are_too_large_and_floods_of_refusals(self):
        with self.farm().start() as farm:
            # An unknown field that is as long as the rest of the message.
            size = 17 << 20
            length = bytes([size & 0x7f | 0x80, size >> 7 & 0x7f | 0x80, size >> 14 & 0x7f | 0x80, size >> 21 & 0x7f])
            message = b"\xc2\x3e" + length + bytes(size)
            with self.assertRaises(grpc.RpcError) as refused:
                self.raw(farm, "/tunefarm.v1.KernelService/CreateKernel", message, "alice")
            self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("at most 16777216 are taken", refused.exception.details())
            self.assert_audited(farm, principal="submit+kernels/alice", reason="MESSAGE_TOO_LARGE")
            with self.assertRaises(grpc.RpcError) as refused:
                self.raw(farm, "/tunefarm.v1.KernelService/CreateKernel", bytes(40 << 20), "alice")
            self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            before = len(self.audit(farm))
            read = (self.ca / "ca.pem").read_bytes()
            with grpc.secure_channel(self.address(farm), grpc.ssl_channel_credentials(read)) as channel:
                call = channel.unary_unary("/tunefarm.v1.DeviceService/ListDevices")
                for _ in range(500):
                    with self.assertRaises(grpc.RpcError) as refused:
                        call(b"", timeout=60)
                    self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
            self.assertLess(len(self.audit(farm)) - before, 300)
            # The next line of the peer says how many there were.
            def counted():
                self.remote(farm, "devices")
                return [line for line in self.audit(farm) if line.get("left_out", 0) > 0]
            wait_until(counted, "a line with the count of those left out")
            self.assert_unharmed(farm)

    def test_a_full_disk_ends_the_audit_log_and_nothing_else(self):
        with self.farm() as farm:
            os.symlink("/dev/full", farm.directory / "audit.log")
            done = subprocess.run([BIN / "tunefarmd", "--data-dir", farm.directory, "--no-gpu"], capture_output=True, text=True,
                                  timeout=HANG_SECONDS)
            # A link is never followed.
            self.assertEqual(done.returncode, 1)
            self.assertIn("opening the audit log", done.stderr)

    # certs itself.

    def test_certs_never_overwrites(self):
        self.assert_refused(run("certs", "init", self.ca), "exists and is not replaced")
        self.assert_refused(run("certs", "issue", self.ca, "--name", "bob", "--role", "admin"), "exists and is not replaced")
        self.assert_refused(run("certs", "issue", self.folder, "--name", "x", "--role", "admin"), "certs init", code=3)
        self.assert_refused(run("certs", "issue", self.ca, "--name", "../x", "--role", "admin"), "must be 1 to 64", code=2)
        self.assert_refused(run("certs", "issue", self.ca, "--name", "x"), "needs --role", code=2)
        self.assert_refused(run("certs", "issue", self.ca, "--name", "x", "--host", "a:1"), "without a port", code=2)
        self.assertEqual((self.ca / "ca.key").stat().st_mode & 0o777, 0o600)
        self.assertEqual((self.ca / "bob.key").stat().st_mode & 0o777, 0o600)
        shown = json.loads(run("--output", "json", "certs", "show", self.ca / "alice.pem").stdout)[0]
        self.assertEqual(shown["identities"], ["tunefarm://submit+kernels/alice"])
        self.assertEqual(json.loads(run("--output", "json", "certs", "show", self.ca / "control.pem").stdout)[0]["hosts"],
                         ["127.0.0.1", "localhost"])


if __name__ == "__main__":
    unittest.main()
