"""What ./dev configures, without building anything: cmake, cpack, ctest and dpkg-query are scripts that write
down their arguments."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
# `cmake --preset NAME -DVARIABLE=VALUE ...` keeps the values in the build tree's cache, as CMake does.
CMAKE = """#!/bin/sh
echo "cmake $*" >> "$CALLS"
[ "$1" = --preset ] || exit "${BUILD_STATUS:-0}"
mkdir -p "build/$2"
for word; do case $word in -D*) echo "${word#-D}" | sed 's/=/:BOOL=/' >> "build/$2/CMakeCache.txt" ;; esac; done
"""
CTEST = """#!/bin/sh
echo "ctest $*" >> "$CALLS"
mkdir -p "$2/Testing/Temporary"
printf 'NOT TESTED: mounts are not permitted here\\n%.0s' 1 2 > "$2/Testing/Temporary/LastTest.log"
"""
CPACK = """#!/bin/sh
mkdir -p packages && touch packages/new.deb
"""
INSTALLED = """#!/bin/sh
shift 2
for package; do echo "$package install ok installed"; done
"""


class Dev(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tunefarm-dev.")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.calls = self.root / "calls"
        shutil.copy2(SOURCE / "dev", self.root / "dev")
        self.script("client/cli/demo.sh", "#!/bin/sh\n")
        for name, text in (("cmake", CMAKE), ("cpack", CPACK), ("ctest", CTEST), ("dpkg-query", INSTALLED)):
            self.script(f"bin/{name}", text)

    def script(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def dev(self, *arguments, status=0, **variables):
        """Values of TUNEFARM_WERROR that the command gave to CMake, and what it printed for people."""
        self.calls.write_text("")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TUNEFARM_", "CUDA_"))}
        environment.update(variables, CALLS=str(self.calls), PATH=f"{self.root / 'bin'}:{os.environ['PATH']}")
        done = subprocess.run(["./dev", *arguments], cwd=self.root, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        (configured,) = [line for line in self.calls.read_text().splitlines() if line.startswith("cmake --preset")]
        return [word.split("=")[1] for word in configured.split() if word.startswith("-DTUNEFARM_WERROR=")], done.stderr

    def test_warnings_are_errors_in_a_tree_that_starts_with_the_tests_and_stay_so(self):
        self.assertEqual(self.dev("test")[0], ["ON"])
        self.assertEqual(self.dev("demo")[0], [])
        self.assertEqual(self.dev("test")[0], [])

    def test_warnings_are_no_errors_in_a_tree_that_starts_with_the_demo_and_stay_so(self):
        self.assertEqual(self.dev("demo")[0], [])
        self.assertEqual(self.dev("test")[0], [])

    def test_the_environment_decides_over_both(self):
        self.assertEqual(self.dev("demo", TUNEFARM_WERROR="ON")[0], ["ON"])
        self.assertEqual(self.dev("test", TUNEFARM_WERROR="OFF")[0], ["OFF"])
        shutil.rmtree(self.root / "build")
        self.assertEqual(self.dev("test", TUNEFARM_WERROR="OFF")[0][-1], "OFF")

    def test_a_failed_build_names_the_switch_where_warnings_are_errors(self):
        self.assertIn("TUNEFARM_WERROR=OFF", self.dev("test", status=1, BUILD_STATUS="1")[1])
        shutil.rmtree(self.root / "build")
        self.assertNotIn("TUNEFARM_WERROR", self.dev("demo", status=1, BUILD_STATUS="1")[1])

    def test_what_the_machine_does_not_permit_is_said_once(self):
        self.assertEqual(self.dev("test")[1].count("not tested: mounts are not permitted here"), 1)

    def test_packages_are_made_anew_and_dropped_results_are_no_errors_there(self):
        packages = self.root / "build" / "deb" / "packages"
        packages.mkdir(parents=True)
        (packages / "old.deb").touch()
        self.assertEqual(self.dev("deb", TUNEFARM_WERROR="ON")[0], ["OFF"])
        self.assertEqual([file.name for file in packages.iterdir()], ["new.deb"])

    def test_packages_are_made_by_the_build(self):
        self.script("kernels/packages.sh", '#!/bin/sh\necho "packages $*" >> "$CALLS"\n')
        self.script("cuda/include/cuda.h", "")
        for options, card in (((), "all"), (("--device", "H100"), "H100")):
            self.dev("packages", *options, CUDA_HOME=str(self.root / "cuda"))
            self.assertRegex(self.calls.read_text(), rf"\npackages \S+/build/release/bin kernels build/packages {card}\n$")

    def test_scripts_pass_shellcheck(self):
        subprocess.run(["shellcheck", SOURCE / "dev", SOURCE / ".ci" / "run", SOURCE / "kernels" / "packages.sh",
                        SOURCE / "client" / "web" / "build_page.sh", SOURCE / "tests" / "tidy" / "web_types.sh", *(SOURCE / "tests" / "install").glob("*.sh"),
                        *(SOURCE / "server" / "cmake" / "debian").glob("*/p*")], check=True)


if __name__ == "__main__":
    assert shutil.which("shellcheck"), "shellcheck is missing; install Debian's shellcheck"
    unittest.main()
