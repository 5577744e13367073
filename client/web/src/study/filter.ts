// The filter of a study's trials: as JSON in the address, as chips, and as text that is typed: "BLOCK_M=64,128",
// "outcome=RUN_CRASH", "time<400us", "evaluation=10..500", "seconds>2".
import type { NumberRange, Outcome, ParameterEffect, TrialFilter, Value } from "api";
import { count, nanoseconds, number, outcomeText, valueKey, valueText } from "../format";

export type RangeName = "medianNs" | "evaluation" | "seconds";

const rangeWords: [RangeName, string][] = [
  ["medianNs", "time"],
  ["evaluation", "evaluation"],
  ["seconds", "seconds"],
];
const outcomes: Outcome[] = [
  "OUTCOME_OK",
  "OUTCOME_PRUNED",
  "OUTCOME_INFEASIBLE_LAUNCH",
  "OUTCOME_COMPILE_ERROR",
  "OUTCOME_COMPILE_TIMEOUT",
  "OUTCOME_COMPILE_CRASH",
  "OUTCOME_LOAD_ERROR",
  "OUTCOME_OUT_OF_MEMORY",
  "OUTCOME_RUN_TIMEOUT",
  "OUTCOME_RUN_CRASH",
  "OUTCOME_OUT_OF_BOUNDS",
  "OUTCOME_WRONG_RESULT",
  "OUTCOME_SANDBOX_VIOLATION",
  "OUTCOME_NOISY",
  "OUTCOME_POISONED",
];

function isNumberOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === "number";
}

// The filter without parts that say nothing, or that a link has wrong.
function tidied(filter: TrialFilter): TrialFilter {
  const out: TrialFilter = {};
  const wanted = Array.isArray(filter.outcomes) ? filter.outcomes.filter((each) => outcomes.includes(each)) : [];
  if (wanted.length) out.outcomes = wanted;
  const parameters = (Array.isArray(filter.parameters) ? filter.parameters : []).filter(
    (each) =>
      typeof each?.parameter === "string" &&
      Array.isArray(each.values) &&
      each.values.length > 0 &&
      each.values.every((value) => value && typeof value === "object"),
  );
  if (parameters.length) out.parameters = parameters;
  for (const [name] of rangeWords) {
    const { min, max } = filter[name] ?? {};
    if (!isNumberOrAbsent(min) || !isNumberOrAbsent(max) || (min === undefined && max === undefined)) continue;
    out[name] = filter[name]!;
  }
  return out;
}

export function readFilter(text: string | undefined): TrialFilter {
  try {
    return tidied(JSON.parse(text || "{}") as TrialFilter);
  } catch {
    return {}; // a link that was cut
  }
}

// Empty for a filter that lets everything pass.
export function writeFilter(filter: TrialFilter): string {
  const text = JSON.stringify(tidied(filter));
  return text === "{}" ? "" : text;
}

export function withRange(filter: TrialFilter, name: RangeName, range: NumberRange | undefined): TrialFilter {
  const { [name]: _, ...rest } = filter;
  return range ? { ...rest, [name]: range } : rest;
}

export function isChosen(filter: TrialFilter, parameter: string, value: Value | undefined): boolean {
  const values = filter.parameters?.find((each) => each.parameter === parameter)?.values ?? [];
  return value !== undefined && values.some((each) => valueKey(each) === valueKey(value));
}

export function withValues(filter: TrialFilter, parameter: string, values: Value[]): TrialFilter {
  const others = (filter.parameters ?? []).filter((each) => each.parameter !== parameter);
  return tidied({ ...filter, parameters: [...others, { parameter, values }] });
}

export function toggleValue(filter: TrialFilter, parameter: string, value: Value): TrialFilter {
  const values = filter.parameters?.find((each) => each.parameter === parameter)?.values ?? [];
  const rest = values.filter((each) => valueKey(each) !== valueKey(value));
  return withValues(filter, parameter, rest.length < values.length ? rest : [...values, value]);
}

export function toggleOutcome(filter: TrialFilter, outcome: Outcome): TrialFilter {
  const now = filter.outcomes ?? [];
  return tidied({
    ...filter,
    outcomes: now.includes(outcome) ? now.filter((each) => each !== outcome) : [...now, outcome],
  });
}

export interface Chip {
  text: string;
  without: TrialFilter;
}

function rangeText(word: string, range: NumberRange, text: (value: number) => string): string {
  if (range.min === undefined) return `${word} ≤ ${text(range.max ?? 0)}`;
  if (range.max === undefined) return `${word} ≥ ${text(range.min)}`;
  return `${word} ${text(range.min)} to ${text(range.max)}`;
}

export function chipsOf(filter: TrialFilter): Chip[] {
  const chips: Chip[] = (filter.parameters ?? []).map(({ parameter = "", values = [] }) => ({
    text:
      values.length === 1
        ? `${parameter} = ${valueText(values[0])}`
        : `${parameter} ∈ {${values.map(valueText).join(", ")}}`,
    without: withValues(filter, parameter, []),
  }));
  if (filter.outcomes?.length)
    chips.push({
      text: `outcome = ${filter.outcomes.map(outcomeText).join(" or ")}`,
      without: tidied({ ...filter, outcomes: [] }),
    });
  for (const [name, word] of rangeWords) {
    const range = filter[name];
    const text =
      name === "medianNs"
        ? nanoseconds
        : name === "seconds"
          ? (v: number) => `${number(v)} s`
          : (v: number) => count(Math.round(v));
    if (range)
      chips.push({
        text: rangeText(name === "seconds" ? "end" : word, range, text),
        without: withRange(filter, name, undefined),
      });
  }
  return chips;
}

function readNumber(name: RangeName, text: string): number | undefined {
  const match = /^([\d.]+(?:e[+-]?\d+)?)\s*(ns|us|µs|μs|ms|s)?$/i.exec(text.trim());
  if (!match) return undefined;
  const unit = (match[2] ?? "").toLowerCase();
  if (unit && name === "evaluation") return undefined;
  const inNs = { ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9 }[unit] ?? (name === "seconds" ? 1e9 : 1);
  return Number(match[1]) * (name === "evaluation" ? 1 : name === "seconds" ? inNs / 1e9 : inNs);
}

// A parameter that is not known yet takes values by their looks.
function readValue(text: string): Value {
  if (/^-?\d+$/.test(text)) return { intValue: text };
  if (text === "true" || text === "false") return { boolValue: text === "true" };
  if (text !== "" && Number.isFinite(Number(text))) return { doubleValue: Number(text) };
  return { stringValue: text };
}

// The filter with a typed condition added, or a sentence that says what is wrong with it.
export function addCondition(filter: TrialFilter, text: string, parameters: ParameterEffect[]): TrialFilter | string {
  const match = /^\s*([^=<>≤≥\s]+)\s*(<=|>=|[=<>≤≥])\s*(.+?)\s*$/.exec(text);
  if (!match) return "Write a condition, such as BLOCK_M=64,128 or outcome=RUN_CRASH or time<400us.";
  const [, name = "", sign = "", right = ""] = match;
  const effect = parameters.find((each) => each.parameter === name);
  const rangeName = rangeWords.find(([, word]) => word === name)?.[0];
  if (!effect && rangeName) {
    const [low, high] = sign === "=" ? right.split("..", 2) : /[>≥]/.test(sign) ? [right, ""] : ["", right];
    const range: NumberRange = {};
    if (low) range.min = readNumber(rangeName, low);
    if (high) range.max = readNumber(rangeName, high);
    if ((low && range.min === undefined) || (high && range.max === undefined) || (sign === "=" && !high))
      return `${right} is no limit of ${name}; write ${name}<400${rangeName === "medianNs" ? "us" : ""} or ${name}=10..500.`;
    return withRange(filter, rangeName, { ...filter[rangeName], ...range });
  }
  if (sign !== "=") return `${name} takes '=' and a list of values.`;
  const texts = right.split(",").map((each) => each.trim());
  if (!effect && name === "outcome") {
    const found = texts.map((each) => outcomes.find((outcome) => outcomeText(outcome) === each.toUpperCase()));
    const unknown = texts.filter((_, i) => !found[i]);
    if (unknown.length)
      return `${unknown.join(", ")} is no outcome; there are ${outcomes.map(outcomeText).join(", ")}.`;
    return tidied({ ...filter, outcomes: found as Outcome[] });
  }
  if (!effect && parameters.length)
    return `There is no parameter ${name}; there are ${parameters.map((each) => each.parameter).join(", ")}.`;
  const known = effect?.values ?? [];
  return withValues(
    filter,
    name,
    texts.map((each) => known.find(({ value }) => valueText(value) === each)?.value ?? readValue(each)),
  );
}

// What the field for conditions offers.
export function suggestions(parameters: ParameterEffect[]): string[] {
  return [
    ...parameters
      .flatMap(({ parameter, values = [] }) =>
        values.slice(0, 8).map(({ value }) => `${parameter}=${valueText(value)}`),
      )
      .slice(0, 200),
    ...outcomes.map((outcome) => `outcome=${outcomeText(outcome)}`),
  ];
}
