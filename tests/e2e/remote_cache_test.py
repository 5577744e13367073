"""The remote caches of Triton and Helion on real daemons: over restarts, between processes and identities, within their
limits, and while the daemon is gone. Each program that uses one is a process of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from farm import BIN, HANG_SECONDS, Farm

# Does what its arguments say, and prints what came of it: put KEY FILE TEXT, get KEY FILE..., fill COUNT BYTES (which of them
# are there in the end), helion-put KEY TEXT, helion-get KEY, helion-list COUNT.
PROGRAM = """
import json, sys, warnings
import tunefarm.helion, tunefarm.triton
warnings.simplefilter("always")
what, *rest = sys.argv[1:]
if what == "put":
    tunefarm.triton.RemoteCache(rest[0]).put(rest[1], rest[2].encode())
elif what == "get":
    print(json.dumps({name: data.decode() for name, data in tunefarm.triton.RemoteCache(rest[0]).get(rest[1:]).items()}))
elif what == "fill":
    for number in range(int(rest[0])):
        tunefarm.triton.RemoteCache(str(number)).put("file", bytes(int(rest[1])))
    print(json.dumps([n for n in range(int(rest[0])) if tunefarm.triton.RemoteCache(str(n)).get(["file"])]))
elif what == "helion-put":
    tunefarm.helion.RemoteCache().put(*rest)
elif what == "helion-get":
    print(json.dumps(tunefarm.helion.RemoteCache().get(rest[0])))
else:
    print(json.dumps(list(tunefarm.helion.RemoteCache().list(int(rest[0])))))
"""
MIB = 1 << 20


class Program:
    """One user's programs."""

    def __init__(self, **settings):
        self.settings = settings

    def run(self, *arguments, warnings=0):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
        done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                              timeout=HANG_SECONDS, env={**environment, **self.settings})
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("UserWarning") == warnings, done.stderr
        self.said = done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def put(self, key, text, **options):
        self.run("put", key, "file", text, **options)

    def got(self, key, **options):
        return self.run("get", key, "file", **options).get("file")


def admin(farm):
    return Program(TUNEFARM_DATA_DIR=str(farm.directory))


def client(farm):
    address = next(a for a in farm.info()["addresses"] if a.endswith("client.sock"))
    return Program(TUNEFARM_SERVER=address)


class RemoteCache(unittest.TestCase):
    def test_entries_outlive_the_daemon_and_its_absence_is_a_miss(self):
        with Farm() as farm:
            farm.start()
            user = admin(farm)
            user.run("put", "K", "add.cubin", "binary")
            user.run("put", "K", "add.json", "{}")
            user.run("helion-put", "hash1", '{"config": 1}')
            user.run("helion-put", "hash2", '{"config": 2}')
            farm.kill()
            self.assertEqual(user.run("get", "K", "add.cubin", warnings=1), {})
            self.assertIn("the remote cache is not used for 60 s", user.said)
            user.run("put", "K", "add.cubin", "other", warnings=1)
            farm.start()
            self.assertEqual(user.run("get", "K", "add.cubin", "add.json"), {"add.cubin": "binary", "add.json": "{}"})
            self.assertEqual(user.run("get", "K", "add.cubin", "gone"), {})
            self.assertEqual(user.run("helion-list", 10), ['{"config": 2}', '{"config": 1}'])
            self.assertEqual(user.run("helion-get", "hash1"), '{"config": 1}')

    def test_files_that_were_damaged_are_misses(self):
        with Farm() as farm:
            farm.start()
            user = admin(farm)
            user.put("K", "binary")
            (file,) = (farm.directory / "remote_cache").iterdir()
            content = bytearray(file.read_bytes())
            content[-1] ^= 1
            file.write_bytes(content)
            self.assertIsNone(user.got("K"))
            self.assertFalse(file.exists())
            user.put("K", "binary")
            self.assertEqual(user.got("K"), "binary")

    def test_the_space_is_bounded(self):
        with Farm("--max-remote-cache-bytes", 4 * MIB) as farm:
            farm.start()
            kept = admin(farm).run("fill", 10, MIB - 4096)
            self.assertEqual(kept, [6, 7, 8, 9])
            size = sum(file.stat().st_size for file in (farm.directory / "remote_cache").iterdir())
            self.assertLessEqual(size, 4 * MIB)

    def test_a_daemon_may_keep_none(self):
        with Farm("--max-remote-cache-bytes", 0) as farm:
            farm.start()
            user = admin(farm)
            user.put("K", "binary", warnings=1)
            self.assertIn("CACHE_DISABLED", user.said)
            self.assertIsNone(user.got("K"))
            self.assertFalse((farm.directory / "remote_cache").exists())

    def test_the_administrator_gets_no_entries_of_the_client_socket(self):
        with Farm() as farm:
            farm.start()
            client(farm).put("K", "of somebody")
            self.assertIsNone(admin(farm).got("K"))
            self.assertEqual(client(farm).got("K"), "of somebody")
            admin(farm).put("L", "of the administrator")
            self.assertEqual(client(farm).got("L"), "of the administrator")


class Roles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tunefarm-certs."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.ca = cls.folder / "ca"
        cls.certs("init", cls.ca)
        cls.certs("issue", cls.ca, "--name", "control", "--host", "127.0.0.1")
        for name, roles in (("alice", "submit,kernels"), ("bob", "kernels"), ("look", "lookup"), ("sue", "submit"),
                            ("gpu7", "agent"), ("root", "admin")):
            cls.certs("issue", cls.ca, "--name", name, "--role", roles)

    @staticmethod
    def certs(*arguments):
        subprocess.run([BIN / "tunefarm", "certs", *map(str, arguments)], check=True, capture_output=True, timeout=HANG_SECONDS)

    def user(self, name):
        return Program(TUNEFARM_SERVER=self.address, TUNEFARM_TLS_CA=str(self.ca / "ca.pem"),
                       TUNEFARM_CLIENT_CERTIFICATE=str(self.ca / f"{name}.pem"), TUNEFARM_CLIENT_KEY=str(self.ca / f"{name}.key"))

    def test_who_puts_what_for_whom(self):
        with Farm("--listen", "127.0.0.1:0", "--tls-certificate", self.ca / "control.pem", "--tls-key",
                  self.ca / "control.key", "--tls-client-ca", self.ca / "ca.pem") as farm:
            farm.start()
            self.address = next(a for a in farm.info()["addresses"] if not a.startswith("unix:"))
            for name in ("look", "sue", "gpu7"):
                user = self.user(name)
                user.put("K", name, warnings=1)
                self.assertIn("RIGHT_MISSING", user.said)
            self.user("alice").put("K", "alice's")
            self.assertEqual(self.user("alice").got("K"), "alice's")
            for name in ("bob", "look", "sue", "gpu7", "root"):
                self.assertIsNone(self.user(name).got("K"), name)
            self.user("root").put("K", "for all")
            self.assertEqual(self.user("alice").got("K"), "alice's")
            for name in ("bob", "look", "sue", "gpu7", "root"):
                self.assertEqual(self.user(name).got("K"), "for all", name)


if __name__ == "__main__":
    unittest.main()
