// How the values of each parameter did: one small plot a parameter, the most important first.
import type { ParameterEffect, ParameterImportance, ParameterShare, TrialFilter, Value, ValueEffect } from "api";
import { useState } from "preact/hooks";
import { AsTable } from "../facts";
import { count, int, nanoseconds, number, percent, ratio, valueKey, valueText } from "../format";
import { Button, Empty, Memo, Panel, Table } from "../ui";
import { isChosen } from "./filter";

// More parameters and values than these are drawn when asked for, so that the page stays light.
const PARAMETERS_FIRST = 12;
const VALUES_FIRST = 20;

interface Props {
  effects: ParameterEffect[];
  importance: ParameterImportance | undefined;
  filter: TrialFilter;
  onToggle: (parameter: string, value: Value) => void;
}

// By importance, as far as it is known; the others as they came.
function ordered(effects: ParameterEffect[], importance: ParameterImportance | undefined): ParameterEffect[] {
  const ranks = new Map((importance?.parameters ?? []).map((share, i) => [share.parameter, i]));
  const rank = (effect: ParameterEffect) => ranks.get(effect.parameter) ?? ranks.size;
  return [...effects].sort((a, b) => rank(a) - rank(b));
}

function leastOf(effects: ParameterEffect[], of: (value: ValueEffect) => number | undefined): number {
  return Math.min(...effects.flatMap((effect) => (effect.values ?? []).map((value) => of(value) || Infinity)));
}

function failedShare(value: ValueEffect): number {
  const all = int(value.measured) + int(value.failed);
  return all ? int(value.failed) / all : 0;
}

function describe(parameter: string | undefined, value: ValueEffect): string {
  const times = int(value.measured)
    ? `best ${nanoseconds(value.bestNs)}, fastest tenth ${nanoseconds(value.goodNs)}, ${count(value.measured)} measured`
    : "none measured";
  return `${parameter} = ${valueText(value.value)}: ${times}, ${count(value.failed)} failed`;
}

const height = (share: number) => ({ height: `${(100 * Math.min(1, share)).toFixed(1)}%` });

function Effect(
  props: Props & { effect: ParameterEffect; share: ParameterShare | undefined; best: number; good: number },
) {
  const { effect, share, best, good } = props;
  const [isWhole, setWhole] = useState(false);
  const values = effect.values ?? [];
  return (
    <li class="effect">
      <div class="effect-name">
        <span class="mono">{effect.parameter}</span>
        {share && (
          <span class="muted" title="share of the variance of the time: alone, and with all interactions">
            {percent(share.alone ?? 0)} alone, {percent(share.total ?? 0)} in all
          </span>
        )}
      </div>
      <div class="values" role="group" aria-label={effect.parameter}>
        {(isWhole ? values : values.slice(0, VALUES_FIRST)).map((value) => {
          const description = describe(effect.parameter, value);
          return (
            <button
              key={value.value ? valueKey(value.value) : ""}
              type="button"
              class="value"
              aria-pressed={isChosen(props.filter, effect.parameter ?? "", value.value)}
              aria-label={description}
              title={description}
              onClick={() => value.value && props.onToggle(effect.parameter ?? "", value.value)}
            >
              <span class="bars">
                <span class="bar-best" style={height(value.bestNs ? best / value.bestNs : 0)} />
                <span class="bar-good" style={height(value.goodNs ? good / value.goodNs : 0)} />
                <span class="bar-failed" style={height(failedShare(value))} />
              </span>
              <span class="value-text">{valueText(value.value)}</span>
              <span class="value-ratio">
                {value.goodNs ? ratio(value.goodNs / good) : int(value.failed) ? "failed" : "–"}
              </span>
            </button>
          );
        })}
        {!isWhole && values.length > VALUES_FIRST && (
          <Button onClick={() => setWhole(true)}>{values.length - VALUES_FIRST} more</Button>
        )}
        {int(effect.valuesLeftOut) > 0 && (
          <span class="muted">{count(effect.valuesLeftOut)} slower values are not shown; a filter leaves fewer.</span>
        )}
      </div>
    </li>
  );
}

export function Parameters(props: Props) {
  const [isWhole, setWhole] = useState(false);
  const all = ordered(props.effects, props.importance);
  const varied = all.filter((effect) => (effect.values ?? []).length > 1);
  const fixed = all.filter((effect) => (effect.values ?? []).length === 1);
  const best = leastOf(all, (value) => value.bestNs);
  const good = leastOf(all, (value) => value.goodNs);
  const shareOf = (effect: ParameterEffect) =>
    props.importance?.parameters?.find((each) => each.parameter === effect.parameter);
  const unusable = props.importance?.unusableBecause;
  const title = props.importance?.rSquared
    ? `Parameters by importance (R² ${number(props.importance.rSquared, 2)})`
    : "Parameters";
  return (
    <Panel title={title}>
      <p class="key muted" aria-hidden="true">
        <span class="swatch-box bar-best" /> best <span class="swatch-box bar-good" /> fastest tenth{" "}
        <span class="swatch-box bar-failed" /> failed · high is fast · a click filters
      </p>
      {unusable && <p class="muted">Importance: {unusable}.</p>}
      {all.length === 0 && <Empty>No trial to tell from.</Empty>}
      <ul class="effects">
        {(isWhole ? varied : varied.slice(0, PARAMETERS_FIRST)).map((effect) => (
          // Each parameter takes its own turn: together they would take long to draw.
          <Memo key={effect.parameter} of={[JSON.stringify([effect, shareOf(effect), best, good, props.filter])]}>
            {() => <Effect {...props} effect={effect} share={shareOf(effect)} best={best} good={good} />}
          </Memo>
        ))}
      </ul>
      {!isWhole && varied.length > PARAMETERS_FIRST && (
        <Button onClick={() => setWhole(true)}>Show {varied.length - PARAMETERS_FIRST} more parameters</Button>
      )}
      {fixed.length > 0 && (
        <p class="muted">
          The same in all:{" "}
          <span class="mono">
            {fixed.map((each) => `${each.parameter}=${valueText(each.values?.[0]?.value)}`).join(" ")}
          </span>
        </p>
      )}
      <AsTable>{() => <EffectTable effects={varied} />}</AsTable>
    </Panel>
  );
}

function EffectTable(props: { effects: ParameterEffect[] }) {
  const rows = props.effects.flatMap((effect) =>
    (effect.values ?? []).map((value) => ({ parameter: effect.parameter ?? "", value })),
  );
  return (
    <Table
      caption="Values of the parameters"
      rows={rows.slice(0, 500)}
      rowKey={(row) => `${row.parameter} ${valueText(row.value.value)}`}
      columns={[
        { name: "parameter", cell: (row) => row.parameter },
        { name: "value", cell: (row) => valueText(row.value.value) },
        { name: "best", isNumber: true, cell: (row) => nanoseconds(row.value.bestNs) },
        { name: "fastest tenth", isNumber: true, cell: (row) => nanoseconds(row.value.goodNs) },
        { name: "measured", isNumber: true, cell: (row) => count(row.value.measured) },
        { name: "failed", isNumber: true, cell: (row) => count(row.value.failed) },
      ]}
    />
  );
}
