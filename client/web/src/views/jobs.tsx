// All jobs, newest first, by facets.
import type { Job, JobState } from "api";
import { useState } from "preact/hooks";
import { call } from "../api";
import type { ViewProps } from "../app";
import { count, enumText, int } from "../format";
import { JobActions, jobNumber, JobTable } from "../jobs";
import { useKey } from "../keys";
import { usePoll } from "../poll";
import { setQuery } from "../route";
import { Breakable, Button, ErrorLine, Loading, Time } from "../ui";

const PAGE = 50;
const states: JobState[] = [
  "JOB_STATE_QUEUED",
  "JOB_STATE_RUNNING",
  "JOB_STATE_PAUSED",
  "JOB_STATE_CANCELLING",
  "JOB_STATE_SUCCEEDED",
  "JOB_STATE_FAILED",
  "JOB_STATE_CANCELLED",
];
const facets: [string, string, (job: Job) => (string | undefined)[]][] = [
  ["kernel", "kernel", (job) => [job.kernelName]],
  ["class", "device class", (job) => job.summary?.deviceClassIds ?? []],
  ["label", "label", (job) => [job.label]],
  ["who", "submitted by", (job) => [job.submittedBy]],
];

export function Jobs({ query }: ViewProps) {
  // Tokens of the pages before this one; the first page has none.
  const [tokens, setTokens] = useState<string[]>([]);
  const token = tokens.at(-1) ?? "";
  const chosen = (query["state"] ?? "").split(",").filter(Boolean);
  const filter = {
    states: states.filter((state) => chosen.includes(enumText(state, "JOB_STATE_"))),
    kernelName: query["kernel"] ?? "",
    label: query["label"] ?? "",
    submittedBy: query["who"] ?? "",
    deviceClassId: query["class"] ?? "",
  };
  const isFiltered = chosen.length > 0 || facets.some(([name]) => query[name]);
  const page = usePoll(
    `jobs ${JSON.stringify(filter)} ${token}`,
    (signal) => call("tunefarm.v1.TuningService/ListJobs", { ...filter, pageSize: PAGE, pageToken: token }, signal),
    5000,
  );
  useKey("/", () => document.getElementById("facet-kernel")?.focus());
  const narrow = (changes: Record<string, string | undefined>) => {
    setTokens([]);
    setQuery(changes);
  };
  const link = (name: string, value: string | undefined) =>
    value ? (
      <Button class="link" title={`Only this ${name}`} onClick={() => narrow({ [name]: value })}>
        <Breakable text={value} />
      </Button>
    ) : (
      ""
    );
  const jobs = page.data?.jobs ?? [];
  const next = page.data?.nextPageToken;
  return (
    <>
      <h1>Jobs</h1>
      <div class="filter" role="search" aria-label="Jobs">
        <span class="choice" role="group" aria-label="State">
          {states.map((state) => {
            const word = enumText(state, "JOB_STATE_");
            const isOn = chosen.includes(word);
            return (
              <Button
                key={state}
                aria-pressed={isOn}
                onClick={() =>
                  narrow({ state: (isOn ? chosen.filter((each) => each !== word) : [...chosen, word]).join(",") })
                }
              >
                {word}
              </Button>
            );
          })}
        </span>
        {facets.map(([name, words, of]) => (
          <label key={name}>
            {words}{" "}
            <input
              id={`facet-${name}`}
              list={`values-${name}`}
              value={query[name] ?? ""}
              size={14}
              onChange={(event) => narrow({ [name]: event.currentTarget.value.trim() })}
            />
            <datalist id={`values-${name}`}>
              {[...new Set(jobs.flatMap(of))].filter(Boolean).map((value) => (
                <option key={value} value={value} />
              ))}
            </datalist>
          </label>
        ))}
        {isFiltered && <Button onClick={() => narrow({ state: "", kernel: "", class: "", label: "", who: "" })}>Clear</Button>}
      </div>
      {page.error && <ErrorLine error={page.error} />}
      {!page.data && page.isLoading && <Loading />}
      {page.data && (
        <JobTable
          caption="Jobs, newest first"
          jobs={jobs}
          empty={
            isFiltered ? (
              "No job passes the filter."
            ) : (
              <>
                There is no job yet. <code>tunefarm tune KERNEL</code> submits one.
              </>
            )
          }
          title={(job) => <>job&nbsp;{jobNumber(job.name)}</>}
          afterJob={[{ name: "kernel", isText: true, cell: (job) => link("kernel", job.kernelName) }]}
          afterState={[
            { name: "", cell: (job) => <JobActions job={job} onChange={page.refresh} /> },
            {
              name: "device class",
              isText: true,
              cell: (job) => (job.summary?.deviceClassIds ?? []).map((id) => <div key={id}>{link("class", id)}</div>),
            },
            { name: "problems", isNumber: true, cell: (job) => count((job.problems ?? []).length) },
          ]}
          atEnd={[
            { name: "created", cell: (job) => <Time ms={int(job.createdAtMs)} /> },
            { name: "label", isText: true, cell: (job) => link("label", job.label) },
            { name: "submitted by", cell: (job) => link("who", job.submittedBy) },
          ]}
        />
      )}
      <p class="buttons">
        {tokens.length > 0 && <Button onClick={() => setTokens(tokens.slice(0, -1))}>Newer</Button>}
        {next && <Button onClick={() => setTokens([...tokens, next])}>Older</Button>}
      </p>
    </>
  );
}
