// What was looked up and has no exact best config, most often asked first; stored kernels can be tuned for it here.
import type { CreateJobRequest, Job, Miss } from "api";
import { useState } from "preact/hooks";
import { ApiError, asApiError, call, caller, has } from "../api";
import type { ViewProps } from "../app";
import { shellQuoted } from "../commands";
import { Long } from "../facts";
import { count, enumText, int, number } from "../format";
import { shortName } from "../names";
import { usePoll } from "../poll";
import { href, setQuery } from "../route";
import { useShared } from "../shared";
import { announce, Button, Dialog, ErrorLine, Loading, Table, Time } from "../ui";

const PAGE = 100;
const MOST_PROBLEMS = 256; // of a job

function keyOf(miss: Miss): string {
  return `${miss.kernelName} ${miss.programDigest} ${miss.deviceClassId} ${miss.problem?.key}`;
}

function matchText(miss: Miss): string {
  const word = enumText(miss.match, "MATCH_").toLowerCase().replaceAll("_", " ");
  return miss.match === "MATCH_NEAREST_SHAPE" ? `${word}, distance ${number(miss.distance ?? 0)}` : word;
}

// One job for all misses of a definition and a class, in the order of their most asked problems.
function groupsOf(misses: Miss[]): Miss[][] {
  const groups = new Map<string, Miss[]>();
  for (const miss of misses) {
    const key = `${miss.kernelName} ${miss.programDigest} ${miss.deviceClassId}`;
    groups.set(key, [...(groups.get(key) ?? []), miss]);
  }
  return [...groups.values()];
}

// The stored definition that was asked for, or else the newest of the name.
async function kernelOf(miss: Miss): Promise<string> {
  let pageToken = "";
  do {
    const page = await call("tunefarm.v1.KernelService/ListKernels", { pageSize: 1000, pageToken });
    const found = page.kernels?.find(
      (each) => each.displayName === miss.kernelName && each.programDigest === miss.programDigest,
    );
    if (found) return found.name ?? "";
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  const newest = await call("tunefarm.v1.KernelService/GetKernel", { name: miss.kernelName ?? "" });
  return newest.kernel?.name ?? "";
}

// 32 random hexadecimal digits: a call that is repeated makes one job.
function requestId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function Result(props: { result: Job | ApiError | undefined }) {
  const { result } = props;
  if (!result) return null;
  if (result instanceof ApiError) return <ErrorLine error={result} />;
  return (
    <>
      {" "}
      ✓ <a href={href(result.name ?? "")}>job {shortName(result.name)}</a>
    </>
  );
}

function TuneDialog(props: { misses: Miss[]; onClose: () => void; onDone: () => void }) {
  const groups = groupsOf(props.misses);
  const [ids] = useState(() => groups.map(requestId));
  const [minutes, setMinutes] = useState("");
  const [label, setLabel] = useState("misses");
  const [isBusy, setBusy] = useState(false);
  // What became of each group.
  const [results, setResults] = useState<(Job | ApiError | undefined)[]>([]);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const next = [...results];
    for (const [i, group] of groups.entries()) {
      if (next[i] && !(next[i] instanceof ApiError)) continue;
      try {
        const request: CreateJobRequest = {
          requestId: ids[i]!,
          job: {
            kernel: await kernelOf(group[0]!),
            problems: group.map((miss) => ({ dims: miss.problem?.dims ?? {} })),
            deviceSelector: group[0]!.deviceClassId ?? "",
            label,
            budget: { maxSeconds: String(Math.round(Number(minutes) * 60)) },
          },
        };
        const { job } = await call("tunefarm.v1.TuningService/CreateJob", request);
        next[i] = job ?? {};
      } catch (caught) {
        next[i] = asApiError(caught);
      }
      setResults([...next]);
    }
    setBusy(false);
    const made = next.filter((result) => !(result instanceof ApiError)).length;
    announce(`${count(made)} of ${count(groups.length)} jobs are queued.`);
    if (made === groups.length) props.onDone();
  };
  const isDone = groups.every((_, i) => results[i] && !(results[i] instanceof ApiError));
  return (
    <Dialog title={isDone ? "Queued" : "Tune misses"} onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <ul class="groups">
          {groups.map((group, i) => (
            <li key={keyOf(group[0]!)}>
              {count(group.length)} problem{group.length === 1 ? "" : "s"} of <b>{group[0]!.kernelName}</b> on{" "}
              {group[0]!.deviceClassName || group[0]!.deviceClassId}
              {group.length === 1 && <>: {group[0]!.problem?.key}</>}
              <Result result={results[i]} />
            </li>
          ))}
        </ul>
        {isDone ? (
          <p class="buttons">
            <Button class="primary" onClick={props.onClose}>
              Close
            </Button>
          </p>
        ) : (
          <>
            <label class="field">
              Minutes for each job; empty for no limit
              <input
                type="number"
                min="0.1"
                step="any"
                value={minutes}
                onInput={(event) => setMinutes(event.currentTarget.value)}
              />
            </label>
            <label class="field">
              Label
              <input maxLength={64} value={label} onInput={(event) => setLabel(event.currentTarget.value)} />
            </label>
            <p class="buttons">
              <Button type="submit" class="primary" disabled={isBusy}>
                Tune
              </Button>
              <Button onClick={props.onClose}>Close</Button>
            </p>
          </>
        )}
      </form>
    </Dialog>
  );
}

export function MissesView({ query }: ViewProps) {
  const kernel = query.kernel ?? "";
  const deviceClassId = query.class ?? "";
  const token = query.from ?? "";
  const mayTune = has(useShared(caller), "submit");
  const [marked, setMarked] = useState<ReadonlyMap<string, Miss>>(new Map());
  const [toTune, setToTune] = useState<Miss[]>();
  const { data, error, isLoading, refresh } = usePoll(
    `${kernel} ${deviceClassId} ${token}`,
    (signal) =>
      call(
        "tunefarm.v1.CatalogService/ListMisses",
        { kernel, deviceClassId, pageSize: PAGE, pageToken: token },
        signal,
      ),
    5000,
  );
  if (error && !data) return <ErrorLine error={error} />;
  if (isLoading || !data) return <Loading />;
  const misses = data.misses ?? [];
  const mark = (miss: Miss, isMarked: boolean) => {
    const next = new Map(marked);
    if (isMarked) next.set(keyOf(miss), miss);
    else next.delete(keyOf(miss));
    setMarked(next);
  };
  const isFull = marked.size >= MOST_PROBLEMS;
  return (
    <>
      <h1>Misses</h1>
      <p>
        Problems that were looked up and have no exact best config, most look-ups first.
        {int(data.notCounted) > 0 &&
          ` ${count(data.notCounted)} more look-ups are not counted: too many different problems were looked up.`}
      </p>
      <div class="filters">
        {(kernel || deviceClassId) && (
          <>
            <span>
              {kernel && <>kernel: {kernel} </>}
              {deviceClassId && <>device class: {misses[0]?.deviceClassName || deviceClassId}</>}
            </span>
            <Button onClick={() => setQuery({ kernel: "", class: "", from: "" })}>clear</Button>
          </>
        )}
        {mayTune && misses.length > 0 && (
          <>
            <Button class="primary" disabled={marked.size === 0} onClick={() => setToTune([...marked.values()])}>
              Tune marked ({count(marked.size)})
            </Button>
            <Button
              onClick={() => setMarked(new Map(misses.slice(0, MOST_PROBLEMS).map((miss) => [keyOf(miss), miss])))}
            >
              Mark all
            </Button>
            {marked.size > 0 && <Button onClick={() => setMarked(new Map())}>Mark none</Button>}
          </>
        )}
      </div>
      <Table<Miss>
        caption="Misses"
        hidesCaption
        rows={misses}
        rowKey={keyOf}
        empty="No misses: what was looked up was answered exactly."
        columns={[
          ...(mayTune
            ? [
                {
                  name: "mark",
                  cell: (miss: Miss) => (
                    <input
                      type="checkbox"
                      aria-label={`Mark ${miss.kernelName} ${miss.problem?.key}`}
                      checked={marked.has(keyOf(miss))}
                      disabled={isFull && !marked.has(keyOf(miss))}
                      onChange={(event) => mark(miss, event.currentTarget.checked)}
                    />
                  ),
                },
              ]
            : []),
          {
            name: "kernel",
            cell: (miss) => (
              <a href={href("misses", { kernel: miss.kernelName, class: deviceClassId })}>
                <Long text={miss.kernelName ?? ""} />
              </a>
            ),
          },
          { name: "problem", cell: (miss) => <Long text={miss.problem?.key ?? ""} /> },
          {
            name: "device class",
            cell: (miss) => (
              <a href={href("misses", { kernel, class: miss.deviceClassId })}>
                {miss.deviceClassName || miss.deviceClassId}
              </a>
            ),
          },
          { name: "asked", isNumber: true, cell: (miss) => count(miss.count) },
          { name: "answered with", cell: matchText },
          { name: "last asked", cell: (miss) => <Time ms={miss.lastAskedAtMs} /> },
          { name: "first asked", cell: (miss) => <Time ms={miss.firstAskedAtMs} /> },
          ...(mayTune
            ? [
                {
                  name: "action",
                  cell: (miss: Miss) => (
                    <Button
                      aria-label={`Tune ${miss.kernelName} ${miss.problem?.key}`}
                      onClick={() => setToTune([miss])}
                    >
                      Tune
                    </Button>
                  ),
                },
              ]
            : []),
        ]}
      />
      <p class="buttons">
        {token && <Button onClick={() => setQuery({ from: "" })}>first page</Button>}
        {data.nextPageToken && <Button onClick={() => setQuery({ from: data.nextPageToken })}>next page</Button>}
      </p>
      {misses.length > 0 && (
        <p class="muted">
          On the command line: <code>tunefarm tune --misses{kernel && ` ${shellQuoted(kernel)}`}</code>
        </p>
      )}
      {toTune && (
        <TuneDialog
          misses={toTune}
          onClose={() => setToTune(undefined)}
          onDone={() => {
            setMarked(new Map());
            refresh();
          }}
        />
      )}
    </>
  );
}
