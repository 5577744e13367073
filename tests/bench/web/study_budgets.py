#!/usr/bin/env python3
"""What the dashboard's calls cost on a study of many trials, each beside its limit: sizes as they are transferred, time and
processor time of the daemon. The trials are made up (many_trials.py) and kept in SQLite or, with --postgres, PostgreSQL.

  study_budgets.py [--bin DIR] [--page DIR] [--trials 1000000] [--postgres] [--repeat 20]
Needs the Python client (DIR/../python) for its messages, and for --postgres Debian's package postgresql. --page: where the
built page lies, for the sizes of its files (default: DIR/../client/web). Ends with 1 if a limit is exceeded.
"""

import argparse
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import statistics
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
STUDY = "jobs/1/studies/1"
COLUMNS, ROWS = 600, 160


class Calls:
    """The daemon's HTTP API, with a session that `tunefarm dashboard` has opened."""

    def __init__(self, farm):
        told = farm.cli("dashboard").stdout
        url = re.search(r"http://([\w.:\[\]]+)/\S*#login=([0-9a-f]+)", told)
        assert url, f"tunefarm dashboard has printed no address: {told}"
        self.address, self.secret = url[1], ""
        self.secret = self("AccessService/CreateSession", {"code": url[2]})["secret"]

    def raw(self, call, request):
        """The body as it is transferred, and the message that it stands for."""
        connection = http.client.HTTPConnection(self.address, timeout=600)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        if self.secret:
            headers["Authorization"] = "Bearer " + self.secret
        connection.request("POST", "/api/tunefarm.v1." + call, json.dumps(request), headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        plain = gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body
        assert response.status == 200, f"{call} {request}: {response.status} {plain[:1000]}"
        return body, json.loads(plain)

    def __call__(self, call, request):
        return self.raw(call, request)[1]


def chart(**more):
    return "StudyService/GetStudyChart", {"study": STUDY, "columns": COLUMNS, "rows": ROWS, **more}


def analysis(**more):
    return "StudyService/AnalyzeStudy", {"study": STUDY, "withoutImportance": True, **more}


TRIALS = "TuningService/ListTrials", {"parent": STUDY, "filter": {}, "orderByTime": True, "pageSize": 100}


class Report:
    def __init__(self):
        self.exceeded = 0

    def line(self, what, value, limit, unit):
        over = value > limit
        self.exceeded += over
        print(f"{what:50} {value:8.2f} {unit:2}  at most {limit:4g} {unit}{'  EXCEEDED' if over else ''}", flush=True)


def read_columns(calls):
    """Until the daemon has read the study: seconds, and how many trials that are."""
    began = time.monotonic()
    while True:
        coverage = calls(*chart())["coverage"]
        read, stored = int(coverage.get("read", 0)), int(coverage.get("stored", 0))
        if read == stored > 0:
            return time.monotonic() - began, read
        time.sleep(0.02)


def median_ms(calls, requests):
    took = []
    for request in requests:
        began = time.monotonic()
        calls(*request)
        took.append(time.monotonic() - began)
    return 1e3 * statistics.median(took)


def processor_ms(pid, calls, requests):
    """Of the daemon, for one of the requests; its clock counts in steps of 10 ms."""
    def used():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")

    before = used()
    for request in requests:
        calls(*request)
    return (used() - before) / len(requests)


def content_s(calls):
    """The calls with which the page shows the study, at once: until the last is answered."""
    requests = [("TuningService/GetJob", {"name": "jobs/1"}), chart(), analysis(), TRIALS]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        for answer in [pool.submit(calls, *request) for request in requests]:
            answer.result()
    return time.monotonic() - began


def filters(count, slowest_ns):
    """Each another one, so that no answer can be that of before."""
    values = [{"parameter": "P2", "values": [{"intValue": "1"}, {"intValue": "2"}]},
              {"parameter": "P3", "values": [{"intValue": str(value)} for value in range(4)]}]
    return [{"parameters": values, "medianNs": {"max": slowest_ns * (1 - 0.5 * i / count)}} for i in range(count)]


def measure(report, farm, options, budget_s, forget):
    for state, before in (("cold", forget), ("again", lambda: None)):
        farm.stop()
        before()
        farm.start()
        calls = Calls(farm)
        seconds, trials = read_columns(calls)
        report.line(f"study into columns, {state}: {trials:,} trials", seconds, budget_s, "s")
    report.line("content after that", content_s(calls), 1, "s")
    size = lambda request: len(calls.raw(*request)[0])
    many = filters(options.repeat, calls(*chart())["yMaxNs"])
    pairs = [(f"P{i % 8}", f"P{(i + 1 + i // 8) % 8}") for i in range(options.repeat)]
    grids = [("StudyService/GetParameterGrid", {"study": STUDY, "columnParameter": a, "rowParameter": b})
             for a, b in pairs if a != b]
    report.line(f"chart of {COLUMNS} x {ROWS}: size", size(chart()) / 1e3, 60, "KB")
    report.line("chart: processor", processor_ms(farm.process.pid, calls, [chart()] * options.repeat), 30, "ms")
    report.line("chart with a new filter", median_ms(calls, [chart(filter=one) for one in many]), 30, "ms")
    report.line("grid of two parameters", median_ms(calls, grids), 10, "ms")
    report.line("effects of 8 parameters", median_ms(calls, [analysis(filter=one) for one in many[:5]]) / 1e3, 0.5, "s")
    report.line("100 trials: size", size(TRIALS) / 1e3, 12, "KB")
    revision = calls(*chart())["coverage"]["revision"]
    report.line("poll of the chart without news: size", size(chart(knownRevision=revision)) / 1e3, 0.5, "KB")
    revision = calls(*analysis())["coverage"]["revision"]
    report.line("poll of the effects without news: size", size(analysis(knownRevision=revision)) / 1e3, 0.5, "KB")


def page_files(report, page):
    files = [page / name for name in ("index.html", "app.js", "app.css")]
    if not all(file.exists() and file.stat().st_size for file in files):
        print(f"the page's files are not built in {page}")
        return
    report.line("files of the page, gzipped", sum(len(gzip.compress(file.read_bytes())) for file in files) / 1e3, 80, "KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    os.environ.update(TUNEFARM_BIN_DIR=str(options.bin), TUNEFARM_SOURCE_DIR=str(SOURCE))
    sys.path[:0] = [str(SOURCE / "tests/e2e"), str(options.bin.parent / "python")]
    from farm import Farm
    from many_trials import forget_pages, write_postgres, write_sqlite
    from postgres import Postgres

    report = Report()
    page_files(report, options.page or options.bin.parent / "client/web")
    kernel = pathlib.Path(__file__).parent / "eight_parameters"
    with (Postgres() if options.postgres else contextlib.nullcontext()) as server, Farm("--calls-per-second", 0) as farm:
        if options.postgres:
            os.environ["TUNEFARM_STORE"] = server.url("tunefarm")
        farm.start()
        farm.cli("tune", kernel, "--max-trials", "4", "--strategy", "random", "--quiet")
        farm.stop()
        began = time.monotonic()
        if options.postgres:
            write_postgres(server, "tunefarm", options.trials)
        else:
            write_sqlite(farm.directory / "tunefarm.db", options.trials)
        print(f"{options.trials:,} trials written in {time.monotonic() - began:.0f} s")
        farm.start()

        def forget():
            if options.postgres:
                server.stop()
                forget_pages(server.directory)
                server.start()
            else:
                forget_pages(farm.directory)

        measure(report, farm, options, 10 if options.postgres else 5, forget)
    sys.exit(1 if report.exceeded else 0)


if __name__ == "__main__":
    main()
