// One trial: what became of a config and why, how its time was taken, what its binary needs, and how to run it again.
import type { Job, ResourceUse, Study, Trial, Verification } from "api";
import { call } from "../api";
import type { ViewProps } from "../app";
import { runCommand } from "../commands";
import { Facts, Warning } from "../facts";
import { bytes, count, int, nanoseconds, number } from "../format";
import { shortName } from "../names";
import { usePoll } from "../poll";
import { ConditionsPanel, ConfigPanel, sentence, TimePanel } from "../result_panels";
import { href } from "../route";
import { CopyButton, ErrorLine, Loading, Outcome, Panel, Table, Time } from "../ui";

interface Loaded {
  trial: Trial;
  job: Job | undefined; // absent where it was deleted meanwhile
  study: Study | undefined;
}

// Numbers that JSON writes as text where they are not finite ("NaN").
function any(value: number | string | undefined, digits: number): string {
  const real = Number(value ?? 0);
  return Number.isFinite(real) ? String(Number(real.toPrecision(digits))) : String(real);
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
            use.registers
              ? `${bytes(use.staticSharedBytes)} static + ${bytes(use.dynamicSharedBytes)} dynamic per block`
              : "",
          ],
          ["local memory", use.localBytes ? `${bytes(use.localBytes)} per thread` : ""],
          ["resident blocks", use.blocksPerSm ? `${count(use.blocksPerSm)} per multiprocessor` : ""],
          ["size", use.binaryBytes ? bytes(use.binaryBytes) : ""],
          [
            "compiled in",
            trial.compileMs ? `${number(trial.compileMs)} ms${trial.cachedBinary ? " (from the cache)" : ""}` : "",
          ],
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
        {wrong > 0 ? <span class="bad">✗ {count(wrong)}</span> : <span class="good">✓ none</span>} of{" "}
        {count(check.elements)} elements out of tolerance. Largest difference: {any(check.maxAbsoluteError, 3)}{" "}
        absolute, {any(check.maxRelativeError, 3)} relative.
      </p>
      {check.firstMismatches && check.firstMismatches.length > 0 && (
        <Table
          caption="First mismatches"
          rows={check.firstMismatches}
          rowKey={(row) => `${row.buffer} ${row.index}`}
          columns={[
            { name: "element", cell: (row) => <code>{`${row.buffer}[${row.index ?? 0}]`}</code> },
            { name: "actual", isNumber: true, cell: (row) => any(row.actual, 9) },
            { name: "expected", isNumber: true, cell: (row) => any(row.expected, 9) },
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
      {trial.message &&
        (isOk ? (
          <p>
            <Warning>{trial.message}</Warning>
          </p>
        ) : (
          <p class="bad">{trial.message}</p>
        ))}
      {isOk && trial.purpose !== "TRIAL_PURPOSE_BASELINE" && !int(trial.verification?.elements) && (
        <p>
          <Warning>No output was compared with a reference, so that wrong results are not noticed.</Warning>
        </p>
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
  const against = {
    baselineNs: study?.baseline?.measurement?.medianNs,
    flops: study?.flops,
    bytes: study?.bytes,
    floorNs: study?.floorNs,
  };
  const purpose = sentence(trial.purpose, "TRIAL_PURPOSE_");
  const hasCommand = job?.kernelName && Object.keys(trial.config?.values ?? {}).length > 0;
  const command = hasCommand ? runCommand(job.kernelName!, study?.problem, trial.config, study?.deviceClassId) : "";
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
        <ConfigPanel config={trial.config} command={command} title="Run it again" label="run" />
        {m && <TimePanel m={m} against={against} />}
        {m && <ConditionsPanel m={m} more={[["device", trial.deviceUuid]]} />}
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
