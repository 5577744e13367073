"""How the client finds its daemon, and what it says where there is none. Needs no daemon."""

import io
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import tunefarm
from tunefarm import _calls, _connection, _definitions, _progress, _requests
from tunefarm.v1 import job_pb2


class Places(unittest.TestCase):
    """The rules of server/base/socket_paths.h and xdg.h."""

    def test_data_directory(self):
        for environment, expected in (
                ({"XDG_DATA_HOME": "/data/", "HOME": "/home/u"}, "/data/tunefarm"),
                ({"XDG_DATA_HOME": "relative", "HOME": "/home/u/"}, "/home/u/.local/share/tunefarm"),
                ({"TUNEFARM_DATA_DIR": "/a/../b/", "HOME": "/home/u"}, "/b"),
        ):
            self.assertEqual(_connection.chosen_data_directory(None, environment), expected)
        self.assertEqual(_connection.chosen_data_directory("/c/./d", {"TUNEFARM_DATA_DIR": "/b"}), "/c/d")
        with self.assertRaises(tunefarm.FailedPreconditionError):
            _connection.chosen_data_directory(None, {"HOME": "relative"})

    def test_socket(self):
        home = {"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1"}
        self.assertEqual(_connection.admin_socket("/home/u/.local/share/tunefarm", home), "/run/user/1/tunefarm/admin.sock")
        with mock.patch.object(os, "readlink", side_effect=FileNotFoundError):  # of who runs this test
            self.assertEqual(_connection.admin_socket("/home/u/.local/share/tunefarm", {"HOME": "/home/u"}),
                             f"/tmp/tunefarm-{os.geteuid()}/admin.sock")
        self.assertEqual(_connection.admin_socket("/else", home), "/else/run/admin.sock")
        with self.assertRaisesRegex(tunefarm.FailedPreconditionError, "shorter data directory"):
            _connection.admin_socket("/" + "x" * 100, home)


    def test_sockets_of_two_data_directories_lie_apart(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)

            def socket_of(home):
                environment = {"XDG_DATA_HOME": f"{folder}/{home}", "XDG_RUNTIME_DIR": f"{folder}/runtime"}
                return _connection.admin_socket(f"{folder}/{home}/tunefarm", environment)

            shared = f"{folder}/runtime/tunefarm/admin.sock"
            self.assertEqual(socket_of("b"), shared)  # nobody has it yet
            for made in ("runtime/tunefarm", "a/tunefarm"):
                (folder / made).mkdir(parents=True)
            (folder / "runtime" / "tunefarm" / "data").symlink_to(folder / "a" / "tunefarm")  # as the daemon of a does
            (folder / "c").symlink_to(folder / "a")
            own = f"{folder}/b/tunefarm/run/admin.sock"
            self.assertEqual([socket_of(home) for home in "abc"], [shared, own, shared])
            with mock.patch.object(os.path, "samefile", side_effect=PermissionError):  # a is another user's
                self.assertEqual(socket_of("b"), own)
            shutil.rmtree(folder / "a")
            self.assertEqual([socket_of(home) for home in "ab"], [shared, own])

    def test_the_socket_is_that_of_the_daemon_that_was_started(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for made in ("runtime/tunefarm", "a/tunefarm", "b/tunefarm/run"):
                (folder / made).mkdir(parents=True)
            own = folder / "b" / "tunefarm" / "run" / "admin.sock"
            listener = socket.socket(socket.AF_UNIX)
            self.addCleanup(listener.close)

            def start(_):  # meanwhile the daemon of a takes the runtime directory
                (folder / "runtime" / "tunefarm" / "data").symlink_to(folder / "a" / "tunefarm")
                listener.bind(str(own))
                listener.listen()

            environment = {"XDG_DATA_HOME": f"{folder}/b", "XDG_RUNTIME_DIR": f"{folder}/runtime"}
            with mock.patch.dict(os.environ, environment, clear=True), mock.patch.object(_connection, "_start", start):
                self.assertEqual(_connection.find_server(None, None, True), f"unix:{own}")


class Secrets(unittest.TestCase):
    def test_files_that_others_may_read_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            names = {name: f"{folder}/{name}" for name in ("ca.pem", "a.pem", "a.key", "token")}
            for path in names.values():
                pathlib.Path(path).write_text("tft_1\n")
            tls = {"tls_ca": names["ca.pem"], "tls_certificate": names["a.pem"], "tls_key": names["a.key"]}
            for secret, options in (("a.key", tls), ("token", {"token_file": names["token"]})):
                for mode in (0o644, 0o604, 0o620):
                    os.chmod(names[secret], mode)
                    with self.subTest(secret=secret, mode=oct(mode)), self.assertRaisesRegex(
                            tunefarm.InvalidArgumentError, f"run: chmod 600 {names[secret]}"):
                        tunefarm.Client("127.0.0.1:1", timeout=1, **options)
            os.chmod(names["token"], 0o600)
            with self.assertRaisesRegex(tunefarm.UnavailableError, "no daemon answers"):
                tunefarm.Client("127.0.0.1:1", timeout=1, token_file=names["token"])


class NoDaemon(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_none_is_started_unless_it_may(self):
        with self.assertRaisesRegex(tunefarm.UnavailableError, "no daemon is running for " + self.folder):
            tunefarm.Client(data_directory=self.folder, start=False)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_socket_that_nobody_listens_on(self):
        for server in (f"unix:{self.folder}/x.sock", "127.0.0.1:1"):
            with self.subTest(server), self.assertRaisesRegex(tunefarm.UnavailableError, "no daemon answers at " + server):
                tunefarm.Client(server, timeout=1)

    def test_a_socket_whose_owner_does_not_speak(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.folder + "/x.sock")
            listener.listen()
            with mock.patch.dict(os.environ, TUNEFARM_SERVER=f"unix:{self.folder}/x.sock"):
                with self.assertRaisesRegex(ConnectionError, "does not answer.*NOT_ANSWERING"):
                    tunefarm.Client(timeout=0.5)

    def test_what_listens_is_something_else(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                for _ in range(3):  # gRPC, the question of what it is, and whether it knows TLS
                    connection, _ = listener.accept()
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            self.assertEqual(_connection.why_unreachable(address, None).reason, "NOT_A_DAEMON")

    def test_which_of_the_causes_it_is(self):
        path = f"{self.folder}/x.sock"
        cause = _connection.why_unreachable
        self.assertIn("does not exist", str(cause(f"unix:{path}", None)))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
        self.assertIn("nobody listens on the socket", str(cause(f"unix:{path}", None)))
        pathlib.Path(self.folder, "file").touch()
        self.assertIn("is not a socket", str(cause(f"unix:{self.folder}/file", None)))
        self.assertEqual(cause("127.0.0.1:1", None).reason, "NO_DAEMON")
        self.assertEqual(cause("no-such-host.invalid:7070", None).reason, "HOST_UNKNOWN")

    def test_a_socket_of_somebody_else(self):
        path = f"{self.folder}/x.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            os.chmod(path, 0)
            if os.geteuid() != 0:
                with self.assertRaisesRegex(tunefarm.UnavailableError, "no permission.*NO_PERMISSION"):
                    tunefarm.Client("unix:" + path)
                return
            # Root may open every socket, so that it asks as another user.
            os.chmod(self.folder, 0o711)
            child = os.fork()
            if child == 0:
                code = 2
                try:
                    os.setresuid(65533, 65533, 65533)
                    why = _connection.why_unreachable("unix:" + path, None)
                    code = 0 if why.reason == "NO_PERMISSION" and "user id 65533" in str(why) else 1
                finally:
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_addresses_that_are_none(self):
        for server in ("farm1", "7070", ":7070", "farm1:", "farm1:0", "farm1:65536", "farm1:http", "::1:7070",
                       "http://farm1:7070", "/run/admin.sock", "unix:", "unix:/" + "x" * 107):
            with self.subTest(server), self.assertRaisesRegex(tunefarm.InvalidArgumentError, "not an address"):
                tunefarm.Client(server)

    def test_a_key_of_another_certificate(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl makes the certificates, and is not on the PATH")
        files = {}
        for name in ("alice", "bob"):
            files[name] = [f"{self.folder}/{name}.{end}" for end in ("pem", "key")]
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=" + name, "-out", files[name][0], "-keyout", files[name][1]], check=True,
                           capture_output=True)
            for file in files[name]:
                os.chmod(file, 0o600)  # each serves as a key below

        def opened(ca, certificate, key):
            _connection.open_channel("127.0.0.1:1", [], tls_ca=ca, tls_certificate=certificate, tls_key=key, token=None,
                                     token_file=None).close()

        ca, key = files["alice"]
        opened(ca, ca, key)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "KEY_MISMATCH"):
            opened(ca, ca, files["bob"][1])
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "not a certificate and its key"):
            opened(ca, key, ca)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "no certificate in " + key):
            opened(key, ca, key)

    def test_an_empty_token_file(self):
        for text in ("", "\n"):
            file = pathlib.Path(self.folder, "token")
            file.touch(0o600)
            file.write_text(text)
            with self.subTest(text), self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"token file {file} is empty"):
                _connection.open_channel("127.0.0.1:1", [], tls_ca=None, tls_certificate=None, tls_key=None, token=None,
                                         token_file=file)

    def test_the_program_is_missing(self):
        with mock.patch.object(_connection, "places_beside", lambda *_: []), mock.patch.dict(os.environ, PATH=self.folder):
            with self.assertRaisesRegex(tunefarm.UnavailableError, "not on PATH"):
                tunefarm.Client(data_directory=self.folder)

    def test_the_program_fails(self):
        program = pathlib.Path(self.folder) / "tunefarm"
        program.write_text("#!/bin/sh\necho no room >&2\nexit 4\n")
        program.chmod(0o755)
        with mock.patch.object(_connection, "places_beside", lambda *_: []), mock.patch.dict(os.environ, PATH=self.folder):
            with self.assertRaisesRegex(tunefarm.UnavailableError, "could not be started: no room"):
                tunefarm.Client(data_directory=self.folder)


class Requests(unittest.TestCase):
    def dims(self, problem):
        return {name: value.int_value for name, value in problem.dims.items()}

    def test_problems(self):
        grid = _requests.problems({"M": [1, 2], "N": 3}, None, {"P": True}, [7])
        self.assertEqual([self.dims(problem) for problem in grid], [{"M": 1, "N": 3}, {"M": 2, "N": 3}])
        self.assertTrue(grid[0].pinned["P"].bool_value)
        self.assertEqual(list(grid[0].input_seeds), [7])
        listed = _requests.problems({"N": 3}, [{"M": 1}, {"M": 2, "N": 4}], None, [])
        self.assertEqual([self.dims(problem) for problem in listed], [{"M": 1, "N": 3}, {"M": 2, "N": 4}])
        self.assertEqual(len(_requests.problems(None, None, None, [])), 1)
        for bad in ({"M": []}, {"M": range(257)}, {"M": None}, {"M": 2 ** 63}, {"M": float("nan")}):
            with self.subTest(bad), self.assertRaises(tunefarm.InvalidArgumentError):
                _requests.problems(bad, None, None, [])

    def test_policy(self):
        policy = _requests.policy("fast", {"method": "cuda_graph", "no_reuse": True, "final_rounds": 9})
        self.assertEqual((policy.preset, policy.method, policy.no_reuse, policy.final_rounds), (1, 3, True, 9))
        for knobs in ({"speed": 1}, {"method": "sundial"}, {"final_rounds": "many"}):
            with self.subTest(knobs), self.assertRaises(tunefarm.InvalidArgumentError):
                _requests.policy("fast", knobs)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "fast, default, rigorous"):
            _requests.policy("slow", None)

    def test_names_of_jobs(self):
        for job in (17, "17", "jobs/17"):
            self.assertEqual(_requests.job_name(job), "jobs/17")
        for job in ("", "x", "jobs/1/studies/1", -1):
            with self.assertRaises(tunefarm.InvalidArgumentError):
                _requests.job_name(job)

    def test_matches(self):
        self.assertEqual(_requests.match("exact"), 1)
        self.assertEqual(_requests.match(tunefarm.Match.NEAREST_SHAPE), 4)
        with self.assertRaises(tunefarm.InvalidArgumentError):
            _requests.match("PERFECT")

    def test_columns(self):
        ints, strings = _requests.columns({"M": [1, 2, 3], "dtype": ["f32", "bf16", "f32"]}, 0, 3)
        self.assertEqual(list(ints.ints), [1, 2, 3])
        self.assertEqual((list(strings.strings), list(strings.string_indexes)), (["f32", "bf16"], [0, 1, 0]))
        with self.assertRaises(tunefarm.InvalidArgumentError):
            _requests.columns({"M": [1, "a"]}, 0, 2)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, f"columns: N: {2 ** 63} does not fit"):
            _requests.columns({"N": [1, 2 ** 63]}, 0, 2)

    def test_what_a_job_does_not_take_is_named(self):
        for bad, named in ((lambda: _requests.strategy("random", None, -1), "seed=-1: "),
                           (lambda: _requests.strategy(5, None, 1), "strategy=5: "),
                           (lambda: _requests.problems(None, None, None, [-1]), r"input_seeds=\[-1\]: "),
                           (lambda: _requests.message(job_pb2.Budget, max_trials="many"), "max_trials='many': "),
                           (lambda: _requests.message(job_pb2.Budget, max_trials_without_gain=2 ** 63), "patience=")):
            with self.subTest(named), self.assertRaisesRegex(tunefarm.InvalidArgumentError, "^" + named):
                bad()

    def test_timeouts(self):
        for timeout in (0, -1, float("nan")):
            with self.assertRaises(ValueError):
                _calls.checked_timeout(timeout)

    def test_newer_numbers_are_no_error(self):
        self.assertEqual(tunefarm.Outcome(4711), tunefarm.Outcome.UNSPECIFIED)
        self.assertEqual(str(tunefarm.Match.EXACT), "EXACT")


class Definitions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_every_definition_in_the_box_is_found_by_its_name(self):
        box = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "kernels"
        with mock.patch.dict(os.environ, TUNEFARM_KERNELS=str(box)):
            for file in box.rglob("*.pbtxt"):
                name = file.parent.name if file.name == "kernel.pbtxt" else file.stem
                found, definition, _ = _definitions.resolve(name)
                self.assertEqual(found, definition.display_name)
                self.assertTrue(all(source.content for source in definition.sources))
            self.assertEqual(_definitions.resolve("kernels/abc"), ("kernels/abc", None, None))
            self.assertEqual(_definitions.resolve("of_my_own"), ("of_my_own", None, None))

    def test_a_source_that_leads_out_of_the_folder_is_refused_by_name(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder.parent / "private_key").write_bytes(b"secret")
        (folder / "kernel.pbtxt").write_text('display_name: "k" sources { path: "k.cc" } sources { path: "sub/k.h" }')
        (folder / "sub").mkdir()
        (folder / "real.h").write_bytes(b"header")
        (folder / "sub" / "k.h").symlink_to("../real.h")
        source = folder / "k.cc"
        for target in ("../private_key", folder.parent / "private_key"):
            source.symlink_to(target)
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "k.cc leads to .*private_key, outside of"):
                _definitions.resolve(folder)
            source.unlink()
        os.mkfifo(source)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "k.cc is not a regular file"):
            _definitions.resolve(folder)
        source.unlink()
        source.write_bytes(b"code")
        # The folder itself may be a link, and one inside of it.
        link = folder.parent / "link"
        link.symlink_to(folder)
        _, definition, _ = _definitions.resolve(link)
        self.assertEqual([source.content for source in definition.sources], [b"code", b"header"])

    def test_what_is_included_lies_beside_its_definition_and_is_none(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "k.pbtxt").write_text("display_name: 'k'\ninclude: 'parts/shared.inc'\n")
        shared = folder / "parts" / "shared.inc"
        shared.parent.mkdir()
        (folder / "more.inc").write_text("dims { name: 'M' default_value: 1 }")
        shared.write_text("# a byte order mark first\ndims { name: 'N' } include: 'more.inc'", encoding="utf-8-sig")
        name, definition, file = _definitions.resolve(folder)
        self.assertEqual((name, [dim.name for dim in definition.dims], file), ("k", ["N", "M"], folder / "k.pbtxt"))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "shared.inc is text that definitions include"):
            _definitions.resolve(shared)
        (folder.parent / "private_key").write_bytes(b"secret")
        shared.unlink()
        shared.symlink_to("../../private_key")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, r"k.pbtxt:2:1: .*shared.inc leads to .*private_key, outside of"):
            _definitions.resolve(folder)
        shared.unlink()
        os.mkfifo(shared)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "shared.inc is not a regular file"):
            _definitions.resolve(folder)
        shared.unlink()
        shared.write_bytes(b"dims { name: '\xff' }")
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "k.pbtxt:2:1: .*shared.inc: is not UTF-8 text"):
            _definitions.resolve(folder)

    def test_paths_are_told_from_names(self):
        for path in (pathlib.Path("k"), "./k", "a/k", "k.pbtxt", "."):
            self.assertTrue(_definitions.is_path(path), path)
        for name in ("k", "kernels/0123", ""):
            self.assertFalse(_definitions.is_path(name), name)

    def test_errors_name_the_place(self):
        file = self.folder / "kernel.pbtxt"
        for text, error, word in (
                ("display_name: 'x'\nno_such_field: 1\n", tunefarm.InvalidArgumentError, r"kernel\.pbtxt:2:1: [^\d]"),
                ("sources { path: '../x.cc' }", tunefarm.InvalidArgumentError, "not a path below"),
                ("sources { path: 'x.cc' }", tunefarm.NotFoundError, r"x\.cc"),
        ):
            file.write_text(text)
            with self.subTest(text), self.assertRaisesRegex(error, word):
                _definitions.resolve(self.folder)
        with self.assertRaisesRegex(tunefarm.NotFoundError, "has no kernel.pbtxt"):
            _definitions.resolve(tempfile.mkdtemp(dir=self.folder))
        with self.assertRaisesRegex(tunefarm.NotFoundError, "there is no kernel definition at"):
            _definitions.resolve(self.folder / "other.pbtxt")


class Texts(unittest.TestCase):
    """What others wrote does not move a terminal's cursor."""

    def test_errors_and_lines_of_progress(self):
        text = "a\x1b[31mRED\r\x9b\u202e\udcff\nb\t\u00b5"
        shown = "a\\x1b[31mRED\\x0d\\xc2\\x9b\\xe2\\x80\\xae\\xff\nb\t\u00b5"
        self.assertEqual(str(tunefarm.TunefarmError(text)), shown)
        self.assertEqual(tunefarm.TunefarmError(text).message, text)
        stream = io.StringIO()
        _progress.ProgressDisplay(stream).say(text)
        self.assertEqual(stream.getvalue(), shown + "\n")


class Durations(unittest.TestCase):
    def test_text(self):
        for nanoseconds, text in ((0.5, "0.5 ns"), (999, "999 ns"), (41234, "41.2 µs"), (2.5e6, "2.5 ms"), (3e9, "3 s")):
            self.assertEqual(_progress.duration_text(nanoseconds), text)


if __name__ == "__main__":
    unittest.main()
