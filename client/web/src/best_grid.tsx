// Best configs of a kernel on a device class by the values of two dims.
import type { BestConfig } from "api";
import { nanoseconds, ratio, valueKey } from "./format";
import { setQuery } from "./route";
import { Button, Choice } from "./ui";

const MOST_KEYS = 40; // columns, and rows

export type Metric = "share" | "time" | "gain";

const METRICS: [Metric, string][] = [
  ["share", "% of floor"],
  ["time", "time"],
  ["gain", "gain"],
];

export function metricOf(best: BestConfig, metric: Metric): number {
  const ns = best.measurement?.medianNs ?? 0;
  if (!ns) return 0;
  if (metric === "time") return ns;
  return (metric === "share" ? (best.floorNs ?? 0) : (best.baselineNs ?? 0)) / ns;
}

function metricText(value: number, metric: Metric): string {
  if (!value) return "–";
  return metric === "time" ? nanoseconds(value) : metric === "share" ? `${Math.round(value * 100)} %` : ratio(value);
}

function rangeText(low: number, high: number, metric: Metric): string {
  const [from, to] = [metricText(low, metric), metricText(high, metric)];
  return from === to ? from : `${metric === "share" ? from.slice(0, -2) : from}–${to}`;
}

// Dims with at least two values among the bests, those with the most values first.
export function varyingDims(bests: BestConfig[]): { name: string; keys: string[] }[] {
  const values = new Map<string, Set<string>>();
  for (const best of bests) {
    for (const [name, value] of Object.entries(best.problem?.dims ?? {})) {
      values.set(name, (values.get(name) ?? new Set()).add(valueKey(value)));
    }
  }
  return [...values]
    .map(([name, keys]) => ({ name, keys: [...keys].sort(compareKeys) }))
    .filter((dim) => dim.keys.length > 1)
    .sort((a, b) => b.keys.length - a.keys.length || (a.name < b.name ? -1 : 1));
}

function compareKeys(a: string, b: string): number {
  const difference = Number(a.slice(1)) - Number(b.slice(1));
  return Number.isNaN(difference) ? (a < b ? -1 : 1) : difference;
}

export function BestGrid(props: {
  bests: BestConfig[];
  query: Readonly<Record<string, string>>;
  bestHref: (best: BestConfig) => string;
}) {
  const { bests, query } = props;
  const dims = varyingDims(bests);
  if (dims.length === 0) return <p class="muted">A grid needs a dim with two values or more.</p>;
  const columns = dims.find((dim) => dim.name === query.x) ?? dims[0]!;
  const rows = dims.find((dim) => dim.name === query.y && dim !== columns) ?? dims.find((dim) => dim !== columns);
  const metric =
    METRICS.find(([name]) => name === query.metric)?.[0] ?? (bests.some((best) => best.floorNs) ? "share" : "time");
  const columnKeys = columns.keys.slice(0, MOST_KEYS);
  const rowKeys = rows?.keys.slice(0, MOST_KEYS) ?? [""];
  const isCut = columnKeys.length < columns.keys.length || rowKeys.length < (rows?.keys.length ?? 1);
  const cells = new Map<string, BestConfig[]>();
  const keyOf = (best: BestConfig, dim: string) => {
    const value = best.problem?.dims?.[dim];
    return value ? valueKey(value) : "";
  };
  for (const best of bests) {
    const key = `${keyOf(best, columns.name)}\n${rows ? keyOf(best, rows.name) : ""}`;
    cells.set(key, [...(cells.get(key) ?? []), best]);
  }
  const cell = (column: string, row: string) => {
    const inCell = cells.get(`${column}\n${row}`) ?? [];
    if (inCell.length === 0) return <td key={column} />;
    const values = inCell.map((best) => metricOf(best, metric)).filter((value) => value > 0);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const text = values.length === 0 ? "–" : rangeText(low, high, metric);
    const shade = metric === "share" && values.length > 0 ? Math.round(Math.min(1, low) * 55) : 0;
    return (
      <td key={column} class="number" style={{ background: `color-mix(in srgb, var(--c2) ${shade}%, transparent)` }}>
        {inCell.length === 1 ? (
          <a href={props.bestHref(inCell[0]!)}>{text}</a>
        ) : (
          <Button
            class="link"
            title={`${inCell.length} best configs: show only these`}
            onClick={() => setQuery({ [`d.${columns.name}`]: column, ...(rows ? { [`d.${rows.name}`]: row } : {}) })}
          >
            {text}
          </Button>
        )}
      </td>
    );
  };
  const select = (label: string, value: string, name: "x" | "y") => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {dims.map((dim) => (
          <option key={dim.name} value={dim.name}>
            {dim.name}
          </option>
        ))}
      </select>
    </label>
  );
  const wordOf = (key: string) => key.slice(1);
  const what = METRICS.find(([name]) => name === metric)![1];
  return (
    <>
      <div class="buttons">
        {select("columns", columns.name, "x")}
        {rows && select("rows", rows.name, "y")}
        <Choice label="show" value={metric} options={METRICS} onChange={(to) => setQuery({ metric: to })} />
      </div>
      {isCut && <p class="muted">The first {MOST_KEYS} values of a dim are shown; the filter leads to the others.</p>}
      <div class="table" role="region" aria-label="Grid of best configs" tabIndex={0}>
        <table class="best-grid">
          <caption class="hidden-text">
            {what} by {columns.name}
            {rows && ` and ${rows.name}`}
          </caption>
          <thead>
            <tr>
              <th scope="col">{rows ? `${rows.name} \\ ${columns.name}` : columns.name}</th>
              {columnKeys.map((key) => (
                <th key={key} scope="col" class="number">
                  {wordOf(key)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rowKeys.map((row) => (
              <tr key={row}>
                <th scope="row">{wordOf(row)}</th>
                {columnKeys.map((column) => cell(column, row))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
