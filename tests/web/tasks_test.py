"""What people come to the dashboard for, each in at most five clicks from the start page."""

import re

from browser import PageTest, main, wait_until

CLICKS_MAX = 5


class Tasks(PageTest):
    def setUp(self):
        super().setUp()
        self.browser.view("#/")
        self.browser.clicks = 0

    def tearDown(self):
        self.assertLessEqual(self.browser.clicks, CLICKS_MAX)

    def test_why_did_this_config_win(self):
        browser = self.browser
        browser.click("link", "Jobs")
        browser.click("link", "job 1")
        browser.click("link", re.compile("^K=64,M=64,N=64"))
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
