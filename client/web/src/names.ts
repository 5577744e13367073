// Names of the API, and configs and problems in one line.
import type { Config, Problem, Value } from "api";
import { shellQuoted } from "./commands";
import { byName, valueText } from "./format";

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

function settings(values: { [key: string]: Value } | undefined, prefix: string): string[] {
  return byName(values).map(([name, value]) => prefix + shellQuoted(`${name}=${valueText(value)}`));
}

// Asks for the best config of a problem.
export function bestCommand(kernel: string, problem: Problem | undefined, device: string | undefined): string {
  return [
    `tunefarm best ${shellQuoted(kernel)}`,
    ...settings(problem?.dims, "--dim "),
    ...(device ? [`--device ${shellQuoted(device)}`] : []),
  ].join(" ");
}

// "BLOCK_M=128 STAGES=3", by name.
export function configOneLine(config: Config | undefined): string {
  return settings(config?.values, "").join(" ");
}
