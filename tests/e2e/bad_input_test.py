"""Bad input and bad surroundings: one clear sentence, the right exit code, nothing lost."""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import permitted
from farm import BIN, HANG_SECONDS, KERNELS, Farm, SharedFarm, config, search, wait_until

VALID = '''
display_name: "tiny"
language: LANGUAGE_HOST_CXX
sources { path: "tiny.cc" }
dims { name: "SIZE" default_value { int_value: 64 } }
parameters { name: "WIDTH" values { ints: 1 ints: 2 } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "SIZE" access: ACCESS_OUT } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I32 value: "SIZE" } }
launches { kernel { entry: "tiny" arguments: "y" arguments: "n" } }
reference { steps { kernel { entry: "tiny" arguments: "y" arguments: "n" } } }
'''
SOURCE = 'extern "C" void tiny(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = i; }\n'


class BadInput(SharedFarm):
    def definition(self, text):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory))
        (folder / "kernel.pbtxt").write_text(text)
        (folder / "tiny.cc").write_text(SOURCE)
        return folder

    def refused(self, code, *words, command):
        done = self.farm.cli(*command, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        message = [line for line in done.stderr.splitlines() if line.startswith("tunefarm: ")]
        self.assertEqual(len(message), 1, done.stderr)
        return done.stderr

    def test_a_built_in_kernel_that_was_never_tuned_is_no_unknown_name(self):
        snapshot = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory)) / "snapshot"
        for command in (["best", "grouped_gemm_forward"], ["export", "snapshot", snapshot, "--kernel", "grouped_gemm_forward"]):
            self.refused(3, "run: tunefarm tune grouped_gemm_forward", command=command)
        for verb in (["pin"], ["unpin"], ["retire"], ["note", "slow"]):
            self.refused(3, "grouped_gemm_forward was never tuned here; run: tunefarm tune grouped_gemm_forward --dim topk=8",
                         command=["best", verb[0], "grouped_gemm_forward", *verb[1:], "--dim", "topk=8"])

    def test_the_command_that_tunes_what_was_asked_can_be_copied(self):
        own = VALID.replace('display_name: "tiny"', 'display_name: "spaced"')
        folder = pathlib.Path(self.definition(own + 'parameters { name: "MODE" values { strings: "1_000" strings: "1" } }\n'))
        spaced = folder.rename(folder.with_name("sp ace"))
        asked = [str(spaced), "--dim", "SIZE=70", "--pin", "MODE=1_000"]
        said = self.refused(3, "never tuned here; run: tunefarm tune", command=["best", *asked])
        again = shlex.split(said[said.index("tunefarm tune"):])
        self.assertEqual(again[1:], ["tune", *asked])
        self.farm.cli(*again[1:], "--policy", "fast")
        self.assertIn("EXACT", self.farm.cli("best", *asked).stdout)

    def test_all_errors_of_a_definition_come_at_once(self):
        text = VALID.replace("ACCESS_OUT", "INN").replace("DATA_TYPE_I32", "INT32")
        said = self.refused(2, "did you mean 'IN'", "kernel.pbtxt:7:", "kernel.pbtxt:8:",
                            command=["kernels", "check", self.definition(text)])
        self.assertNotIn("kernel.pbtxt:6:", said)
        text = VALID.replace('length: "SIZE"', 'length: "SIZ"').replace('value: "SIZE"', 'value: "SIZES"')
        self.refused(2, "kernel.pbtxt:7:", "kernel.pbtxt:8:", "did you mean 'SIZE'", command=["kernels", "check", self.definition(text)])

    def test_short_forms_are_accepted(self):
        text = VALID.replace("ACCESS_OUT", "out").replace("DATA_TYPE_", "").replace("LANGUAGE_HOST_CXX", "HOST")
        text = text.replace("{ int_value: 64 }", ": 64").replace("{ ints: 1 ints: 2 }", ": [1, 2]")
        self.assertIn("OK", self.farm.cli("kernels", "check", self.definition(text)).stdout)
        self.assertEqual(self.farm.cli("kernels", "check", self.definition(text)).stdout.splitlines()[1:],
                         self.farm.cli("kernels", "check", self.definition(VALID)).stdout.splitlines()[1:])

    def test_a_valid_definition_is_accepted(self):
        self.farm.cli("tune", self.definition(VALID), "--policy", "fast")

    def test_malformed_definition_names_line_and_column(self):
        folder = self.definition(VALID.replace('values { ints: 1', 'valeus { ints: 1'))
        self.refused(2, "kernel.pbtxt:6:", "valeus", command=["tune", folder])

    def test_bad_expression_shows_a_caret(self):
        folder = self.definition(VALID + 'constraints { expression: "WIDTH * Q < 3" }\n')
        text = self.refused(2, "kernel.pbtxt:", "unknown name 'Q'", command=["kernels", "check", folder])
        self.assertIn("^", text)

    def test_unknown_parameter_and_dim(self):
        folder = self.definition(VALID)
        self.refused(2, "'WIDTHS'", "did you mean 'WIDTH'", command=["tune", folder, "--pin", "WIDTHS=1"])
        self.refused(2, "'SIZES'", "did you mean 'SIZE'", command=["tune", folder, "--dim", "SIZES=1"])
        self.refused(2, "WIDTHS", command=["run", folder, "WIDTHS=1"])
        self.refused(2, "'WIDTH' is no setting of a parameter; write NAME=VALUE", command=["run", folder, "WIDTH"])

    def test_empty_space_says_which_rule(self):
        folder = self.definition(VALID + 'constraints { expression: "WIDTH > 5" reason: "five is the least" }\n')
        self.refused(2, "WIDTH > 5", command=["tune", folder])

    def test_a_huge_space_is_not_listed(self):
        parameters = "".join(f'parameters {{ name: "Q{i}" range {{ first: 1 last: 100 }} }}\n' for i in range(6))
        folder = self.definition(VALID + parameters)
        self.refused(2, "exhaustive", command=["tune", folder, "--strategy", "exhaustive"])
        self.farm.cli("tune", folder, "--strategy", "random", "--max-trials", "3", "--policy", "fast")

    def test_a_problem_that_does_not_fit(self):
        folder = self.definition(VALID.replace("DATA_TYPE_I32", "DATA_TYPE_I64"))
        self.refused(2, "memory", command=["tune", folder, "--dim", f"SIZE={1 << 39}"])

    def test_unknown_device_kernel_and_job(self):
        folder = self.definition(VALID)
        self.refused(3, "H900", command=["tune", folder, "--device", "H900"])
        self.refused(3, "no_such_kernel", command=["tune", "no_such_kernel"])
        self.refused(3, "999", command=["jobs", "show", "999"])
        self.refused(2, "'xyz'", command=["jobs", "show", "xyz"])
        self.refused(3, "tiny2", command=["best", "tiny2"])

    def test_a_gpu_kernel_without_a_gpu(self):
        self.refused(3, "CUDA", command=["tune", "matmul"])

    def test_usage(self):
        self.refused(2, "did you mean 'tune'", command=["tunee"])
        self.refused(2, "--max-trials", command=["tune", "matmul_host", "--max-trials", "0"])
        self.refused(2, "NAME=VALUE", command=["tune", "matmul_host", "--dim", "M"])

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in (["tunefarm", "--version"], ["tunefarm", "kernels", "show", "matmul_host"], ["tunefarmd", "--help"],
                        ["tunefarmd", "copy-database", "--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BIN / command[0], *command[1:]], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=HANG_SECONDS, env=dict(os.environ, TUNEFARM_KERNELS=str(KERNELS)))
            self.assertEqual(done.returncode, 1, (command, done.stderr))
            self.assertIn("cannot write standard output: No space left on device", done.stderr)
        done = subprocess.run(["sh", "-c", 'exec "$0" --version >&-', BIN / "tunefarm"], stderr=subprocess.PIPE, text=True,
                              timeout=HANG_SECONDS)
        self.assertEqual((done.returncode, done.stderr), (1, "tunefarm: cannot write standard output: Bad file descriptor\n"))

    def test_a_pipe_is_no_file_to_read(self):
        pipe = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory)) / "kernel.pbtxt"
        os.mkfifo(pipe)
        for command in (["import", "t1", pipe], ["simulate", pipe], ["kernels", "check", pipe], ["tune", pipe.parent],
                        ["submit", "matmul_host", "--starting-configs", pipe]):
            self.refused(2, f"{pipe} is ", command=command)

    def test_strings_that_look_like_numbers_are_strings(self):
        modes = ("1", "true", "007", "1e3", "nan", "inf")
        values = " ".join(f'strings: "{mode}"' for mode in modes)
        folder = self.definition(VALID + f'parameters {{ name: "MODE" values {{ {values} }} }}\n')
        for mode in modes:
            done = self.farm.cli("run", folder, "WIDTH=1", f"MODE={mode}", "--policy", "fast")
            self.assertIn(f"MODE={mode} WIDTH=1", done.stdout)
            (again,) = [line for line in done.stderr.splitlines() if line.startswith("Reproduce: tunefarm ")]
            self.assertIn(f"MODE={mode} WIDTH=1", self.farm.cli(*shlex.split(again)[2:], "--policy", "fast").stdout)
        self.farm.cli("tune", folder, "--pin", "MODE=007", "--policy", "fast")
        self.refused(2, "'8'", "MODE", command=["tune", folder, "--pin", "MODE=8"])

    def test_the_daemon_took_no_harm(self):
        self.assertEqual(self.farm.cli("status").returncode, 0)


class BadSurroundings(unittest.TestCase):
    def daemon(self, *flags, environment=None):
        return subprocess.run([BIN / "tunefarmd", *map(str, flags)], capture_output=True, text=True, timeout=HANG_SECONDS,
                              env=dict(os.environ, **(environment or {})), stdin=subprocess.DEVNULL)

    def refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tunefarmd: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_second_daemon(self):
        with Farm() as farm:
            farm.start()
            self.refused(self.daemon("--data-dir", farm.directory), 75, "another daemon", str(farm.process.pid))
            self.assertEqual(farm.cli("status").returncode, 0)

    def test_a_newer_database(self):
        with Farm() as farm:
            farm.start()
            farm.stop()
            with sqlite3.connect(farm.directory / "tunefarm.db") as database:
                database.execute("PRAGMA user_version = 9999")
            database.close()
            self.refused(self.daemon("--data-dir", farm.directory), 1, "newer")

    def test_a_file_that_is_no_database(self):
        with Farm() as farm:
            (farm.directory / "tunefarm.db").write_text("this is not a database, but some text that somebody wrote\n" * 100)
            self.refused(self.daemon("--data-dir", farm.directory), 1, "tunefarm.db")

    def test_a_plaintext_address_for_others(self):
        with Farm() as farm:
            self.refused(self.daemon("--data-dir", farm.directory, "--listen", "0.0.0.0:7070"), 2, "loopback")

    def test_configuration_errors_have_a_place(self):
        with Farm() as farm:
            file = farm.directory / "config.toml"
            file.write_text('log_level = "info"\nlisten_on = "x"\n')
            self.refused(self.daemon("--config", file), 2, "config.toml:2:1", "listen_on", "did you mean 'listen'")
            file.write_text('compile_workers = "many"\n')
            self.refused(self.daemon("--config", file), 2, "config.toml:1:", "whole number")

    def test_a_read_only_directory(self):
        with Farm() as farm:
            permitted.mount("-t", "tmpfs", "-o", "size=16m", "tmpfs", farm.directory)
            try:
                subprocess.run(["mount", "-o", "remount,ro", farm.directory], check=True)
                self.refused(self.daemon("--data-dir", farm.directory), 1, str(farm.directory))
            finally:
                subprocess.run(["umount", farm.directory], check=True)

    def test_an_emptied_database_is_not_taken_for_a_new_one(self):
        with Farm() as farm:
            farm.start()
            farm.cli("db", "backup", "copy.db")
            farm.stop()
            database, marker = farm.directory / "tunefarm.db", farm.directory / "tunefarm.db.initialized"
            for empty, words in ((lambda: os.truncate(database, 0), "has 0 bytes"), (database.unlink, "is missing")):
                empty()
                self.refused(self.daemon("--data-dir", farm.directory), 1, words, "restore a backup", f"remove {marker}")
            shutil.copyfile(farm.directory / "backups" / "copy.db", database)
            farm.start()
            farm.stop()
            database.unlink()
            marker.unlink()
            farm.start()
            self.assertTrue(marker.exists())
            farm.stop()

    def test_a_daemon_starts_on_a_full_disk(self):
        with Farm("--min-free-disk-bytes", 12 << 20) as farm:
            permitted.mount("-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", farm.directory)
            try:
                farm.start()
                tiny = ["matmul_host", "--policy", "fast", "--dim", "M=32", "--dim", "N=32", "--dim", "K=32",
                        "--strategy", "random", "--max-trials", "8"]
                farm.cli("tune", *tiny)
                filler = farm.directory / "filler"
                with open(filler, "wb", buffering=0) as out, contextlib.suppress(OSError):
                    while True:
                        out.write(b"x" * 4096)
                farm.kill()
                for _ in range(2):
                    farm.start()
                    self.assertEqual(farm.json("best", "matmul_host", "--exact", *tiny[3:9])["match"], "MATCH_EXACT")
                    refused = farm.cli("submit", *tiny, check=False)
                    self.assertNotEqual(refused.returncode, 0)
                    self.assertIn("free space", refused.stderr)
                    farm.stop()
                farm.start()
                filler.unlink()
                wait_until(lambda: farm.cli("submit", *tiny, check=False).returncode == 0, "room for a job")
                self.assertTrue((farm.directory / "disk.reserve").exists())
                farm.stop()
            finally:
                if farm.process and farm.process.poll() is None:
                    farm.kill()
                farm.assert_no_orphans()
                subprocess.run(["umount", "-l", farm.directory], check=True)

    def test_a_full_disk_loses_nothing(self):
        # Without the floor, which would pause the work long before the disk is full.
        with Farm("--launch-timeout-ms", "1500", "--min-free-disk-bytes", "0") as farm:
            permitted.mount("-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", farm.directory)
            try:
                farm.start()
                tiny = ["tune", "matmul_host", "--policy", "fast", "--dim", "M=32", "--dim", "N=32", "--dim", "K=32",
                        "--strategy", "random", "--max-trials", "8"]
                farm.cli(*tiny)
                filler = farm.directory / "filler"
                with open(filler, "wb", buffering=0) as out:
                    try:
                        while True:
                            out.write(b"x" * 65536)
                    except OSError:
                        pass
                    try:
                        while True:
                            out.write(b"x" * 512)
                    except OSError:
                        pass
                refused = farm.cli("submit", "matmul_host", "--dim", "M=48", check=False)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn("disk", refused.stderr.lower())
                # What was stored is still there and is still answered.
                self.assertEqual(farm.json("best", "matmul_host", "--exact", *tiny[4:10])["match"], "MATCH_EXACT")
                filler.unlink()
                farm.cli(*tiny)
                self.assertEqual(len(farm.json("jobs", "list")["jobs"]), 2)
                farm.stop()
            finally:
                if farm.process and farm.process.poll() is None:
                    farm.kill()
                farm.assert_no_orphans()
                subprocess.run(["umount", "-l", farm.directory], check=True)


class DamagedTrials(unittest.TestCase):
    """One damaged row of the database hides no other: it is left out, and that is said."""

    def test_exports_leave_a_damaged_trial_out(self):
        with Farm() as farm:
            farm.start()
            farm.cli("tune", "noop_host", "--dim", "N=32", "--max-trials", "8", "--policy", "fast")
            whole = search(farm.trials(1))
            # The fastest: what is shown of the job itself reads it, too.
            fastest = min(whole, key=lambda trial: trial["measurement"]["median_ns"])
            farm.stop()
            with contextlib.closing(sqlite3.connect(farm.directory / "tunefarm.db")) as database, database:
                changed = database.execute("UPDATE trial_result SET detail = x'ff' WHERE ordinal = ?",
                                           (int(fastest.get("ordinal", 0)),)).rowcount
            self.assertEqual(changed, 1)
            farm.start()
            left_out = "damaged in the daemon's database and is left out"
            exported = farm.cli("export", "t4", "1")
            self.assertIn(left_out, exported.stderr)
            results = json.loads(exported.stdout)["results"]
            self.assertEqual(len(results), len(whole) - 1)
            self.assertNotIn(config(fastest), [result["configuration"] for result in results])
            listed = farm.cli("--output", "json", "results", "1", "--all")
            self.assertIn(left_out, listed.stderr)
            self.assertEqual(len(search(json.loads(listed.stdout)["trials"])), len(whole) - 1)
            self.assertIn("noop_host", farm.cli("results", "1").stdout)


if __name__ == "__main__":
    permitted.main(verbosity=2)
