"""The pixels of a known chart: its points stand where the scale of its axes puts them, and nowhere else.

The scale is read from the picture too: grid lines are at round numbers, and what the number of each is, the page says under
the chart when the mouse is on it.
"""

import base64
import contextlib
import math
import re
import sqlite3
import unittest

from browser import SMALL, PageTest, main, wait_until

STUDY = "#/jobs/1/studies/1"
EQUAL = "#/jobs/2/studies/1"  # all its trials have the same time
EQUAL_TRIALS = 8
TRIALS = 40
FAILED = (9, 27)  # evaluations that are made to fail
WRONG_RESULT = 12  # OUTCOME_WRONG_RESULT
MS = 1e6
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
LINE_RED = 0xd3  # of grid lines; nothing else has it
NEAR = 4  # pixels of the page from the middle of a point to its edge, and what rounding adds
# The canvas as its bytes, its size, and the plot's left, top, width and height in its pixels.
PIXELS = """
const canvas = document.querySelector(".chart canvas"), over = document.querySelector(".chart .u-over");
const whole = canvas.getBoundingClientRect(), plot = over.getBoundingClientRect(), ratio = canvas.width / whole.width;
const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let text = "";
for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096));
return [btoa(text), canvas.width, ratio,
        ...[plot.left - whole.left, plot.top - whole.top, plot.width, plot.height].map(v => v * ratio)];
"""
SHOW_CHART = """
const canvas = document.querySelector(".chart canvas");
canvas?.scrollIntoView({block: "center"});
return canvas !== null;
"""
CLEAR_READOUT = """
document.querySelector(".readout").textContent = "";
document.querySelector(".chart").scrollIntoView({block: "center"});
const whole = document.querySelector(".chart canvas").getBoundingClientRect();
return [whole.left, whole.top];
"""
# Once the frame is drawn that the move belongs to.
READOUT = """
const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector(".readout").textContent)));
"""


def time_of(evaluation):
    """Nanoseconds that an evaluation, from 1, is said to have taken: from 100 ms to 334 ms, spread over the chart."""
    return (100 + 6 * (evaluation * 17 % TRIALS)) * MS


class Canvas:
    """The pixels of the chart, over white."""

    def __init__(self, driver):
        text, self.width, self.ratio, *plot = driver.execute_script(PIXELS)
        self.left, self.top, self.plot_width, self.plot_height = plot
        self.bytes = base64.b64decode(text)

    def columns(self):
        return range(math.ceil(self.left), int(self.left + self.plot_width))

    def rows(self):
        return range(math.ceil(self.top), int(self.top + self.plot_height))

    def ink(self, column, row):
        """How much of a point is seen in a pixel, from 0 to about 1: points are the only blue."""
        at = 4 * (row * self.width + column)
        red, green, blue, alpha = self.bytes[at:at + 4]
        blueness = (blue - red) * alpha / 255  # over white
        return blueness / 133 if blue > green + 20 and blueness > 50 else 0

    def grid(self, is_vertical):
        """Where grid lines say that their numbers are, in pixels of the canvas."""
        lines = []
        for at in self.columns() if is_vertical else self.rows():
            if is_vertical:
                pixels = slice(4 * (self.rows()[0] * self.width + at), None, 4 * self.width)
            else:
                pixels = slice(4 * (at * self.width + self.columns()[0]), 4 * (at + 1) * self.width, 4)
            red = self.bytes[pixels]
            if red.count(LINE_RED) < 0.5 * len(red):
                continue
            if lines and lines[-1][-1] == at - 1:
                lines[-1].append(at)
            else:
                lines.append([at])
        # A line of an odd width is drawn half a pixel further.
        return [sum(line) / len(line) + 0.5 - len(line) % 2 / 2 for line in lines]


class ChartTest(PageTest):
    @classmethod
    def fill(cls):
        farm = cls.farm
        farm.cli("tune", "matmul_host", *SMALL, "--policy", "fast", "--max-trials", TRIALS, "--strategy", "random", "--seed", "1")
        farm.cli("tune", "matmul_host", *SMALL, "--policy", "fast", "--max-trials", EQUAL_TRIALS, "--strategy", "random",
                 "--measure", "no_reuse=true")
        farm.stop()
        # What charts are drawn of. Times of the final stay as they were: far below the axis.
        with contextlib.closing(sqlite3.connect(farm.directory / "tunefarm.db")) as database, database:
            rows = database.execute("SELECT ordinal FROM trial_result WHERE study_id = 1 AND purpose = 1 ORDER BY ordinal")
            ordinals = [ordinal for ordinal, in rows]
            assert len(ordinals) == TRIALS, ordinals
            for evaluation, ordinal in enumerate(ordinals, 1):
                is_failed = evaluation in FAILED
                database.execute("UPDATE trial_result SET ended_at_ms = ?, outcome = ?, median_ns = ? WHERE study_id = 1 AND "
                                 "ordinal = ?", (1_700_000_000_000 + 1000 * evaluation, WRONG_RESULT if is_failed else 1,
                                                 None if is_failed else time_of(evaluation), ordinal))
            database.execute("UPDATE trial_result SET outcome = 1, median_ns = ? WHERE study_id = 2 AND purpose = 1", (100 * MS,))
        farm.start()

    def readout(self, canvas, column, row):
        """Evaluation and nanoseconds that the page names for a pixel of the canvas; None on a point."""
        driver = self.browser.driver

        def said():
            # What is above the chart may still grow, and move it.
            left, top = driver.execute_script(CLEAR_READOUT)
            for nudge in (3, 0):
                place = {"x": left + column / canvas.ratio + nudge, "y": top + row / canvas.ratio}
                driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **place})
            return driver.execute_async_script(READOUT)

        text = wait_until(said, "what the page says of a place on the chart")
        found = re.fullmatch(r"evaluation (\d+), ([\d.]+) (ns|µs|ms|s)", text)
        return found and (int(found[1]), float(found[2]) * UNITS[found[3]])

    def number_of(self, canvas, line, is_vertical, step=10 * MS):
        """The number of a grid line; times are multiples of `step`."""
        for share in (0.03, 0.97, 0.5, 0.25, 0.75, 0.4, 0.6):
            column = line if is_vertical else canvas.left + share * canvas.plot_width
            row = canvas.top + share * canvas.plot_height if is_vertical else line
            if said := self.readout(canvas, column, row):
                # Of a pixel: the number is the nearest round one.
                return said[0] if is_vertical else round(said[1] / step) * step
        raise AssertionError(f"no free place on the grid line at {line}")

    def scale(self, canvas, is_vertical, of=lambda value: value):
        """A function from numbers to pixels of the canvas, by the outermost grid lines; those between them must agree."""
        lines = canvas.grid(is_vertical)
        self.assertGreaterEqual(len(lines), 3, lines)
        values = [of(self.number_of(canvas, line, is_vertical)) for line in lines]
        slope = (lines[-1] - lines[0]) / (values[-1] - values[0])
        place = lambda value: lines[0] + (of(value) - values[0]) * slope
        for line, value in zip(lines, values):
            self.assertAlmostEqual(lines[0] + (value - values[0]) * slope, line, delta=1.01 * canvas.ratio)
        return place

    def check(self, scale, query, of):
        browser = self.browser
        browser.resize(1280, 900, scale)
        self.addCleanup(browser.resize, 1280, 900)
        browser.view(f"{STUDY}{query}")
        browser.driver.refresh()
        browser.wait_text(rf"(?m)^{TRIALS} trials")
        wait_until(lambda: browser.driver.execute_script(SHOW_CHART), "the chart")
        pixels = lambda: Canvas(browser.driver)
        canvas = wait_until(lambda: (c := pixels()).grid(True) and c.grid(False) and c, "a chart with its grid")
        self.assertAlmostEqual(canvas.ratio, scale, delta=0.02)
        x, y = self.scale(canvas, True), self.scale(canvas, False, of)
        points = {e: (x(e), y(time_of(e))) for e in range(1, TRIALS + 1) if e not in FAILED}
        seen = {evaluation: [0, 0, 0] for evaluation in points}  # ink, and its sums by column and row
        near = NEAR * canvas.ratio
        for row in canvas.rows():
            for column in canvas.columns():
                if not (ink := canvas.ink(column, row)):
                    continue
                at = (column + 0.5, row + 0.5)
                of_points = [e for e, point in points.items() if max(abs(point[i] - at[i]) for i in (0, 1)) <= near]
                self.assertTrue(of_points, f"a point is drawn at {at}, where none is")
                for evaluation in of_points:
                    total = seen[evaluation]
                    total[0] += ink
                    total[1] += ink * at[0]
                    total[2] += ink * at[1]
        # The steps of the best cover parts of their points, and the line of the default config all of its own.
        lines = [y(time_of(1))]
        best = math.inf
        for evaluation, (column, row) in points.items():
            is_step = time_of(evaluation) < best
            best = min(best, time_of(evaluation))
            lines.append(y(best))
            ink, *sums = seen[evaluation]
            if min(abs(row - line) for line in lines) <= 5 * canvas.ratio and not is_step:
                continue
            with self.subTest(evaluation=evaluation):
                self.assertGreater(ink, (2 if is_step else 10) * canvas.ratio**2, "no point is drawn where one is")
                if not is_step:
                    self.assertAlmostEqual(sums[0] / ink, column, delta=1.01 * canvas.ratio)
                    self.assertAlmostEqual(sums[1] / ink, row, delta=1.01 * canvas.ratio)

    def test_linear(self):
        self.check(1, "", lambda value: value)

    def test_logarithmic(self):
        self.check(1, "?y=log", math.log)

    def test_twice_as_many_pixels(self):
        self.check(2, "", lambda value: value)

    def test_equal_times_are_in_the_middle(self):
        browser = self.browser
        for query in ("", "?y=log"):
            browser.view(f"{EQUAL}{query}")
            browser.driver.refresh()
            browser.wait_text(rf"(?m)^{EQUAL_TRIALS} trials")
            wait_until(lambda: browser.driver.execute_script(SHOW_CHART), "the chart")
            pixels = lambda: Canvas(browser.driver)
            canvas = wait_until(lambda: (c := pixels()).grid(False) and c, "a chart with its grid")
            inks = [(row, canvas.ink(column, row)) for row in canvas.rows() for column in canvas.columns()]
            total = sum(ink for _, ink in inks)
            self.assertGreater(total, EQUAL_TRIALS, "no points are drawn")
            middle = canvas.top + canvas.plot_height / 2
            self.assertAlmostEqual(sum(row * ink for row, ink in inks) / total, middle, delta=0.1 * canvas.plot_height)
            numbers = [self.number_of(canvas, line, False, MS) for line in canvas.grid(False)]
            self.assertGreaterEqual(len(numbers), 2)
            self.assertEqual(numbers, sorted(set(numbers), reverse=True), "each line has a number of its own")


if __name__ == "__main__":
    main()
