"""How progress is shown in a notebook, on a terminal and in a file. Needs no daemon, and neither IPython nor tqdm."""

import io
import sys
import types
import unittest
from unittest import mock

import tunefarm
from tunefarm import _display, _progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Cells:
    """What IPython.display does with a value that it may update."""

    def __init__(self):
        self.shown = []

    def display(self, value, raw, display_id):
        assert raw and display_id
        self.shown.append([value])
        return types.SimpleNamespace(update=lambda value, raw: self.shown[-1].append(value))


def event(done, total=40, best_ns=None, message=None):
    trial = None
    if best_ns is not None:
        trial = mock.Mock(outcome=tunefarm.Outcome.OK, purpose=tunefarm.TrialPurpose.SEARCH)
        trial.measurement.median_ns = best_ns
    progress = tunefarm.Progress(total, False, done, {}, 0, 0, 0)
    return tunefarm.JobEvent(done, 0, None, trial, None, message, progress, "jobs/1/studies/1")


def shown(stream, events, every_seconds=0.0):
    with mock.patch.object(_progress, "_UPDATE_SECONDS", every_seconds):
        display = _progress.ProgressDisplay(stream)
        for one in events:
            display(one)
        display.close()


def ipython(cells, **shell):
    """The modules of a running IPython."""
    found = types.SimpleNamespace(**shell)
    return {"IPython": types.SimpleNamespace(get_ipython=lambda: found), "IPython.display": cells}


class InProgress(unittest.TestCase):
    EVENTS = [event(0), event(1, best_ns=2e6), event(2, best_ns=41234.0), event(3, best_ns=5e6)]

    def test_a_notebook_has_one_output_that_is_updated(self):
        cells, stream = Cells(), io.StringIO()
        with mock.patch.dict(sys.modules, ipython(cells, kernel=object())):
            shown(stream, self.EVENTS)
        (updates,) = cells.shown
        self.assertEqual([value["text/plain"] for value in updates],
                         ["[0/40]   0%", "[1/40]   2%  best 2 ms", "[2/40]   5%  best 41.2 µs", "[3/40]   7%  best 41.2 µs"])
        self.assertEqual(updates[-1]["text/html"], '<progress value="3" max="40"></progress> [3/40]   7%  best 41.2 µs')
        self.assertEqual(stream.getvalue(), "")

    def test_a_notebook_is_not_flooded(self):
        cells = Cells()
        events = [event(done, total=5000) for done in range(5001)]
        with mock.patch.dict(sys.modules, ipython(cells, kernel=object())):
            shown(io.StringIO(), events, every_seconds=float("inf"))
        self.assertEqual([value["text/plain"] for value in cells.shown[0]], ["[0/5000]   0%", "[5000/5000] 100%"])

    def test_messages_in_a_notebook_are_lines(self):
        stream = io.StringIO()
        with mock.patch.dict(sys.modules, ipython(Cells(), kernel=object())):
            shown(stream, [event(0, message="a device\x1b[31m is back")])
        self.assertEqual(stream.getvalue(), "a device\\x1b[31m is back\n")

    def test_ipython_on_a_terminal_is_a_terminal(self):
        with mock.patch.dict(sys.modules, ipython(Cells())):
            self.assertIsNone(_display.notebook())
        with mock.patch.dict(sys.modules, ipython(Cells(), kernel=None)):
            self.assertIsNone(_display.notebook())

    def test_a_terminal_without_tqdm_has_one_line_that_is_updated(self):
        stream = Terminal()
        with mock.patch.dict(sys.modules, tqdm=None):
            shown(stream, [*self.EVENTS, event(4, message="a device is back")])
        screen = [""]  # as a terminal has it
        for line in stream.getvalue().split("\n"):
            for at, text in enumerate(line.split("\r")):
                screen[-1] = text + screen[-1][len(text):] if at else text
            screen[-1] = screen[-1].rstrip()
            screen.append("")
        self.assertEqual(screen[:-1], ["a device is back", "[4/40]  10%  best 41.2 µs", ""])

    def test_a_terminal_with_tqdm_has_its_bar(self):
        tqdm = mock.Mock()
        with mock.patch.dict(sys.modules, tqdm=types.SimpleNamespace(tqdm=tqdm)):
            shown(Terminal(), self.EVENTS)
        bar = tqdm.return_value
        self.assertEqual((bar.n, bar.total), (3, 40))
        bar.set_postfix_str.assert_called_with("best 41.2 µs", refresh=False)
        bar.close.assert_called_once_with()

    def test_a_file_has_a_line_for_each_tenth(self):
        stream = io.StringIO()
        shown(stream, [event(done) for done in range(41)])
        self.assertEqual(stream.getvalue().splitlines(), [f"[{done}/40] {done * 100 // 40:3}%" for done in range(0, 41, 4)])


class Upload(unittest.TestCase):
    """What an upload shows; 1 MiB is told at a time."""

    def shown(self, stream, mebibytes, every_seconds=0.0):
        with mock.patch.object(_progress, "_UPDATE_SECONDS", every_seconds):
            display = _progress.UploadDisplay("x\n.npy", mebibytes << 20, stream)
            for done in range(mebibytes + 1):
                display(done << 20)
            display.close()

    def test_a_file_has_few_lines(self):
        stream = io.StringIO()
        self.shown(stream, 2000)
        lines = stream.getvalue().splitlines()
        self.assertEqual(len(lines), 11)
        self.assertEqual((lines[0], lines[5], lines[10]),
                         (r"uploading x\n.npy: 0 B of 1.953 GiB", r"uploading x\n.npy: 1000 MiB of 1.953 GiB",
                          r"uploading x\n.npy: 1.953 GiB of 1.953 GiB"))
        stream = io.StringIO()
        self.shown(stream, 100)
        self.assertEqual(stream.getvalue(), "uploading x\\n.npy: 0 B of 100 MiB\n")

    def test_a_notebook_is_not_flooded(self):
        cells, stream = Cells(), io.StringIO()
        with mock.patch.dict(sys.modules, ipython(cells, kernel=object())):
            self.shown(stream, 2000, every_seconds=float("inf"))
        self.assertEqual([value["text/plain"] for value in cells.shown[0]],
                         [r"uploading x\n.npy: 0 B of 1.953 GiB", r"uploading x\n.npy: 1.953 GiB of 1.953 GiB"])
        self.assertEqual(stream.getvalue(), "")

    def test_a_terminal_has_a_line_or_a_bar(self):
        stream, tqdm = Terminal(), mock.Mock()
        with mock.patch.dict(sys.modules, tqdm=None):
            self.shown(stream, 20)
        self.assertTrue(stream.getvalue().endswith("\ruploading x\\n.npy: 20 MiB of 20 MiB\n"))
        with mock.patch.dict(sys.modules, tqdm=types.SimpleNamespace(tqdm=tqdm)):
            self.shown(Terminal(), 20)
        self.assertEqual((tqdm.call_args.kwargs["unit"], tqdm.return_value.n, tqdm.return_value.total), ("B", 20 << 20, 20 << 20))
        tqdm.return_value.close.assert_called_once_with()


if __name__ == "__main__":
    unittest.main()
