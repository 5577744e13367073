// Panels about one config and its time, of a trial or of a best config.
import type { Config, Measurement } from "api";
import { configCpp, configJson, defineOptions } from "./commands";
import { type Fact, Facts, Warning } from "./facts";
import {
  byName,
  byteRate,
  count,
  enumText,
  flopRate,
  int,
  nanoseconds,
  number,
  percent,
  ratio,
  spread,
  valueText,
} from "./format";
import { useKey } from "./keys";
import { SamplePlot } from "./sample_plot";
import { copy, CopyButton, Panel } from "./ui";

const STOP_REASONS: Record<string, string> = {
  STOP_REASON_CONVERGED: "the interval is narrow enough",
  STOP_REASON_TIME_BUDGET: "the time budget is spent",
  STOP_REASON_SAMPLE_BUDGET: "the sample budget is spent",
  STOP_REASON_LOSING: "stopped early: it cannot win",
};

// "cuda events" for TIMING_METHOD_CUDA_EVENTS.
export function sentence(enumerator: string | undefined, prefix: string): string {
  return enumText(enumerator, prefix).toLowerCase().replaceAll("_", " ");
}

// What a time is held against; 0 or absent: not known.
export interface Against {
  baselineNs?: number | undefined;
  baselineLabel?: string | undefined;
  flops?: number | undefined;
  bytes?: number | undefined;
  floorNs?: number | undefined;
}

export function TimePanel(props: { m: Measurement; against: Against }) {
  const { m, against } = props;
  return (
    <Panel title="Time">
      <Facts
        facts={[
          ["median", `${nanoseconds(m.medianNs)} ${spread(m)}`],
          ["95 % interval", `${nanoseconds(m.ciLowNs)} to ${nanoseconds(m.ciHighNs)}`],
          ["range", `${nanoseconds(m.minNs)} to ${nanoseconds(m.maxNs)}, deviation ${nanoseconds(m.stdevNs)}`],
          [
            "over the baseline",
            against.baselineNs && m.medianNs
              ? `${ratio(against.baselineNs / m.medianNs)} ${against.baselineLabel ?? ""} ` +
                `(${nanoseconds(against.baselineNs)})`
              : "",
          ],
          ["rate", against.flops ? flopRate(against.flops, m.medianNs) : ""],
          ["memory rate", against.bytes ? byteRate(against.bytes, m.medianNs) : ""],
          ["of the floor", against.floorNs && m.medianNs ? percent(against.floorNs / m.medianNs) : ""],
          [
            "samples",
            count(m.samples) +
              (int(m.launchesPerSample) > 1 ? ` of ${count(m.launchesPerSample)} launches each: ` : ": ") +
              (STOP_REASONS[m.stopReason ?? ""] ?? (m.converged ? "converged" : "not converged")),
          ],
          [
            "discarded",
            m.discardedSamples ? `${count(m.discardedSamples)} samples, taken while the device throttled` : "",
          ],
        ]}
      />
      {(m.sampleNs?.length ?? 0) > 1 && <SamplePlot measurement={m} />}
    </Panel>
  );
}

export function ConditionsPanel(props: { m: Measurement; more: Fact[] }) {
  const { m } = props;
  return (
    <Panel title="Conditions">
      <Facts
        facts={[
          ["clock", m.clockMhz ? `${count(m.clockMhz)} MHz` : ""],
          ["power", m.powerWatts ? `${number(m.powerWatts)} W` : ""],
          ["temperature", m.temperatureC ? `${m.temperatureC} °C` : ""],
          [
            "throttling",
            m.throttled || m.throttleReason ? (
              <Warning>{m.throttleReason ? `held down by ${m.throttleReason}` : "the device throttled"}</Warning>
            ) : (
              "none"
            ),
          ],
          ["contention", m.contended ? <Warning>the device was shared meanwhile</Warning> : "none"],
          ["timed by", sentence(m.method, "TIMING_METHOD_")],
          ["caches", m.coldCache ? "flushed before each sample" : "left warm"],
          ["input copies", int(m.inputCopies) > 1 ? count(m.inputCopies) : ""],
          [
            "judged by",
            m.selfJudged ? <Warning>the kernel's own process: nothing outside of it checked the times</Warning> : "",
          ],
          ...props.more,
        ]}
      />
    </Panel>
  );
}

export function ConfigPanel(props: {
  config: Config | undefined;
  command: string; // empty: there is none
  title: string; // what it does
  label: string; // of the button that copies it
}) {
  const { config, command } = props;
  const values = byName(config?.values);
  useKey("c", () => void copy(defineOptions(config), "the config as -D options"));
  if (values.length === 0) return null;
  return (
    <Panel
      title="Config"
      actions={
        <>
          <CopyButton label="-D" text={defineOptions(config)} what="the config as -D options" />
          <CopyButton label="JSON" text={configJson(config)} what="the config as JSON" />
          <CopyButton label="C++" text={configCpp(config)} what="the config as C++ constants" />
          {command && (
            <CopyButton
              label={props.label}
              text={command}
              what={`the command that ${props.label === "run" ? "runs" : "looks up"} the config`}
            />
          )}
        </>
      }
    >
      <dl class="config-list">
        {values.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{valueText(value)}</dd>
          </div>
        ))}
      </dl>
      {command && (
        <>
          <h3>{props.title}</h3>
          <pre class="command-text">{command}</pre>
        </>
      )}
    </Panel>
  );
}
