// What several views say of jobs and studies.
import type { Device, Job, JobState, Progress, Study } from "api";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { call, caller, has } from "./api";
import { count, duration, enumText, int, percent, ratio } from "./format";
import { href, navigate } from "./route";
import { useShared } from "./shared";
import { ActionButton, announce, type Column, Share, Table } from "./ui";

export function hasEnded(job: Job | undefined): boolean {
  return (
    job?.state === "JOB_STATE_SUCCEEDED" || job?.state === "JOB_STATE_FAILED" || job?.state === "JOB_STATE_CANCELLED"
  );
}

export function jobNumber(name: string | undefined): string {
  return (name ?? "").split("/")[1] ?? "";
}

const signs: Partial<Record<JobState, [string, string]>> = {
  JOB_STATE_QUEUED: ["…", "muted"],
  JOB_STATE_RUNNING: ["▶", "good"],
  JOB_STATE_PAUSED: ["‖", "so-so"],
  JOB_STATE_CANCELLING: ["■", "so-so"],
  JOB_STATE_SUCCEEDED: ["✓", "good"],
  JOB_STATE_FAILED: ["✗", "bad"],
  JOB_STATE_CANCELLED: ["■", "muted"],
};

export function StateWord(props: { job: Job }) {
  const [sign, kind] = (props.job.state && signs[props.job.state]) || ["", ""];
  return (
    <span class={`outcome ${kind}`} title={props.job.stateReason || undefined}>
      <span aria-hidden="true">{sign}</span> {enumText(props.job.state, "JOB_STATE_")}
    </span>
  );
}

// Changes of the job's state are read out.
export function useAnnouncedState(job: Job | undefined): void {
  const state = job?.state;
  const before = useRef(state);
  useEffect(() => {
    if (before.current && state && state !== before.current) {
      announce(`Job ${jobNumber(job?.name)} is ${enumText(state, "JOB_STATE_")} now.`);
    }
    before.current = state;
  }, [state]);
}

export function total(progress: Progress | undefined): string {
  return `${progress?.totalIsEstimate ? "≈" : ""}${count(progress?.total)}`;
}

export function ProgressBar(props: { progress: Progress | undefined; isLive: boolean }) {
  const p = props.progress ?? {};
  const done = int(p.done);
  const eta = int(p.etaMs);
  const finals = int(p.finalsTotal) ? `, finals ${count(p.finalsDone)}/${count(p.finalsTotal)}` : "";
  return (
    <span>
      <Share share={int(p.total) ? done / int(p.total) : 0} text={`${count(done)}/${total(p)}${finals}`} />
      {props.isLive && eta > 0 && <span class="muted"> ETA {duration(eta)}</span>}
    </span>
  );
}

export function failedShare(progress: Progress | undefined): number {
  const failed = (progress?.outcomes ?? []).filter(
    (each) => each.outcome !== "OUTCOME_OK" && each.outcome !== "OUTCOME_LOST",
  );
  const done = int(progress?.done);
  return done ? failed.reduce((sum, each) => sum + int(each.count), 0) / done : 0;
}

// The three numbers of a job's summary as texts; "–" for what is not known.
export function summaryTexts(job: Job): { gain: string; floor: string; failed: string } {
  const s = job.summary ?? {};
  return {
    gain: ratio(s.gain),
    floor: s.floorShare ? percent(s.floorShare) : "–",
    failed: int(job.progress?.done) ? percent(s.failedShare ?? 0) : "–",
  };
}

// The time that is told of a study: that of the final if there was one, else the best of the search so far.
export function bestOf(study: Study) {
  if (study.best?.measurement?.medianNs)
    return { measurement: study.best.measurement, config: study.best.config, isFinal: true };
  return { measurement: study.incumbent?.measurement, config: study.incumbent?.config, isFinal: false };
}

// How many times as fast as the baseline the best is; 0 unknown.
export function baselineOf(study: Study): { label: string; ns: number } {
  const best = study.best;
  if (best?.baselineNs) return { label: best.baselineLabel || "baseline", ns: best.baselineNs };
  return { label: "baseline", ns: study.baseline?.measurement?.medianNs ?? 0 };
}

// Pause, resume, cancel and delete, as far as the job's state and the caller's roles allow.
export function JobActions(props: { job: Job; onChange: () => void; withDelete?: boolean }) {
  const who = useShared(caller);
  const name = props.job.name ?? "";
  const state = props.job.state;
  const number = jobNumber(name);
  if (!has(who, "submit")) return null;
  const act = (method: "PauseJob" | "ResumeJob" | "CancelJob") => async () => {
    await call(`tunefarm.v1.TuningService/${method}`, { name });
    props.onChange();
  };
  const remove = async () => {
    await call("tunefarm.v1.TuningService/DeleteJob", { name });
    navigate(href("jobs"));
  };
  return (
    <span class="buttons">
      {(state === "JOB_STATE_QUEUED" || state === "JOB_STATE_RUNNING") && (
        <ActionButton label="Pause" act={act("PauseJob")} done={`Job ${number} is paused.`} />
      )}
      {state === "JOB_STATE_PAUSED" && (
        <ActionButton label="Resume" act={act("ResumeJob")} done={`Job ${number} goes on.`} />
      )}
      {!hasEnded(props.job) && state !== "JOB_STATE_CANCELLING" && (
        <ActionButton label="Cancel" act={act("CancelJob")} done={`Job ${number} is cancelled.`} isDanger />
      )}
      {props.withDelete && hasEnded(props.job) && (
        <ActionButton
          label="Delete"
          isDanger
          act={remove}
          done={`Job ${number} is deleted.`}
          confirm={
            <p>Job {number} and its trials are removed. Best configs stay in the catalog. This cannot be undone.</p>
          }
        />
      )}
    </span>
  );
}

// A list of jobs: what all lists show, with columns of the list's own after the job, after the state, after the progress
// and at the end.
export function JobTable(props: {
  caption: string;
  jobs: Job[];
  empty: ComponentChildren;
  title: (job: Job) => ComponentChildren; // of the link to the job
  afterJob?: Column<Job>[];
  afterState?: Column<Job>[];
  afterProgress?: Column<Job>[];
  atEnd?: Column<Job>[];
}) {
  return (
    <Table
      caption={props.caption}
      hidesCaption
      rows={props.jobs}
      rowKey={(job) => job.name ?? ""}
      empty={props.empty}
      columns={[
        { name: "job", isText: true, cell: (job) => <a href={href(job.name ?? "")}>{props.title(job)}</a> },
        ...(props.afterJob ?? []),
        {
          name: "state",
          isText: true,
          cell: (job) => (
            <>
              <StateWord job={job} />
              {job.stateReason && <div class="so-so">{job.stateReason}</div>}
              {job.error && <div class="bad">{job.error}</div>}
            </>
          ),
        },
        ...(props.afterState ?? []),
        { name: "progress", cell: (job) => <ProgressBar progress={job.progress} isLive={!hasEnded(job)} /> },
        ...(props.afterProgress ?? []),
        { name: "gain", isNumber: true, cell: (job) => summaryTexts(job).gain, title: "over the default configs" },
        { name: "of floor", isNumber: true, cell: (job) => summaryTexts(job).floor, title: "roofline floor / best" },
        { name: "failed", isNumber: true, cell: (job) => summaryTexts(job).failed, title: "share of the trials" },
        ...(props.atEnd ?? []),
      ]}
    />
  );
}

export function deviceName(device: Device): string {
  const on = device.agent ? ` on ${device.agent}` : "";
  return `${device.deviceClass?.displayName ?? device.uuid ?? ""}${on}`;
}
