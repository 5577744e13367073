"""A study on the dashboard: filters, copied texts, trials that are compared."""

import json
import re
import shlex
import unittest

from browser import PageTest, main, wait_until

STUDY = "#/jobs/1/studies/1"


class StudyTest(PageTest):
    def setUp(self):
        super().setUp()
        self.trials = [t for t in self.farm.trials(1) if t["purpose"] == "TRIAL_PURPOSE_SEARCH"]
        self.browser.view(STUDY)
        self.browser.wait_text(r"(?m)^40 trials")
        self.browser.wait_for("button", re.compile(r"^VECTOR\W+16\b"))

    def matching(self, condition):
        return sum(1 for trial in self.trials if condition(trial))

    def best(self):
        """The config of the best that the command line names."""
        return self.farm.json("jobs", "show", 1)["studies"][0]["best"]["config"]

    def test_a_click_filters_all_panels_and_is_in_the_address(self):
        browser = self.browser
        one = self.matching(lambda t: t["config"]["VECTOR"] == 16)
        both = self.matching(lambda t: t["config"]["VECTOR"] == 16 and not t["config"]["PACK"])
        browser.click("button", re.compile(r"^VECTOR\W+16\b"))
        browser.wait_text(rf"\b{one} of 40 trials")
        browser.click("button", re.compile(r"^PACK\W+false\b"))
        browser.wait_text(rf"\b{both} of 40 trials")
        browser.wait_text(rf"1 to {both} of {both}\b")
        # Who opens the address sees the same.
        address = browser.driver.current_url
        browser.view("#/jobs")
        browser.wait_for("link", "job 1")
        browser.driver.get(address)
        browser.wait_text(rf"\b{both} of 40 trials")
        browser.click("button", "Remove the condition PACK = false")
        browser.wait_text(rf"\b{one} of 40 trials")
        browser.click("button", "Clear")
        browser.wait_text(r"(?m)^40 trials")
        self.assertNotIn("f=", browser.driver.current_url)

    def test_a_condition_that_is_none_is_explained(self):
        browser = self.browser
        field = browser.wait_for("field", re.compile("^Filter"))
        for text, pattern in (("VECTOR", "Write a condition"), ("NO_SUCH=1", "no parameter NO_SUCH"), ("outcome=BAD", "BAD is no outcome")):
            browser.type(field, text)
            browser.wait_text(pattern)
        browser.type(field, "time<1ns")
        browser.wait_text(r"\b0 of 40 trials")
        browser.wait_text("No trial passes the filter")

    def test_copied_texts_are_of_the_best_config(self):
        browser = self.browser
        best = self.best()
        browser.click("button", "Copy the config as JSON")
        self.assertEqual(json.loads(browser.clipboard()), best)
        browser.click("button", "Copy the config as -D options")
        options = browser.clipboard().split()
        for name, value in best.items():
            self.assertIn(f"-D{name}={int(value) if isinstance(value, bool) else value}", options)
        browser.click("button", "Copy the command that runs the config")
        program, *arguments = shlex.split(browser.clipboard())
        self.assertEqual(program, "tunefarm")
        self.assertEqual(self.farm.json(*arguments)["config"], best)

    def test_the_command_of_a_trial_runs_its_config(self):
        browser = self.browser
        browser.view(f"{STUDY}/trials/3")
        browser.click("button", re.compile("^Copy the command"))
        _, *arguments = shlex.split(browser.clipboard())
        trial = next(t for t in self.trials if t["name"].endswith("/trials/3"))
        self.assertEqual(self.farm.json(*arguments)["config"], trial["config"])

    def test_marked_trials_are_compared(self):
        browser = self.browser
        browser.wait_for("field", re.compile("^Mark trial"))
        for box in browser.find("field", re.compile("^Mark trial"))[:2]:
            box.click()
        browser.click("link", re.compile("^compare 2"))
        browser.wait_for("table", "What differs")
        different = {name for name in self.best() if browser.find("row", re.compile(f"^{name} "))}
        self.assertTrue(different)

    def test_the_numbers_of_the_final(self):
        browser = self.browser
        final = browser.wait_for("region", "Final")
        browser.wait_text("Promoted")
        wait_until(lambda: re.search(r"\d+(\.\d+)?x \(\d+(\.\d+)?x to \d+(\.\d+)?x\)", final.text), "the ratios of the final")

    def test_points_of_the_chart_are_a_table_too(self):
        browser = self.browser
        browser.click("summary", "As a table", below=browser.wait_for("region", "Search"))
        browser.wait_for("table", re.compile("best", re.I), below=browser.wait_for("region", "Search"))


if __name__ == "__main__":
    main()
