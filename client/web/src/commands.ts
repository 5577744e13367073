// Commands and texts that the page offers to copy.
import type { Config, Job, Problem, Value } from "api";
import { byName, valueText } from "./format";

export function shellQuoted(text: string): string {
  return /^[\w.,:=+/@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function entries(values: Record<string, Value> | undefined): [string, string][] {
  return byName(values).map(([name, value]) => [name, valueText(value)]);
}

function macroText(value: Value): string {
  return value.boolValue === undefined ? valueText(value) : value.boolValue ? "1" : "0";
}

// The options of a compiler that set what the worker sets: bools as 0 and 1, a string also as NAME_string.
export function defineOptions(config: Config | undefined): string {
  return byName(config?.values)
    .flatMap(([name, value]) => [
      `-D${name}=${macroText(value)}`,
      ...(value.stringValue === undefined ? [] : [`-D${name}_${value.stringValue.replace(/[^A-Za-z0-9_]/g, "_")}=1`]),
    ])
    .map(shellQuoted)
    .join(" ");
}

export function configJson(config: Config | undefined): string {
  const plain = byName(config?.values).map(([name, value]) => [
    name,
    value.intValue !== undefined
      ? Number(value.intValue)
      : (value.doubleValue ?? value.boolValue ?? value.stringValue ?? ""),
  ]);
  return JSON.stringify(Object.fromEntries(plain));
}

export function configCpp(config: Config | undefined): string {
  return byName(config?.values)
    .map(([name, value]) => {
      if (value.intValue !== undefined) return `inline constexpr long long ${name} = ${value.intValue};`;
      if (value.doubleValue !== undefined) return `inline constexpr double ${name} = ${value.doubleValue};`;
      if (value.boolValue !== undefined) return `inline constexpr bool ${name} = ${value.boolValue};`;
      return `inline constexpr char ${name}[] = ${JSON.stringify(value.stringValue ?? "")};`;
    })
    .join("\n");
}

// The command that runs one config once more.
export function runCommand(
  kernel: string,
  problem: Problem | undefined,
  config: Config | undefined,
  device = "",
): string {
  return [
    "tunefarm run",
    shellQuoted(kernel),
    ...entries(problem?.dims).map(([name, value]) => `--dim ${shellQuoted(`${name}=${value}`)}`),
    ...(device ? [`--device ${shellQuoted(device)}`] : []),
    ...entries(config?.values).map(([name, value]) => shellQuoted(`${name}=${value}`)),
  ].join(" ");
}

// The dims of problems as options: one list if the problems are all combinations of the values, else one for each.
function dimOptions(problems: Problem[]): string[] {
  const option = ([name, value]: [string, string]) => `--dim ${shellQuoted(`${name}=${value}`)}`;
  const values = new Map<string, Set<string>>();
  for (const problem of problems)
    for (const [name, value] of entries(problem.dims)) values.set(name, (values.get(name) ?? new Set()).add(value));
  const combinations = [...values.values()].reduce((product, each) => product * each.size, 1);
  if (combinations === problems.length)
    return [[...values].map(([name, each]) => option([name, [...each].join(",")])).join(" ")];
  return problems.map((problem) => entries(problem.dims).map(option).join(" "));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

// The commands that submit the job again; several where its problems are not the combinations of some values.
export function tuneCommands(job: Job): string[] {
  const options: string[] = [];
  const add = (option: string, value: string | number | undefined) => {
    if (value && value !== "0") options.push(`${option} ${shellQuoted(String(value))}`);
  };
  const flag = (option: string, isSet: boolean | undefined) => {
    if (isSet) options.push(option);
  };
  const problem = job.problems?.[0];
  for (const [name, value] of entries(problem?.pinned)) add("--pin", `${name}=${value}`);
  for (const seed of problem?.inputSeeds ?? []) add("--input-seed", seed);
  add("--strategy", job.strategy?.strategyName);
  for (const [name, value] of byName(job.strategy?.options)) add("--strategy-option", `${name}=${value}`);
  if (job.strategy?.seed !== "1") add("--seed", job.strategy?.seed);
  add("--max-trials", job.budget?.maxTrials);
  if (Number(job.budget?.maxSeconds ?? 0)) add("--max-time", `${job.budget?.maxSeconds}s`);
  if (job.budget?.maxDeviceSeconds) add("--max-device-time", `${job.budget.maxDeviceSeconds}s`);
  add("--within-floor", job.budget?.stopWithinFloor);
  add("--patience", job.budget?.maxTrialsWithoutGain);
  add("--priority", job.priority);
  flag("--retry-poisoned", job.retryPoisoned);
  flag("--no-memory", job.noMemory);
  flag("--promote", job.promoteGiven);
  add("--agent-losses-max", job.agentLossesMax);
  add("--required-isolation", job.requiredIsolation);
  add("--device", job.deviceSelector);
  const { preset, ...policy } = job.policy ?? {};
  const name = preset?.replace("MEASUREMENT_PRESET_", "").toLowerCase();
  if (name && name !== "default" && name !== "unspecified") add("--policy", name);
  for (const [knob, value] of Object.entries(policy)) {
    const text = String(value)
      .replace(/^(TIMING_METHOD|HOST_ISOLATION)_/, "")
      .toLowerCase();
    if (value && text !== "unspecified") add("--measure", `${snakeCase(knob)}=${text}`);
  }
  add("--label", job.label);
  return dimOptions(job.problems ?? []).map((dims) =>
    ["tunefarm tune", shellQuoted(job.kernelName ?? ""), dims, ...options].filter(Boolean).join(" "),
  );
}
