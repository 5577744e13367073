// The start: what runs, on what, what was found last and what is asked for in vain.
import type { Agent, BestConfigChange, Device, GetServerInfoResponse, Job, Miss } from "api";
import { call, caller, has } from "../api";
import type { ViewProps } from "../app";
import { bytes, count, enumText, int, nanoseconds, percent, ratio, spread } from "../format";
import { bestOf, deviceName, JobActions, jobNumber, JobTable } from "../jobs";
import { usePoll } from "../poll";
import { href } from "../route";
import { useShared } from "../shared";
import { Breakable, ErrorLine, Loading, Panel, Table, Time } from "../ui";
import { DeviceState, Drain, Quarantine } from "./devices";

const JOBS_MAX = 20;
const DEVICES_MAX = 50;
// So many jobs are asked for their studies, which lists leave out.
const DETAILS_MAX = 6;

async function loadJobs(signal: AbortSignal): Promise<Job[]> {
  const { jobs = [] } = await call(
    "tunefarm.v1.TuningService/ListJobs",
    {
      states: ["JOB_STATE_RUNNING", "JOB_STATE_QUEUED", "JOB_STATE_PAUSED", "JOB_STATE_CANCELLING"],
      pageSize: JOBS_MAX,
    },
    signal,
  );
  const running = jobs.filter((job) => job.state === "JOB_STATE_RUNNING" && (job.problems ?? []).length <= 4);
  const details = await Promise.all(
    running
      .slice(0, DETAILS_MAX)
      .map((job) => call("tunefarm.v1.TuningService/GetJob", { name: job.name ?? "" }, signal).catch(() => ({ job }))),
  );
  const byName = new Map(details.map((detail) => [detail.job?.name, detail.job]));
  return jobs.map((job) => ({ ...job, studies: byName.get(job.name)?.studies ?? [] }));
}

function BestSoFar(props: { job: Job }) {
  const bests = (props.job.studies ?? []).map((study) => ({ study, best: bestOf(study) }));
  const known = bests.filter((each) => each.best.measurement);
  if (known.length === 0) return <>–</>;
  return (
    <>
      {known.map(({ study, best }) => (
        <div key={study.name}>
          <a href={href(study.name ?? "")} title={study.problem?.key}>
            {nanoseconds(best.measurement?.medianNs)}
          </a>{" "}
          <span class="muted">{spread(best.measurement)}</span>
        </div>
      ))}
    </>
  );
}

function Jobs() {
  const jobs = usePoll("farm jobs", loadJobs, 1000);
  return (
    <Panel title="Running jobs" class="wide" actions={<a href={href("jobs")}>all jobs</a>}>
      {jobs.error && <ErrorLine error={jobs.error} />}
      {!jobs.data && jobs.isLoading && <Loading />}
      {jobs.data && (
        <JobTable
          caption="Running jobs"
          jobs={jobs.data}
          empty={
            <>
              No job runs. <code>tunefarm tune KERNEL</code> submits one, and <a href={href("misses")}>misses</a> say
              what is asked for.
            </>
          }
          title={(job) => (
            <>
              {jobNumber(job.name)} <Breakable text={job.kernelName} />
            </>
          )}
          afterProgress={[{ name: "best so far", isNumber: true, cell: (job) => <BestSoFar job={job} /> }]}
          atEnd={[{ name: "", cell: (job) => <JobActions job={job} onChange={jobs.refresh} /> }]}
        />
      )}
    </Panel>
  );
}

async function loadDevices(signal: AbortSignal) {
  const [{ devices = [] }, { agents = [] }] = await Promise.all([
    call("tunefarm.v1.DeviceService/ListDevices", { pageSize: DEVICES_MAX }, signal),
    call("tunefarm.v1.FarmService/ListAgents", { pageSize: DEVICES_MAX }, signal),
  ]);
  const byId = new Map(agents.map((agent) => [agent.name, agent]));
  return devices.map((device) => ({ device, agent: byId.get(`agents/${device.agentId}`) }));
}

function Devices() {
  const isAdmin = has(useShared(caller), "admin");
  const devices = usePoll("farm devices", loadDevices, 5000);
  return (
    <Panel title="Devices" actions={<a href={href("devices")}>all of them</a>}>
      {devices.error && <ErrorLine error={devices.error} />}
      {!devices.data && devices.isLoading && <Loading />}
      {devices.data && (
        <Table
          caption="Devices"
          hidesCaption
          rows={devices.data}
          rowKey={({ device }) => device.name ?? ""}
          empty="There is no device: no agent has registered."
          columns={[
            { name: "device", isText: true, cell: ({ device }) => deviceName(device) },
            {
              name: "state",
              isText: true,
              cell: ({ device, agent }) => (
                <>
                  <DeviceState device={device} />
                  {agent?.draining && <div class="so-so">▲ its agent is draining</div>}
                </>
              ),
            },
            ...(isAdmin
              ? [
                  {
                    name: "",
                    cell: ({ device, agent }: { device: Device; agent: Agent | undefined }) => (
                      <span class="buttons">
                        <Quarantine device={device} onChange={devices.refresh} />
                        {agent && <Drain agent={agent} onChange={devices.refresh} />}
                      </span>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
    </Panel>
  );
}

function Promotions() {
  const changes = usePoll(
    "farm changes",
    (signal) =>
      call("tunefarm.v1.CatalogService/ListBestConfigChanges", { pageSize: 30 }, signal).then((response) =>
        (response.changes ?? []).filter((change) => change.kind === "BEST_CONFIG_CHANGE_KIND_PROMOTED").slice(0, 8),
      ),
    5000,
  );
  const gain = ({ best }: BestConfigChange) =>
    best?.baselineNs && best.measurement?.medianNs ? ratio(best.baselineNs / best.measurement.medianNs) : "–";
  const floor = ({ best }: BestConfigChange) =>
    best?.floorNs && best.measurement?.medianNs ? percent(best.floorNs / best.measurement.medianNs) : "–";
  return (
    <Panel title="Newest bests" class="wide" actions={<a href={href("catalog")}>catalog</a>}>
      {changes.error && <ErrorLine error={changes.error} />}
      {!changes.data && changes.isLoading && <Loading />}
      {changes.data && (
        <Table
          caption="Newest bests"
          hidesCaption
          rows={changes.data}
          rowKey={(change) => change.revision ?? ""}
          empty="No job has promoted a best yet."
          columns={[
            {
              name: "kernel",
              isText: true,
              cell: (change) => (
                <a href={href(change.best?.job ?? "jobs")}>
                  <Breakable text={change.best?.kernelName} />
                </a>
              ),
            },
            {
              name: "problem",
              isText: true,
              cell: ({ best }) => (
                <span class="mono">
                  <Breakable text={best?.problem?.key} />
                </span>
              ),
            },
            { name: "device", isText: true, cell: ({ best }) => best?.deviceClassName },
            { name: "time", isNumber: true, cell: ({ best }) => nanoseconds(best?.measurement?.medianNs) },
            { name: "gain", isNumber: true, cell: gain },
            { name: "of floor", isNumber: true, cell: floor },
            { name: "when", cell: (change) => <Time ms={change.changedAtMs} /> },
          ]}
        />
      )}
    </Panel>
  );
}

function Misses() {
  const misses = usePoll(
    "farm misses",
    (signal) =>
      call("tunefarm.v1.CatalogService/ListMisses", { pageSize: 8 }, signal).then((response) => response.misses ?? []),
    5000,
  );
  return (
    <Panel title="Most asked, never tuned" actions={<a href={href("misses")}>all misses</a>}>
      {misses.error && <ErrorLine error={misses.error} />}
      {!misses.data && misses.isLoading && <Loading />}
      {misses.data && (
        <Table<Miss>
          caption="Most asked, never tuned"
          hidesCaption
          rows={misses.data}
          rowKey={(miss) => `${miss.kernelName} ${miss.problem?.key} ${miss.deviceClassId}`}
          empty="Every look-up has found an exact best."
          columns={[
            { name: "kernel", cell: (miss) => <Breakable text={miss.kernelName} /> },
            {
              name: "problem",
              isText: true,
              cell: (miss) => (
                <span class="mono">
                  <Breakable text={miss.problem?.key} />
                </span>
              ),
            },
            { name: "device", isText: true, cell: (miss) => miss.deviceClassName },
            { name: "asked", isNumber: true, cell: (miss) => count(miss.count) },
            { name: "answered with", cell: (miss) => enumText(miss.match, "MATCH_") },
          ]}
        />
      )}
    </Panel>
  );
}

function Warnings(props: { info: GetServerInfoResponse }) {
  const { freeDiskBytes, freeDiskBytesMin, databaseAway, catalogAgeMs } = props.info;
  const free = int(freeDiskBytes);
  const floor = int(freeDiskBytesMin);
  return (
    <div role="status">
      {databaseAway && (
        <p class="error">
          ✗ The database is away: {databaseAway}. Look-ups are answered from memory,{" "}
          {count(Math.round(int(catalogAgeMs) / 1000))} s old.
        </p>
      )}
      {free > 0 && free < floor && (
        <p class="error">
          ✗ The disk is full: {bytes(free)} free, the floor is {bytes(floor)}. Jobs are paused.
        </p>
      )}
      {free >= floor && free > 0 && free < 2 * floor && (
        <p class="so-so">
          ○ The disk is low: {bytes(free)} free. Below {bytes(floor)} jobs pause.
        </p>
      )}
    </div>
  );
}

export function Farm(_: ViewProps) {
  const info = usePoll("farm info", (signal) => call("tunefarm.v1.ServerService/GetServerInfo", {}, signal), 5000);
  return (
    <>
      <h1>Farm</h1>
      {info.data && <Warnings info={info.data} />}
      <div class="panels">
        <Jobs />
        <Devices />
        <Misses />
        <Promotions />
      </div>
      {info.data && (
        <p class="muted">
          tunefarm {info.data.version} ({info.data.revision}), {count(info.data.storedTrials)} trials stored, database{" "}
          {bytes(info.data.databaseBytes)}
        </p>
      )}
    </>
  );
}
