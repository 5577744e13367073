// Names of the API, and command lines for what the page shows.
import type { Config, MeasurementPolicy, Problem, Value } from "api";
import { valueText } from "./format";

// "jobs/12/studies/1/trials/17" has the parts 12, 1, 17; those that are missing are empty.
export function partsOfName(name: string | undefined): { job: string; study: string; trial: string } {
  const [, job = "", , study = "", , trial = ""] = (name ?? "").split("/");
  return { job, study, trial };
}

// "12/1/17", as the command line and the links of the page write it.
export function shortName(name: string | undefined): string {
  const { job, study, trial } = partsOfName(name);
  return [job, study, trial].filter(Boolean).join("/");
}

// The text as one word of a shell's command line.
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function byName<T>(values: { [key: string]: T } | undefined): [string, T][] {
  return Object.entries(values ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

function settings(values: { [key: string]: Value } | undefined, prefix: string): string[] {
  return byName(values).map(([name, value]) => prefix + shellWord(`${name}=${valueText(value)}`));
}

// Runs one config as the job did.
export function runCommand(
  kernel: string,
  problem: Problem | undefined,
  config: Config | undefined,
  device: string | undefined,
  policy?: MeasurementPolicy,
): string {
  const preset = (policy?.preset ?? "").replace("MEASUREMENT_PRESET_", "").toLowerCase();
  return [
    `tunefarm run ${shellWord(kernel)}`,
    ...settings(problem?.dims, "--dim "),
    ...(device ? [`--device ${shellWord(device)}`] : []),
    ...(preset && preset !== "unspecified" ? [`--policy ${preset}`] : []),
    ...settings(config?.values, ""),
  ].join(" ");
}

// Asks for the best config of a problem.
export function bestCommand(kernel: string, problem: Problem | undefined, device: string | undefined): string {
  return [
    `tunefarm best ${shellWord(kernel)}`,
    ...settings(problem?.dims, "--dim "),
    ...(device ? [`--device ${shellWord(device)}`] : []),
  ].join(" ");
}

// Options of a compiler that define the parameters.
export function defines(config: Config | undefined): string {
  return byName(config?.values)
    .map(([name, value]) => `-D${shellWord(`${name}=${value.boolValue === undefined ? valueText(value) : Number(value.boolValue)}`)}`)
    .join(" ");
}

export function configJson(config: Config | undefined): string {
  const values = byName(config?.values).map(([name, value]) => [
    name,
    value.intValue !== undefined ? Number(value.intValue) : (value.doubleValue ?? value.boolValue ?? value.stringValue ?? ""),
  ]);
  return JSON.stringify(Object.fromEntries(values));
}

// "BLOCK_M=128 STAGES=3", by name.
export function configOneLine(config: Config | undefined): string {
  return settings(config?.values, "").join(" ");
}
