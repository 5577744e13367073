// One job: its studies, and what it was asked for.
import type { Job, Study } from "api";
import { useState } from "preact/hooks";
import { call } from "../api";
import type { ViewProps } from "../app";
import { tuneCommands } from "../commands";
import {
  byteRate,
  configText,
  count,
  duration,
  enumText,
  flopRate,
  int,
  nanoseconds,
  percent,
  ratio,
  spread,
} from "../format";
import {
  baselineOf,
  bestOf,
  failedShare,
  hasEnded,
  JobActions,
  ProgressBar,
  StateWord,
  useAnnouncedState,
} from "../jobs";
import { usePoll } from "../poll";
import { href } from "../route";
import { Breakable, Button, CopyButton, ErrorLine, Loading, Panel, Table, Time } from "../ui";

// At most so many studies are compared.
const COMPARED_MAX = 6;
// More studies than these are shown when asked for.
const STUDIES_FIRST = 100;

function Gain(props: { study: Study }) {
  const best = bestOf(props.study).measurement?.medianNs;
  const baseline = baselineOf(props.study);
  return <span title={`over ${baseline.label}`}>{best && baseline.ns ? ratio(baseline.ns / best) : "–"}</span>;
}

export function JobView({ params }: ViewProps) {
  const name = `jobs/${params["job"]}`;
  const [marked, setMarked] = useState<string[]>([]);
  const [isWhole, setWhole] = useState(false);
  const polled = usePoll<Job>(
    name,
    (signal) => call("tunefarm.v1.TuningService/GetJob", { name }, signal).then((response) => response.job ?? {}),
    (job) => ((job.studies ?? []).length > 16 ? 5000 : 1000),
    hasEnded,
  );
  const job = polled.data;
  useAnnouncedState(job);
  if (!job) return polled.error ? <ErrorLine error={polled.error} /> : <Loading />;
  const studies = job.studies ?? [];
  const medianOf = (study: Study) => bestOf(study).measurement?.medianNs;
  const mark = (study: string, isOn: boolean) =>
    setMarked(isOn ? [...marked, study] : marked.filter((each) => each !== study));
  return (
    <>
      <div class="title">
        <h1>
          <a href={href("jobs")}>jobs</a> › {params["job"]} › {job.kernelName}
        </h1>
        <StateWord job={job} />
        <ProgressBar progress={job.progress} isLive={!hasEnded(job)} />
        <JobActions job={job} onChange={polled.refresh} withDelete />
      </div>
      {polled.error && <ErrorLine error={polled.error} />}
      {job.error && <p class="error">✗ {job.error}</p>}
      {job.stateReason && <p class="so-so">○ {job.stateReason}</p>}
      <Panel
        title="Studies"
        actions={
          marked.length >= 2 && (
            <a href={href("compare", { studies: marked.slice(0, COMPARED_MAX).join(",") })}>
              compare {Math.min(COMPARED_MAX, marked.length)} marked
            </a>
          )
        }
      >
        <Table
          caption="Studies: one for each problem and class of devices"
          hidesCaption
          rows={isWhole ? studies : studies.slice(0, STUDIES_FIRST)}
          rowKey={(study) => study.name ?? ""}
          empty="The job has no study yet."
          columns={[
            {
              name: "mark",
              cell: (study) => (
                <input
                  type="checkbox"
                  aria-label={`Mark ${study.problem?.key} to compare`}
                  checked={marked.includes(study.name ?? "")}
                  onChange={(event) => mark(study.name ?? "", event.currentTarget.checked)}
                />
              ),
            },
            {
              name: "problem",
              isText: true,
              cell: (study) => (
                <a class="mono" href={href(study.name ?? "")}>
                  <Breakable text={study.problem?.key || "(no dims)"} />
                </a>
              ),
            },
            { name: "device class", cell: (study) => study.deviceClassName },
            {
              name: "median",
              isNumber: true,
              title: "with half of its 95 % interval",
              cell: (study) => (
                <>
                  {nanoseconds(medianOf(study))} <span class="muted">{spread(bestOf(study).measurement)}</span>
                </>
              ),
            },
            { name: "gain", isNumber: true, cell: (study) => <Gain study={study} />, title: "over the baseline" },
            { name: "arithmetic", isNumber: true, cell: (study) => flopRate(study.flops, medianOf(study)) },
            { name: "memory", isNumber: true, cell: (study) => byteRate(study.bytes, medianOf(study)) },
            {
              name: "of floor",
              isNumber: true,
              title: "roofline floor / median",
              cell: (study) => (study.floorNs && medianOf(study) ? percent(study.floorNs / medianOf(study)!) : "–"),
            },
            {
              name: "trials",
              cell: (study) => <ProgressBar progress={study.progress} isLive={study.state !== "STUDY_STATE_ENDED"} />,
            },
            {
              name: "failed",
              isNumber: true,
              cell: (study) => (int(study.progress?.done) ? percent(failedShare(study.progress)) : "–"),
            },
            {
              name: "config",
              isText: true,
              cell: (study) => (
                <span class="mono config" title={configText(bestOf(study).config)}>
                  {configText(bestOf(study).config)}
                </span>
              ),
            },
            {
              name: "ended because",
              isText: true,
              cell: (study) => (
                <>
                  {study.searchEndedBecause || enumText(study.state, "STUDY_STATE_").toLowerCase()}
                  {study.notPromotedBecause && <div class="so-so">not promoted: {study.notPromotedBecause}</div>}
                </>
              ),
            },
          ]}
        />
        {!isWhole && studies.length > STUDIES_FIRST && (
          <Button onClick={() => setWhole(true)}>Show all {studies.length} studies</Button>
        )}
      </Panel>
      <div class="panels">
        <Panel title="Made by">
          {tuneCommands(job)
            .slice(0, 10)
            .map((command) => (
              <div key={command} class="command">
                <pre>{command}</pre>
                <CopyButton label="copy" text={command} what="the command" />
              </div>
            ))}
          {(job.problems ?? []).length > 10 && (
            <p class="muted">{count((job.problems ?? []).length)} problems in all</p>
          )}
        </Panel>
        <Panel title="About">
          <dl class="facts">
            <dt>created</dt>
            <dd>
              <Time ms={job.createdAtMs} />
            </dd>
            <dt>started</dt>
            <dd>
              <Time ms={job.startedAtMs} none="not yet" />
            </dd>
            <dt>ended</dt>
            <dd>
              <Time ms={job.endedAtMs} none="not yet" />
            </dd>
            {job.submittedBy && (
              <>
                <dt>submitted by</dt>
                <dd>{job.submittedBy}</dd>
              </>
            )}
            {job.label && (
              <>
                <dt>label</dt>
                <dd>{job.label}</dd>
              </>
            )}
            <dt>strategy</dt>
            <dd>
              {job.strategy?.strategyName || "default"}, seed {job.strategy?.seed ?? "1"}
            </dd>
            <dt>devices busy</dt>
            <dd>{duration(job.deviceBusyMs ?? 0)}</dd>
            <dt>kernel</dt>
            <dd class="mono">{job.kernel}</dd>
          </dl>
        </Panel>
      </div>
    </>
  );
}
