"""The HTTP API and its sessions, against the real daemon: what is refused and why, a job from its submission to its best
config, and peers that are slow, silent or foreign."""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from farm import BIN, HANG_SECONDS, Farm, wait_until

ROOT = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
TUNING, ACCESS = "TuningService", "AccessService"
SMALL = ["--policy", "fast", "--max-trials", "4", "--dim", "M=64", "--dim", "N=64", "--dim", "K=64"]
BODY_BYTES_MAX = 64 << 10
# To sample its space takes the daemon some 15 seconds of a processor.
SLOW_SPACE = {
    "displayName": "slow",
    "language": "LANGUAGE_HOST_CXX",
    "sources": [{"path": "slow.cc", "content": base64.b64encode(b'extern "C" void slow(float* y) { *y = 1; }').decode()}],
    "arguments": [{"name": "y", "buffer": {"dataType": "DATA_TYPE_F32", "length": "1", "access": "ACCESS_OUT"}}],
    "launches": [{"kernel": {"entry": "slow", "arguments": ["y"]}}],
    "reference": {"steps": [{"kernel": {"entry": "slow", "arguments": ["y"]}}]},
    "parameters": [{"name": name, "values": {"strings": [f"s{i}" for i in range(40)]}} for name in "abcdefgh"],
    "constraints": [{"expression": "not (a == b and c == d) and (a != e or f != g) and (b != h or c == g) and ((a == f) != (h == e))"}],
}


class Api:
    """One request a connection, as the server answers."""

    def __init__(self, address, secret=None, context=None):
        self.host = address.split("://")[1]
        self.context, self.secret = context, secret

    def connection(self):
        if self.context:
            return http.client.HTTPSConnection(self.host, timeout=HANG_SECONDS, context=self.context)
        return http.client.HTTPConnection(self.host, timeout=HANG_SECONDS)

    def request(self, method, path, body=None, headers=None):
        """(status, body, headers)."""
        connection = self.connection()
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def ask(self, service, method, message=None, headers=None, secret=None, verb="POST", body=None):
        """(status, answer)."""
        sent = {"Content-Type": "application/json"}
        secret = secret or self.secret
        if secret:
            sent["Authorization"] = f"Bearer {secret}"
        sent.update(headers or {})
        sent = {name: value for name, value in sent.items() if value is not None}
        body = json.dumps(message or {}) if body is None else body
        status, answer, _ = self.request(verb, f"/api/tunefarm.v1.{service}/{method}", body, sent)
        return status, json.loads(answer or "{}")

    def get(self, service, method, message=None, **options):
        status, answer = self.ask(service, method, message, **options)
        if status != 200:
            raise AssertionError(f"{method}: {status} {answer}")
        return answer

    def refusal(self, *arguments, **options):
        """(status, reason)."""
        status, answer = self.ask(*arguments, **options)
        return status, answer["details"][0]["reason"] if "details" in answer else answer


def dashboard(farm, *flags):
    """The address and the code that `tunefarm dashboard` prints; none where the program has no page."""
    done = farm.cli("dashboard", *flags, check=False)
    if "built without the dashboard's page" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#login=([0-9a-f]{64})\n", done.stdout).groups(), done.stderr


class WebApi(unittest.TestCase):
    def started(self, *flags):
        farm = Farm("--dashboard-listen", "127.0.0.1:0", *flags)
        self.enterContext(farm)
        farm.start()
        return farm

    def enterContext(self, context):  # unittest has it from Python 3.11 on
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    @staticmethod
    def token(farm, name, roles):
        return farm.cli("token", "create", name, "--role", roles).stdout.strip()

    @staticmethod
    def audit(farm):
        path = farm.directory / "audit.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_a_job_from_its_submission_to_its_best_config(self):
        farm = self.started()
        farm.cli("tune", "matmul_host", *SMALL)
        api = Api(farm.info()["dashboard_address"], self.token(farm, "ci", "submit"))
        job = {"kernel": "matmul_host", "problems": [{"dims": {"M": {"intValue": "96"}}}], "budget": {"maxTrials": "3"},
               "policy": {"warmCache": True}}
        wanted = {"requestId": "one", "job": job}
        made = api.get(TUNING, "CreateJob", wanted)["job"]
        self.assertEqual(made["submittedBy"], "ci")
        self.assertEqual(made["budget"]["maxTrials"], "3")
        self.assertEqual(api.get(TUNING, "CreateJob", wanted)["job"]["name"], made["name"])
        name = {"name": made["name"]}
        ended = wait_until(lambda: (now := api.get(TUNING, "GetJob", name)["job"])["state"] == "JOB_STATE_SUCCEEDED" and now,
                           "the job's end")
        self.assertRegex(ended["endedAtMs"], r"^\d{13}$")
        trials = api.get(TUNING, "ListTrials", {"parent": made["name"]})["trials"]
        self.assertGreaterEqual(len(trials), 1)
        found = api.get("LookupService", "LookupConfig", {"kernel": "matmul_host", "problem": job["problems"][0]})
        self.assertNotEqual(found["match"], "MATCH_NOT_FOUND")
        self.assertIn(found["best"]["config"]["values"]["TILE_K"]["intValue"], ("64", "256"))
        # Definitions are code: a token needs the role for it.
        self.assertEqual(api.refusal(TUNING, "CreateJob", {"job": {}, "kernelDefinition": {"displayName": "x"}}),
                         (403, "RIGHT_MISSING"))
        changes = wait_until(lambda: [line for line in self.audit(farm) if line["call"].endswith("TuningService/CreateJob")
                                      and line["principal"] == "ci"], "the audit line")
        self.assertIn("127.0.0.1", changes[0]["peer"])

    def test_the_commands_of_the_manual(self):
        farm = self.started()
        farm.cli("tune", "matmul_host", *SMALL)  # stores the kernel
        page = (ROOT / "server/web/README.md").read_text(encoding="utf-8")
        scripts = re.findall(r"```sh\n(.*?)```", page, re.S)
        self.assertEqual(len(scripts), 1)
        folder = tempfile.mkdtemp(prefix="tunefarm-web.")
        self.addCleanup(shutil.rmtree, folder)
        environment = dict(os.environ, URL=farm.info()["dashboard_address"], TOKEN=self.token(farm, "script", "submit"))
        done = subprocess.run(["bash", "-eu", "-c", scripts[0]], cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('"match":"MATCH_EXACT"', done.stdout)

    def test_the_manual_polls_until_the_job_has_ended(self):
        farm = self.started()
        farm.cli("submit", "matmul_host", "--max-trials", "100000", "--dim", "M=64", "--dim", "N=64", "--dim", "K=64")
        api = Api(farm.info()["dashboard_address"], self.token(farm, "script", "submit"))
        page = (ROOT / "server/web/README.md").read_text(encoding="utf-8")
        pattern, = re.findall(r"\| (grep .*); do sleep 1; done\n", page)

        def job(condition, what):
            return wait_until(lambda: (now := api.get(TUNING, "GetJob", {"name": "jobs/1"})["job"])
                              and condition(now) and now, what)

        def has_ended(answer):
            return subprocess.run(["bash", "-c", pattern], input=json.dumps(answer), text=True).returncode == 0

        # From its first measured trial on, an answer holds the time at which that trial ended.
        self.assertFalse(has_ended(job(lambda now: "endedAtMs" in now["studies"][0].get("incumbent", {}), "a measured trial")))
        api.get(TUNING, "CancelJob", {"name": "jobs/1"})
        self.assertTrue(has_ended(job(lambda now: now["state"] == "JOB_STATE_CANCELLED", "the job's end")))

    def test_every_refusal_has_its_reason(self):
        farm = self.started()
        token = self.token(farm, "ci", "lookup")
        api = Api(farm.info()["dashboard_address"], token)
        port = api.host.rsplit(":", 1)[1]
        own = f"http://{api.host}"
        self.assertEqual(api.ask(TUNING, "ListJobs", headers={"Origin": own, "Sec-Fetch-Site": "same-origin"})[0], 200)
        self.assertEqual(api.ask(TUNING, "ListJobs", headers={"Host": f"localhost:{port}"})[0], 200)
        for expected, options in (
                ((403, "HOST_REFUSED"), {"headers": {"Host": f"evil.example:{port}"}}),
                ((405, "METHOD_REFUSED"), {"verb": "GET", "body": ""}),
                ((405, "METHOD_REFUSED"), {"verb": "OPTIONS", "body": ""}),
                ((415, "CONTENT_TYPE_REFUSED"), {"headers": {"Content-Type": "text/plain"}}),
                ((415, "CONTENT_TYPE_REFUSED"), {"headers": {"Content-Type": None}}),
                ((403, "ORIGIN_REFUSED"), {"headers": {"Origin": "http://evil.example"}}),
                ((403, "ORIGIN_REFUSED"), {"headers": {"Origin": "http://127.0.0.1:1"}}),
                ((403, "ORIGIN_REFUSED"), {"headers": {"Origin": "null"}}),
                ((403, "SITE_REFUSED"), {"headers": {"Sec-Fetch-Site": "cross-site"}}),
                ((403, "SITE_REFUSED"), {"headers": {"Sec-Fetch-Site": "same-site"}}),
                ((413, "BODY_TOO_LARGE"), {"body": " " * (BODY_BYTES_MAX + 1)}),
                ((400, "MESSAGE_INVALID"), {"body": "{"}),
                ((400, "MESSAGE_INVALID"), {"body": '{"pageSise": 1}'}),
                ((400, "MESSAGE_INVALID"), {"body": '{"pageSize": "x"}'}),
                ((401, "TOKEN_INVALID"), {"headers": {"Authorization": "Basic eDp4"}}),
                ((401, "IDENTITY_MISSING"), {"headers": {"Authorization": None}}),
                ((401, "TOKEN_UNKNOWN"), {"secret": "tft_" + "0" * 64}),
                ((401, "SESSION_INVALID"), {"secret": "tfs_" + "0" * 64})):
            self.assertEqual(api.refusal(TUNING, "ListJobs", **options), expected, options)
        self.assertEqual(api.refusal(TUNING, "CancelJob", {"name": "jobs/1"}), (403, "RIGHT_MISSING"))
        self.assertEqual(api.refusal("ServerService", "Shutdown"), (403, "ADMIN_ONLY"))
        self.assertEqual(api.refusal(TUNING, "Nothing"), (403, "CALL_UNKNOWN"))
        self.assertEqual(api.refusal(TUNING, "WatchJob", {"name": "jobs/1"}), (501, "NOT_SERVED_OVER_HTTP"))
        status, body, headers = api.request("GET", "/", headers={"Host": "evil.example"})
        self.assertEqual(status, 403)
        _, body, headers = api.request("GET", "/nothing")
        self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
        self.assertIsNone(headers["Access-Control-Allow-Origin"])
        self.assertIsNone(headers["Set-Cookie"])
        refused = wait_until(lambda: [line for line in self.audit(farm) if line.get("reason") == "ADMIN_ONLY"], "the audit line")
        self.assertEqual((refused[0]["principal"], refused[0]["kind"]), ("ci", "token"))
        farm.cli("token", "revoke", "ci")
        self.assertEqual(api.refusal(TUNING, "ListJobs"), (401, "TOKEN_REVOKED"))

    def test_sessions(self):
        farm = self.started()
        address = farm.info()["dashboard_address"]
        token = self.token(farm, "ci", "submit")
        api = Api(address)
        bought = api.get(ACCESS, "CreateSession", secret=token)
        secret = bought["secret"]
        self.assertEqual((bought["caller"]["name"], bought["caller"]["kind"], bought["caller"]["roles"]),
                         ("ci", "session", ["lookup", "submit"]))
        self.assertEqual(api.get(ACCESS, "GetCaller", secret=secret)["caller"], bought["caller"])
        self.assertEqual(api.refusal(ACCESS, "CreateSession", secret=secret), (403, "SESSION_CANNOT_GRANT"))
        self.assertEqual(api.refusal("KernelService", "CreateKernel", secret=secret), (403, "RIGHT_MISSING"))
        self.assertEqual(api.get(ACCESS, "EndSession", secret=secret), {})
        self.assertEqual(api.refusal(ACCESS, "GetCaller", secret=secret), (401, "SESSION_INVALID"))
        again = api.get(ACCESS, "CreateSession", secret=token)["secret"]
        farm.cli("token", "revoke", "ci")
        self.assertEqual(api.refusal(ACCESS, "GetCaller", secret=again), (401, "TOKEN_REVOKED"))
        farm.stop()
        farm.start()
        api = Api(farm.info()["dashboard_address"])
        self.assertEqual(api.refusal(ACCESS, "GetCaller", secret=again), (401, "SESSION_INVALID"))

    def test_the_command_logs_a_browser_in(self):
        farm = self.enterContext(Farm())
        farm.start()
        self.assertNotIn("dashboard", farm.cli("status").stdout)
        opened = dashboard(farm)
        if opened is None:
            self.skipTest("the program has no page")
        (address, code), notes = opened
        port = address.rsplit(":", 1)[1]
        self.assertRegex(notes, rf"ssh -L {port}:127\.0\.0\.1:{port} \S+")
        self.assertIn(f"dashboard  {address}\n", farm.cli("status").stdout)
        api = Api(address)
        session = api.get(ACCESS, "CreateSession", {"code": code})
        self.assertEqual(session["caller"]["roles"], ["lookup", "submit"])
        self.assertEqual(api.refusal(ACCESS, "CreateSession", {"code": code}), (401, "LOGIN_CODE_INVALID"))
        (same, code), _ = dashboard(farm, "--role", "admin")
        self.assertEqual(same, address)
        admin = api.get(ACCESS, "CreateSession", {"code": code})
        self.assertEqual(admin["caller"]["roles"], ["lookup", "submit", "admin"])
        self.assertEqual(api.refusal(ACCESS, "CreateToken", {"name": "x", "roles": ["kernels"]}, secret=admin["secret"]),
                         (403, "SESSION_CANNOT_GRANT"))
        refused = farm.cli("dashboard", "--role", "kernels", check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("cannot have the roles kernels and agent", refused.stderr)
        status, page, headers = api.request("GET", "/", headers={"Accept-Encoding": "gzip"})
        self.assertEqual((status, headers["Content-Encoding"], page[:2]), (200, "gzip", b"\x1f\x8b"))
        self.assertEqual(api.request("GET", "/", headers={"If-None-Match": headers["ETag"]})[0], 304)

    def test_slow_and_silent_peers_hold_up_nobody(self):
        farm = self.started()
        address = farm.info()["dashboard_address"]
        api = Api(address, self.token(farm, "ci", "lookup"))
        host, port = api.host.rsplit(":", 1)
        peers = []
        for number in range(300):
            peer = socket.create_connection((host, int(port)), timeout=HANG_SECONDS)
            self.addCleanup(peer.close)
            peers.append(peer)
            if number % 3:
                peer.sendall(b"POST /api/tunefarm.v1.TuningService/ListJobs HTTP/1.1\r\nHost: 127"[:10 + number % 40])
            if number % 30 == 0:
                self.assertEqual(api.ask(TUNING, "ListJobs")[0], 200)
        for number in range(20):
            self.assertEqual(api.ask(TUNING, "ListJobs")[0], 200, number)
        # All of them are closed in the end, without having been answered.
        for peer in peers:
            try:
                self.assertNotIn(b"200 OK", peer.recv(4096))
            except ConnectionResetError:
                pass

    def test_an_idle_daemon_grows_by_8_mib_at_most(self):
        farm = self.enterContext(Farm())
        farm.start()

        def resident():
            return int(farm.info()["resident_bytes"])

        token = self.token(farm, "ci", "lookup")
        before = max(resident() for _ in range(5))
        opened = dashboard(farm)
        if opened is None:
            self.skipTest("the program has no page")
        api = Api(opened[0][0], token)
        for _ in range(20):
            api.get(TUNING, "ListJobs")
            api.request("GET", "/app.js", headers={"Accept-Encoding": "gzip"})
        self.assertLess(resident() - before, 8 << 20)

    def test_a_client_that_goes_cancels_its_call(self):
        farm = self.started("--http-listen", "127.0.0.1:0")
        pages = Api(farm.info()["http_address"])
        api = Api(farm.info()["dashboard_address"], self.token(farm, "ci", "submit,kernels"))

        def open_calls():
            return int(re.search(r"^tunefarm_open_calls (\d+)$", pages.request("GET", "/metrics")[1].decode(), re.M).group(1))

        def is_counting():
            # On the thread of spaces that take more than 3 s.
            tasks = pathlib.Path(f"/proc/{farm.process.pid}/task").iterdir()
            states = [(task / "stat").read_text().split("(", 1)[1].rsplit(")", 1) for task in tasks]
            return any(name.startswith("web-large") and fields.split()[0] == "R" for name, fields in states)

        body = json.dumps({"job": {"problems": [{}]}, "kernelDefinition": SLOW_SPACE})
        head = (f"POST /api/tunefarm.v1.TuningService/CreateJob HTTP/1.1\r\nHost: {api.host}\r\n"
                f"Authorization: Bearer {api.secret}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n")
        host, port = api.host.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=HANG_SECONDS) as peer:
            peer.sendall((head + body).encode())
            wait_until(is_counting, "a call that counts")
        wait_until(lambda: open_calls() == 0, "the call's end")
        # A call that nobody cancels ends with a job, or with a refusal in the audit log.
        self.assertNotIn("jobs", api.get(TUNING, "ListJobs"))
        self.assertEqual(api.refusal(TUNING, "ListJobs", secret="tft_x"), (401, "TOKEN_INVALID"))
        lines = wait_until(lambda: (now := self.audit(farm)) and now[-1]["reason"] == "TOKEN_INVALID" and now, "the audit line")
        self.assertEqual([line for line in lines if line["call"].endswith("CreateJob")], [])

    def test_tls_on_another_address(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-web."))
        self.addCleanup(shutil.rmtree, folder)
        ca = folder / "ca"

        def certs(*arguments):
            subprocess.run([BIN / "tunefarm", "certs", *map(str, arguments)], check=True, capture_output=True, timeout=HANG_SECONDS)

        certs("init", ca)
        certs("issue", ca, "--name", "control", "--host", "127.0.0.1,localhost")
        certs("issue", ca, "--name", "next", "--host", "127.0.0.1,localhost")
        certs("issue", ca, "--name", "alice", "--role", "submit,kernels")
        farm = self.enterContext(Farm("--dashboard-listen", "0.0.0.0:0", "--tls-certificate", ca / "control.pem", "--tls-key",
                                      ca / "control.key", "--tls-client-ca", ca / "ca.pem"))
        farm.start()
        address = farm.info()["dashboard_address"]
        self.assertRegex(address, r"^https://0\.0\.0\.0:\d+$")
        address = address.replace("0.0.0.0", "127.0.0.1")
        trusting = ssl.create_default_context(cafile=ca / "ca.pem")
        api = Api(address, self.token(farm, "ci", "lookup"), trusting)
        self.assertEqual(api.ask(TUNING, "ListJobs", headers={"Origin": address})[0], 200)
        self.assertEqual(api.refusal(TUNING, "ListJobs", headers={"Origin": address.replace("https", "http")}),
                         (403, "ORIGIN_REFUSED"))
        self.assertEqual(api.refusal(TUNING, "ListJobs", headers={"Host": "evil.example"}), (403, "HOST_REFUSED"))
        self.assertEqual(Api(address, context=trusting).refusal(TUNING, "ListJobs"), (401, "IDENTITY_MISSING"))
        # A client certificate is an identity, and buys a session that has not all of its rights.
        shown = ssl.create_default_context(cafile=ca / "ca.pem")
        shown.load_cert_chain(ca / "alice.pem", ca / "alice.key")
        alice = Api(address, context=shown)
        self.assertEqual(alice.get(ACCESS, "GetCaller")["caller"]["roles"], ["lookup", "submit", "kernels"])
        session = alice.get(ACCESS, "CreateSession")
        self.assertEqual(session["caller"]["roles"], ["lookup", "submit"])
        self.assertEqual(api.get(ACCESS, "GetCaller", secret=session["secret"])["caller"]["name"], "submit+kernels/alice")
        # A certificate of another authority is no identity, and does not keep a browser from logging in by a code.
        certs("init", folder / "other")
        certs("issue", folder / "other", "--name", "mallory", "--role", "admin")
        foreign = ssl.create_default_context(cafile=ca / "ca.pem")
        foreign.load_cert_chain(folder / "other" / "mallory.pem", folder / "other" / "mallory.key")
        browser = Api(address, context=foreign)
        self.assertEqual(browser.refusal(TUNING, "ListJobs"), (401, "CERTIFICATE_UNTRUSTED"))
        self.assertEqual(browser.refusal(ACCESS, "CreateSession"), (401, "CERTIFICATE_UNTRUSTED"))
        self.assertEqual(browser.refusal(ACCESS, "CreateSession", {"code": "x"}), (401, "LOGIN_CODE_INVALID"))
        code = {"code": alice.get(ACCESS, "CreateLoginCode")["code"]}
        session = browser.get(ACCESS, "CreateSession", code)
        self.assertEqual(session["caller"]["roles"], ["lookup", "submit"])
        self.assertEqual(browser.ask(TUNING, "ListJobs", secret=session["secret"])[0], 200)
        self.assertEqual(browser.refusal(ACCESS, "CreateSession", code), (401, "LOGIN_CODE_INVALID"))
        # Old versions are refused.
        old = ssl.create_default_context(cafile=ca / "ca.pem")
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(OSError):
            Api(address, context=old).ask(TUNING, "ListJobs")
        # Plain text to the port is no call.
        with self.assertRaises((http.client.HTTPException, OSError)):
            Api(address).ask(TUNING, "ListJobs")
        wait_until(lambda: [line for line in self.audit(farm) if line.get("reason") == "HANDSHAKE_FAILED"], "the failed handshake")

        # A certificate that is replaced is shown to new connections.
        def serial():
            host, port = api.host.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=HANG_SECONDS) as plain:
                with trusting.wrap_socket(plain, server_hostname=host) as peer:
                    return peer.getpeercert()["serialNumber"]

        first = serial()
        for kind in ("pem", "key"):
            os.replace(ca / f"next.{kind}", ca / f"control.{kind}")
        wait_until(lambda: serial() != first, "the new certificate")
        self.assertEqual(api.ask(TUNING, "ListJobs")[0], 200)


if __name__ == "__main__":
    unittest.main()
