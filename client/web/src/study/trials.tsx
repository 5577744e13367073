// The trials that pass the filter, a page at a time.
import type { ListTrialsResponse, Trial, TrialFilter } from "api";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import {
  byName,
  bytes,
  configText,
  count,
  duration,
  int,
  nanoseconds,
  outcomeText,
  spread,
  valueText,
} from "../format";
import { usePoll } from "../poll";
import { href } from "../route";
import {
  ActionButton,
  Button,
  Choice,
  type Column,
  ErrorLine,
  Loading,
  Memo,
  Outcome,
  Panel,
  Table,
  Time,
} from "../ui";

const PAGE = 100;
const CSV_PAGE = 1000;
const CSV_MAX = 100_000;
const COMPARED_MAX = 6;

interface Field {
  name: string;
  isNumber?: boolean;
  isText?: boolean;
  cell: (trial: Trial) => preact.ComponentChildren;
  csv: (trial: Trial) => string | number;
  csvName?: string; // with its unit
}

const fields: Field[] = [
  { name: "outcome", cell: (t) => <Outcome outcome={t.outcome} />, csv: (t) => outcomeText(t.outcome) },
  {
    name: "time",
    isNumber: true,
    cell: (t) => nanoseconds(t.measurement?.medianNs),
    csv: (t) => t.measurement?.medianNs ?? "",
    csvName: "median_ns",
  },
  { name: "spread", isNumber: true, cell: (t) => spread(t.measurement), csv: (t) => spread(t.measurement) },
  {
    name: "message",
    isText: true,
    cell: (t) => (
      <span class="message" title={t.message}>
        {t.message}
      </span>
    ),
    csv: (t) => t.message ?? "",
  },
  {
    name: "samples",
    isNumber: true,
    cell: (t) => count(t.measurement?.samples),
    csv: (t) => t.measurement?.samples ?? 0,
  },
  {
    name: "registers",
    isNumber: true,
    cell: (t) => t.resources?.registers || "–",
    csv: (t) => t.resources?.registers ?? "",
  },
  {
    name: "spills",
    isNumber: true,
    cell: (t) => (t.resources ? bytes(t.resources.spillBytes) : "–"),
    csv: (t) => t.resources?.spillBytes ?? "",
    csvName: "spill_bytes",
  },
  {
    name: "shared memory",
    isNumber: true,
    cell: (t) =>
      t.resources ? bytes((t.resources.staticSharedBytes ?? 0) + (t.resources.dynamicSharedBytes ?? 0)) : "–",
    csv: (t) => (t.resources?.staticSharedBytes ?? 0) + (t.resources?.dynamicSharedBytes ?? 0),
    csvName: "shared_bytes",
  },
  {
    name: "blocks/SM",
    isNumber: true,
    cell: (t) => t.resources?.blocksPerSm || "–",
    csv: (t) => t.resources?.blocksPerSm ?? "",
  },
  {
    name: "clock",
    isNumber: true,
    cell: (t) => (t.measurement?.clockMhz ? `${t.measurement.clockMhz} MHz` : "–"),
    csv: (t) => t.measurement?.clockMhz ?? "",
    csvName: "clock_mhz",
  },
  {
    name: "device busy",
    isNumber: true,
    cell: (t) => duration(t.deviceBusyMs ?? 0),
    csv: (t) => t.deviceBusyMs ?? "",
    csvName: "device_busy_ms",
  },
  { name: "ended", cell: (t) => <Time ms={t.endedAtMs} />, csv: (t) => int(t.endedAtMs), csvName: "ended_at_ms" },
];
const usual = ["outcome", "time", "spread", "config", "message"];

function quoted(value: string | number): string {
  const text = String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// With the objects of the trials that are known, so that their rows need not be drawn again: what has ended stays as it
// is.
function withKnown(known: Trial[] | undefined, page: ListTrialsResponse): ListTrialsResponse {
  const objects = new Map((known ?? []).map((trial) => [trial.name, trial]));
  return { ...page, trials: (page.trials ?? []).map((trial) => objects.get(trial.name) ?? trial) };
}

export function Trials(props: {
  study: string;
  filter: TrialFilter;
  parameters: string[];
  varied: string[]; // those with several values, which the usual column shows
  revision: { readonly current: string }; // of the study: pages are asked for again when it has changed
  isOver: boolean;
  byTime: boolean;
  columns: string[]; // chosen ones; empty: the usual ones
  onOrder: (byTime: boolean) => void;
  onColumns: (columns: string[]) => void;
}) {
  const [tokens, setTokens] = useState<string[]>([]);
  const [marked, setMarked] = useState<string[]>([]);
  const filterText = JSON.stringify(props.filter);
  const token = tokens.at(-1) ?? "";
  useEffect(() => setTokens([]), [filterText, props.byTime]);

  const request = { parent: props.study, filter: props.filter, orderByTime: props.byTime };
  const asked = `trials ${props.study} ${filterText} ${props.byTime} ${token}`;
  const polled = usePoll(
    `${asked} ${props.isOver}`,
    async (signal, previous: { asked: string; page: ListTrialsResponse; revision: string } | undefined) =>
      previous && previous.revision === props.revision.current
        ? previous
        : {
            asked,
            revision: props.revision.current,
            page: withKnown(
              previous?.page.trials,
              await call(
                "tunefarm.v1.TuningService/ListTrials",
                { ...request, pageSize: PAGE, pageToken: token },
                signal,
              ),
            ),
          },
    // Soon again where a page has room: the daemon may not have read more of the study yet.
    ({ page }) => ((page.trials ?? []).length < PAGE ? 1000 : 5000),
    () => props.isOver,
  );
  const page = polled.data?.page;

  const parameterField = (name: string): Field => ({
    name,
    cell: (t) => <span class="mono">{valueText(t.config?.values?.[name])}</span>,
    csv: (t) => valueText(t.config?.values?.[name]),
  });
  const { parameters, varied } = props;
  const shownInText = new Set(varied);
  const variedText = (trial: Trial) =>
    configText({
      values: Object.fromEntries(
        byName(trial.config?.values).filter(([name]) => shownInText.size === 0 || shownInText.has(name)),
      ),
    });
  const configField: Field = {
    name: "config",
    isText: true,
    cell: (t) => (
      <span class="mono config" title={configText(t.config)}>
        {variedText(t)}
      </span>
    ),
    csv: (t) => configText(t.config),
  };
  const chosen = props.columns.length ? props.columns : usual;
  const shown = [...fields.slice(0, 3), configField, ...fields.slice(3), ...parameters.map(parameterField)].filter(
    (field) => chosen.includes(field.name),
  );

  const csv = async () => {
    const all = [...fields, ...parameters.map(parameterField)];
    const lines = [["trial", ...all.map((field) => field.csvName ?? field.name)].map(quoted).join(",")];
    let pageToken = "";
    do {
      const next: ListTrialsResponse = await call("tunefarm.v1.TuningService/ListTrials", {
        ...request,
        pageSize: CSV_PAGE,
        pageToken,
      });
      for (const trial of next.trials ?? [])
        lines.push([int(trial.ordinal), ...all.map((field) => field.csv(trial))].map(quoted).join(","));
      pageToken = next.nextPageToken ?? "";
    } while (pageToken && lines.length <= CSV_MAX);
    save(`${lines.join("\n")}\n`, `${props.study.replaceAll("/", "_")}.csv`);
  };
  const mark = (name: string, isOn: boolean) =>
    setMarked(isOn ? [...marked, name] : marked.filter((each) => each !== name));
  const columns = (): Column<Trial>[] => [
    {
      name: "mark",
      cell: (trial) => (
        <input
          type="checkbox"
          aria-label={`Mark trial ${int(trial.ordinal)} to compare`}
          checked={marked.includes(trial.name ?? "")}
          disabled={marked.length >= COMPARED_MAX && !marked.includes(trial.name ?? "")}
          onChange={(event) => mark(trial.name ?? "", event.currentTarget.checked)}
        />
      ),
    },
    { name: "trial", isNumber: true, cell: (trial) => <a href={href(trial.name ?? "")}>{int(trial.ordinal)}</a> },
    ...shown.map((field) => ({
      name: field.name,
      isNumber: field.isNumber ?? false,
      isText: field.isText ?? false,
      cell: field.cell,
    })),
  ];
  const hasNoFilter = writesNothing(props.filter);
  // Drawn when its rows change, not with each change of the filter.
  const inCells = JSON.stringify([marked, chosen, parameters, varied]);
  const table = page && (
    <Memo of={[page, props.byTime, hasNoFilter, inCells]}>
      {() => (
        <Table
          key={polled.data?.asked}
          caption={props.byTime ? "Trials, fastest first" : "Trials in the order of their ends"}
          hidesCaption
          rows={page.trials ?? []}
          rowKey={(trial) => trial.name ?? ""}
          empty={hasNoFilter ? "No trial has ended yet." : "No trial passes the filter."}
          columns={columns()}
          of={inCells}
        />
      )}
    </Memo>
  );
  const first = tokens.length * PAGE;
  return (
    <Panel
      class="wide"
      title="Trials"
      actions={
        <>
          <Choice
            label="order"
            value={props.byTime ? "time" : "end"}
            options={[
              ["time", "fastest first"],
              ["end", "as they ended"],
            ]}
            onChange={(order) => props.onOrder(order === "time")}
          />
          <ActionButton label="CSV" act={csv} done="The CSV is saved." />
          {marked.length >= 2 ? (
            <a href={href("compare", { trials: marked.join(",") })}>compare {marked.length} marked</a>
          ) : (
            <span class="muted">mark 2 to {COMPARED_MAX} to compare</span>
          )}
        </>
      }
    >
      <details>
        <summary>Columns</summary>
        <p class="columns">
          {[
            ...fields.slice(0, 3).map((field) => field.name),
            "config",
            ...fields.slice(3).map((field) => field.name),
            ...parameters,
          ].map((name) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                onChange={(event) =>
                  props.onColumns(
                    event.currentTarget.checked ? [...chosen, name] : chosen.filter((each) => each !== name),
                  )
                }
              />{" "}
              {name}
            </label>
          ))}
        </p>
      </details>
      {polled.error && <ErrorLine error={polled.error} />}
      {!page && polled.isLoading && <Loading />}
      {table}
      {page && (page.trials ?? []).length > 0 && (
        <p class="buttons">
          <span class="muted">
            {count(first + 1)} to {count(first + (page.trials ?? []).length)} of {count(page.matching)}
            {int(page.unreadable) > 0 && `, ${count(page.unreadable)} damaged ones left out`}
          </span>
          {tokens.length > 0 && <Button onClick={() => setTokens(tokens.slice(0, -1))}>Previous</Button>}
          {page.nextPageToken && <Button onClick={() => setTokens([...tokens, page.nextPageToken!])}>Next</Button>}
        </p>
      )}
    </Panel>
  );
}

function writesNothing(filter: TrialFilter): boolean {
  return Object.keys(filter).length === 0;
}
