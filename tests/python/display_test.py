"""What values look like in an interpreter and in a notebook, and that they can be pickled. Needs no daemon."""

import dataclasses
import pickle
import typing
import unittest

import tunefarm
from tunefarm import _display, model
from tunefarm.results import Results


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


def result(trials):
    return Results(lambda token: (trials, ""), lambda: ["N"], "jobs/7")


class Display(unittest.TestCase):
    def setUp(self):
        # The number of a job is read from its name.
        self.values = [dataclasses.replace(value, name="jobs/7") if isinstance(value, model.Job) else value
                       for value in map(sample, VALUES)]

    def test_representations_are_one_short_line(self):
        self.assertGreater(len(self.values), 15)
        for value in self.values:
            if type(value) in (model.Parameter, model.Dim, model.ResourceUse, model.ServerInfo):
                continue  # Few plain fields, all shown.
            text = repr(value)
            self.assertLess(len(text), 700, text)
            self.assertTrue(text.startswith("<" + type(value).__name__), text)
            self.assertTrue(text.isprintable(), text)

    def test_html_is_escaped(self):
        values = [value for value in self.values if hasattr(value, "_repr_html_")]
        self.assertEqual({type(value).__name__ for value in values}, {"Answer", "BestConfig", "Job", "Kernel"})
        for value in [*values, result([sample(model.Trial)] * 30)]:
            text = value._repr_html_()
            self.assertIn("<table>", text)
            self.assertNotIn("<b>", text)
            self.assertNotIn("\x1b", text)
        self.assertEqual(result([sample(model.Trial)] * 30)._repr_html_().count("<tr>"), 21)
        self.assertEqual(repr(result([])), "<Results of jobs/7>")

    def test_values_results_and_errors_pickle(self):
        for value in self.values:
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)
        trials = [sample(model.Trial), sample(model.Trial)]
        copy = pickle.loads(pickle.dumps(result(trials)))
        self.assertEqual(copy.to_list(), trials)
        self.assertEqual(copy.rows(), result(trials).rows())
        self.assertEqual(pickle.loads(pickle.dumps(copy)).to_list(), trials)
        for error in (tunefarm.JobFailedError("why", self.values[0]), tunefarm.NotFoundError("no", reason="R", code="C"),
                      tunefarm.JobCancelledError("why", self.values[0])):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), vars(copy)), (type(error), str(error), vars(error)))

    def test_texts(self):
        self.assertEqual(_display.duration_text(41234.0), "41.2 µs")
        self.assertEqual(_display.config_text({"A": 1, "B": "x"}), "A=1 B=x")
        self.assertEqual(_display.short("a\nb\x9b"), "a\\nb\\x9b")
        self.assertEqual(len(_display.short("y" * 500)), 100)


if __name__ == "__main__":
    unittest.main()
