"""The dashboard while things change: a best that falls, a job that is paused, resumed and cancelled, a daemon that is started
again under the page, nine tabs, a page that is left open."""

import re
import signal
import socket
import unittest

from browser import SMALL, Browser, Dashboard, PageTest, main, wait_until

# A kernel whose configs get faster in the order of the search. The sum is 0, and no compiler knows it.
STEPS = 60
DEFINITION = f"""
display_name: "stairs"
language: HOST_CXX
sources {{ path: "stairs.cc" }}
dims {{ name: "N" default_value: 256 }}
parameters {{ name: "WORK" values: [{", ".join(str(1000 * n) for n in range(STEPS, 0, -1))}] }}
arguments {{ name: "y" buffer {{ data_type: F32 length: "N" access: OUT }} }}
arguments {{ name: "n" scalar {{ data_type: I32 value: "N" }} }}
launches {{ kernel {{ entry: "stairs" arguments: ["y", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "level" arguments: ["y", "n"] }} }} }}
"""
SOURCE = """
extern "C" void stairs(float* y, int n) {
  volatile int none = 0;
  int sum = 0;
  for (int i = 0; i < WORK; ++i) sum += none;
  for (int i = 0; i < n; ++i) y[i] = i + sum;
}
extern "C" void level(float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = i;
}
"""
# In the page before its own scripts: it asks again after 0.1 s, and each answer about a study is another one, as of a study
# that grows.
NEWS = """{
const wait = window.setTimeout, ask = window.fetch;
const answered = window.answered = {};
let news = 0;
window.setTimeout = (done, ms) => wait(done, Math.min(ms, 100));
window.fetch = async (url, options) => {
  const {knownRevision, ...request} = JSON.parse(options.body);
  const response = await ask(url, {...options, body: JSON.stringify(request)});
  const read = response.json.bind(response);
  response.json = async () => {
    const answer = await read();
    if (answer.coverage) answer.coverage.revision = `news ${++news}`;
    const name = url.split("/").pop();
    answered[name] = (answered[name] ?? 0) + 1;
    return answer;
  };
  return response;
};
}"""
TIME = re.compile(r"([\d.]+) (ns|µs|ms) ±")
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6}


class Live(PageTest):
    FLAGS = ("--compile-workers", "1")  # results come one after another, however many cores there are

    @classmethod
    def fill(cls):
        folder = cls.farm.directory / "stairs"
        folder.mkdir()
        (folder / "kernel.pbtxt").write_text(DEFINITION)
        (folder / "stairs.cc").write_text(SOURCE)
        cls.stairs = folder

    def shown_best(self):
        """The best of the study in nanoseconds as the page shows it, or None."""
        found = TIME.search(self.browser.text())
        return found and float(found[1]) * UNITS[found[2]]

    def test_the_best_falls_while_it_is_watched(self):
        job = self.submit(self.stairs, "--strategy", "exhaustive", "--policy", "fast")
        browser = self.browser
        # Held while the browser gets there, so that there is something left to watch.
        self.farm.cli("jobs", "pause", job)
        browser.view(f"#/jobs/{job}/studies/1")
        browser.wait_text("PAUSED")
        browser.click("button", "Resume")
        seen = [wait_until(self.shown_best, "a best on the page")]
        wait_until(lambda: self.shown_best() < seen[0] / 2 and seen.append(self.shown_best()) is None, "a best that falls")
        browser.wait_text("SUCCEEDED")
        browser.wait_text(r"(?i)the search ended: every config tried")
        shown = wait_until(lambda: "in the final" in browser.text() and self.shown_best(), "the best of the final")
        final = self.farm.json("jobs", "show", job)["studies"][0]["best"]["measurement"]["median_ns"]
        self.assertAlmostEqual(shown / final, 1, delta=0.01)
        # What has ended is not asked for any more.
        browser.wait_text("ended", selector="header")

    def test_pause_resume_and_cancel(self):
        job = self.submit("matmul_host")
        browser = self.browser
        browser.view(f"#/jobs/{job}")
        browser.click("button", "Pause")
        browser.wait_text("PAUSED")
        self.assertEqual(self.state(job), "PAUSED")
        browser.click("button", "Resume")
        browser.wait_text("RUNNING|QUEUED")
        browser.click("button", "Cancel")
        browser.wait_text("CANCELLED")
        self.assertEqual(self.state(job), "CANCELLED")
        # To delete it asks, and takes no for an answer.
        browser.click("button", "Delete")
        browser.click("button", "Keep", below=browser.wait_for("dialog"))
        browser.wait_gone("dialog")
        self.assertEqual(self.state(job), "CANCELLED")
        browser.click("button", "Delete")
        browser.click("button", "Delete", below=browser.wait_for("dialog"))
        wait_until(lambda: self.farm.cli("jobs", "show", job, check=False).returncode == 3, "the end of the job")
        wait_until(lambda: browser.driver.current_url.endswith("#/jobs"), "the list of jobs")

    def test_nine_tabs(self):
        """A browser has six connections to a host; a request that holds one delays the others."""
        job = self.submit("matmul_host")
        self.addCleanup(self.farm.cli, "jobs", "cancel", job)
        browser = self.browser
        first = browser.driver.current_window_handle
        tabs = [first]
        browser.view(f"#/jobs/{job}/studies/1")
        for _ in range(8):
            browser.driver.switch_to.new_window("tab")
            tabs.append(browser.driver.current_window_handle)
            browser.view(f"#/jobs/{job}/studies/1")
            browser.wait_text("RUNNING|QUEUED")
        for tab in tabs:
            browser.driver.switch_to.window(tab)
            wait_until(self.shown_best, "a best in every tab")
        for tab in tabs[1:]:
            browser.driver.switch_to.window(tab)
            browser.driver.close()
        browser.driver.switch_to.window(first)


    def test_a_page_that_is_left_open_keeps_its_memory(self):
        # A paused study is asked for as one that runs, and nothing of it changes but what NEWS says.
        job = self.submit("matmul_host", "--strategy", "random")
        self.addCleanup(self.farm.cli, "jobs", "cancel", job)
        wait_until(lambda: len(self.farm.trials(job)) >= 20, "20 trials")
        self.farm.cli("jobs", "pause", job)
        wait_until(lambda: self.state(job) == "PAUSED", "the pause")
        with Browser(logs=False) as browser:
            cdp = browser.driver.execute_cdp_cmd
            cdp("Page.addScriptToEvaluateOnNewDocument", {"source": NEWS})
            browser.log_in(self.farm.login())
            browser.view(f"#/jobs/{job}/studies/1")
            browser.wait_for("table", re.compile("^Trials"))
            # The grid is asked for once its panel was in sight.
            grid = browser.wait_for("region", "Two parameters")
            browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", grid)
            polled = ("GetStudyChart", "AnalyzeStudy", "GetParameterGrid", "ListTrials")
            answers = "return arguments[0].map(name => answered[name] ?? 0)"

            def heap_after(polls):
                """Bytes that the page needs once each of its calls was answered as many times again."""
                goals = [count + polls for count in browser.driver.execute_script(answers, polled)]
                wait_until(lambda: all(count >= goal for count, goal in
                                       zip(browser.driver.execute_script(answers, polled), goals)), f"{polls} polls")
                cdp("HeapProfiler.collectGarbage", {})
                cdp("HeapProfiler.collectGarbage", {})
                return cdp("Runtime.getHeapUsage", {})["usedSize"]

            before = heap_after(50)  # what is compiled and cached once is there
            growth = heap_after(200) - before
        # The elements and answers of one poll take about 270 kB; compiled code that still comes, a few kB a poll.
        self.assertLess(growth / 200, 30_000, "bytes of the heap that stay with each poll")


class Restart(unittest.TestCase):
    def test_a_daemon_that_is_started_again_under_the_page(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Dashboard("--dashboard-listen", f"127.0.0.1:{port}") as farm, Browser() as browser:
            farm.start()
            farm.cli("tune", "matmul_host", *SMALL, "--policy", "fast", "--max-trials", "4", "--strategy", "random")
            browser.log_in(farm.login())
            browser.view("#/jobs")
            browser.wait_for("link", "job 1")
            browser.expected = [r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|ERR_SOCKET", r" 401 "]
            farm.process.send_signal(signal.SIGTERM)
            farm.process.wait()
            # It says so, and what it had shown stays.
            browser.wait_text("The daemon does not answer", selector="body")
            browser.wait_for("link", "job 1")
            farm.start()
            # Sessions are over with the daemon that made them.
            browser.wait_for("field", re.compile("^Token"))
            browser.log_in(farm.login())
            browser.view("#/jobs")
            browser.wait_for("link", "job 1")
            browser.assert_clean()


if __name__ == "__main__":
    main()
