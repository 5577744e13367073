"""Every view of the dashboard, by its address: content, names, widths, contrast in light and dark, 200 %, the keyboard, and
how one logs in and out."""

import re
import unittest

from browser import SCREENSHOTS, Browser, Keys, PageTest, main, wait_until

STUDY = "jobs/1/studies/1"
# Name, address, and what the view must say. {failed}: a trial that did not compile.
VIEWS = {
    "farm": ("#/", r"(?s)READY.*K=64,M=64,N=96.*K=64,M=64,N=64"),
    "jobs": ("#/jobs", r"(?s)faulty_host.*matmul_host"),
    "job": ("#/jobs/1", r"K=64,M=64,N=64"),
    "study": (f"#/{STUDY}", r"(?s)40 trials.*TILE_M.*1 to 4\d of 4\d"),
    "study_of_failures": ("#/jobs/2/studies/1", r"(?s)RUN_CRASH.*COMPILE_ERROR"),
    "trial": (f"#/{STUDY}/trials/0", r"(?s)TILE_M.*none of 4,096 elements"),
    "trial_that_failed": ("#/jobs/2/studies/1/trials/{failed}", r"(?s)COMPILE_ERROR.*does not compile, as asked for"),
    "compare": ("#/compare?trials=1/1/0,1/1/1", r"(?s)What differs.*What all share"),
    "compare_studies": ("#/compare?studies=1/1,2/1", r"Compare studies"),
    "catalog": ("#/catalog", r"matmul_host"),
    "misses": ("#/misses", r"(?s)K=64,M=64,N=96.*K=64,M=64,N=160"),
    "kernels": ("#/kernels", r"(?s)faulty_host.*matmul_host"),
    "kernel": ("#/kernels/matmul_host", r"TILE_M"),
    "devices": ("#/devices", r"(?s)READY.*Agents"),
    "long_names_job": ("#/jobs/3", r"a_kernel_with_a_name"),
    "long_names_study": ("#/jobs/3/studies/1", r"(?s)PARAMETER_WITH_A_LONG_NAME.*1 to \d+ of"),
    "long_names_trial": ("#/jobs/3/studies/1/trials/0", r"PARAMETER_WITH_A_LONG_NAME_63"),
    "all_failed_study": ("#/jobs/4/studies/1", r"(?s)No config has been measured.*WRONG_RESULT"),
    "no_view": ("#/no/such/view", r"There is no such view"),
    "no_job": ("#/jobs/12345", r"12345"),
}
# Of a daemon that has done nothing yet.
EMPTY = {
    "farm": ("#/", r"No job runs"),
    "jobs": ("#/jobs", r"(?i)no job"),
    "catalog": ("#/catalog", r"(?i)no best config"),
    "misses": ("#/misses", r"(?i)nothing|no |every look-up"),
    "kernels": ("#/kernels", r"(?i)no kernel|no stored kernel|none"),
    "devices": ("#/devices", r"READY"),
}
NARROW, USUAL, WIDE = 360, 1280, 2560

PARAMETERS = "".join(f'parameters {{ name: "PARAMETER_WITH_A_LONG_NAME_{i}" values: [{"1, 2, 3" if i < 8 else "1"}] }}\n' for i in range(64))
# {}: name, parameters, what is added to each result.
DEFINITION = """
display_name: "{}"
language: HOST_CXX
sources {{ path: "kernel.cc" }}
dims {{ name: "N" default_value: 256 }}
{}
arguments {{ name: "y" buffer {{ data_type: F32 length: "N" access: OUT }} }}
arguments {{ name: "n" scalar {{ data_type: I32 value: "N" }} }}
launches {{ kernel {{ entry: "tried" arguments: ["y", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "right" arguments: ["y", "n"] }} }} }}
"""
SOURCE = """
extern "C" void tried(float* y, int n) {{ for (int i = 0; i < n; ++i) y[i] = i + {}; }}
extern "C" void right(float* y, int n) {{ for (int i = 0; i < n; ++i) y[i] = i; }}
"""


class Views(PageTest):
    @classmethod
    def fill(cls):
        super().fill()
        for name, parameters, error in (("a_kernel_with_a_name_that_is_as_long_as_a_name_of_a_kernel_may_be", PARAMETERS, 0),
                                        ("wrong", 'parameters { name: "X" values: [1, 2, 3] }', 1)):
            folder = cls.farm.directory / name
            folder.mkdir()
            (folder / "kernel.pbtxt").write_text(DEFINITION.format(name[:63], parameters))
            (folder / "kernel.cc").write_text(SOURCE.format(error))
            cls.farm.cli("tune", folder, "--policy", "fast", "--max-trials", "12", "--strategy", "random", check=not error)
        cls.failed = next(t["name"].rsplit("/", 1)[1] for t in cls.farm.trials(2) if t["outcome"] == "OUTCOME_COMPILE_ERROR")

    def setUp(self):
        super().setUp()
        self.addCleanup(self.browser.resize, USUAL)
        self.addCleanup(self.browser.color_scheme, "light")
        self.browser.expected = [r"api/tunefarm\.v1\.TuningService/GetJob - .* 404"]  # of the job that does not exist

    def show(self, name):
        fragment, pattern = VIEWS[name]
        self.browser.view(fragment.format(failed=self.failed))
        self.browser.wait_text(pattern)
        self.browser.drawn()

    def test_each_view_by_its_address(self):
        for name in VIEWS:
            with self.subTest(view=name):
                self.show(name)
                if not name.startswith("no_"):
                    self.assertEqual(self.browser.find("alert"), [], self.browser.text())
                    self.assertEqual(len(self.browser.find("h1")), 1)
                self.assertEqual(self.browser.nameless(), [])
                self.assertNotRegex(self.browser.text(), r"\bNaN\b|\bundefined\b|\bInfinity\b|\[object")
                self.assertIn("tunefarm", self.browser.driver.title)

    def test_each_view_fits_and_can_be_read(self):
        """At three widths, in light and dark, and on a small window at 200 %. The pictures are for people to look at."""
        for name in VIEWS:
            self.show(name)
            for scheme in ("light", "dark"):
                self.browser.color_scheme(scheme)
                with self.subTest(view=name, scheme=scheme):
                    self.assertEqual(self.browser.faint_texts(), [])
                for width in (NARROW, USUAL, WIDE):
                    with self.subTest(view=name, scheme=scheme, width=width):
                        self.browser.resize(width)
                        self.browser.wait_fits()
                        self.browser.screenshot(SCREENSHOTS / f"{name}_{width}_{scheme}.png")
            with self.subTest(view=name, zoom=2):
                self.browser.resize(USUAL // 2, 450, 2)
                self.browser.wait_fits()
            self.browser.resize(USUAL)
            self.browser.color_scheme("light")

    def test_dark_is_dark(self):
        self.show("study")
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = self.browser.driver.execute_script(ground)
        self.browser.color_scheme("dark")
        dark = self.browser.driver.execute_script(ground)
        brightness = lambda color: sum(float(part) for part in re.findall(r"[\d.]+", color)[:3])  # noqa: E731
        self.assertGreater(brightness(light), 600)
        self.assertLess(brightness(dark), 200)

    def test_jobs_by_device_class(self):
        browser = self.browser
        self.show("jobs")
        there = self.farm.json("jobs", "show", 1)["studies"][0]["device_class_id"]
        browser.click("button", there)
        browser.wait_text("matmul_host")
        self.assertIn(f"class={there}", browser.driver.current_url)
        browser.type(browser.wait_for("field", re.compile("^device class")), there + "0")
        browser.wait_text("No job passes the filter")
        browser.click("button", "Clear")
        browser.wait_text("matmul_host")

    def test_the_chart_is_drawn(self):
        """The canvas holds more than its ground, and its sentence says what is in it."""
        self.show("study")
        ink = """const canvas = document.querySelector("main canvas");
                 if (!canvas?.width || !canvas.height) return 0;
                 const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                 let count = 0; for (let i = 3; i < data.length; i += 4) count += data[i] > 0; return count;"""
        wait_until(lambda: self.browser.driver.execute_script(ink) > 500, "a chart that is drawn")
        chart = self.browser.find("[aria-label^='Times of the search']")[0].get_attribute("aria-label")
        self.assertRegex(chart, r"Best \d")

    def test_by_keyboard_alone(self):
        browser = self.browser
        self.show("study")
        browser.driver.execute_script("document.activeElement.blur()")
        browser.press("?")
        dialog = browser.wait_for("dialog")
        self.assertTrue(browser.driver.execute_script("return arguments[0].contains(document.activeElement)", dialog))
        browser.press(Keys.ESCAPE)
        browser.wait_gone("dialog")
        # A filter is typed, and taken back.
        browser.press("/")
        browser.press("VECTOR=16", Keys.ENTER)
        browser.wait_for("button", "Remove the condition VECTOR = 16")
        matching = sum(t["config"]["VECTOR"] == 16 for t in self.farm.trials(1) if t["purpose"] == "TRIAL_PURPOSE_SEARCH")
        browser.wait_text(rf"\b{matching} of 40 trials")
        browser.wait_for("button", "Clear").send_keys(Keys.ENTER)
        browser.wait_text(r"(?m)^40 trials")
        # Every element that Tab leads to shows that it has the focus.
        self.show("jobs")
        browser.driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
        reached = []
        for _ in range(60):  # more than there are: from the last one it goes on with the first
            browser.press(Keys.TAB)
            name, shown = browser.driver.execute_script(
                "const e = document.activeElement, s = getComputedStyle(e);"
                "return [e.innerText || e.ariaLabel || e.tagName, e === document.body || s.outlineStyle !== 'none' || s.boxShadow !== 'none']")
            self.assertTrue(shown, f"{name} does not show the focus")
            reached.append(name)
        for name in ("Jobs", "Misses", "RUNNING"):
            self.assertIn(name, [text.strip() for text in reached])
        # Rows by arrows.
        first = browser.wait_for("link", re.compile(r"^job 2$"))
        browser.driver.execute_script("arguments[0].focus()", first)
        browser.press(Keys.ARROW_DOWN)
        self.assertEqual(browser.driver.switch_to.active_element.text, "job 1")
        browser.press(Keys.ENTER)
        browser.wait_text(r"K=64,M=64,N=64")


class Login(PageTest):
    @classmethod
    def fill(cls):
        cls.token = cls.farm.cli("token", "create", "reader", "--role", "lookup").stdout.strip()

    def test_a_code_logs_in_once(self):
        address = self.farm.login()
        with Browser() as browser:
            browser.log_in(address)
            self.assertNotIn("login", browser.driver.current_url)
            self.assertNotIn(address.split("=")[1], browser.driver.page_source)
            browser.assert_clean()
        with Browser() as browser:
            browser.expected = [r"CreateSession - .* 401"]
            browser.open(address)
            browser.wait_for("alert")
            browser.wait_for("field", re.compile("^Token"))
            self.assertEqual(browser.find("link", "Jobs"), [])
            browser.assert_clean()

    def test_a_token_logs_in_and_may_no_more_than_it_may(self):
        with Browser() as browser:
            browser.expected = [r"CreateSession - .* 401"]
            browser.open(self.browser.origin)
            browser.type(browser.wait_for("field", re.compile("^Token")), "tft_" + "0" * 64)
            browser.wait_for("alert")
            browser.type(browser.wait_for("field", re.compile("^Token")), self.token)
            browser.wait_for("link", "Jobs")
            browser.view("#/devices")
            browser.wait_text("READY")
            self.assertEqual(browser.find("button", "Quarantine"), [])
            browser.assert_clean()

    def test_views_with_nothing_to_show_say_so(self):
        for name, (fragment, pattern) in EMPTY.items():
            with self.subTest(view=name):
                self.browser.view(fragment)
                self.browser.wait_text(pattern)
                self.assertEqual(self.browser.find("alert"), [])
                self.browser.screenshot(SCREENSHOTS / f"empty_{name}.png")

    def test_log_out_forgets(self):
        with Browser() as browser:
            browser.log_in(self.farm.login())
            browser.click("button", "Log out")
            browser.wait_for("field", re.compile("^Token"))
            stored = browser.driver.execute_script("return JSON.stringify(localStorage)")
            self.assertNotIn("tfs_", stored)
            browser.driver.refresh()
            browser.wait_for("field", re.compile("^Token"))
            browser.assert_clean()


if __name__ == "__main__":
    main()
