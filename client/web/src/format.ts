// Numbers, times and names as people read them.
import type { Config, Outcome, Value } from "api";

// int64 is text in JSON; absent is 0.
export function int(value: string | number | undefined): number {
  return Number(value ?? 0);
}

// Making a format takes long; using one does not.
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const significant = Array.from(
  { length: 6 },
  (_, i) => new Intl.NumberFormat("en-US", { maximumSignificantDigits: i + 1 }),
);

// Three significant digits, without an exponent, thousands grouped.
export function number(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 10 ** digits ? whole.format(value) : significant[digits - 1]!.format(value);
}

export function count(value: string | number | undefined): string {
  // What is no exact number of JavaScript any more is written digit by digit.
  return whole.format(typeof value === "string" && /^\d{16,}$/.test(value) ? BigInt(value) : int(value));
}

function scaled(value: number, step: number, units: string[]): string {
  let i = 0;
  while (Math.abs(value) >= step * 0.9995 && i + 1 < units.length) {
    value /= step;
    i++;
  }
  return `${number(value)} ${units[i]}`;
}

// A time of a kernel, from nanoseconds; "–" for none.
export function nanoseconds(ns: number | undefined): string {
  return ns && ns > 0 ? scaled(ns, 1000, ["ns", "µs", "ms", "s"]) : "–";
}

// A span of people's time, from milliseconds.
export function duration(ms: number): string {
  const s = ms / 1000;
  if (s < 1) return `${number(Math.max(0, ms), 2)} ms`;
  if (s < 60) return `${number(s, 2)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.round((s % 86400) / 3600)} h`;
}

export function bytes(value: string | number | undefined): string {
  return scaled(int(value), 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

export function ratio(value: number | undefined): string {
  return value ? `${value < 10 ? value.toFixed(2) : number(value)}x` : "–";
}

export function percent(share: number | undefined): string {
  if (share === undefined || !Number.isFinite(share)) return "–";
  return `${share >= 0.1 ? Math.round(share * 100) : number(share * 100, 2)} %`;
}

// Work over time: flops and nanoseconds give "464 TFLOP/s".
export function flopRate(flops: number | undefined, ns: number | undefined): string {
  return flops && ns
    ? scaled((flops / ns) * 1e9, 1000, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"])
    : "–";
}

export function byteRate(moved: number | undefined, ns: number | undefined): string {
  return moved && ns ? scaled((moved / ns) * 1e9, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]) : "–";
}

// Half of the interval of a median, relative to it: "±0.4 %".
export function spread(m: { medianNs?: number; ciLowNs?: number; ciHighNs?: number } | undefined): string {
  if (!m?.medianNs || !m.ciHighNs || !m.ciLowNs) return "";
  return `±${percent((m.ciHighNs - m.ciLowNs) / 2 / m.medianNs)}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

// Local time with its offset: "2026-11-27 10:02:11 +01:00".
export function localTime(ms: number): string {
  const t = new Date(ms);
  const offset = -t.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return (
    `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ` +
    `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())} ${zone}`
  );
}

export function utcTime(ms: number): string {
  return new Date(ms)
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z/, " UTC");
}

export function ago(ms: number, now = Date.now()): string {
  return `${duration(Math.max(0, now - ms))} ago`;
}

export function valueText(value: Value | undefined): string {
  if (!value) return "";
  if (value.intValue !== undefined) return String(value.intValue);
  if (value.doubleValue !== undefined) return String(value.doubleValue);
  if (value.boolValue !== undefined) return String(value.boolValue);
  return value.stringValue ?? "";
}

// A key by which values can be compared: "i128", "sbf16".
export function valueKey(value: Value): string {
  if (value.intValue !== undefined) return `i${value.intValue}`;
  if (value.doubleValue !== undefined) return `d${value.doubleValue}`;
  if (value.boolValue !== undefined) return `b${value.boolValue}`;
  return `s${value.stringValue ?? ""}`;
}

// The entries of a map by name: JSON has those of the same map in another order each time.
export function byName<T>(map: { [key: string]: T } | undefined): [string, T][] {
  return Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

export function configText(config: Config | undefined, separator = " "): string {
  return byName(config?.values)
    .map(([name, value]) => `${name}=${valueText(value)}`)
    .join(separator);
}

// Enumerators without their prefix, as the command line writes them: "RUNNING".
export function enumText(value: string | undefined, prefix: string): string {
  return (value ?? "").replace(prefix, "");
}

export function outcomeText(outcome: Outcome | undefined): string {
  return outcome && outcome !== "OUTCOME_UNSPECIFIED" ? enumText(outcome, "OUTCOME_") : "UNKNOWN";
}

// Numbers of a `bytes` field: base64 of little-endian numbers without gaps.
function bytesOf(base64: string | undefined): DataView {
  const text = atob(base64 ?? "");
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return new DataView(out.buffer);
}

export function decodeDoubles(base64: string | undefined): Float64Array {
  const view = bytesOf(base64);
  return Float64Array.from({ length: view.byteLength >> 3 }, (_, i) => view.getFloat64(i * 8, true));
}

export function decodeInt64(base64: string | undefined): Float64Array {
  const view = bytesOf(base64);
  return Float64Array.from({ length: view.byteLength >> 3 }, (_, i) => Number(view.getBigInt64(i * 8, true)));
}

export function decodeUint32(base64: string | undefined): Uint32Array {
  const view = bytesOf(base64);
  return Uint32Array.from({ length: view.byteLength >> 2 }, (_, i) => view.getUint32(i * 4, true));
}
