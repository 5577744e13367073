// One trial: what became of a config and why, how its time was taken, what its binary needs, and how to run it again.
import type { Job, Measurement, ResourceUse, Study, Trial, Verification } from "api";
import { call } from "../api";
import type { ViewProps } from "../app";
import { byName, configJson, defines, runCommand, shortName } from "../commands";
import { bytes, byteRate, count, enumText, flopRate, int, nanoseconds, number, percent, ratio, spread, valueText } from "../format";
import { Facts, Warning } from "../facts";
import { useKey } from "../keys";
import { usePoll } from "../poll";
import { href } from "../route";
import { SamplePlot } from "../sample_plot";
import { copy, CopyButton, ErrorLine, Loading, Outcome, Panel, Table, Time } from "../ui";

interface Loaded {
  trial: Trial;
  job: Job | undefined; // absent where it was deleted meanwhile
  study: Study | undefined;
}

const STOP_REASONS: Record<string, string> = {
  STOP_REASON_CONVERGED: "the interval is narrow enough",
  STOP_REASON_TIME_BUDGET: "the time budget is spent",
  STOP_REASON_SAMPLE_BUDGET: "the sample budget is spent",
  STOP_REASON_LOSING: "stopped early: it cannot win",
};

// Numbers that JSON writes as text where they are not finite ("NaN").
function any(value: number | string | undefined): string {
  const real = Number(value ?? 0);
  return Number.isFinite(real) ? String(Number(real.toPrecision(9))) : String(real);
}

function sentence(enumerator: string | undefined, prefix: string): string {
  return enumText(enumerator, prefix).toLowerCase().replaceAll("_", " ");
}

async function load(name: string, signal: AbortSignal): Promise<Loaded> {
  const [{ trial }, job] = await Promise.all([
    call("tunefarm.v1.TuningService/GetTrial", { name }, signal),
    call("tunefarm.v1.TuningService/GetJob", { name: name.split("/studies/")[0]! }, signal).then(
      (response) => response.job,
      () => undefined,
    ),
  ]);
  const study = job?.studies?.find((each) => each.name === name.split("/trials/")[0]);
  return { trial: trial ?? {}, job, study };
}

export function trialHref(name: string | undefined): string {
  return href(name ?? "");
}

function TimePanel(props: { m: Measurement; study: Study | undefined }) {
  const { m, study } = props;
  const base = study?.baseline?.measurement?.medianNs;
  return (
    <Panel title="Time">
      <Facts
        facts={[
          ["median", `${nanoseconds(m.medianNs)} ${spread(m)}`],
          ["95 % interval", `${nanoseconds(m.ciLowNs)} to ${nanoseconds(m.ciHighNs)}`],
          ["range", `${nanoseconds(m.minNs)} to ${nanoseconds(m.maxNs)}, deviation ${nanoseconds(m.stdevNs)}`],
          ["over the baseline", base && m.medianNs ? ratio(base / m.medianNs) : ""],
          ["rate", study?.flops ? flopRate(study.flops, m.medianNs) : ""],
          ["memory rate", study?.bytes ? byteRate(study.bytes, m.medianNs) : ""],
          ["of the floor", study?.floorNs && m.medianNs ? percent(study.floorNs / m.medianNs) : ""],
          [
            "samples",
            `${count(m.samples)}${int(m.launchesPerSample) > 1 ? ` of ${count(m.launchesPerSample)} launches each` : ""}: ` +
              (STOP_REASONS[m.stopReason ?? ""] ?? (m.converged ? "converged" : "not converged")),
          ],
          ["discarded", m.discardedSamples ? `${count(m.discardedSamples)} samples, taken while the device throttled` : ""],
        ]}
      />
      {(m.sampleNs?.length ?? 0) > 1 && <SamplePlot measurement={m} />}
      {!m.sampleNs?.length && <p class="muted">Single samples are kept of winners, finalists and failures only.</p>}
    </Panel>
  );
}

function ConditionsPanel(props: { m: Measurement; trial: Trial }) {
  const { m, trial } = props;
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
          ["others on the device", m.contended ? <Warning>the device was shared meanwhile</Warning> : "none"],
          ["timed by", sentence(m.method, "TIMING_METHOD_")],
          ["caches", m.coldCache ? "flushed before each sample" : "left warm"],
          ["input copies", int(m.inputCopies) > 1 ? count(m.inputCopies) : ""],
          ["judged by", m.selfJudged ? <Warning>the kernel's own process: nothing outside of it checked the times</Warning> : ""],
          ["device", trial.deviceUuid],
        ]}
      />
    </Panel>
  );
}

function ResourcePanel(props: { use: ResourceUse; trial: Trial }) {
  const { use, trial } = props;
  const spills = int(use.spillBytes);
  return (
    <Panel title="Binary">
      <Facts
        facts={[
          ["registers", use.registers ? `${count(use.registers)} per thread` : ""],
          ["spills", use.registers ? spills > 0 ? <Warning>{bytes(spills)} per thread</Warning> : "none" : ""],
          [
            "shared memory",
            use.registers ? `${bytes(use.staticSharedBytes)} static + ${bytes(use.dynamicSharedBytes)} dynamic per block` : "",
          ],
          ["local memory", use.localBytes ? `${bytes(use.localBytes)} per thread` : ""],
          ["resident blocks", use.blocksPerSm ? `${count(use.blocksPerSm)} per multiprocessor` : ""],
          ["size", use.binaryBytes ? bytes(use.binaryBytes) : ""],
          ["compiled in", trial.compileMs ? `${number(trial.compileMs)} ms${trial.cachedBinary ? " (from the cache)" : ""}` : ""],
        ]}
      />
    </Panel>
  );
}

function CheckPanel(props: { check: Verification }) {
  const { check } = props;
  const wrong = int(check.mismatches);
  return (
    <Panel title="Check against the reference">
      <p>
        {wrong > 0 ? <span class="bad">✗ {count(wrong)}</span> : <span class="good">✓ none</span>} of {count(check.elements)}{" "}
        elements out of tolerance. Largest difference: {any(check.maxAbsoluteError)} absolute, {any(check.maxRelativeError)}{" "}
        relative.
      </p>
      {check.firstMismatches && check.firstMismatches.length > 0 && (
        <Table
          caption="First mismatches"
          rows={check.firstMismatches}
          rowKey={(row) => `${row.buffer} ${row.index}`}
          columns={[
            { name: "element", cell: (row) => <code>{`${row.buffer}[${row.index ?? 0}]`}</code> },
            { name: "actual", isNumber: true, cell: (row) => any(row.actual) },
            { name: "expected", isNumber: true, cell: (row) => any(row.expected) },
          ]}
        />
      )}
    </Panel>
  );
}

// Sentences that limit what the trial says, or tell where its numbers come from.
function Remarks(props: { trial: Trial }) {
  const { trial } = props;
  const isOk = trial.outcome === "OUTCOME_OK";
  const of = trial.reusedTrial || `${trial.name?.split("/trials/")[0]}/trials/${trial.reusedOrdinal ?? 0}`;
  return (
    <>
      {trial.message && (isOk ? <p><Warning>{trial.message}</Warning></p> : <p class="bad">{trial.message}</p>)}
      {isOk && trial.purpose !== "TRIAL_PURPOSE_BASELINE" && !int(trial.verification?.elements) && (
        <p><Warning>No output was compared with a reference, so that wrong results are not noticed.</Warning></p>
      )}
      {trial.stoppedEarly && <p>Sampling stopped early: the config cannot win.</p>}
      {trial.reused && (
        <p>
          Repeats the measurement of <a href={trialHref(of)}>trial {shortName(of)}</a>: the same binary and launches.
        </p>
      )}
    </>
  );
}

function ConfigPanel(props: { trial: Trial; command: string }) {
  const { trial, command } = props;
  const values = byName(trial.config?.values);
  useKey("c", () => void copy(defines(trial.config), "the config as -D options"));
  if (values.length === 0) return null;
  return (
    <Panel
      title="Config"
      actions={
        <>
          <CopyButton label="-D" text={defines(trial.config)} what="the config as -D options" />
          <CopyButton label="JSON" text={configJson(trial.config)} what="the config as JSON" />
          {command && <CopyButton label="run" text={command} what="the command that runs this config" />}
        </>
      }
    >
      <dl class="config">
        {values.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{valueText(value)}</dd>
          </div>
        ))}
      </dl>
      {command && (
        <>
          <h3>Run it again</h3>
          <pre>{command}</pre>
        </>
      )}
    </Panel>
  );
}

export function TrialView(props: ViewProps) {
  const { job: jobId, study: studyId, trial: ordinal } = props.params;
  const name = `jobs/${jobId}/studies/${studyId}/trials/${ordinal}`;
  const { data, error, isLoading } = usePoll(
    name,
    (signal) => load(name, signal),
    1000,
    // A trial that is stored has ended.
    () => true,
  );
  if (error && !data) return <ErrorLine error={error} />;
  if (isLoading || !data) return <Loading />;
  const { trial, job, study } = data;
  const m = trial.measurement?.medianNs ? trial.measurement : undefined;
  const purpose = sentence(trial.purpose, "TRIAL_PURPOSE_");
  const hasCommand = job?.kernelName && Object.keys(trial.config?.values ?? {}).length > 0;
  const command = hasCommand ? runCommand(job.kernelName!, study?.problem, trial.config, study?.deviceClassId, job.policy) : "";
  return (
    <>
      <p class="path">
        <a href={href(`jobs/${jobId}`)}>job {jobId}</a> ›{" "}
        <a href={href(`jobs/${jobId}/studies/${studyId}`)}>
          {job?.kernelName ?? "study"} › {trial.problemKey || study?.problem?.key}
          {study?.deviceClassName && ` on ${study.deviceClassName}`}
        </a>
      </p>
      <h1>
        Trial {shortName(trial.name)} <Outcome outcome={trial.outcome} /> {m && nanoseconds(m.medianNs)}
      </h1>
      <Remarks trial={trial} />
      <Facts
        facts={[
          ["purpose", purpose || "search"],
          ["ended", <Time ms={trial.endedAtMs} />],
          ["in the phase", trial.outcome === "OUTCOME_OK" ? "" : sentence(trial.phase, "PHASE_") || "preparation"],
          ["attempt", int(trial.attempt) > 1 ? count(trial.attempt) : ""],
          ["time on the device", trial.deviceBusyMs ? `${number(trial.deviceBusyMs)} ms` : ""],
        ]}
      />
      <div class="panels">
        <ConfigPanel trial={trial} command={command} />
        {m && <TimePanel m={m} study={study} />}
        {m && <ConditionsPanel m={m} trial={trial} />}
        {trial.resources && <ResourcePanel use={trial.resources} trial={trial} />}
        {int(trial.verification?.elements) > 0 && <CheckPanel check={trial.verification!} />}
        {trial.log && (
          <Panel title="Log" class="wide" actions={<CopyButton label="copy" text={trial.log} what="the log" />}>
            <pre class="log" tabIndex={0}>
              {trial.log}
            </pre>
          </Panel>
        )}
      </div>
    </>
  );
}
