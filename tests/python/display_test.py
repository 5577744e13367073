"""What values look like in an interpreter and in a notebook, and that they can be pickled. Needs no daemon."""

import dataclasses
import pathlib
import pickle
import subprocess
import sys
import tempfile
import typing
import unittest
import warnings
from unittest import mock

import tunefarm
from tunefarm import _display, model
from tunefarm.results import Listing, Results


def sample(kind, depth=0):
    """A value of a public type, with every field filled."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name], depth + 1) for field in dataclasses.fields(kind)})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return sample(arguments[0], depth)
    if origin is tuple:
        return (sample(arguments[0], depth + 1),)
    if origin is not None:  # A mapping.
        return {sample(arguments[0], depth): sample(arguments[1], depth)}
    if isinstance(kind, type) and issubclass(kind, model._Named):
        return list(kind)[-1]
    return {int: 7, float: 1500.0, bool: True, str: "jobs/7/<b>\x1b[31m" + "x" * 300}[kind]


VALUES = [getattr(tunefarm, name) for name in tunefarm.__all__
          if isinstance(getattr(tunefarm, name), type) and dataclasses.is_dataclass(getattr(tunefarm, name))]


def result(trials, next_page="", unreadable=0):
    return Results(lambda token: (trials, next_page, unreadable), lambda: ["N"], "jobs/7")


class Display(unittest.TestCase):
    def setUp(self):
        # The number of a job is read from its name.
        self.values = [dataclasses.replace(value, name="jobs/7") if isinstance(value, model.Job) else value
                       for value in map(sample, VALUES)]

    def value(self, kind):
        (found,) = [value for value in self.values if type(value) is kind]
        return found

    def test_representations_are_one_short_line(self):
        self.assertGreater(len(self.values), 15)
        many = dataclasses.replace(self.value(model.Parameter), values=tuple(range(100_000)))
        for value in [*self.values, many]:
            text = repr(value)
            self.assertLess(len(text), 700, text)
            self.assertTrue(text.startswith("<" + type(value).__name__), text)
            self.assertTrue(text.isprintable(), text)
        self.assertIn("100000 values", repr(many))

    def test_html_is_escaped(self):
        values = [value for value in self.values if hasattr(value, "_repr_html_")]
        self.assertEqual({type(value).__name__ for value in values},
                         {"Answer", "BestConfig", "Device", "Job", "Kernel", "Study", "Trial"})
        lists = [Listing([value]) for value in values if not isinstance(value, model.Answer)]
        for value in [*values, *lists, result([sample(model.Trial)] * 2)]:
            text = value._repr_html_()
            self.assertIn("<table>", text)
            self.assertNotIn("<b>", text)
            self.assertNotIn("\x1b", text)
            self.assertLess(len(text), 10_000)

    def test_tables_and_lists_are_bounded(self):
        trial, study = sample(model.Trial), sample(model.Study)
        job = dataclasses.replace(self.value(model.Job), studies=(study,) * 256)
        best = dataclasses.replace(self.value(model.BestConfig), config={f"P{at}": at for at in range(95)})
        for value, left in ((result([trial] * 51), "1 more"), (result([trial] * 70, "2"), "at least 20 more"),
                            (result([trial] * 10, "2"), "at least 1 more"), (Listing([trial] * 1000), "950 more"),
                            (job, "206 more"), (best, "50 more")):
            text = value._repr_html_()
            self.assertLessEqual(text.count("<tr>"), 51)
            self.assertIn(f"<p>... and {left}</p>", text)
        self.assertEqual(Listing([trial] * 1000)._repr_html_().count("<tr>"), 51)
        self.assertNotIn("more", result([trial] * 50)._repr_html_())
        self.assertEqual(Listing([])._repr_html_().count("<tr>"), 1)
        many = repr(Listing([trial] * 1000))
        self.assertEqual(many.count("<Trial"), 50)
        self.assertTrue(many.endswith("\n ... and 950 more]"), many)
        self.assertEqual(repr(Listing([trial, trial])), f"[{trial!r},\n {trial!r}]")
        self.assertEqual(repr(Listing([])), "[]")

    def test_results_whose_daemon_is_gone(self):
        def fetch_page(token):
            raise tunefarm.UnavailableError("no daemon <b>")

        self.assertEqual(Results(fetch_page, list, "jobs/7")._repr_html_(), "<p>&lt;Results of jobs/7&gt;: no daemon &lt;b&gt;</p>")
        self.assertEqual(repr(result([])), "<Results of jobs/7>")

    def test_damaged_trials_are_left_out_with_a_warning(self):
        trial = sample(model.Trial)
        pages = {"": ([trial], "2", 1), "2": ([trial], "3", 0), "3": ([trial], "", 2)}
        results = Results(pages.__getitem__, lambda: ["N"], "jobs/7")
        with self.assertWarnsRegex(UserWarning,
                                   "^tunefarm: jobs/7: 3 trials are damaged in the daemon's database and left out$") as warned:
            self.assertEqual(results.to_list(), [trial] * 3)
        self.assertEqual(len(warned.warnings), 1)
        self.assertEqual(results.unreadable, 3)
        with self.assertWarnsRegex(UserWarning, "^tunefarm: jobs/7: 1 trial is damaged") as warned:
            for _ in results:  # Left after the first page.
                break
        self.assertEqual((results.unreadable, warned.filename), (1, __file__))
        with self.assertWarns(UserWarning):
            pickled = pickle.dumps(results)
        with self.assertWarnsRegex(UserWarning, "3 trials are damaged"):
            self.assertEqual(len(pickle.loads(pickled).to_list()), 3)
        self.assertIn("<p>&lt;Results of jobs/7&gt;: 1 trial is damaged", result([trial], "2", 1)._repr_html_())

    def test_counts_have_the_right_form(self):
        self.assertEqual([_display.count_text(count, "trial") for count in (0, 1, 2)], ["0 trials", "1 trial", "2 trials"])
        self.assertEqual(_display.count_text(1, "process is", "processes are"), "1 process is")
        self.assertEqual(_display.count_text(3, "process is", "processes are"), "3 processes are")
        self.assertEqual([_display.a_type(value) for value in (1, "x", None, memoryview(b""), OSError())],
                         ["an int", "a str", "a NoneType", "a memoryview", "an OSError"])

    def test_whole_results_warn_of_nothing(self):
        results = result([sample(model.Trial)] * 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(len(results.to_list()), 2)
        self.assertEqual(results.unreadable, 0)
        self.assertNotIn("damaged", results._repr_html_())

    def test_a_listing_is_a_list(self):
        trials = [sample(model.Trial)] * 3
        listing = result(trials).to_list()
        self.assertEqual(listing, trials)
        self.assertIs(listing[0], trials[0])
        self.assertIsInstance(listing[1:], Listing)
        self.assertEqual(listing[1:], trials[1:])

    def test_columns_of_a_frame_have_one_type_whatever_was_measured(self):
        measured = sample(model.Trial)
        failed = dataclasses.replace(measured, measurement=None, resources=None)
        for trials in ([], [failed], [measured], [measured, failed]):
            frame = result(trials).to_dataframe()
            self.assertEqual(len(frame), len(trials))
            self.assertEqual([str(frame[name].dtype) for name in ("median_ns", "stdev_ns", "samples", "registers", "spill_bytes")],
                             ["float64", "float64", "Int64", "Int64", "Int64"])
        self.assertEqual(list(frame["median_ns"].notna()), [True, False])
        self.assertEqual(frame["registers"][0], measured.resources.registers)

    def test_without_pandas(self):
        with mock.patch.dict(sys.modules, pandas=None), self.assertRaises(ImportError) as caught:
            result([]).to_dataframe()
        self.assertEqual(str(caught.exception), "to_dataframe needs pandas, which is not installed: pip install pandas; to_csv and "
                                                "rows do without")

    def test_values_results_and_errors_pickle(self):
        for value in self.values:
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)
        trials = [sample(model.Trial), sample(model.Trial)]
        copy = pickle.loads(pickle.dumps(result(trials)))
        self.assertEqual(copy.to_list(), trials)
        self.assertEqual(copy.rows(), result(trials).rows())
        self.assertEqual(pickle.loads(pickle.dumps(copy)).to_list(), trials)
        self.assertIs(type(pickle.loads(pickle.dumps(Listing(trials)))), Listing)
        for error in (tunefarm.JobFailedError("why", self.values[0]), tunefarm.NotFoundError("no", reason="R", code="C"),
                      tunefarm.JobCancelledError("why", self.values[0])):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), vars(copy)), (type(error), str(error), vars(error)))

    def test_a_pickle_is_read_without_daemon_and_grpc(self):
        values = [result([sample(model.Trial)]), Listing(self.values[:3]), *self.values]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "values"
            path.write_bytes(pickle.dumps(values))
            code = f"""import pickle, sys
sys.modules.update(dict.fromkeys(("grpc", "google", "pandas")))
results, listing, *values = pickle.load(open({str(path)!r}, "rb"))
print(len(results.to_list()), type(listing).__name__, [repr(value) for value in values] == {list(map(repr, self.values))!r})
results.to_csv({str(path)!r})
"""
            done = subprocess.run([sys.executable, "-c", code], check=True, timeout=600, capture_output=True, text=True)
            self.assertEqual(done.stdout, "1 Listing True\n")
            self.assertTrue(path.read_text().startswith("study,problem,ordinal,purpose,outcome,N,"))

    def test_texts(self):
        self.assertEqual(_display.duration_text(41234.0), "41.2 µs")
        self.assertEqual(_display.config_text({"A": 1, "B": "x"}), "A=1 B=x")
        self.assertEqual(_display.short("a\nb\x9b"), "a\\nb\\x9b")
        self.assertEqual(len(_display.short("y" * 500)), 100)


if __name__ == "__main__":
    unittest.main()
