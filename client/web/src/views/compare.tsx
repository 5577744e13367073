// Two to six trials or studies side by side. The address names them: "?trials=12/1/17,12/1/20" or "?studies=12/1,13/1";
// whole names ("jobs/12/studies/1") are understood too.
import type { GetStudyChartResponse, Job, Study, Trial } from "api";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { type ApiError, call } from "../api";
import type { ViewProps } from "../app";
import { AsTable, Facts, Long, useWidth } from "../facts";
import {
  bytes,
  count,
  decodeDoubles,
  duration,
  enumText,
  nanoseconds,
  number,
  outcomeText,
  percent,
  spread,
  valueText,
} from "../format";
import { usePoll } from "../poll";
import { href, setQuery } from "../route";
import { decades } from "../scale";
import { Button, Choice, Empty, ErrorLine, Loading, Panel, Table } from "../ui";

const MOST = 6;
const TABLE_STEPS = 50; // of each study

function listOf(text: string | undefined, parts: number): string[] {
  const all = (text ?? "")
    .split(",")
    .map((name) => name.replace(/jobs\/|studies\/|trials\//g, ""))
    .filter((name) => name.split("/").length === parts && /^[\d/]+$/.test(name));
  return [...new Set(all)].slice(0, MOST);
}

function fullName(short: string): string {
  const [job, study, trial] = short.split("/");
  return `jobs/${job}/studies/${study}${trial === undefined ? "" : `/trials/${trial}`}`;
}

// Adds to what is compared.
function AddForm(props: {
  what: string;
  example: string;
  parts: number;
  names: string[];
  onChange: (names: string[]) => void;
}) {
  const [text, setText] = useState("");
  if (props.names.length >= MOST) return null;
  return (
    <form
      class="buttons"
      onSubmit={(event) => {
        event.preventDefault();
        props.onChange([...props.names, ...listOf(text, props.parts)]);
        setText("");
      }}
    >
      <label>
        Add a {props.what}{" "}
        <input
          size={12}
          placeholder={props.example}
          pattern={`\\s*\\d+(/\\d+){${props.parts - 1}}\\s*`}
          title={`Like ${props.example}`}
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value.trim())}
        />
      </label>
      <Button type="submit">Add</Button>
    </form>
  );
}

function Failure(props: { error: ApiError }) {
  return (
    <>
      <ErrorLine error={props.error} />
      <Button onClick={() => setQuery({ trials: "", studies: "" })}>Compare others</Button>
    </>
  );
}

interface Compared {
  name: string;
  trial: Trial;
  job: Job | undefined;
  study: Study | undefined;
}

// What trials are compared by: a text each, empty where a trial has none.
interface Property {
  name: string;
  texts: string[];
}

function propertiesOf(all: Compared[]): Property[] {
  const list: Property[] = [];
  const add = (name: string, text: (each: Compared) => string) => list.push({ name, texts: all.map(text) });
  add("time", ({ trial }) =>
    trial.measurement?.medianNs
      ? `${nanoseconds(trial.measurement.medianNs)} ${spread(trial.measurement)}`.replaceAll(" ", "\u00a0")
      : "",
  );
  add("of the floor", ({ trial, study }) =>
    study?.floorNs && trial.measurement?.medianNs ? percent(study.floorNs / trial.measurement.medianNs) : "",
  );
  add("outcome", ({ trial }) => outcomeText(trial.outcome));
  add("message", ({ trial }) => trial.message ?? "");
  const parameters = new Set(all.flatMap(({ trial }) => Object.keys(trial.config?.values ?? {})));
  for (const parameter of [...parameters].sort())
    add(parameter, ({ trial }) => valueText(trial.config?.values?.[parameter]));
  add("kernel", ({ job }) => job?.kernelName ?? "");
  add("definition", ({ job }) => job?.kernel ?? "");
  const dims = new Set(all.flatMap(({ study }) => Object.keys(study?.problem?.dims ?? {})));
  for (const dim of [...dims].sort()) add(`dim ${dim}`, ({ study }) => valueText(study?.problem?.dims?.[dim]));
  add("device class", ({ study }) => study?.deviceClassName ?? "");
  add("device", ({ trial }) => trial.deviceUuid ?? "");
  add("registers", ({ trial }) => (trial.resources?.registers ? count(trial.resources.registers) : ""));
  add("spills", ({ trial }) => (trial.resources?.registers ? bytes(trial.resources.spillBytes) : ""));
  add("static shared memory", ({ trial }) =>
    trial.resources?.registers ? bytes(trial.resources.staticSharedBytes) : "",
  );
  add("dynamic shared memory", ({ trial }) =>
    trial.resources?.registers ? bytes(trial.resources.dynamicSharedBytes) : "",
  );
  add("blocks per multiprocessor", ({ trial }) =>
    trial.resources?.blocksPerSm ? count(trial.resources.blocksPerSm) : "",
  );
  // Equal letters: equal binaries and launches.
  const works = [...new Set(all.map(({ trial }) => trial.work ?? ""))].filter(Boolean);
  add("binary and launches", ({ trial }) => "ABCDEF"[works.indexOf(trial.work ?? "")] ?? "");
  add("samples", ({ trial }) => (trial.measurement?.samples ? count(trial.measurement.samples) : ""));
  add("timed by", ({ trial }) =>
    enumText(trial.measurement?.method, "TIMING_METHOD_").toLowerCase().replaceAll("_", " "),
  );
  add("caches", ({ trial }) => (trial.measurement ? (trial.measurement.coldCache ? "flushed" : "warm") : ""));
  add("clock", ({ trial }) => (trial.measurement?.clockMhz ? `${count(trial.measurement.clockMhz)} MHz` : ""));
  add("power", ({ trial }) => (trial.measurement?.powerWatts ? `${number(trial.measurement.powerWatts)} W` : ""));
  add("temperature", ({ trial }) => (trial.measurement?.temperatureC ? `${trial.measurement.temperatureC} °C` : ""));
  add("throttling", ({ trial }) =>
    trial.measurement?.throttled ? trial.measurement.throttleReason || "yes" : trial.measurement ? "none" : "",
  );
  return list.filter((property) => property.texts.some((text) => text !== ""));
}

async function loadTrials(names: string[], signal: AbortSignal): Promise<Compared[]> {
  const jobNames = [...new Set(names.map((name) => `jobs/${name.split("/")[0]}`))];
  const [trials, jobs] = await Promise.all([
    Promise.all(names.map((name) => call("tunefarm.v1.TuningService/GetTrial", { name: fullName(name) }, signal))),
    Promise.all(jobNames.map((name) => call("tunefarm.v1.TuningService/GetJob", { name }, signal))),
  ]);
  return trials.map(({ trial = {} }, i) => {
    const name = names[i]!;
    const job = jobs[jobNames.indexOf(`jobs/${name.split("/")[0]}`)]?.job;
    const study = job?.studies?.find((each) => each.name === fullName(name).split("/trials/")[0]);
    return { name, trial, job, study };
  });
}

function Trials(props: { names: string[] }) {
  const { names } = props;
  const { data, error, isLoading } = usePoll(
    names.join(),
    (signal) => loadTrials(names, signal),
    1000,
    () => true,
  );
  const change = (to: string[]) => setQuery({ trials: listOf(to.join(), 3).join() });
  if (error) return <Failure error={error} />;
  if (isLoading || !data) return <Loading />;
  const properties = propertiesOf(data);
  const isShared = (property: Property) => property.texts.every((text) => text === property.texts[0]);
  const differing = properties.filter((property) => !isShared(property));
  const headings = { name: "", texts: names };
  return (
    <>
      <AddForm what="trial" example="12/1/17" parts={3} names={names} onChange={change} />
      <div class="panels">
        <Panel title="What differs" class="wide">
          <Table<Property>
            caption="What differs"
            hidesCaption
            rows={[headings, ...differing]}
            rowKey={(row) => row.name}
            columns={[
              { name: "property", cell: (row) => row.name },
              ...names.map((name, i) => ({
                name: `trial ${name}`,
                cell: (row: Property): ComponentChildren =>
                  row === headings ? (
                    <span class="buttons">
                      <a href={href(fullName(name))}>open</a>
                      {names.length > 1 && (
                        <Button class="link" onClick={() => change(names.filter((each) => each !== name))}>
                          remove
                        </Button>
                      )}
                    </span>
                  ) : (
                    row.texts[i] || "–"
                  ),
              })),
            ]}
          />
          {differing.length === 0 && <p class="muted">Nothing differs.</p>}
        </Panel>
        <Panel title="What all share" class="wide">
          <Facts facts={properties.filter(isShared).map((property) => [property.name, property.texts[0]])} />
        </Panel>
      </div>
    </>
  );
}

interface Curve {
  name: string;
  job: Job | undefined;
  study: Study | undefined;
  chart: GetStudyChartResponse;
  x: Float64Array;
  ns: Float64Array;
}

// It has ended, and the daemon has read all of it.
function isSettled({ chart: { coverage } }: Curve): boolean {
  return !coverage?.isOpen && !coverage?.isBehind;
}

// A study that goes on gets new points; of one that is settled nothing is loaded again.
async function loadCurves(
  names: string[],
  axis: string,
  previous: Curve[] | undefined,
  signal: AbortSignal,
): Promise<Curve[]> {
  const curves = await Promise.all(
    names.map(async (name) => {
      const known = previous?.find((each) => each.name === name);
      if (known && isSettled(known)) return known;
      const request = {
        study: fullName(name),
        x: axis === "time" ? ("CHART_AXIS_SECONDS" as const) : ("CHART_AXIS_EVALUATIONS" as const),
        columns: 1,
        rows: 1,
        knownRevision: known?.chart.coverage?.revision ?? "0",
      };
      const [chart, { job }] = await Promise.all([
        call("tunefarm.v1.StudyService/GetStudyChart", request, signal),
        known
          ? { job: known.job }
          : call("tunefarm.v1.TuningService/GetJob", { name: `jobs/${name.split("/")[0]}` }, signal),
      ]);
      if (known && chart.coverage?.revision === known.chart.coverage?.revision) {
        return { ...known, chart: { ...known.chart, coverage: chart.coverage } } as Curve;
      }
      const study = job?.studies?.find((each) => each.name === fullName(name));
      return { name, job, study, chart, x: decodeDoubles(chart.bestX), ns: decodeDoubles(chart.bestNs) };
    }),
  );
  return previous && curves.every((curve, i) => curve === previous[i]) ? previous : curves;
}

// The best so far of every study at each position where one of them changes; null before its first and after its end.
function alignedOf(curves: Curve[]): uPlot.AlignedData {
  const ends = curves.map((curve) => Math.max(curve.chart.xMax ?? 0, curve.x.at(-1) ?? 0));
  const xs = [...new Set([...curves.flatMap((curve) => [...curve.x]), ...ends])].sort((a, b) => a - b);
  const series = curves.map((curve, i) => {
    let at = -1;
    return xs.map((x) => {
      while (at + 1 < curve.x.length && curve.x[at + 1]! <= x) at++;
      return at < 0 || x > ends[i]! ? null : curve.ns[at]!;
    });
  });
  return [xs, ...series];
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function useIsDark(): boolean {
  const [media] = useState(() => matchMedia("(prefers-color-scheme: dark)"));
  const [isDark, setDark] = useState(media.matches);
  useEffect(() => {
    const update = () => setDark(media.matches);
    media.addEventListener("change", update);
    return () => media.removeEventListener("change", update);
  }, [media]);
  return isDark;
}

function Curves(props: { curves: Curve[]; isTime: boolean; isLogarithmic: boolean }) {
  const { curves, isTime, isLogarithmic } = props;
  const [ref, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot>();
  const isDark = useIsDark();
  const names = curves.map((curve) => curve.name).join();
  useEffect(() => {
    const axis = {
      stroke: colour("--muted"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line") },
    };
    const stepped = uPlot.paths.stepped!({ align: 1 });
    plot.current = new uPlot(
      {
        width,
        height: 320,
        scales: {
          x: { time: false },
          y: isLogarithmic ? { distr: 3, range: (_, least, most) => [least / 1.1, most * 1.1] } : {},
        },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((tick) => (isTime ? duration(tick * 1000) : count(tick))) },
          {
            ...axis,
            size: 70,
            ...(isLogarithmic && {
              splits: (_: uPlot, __: number, least: number, most: number) => decades(least, most),
            }),
            values: (_, ticks) => ticks.map((tick) => (tick ? nanoseconds(tick) : "")),
          },
        ],
        series: [
          {
            label: isTime ? "time" : "evaluation",
            value: (_, x) => (x == null ? "–" : isTime ? duration(x * 1000) : count(x)),
          },
          ...curves.map((curve, i) => ({
            label: curve.name,
            stroke: colour(`--c${i}`),
            width: 2,
            dash: [[], [8, 4], [2, 3], [12, 4, 2, 4], [4, 2], [1, 4]][i]!,
            paths: stepped,
            points: { show: false },
            value: (_: uPlot, ns: number | null) => (ns == null ? "–" : nanoseconds(ns)),
          })),
        ],
      },
      alignedOf(curves),
      ref.current!,
    );
    return () => plot.current?.destroy();
  }, [names, isTime, isLogarithmic, isDark]);
  useEffect(() => plot.current?.setData(alignedOf(curves)), [curves]);
  useEffect(() => plot.current?.setSize({ width, height: 320 }), [width]);
  const bests = curves.map((curve) => `${curve.name} reaches ${nanoseconds(curve.ns.at(-1))}`);
  return (
    <div
      ref={ref}
      role="img"
      aria-label={`Best so far over ${isTime ? "time" : "evaluations"}: ${bests.join("; ")}.`}
    />
  );
}

function Studies(props: { names: string[]; query: ViewProps["query"] }) {
  const { names, query } = props;
  const axis = query.x === "time" ? "time" : "evaluations";
  const scale = query.y === "linear" ? "linear" : "log";
  const { data, error, isLoading } = usePoll(
    `${axis} ${names.join()}`,
    (signal, previous: Curve[] | undefined) => loadCurves(names, axis, previous, signal),
    1000,
    (curves) => curves.every(isSettled),
  );
  const change = (to: string[]) => setQuery({ studies: listOf(to.join(), 2).join() });
  if (error && !data) return <Failure error={error} />;
  if (isLoading || !data) return <Loading />;
  const at = (x: number | undefined) => (x === undefined ? "–" : axis === "time" ? duration(x * 1000) : count(x));
  const level = (curve: Curve, label: string) =>
    nanoseconds(curve.chart.levels?.find((each) => each.label === label)?.timeNs);
  return (
    <>
      <AddForm what="study" example="12/1" parts={2} names={names} onChange={change} />
      <div class="panels">
        <Panel
          title="Best so far"
          class="wide"
          actions={
            <>
              <Choice
                label="x"
                value={axis}
                options={[
                  ["evaluations", "evaluations"],
                  ["time", "time"],
                ]}
                onChange={(x) => setQuery({ x: x === "time" ? x : "" })}
              />
              <Choice
                label="y"
                value={scale}
                options={[
                  ["log", "log"],
                  ["linear", "linear"],
                ]}
                onChange={(y) => setQuery({ y: y === "linear" ? y : "" })}
              />
            </>
          }
        >
          <Curves curves={data} isTime={axis === "time"} isLogarithmic={scale === "log"} />
          <AsTable>
            {() => (
              <Table
                caption={`Steps of the best so far, the last ${TABLE_STEPS} of each study`}
                rows={data.flatMap((curve) =>
                  [...curve.x].map((x, i) => ({ name: curve.name, x, ns: curve.ns[i]! })).slice(-TABLE_STEPS),
                )}
                rowKey={(row) => `${row.name} ${row.x}`}
                columns={[
                  { name: "study", cell: (row) => row.name },
                  { name: axis === "time" ? "time" : "evaluation", isNumber: true, cell: (row) => at(row.x) },
                  { name: "best so far", isNumber: true, cell: (row) => nanoseconds(row.ns) },
                ]}
              />
            )}
          </AsTable>
        </Panel>
        <Panel title="Studies" class="wide">
          <Table
            caption="Studies"
            hidesCaption
            rows={data}
            rowKey={(curve) => curve.name}
            columns={[
              { name: "study", cell: (curve) => <a href={href(fullName(curve.name))}>{curve.name}</a> },
              { name: "kernel", cell: (curve) => <Long text={curve.job?.kernelName ?? "–"} /> },
              { name: "problem", cell: (curve) => <Long text={curve.study?.problem?.key ?? "–"} /> },
              { name: "device class", cell: (curve) => curve.study?.deviceClassName ?? "–" },
              { name: "strategy", cell: (curve) => curve.job?.strategy?.strategyName || "–" },
              { name: "trials", isNumber: true, cell: (curve) => count(curve.chart.coverage?.stored) },
              { name: "best", isNumber: true, cell: (curve) => nanoseconds(curve.ns.at(-1)) },
              { name: "found at", isNumber: true, cell: (curve) => at(curve.x.at(-1)) },
              { name: "default config", isNumber: true, cell: (curve) => level(curve, "default config") },
              { name: "floor", isNumber: true, cell: (curve) => level(curve, "roofline floor") },
              {
                name: "",
                cell: (curve) =>
                  names.length > 1 && (
                    <Button class="link" onClick={() => change(names.filter((each) => each !== curve.name))}>
                      remove<span class="hidden-text"> {curve.name}</span>
                    </Button>
                  ),
              },
            ]}
          />
        </Panel>
      </div>
    </>
  );
}

export function CompareView(props: ViewProps) {
  const trials = listOf(props.query.trials, 3);
  const studies = listOf(props.query.studies, 2);
  const isStudies = studies.length > 0;
  return (
    <>
      <h1>Compare {isStudies ? "studies" : "trials"}</h1>
      {isStudies ? (
        <Studies names={studies} query={props.query} />
      ) : trials.length > 0 ? (
        <Trials names={trials} />
      ) : (
        <>
          <Empty>Mark up to six trials in the table of a study, or name here what is to be compared.</Empty>
          <AddForm
            what="trial"
            example="12/1/17"
            parts={3}
            names={[]}
            onChange={(names) => setQuery({ trials: names.join() })}
          />
          <AddForm
            what="study"
            example="12/1"
            parts={2}
            names={[]}
            onChange={(names) => setQuery({ studies: names.join() })}
          />
        </>
      )}
    </>
  );
}
