"""The remote caches of Triton and Helion against a service that plays the daemon's: what is asked, and how programs go on
where it is away, hangs or refuses."""

import abc
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import warnings
from unittest import mock

import grpc
import tunefarm.helion
import tunefarm.triton
from tunefarm import _connection, _remote_cache
from tunefarm.v1 import cache_service_pb2, cache_service_pb2_grpc, error_pb2

MIB = 1 << 20


class Daemon(cache_service_pb2_grpc.CacheServiceServicer):
    """Answers of at most two entries."""

    def __init__(self):
        self.entries = {}  # by cache and key, in the order of puts
        self.calls = []
        self.refusal = None  # a status code for puts
        self.hangs = threading.Event()
        self.hangs.set()

    def GetCacheEntries(self, request, context):
        self.calls.append(request)
        self.hangs.wait()
        there = [key for key in request.keys if (request.cache, key) in self.entries]
        response = cache_service_pb2.GetCacheEntriesResponse()
        for key in there[:2]:
            response.entries.add(key=key, data=self.entries[request.cache, key])
        if len(there) > 2:
            response.keys_left.extend(request.keys[list(request.keys).index(there[2]):])
        return response

    def PutCacheEntry(self, request, context):
        self.calls.append(request)
        if self.refusal:
            detail = error_pb2.ErrorDetail(reason="RIGHT_MISSING")
            context.set_trailing_metadata((("grpc-status-details-bin", detail.SerializeToString()),))
            context.abort(self.refusal, "no")
        self.entries.pop((request.cache, request.key), None)
        self.entries[request.cache, request.key] = request.data
        return cache_service_pb2.PutCacheEntryResponse()

    def ListCacheEntries(self, request, context):
        self.calls.append(request)
        own = [(key, data) for (cache, key), data in reversed(self.entries.items()) if cache == request.cache]
        first = int(request.page_token or 0)
        end = first + min(request.page_size, 2)
        response = cache_service_pb2.ListCacheEntriesResponse(next_page_token=str(end) if end < len(own) else "")
        for key, data in own[first:end]:
            response.entries.add(key=key, data=data)
        return response


class Manager:
    """Does with a backend what Triton's RemoteCacheManager does, for files in a folder."""

    def __init__(self, key, folder):
        module, name = "tunefarm.triton:RemoteCache".split(":")
        self.backend = getattr(sys.modules[module], name)(key)
        self.folder = pathlib.Path(folder)

    def _write(self, filename, data):
        (self.folder / filename).write_bytes(data)
        return str(self.folder / filename)

    def put(self, data, filename):
        data = data if isinstance(data, bytes) else str(data).encode()
        self.backend.put(filename, data)
        return self._write(filename, data)

    def get_file(self, filename):
        found = self.backend.get([filename])
        return self._write(filename, found[filename]) if found else None

    def put_group(self, filename, group):
        return self.put(json.dumps({"child_paths": sorted(group)}), f"__grp__{filename}")

    def get_group(self, filename):
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        children = json.loads(pathlib.Path(path).read_text())["child_paths"]
        return {child: self._write(child, data) for child, data in self.backend.get(children).items()}


class WithDaemon(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.daemon = Daemon()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 16 * MIB)])
        cache_service_pb2_grpc.add_CacheServiceServicer_to_server(self.daemon, server)
        self.address = f"unix:{self.folder}/socket"
        server.add_insecure_port(self.address)
        server.start()
        stack.callback(server.stop, None)
        self.use(stack, self.address)

    def use(self, stack, address):
        stack.enter_context(mock.patch.dict(os.environ, TUNEFARM_SERVER=address))
        stack.enter_context(mock.patch.object(_remote_cache, "_link", _remote_cache._Link()))

    @contextlib.contextmanager
    def warned(self, *sentences):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        self.assertEqual(len(caught), len(sentences), [str(warning.message) for warning in caught])
        for warning, sentence in zip(caught, sentences):
            self.assertRegex(str(warning.message), sentence)

    def manager(self, key="K"):
        folder = tempfile.TemporaryDirectory(dir=self.folder)
        self.addCleanup(folder.cleanup)
        return Manager(key, folder.name)


class Triton(WithDaemon):
    FILES = {"add.cubin": b"\0cubin", "add.ptx": b".version", "add.json": b"{}"}

    def fill(self, manager):
        group = {name: manager.put(data, name) for name, data in self.FILES.items()}
        manager.put_group("add.json", group)

    def test_a_group_comes_back_elsewhere(self):
        self.fill(self.manager())
        self.assertIn(("triton", "K/__grp__add.json"), self.daemon.entries)
        group = self.manager().get_group("add.json")
        self.assertEqual({name: pathlib.Path(path).read_bytes() for name, path in group.items()}, self.FILES)
        self.assertIsNone(self.manager("L").get_group("add.json"))
        self.assertIsNone(self.manager().get_file("sub.json"))

    def test_a_group_that_has_lost_a_file_is_none(self):
        self.fill(self.manager())
        del self.daemon.entries["triton", "K/add.cubin"]
        self.assertFalse(self.manager().get_group("add.json"))

    def test_large_files_are_not_sent(self):
        backend = tunefarm.triton.RemoteCache("K")
        backend.put("large", bytes(8 * MIB + 1))
        self.assertEqual(self.daemon.calls, [])
        backend.put("largest", bytes(8 * MIB))
        self.assertTrue(backend.get(["largest"]) == {"largest": bytes(8 * MIB)})

    def test_names_that_are_no_keys_are_misses(self):
        backend = tunefarm.triton.RemoteCache("K")
        for name in ("n" * 600, "line\nbreak", "\udc80"):
            backend.put(name, b"data")
            self.assertEqual(backend.get([name]), {})
        self.assertEqual(self.daemon.calls, [])

    def test_has_the_name_that_triton_looks_for(self):
        self.assertIn("RemoteCacheBackend", [base.__name__ for base in tunefarm.triton.RemoteCache.mro()])

    def test_the_module_imports_neither_triton_nor_grpc(self):
        program = ("import sys, tunefarm.triton; assert not {'triton', 'torch', 'grpc'} & set(sys.modules); "
                   "tunefarm.triton.RemoteCache; assert not {'triton', 'torch'} & set(sys.modules)")
        subprocess.run([sys.executable, "-c", program], check=True)


class Helion(WithDaemon):
    def backend(self):
        return tunefarm.helion.RemoteCache()

    def test_get_and_put(self):
        self.assertIsNone(self.backend().get("hash"))
        self.backend().put("hash", '{"config": "ä"}')
        self.assertEqual(self.backend().get("hash"), '{"config": "ä"}')
        self.assertEqual(self.daemon.entries, {("helion", "hash"): '{"config": "ä"}'.encode()})

    def test_the_newest_are_listed_first(self):
        for number in range(5):
            self.backend().put(f"hash{number}", str(number))
        self.backend().put("hash1", "again")
        tunefarm.triton.RemoteCache("K").put("file", b"other")
        self.assertEqual(list(self.backend().list()), ["again", "4", "3", "2", "0"])
        self.assertEqual(list(self.backend().list(max_results=3)), ["again", "4", "3"])
        self.assertEqual(list(self.backend().list(max_results=0)), [])

    def test_is_a_subclass_of_helions_whenever_that_is_imported(self):
        self.assertEqual(self.backend().list(), [])  # without Helion
        module = types.ModuleType("helion.autotuner.remote_cache")
        module.RemoteCacheBackend = abc.ABCMeta("RemoteCacheBackend", (), {})
        with mock.patch.dict(sys.modules, {module.__name__: module}):
            path, name = "tunefarm.helion.RemoteCache".rsplit(".", 1)
            found = getattr(sys.modules[path], name)
            self.assertIsInstance(found, type)
            self.assertTrue(issubclass(found, module.RemoteCacheBackend))
            self.assertEqual(type(found()).__qualname__, "RemoteCache")

    def test_the_module_imports_neither_helion_nor_torch(self):
        program = "import sys, tunefarm.helion; assert not {'helion', 'torch', 'triton'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", program], check=True)


class WithoutDaemon(WithDaemon):
    def test_everything_is_a_miss_after_one_warning(self):
        with contextlib.ExitStack() as stack:
            self.use(stack, f"unix:{self.folder}/nobody")
            backend = tunefarm.triton.RemoteCache("K")
            with self.warned("the remote cache is not used for 60 s.* no daemon answers"):
                for _ in range(3):
                    self.assertEqual(backend.get(["file"]), {})
                    backend.put("file", b"data")
                    self.assertIsNone(tunefarm.helion.RemoteCache().get("hash"))
                    self.assertEqual(tunefarm.helion.RemoteCache().list(), [])

    def test_a_wrong_setting_is_one_warning(self):
        with contextlib.ExitStack() as stack:
            self.use(stack, "farm1:no-port")
            with self.warned("'no-port' is not a port"):
                self.assertEqual(tunefarm.triton.RemoteCache("K").get(["file"]), {})
                tunefarm.triton.RemoteCache("K").put("file", b"data")

    def test_one_that_hangs_is_asked_once_and_again_after_a_while(self):
        backend = tunefarm.triton.RemoteCache("K")
        backend.put("file", b"data")
        self.daemon.hangs.clear()
        self.addCleanup(self.daemon.hangs.set)
        asked = len(self.daemon.calls)
        with mock.patch.object(_remote_cache, "_CALL_SECONDS", 0.3), self.warned("the remote cache is not used"):
            for _ in range(3):
                self.assertEqual(backend.get(["file"]), {})
            backend.put("file", b"other")
        self.assertEqual(len(self.daemon.calls), asked + 1)
        self.daemon.hangs.set()
        later = _remote_cache.time.monotonic() + 61
        with mock.patch.object(_remote_cache.time, "monotonic", return_value=later):
            self.assertEqual(backend.get(["file"]), {"file": b"data"})

    def test_a_caller_without_the_role_kernels_reads_only(self):
        backend = tunefarm.triton.RemoteCache("K")
        self.daemon.entries["triton", "K/file"] = b"data"
        self.daemon.refusal = grpc.StatusCode.PERMISSION_DENIED
        with self.warned("the remote cache stores nothing for 60 s.*RIGHT_MISSING"):
            for _ in range(3):
                backend.put("other", b"data")
                self.assertEqual(backend.get(["file"]), {"file": b"data"})
        self.assertEqual(sum(isinstance(call, cache_service_pb2.PutCacheEntryRequest) for call in self.daemon.calls), 1)

    def test_a_service_that_leaves_everything_for_later_is_not_asked_forever(self):
        with mock.patch.object(Daemon, "GetCacheEntries", lambda self, request, context: (
                cache_service_pb2.GetCacheEntriesResponse(keys_left=request.keys))):
            self.assertEqual(tunefarm.triton.RemoteCache("K").get(["a", "b"]), {})


class Forks(WithDaemon):
    # A process of its own: the one of the test has a server of gRPC.
    CHILD = """
import os, sys
import tunefarm.triton
connects_first = sys.argv[1] == "connected"
backend = tunefarm.triton.RemoteCache("K")
if connects_first:
    assert backend.get(["file"]) == {"file": b"data"}
child = os.fork()
if child == 0:
    found = backend.get(["file"])
    os._exit(0 if found == ({} if connects_first else {"file": b"data"}) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert backend.get(["file"]) == {"file": b"data"}
"""

    def test_a_child_of_a_process_that_has_connected_goes_without(self):
        self.daemon.entries["triton", "K/file"] = b"data"
        for state in ("connected", "not connected"):
            with self.subTest(state):
                subprocess.run([sys.executable, "-c", self.CHILD, state], check=True, timeout=60)

    def test_a_client_counts_as_connected(self):
        with mock.patch.object(_connection, "_opened_by", os.getppid()):
            self.daemon.entries["triton", "K/file"] = b"data"
            self.assertEqual(tunefarm.triton.RemoteCache("K").get(["file"]), {})
        self.assertEqual(self.daemon.calls, [])


if __name__ == "__main__":
    unittest.main()
