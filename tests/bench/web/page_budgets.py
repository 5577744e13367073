#!/usr/bin/env python3
"""How the page of a study of many trials feels in Chromium while trials are added to it, each number beside its limit.

  page_budgets.py [--bin DIR] [--trials 1000000] [--minutes 10] [--slower 6]

The trials are made up (many_trials.py) and those of a paused job, so that the page polls, and has news with each poll. First
the time until the page shows the study; then what a user does, at the processor's full speed and slowed: tasks of the
page's thread above 50 ms (Long Tasks), the time between frames, and how long a changed filter takes to be drawn. At last the
page is left alone for --minutes: its heap after a garbage collection, and the nodes of its document, before and after.
Only the page's thread is slowed. Run it by Debian's python3, which has selenium and protobuf, on a machine that does
nothing else. Ends with 1 if a limit is exceeded.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import threading
import time
import urllib.parse

from study_budgets import SOURCE, STUDY, Report

TASK_MS = 50
DRAWN_MS = 1000
ADDED, ADDED_EVERY_S = 20, 1
MARGIN_S = 3  # of the tasks that still come after what was done

# In every page before its own scripts: what it asks, when it shows something, its long tasks and its frames. Its content
# is there when all that the window shows is: the chart, the effects of the parameters, and below them the first trials.
PROBE = """
const bench = window.bench = {calls: {}, requests: [], tasks: [], causes: [], frames: [], isOn: false, input: 0,
                              sent: 0, answered: 0};
const charts = "GetStudyChart";
const ask = window.fetch;
window.fetch = async (url, options) => {
  const name = String(url).split("/").pop();
  bench.calls[name] = (bench.calls[name] ?? 0) + 1;
  if (!bench.content) bench.requests.push(name);
  if (name !== charts) return ask(url, options);
  const sent = bench.sent = performance.now();
  const response = await ask(url, options);
  const read = response.json.bind(response);
  response.json = async () => {
    const value = await read();
    bench.answered = sent;
    return value;
  };
  return response;
};
const observers = [["longtask", e => bench.tasks.push(e.duration)],
  ["long-animation-frame", e => bench.causes.push(...e.scripts.map(s => [s.duration, s.invoker + " " + s.sourceFunctionName,
    s.forcedStyleAndLayoutDuration]))]].map(([type, keep]) => {
  const add = entries => bench.isOn && entries.forEach(keep);
  const observer = new PerformanceObserver(list => add(list.getEntries()));
  observer.observe({type});
  return () => add(observer.takeRecords());
});
const frames = count => new Promise(done => {
  const next = () => count-- > 0 ? requestAnimationFrame(next) : done(performance.now());
  next();
});
let last = 0;
const count = selector => document.querySelectorAll(selector).length;
requestAnimationFrame(function frame(now) {
  if (bench.isOn && last) bench.frames.push(now - last);
  last = bench.isOn ? now : 0;
  if (!bench.chart && count(".chart canvas") && count(".legend li")) bench.chart = now;
  if (bench.chart && !bench.content && count(".effect") && count(".wide tbody tr") >= 20) bench.content = now;
  if (bench.isOn || !bench.content) requestAnimationFrame(frame); else bench.wake = () => requestAnimationFrame(frame);
});
bench.begin = () => {
  bench.tasks = []; bench.causes = []; bench.frames = []; bench.isOn = true;
  bench.wake?.();
};
bench.end = async () => {
  await frames(2);
  observers.forEach(flush => flush());
  bench.isOn = false;
  const {tasks, causes, frames: between} = bench;
  return {tasks, causes, frames: between};
};
// From the last input until the chart that is asked for because of it is drawn: milliseconds.
bench.drawn = async () => {
  while (!(bench.sent >= bench.input && bench.answered >= bench.sent)) await frames(1);
  return await frames(2) - bench.input;
};
bench.shown = async what => {
  while (!bench[what]) await frames(1);
  return bench[what];
};
bench.read = async count => {
  while (document.querySelector(".filter > .muted")?.textContent.replace(/\\D/g, "") < count ||
         document.querySelector(".filter > .muted").textContent.includes("read")) await frames(1);
  return await frames(2);
};
for (const type of ["mouseup", "keydown"])
  addEventListener(type, () => bench.input = performance.now(), {capture: true});
"""


class Page:
    """The page of the study in a browser."""

    def __init__(self, browser, trials):
        self.browser = browser
        self.trials = trials
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source="{" + PROBE + "}")

    def cdp(self, method, **parameters):
        return self.browser.driver.execute_cdp_cmd(method, parameters)

    def run(self, expression):
        """The value of an expression, which may be a promise."""
        done = self.cdp("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def load(self):
        """Loads the view again; does not wait for it."""
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.browser.origin}/#/{STUDY}")

    def box(self, selector, index=0):
        """Left, top, width and height of an element in the window."""
        return self.run(f"(r => [r.left, r.top, r.width, r.height])(document.querySelectorAll({json.dumps(selector)})[{index}]"
                        ".getBoundingClientRect())")

    def mouse(self, kind, x, y, **more):
        self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector, index=0):
        self.run(f"document.querySelectorAll({json.dumps(selector)})[{index}].scrollIntoView({{block: 'center'}})")
        x, y, width, height = self.box(selector, index)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x + width / 2, y + height / 2, button="left", clickCount=1)

    def go(self, query):
        """The address of the view, as a link to it."""
        self.run(f"bench.input = performance.now(), location.hash = {json.dumps('#/' + STUDY + query)}, 0")

    def collected(self):
        """Bytes of the heap and nodes of documents after a garbage collection."""
        for _ in range(2):
            self.cdp("HeapProfiler.collectGarbage")
        return self.cdp("Runtime.getHeapUsage")["usedSize"], self.cdp("Memory.getDOMCounters")["nodes"]


def drag(page, to, moves=40):
    """The mouse over the plot, pressed at `to`[0] and released at `to`[1], both shares of its width."""
    page.run("document.querySelector('.chart').scrollIntoView({block: 'center'})")
    left, top, width, height = page.box(".chart .u-over")
    at = lambda share: (left + width * share, top + height * 0.5)
    page.mouse("mouseMoved", *at(to[0]))
    page.mouse("mousePressed", *at(to[0]), button="left", clickCount=1)
    for i in range(moves):
        page.mouse("mouseMoved", *at(to[0] + (to[1] - to[0]) * (i + 1) / moves), button="left", buttons=1)
    page.mouse("mouseReleased", *at(to[1]), button="left", clickCount=1)


def watches(page):
    time.sleep(16)  # three polls
    return []


def moves_over_the_chart(page):
    page.run("document.querySelector('.chart').scrollIntoView({block: 'center'})")
    left, top, width, height = page.box(".chart .u-over")
    for i in range(120):
        page.mouse("mouseMoved", left + width * (i % 60) / 60, top + height * (i % 37) / 37)
    return []


def drags_a_range(page):
    took = []
    for to in ((0.2, 0.8), (0.1, 0.9), (0.3, 0.6)):
        drag(page, to)
        took.append(page.run("bench.drawn()"))
    return took


def shifts_the_range(page):
    """By a tenth of it at a time, from the first fifth of the study on."""
    took = []
    for i in range(12):
        bounds = {"min": page.trials * (20 + 2 * i) // 100, "max": page.trials * (40 + 2 * i) // 100}
        page.go("?f=" + urllib.parse.quote(json.dumps({"evaluation": bounds})))
        took.append(page.run("bench.drawn()"))
    return took


def scrolls(page):
    for delta in (100,) * 60 + (-100,) * 60:
        page.mouse("mouseWheel", 640, 450, deltaX=0, deltaY=delta)
    return []


def clicks_on_values(page):
    """Adds conditions, and takes them away again."""
    took = []
    for index in (0, 7, 14, 21, 21, 14, 7, 0):
        page.click(".effect .value", index)
        took.append(page.run("bench.drawn()"))
    return took


def changes_the_axes(page):
    took = []
    for query in ("?y=log", "?y=log&x=time", "?x=time", ""):
        page.go(query)
        took.append(page.run("bench.drawn()"))
    return took


STEPS = (watches, moves_over_the_chart, drags_a_range, shifts_the_range, scrolls, clicks_on_values, changes_the_axes)


def interact(report, page, slower):
    page.cdp("Emulation.setCPUThrottlingRate", rate=slower)
    speed = f"processor slowed {slower:g} times" if slower > 1 else "processor at full speed"
    limit = f"at most {DRAWN_MS} ms" if slower == 1 else "no limit"
    print(f"\n{speed}: tasks above {TASK_MS} ms: at most 0; until what was changed is drawn: {limit}; frames: no limit\n{'':24} {'tasks':>6} {'longest':>8} {'drawn p50':>10} {'max':>7} {'frames':>7} {'p50 ms':>7} "
          f"{'p95':>7} {'max':>7}")
    for step in STEPS:
        page.go("")
        time.sleep(1)
        page.run("bench.begin()")
        drawn = step(page)
        time.sleep(MARGIN_S)
        seen = page.run("bench.end()")
        tasks, frames = sorted(seen["tasks"]), sorted(seen["frames"])
        is_over = len(tasks) > 0 or (slower == 1 and max(drawn, default=0) > DRAWN_MS)
        report.exceeded += is_over
        at = lambda q: frames[int(q * (len(frames) - 1))]
        waited = f"{statistics.median(drawn):10.0f} {max(drawn):7.0f}" if drawn else f"{'-':>10} {'-':>7}"
        print(f"{step.__name__.replace('_', ' '):24} {len(tasks):6} {tasks[-1] if tasks else 0:8.0f} {waited} "
              f"{len(frames):7} {at(0.5):7.1f} {at(0.95):7.1f} {at(1):7.1f}{'  EXCEEDED' if is_over else ''}", flush=True)
        for duration, what, layout in sorted(seen["causes"], reverse=True)[:2] if tasks else ():
            print(f"{'':26}{duration:.0f} ms in {what}, {layout:.0f} ms of it layout")
    page.cdp("Emulation.setCPUThrottlingRate", rate=1)


def loads(report, page):
    def load(what, limit_s):
        page.load()
        for name, shown in (("first chart", "chart"), ("all content", "content")):
            seconds = page.run(f"bench.shown('{shown}')") / 1e3
            if limit_s:
                report.line(f"{what}: {name}", seconds, limit_s, "s")
            else:
                print(f"{what + ': ' + name:50} {seconds:8.2f} s   no limit")

    # The daemon has read nothing of the study: charts are of what it has read so far.
    load("study not read yet", 6)
    report.line("study not read yet: the whole study is drawn", page.run(f"bench.read({page.trials})") / 1e3, 6, "s")
    load("study in columns", 1)
    calls = page.run("bench.requests")
    files = page.run("performance.getEntriesByType('resource').filter(e => !e.name.includes('/api/')).length + 1")
    report.line("files until all content", files, 3, "")
    report.line("calls until all content", len(calls), 4, "")
    print("  " + ", ".join(calls))
    page.cdp("Emulation.setCPUThrottlingRate", rate=6)
    load("study in columns, slowed 6 times", None)
    page.cdp("Emulation.setCPUThrottlingRate", rate=1)


def leave_alone(report, page, minutes):
    page.load()
    page.run("bench.shown('content')")
    time.sleep(10)
    before = page.run("Object.values(bench.calls).reduce((a, b) => a + b)")
    heap, nodes = page.collected()
    print()
    report.line("heap after 10 s, garbage collected", heap / 1e6, 50, "MB")
    report.line("nodes of the document", nodes, 5000, "")
    for quarter in range(1, 5):
        end = time.monotonic() + 15 * minutes
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)
        calls = page.run("bench.calls")
        heap, nodes = page.collected()
        made = sum(calls.values()) - before
        report.line(f"heap {minutes * quarter / 4:g} minutes later, {made:,} calls", heap / 1e6, 50, "MB")
    report.line("nodes of the document", nodes, 5000, "")
    print("calls in all: " + ", ".join(f"{name} {count:,}" for name, count in sorted(calls.items())))


@contextlib.contextmanager
def growing(path, rows):
    """Trials are added while it lasts."""
    from many_trials import add_sqlite
    ended = threading.Event()

    def add():
        while not ended.wait(ADDED_EVERY_S):
            add_sqlite(path, itertools.islice(rows, ADDED))

    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--slower", type=float, default=6)
    options = parser.parse_args()
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path[:0] = [str(SOURCE / "tests/web"), str(options.bin.parent / "python")]
    from browser import Browser, Dashboard, unusable, wait_until
    from many_trials import write_sqlite
    if unusable():
        sys.exit(f"page_budgets.py: {unusable()}")

    report = Report()
    kernel = pathlib.Path(__file__).parent / "eight_parameters"
    with Dashboard() as farm:
        farm.start()
        job = farm.cli("submit", "--quiet", kernel, "--strategy", "random").stdout.strip()
        wait_until(lambda: len(farm.trials(job)) >= 4, "a few trials")
        farm.cli("jobs", "pause", job)
        wait_until(lambda: farm.json("jobs", "show", job)["state"] == "JOB_STATE_PAUSED", "the pause")
        farm.stop()
        began = time.monotonic()
        more = int(60 * options.minutes + 1800) * ADDED
        rows = write_sqlite(farm.directory / "tunefarm.db", options.trials, more)
        print(f"{options.trials:,} trials written in {time.monotonic() - began:.0f} s", flush=True)
        farm.start()
        with Browser(logs=False) as browser, growing(farm.directory / "tunefarm.db", rows):
            page = Page(browser, options.trials)
            browser.log_in(farm.login())
            loads(report, page)
            for slower in (1, options.slower):
                interact(report, page, slower)
            leave_alone(report, page, options.minutes)
    sys.exit(1 if report.exceeded else 0)


if __name__ == "__main__":
    main()
