"""What tunefarm.plot draws. Needs no daemon; the drawing itself is tested where matplotlib is installed."""

import importlib.util
import io
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import tunefarm
from tunefarm import _plot
from tunefarm.results import Results

OK, FAILED, NOISY = tunefarm.Outcome.OK, tunefarm.Outcome.COMPILE_ERROR, tunefarm.Outcome.NOISY


def trial(ordinal, time_ns, study=1, outcome=OK, purpose=tunefarm.TrialPurpose.SEARCH, **config):
    measurement = None
    if time_ns:
        measurement = tunefarm.Measurement(time_ns, time_ns, time_ns, time_ns, time_ns, time_ns, 0.0, 9, True, "", "", False, 0,
                                           False, False)
    return tunefarm.Trial(f"jobs/7/studies/{study}/trials/{ordinal}", ordinal, config, purpose, outcome, "", "", measurement, None,
                          0.0, 0.0, False, False, False, "GPU-1", 0, f"N={study}")


# TILE matters, ORDER does not, and each trial has an ID of its own.
TRIALS = [trial(0, 900.0, TILE=16, ORDER="row", ID=0), trial(1, 0, outcome=FAILED, TILE=64, ORDER="row", ID=1),
          trial(2, 310.0, TILE=32, ORDER="col", ID=2), trial(3, 910.0, TILE=16, ORDER="col", ID=3),
          trial(4, 300.0, TILE=32, ORDER="row", ID=4), trial(5, 250.0, outcome=NOISY, TILE=32, ORDER="row", ID=5),
          trial(6, 500.0, purpose=tunefarm.TrialPurpose.BASELINE, TILE=16, ORDER="row", ID=0),
          trial(7, 280.0, purpose=tunefarm.TrialPurpose.FINALIST, TILE=32, ORDER="row", ID=4)]


def results(trials):
    return Results(lambda token: (trials, "", 0), list, "jobs/7")


class WhatIsDrawn(unittest.TestCase):
    def test_a_study(self):
        (study,) = _plot.studies_of(sorted(TRIALS, key=_plot._time_ns))  # in whatever order they come
        self.assertEqual(study.title, "N=1")
        self.assertEqual(study.tried, [(0, 900.0), (2, 310.0), (3, 910.0), (4, 300.0)])
        self.assertEqual(study.best, [(0, 900.0), (2, 310.0), (4, 300.0), (5, 300.0)])
        self.assertEqual(study.baseline_ns, 500.0)
        self.assertEqual(study.outcomes, [("OK (4)", [900.0, 310.0, 910.0, 300.0]), ("COMPILE_ERROR (1)", []), ("NOISY (1)", [250.0])])
        self.assertEqual((study.parameter, study.values), ("TILE", [("16", [900.0, 910.0]), ("32", [310.0, 300.0])]))

    def test_a_parameter_that_is_asked_for(self):
        (study,) = _plot.studies_of(TRIALS, "ORDER")
        self.assertEqual((study.parameter, study.values), ("ORDER", [("col", [310.0, 910.0]), ("row", [900.0, 300.0])]))
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "^no config has a parameter 'X'; they have ID, ORDER, TILE$"):
            _plot.studies_of(TRIALS, "X")

    def test_studies_are_in_their_order(self):
        studies = _plot.studies_of([trial(0, 5.0, study=number, A=1) for number in (10, 2, 1)])
        self.assertEqual([study.title for study in studies], ["N=1", "N=2", "N=10"])

    def test_nothing_was_measured(self):
        self.assertEqual(_plot.studies_of([]), [])
        (study,) = _plot.studies_of([trial(0, 0, outcome=FAILED)])
        self.assertEqual((study.tried, study.best, study.baseline_ns, study.parameter, study.values), ([], [], None, "", []))

    def test_what_a_grouping_explains(self):
        self.assertEqual(_plot.explained([[1.0, 1.0], [2.0, 2.0]]), 1.0)
        self.assertLessEqual(_plot.explained([[1.0, 2.0], [2.0, 1.0]]), 0.0)
        for groups in ([], [[1.0]], [[1.0], [2.0], [3.0]], [[1.0, 1.0], [1.0]]):
            self.assertEqual(_plot.explained(groups), 0.0)

    def test_without_matplotlib(self):
        with mock.patch.dict(sys.modules, matplotlib=None), self.assertRaises(ImportError) as caught:
            tunefarm.plot(results(TRIALS))
        self.assertEqual(str(caught.exception), "tunefarm.plot needs matplotlib, which is not installed: pip install matplotlib")

    def test_a_matplotlib_that_lacks_something_says_so_itself(self):
        with mock.patch.object(importlib, "import_module", side_effect=ModuleNotFoundError("No module named 'x'", name="x")), \
                self.assertRaisesRegex(ModuleNotFoundError, "'x'"):
            _plot.plot(results(TRIALS))


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
class Drawing(unittest.TestCase):
    def test_the_figure_of_a_job(self):
        from matplotlib.figure import Figure

        figure = tunefarm.plot(pickle.loads(pickle.dumps(results(TRIALS))))
        self.assertIsInstance(figure, Figure)
        over_trials, by_outcome, by_value = figure.axes
        self.assertEqual(list(over_trials.lines[1].get_ydata()), [900.0, 310.0, 300.0, 300.0])
        self.assertEqual([label.get_text() for label in by_outcome.get_yticklabels()], ["OK (4)", "COMPILE_ERROR (1)", "NOISY (1)"])
        self.assertEqual((by_value.get_title(), list(by_value.lines[1].get_ydata())), ("effect of TILE", [900.0, 300.0]))
        self.assertTrue(figure._repr_png_().startswith(b"\x89PNG"))
        pickle.loads(pickle.dumps(figure))

    def test_every_job_can_be_drawn(self):
        formula = [trial(at, 1e6 + at, **{"$A": f"$x^{at}"}) for at in range(100)]
        many = [trial(at, 10.0**study + at, study=study, A=at) for study in range(1, 8) for at in range(3)]
        for trials, rows in (([], 0), ([trial(0, 0, outcome=FAILED)], 1), ([trial(0, 7.0)], 1), (formula, 1), (many, 4),
                             ([trial(0, 7.0, purpose=tunefarm.TrialPurpose.BASELINE)], 1)):
            with self.subTest(trials=trials[:1]):
                figure = tunefarm.plot(results(trials))
                figure.savefig(io.BytesIO(), format="svg")
                self.assertEqual(len(figure.axes), 3 * rows)
        self.assertIn("and 3 more problems", tunefarm.plot(results(many))._suptitle.get_text())

    def test_pyplot_is_not_touched(self):
        code = """import sys, tunefarm
from tunefarm.results import Results
tunefarm.plot(Results(lambda token: ([], "", 0), list))
assert "matplotlib.pyplot" not in sys.modules
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


if __name__ == "__main__":
    unittest.main()
