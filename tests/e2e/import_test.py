"""What other tools write, read and tuned; and our results as they read them."""

import csv
import gzip
import json
import os
import pathlib
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

from farm import SharedFarm, assert_ordinals_complete, config, outcome, search

SOURCES = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "t1"

# What TuningSchema's results-schema 1.0.0 demands; checked by hand where python3-jsonschema or the schema is not there.
INVALIDITY = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
TIMES = {"compilation_time": (int, float), "runtimes": list, "framework": (int, float), "search_algorithm": (int, float),
         "validation": (int, float)}


def check_t4(test, document):
    test.assertRegex(document["schema_version"], r"^[0-9]+\.[0-9]+\.[0-9]+$")
    test.assertIsInstance(document["results"], list)
    for row in document["results"]:
        for key in ("configuration", "times", "invalidity", "correctness"):
            test.assertIn(key, row)
        test.assertIsInstance(row["configuration"], dict)
        test.assertIsInstance(row["timestamp"], str)
        test.assertIsInstance(row["objectives"], list)
        test.assertIn(row["invalidity"], INVALIDITY)
        test.assertIsInstance(row["correctness"], (int, float))
        for key, kind in TIMES.items():
            if key in row["times"]:
                test.assertIsInstance(row["times"][key], kind)
        for measurement in row["measurements"]:
            test.assertIsInstance(measurement["name"], str)
            test.assertIsInstance(measurement["value"], (int, float, str, list))
            test.assertIsInstance(measurement["unit"], str)
    schema = pathlib.Path(os.environ.get("TUNEFARM_TEST_DATA", "/nowhere")) / "schemas" / "T4-results-schema-1.0.0.json"
    try:
        import jsonschema
    except ImportError:
        return
    if schema.exists():
        jsonschema.validate(document, json.loads(schema.read_text()))


class Import(SharedFarm):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.farm.directory))

    def copy(self, *names):
        for name in names:
            shutil.copy(SOURCES / name, self.folder / name)
        return self.folder / names[0]

    def refused(self, code, *words, command):
        done = self.farm.cli(*command, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if line.startswith("tunefarm: ")]), 1, done.stderr)

    def test_a_t1_file_is_imported_tuned_and_exported(self):
        file = self.copy("running_sum.json", "running_sum.cc")
        made = self.folder / "made"
        done = self.farm.cli("import", "t1", file, "--language", "host", "--to", made)
        self.assertIn("20 valid configs of 24", done.stdout)
        self.assertIn("--max-trials 6", done.stderr)
        self.farm.cli("kernels", "check", made)
        done = self.farm.cli("tune", made, "--policy", "fast")
        job = self.farm.json("jobs", "list")["jobs"][0]["name"].removeprefix("jobs/")
        trials = self.farm.trials(job)
        assert_ordinals_complete(trials)
        self.assertEqual({outcome(t) for t in trials}, {"OK"}, [t.get("message") for t in trials])
        self.assertEqual(len(search(trials)), 20)

        results = self.folder / "results.json"
        self.farm.cli("export", "t4", job, "--file", results)
        document = json.loads(results.read_text())
        check_t4(self, document)
        self.assertEqual(len(document["results"]), 20)
        self.assertEqual({row["invalidity"] for row in document["results"]}, {"correct"})
        self.assertEqual(list(document["results"][0]["configuration"]), ["CHUNK", "UNROLL", "FUSED"])
        of_trial = {json.dumps(config(t), sort_keys=True): t for t in search(trials)}
        for row in document["results"]:
            trial = of_trial[json.dumps(row["configuration"], sort_keys=True)]
            (time,) = [m["value"] for m in row["measurements"] if m["name"] == "time"]
            self.assertAlmostEqual(time, trial["measurement"]["median_ns"] / 1e6)
        self.assertEqual(json.loads(self.farm.cli("export", "t4", job).stdout), document)
        self.refused(3, "has no study 7", command=["export", "t4", job, "--study", "7"])

        # The same results from a job and from its file give the same simulation.
        curves, plot = self.folder / "curves.csv", self.folder / "plot.svg"
        done = self.farm.cli("simulate", job, results, "--strategy", "random,genetic", "--repeats", "4", "--csv", curves, "--plot", plot,
                             "--output", "csv")
        rows = [line.split(",") for line in done.stdout.splitlines()[1:]]
        self.assertEqual([row[-6] for row in rows], ["random", "genetic"] * 2)
        self.assertEqual([row[-5] for row in rows[:2]], [row[-5] for row in rows[2:]])
        self.assertGreater(len(curves.read_text().splitlines()), 4)
        self.assertEqual(xml.etree.ElementTree.parse(plot).getroot().tag, "{http://www.w3.org/2000/svg}svg")
        self.refused(2, "did you mean 'genetic'", command=["simulate", results, "--strategy", "genetics"])

        # In every point of every curve.
        sources = {"job": ["--job", job], "file": [results]}
        drawn = {}
        for name, source in sources.items():
            self.farm.cli("simulate", *source, "--strategy", "random,genetic", "--repeats", "4", "--csv", curves)
            drawn[name] = [row[:1] + row[2:] for row in csv.reader(curves.read_text().splitlines())]
        self.assertEqual(drawn["job"], drawn["file"])
        self.assertIn("all 20 valid configs were measured", self.farm.cli("simulate", "--job", job).stderr)
        # A kernel stands for its newest job.
        by_kernel = self.farm.cli("simulate", made, "--strategy", "random", "--repeats", "2", "--output", "csv").stdout
        by_job = self.farm.cli("simulate", job, "--strategy", "random", "--repeats", "2", "--output", "csv").stdout
        self.assertEqual(by_kernel, by_job)
        self.refused(3, "tunefarm tune vector_add_host", command=["simulate", "vector_add_host"])
        self.started_from(results, document)
        self.joined(made, job)
        self.refused(2, "nothing in the recording", command=["simulate", self.failed_only(results)])

    def started_from(self, results, document):
        """The fastest results of a file are what the next search tries first, here of a kernel that only the daemon knows."""
        packed = results.with_suffix(".json.gz")
        packed.write_bytes(gzip.compress(results.read_bytes()))
        time = {json.dumps(row["configuration"], sort_keys=True):
                [m["value"] for m in row["measurements"] if m["name"] == "time"][0] for row in document["results"]}
        for file in (results, packed):
            done = self.farm.cli("tune", "running_sum", "--starting-configs", file, "--policy", "fast", "--strategy", "random",
                                 "--max-trials", "3")
            self.assertIn("the fastest 16 of 20 configs that fit are tried first", done.stderr)
            number = self.farm.json("jobs", "list")["jobs"][0]["name"].removeprefix("jobs/")
            tried = [json.dumps(config(t), sort_keys=True) for t in search(self.farm.trials(number))]
            self.assertEqual(sorted(tried), sorted(sorted(time, key=time.get)[:3]))

    def joined(self, made, whole):
        """Jobs of one question are joined; what was never measured is no choice, and that is said."""
        numbers = []
        for seed in ("1", "2"):
            self.farm.cli("tune", made, "--policy", "fast", "--strategy", "random", "--seed", seed, "--max-trials", "6")
            numbers.append(self.farm.json("jobs", "list")["jobs"][0]["name"].removeprefix("jobs/"))
        configs = [{json.dumps(config(t), sort_keys=True) for t in search(self.farm.trials(n))} for n in numbers]
        for jobs, measured in (([numbers[0]], configs[0]), (numbers, configs[0] | configs[1])):
            done = self.farm.cli("simulate", "--job", ",".join(jobs), "--repeats", "2", "--output", "csv")
            self.assertIn(f"{len(measured)} of 20 valid configs were measured", done.stderr)
            self.assertEqual({row[1] for row in csv.reader(done.stdout.splitlines()[1:])}, {str(len(measured))})
        other = self.copy("running_sum.json", "running_sum.cc")
        self.farm.cli("import", "t1", other, "--language", "host", "--to", self.folder / "other", "--name", "other_sum")
        self.farm.cli("tune", self.folder / "other", "--policy", "fast", "--max-trials", "3")
        number = self.farm.json("jobs", "list")["jobs"][0]["name"].removeprefix("jobs/")
        self.refused(2, "cannot be joined", command=["simulate", "--job", f"{whole},{number}"])
        self.refused(2, "nothing to simulate on", command=["simulate"])

    def test_files_of_other_tools_are_simulated(self):
        recorded = SOURCES.parent / "t4"
        packed = self.folder / "small results.json.gz"
        packed.write_bytes(gzip.compress((recorded / "small_T4.json").read_bytes()))
        done = self.farm.cli("simulate", packed, recorded / "killed_cache.json", "--repeats", "2", "--output", "csv")
        self.assertIn("miliseconds", done.stderr)
        self.assertIn("ends in the middle", done.stderr)
        rows = [row[:2] for row in csv.reader(done.stdout.splitlines()[1:])]
        self.assertEqual(rows, [["small results", "4"]] * 2 + [["killed_cache", "3"]] * 2)
        # Rows that failed as Kernel Tuner 1.4 writes them, a NaN, an objective that is maximised, and one that is chosen.
        for file, options, note, count in (
                ("failed_rows_cache.json", (), "", "4"),
                ("rates_T4.json", (), "GFLOP/s is maximised", "2"),
                ("rates_T4.json", ("--recorded-objective", "time"), "", "3")):
            done = self.farm.cli("simulate", recorded / file, "--repeats", "2", "--output", "csv", *options)
            self.assertIn(note, done.stderr)
            self.assertEqual({row[1] for row in csv.reader(done.stdout.splitlines()[1:])}, {count})
        self.refused(2, 'none has a "speed" above 0',
                     command=["simulate", recorded / "rates_T4.json", "--recorded-objective", "speed"])

    def test_a_bad_file_of_results_is_refused_with_its_place(self):
        whole = (SOURCES.parent / "t4" / "small_T4.json").read_text()
        file = self.folder / "bad.json"
        for text, words in (
                (whole.replace('"invalidity": "compile"', '"invalidity": "broken"'), ("bad.json:12:", "/results/2/invalidity")),
                (whole.replace('"tile": 2.5', '"tile": [2.5]'), ("bad.json:14:", "/results/3/configuration/tile")),
                (whole.replace('"block_size_x": 64', '"block_size_x": 1e999'), ("bad.json:8:",)),
                ("[" * 100_000, ("bad.json:1:",)),
                ("", ("bad.json:1:1",)),
                (whole.replace('"results"', '"reslts"'), ("bad.json:1:1", "neither")),
                (whole.replace('"miliseconds"', '"fortnights"'), ("bad.json:3:", "no known unit of time")),
        ):
            file.write_text(text)
            self.refused(2, *words, command=["simulate", file])
            self.refused(2, *words, command=["submit", "matmul_host", "--starting-configs", file])
        file.write_bytes(gzip.compress(whole.encode())[:-12])
        for command in (["simulate", file], ["submit", "matmul_host", "--starting-configs", file]):
            self.refused(2, "bad.json", command=command)
        self.refused(3, "nowhere", command=["simulate", self.folder / "nowhere.json"])

    def failed_only(self, results):
        document = json.loads(results.read_text())
        for row in document["results"]:
            row["invalidity"] = "runtime"
        file = self.folder / "failed.json"
        file.write_text(json.dumps(document))
        return file

    def test_a_wrong_kernel_is_found_out(self):
        file = self.copy("running_sum.json", "running_sum.cc")
        source = self.folder / "running_sum.cc"
        source.write_text(source.read_text().replace("sum += x[i];", "sum += x[i] * (UNROLL == 4 ? 1.01f : 1.0f);"))
        made = self.folder / "made"
        self.farm.cli("import", "t1", file, "--language", "host", "--to", made, "--name", "wrong sum")
        self.farm.cli("tune", made, "--policy", "fast")
        job = self.farm.json("jobs", "list")["jobs"][0]
        self.assertEqual(job["kernel_name"], "wrong_sum")
        number = job["name"].removeprefix("jobs/")
        for trial in search(self.farm.trials(number)):
            self.assertEqual(outcome(trial), "WRONG_RESULT" if config(trial)["UNROLL"] == 4 else "OK", trial.get("message"))
        rows = json.loads(self.farm.cli("export", "t4", number, "--finals").stdout)["results"]
        for row in rows:
            self.assertEqual(row["invalidity"], "correctness" if row["configuration"]["UNROLL"] == 4 else "correct")
            self.assertEqual(row["correctness"] < 1, row["configuration"]["UNROLL"] == 4)

    def test_without_expected_values_the_default_config_is_the_judge(self):
        file = self.copy("running_sum.json", "running_sum.cc")
        document = json.loads(file.read_text())
        del document["KernelSpecification"]["ReferenceArguments"]
        # Without its counter of chunks, which differs from config to config.
        file.write_text(json.dumps(document))
        source = self.folder / "running_sum.cc"
        source.write_text(source.read_text().replace("log[0] += 1;", "log[0] = 1;"))
        made = self.folder / "made"
        done = self.farm.cli("import", "t1", file, "--language", "host", "--to", made, "--name", "self_judged")
        self.assertIn("every config is compared with the default config", done.stderr)
        self.farm.cli("tune", made, "--policy", "fast", "--max-trials", "6")
        job = self.farm.json("jobs", "list")["jobs"][0]["name"].removeprefix("jobs/")
        self.assertEqual({outcome(t) for t in self.farm.trials(job)}, {"OK"})

    def test_kernel_tuners_dialect_has_its_counts_without_a_gpu(self):
        file = self.copy("stencil.json", "stencil.cu", "stencil_bias.h")
        made = self.folder / "made"
        done = self.farm.cli("import", "t1", file, "--to", made)
        self.assertIn("GlobalSize and LocalSize are not read", done.stderr)
        self.assertTrue((made / "stencil_bias.h").exists())
        space = self.farm.json("kernels", "space", made, "--device", "H200")["space"]
        self.assertIn(f"{int(space['valid'])} valid configs of", done.stdout)
        limited = self.farm.cli("import", "t1", file, "--to", self.folder / "limited", "--thread-limit", "64")
        self.assertNotEqual(limited.stdout.split("space: ")[1], done.stdout.split("space: ")[1])
        self.farm.cli("import", "t1", file, "--to", self.folder / "compared", "--reference", f"{self.folder / 'stencil.cu'}:stencil_reference",
                      "--reference-grid", "1200", "--reference-block", "256")
        self.farm.cli("kernels", "check", self.folder / "compared")

    def test_bad_files_are_refused_with_one_sentence_and_a_place(self):
        file = self.copy("running_sum.json", "running_sum.cc")
        whole = file.read_text()
        command = ["import", "t1", file, "--language", "host", "--to", self.folder / "made"]
        for text, words in (
                (whole[:300], (f"{file}:", "not valid JSON")),
                (whole.replace("4**i", "4**(i*40)"), (f"{file}:4:", "/ConfigurationSpace/TuningParameters/0/Values", "64 bits")),
                (whole.replace("range(3)", "range(10**9)"), (f"{file}:4:", "more than 65536")),
                (whole.replace("CHUNK // UNROLL", "CHUNK // UNROL"), (f"{file}:9:", "unknown name 'UNROL'")),
                (whole.replace("\"running_sum.cc\"", "\"../running_sum.cc\""), ("/KernelSpecification/KernelFile",)),
                (whole.replace("\"running_sum.cc\"", "\"/etc/hostname\""), ("/KernelSpecification/KernelFile",)),
                ("[" * 100_000, (f"{file}:1:", "nested more than")),
                (whole + " " * (1 << 20), ("1048576",)),
        ):
            file.write_text(text)
            code = 1 if len(text) > 1 << 20 else 2
            self.refused(code, *words, command=command)
        self.assertFalse((self.folder / "made" / "kernel.pbtxt").exists())
        file.write_text(whole)
        self.farm.cli(*command)
        self.refused(1, "exists", "--force", command=command)
        self.farm.cli(*command, "--force")
        self.refused(3, "nowhere", command=["import", "t1", self.folder / "nowhere.json"])


if __name__ == "__main__":
    unittest.main()
