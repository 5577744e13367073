// Views are live by polling: no call for what has ended, in hidden tabs, or while paused.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, asApiError } from "./api";
import { Shared } from "./shared";

const MAX_WAIT_MS = 30_000;
// Until what an answer shows has been drawn and polls itself.
const MOUNT_MS = 100;
// The same call would fail again.
const FINAL_CODES = ["unauthenticated", "not_found", "permission_denied", "invalid_argument", "unimplemented"];

// How old the view is that is looked at: the oldest of its polls.
export interface Freshness {
  asOf: number; // milliseconds since 1970; 0: nothing was loaded yet
  error: ApiError | undefined;
  isOver: boolean; // nothing will be asked for any more
}

export const isPaused = new Shared(false);
export const freshness = new Shared<Freshness | undefined>(undefined);

const polls = new Map<object, Freshness>();

function setPoll(id: object, state: Freshness | undefined): void {
  if (state) polls.set(id, state);
  else polls.delete(id);
  const all = [...polls.values()];
  freshness.set(
    all.length === 0
      ? undefined
      : {
          asOf: Math.min(...all.map((each) => each.asOf)),
          error: all.find((each) => each.error)?.error,
          isOver: all.every((each) => each.isOver),
        },
  );
}

// Runs once, when all that is polled has answered or failed, and what the answers show polls nothing else. Returns what
// takes it back.
export function afterContent(run: () => void): () => void {
  let timer = 0;
  const wait = () => {
    if (timer) return;
    timer = window.setTimeout(() => {
      timer = 0;
      if (![...polls.values()].every((each) => each.asOf > 0 || each.error)) return;
      end();
      run();
    }, MOUNT_MS);
  };
  const end = freshness.subscribe(wait);
  wait();
  return () => {
    clearTimeout(timer);
    end();
  };
}

export interface Polled<T> {
  data: T | undefined; // the newest answer; that of an earlier key until the first of this key comes
  error: ApiError | undefined; // why the newest call failed
  isLoading: boolean; // no answer of this key yet
  refresh: () => void; // asks at once
}

// Loads now, when `key` changes, and every `everyMs` until isOver(data). A `load` that takes the newest answer of the same
// key returns that where nothing has changed; answers of others are compared. An empty key loads nothing.
export function usePoll<T>(
  key: string,
  load: (signal: AbortSignal, previous: T | undefined) => Promise<T>,
  everyMs: number | ((data: T) => number),
  isOver: (data: T) => boolean = () => false,
): Polled<T> {
  const [state, setState] = useState<{ key: string; data: T | undefined; error: ApiError | undefined }>({
    key: "",
    data: undefined,
    error: undefined,
  });
  const latest = useRef({ load, everyMs, isOver });
  latest.current = { load, everyMs, isOver };
  const kick = useRef(() => {});

  useEffect(() => {
    if (!key) {
      setState({ key, data: undefined, error: undefined });
      return;
    }
    const id = {};
    let controller = new AbortController();
    let timer = 0;
    let failures = 0;
    let previous: T | undefined;
    let previousText = ""; // an equal answer is not drawn again
    let isBusy = false;
    let isDone = false;
    let isGone = false;
    let asOf = 0;
    setPoll(id, { asOf, error: undefined, isOver: false });

    const plan = (ms: number) => {
      clearTimeout(timer);
      if (!isGone && !isDone && !isPaused.get() && !document.hidden) timer = window.setTimeout(() => void poll(), ms);
    };
    const poll = async () => {
      if (isBusy || isGone) return;
      isBusy = true;
      const mine = controller;
      try {
        const data = await latest.current.load(mine.signal, previous);
        // The task that has read the answer does not draw it, too.
        await new Promise((done) => setTimeout(done));
        if (isGone || mine.signal.aborted) return;
        failures = 0;
        asOf = Date.now();
        isDone = latest.current.isOver(data);
        setPoll(id, { asOf, error: undefined, isOver: isDone });
        const text = latest.current.load.length > 1 ? "" : JSON.stringify(data);
        if (text ? text !== previousText : data !== previous) {
          previous = data;
          previousText = text;
          setState({ key, data, error: undefined });
        } else {
          setState((old) => (old.error ? { ...old, error: undefined } : old));
        }
        const every = latest.current.everyMs;
        plan(typeof every === "number" ? every : every(data));
      } catch (caught) {
        if (isGone || mine.signal.aborted) return;
        const error = asApiError(caught);
        failures++;
        isDone = FINAL_CODES.includes(error.code);
        setPoll(id, { asOf, error, isOver: isDone });
        setState((old) => ({ key, data: old.key === key ? old.data : undefined, error }));
        plan(Math.min(MAX_WAIT_MS, 1000 * 2 ** Math.min(failures, 5)));
      } finally {
        if (mine === controller) isBusy = false;
      }
    };
    kick.current = () => {
      controller.abort();
      controller = new AbortController();
      isBusy = false;
      isDone = false;
      clearTimeout(timer);
      void poll();
    };
    const wake = () => (document.hidden || isPaused.get() ? clearTimeout(timer) : isDone ? undefined : void poll());
    document.addEventListener("visibilitychange", wake);
    const endPaused = isPaused.subscribe(wake);
    void poll();
    return () => {
      isGone = true;
      clearTimeout(timer);
      controller.abort();
      document.removeEventListener("visibilitychange", wake);
      endPaused();
      kick.current = () => {};
      setPoll(id, undefined);
    };
  }, [key]);

  const refresh = useCallback(() => kick.current(), []);
  return {
    data: state.data,
    error: state.key === key ? state.error : undefined,
    isLoading: state.key !== key,
    refresh,
  };
}
