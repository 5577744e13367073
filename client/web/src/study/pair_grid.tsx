// How configs did by the values of two parameters.
import type { GridCell, ParameterEffect, PairShare, TrialFilter, Value } from "api";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, int, nanoseconds, percent, ratio, valueKey, valueText } from "../format";
import { Choice, Empty, ErrorLine, Panel, watchSight } from "../ui";
import { useGrid } from "./polls";

// A table of more cells is cut: it would be no picture any more.
const SIDE_MAX = 24;
// The daemon makes no grid of parameters with more values.
const VALUES_MAX = 1000;

export type GridNumber = "best" | "tenth" | "failed";

function cellNumbers(cell: GridCell | undefined, shown: GridNumber, least: number): { text: string; share: number } {
  const effect = cell?.effect ?? {};
  const all = int(effect.measured) + int(effect.failed);
  if (!all) return { text: "", share: 0 };
  if (shown === "failed") return { text: percent(int(effect.failed) / all), share: int(effect.failed) / all };
  const ns = shown === "best" ? effect.bestNs : effect.goodNs;
  return ns ? { text: ratio(ns / least), share: least / ns } : { text: "failed", share: 0 };
}

export function PairGrid(props: {
  study: string;
  filter: TrialFilter;
  effects: ParameterEffect[];
  pairs: PairShare[];
  pair: [string, string] | undefined; // chosen; else the pair with the largest share
  shown: GridNumber;
  isChartThere: boolean;
  isOver: boolean;
  onPair: (pair: [string, string]) => void;
  onShown: (shown: GridNumber) => void;
  onCell: (first: [string, Value], second: [string, Value]) => void;
}) {
  const names = props.effects
    .filter((effect) => (effect.values ?? []).length > 1 && (effect.values ?? []).length <= VALUES_MAX)
    .map((effect) => effect.parameter ?? "");
  const likely: [string, string] = [props.pairs[0]?.first ?? names[0] ?? "", props.pairs[0]?.second ?? names[1] ?? ""];
  const [column, row] = props.pair ?? likely;
  const isPossible = column !== "" && row !== "" && column !== row;
  // Requested when it was scrolled into view, after the chart: the content of the view does not wait for it.
  const [wasSeen, setSeen] = useState(false);
  const top = useRef<HTMLDivElement>(null);
  const canBeSeen = names.length >= 2 && props.isChartThere;
  useEffect(() => {
    if (canBeSeen) return watchSight(top.current, "0px", (isInSight) => isInSight && setSeen(true));
  }, [canBeSeen]);
  const polled = useGrid(props.study, props.filter, isPossible && wasSeen ? [column, row] : undefined, props.isOver);
  if (names.length < 2) return null;
  const grid = polled.data;
  const columns = (grid?.columnValues ?? []).slice(0, SIDE_MAX);
  const rows = (grid?.rowValues ?? []).slice(0, SIDE_MAX);
  const isCut = (grid?.columnValues ?? []).length > SIDE_MAX || (grid?.rowValues ?? []).length > SIDE_MAX;
  const cells = new Map((grid?.cells ?? []).map((cell) => [`${cell.column ?? 0} ${cell.row ?? 0}`, cell]));
  const least = Math.min(
    ...(grid?.cells ?? []).map(
      (cell) => (props.shown === "best" ? cell.effect?.bestNs : cell.effect?.goodNs) || Infinity,
    ),
  );
  const select = (label: string, value: string, other: string, choose: (name: string) => void) => (
    <label>
      <span class="muted">{label}</span>{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name} value={name} disabled={name === other}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <Panel
      title="Two parameters"
      actions={
        <>
          {select("columns", column, row, (name) => props.onPair([name, row]))}
          {select("rows", row, column, (name) => props.onPair([column, name]))}
          <Choice
            label="show"
            value={props.shown}
            options={[
              ["best", "best"],
              ["tenth", "fastest tenth"],
              ["failed", "failed"],
            ]}
            onChange={props.onShown}
          />
        </>
      }
    >
      <div ref={top} />
      {polled.error && <ErrorLine error={polled.error} />}
      {grid && columns.length === 0 && <Empty>No trial passes the filter.</Empty>}
      {columns.length > 0 && (
        <div class="table" role="region" aria-label={`${column} by ${row}`} tabIndex={0}>
          <table class="grid">
            <caption class="hidden-text">
              {props.shown === "failed" ? "Share of failed trials" : "Times over the least one"}: {column} in columns,{" "}
              {row} in rows
            </caption>
            <thead>
              <tr>
                <td />
                {columns.map((value) => (
                  <th key={valueKey(value)} scope="col" class="mono">
                    {valueText(value)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((rowValue, r) => (
                <tr key={valueKey(rowValue)}>
                  <th scope="row" class="mono">
                    {valueText(rowValue)}
                  </th>
                  {columns.map((columnValue, c) => {
                    const cell = cells.get(`${c} ${r}`);
                    const { text, share } = cellNumbers(cell, props.shown, least);
                    const effect = cell?.effect ?? {};
                    const words = `${column} = ${valueText(columnValue)}, ${row} = ${valueText(rowValue)}: best ${nanoseconds(
                      effect.bestNs,
                    )}, fastest tenth ${nanoseconds(effect.goodNs)}, ${count(effect.measured)} measured, ${count(effect.failed)} failed`;
                    return (
                      <td key={valueKey(columnValue)}>
                        {cell && (
                          <button
                            type="button"
                            class={`cell ${props.shown === "failed" ? "cell-failed" : ""}`}
                            style={{ "--share": `${Math.round(share * 50)}%` }}
                            title={words}
                            aria-label={words}
                            onClick={() => props.onCell([column, columnValue], [row, rowValue])}
                          >
                            {text}
                          </button>
                        )}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isCut && <p class="muted">Only the first {SIDE_MAX} values are shown; a filter leaves others.</p>}
    </Panel>
  );
}
