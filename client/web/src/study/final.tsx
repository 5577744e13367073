// The interleaved final: the samples of its configs, and what came of it.
import type { Study, Trial } from "api";
import { call } from "../api";
import { configText, int, nanoseconds, ratio, spread } from "../format";
import { baselineOf } from "../jobs";
import { usePoll } from "../poll";
import { href } from "../route";
import { ErrorLine, Panel, Table } from "../ui";

const WIDTH = 300;
const HEIGHT = 22;
// The samples of so many configs are drawn.
const SAMPLED_MAX = 8;

function Samples(props: { trial: Trial; low: number; high: number }) {
  const m = props.trial.measurement ?? {};
  const x = (ns: number) => 3 + ((WIDTH - 6) * (Math.min(props.high, ns) - props.low)) / (props.high - props.low || 1);
  const samples = (m.sampleNs ?? []).slice(0, 400);
  const dots = samples.map((ns, i) => `M${x(ns).toFixed(1)} ${(5 + ((i * 7) % 13)).toFixed(1)}h0`).join("");
  return (
    <svg
      class="samples"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`${samples.length} samples from ${nanoseconds(m.minNs)} to ${nanoseconds(m.maxNs)}, median ${nanoseconds(m.medianNs)}`}
    >
      <path class="dots" d={dots} />
      <line class="interval" x1={x(m.ciLowNs ?? 0)} x2={x(m.ciHighNs ?? 0)} y1={HEIGHT / 2} y2={HEIGHT / 2} />
      <line class="median" x1={x(m.medianNs ?? 0)} x2={x(m.medianNs ?? 0)} y1="2" y2={HEIGHT - 2} />
    </svg>
  );
}

export function Final(props: { study: Study; isOver: boolean }) {
  const { study } = props;
  const name = study.name ?? "";
  const polled = usePoll(
    study.state === "STUDY_STATE_SEARCHING" ? "" : `final ${name} ${study.state} ${props.isOver}`,
    async (signal) => {
      const { trials = [] } = await call(
        "tunefarm.v1.TuningService/ListTrials",
        { parent: name, purpose: "TRIAL_PURPOSE_FINALIST", orderByTime: true, pageSize: 32 },
        signal,
      );
      if (study.state !== "STUDY_STATE_ENDED") return trials;
      // Lists leave the samples out.
      const whole = trials
        .slice(0, SAMPLED_MAX)
        .map((trial) => call("tunefarm.v1.TuningService/GetTrial", { name: trial.name ?? "" }, signal));
      const samples = (await Promise.all(whole)).map((response) => response.trial?.measurement?.sampleNs ?? []);
      return trials.map((trial, i) => ({
        ...trial,
        measurement: { ...trial.measurement, sampleNs: samples[i] ?? [] },
      }));
    },
    5000,
    () => props.isOver,
  );
  const trials = polled.data ?? [];
  const baseline = baselineOf(study);
  const measured = trials.filter((trial) => trial.measurement?.medianNs);
  const low = Math.min(...measured.map((trial) => trial.measurement?.minNs || Infinity));
  // A few slow samples do not make the others a line.
  const high = Math.max(
    ...measured.map(({ measurement: m }) => {
      const sorted = [...(m?.sampleNs ?? [])].sort((a, b) => a - b);
      return Math.max(m?.ciHighNs ?? 0, sorted[Math.floor(sorted.length * 0.97)] ?? 0);
    }),
  );
  const verdict = study.notPromotedBecause
    ? `Not promoted: ${study.notPromotedBecause}.`
    : study.best?.revision
      ? `Promoted: it is the best of the catalog as of revision ${study.best.revision}.`
      : "";
  return (
    <Panel title="Final">
      {polled.error && <ErrorLine error={polled.error} />}
      {verdict && <p>{verdict}</p>}
      <Table
        caption="Configs of the final"
        hidesCaption
        rows={trials}
        rowKey={(trial) => trial.name ?? ""}
        empty={
          study.state === "STUDY_STATE_SEARCHING"
            ? "The search goes on; the final compares its fastest configs in turns."
            : study.state === "STUDY_STATE_FINALS"
              ? "The final runs: the fastest configs are measured in turns."
              : "There was no final."
        }
        columns={[
          {
            name: "trial",
            cell: (trial) => (
              <a href={href(trial.name ?? "")} title={configText(trial.config)}>
                {int(trial.ordinal)}
              </a>
            ),
          },
          {
            name: "time",
            isNumber: true,
            cell: (trial) => `${nanoseconds(trial.measurement?.medianNs)} ${spread(trial.measurement)}`,
          },
          {
            name: `over ${baseline.label}`,
            isNumber: true,
            title: "the ratio of the medians, and that of the ends of the interval",
            cell: ({ measurement: m }) =>
              baseline.ns && m?.medianNs && m.ciHighNs && m.ciLowNs
                ? `${ratio(baseline.ns / m.medianNs)} (${ratio(baseline.ns / m.ciHighNs)} to ${ratio(baseline.ns / m.ciLowNs)})`
                : "–",
          },
          {
            name: "samples",
            cell: (trial) =>
              trial.measurement?.sampleNs?.length ? <Samples trial={trial} low={low} high={high} /> : "–",
          },
        ]}
      />
    </Panel>
  );
}
