// The catalog: how many best configs there are of each kernel on each device class, and how good; of one of each also
// a grid by two dims, a roofline, a list and the history.
import type { BestConfig, BestConfigSummary } from "api";
import { call } from "../api";
import type { ViewProps } from "../app";
import { BestChanges } from "../best_changes";
import { BestGrid, varyingDims } from "../best_grid";
import { shortName } from "../names";
import { ConfigCell, Facts, Long, Warning } from "../facts";
import { byteRate, count, flopRate, int, nanoseconds, percent, ratio, spread, valueKey } from "../format";
import { useKey } from "../keys";
import { usePoll } from "../poll";
import { Roofline } from "../roofline";
import { currentRoute, href, type Query, setQuery } from "../route";
import { Button, Choice, ErrorLine, Loading, Panel, Share, Table, Time } from "../ui";

const PAGE = 1000;
const MOST_BESTS = 3000; // that are loaded
const ROWS = 50; // of the list at once
const MOST_OPTIONS = 100; // of a select
const POLL_MS = 5000;

export function bestHref(best: BestConfig): string {
  return href("catalog/best", {
    program: best.programDigest,
    problem: best.problem?.key,
    class: best.deviceClassId,
    kernel: best.kernelName,
  });
}

interface Bests {
  revision: string;
  bests: BestConfig[];
  hasMore: boolean;
}

// The bests of a kernel and a class, or what is known of them where the catalog has not changed.
async function loadBests(
  kernel: string,
  deviceClassId: string,
  previous: Bests | undefined,
  signal: AbortSignal,
): Promise<Bests> {
  const bests: BestConfig[] = [];
  let pageToken = "";
  let revision = "";
  if (previous) {
    const { catalogRevision } = await call(
      "tunefarm.v1.LookupService/ListBestConfigs",
      { kernel, deviceClassId, pageSize: 1 },
      signal,
    );
    if (catalogRevision === previous.revision) return previous;
  }
  do {
    const request = { kernel, deviceClassId, pageSize: PAGE, pageToken };
    const page = await call("tunefarm.v1.LookupService/ListBestConfigs", request, signal);
    revision ||= page.catalogRevision ?? "";
    pageToken = page.nextPageToken ?? "";
    bests.push(...(page.bests ?? []));
  } while (pageToken && bests.length < MOST_BESTS);
  return { revision, bests, hasMore: pageToken !== "" };
}

function SummaryTable(props: { summaries: BestConfigSummary[]; kernel: string }) {
  const link = (row: BestConfigSummary) => href("catalog", { kernel: row.kernelName, class: row.deviceClassId });
  return (
    <Table
      caption="Best configs by kernel and device class"
      hidesCaption
      rows={props.summaries}
      rowKey={(row) => `${row.kernelName} ${row.deviceClassId}`}
      empty={
        <>
          No best configs yet. Run: <code>tunefarm tune {props.kernel || "matmul_host"}</code>
        </>
      }
      columns={[
        { name: "kernel", cell: (row) => <Long text={row.kernelName ?? ""} /> },
        { name: "device class", cell: (row) => <a href={link(row)}>{row.deviceClassName || row.deviceClassId}</a> },
        { name: "bests", isNumber: true, cell: (row) => count(row.bests) },
        { name: "pinned", isNumber: true, cell: (row) => (int(row.pinned) ? count(row.pinned) : "–") },
        {
          name: "older definition",
          isNumber: true,
          title: "Filed under another program than that of the newest definition",
          cell: (row) => (int(row.staleSource) ? <Warning>{count(row.staleSource)}</Warning> : "–"),
        },
        { name: "gain", isNumber: true, title: "Geometric mean of baseline / best", cell: (row) => ratio(row.gain) },
        {
          name: "of floor",
          title: "Geometric mean of roofline floor / best",
          cell: (row) => (row.floorShare ? <Share share={row.floorShare} text={percent(row.floorShare)} /> : "–"),
        },
        {
          name: "least",
          isNumber: true,
          title: "Least of floor",
          cell: (row) => (row.floorShareMin ? percent(row.floorShareMin) : "–"),
        },
        { name: "newest", cell: (row) => <Time ms={row.promotedAtMs} /> },
      ]}
    />
  );
}

type Order = "problem" | "share" | "newest";

function BestTable(props: { bests: BestConfig[]; query: Query; hasClass: boolean; hasKernel: boolean }) {
  const { bests, query } = props;
  const order = (["share", "newest"] as const).find((each) => each === query.order) ?? "problem";
  const share = (best: BestConfig) =>
    best.floorNs && best.measurement?.medianNs ? best.floorNs / best.measurement.medianNs : Infinity;
  const sorted = [...bests];
  if (order === "share") sorted.sort((a, b) => share(a) - share(b));
  if (order === "newest") sorted.sort((a, b) => int(b.promotedAtMs) - int(a.promotedAtMs));
  const pages = Math.ceil(sorted.length / ROWS);
  const page = Math.min(Math.max(1, Number(query.page) || 1), Math.max(1, pages));
  return (
    <>
      <div class="buttons">
        <Choice<Order>
          label="order"
          value={order}
          options={[
            ["problem", "problem"],
            ["share", "furthest from floor"],
            ["newest", "newest"],
          ]}
          onChange={(to) => setQuery({ order: to === "problem" ? "" : to, page: "" })}
        />
        {pages > 1 && (
          <>
            <Button disabled={page === 1} onClick={() => setQuery({ page: String(page - 1) })}>
              previous
            </Button>
            <span>
              {(page - 1) * ROWS + 1} to {Math.min(page * ROWS, sorted.length)} of {count(sorted.length)}
            </span>
            <Button disabled={page === pages} onClick={() => setQuery({ page: String(page + 1) })}>
              next
            </Button>
          </>
        )}
      </div>
      <Table
        caption="Best configs"
        hidesCaption
        rows={sorted.slice((page - 1) * ROWS, page * ROWS)}
        rowKey={(best) => `${best.programDigest} ${best.problem?.key} ${best.deviceClassId}`}
        empty="No best config passes the filter."
        columns={[
          ...(props.hasKernel
            ? []
            : [{ name: "kernel", cell: (best: BestConfig) => <Long text={best.kernelName ?? ""} /> }]),
          {
            name: "problem",
            cell: (best) => (
              <a href={bestHref(best)}>
                <Long text={best.problem?.key ?? ""} />
              </a>
            ),
          },
          ...(props.hasClass
            ? []
            : [{ name: "device class", cell: (best: BestConfig) => best.deviceClassName || best.deviceClassId }]),
          { name: "time", isNumber: true, cell: (best) => nanoseconds(best.measurement?.medianNs) },
          { name: "±", isNumber: true, cell: (best) => spread(best.measurement).slice(1) },
          {
            name: "gain",
            isNumber: true,
            title: "baseline / best",
            cell: (best) =>
              best.baselineNs && best.measurement?.medianNs ? ratio(best.baselineNs / best.measurement.medianNs) : "–",
          },
          { name: "rate", isNumber: true, cell: (best) => flopRate(best.flops, best.measurement?.medianNs) },
          { name: "memory rate", isNumber: true, cell: (best) => byteRate(best.bytes, best.measurement?.medianNs) },
          {
            name: "of floor",
            cell: (best) =>
              Number.isFinite(share(best)) ? <Share share={share(best)} text={percent(share(best))} /> : "–",
          },
          ...(bests.some((best) => best.pinned || best.note)
            ? [
                {
                  name: "note",
                  cell: (best: BestConfig) => (
                    <>
                      {best.pinned && <b>pinned </b>}
                      <Long text={best.note ?? ""} />
                    </>
                  ),
                },
              ]
            : []),
          { name: "job", cell: (best) => (best.job ? <a href={href(best.job)}>{shortName(best.job)}</a> : "–") },
          { name: "config", cell: (best) => <ConfigCell config={best.config} /> },
        ]}
      />
    </>
  );
}

// Selects of the kernel, the class and of each dim with several values, and a text that the problem must have.
function Filters(props: { summaries: BestConfigSummary[]; bests: BestConfig[]; query: Query }) {
  const { summaries, query } = props;
  useKey("/", () => document.getElementById("catalog-text")?.focus());
  const select = (label: string, name: string, options: [string, string][]) => (
    <label key={name}>
      {label}{" "}
      <select value={query[name] ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value, page: "" })}>
        <option value="">all</option>
        {query[name] && !options.some(([value]) => value === query[name]) && (
          <option value={query[name]}>{query[name]}</option>
        )}
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  const unique = (pairs: [string, string][]) => [...new Map(pairs)];
  const isFiltered = Object.keys(query).some((name) => name.startsWith("d.") || name === "text" || name === "pinned");
  const clear = () =>
    setQuery(
      Object.fromEntries(
        Object.keys(currentRoute().query)
          .filter((name) => name !== "kernel" && name !== "class")
          .map((name) => [name, ""]),
      ),
    );
  return (
    <div class="filters" role="search" aria-label="Filter">
      {select("kernel", "kernel", unique(summaries.map((row) => [row.kernelName ?? "", row.kernelName ?? ""])))}
      {select(
        "device class",
        "class",
        unique(summaries.map((row) => [row.deviceClassId ?? "", row.deviceClassName || row.deviceClassId || ""])),
      )}
      {varyingDims(props.bests)
        .filter((dim) => dim.keys.length <= MOST_OPTIONS)
        .map((dim) =>
          select(
            dim.name,
            `d.${dim.name}`,
            dim.keys.map((key) => [key, key.slice(1)]),
          ),
        )}
      {props.bests.length > 0 && (
        <>
          <label>
            problem or note has{" "}
            <input
              id="catalog-text"
              type="search"
              value={query.text ?? ""}
              onInput={(event) => setQuery({ text: event.currentTarget.value, page: "" })}
            />
          </label>
          <label>
            <input
              type="checkbox"
              checked={query.pinned === "1"}
              onChange={(event) => setQuery({ pinned: event.currentTarget.checked ? "1" : "", page: "" })}
            />{" "}
            pinned only
          </label>
        </>
      )}
      {isFiltered && <Button onClick={clear}>clear</Button>}
    </div>
  );
}

function passes(best: BestConfig, query: Query): boolean {
  if (query.pinned && !best.pinned) return false;
  if (query.text && !`${best.problem?.key} ${best.note}`.toLowerCase().includes(query.text.toLowerCase())) return false;
  return Object.entries(query).every(([name, key]) => {
    if (!name.startsWith("d.")) return true;
    const value = best.problem?.dims?.[name.slice(2)];
    return value !== undefined && valueKey(value) === key;
  });
}

export function CatalogView({ query }: ViewProps) {
  const kernel = query.kernel ?? "";
  const deviceClass = query.class ?? "";
  const isChosen = kernel !== "" || deviceClass !== "";
  const isOne = kernel !== "" && deviceClass !== "";
  const summary = usePoll(
    "summary",
    (signal) => call("tunefarm.v1.CatalogService/SummarizeBestConfigs", {}, signal),
    POLL_MS,
  );
  const list = usePoll(
    isChosen ? `${deviceClass} ${kernel}` : "",
    (signal, previous: Bests | undefined) => loadBests(kernel, deviceClass, previous, signal),
    POLL_MS,
  );
  if (summary.error && !summary.data) return <ErrorLine error={summary.error} />;
  if (!summary.data) return <Loading />;
  const summaries = summary.data.summaries ?? [];
  const shown = summaries.filter(
    (row) => (!kernel || row.kernelName === kernel) && (!deviceClass || row.deviceClassId === deviceClass),
  );
  const all = isChosen && !list.isLoading ? (list.data?.bests ?? []) : [];
  const bests = all.filter((best) => passes(best, query));
  const one = isOne ? shown[0] : undefined;
  return (
    <>
      <h1>Catalog</h1>
      <Filters summaries={summaries} bests={all} query={query} />
      {one ? (
        <Facts
          facts={[
            ["best configs", `${count(one.bests)}${int(one.pinned) ? `, ${count(one.pinned)} pinned` : ""}`],
            ["gain", one.gain ? `${ratio(one.gain)} (geometric mean)` : ""],
            [
              "of floor",
              one.floorShare
                ? `${percent(one.floorShare)} (geometric mean), at least ${percent(one.floorShareMin)}`
                : "",
            ],
            [
              "older definition",
              int(one.staleSource) ? (
                <Warning>{count(one.staleSource)} of them: tuned with another definition than the newest</Warning>
              ) : (
                ""
              ),
            ],
          ]}
        />
      ) : (
        <SummaryTable summaries={shown} kernel={kernel} />
      )}
      {isChosen && list.error && <ErrorLine error={list.error} />}
      {isChosen && list.isLoading && <Loading />}
      {all.length > 0 && (
        <div class="panels">
          {isOne && (
            <>
              <Panel title="By two dims">
                <BestGrid bests={bests} query={query} bestHref={bestHref} />
              </Panel>
              <Panel title="Roofline">
                <Roofline bests={bests} href={bestHref} />
              </Panel>
            </>
          )}
          <Panel
            title={`Best configs (${count(bests.length)}${bests.length < all.length ? ` of ${count(all.length)}` : ""})`}
            class="wide"
          >
            {list.data?.hasMore && (
              <p>
                <Warning>
                  There are more than {count(all.length)}: the first of them are shown. Choose a kernel and a device
                  class.
                </Warning>
              </p>
            )}
            <BestTable bests={bests} query={query} hasKernel={kernel !== ""} hasClass={deviceClass !== ""} />
          </Panel>
        </div>
      )}
      {summaries.length > 0 && (
        <div class="panels">
          <Panel title="Changes" class="wide">
            <BestChanges key={kernel} request={{ kernel }} deviceClassId={deviceClass} bestHref={bestHref} />
          </Panel>
        </div>
      )}
    </>
  );
}
