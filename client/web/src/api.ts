// The calls of the public API: POST api/<service>/<method> with JSON, the unary half of the Connect protocol.
import type { CallerIdentity, Calls } from "api";
import { Shared, store, stored } from "./shared";

export type Method = keyof Calls;
export type RequestOf<M extends Method> = Calls[M][0];
export type ResponseOf<M extends Method> = Calls[M][1];

// A call that failed. `code` is one of Connect ("not_found"), `reason` the daemon's ("STUDY_NOT_FOUND") or empty.
export class ApiError extends Error {
  constructor(
    readonly code: string,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

// The secret of the session or token that calls are made with; empty: nobody is logged in.
export const secret = new Shared(stored("secret"));
// Who is logged in; undefined until GetCaller has answered.
export const caller = new Shared<CallerIdentity | undefined>(undefined);
// The daemon that answers now is of another revision than the one that served the page.
export const isOutdated = new Shared(false);

// The daemon did not know the session or token any more that calls were made with.
export const hasEnded = new Shared(false);

// A connection that was cut without a word does not hold a view up for ever.
const CALL_LIMIT_MS = 60_000;

let revision = "";

export function setSecret(value: string): void {
  store("secret", value);
  hasEnded.set(false);
  caller.set(undefined);
  secret.set(value);
}

// Whether the caller has a role: "lookup", "submit", "kernels" or "admin".
export function has(identity: CallerIdentity | undefined, role: string): boolean {
  return identity?.roles?.includes(role) ?? false;
}

interface ConnectError {
  code?: string;
  message?: string;
  details?: { reason?: string; debug?: { reason?: string } }[];
}

async function errorOf(response: Response): Promise<ApiError> {
  let body: ConnectError = {};
  try {
    body = (await response.json()) as ConnectError;
  } catch {
    // A proxy answered, not the daemon.
  }
  const detail = body.details?.[0];
  return new ApiError(
    body.code ?? (response.status === 401 ? "unauthenticated" : "unavailable"),
    detail?.reason ?? detail?.debug?.reason ?? "",
    body.message ?? `The server answered ${response.status} ${response.statusText}.`,
  );
}

// Calls a method; throws ApiError, or what `signal` was aborted with. An answer that the caller is not known any more
// leads to the login. `used` is the secret that the call is made with; empty: none.
export async function call<M extends Method>(
  method: M,
  request: RequestOf<M>,
  signal?: AbortSignal,
  used = secret.get(),
): Promise<ResponseOf<M>> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (used) headers["Authorization"] = `Bearer ${used}`;
  const limit = AbortSignal.timeout(CALL_LIMIT_MS);
  let response: Response;
  try {
    response = await fetch(`api/${method}`, {
      method: "POST",
      headers,
      body: JSON.stringify(request),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("unavailable", "", "The daemon does not answer.");
  }
  const now = response.headers.get("Tunefarm-Revision") ?? "";
  if (revision && now && now !== revision) isOutdated.set(true);
  revision ||= now;
  if (response.ok) return (await response.json()) as ResponseOf<M>;
  const error = await errorOf(response);
  if (response.status === 401 && used && used === secret.get()) {
    setSecret("");
    hasEnded.set(true);
  }
  throw error;
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError("unknown", "", String(error));
}
