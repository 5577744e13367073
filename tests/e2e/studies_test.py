"""What the trials of a study show, from real daemons: while a job runs, when it has ended, after a restart, on both stores."""

import struct
import unittest

import grpc
from farm import HANG_SECONDS, Farm, config, search, wait_until
from postgres import Postgres, programs
from tunefarm.v1 import study_service_pb2, study_service_pb2_grpc, trial_pb2, tuning_service_pb2, tuning_service_pb2_grpc

STUDY = "jobs/1/studies/1"
DIMS = ["--dim", "M=128", "--dim", "N=128", "--dim", "K=128"]


def numbers(kind, data):
    """Little-endian numbers: "d" float64, "q" int64, "I" uint32."""
    return list(struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


class Studies:
    """`with Studies(farm) as studies:` calls of a daemon."""

    def __init__(self, farm):
        self.channel = grpc.insecure_channel(f"unix:{farm.directory}/run/client.sock")
        self.studies = study_service_pb2_grpc.StudyServiceStub(self.channel)
        self.tuning = tuning_service_pb2_grpc.TuningServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def chart(self, **fields):
        request = study_service_pb2.GetStudyChartRequest(study=STUDY, **fields)
        return self.studies.GetStudyChart(request, timeout=HANG_SECONDS)

    def whole_chart(self, **fields):
        """When all that is stored has been read."""
        def read():
            chart = self.chart(**fields)
            return None if chart.coverage.is_behind else chart
        return wait_until(read, "all trials in memory")

    def filtered(self, trial_filter, **fields):
        """All pages of a filtered list."""
        request = tuning_service_pb2.ListTrialsRequest(parent=STUDY, filter=trial_filter, page_size=50, **fields)
        trials = []
        while True:
            page = self.tuning.ListTrials(request, timeout=HANG_SECONDS)
            trials += page.trials
            if not page.next_page_token:
                return trials, page.matching
            request.page_token = page.next_page_token


class StudiesTest(unittest.TestCase):
    def check(self, **environment):
        with Farm() as farm:
            farm.start(**environment)
            farm.cli("submit", "matmul_host", "--policy", "fast", *DIMS)
            with Studies(farm) as studies:
                early = wait_until(lambda: (chart := studies.chart()).coverage.read > 20 and chart, "twenty trials")
                self.check_chart(early)
                wait_until(lambda: farm.json("jobs", "show", 1)["state"] == "JOB_STATE_SUCCEEDED", "the job's end")
                trials = search(farm.trials(1))
                ended = studies.whole_chart()
                self.check_ended(studies, ended, trials)
                self.assertGreater(ended.coverage.revision, early.coverage.revision)
                unchanged = studies.chart(known_revision=ended.coverage.revision)
                self.assertEqual((unchanged.coverage, unchanged.density), (ended.coverage, b""))
            analysis = farm.json("results", 1, "--analyze")
            farm.kill()
            farm.start(**environment)
            with Studies(farm) as studies:
                self.check_ended(studies, studies.whole_chart(), trials)
            self.assertEqual(farm.json("results", 1, "--analyze"), analysis)
            self.assertEqual(farm.stop(), 0)

    def check_chart(self, chart):
        self.assertEqual(len(chart.density), chart.columns * chart.rows)
        best = numbers("d", chart.best_ns)
        self.assertEqual(best, sorted(best, reverse=True))
        self.assertEqual(best[-1], chart.y_min_ns)
        measured = chart.coverage.matching - sum(failures.count for failures in chart.failures)
        self.assertEqual(len(numbers("q", chart.point_ordinals)), measured)

    def check_ended(self, studies, chart, trials):
        self.check_chart(chart)
        self.assertFalse(chart.coverage.is_open)
        self.assertEqual(chart.coverage.read, len(trials))
        self.assertEqual(chart.y_min_ns, min(t["measurement"]["median_ns"] for t in trials if "measurement" in t))
        self.assertLessEqual({"default config", "final"}, {level.label for level in chart.levels})
        # One value of the first parameter that has several numbers, on all ways.
        name, values = next((name, values) for name in config(trials[0])
                            if len(values := {config(t)[name] for t in trials if type(config(t)[name]) is int}) > 1)
        value = sorted(values)[0]
        wanted = trial_pb2.TrialFilter()
        wanted.parameters.add(parameter=name).values.add(string_value=str(value))
        expected = sorted(int(t.get("ordinal", 0)) for t in trials if config(t)[name] == value)
        self.assertEqual(studies.chart(filter=wanted).coverage.matching, len(expected))
        for by_time in (False, True):
            listed, matching = studies.filtered(wanted, order_by_time=by_time)
            self.assertEqual(matching, len(expected))
            self.assertEqual(sorted(trial.ordinal for trial in listed), expected)
            key = [t.measurement.median_ns if by_time else t.ended_at_ms for t in listed if t.measurement.median_ns > 0]
            self.assertEqual(key, sorted(key))
        wanted.parameters[0].parameter = "nobody has it"
        with self.assertRaises(grpc.RpcError) as refused:
            studies.chart(filter=wanted)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_on_sqlite(self):
        self.check()

    @unittest.skipIf(programs() is None, "no PostgreSQL server is installed (Debian's package postgresql)")
    def test_on_postgres(self):
        with Postgres() as server:
            self.check(TUNEFARM_STORE=server.url("studies"))


if __name__ == "__main__":
    unittest.main()
