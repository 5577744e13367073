// What the view of a study polls from the daemon, and how often.
import type { AnalyzeStudyResponse, GetParameterGridResponse, Job, StudyCoverage, TrialFilter } from "api";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { int } from "../format";
import { hasEnded } from "../jobs";
import { type Polled, usePoll } from "../poll";
import type { Chart } from "./chart";
import { isRead, isSettled } from "./coverage";
import { writeFilter } from "./filter";

// Charts of more trials are polled less often.
const MANY_TRIALS = 100_000;
const IMPORTANCE_REST_MS = 1000;
const COLUMNS = 600;
const ROWS = 160;

function pollMs(coverage: StudyCoverage | undefined): number {
  return isRead(coverage) && int(coverage?.stored) > MANY_TRIALS ? 5000 : 1000;
}

// The answer to a call that takes known_revision, or the previous answer where nothing has changed.
function newer<T extends { coverage?: StudyCoverage }>(next: T, previous: T | undefined): T {
  if (!previous || next.coverage?.revision !== previous.coverage?.revision) return next;
  const isNews = isSettled(next.coverage) !== isSettled(previous.coverage);
  return isNews ? { ...previous, coverage: next.coverage } : previous;
}

function known(previous: { coverage?: StudyCoverage } | undefined): { knownRevision?: string } {
  const revision = previous?.coverage?.revision;
  return revision ? { knownRevision: revision } : {};
}

export function useJob(name: string): Polled<Job> {
  return usePoll<Job>(
    name,
    (signal) => call("tunefarm.v1.TuningService/GetJob", { name }, signal).then((response) => response.job ?? {}),
    (job) => ((job.studies ?? []).length > 16 ? 5000 : 1000),
    hasEnded,
  );
}

export function useChart(study: string, filter: TrialFilter, isTime: boolean, isLog: boolean): Polled<Chart> {
  return usePoll(
    `chart ${study} ${writeFilter(filter)} ${isTime} ${isLog}`,
    async (signal, previous: Chart | undefined): Promise<Chart> => {
      const answer = await call(
        "tunefarm.v1.StudyService/GetStudyChart",
        {
          study,
          filter,
          x: isTime ? "CHART_AXIS_SECONDS" : "CHART_AXIS_EVALUATIONS",
          columns: COLUMNS,
          rows: ROWS,
          isLogarithmic: isLog,
          ...known(previous?.response),
        },
        signal,
      );
      const response = newer(answer, previous?.response);
      return previous && response === previous.response ? previous : { response, isTime, isLog };
    },
    (chart) => pollMs(chart.response.coverage),
    (chart) => isSettled(chart.response.coverage),
  );
}

// The last `value` that did not change for `ms` milliseconds.
function useRested<T>(value: T, ms: number): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}

// The analysis with its importance, which takes the daemon up to a second of one core: requested when the study has
// grown by a quarter, at its end, and when the filter has not changed for a while.
export function useAnalysis(study: string, filter: TrialFilter) {
  const filterText = writeFilter(filter);
  const effects = usePoll(
    `effects ${study} ${filterText}`,
    async (signal, previous: AnalyzeStudyResponse | undefined) => {
      const answer = await call(
        "tunefarm.v1.StudyService/AnalyzeStudy",
        { study, filter, withoutImportance: true, ...known(previous) },
        signal,
      );
      return newer(answer, previous);
    },
    (data) => Math.max(2000, pollMs(data.coverage)),
    (data) => isSettled(data.coverage),
  );
  const coverage = effects.data?.coverage;
  const size = coverage ? Math.floor(Math.log(1 + int(coverage.matching)) / Math.log(1.25)) : -1;
  const wanted = coverage ? `importance ${study} ${filterText} ${size} ${isSettled(coverage)}` : "";
  const importance = usePoll(
    useRested(wanted, IMPORTANCE_REST_MS),
    (signal) =>
      call("tunefarm.v1.StudyService/AnalyzeStudy", { study, filter }, signal).then(
        (response) => response.analysis?.importance ?? {},
      ),
    60_000,
    () => true,
  );
  return { effects, importance: importance.data };
}


// Results of configs by the values of two parameters; undefined: not requested yet.
export function useGrid(
  study: string,
  filter: TrialFilter,
  pair: [column: string, row: string] | undefined,
  isOver: boolean,
): Polled<GetParameterGridResponse> {
  const [columnParameter = "", rowParameter = ""] = pair ?? [];
  return usePoll(
    pair ? `grid ${study} ${pair} ${writeFilter(filter)} ${isOver}` : "",
    (signal, previous: GetParameterGridResponse | undefined) =>
      call(
        "tunefarm.v1.StudyService/GetParameterGrid",
        { study, filter, columnParameter, rowParameter, ...known(previous) },
        signal,
      ).then((answer) => newer(answer, previous)),
    5000,
    () => isOver,
  );
}
