"""What was tuned is launched from a package, by the library for launching alone."""

import ctypes
import json
import os
import subprocess
import unittest

from farm import BIN, HANG_SECONDS, KERNELS, Farm
from tunefarm import _launch_abi as abi

SEARCH = ("--policy", "fast", "--strategy", "random", "--max-trials", "4")
MADE_AND_CHECKSUM_END = 40  # bytes of the header that differ from export to export
EXACT, NEAREST = abi.MATCHES.index("EXACT"), abi.MATCHES.index("NEAREST")
WORKSPACE_ALIGNMENT = 256


class Kernel:
    """A kernel of a package, through the C interface."""

    def __init__(self, file, name):
        self.library, self.error = abi.library(), abi.sized(abi.Error)
        self.package, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.tunefarm_package_open(os.fsencode(file), ctypes.byref(self.package), self.error))
        self.check(self.library.tunefarm_kernel_load(self.package, name.encode(), None, 0, None,
                                                     ctypes.byref(self.kernel), self.error))

    def close(self):
        self.library.tunefarm_kernel_close(self.kernel)
        self.library.tunefarm_package_close(self.package)

    def check(self, status):
        abi.check(status, self.error)

    def dim_names(self):
        count = self.library.tunefarm_kernel_dim_count(self.kernel)
        return [self.library.tunefarm_kernel_dim_name(self.kernel, i).decode() for i in range(count)]

    def plan(self, *dims):
        plan = abi.sized(abi.Plan)
        self.check(self.library.tunefarm_kernel_plan(self.kernel, (ctypes.c_int64 * len(dims))(*dims), len(dims), plan,
                                                     self.error))
        return plan

    def launch(self, dims, arguments):
        plan = self.plan(*dims)
        room = ctypes.create_string_buffer(plan.workspace_bytes + WORKSPACE_ALIGNMENT)
        workspace = -(-ctypes.addressof(room) // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        launch = abi.sized(abi.Launch)
        launch.dims, launch.dim_count = (ctypes.c_int64 * len(dims))(*dims), len(dims)
        launch.arguments = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        launch.argument_count = len(arguments)
        launch.argument_bytes = (ctypes.c_uint64 * len(arguments))(*map(ctypes.sizeof, arguments))
        launch.workspace, launch.workspace_bytes = workspace, plan.workspace_bytes
        launch.generation = plan.generation
        self.check(self.library.tunefarm_kernel_launch(self.kernel, launch, self.error))
        return plan


def floats(values):
    values = list(values)
    return (ctypes.c_float * len(values))(*values)


class ExportPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.farm = Farm().start()
        cls.farm.cli("tune", "vector_add_host", "--dim", "N=4096", *SEARCH)
        cls.farm.cli("tune", "matmul_host", "--dim", "M=64,96", "--dim", "N=64", "--dim", "K=64", *SEARCH)

    @classmethod
    def tearDownClass(cls):
        cls.farm.__exit__(None, None, None)

    def export(self, *arguments, **options):
        file = self.farm.directory / "kernels.tfpack"
        file.unlink(missing_ok=True)
        return file, self.farm.cli("export", "package", file, *arguments, **options)

    def load(self, file, name):
        kernel = Kernel(file, name)
        self.addCleanup(kernel.close)
        return kernel

    def test_vectors_are_added_for_any_length(self):
        file, done = self.export("--kernel", "vector_add_host")
        self.assertIn("1 best config of 1 kernel", done.stderr)
        kernel = self.load(file, "vector_add_host")
        self.assertEqual(kernel.dim_names(), ["N"])
        for n, match in ((4096, EXACT), (1001, NEAREST)):
            a, b, c = floats(range(n)), floats(3 * i for i in range(n)), floats([-1] * n)
            plan = kernel.launch([n], [a, b, c])
            self.assertEqual(plan.match, match)
            self.assertEqual(list(c), [4 * i for i in range(n)])

    def test_matrices_are_multiplied_by_the_config_of_their_problem(self):
        file, _ = self.export("--kernel", "matmul_host")
        kernel = self.load(file, "matmul_host")
        bests = {best["problem"]["dims"]["M"]: best for best in self.farm.json("best", "list", "matmul_host")["bests"]}
        for m in (64, 96):
            n = k = 64
            a = [[(i * j + i) % 5 - 2 for j in range(k)] for i in range(m)]
            b = [[(i + 2 * j) % 7 - 3 for j in range(n)] for i in range(k)]
            c = floats([0] * (m * n))
            plan = kernel.launch([m, n, k], [floats(sum(a, [])), floats(sum(b, [])), c])
            self.assertEqual(plan.match, EXACT)
            config = dict(pair.split("=") for pair in plan.config.decode().split(","))
            self.assertEqual(int(config["TILE_M"]), bests[m]["config"]["TILE_M"])
            self.assertEqual(int(config["MR"]), bests[m]["config"]["MR"])
            columns = list(zip(*b))
            self.assertEqual(list(c), [sum(x * y for x, y in zip(row, column)) for row in a for column in columns])

    def test_inspect_shows_what_is_in_it(self):
        file, _ = self.export()
        shown = self.farm.json("inspect", file)
        kernels = {kernel["name"]: kernel for kernel in shown["kernels"]}
        self.assertEqual(set(kernels), {"vector_add_host", "matmul_host"})
        matmul = kernels["matmul_host"]
        self.assertEqual([choice["kind"] for choice in matmul["choices"]].count("TUNED"), 2)
        self.assertEqual([choice["kind"] for choice in matmul["choices"]].count("DEFAULT"), 1)
        tuned = next(choice for choice in matmul["choices"] if choice["problem"]["M"] == 96)
        self.assertEqual(tuned["problem"], {"M": 96, "N": 64, "K": 64})
        self.assertGreater(tuned["median_ns"], 0)
        self.assertEqual([buffer["name"] for buffer in tuned["buffers"]], ["a", "b", "c", "packed"])
        self.assertEqual(tuned["buffers"][0]["length"], "M * K")
        self.assertEqual(tuned["launches"][0]["symbol"], "matmul")
        self.assertEqual(tuned["launches"][0]["arguments"][4], {"scalar": "i32", "value": "M"})
        binary = shown["binaries"][tuned["binary"]]
        self.assertEqual(binary["kind"], "SHARED_OBJECT")
        self.assertNotIn("/", binary["toolchain"])
        self.assertTrue(binary["toolchain"])
        text = self.farm.cli("inspect", file).stdout
        for part in ("kernel matmul_host", "M=96,N=64,K=64", shown["binaries"][0]["sha256"],
                     "matmul(a, b, c, packed, i32 M"):
            self.assertIn(part, text)

    def test_the_same_results_give_the_same_file(self):
        contents = []
        for _ in range(2):
            file, _ = self.export()
            contents.append(file.read_bytes()[MADE_AND_CHECKSUM_END:])
        self.assertEqual(contents[0], contents[1])

    def test_what_is_damaged_is_refused(self):
        file, _ = self.export("--kernel", "vector_add_host")
        whole = file.read_bytes()
        flipped = whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:]
        for damaged in (whole[:-1], whole[:100], flipped, b"no package" * 100):
            file.write_bytes(damaged)
            done = self.farm.cli("inspect", file, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("is no package that can be read", done.stderr)
        self.assertEqual(self.farm.cli("inspect", self.farm.directory / "absent", check=False).returncode, 3)

    def test_bests_of_a_file_make_the_same_package(self):
        bests = self.farm.directory / "bests.json"
        self.farm.cli("export", "bests", bests, "--kernel", "matmul_host")
        own = self.export("--kernel", "matmul_host")[0].read_bytes()
        file, done = self.export("--bests", bests)
        self.assertIn("2 best configs of 1 kernel", done.stderr)
        self.assertNotIn("Left out", done.stderr)
        self.assertEqual(file.read_bytes()[MADE_AND_CHECKSUM_END:], own[MADE_AND_CHECKSUM_END:])
        # Of another version configs are taken, times are not.
        content = json.loads(bests.read_text())
        for best in content["bests"]:
            best["program_digest"] = "0" * 64
        changed = self.farm.directory / "changed.json"
        changed.write_text(json.dumps(content))
        file, done = self.export("--bests", changed, "--kernel", "matmul_host", "--dim", "M=96")
        self.assertIn("1 of the bests was measured with another version", done.stderr)
        (tuned,) = [choice for choice in self.farm.json("inspect", file)["kernels"][0]["choices"] if choice["kind"] == "TUNED"]
        self.assertEqual((tuned["problem"]["M"], tuned.get("median_ns", 0)), (96, 0))
        # What does not fit is named; a daemon that has never tuned anything takes the rest.
        content["bests"][0]["config"]["values"]["TILE_M"] = {"int_value": "7"}
        changed.write_text(json.dumps(content))
        with Farm() as other:
            other.start()
            done = other.cli("export", "package", file, "--bests", changed, "--bests", bests)
            self.assertIn("Left out matmul_host for ", done.stderr)
            self.assertIn("2 best configs of 1 kernel", done.stderr)
        kernel = self.load(file, "matmul_host")
        self.assertEqual(kernel.plan(96, 64, 64).match, EXACT)
        self.assertEqual(self.export("--bests", changed, "--kernel", "vector_add_host", check=False)[1].returncode, 3)

    def test_stored_bests_become_packages_by_one_command(self):
        kernels, out = self.farm.directory / "stored", self.farm.directory / "packages"
        (kernels / "matmul_host" / "bests").mkdir(parents=True)
        command = [KERNELS / "packages.sh", BIN, kernels, out]

        def make(card):
            environment = dict(os.environ, TUNEFARM_KERNELS=str(KERNELS))
            return subprocess.run([*command, card], env=environment, capture_output=True, text=True, timeout=HANG_SECONDS)

        none = make("all")
        self.assertEqual(none.returncode, 1)
        self.assertIn("there are no stored bests", none.stderr)
        for name in ("CPU", "other"):
            self.farm.cli("export", "bests", kernels / "matmul_host" / "bests" / f"{name}.json", "--kernel", "matmul_host")
        self.assertEqual(make("CPU").returncode, 0)
        self.assertEqual([path.name for path in out.iterdir()], ["matmul_host_CPU.tfpack"])
        done = make("all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["matmul_host_CPU.tfpack", "matmul_host_other.tfpack"])
        self.assertEqual(self.load(out / "matmul_host_other.tfpack", "matmul_host").plan(96, 64, 64).match, EXACT)

    def test_packages_for_cards_that_are_not_here(self):
        if not any("NVRTC" in line for line in self.farm.info().get("toolchains", [])):
            self.skipTest("there is no NVRTC")
        classes = {known["short_name"]: known["device_class"] for known in self.farm.json("devices", "--known")["classes"]}
        kernels = self.farm.directory / "cards"
        folder = kernels / "grouped_gemm" / "bests"
        folder.mkdir(parents=True)
        kinds = {bool: "bool_value", int: "int_value", str: "string_value"}
        for card in ("H100", "H200"):
            bests = []
            for op in ("forward", "dx", "dw"):
                parameters = self.farm.json("kernels", "show", f"grouped_gemm_{op}")["parameters"]
                values = {one["name"]: {kinds[type(one["default_value"])]: one["default_value"]} for one in parameters}
                bests.append({"kernel_name": f"grouped_gemm_{op}", "program_digest": "of another version",
                              "problem": {"dims": {"tokens": {"int_value": 512}}}, "device_class_id": classes[card]["id"],
                              "device_class_name": classes[card]["display_name"], "config": {"values": values},
                              "measurement": {"median_ns": 1000}})
            content = {"format": "tunefarm-bests", "version": 1, "source": {"host": "a test"}, "bests": bests}
            (folder / f"{card}.json").write_text(json.dumps(content))
        out = self.farm.directory / "for_cards"
        done = subprocess.run([KERNELS / "packages.sh", BIN, kernels, out, "all"], env=dict(os.environ, TUNEFARM_KERNELS=str(KERNELS)),
                              capture_output=True, text=True, timeout=HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Left out", done.stderr)
        for card in ("H100", "H200"):
            shown = self.farm.json("inspect", out / f"grouped_gemm_{card}.tfpack")
            self.assertEqual({kernel["name"] for kernel in shown["kernels"]}, {f"grouped_gemm_{op}" for op in ("forward", "dx", "dw")})
            self.assertEqual({binary["kind"] for binary in shown["binaries"]}, {"CUBIN"})

    def test_what_cannot_be_packaged_is_said_by_name(self):
        self.farm.cli("tune", "vector_add_host", "--dim", "N=512", "--pin", "UNROLL=2", *SEARCH)
        file, done = self.export("--kernel", "vector_add_host")
        self.assertTrue(file.exists())
        self.assertIn("Left out vector_add_host for N=512|pinned:UNROLL=2", done.stderr)
        file, done = self.export("--kernel", "vector_add_host", "--dim", "N=512", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing can be packaged", done.stderr)
        self.assertFalse(file.exists())
        self.assertEqual(self.export("--kernel", "vector_add_host", "--dim", "N=77", check=False)[1].returncode, 3)


if __name__ == "__main__":
    unittest.main()
