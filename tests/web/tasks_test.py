"""What people come to the dashboard for, each in at most five clicks from the start page."""

import re

from browser import PageTest, main, wait_until

CLICKS_MAX = 5
# One parameter makes the time, the other does nothing, whatever machine it is: the importance can be told. The sum is 0,
# and no compiler knows it.
DEFINITION = """
display_name: "slope"
language: HOST_CXX
sources { path: "slope.cc" }
dims { name: "N" default_value: 256 }
parameters { name: "WORK" values: [20000, 40000, 60000, 80000, 100000, 120000, 140000, 160000] }
parameters { name: "IDLE" values: [1, 2, 3, 4, 5] }
arguments { name: "y" buffer { data_type: F32 length: "N" access: OUT } }
arguments { name: "n" scalar { data_type: I32 value: "N" } }
launches { kernel { entry: "slope" arguments: ["y", "n"] } }
reference { steps { kernel { entry: "level" arguments: ["y", "n"] } } }
"""
SOURCE = """
extern "C" void slope(float* y, int n) {
  volatile int none = 0;
  int sum = 0;
  for (int i = 0; i < WORK; ++i) sum += none;
  for (int i = 0; i < n; ++i) y[i] = i + sum;
}
extern "C" void level(float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = i;
}
"""


class Tasks(PageTest):
    @classmethod
    def fill(cls):
        super().fill()
        folder = cls.farm.directory / "slope"
        folder.mkdir()
        (folder / "kernel.pbtxt").write_text(DEFINITION)
        (folder / "slope.cc").write_text(SOURCE)
        cls.farm.cli("tune", folder, "--policy", "fast", "--strategy", "exhaustive")

    def setUp(self):
        super().setUp()
        self.browser.view("#/")
        self.browser.clicks = 0

    def tearDown(self):
        self.assertLessEqual(self.browser.clicks, CLICKS_MAX)

    def test_why_did_this_config_win(self):
        browser = self.browser
        browser.click("link", "Jobs")
        browser.click("link", "job 3")
        browser.click("link", re.compile("^N=256"))
        final = browser.wait_for("region", "Final")
        # Its lead over the others with the intervals, and which parameters matter.
        wait_until(lambda: re.search(r"\dx \(\d\S*x to \d\S*x\)", final.text), "the ratios of the final")
        browser.wait_text(r"\d % alone, \S+ % in all")
        browser.wait_text("Promoted")

    def test_which_configs_crash_and_what_have_they_in_common(self):
        browser = self.browser
        browser.click("link", "Jobs")
        browser.click("link", "job 2")
        browser.click("link", re.compile("^N=4096"))
        outcomes = browser.wait_for("region", "Outcomes")
        crash = wait_until(lambda: browser.find("row", re.compile("RUN_CRASH"), outcomes), "the crashes")[0]
        self.assertIn("crashed", crash.text)
        browser.click("button", "In common", below=crash)
        common = browser.wait_for("table", "What RUN_CRASH has in common")
        browser.wait_for("row", re.compile("FAULT=segfault"), common)
        self.assertEqual(browser.find("row", re.compile("FAULT=none"), common), [])

    def test_what_should_be_tuned_next(self):
        browser = self.browser
        browser.click("link", "Misses")
        first = browser.wait_for("row", re.compile("K=64,M=64,N="))
        self.assertIn("N=96", first.text, "what was asked most is first")
        browser.click("button", re.compile("^Tune"), below=first)
        dialog = browser.wait_for("dialog")
        browser.click("button", "Tune", below=dialog)
        job = browser.wait_for("link", re.compile(r"^job \d+$"), below=dialog).text.split()[1]
        self.addCleanup(self.farm.cli, "jobs", "cancel", job, check=False)
        self.assertEqual(self.farm.json("jobs", "show", job)["problems"][0]["dims"], {"K": 64, "M": 64, "N": 96})

    def test_stop_the_job_that_hogs_the_device(self):
        job = self.submit("matmul_host")
        browser = self.browser
        row = browser.wait_for("row", re.compile("matmul_host.*RUNNING"))
        self.assertIn(job, row.text)
        browser.click("button", "Cancel", below=row)
        wait_until(lambda: self.state(job) == "CANCELLED", "the end of the job")


if __name__ == "__main__":
    main()
