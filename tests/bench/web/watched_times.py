#!/usr/bin/env python3
"""Whether trials have the same times while nine tabs watch them: the same job of a kernel of about 1 ms for the CPU, by turns
with nine windows of Chromium on its study, all in sight and polling, and with none.

  watched_times.py [--bin DIR] [--turns 5] [--trials 200] [--apart | --calls]

--apart: the browser runs on half of this machine's cores, and the daemon and its workers on the other half, in all turns:
a browser on another machine takes nothing of the daemon's cores, either. Without it the browser's own work is measured
with what it asks of the daemon. Run it by Debian's python3, which has selenium.

--calls: apart, and without a browser, whose work makes the other cores slower, too: this program makes the calls that
nine tabs make. In the turns without them it makes the same calls of another daemon, which has the same job behind it and
runs on this program's cores, so that these are as busy.

Ends with 1 if the median of the ratios of neighbouring turns is further from 1 than the limit: the speed of a shared machine
changes more in minutes than what is looked for.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TABS = 9
MOVED_MAX = 0.01  # of the median time, either way

DEFINITION = """
display_name: "one_millisecond"
language: HOST_CXX
sources {{ path: "kernel.cc" }}
dims {{ name: "N" default_value: 256 }}
parameters {{ name: "NUMBER" range {{ first: 1 last: {} }} bind: BIND_RUN }}
arguments {{ name: "y" buffer {{ data_type: I32 length: "N" access: OUT }} }}
arguments {{ name: "n" scalar {{ data_type: I32 value: "N" }} }}
launches {{ kernel {{ entry: "spin" arguments: ["y", "n"] }} }}
reference {{ steps {{ kernel {{ entry: "count" arguments: ["y", "n"] }} }} }}
"""
# The sum is 0, and no compiler knows it.
KERNEL = """
extern "C" void spin(int* y, int n) {
  volatile int none = 0;
  int sum = 0;
  for (int i = 0; i < 2500000; ++i) sum += none;
  for (int i = 0; i < n; ++i) y[i] = i + sum;
}
extern "C" void count(int* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = i;
}
"""
MEASURE = ["--strategy", "exhaustive", "--min-samples", "20", "--max-samples", "20"]
for setting in ("no_early_stop=true", "no_reuse=true", "finalists=1", "final_rounds=1"):
    MEASURE += ["--measure", setting]


class CallingTab(threading.Thread):
    """Makes the calls of a tab on a study, each as often as the page (client/web/src/study/polls.ts), until told to end."""

    def __init__(self, calls, job):
        super().__init__(daemon=True)
        self.calls, self.job, self.made = calls, job, 0
        self.ends = threading.Event()

    def ask(self, call, request):
        self.made += 1
        return self.calls(call, request)

    def run(self):
        study = f"{self.job}/studies/1"
        polls = {"job": 1, "chart": 1, "effects": 2, "trials": 5}
        due = dict.fromkeys(polls, time.monotonic())
        revisions = {"chart": None, "effects": None}
        listed = None
        while not self.ends.wait(max(0, min(due.values()) - time.monotonic())):
            poll = min(due, key=due.get)
            known = {"knownRevision": revisions[poll]} if revisions.get(poll) else {}
            if poll == "job":
                self.ask("TuningService/GetJob", {"name": self.job})
            elif poll == "chart":
                answer = self.ask("StudyService/GetStudyChart", {"study": study, "columns": 600, "rows": 160, **known})
                revisions["chart"] = answer["coverage"].get("revision")
            elif poll == "effects":
                answer = self.ask("StudyService/AnalyzeStudy", {"study": study, "withoutImportance": True, **known})
                revisions["effects"] = answer["coverage"].get("revision")
            elif listed != revisions["chart"]:
                listed = revisions["chart"]
                self.ask("TuningService/ListTrials", {"parent": study, "filter": {}, "orderByTime": True, "pageSize": 100})
            due[poll] = time.monotonic() + polls[poll]

    def end(self):
        self.ends.set()
        self.join()
        return self.made


def calling_turn(farm, calls, others_calls, kernel, is_watched):
    """As browser_turn; the other daemon is asked about its first job."""
    from farm import outcome, search
    job = farm.cli("submit", "--quiet", kernel, *MEASURE).stdout.strip()
    tabs = [CallingTab(calls, f"jobs/{job}") if is_watched else CallingTab(others_calls, "jobs/1") for _ in range(TABS)]
    for tab in tabs:
        tab.start()
    farm.cli("jobs", "watch", job)
    made = sum(tab.end() for tab in tabs)
    trials = search(farm.trials(job))
    return [float(trial["measurement"]["median_ns"]) for trial in trials if outcome(trial) == "OK"], made


def show(browser, tabs, address):
    for tab in tabs:
        browser.driver.switch_to.window(tab)
        browser.driver.get(address)


def browser_turn(farm, browser, tabs, kernel, is_watched):
    """Medians of the trials in nanoseconds, and how many calls the tabs have made."""
    from farm import outcome, search, wait_until
    job = farm.cli("submit", "--quiet", kernel, *MEASURE).stdout.strip()
    # Held while the tabs get there.
    farm.cli("jobs", "pause", job)
    wait_until(lambda: farm.json("jobs", "show", job)["state"] == "JOB_STATE_PAUSED", "the pause")
    before = {trial["name"] for trial in farm.trials(job)}
    if is_watched:
        show(browser, tabs, f"{browser.origin}/#/jobs/{job}/studies/1")
        for tab in tabs:
            browser.driver.switch_to.window(tab)
            browser.wait_text("PAUSED")
            assert not browser.driver.execute_script("return document.hidden"), "a tab is not in sight, and asks nothing"
            browser.driver.execute_script("performance.setResourceTimingBufferSize(1e5); performance.clearResourceTimings()")
    farm.cli("jobs", "resume", job)
    farm.cli("jobs", "watch", job)
    calls = 0
    for tab in tabs if is_watched else ():
        browser.driver.switch_to.window(tab)
        calls += browser.driver.execute_script("return performance.getEntriesByType('resource').length")
    show(browser, tabs, "about:blank")
    trials = [trial for trial in search(farm.trials(job)) if trial["name"] not in before]
    bad = [trial for trial in trials if outcome(trial) != "OK"]
    if bad:
        print(f"  {len(bad)} trials are left out: {outcome(bad[0])}: {bad[0].get('message', '')}")
    return [float(trial["measurement"]["median_ns"]) for trial in trials if outcome(trial) == "OK"], calls


@contextlib.contextmanager
def started(trials):
    """A daemon that has run the job once, on the processors of this program, and the kernel."""
    from browser import Dashboard
    with Dashboard() as farm:
        kernel = farm.directory / "one_millisecond"
        kernel.mkdir()
        (kernel / "kernel.pbtxt").write_text(DEFINITION.format(trials))
        (kernel / "kernel.cc").write_text(KERNEL)
        farm.start(TUNEFARM_SHARE_HOST="0")
        farm.cli("tune", kernel, *MEASURE, "--quiet")  # what is compiled and read for the first time
        yield farm, kernel


@contextlib.contextmanager
def browsing(farm, kernel):
    from browser import Browser
    with Browser(logs=False) as browser:
        browser.log_in(farm.login())
        tabs = [browser.driver.current_window_handle]
        while len(tabs) < TABS:
            browser.driver.switch_to.new_window("window")
            tabs.append(browser.driver.current_window_handle)
        show(browser, tabs, "about:blank")
        yield lambda is_watched: browser_turn(farm, browser, tabs, kernel, is_watched)


@contextlib.contextmanager
def calling(farm, kernel, trials):
    from study_budgets import Calls
    with started(trials) as (other, _):
        calls, others_calls = Calls(farm), Calls(other)
        yield lambda is_watched: calling_turn(farm, calls, others_calls, kernel, is_watched)


def quantiles(times):
    low, middle, high = statistics.quantiles([ns / 1e3 for ns in times], n=4)
    last = statistics.quantiles([ns / 1e3 for ns in times], n=20)[-1]
    return f"{len(times):6} {middle:10.2f} {low:10.2f} {high:10.2f} {last:10.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--trials", type=int, default=200)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--apart", action="store_true")
    how.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path[:0] = [str(SOURCE / "tests/web"), str(SOURCE / "tests/bench")]
    from browser import unusable
    from hostile_clients import halves_of_cores
    if not options.calls and unusable():
        sys.exit(f"watched_times.py: {unusable()}")

    of_watchers = []
    if options.apart or options.calls:
        of_watchers, of_daemon = halves_of_cores()
        os.sched_setaffinity(0, of_daemon)
        print(f"who watches on the processors {of_watchers}, the rest on {of_daemon}")
    with started(options.trials) as (farm, kernel):
        if of_watchers:
            os.sched_setaffinity(0, of_watchers)
        with calling(farm, kernel, options.trials) if options.calls else browsing(farm, kernel) as turn:
            print(f"{'µs':12} {'trials':>6} {'median':>10} {'quarter':>10} {'3 quarters':>10} {'95 %':>10}  calls of the tabs")
            times = {False: [], True: []}  # by whether it was watched: those of each turn
            for number in range(options.turns):
                # Each goes first in every second turn.
                for is_watched in (False, True)[::1 if number % 2 == 0 else -1]:
                    seen, calls = turn(is_watched)
                    times[is_watched].append(seen)
                    print(f"{'nine watch' if is_watched else 'none watches':12} {quantiles(seen)}  {calls}", flush=True)
    for is_watched, what in ((False, "none, in all"), (True, "nine, in all")):
        print(f"{what:12} {quantiles(sum(times[is_watched], []))}")
    medians = {key: [statistics.median(one) for one in value] for key, value in times.items()}
    ratios = sorted(watched / alone for alone, watched in zip(medians[False], medians[True]))
    ratio = statistics.median(ratios)
    is_moved = abs(ratio - 1) > MOVED_MAX
    print(f"median while nine watch, by that of the turn beside it: {ratio:.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f})  "
          f"from {1 - MOVED_MAX:g} to {1 + MOVED_MAX:g}{'  EXCEEDED' if is_moved else ''}")
    sys.exit(1 if is_moved else 0)


if __name__ == "__main__":
    main()
