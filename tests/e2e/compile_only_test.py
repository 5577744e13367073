"""An agent without devices compiles, with the real compiler, what waits for the GPU of another, which this test plays."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import grpc

from farm import wait_until
from machines import Machines, free_port

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
KIB = 1024
H200 = {"kind": "DEVICE_KIND_CUDA", "display_name": "NVIDIA H200", "compute_capability": 90, "sm_count": 132,
        "registers_per_sm": 65536, "registers_per_block": 65536, "shared_bytes_per_sm": 228 * KIB,
        "shared_bytes_per_block": 48 * KIB, "shared_bytes_per_block_optin": 227 * KIB,
        "reserved_shared_bytes_per_block": KIB, "threads_per_sm": 2048, "threads_per_block": 1024, "warp_size": 32,
        "blocks_per_sm": 32, "l2_bytes": 60 << 20, "memory_gib": 140, "grid_max": [2**31 - 1, 65535, 65535],
        "block_max": [1024, 1024, 64]}


class PlayedAgent:
    """An agent with one GPU, as far as control can see."""

    def __init__(self, address, messages):
        self.messages = messages
        self.channel = grpc.insecure_channel(address)
        about = messages.RegisterRequest(agent_id="played", host="played", display_name="played", protocol=2)
        device = about.devices.add(uuid="GPU-played", memory_bytes=140 << 30, toolkit_version="13.0")
        for name, value in H200.items():
            if isinstance(value, list):
                getattr(device.device_class, name).extend(value)
            else:
                kinds = type(device.device_class).DESCRIPTOR.fields_by_name[name].enum_type
                setattr(device.device_class, name, kinds.values_by_name[value].number if kinds else value)
        states = type(device).DESCRIPTOR.fields_by_name["state"].enum_type
        device.state = states.values_by_name["DEVICE_STATE_READY"].number
        self.epoch = self.call("Register", about, messages.RegisterResponse).epoch

    def call(self, name, request, response):
        method = self.channel.unary_unary(f"/tunefarm.agent.v1.AgentService/{name}",
                                          request_serializer=type(request).SerializeToString,
                                          response_deserializer=response.FromString)
        return method(request, timeout=60)

    def synchronize(self, trials=0):
        request = self.messages.SynchronizeRequest(agent_id="played", epoch=self.epoch)
        if trials:
            request.demands.add(device_uuid="GPU-played", units=8, trials=trials)
        return self.call("Synchronize", request, self.messages.SynchronizeResponse)


class CompileOnly(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generated = tempfile.TemporaryDirectory()
        proto = SOURCE / "proto"
        subprocess.run(["protoc", f"--proto_path={proto}", f"--python_out={cls.generated.name}",
                        *sorted(map(str, (proto / "tunefarm" / "v1").glob("*.proto"))),
                        str(proto / "tunefarm/agent/v1/agent.proto")], check=True)
        sys.path.insert(0, cls.generated.name)
        from tunefarm.agent.v1 import agent_pb2
        cls.messages = agent_pb2

    @classmethod
    def tearDownClass(cls):
        cls.generated.cleanup()

    def test_what_waits_for_a_gpu_is_compiled_by_an_agent_without_one(self):
        pages = f"127.0.0.1:{free_port()}"
        with Machines(agents=0, start=False, control_flags=["--http-listen", pages]) as machines:
            helper = machines.new_agent("helper", "--compile-only")
            machines.agents = [helper]
            machines.control.start()
            played = PlayedAgent(machines.address, self.messages)
            self.assertFalse(played.synchronize().has_binaries)
            helper.spawn()
            wait_until(lambda: "helper" in machines.listed(), "its registration")
            if not any("NVRTC" in line for line in helper.info().get("toolchains", [])):
                self.skipTest("there is no NVRTC")
            wait_until(lambda: played.synchronize().has_binaries, "somebody who compiles for others")
            listed = machines.listed()["helper"]
            self.assertTrue(listed["compiles_only"])
            self.assertEqual(listed.get("devices", []), [])
            self.assertIn("compiles only", machines.control.cli("agents").stdout)

            def metric(name):
                with urllib.request.urlopen(f"http://{pages}/metrics", timeout=60) as page:
                    return int(float(re.search(rf"^{name} (\S+)$", page.read().decode(), re.MULTILINE).group(1)))

            machines.control.cli("submit", "matmul", "--device", "cuda", "--strategy", "random", "--max-trials", 8, "--dim",
                                 "M=512", "--dim", "N=512", "--dim", "K=512")
            wait_until(lambda: metric("tunefarm_binaries_offered_total") >= 4, "binaries for a GPU that is elsewhere")
            self.assertGreaterEqual(metric("tunefarm_configs_taken_total"), 4)
            binaries = [path for path in (helper.directory / "cache").rglob("*") if path.is_file()]
            self.assertGreaterEqual(len(binaries), 4)
            # The GPU's agent is given its units all the same.
            self.assertTrue(played.synchronize(trials=8).assignments)
            self.assertEqual(helper.stop(), 0)
            wait_until(lambda: "helper" not in machines.listed(), "its leave")


if __name__ == "__main__":
    unittest.main()
