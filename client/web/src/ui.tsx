// Parts that views are made of.
import type { Outcome as OutcomeName } from "api";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type ApiError, asApiError } from "./api";
import { localTime, outcomeText, utcTime } from "./format";
import { Shared, useShared } from "./shared";

// What assistive technology reads out: changes of state, not counters.
const announcement = new Shared("");

export function announce(text: string): void {
  announcement.set("");
  setTimeout(() => announcement.set(text), 50);
}

export function Announcer() {
  const text = useShared(announcement);
  return (
    <div class="hidden-text" role="status" aria-live="polite">
      {text}
    </div>
  );
}

export interface Column<T> {
  name: string; // the heading
  cell: (row: T) => ComponentChildren;
  isNumber?: boolean; // right-aligned
  isText?: boolean; // long: may take several lines
  title?: string; // says more about the heading
}

// ArrowUp and ArrowDown lead to the same link or button of the rows around.
function moveByRow(event: JSX.TargetedKeyboardEvent<HTMLElement>): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const focused = document.activeElement;
  const row = focused?.closest("tr");
  if (!focused || !row || /^(INPUT|SELECT)$/.test(focused.tagName)) return;
  const targets = (of: Element) => [...of.querySelectorAll<HTMLElement>("a, button, input")];
  const to = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
  const next = to && targets(to)[Math.max(0, targets(row).indexOf(focused as HTMLElement))];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// Rows that are added at a time when the end of the table comes near the window: 100 rows at once take long to lay out.
const ROWS_AT_ONCE = 20;

interface RowProps<T> {
  row: T;
  columns: Column<T>[];
  of: unknown;
  class: string;
}

class Row<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate(next: Readonly<RowProps<T>>): boolean {
    return next.of === undefined || next.of !== this.props.of || next.row !== this.props.row;
  }

  override render({ row, columns, class: name }: RowProps<T>): ComponentChildren {
    return (
      <tr class={name}>
        {columns.map((column) => (
          <td key={column.name} class={column.isNumber ? "number" : column.isText ? "text" : ""}>
            {column.cell(row)}
          </td>
        ))}
      </tr>
    );
  }
}

export function Table<T>(props: {
  caption: string; // names the table; drawn unless hidesCaption
  hidesCaption?: boolean;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string | number;
  rowClass?: (row: T) => string;
  empty?: ComponentChildren; // instead of a table without rows
  of?: unknown; // what cells show besides their row; with it, only rows that are other objects are drawn again
}) {
  const [drawn, setDrawn] = useState(ROWS_AT_ONCE);
  const end = useRef<HTMLDivElement>(null);
  const isCut = drawn < props.rows.length;
  useEffect(
    () => watchSight(end.current, "50%", (isNear) => isNear && setDrawn(drawn + ROWS_AT_ONCE)),
    [isCut, drawn],
  );
  if (props.rows.length === 0 && props.empty) return <Empty>{props.empty}</Empty>;
  return (
    <div class="table" role="region" aria-label={props.caption} tabIndex={0}>
      <table onKeyDown={moveByRow}>
        <caption class={props.hidesCaption ? "hidden-text" : ""}>{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                class={column.isNumber ? "number" : column.isText ? "text" : ""}
                title={column.title}
              >
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.slice(0, drawn).map((row) => (
            <Row
              key={props.rowKey(row)}
              row={row}
              columns={props.columns}
              of={props.of}
              class={props.rowClass?.(row) ?? ""}
            />
          ))}
        </tbody>
      </table>
      {isCut && <div ref={end} />}
    </div>
  );
}

// Tells whether the element is in the window, or by `margin` near to it, once all is drawn and when it changes. Returns
// what ends it.
export function watchSight(element: Element | null, margin: string, tell: (isInSight: boolean) => void): () => void {
  const observer = new IntersectionObserver((entries) => tell(entries.at(-1)!.isIntersecting), { rootMargin: margin });
  let isWanted = element !== null;
  whenDrawn(() => isWanted && observer.observe(element!));
  return () => {
    isWanted = false;
    observer.disconnect();
  };
}

interface MemoProps {
  of: readonly unknown[]; // what the content shows; of the same length each time
  children: () => ComponentChildren;
}

// Panels that wait to be redrawn: one in each frame, so that a frame lays out and paints one panel; more where the first
// ones took less than DRAW_MS.
const waiting = new Set<Memo>();
const DRAW_MS = 4;
// What waits for them: until none is left, or for TURNS_MAX panels where there are always more.
const afterwards: (() => void)[] = [];
const TURNS_MAX = 60;
let turns = 0;
let isDrawing = false;

function drawNext(): void {
  isDrawing = true;
  // After the frame: what is drawn does not add to the time that the frame takes itself.
  requestAnimationFrame(() =>
    setTimeout(() => {
      const end = performance.now() + DRAW_MS;
      for (const panel of waiting) {
        if (turns === TURNS_MAX) break;
        turns++;
        waiting.delete(panel);
        panel.forceUpdate();
        if (performance.now() >= end) return drawNext();
      }
      turns = 0;
      for (const run of afterwards.splice(0)) run();
      if (waiting.size) drawNext();
      else isDrawing = false;
    }),
  );
}

// Calls `run` once, when the panels that wait to be redrawn have been, including those that this update changes.
export function whenDrawn(run: () => void): void {
  setTimeout(() => (isDrawing ? afterwards.push(run) : run()));
}

// Content that is drawn again, in its turn, only when something in `of` is another object or value. Elements from
// useMemo must not do this: an element keeps the tree that it was first drawn in, with the older elements beside it and
// so their trees, and all that was ever shown stays in memory.
export class Memo extends Component<MemoProps> {
  private times = 0; // drawn

  override shouldComponentUpdate(next: Readonly<MemoProps>): boolean {
    if (next.of.some((each, i) => !Object.is(each, this.props.of[i]))) {
      // Who has just opened a view waits for its content, which follows an empty panel.
      if (this.times < 2) return true;
      waiting.add(this);
      if (!isDrawing) drawNext();
    }
    return false;
  }

  override componentWillUnmount(): void {
    waiting.delete(this);
  }

  override render(): ComponentChildren {
    this.times++;
    return this.props.children();
  }
}

export function Button(props: JSX.ButtonHTMLAttributes<HTMLButtonElement>) {
  return <button type="button" {...props} />;
}

// A button that calls the daemon: disabled meanwhile, with what went wrong beside it. With `confirm` it asks first.
export function ActionButton(props: {
  label: string;
  act: () => Promise<unknown>;
  done?: string; // announced when it has worked
  confirm?: ComponentChildren;
  isDanger?: boolean;
}) {
  const [isBusy, setBusy] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = async () => {
    setAsking(false);
    setBusy(true);
    setError(undefined);
    try {
      await props.act();
      if (props.done) announce(props.done);
    } catch (caught) {
      setError(asApiError(caught));
    }
    setBusy(false);
  };
  return (
    <>
      <Button
        class={props.isDanger ? "danger" : ""}
        disabled={isBusy}
        onClick={() => (props.confirm ? setAsking(true) : void run())}
      >
        {props.label}
      </Button>
      {error && <ErrorLine error={error} />}
      {isAsking && (
        <Dialog title={`${props.label}?`} onClose={() => setAsking(false)}>
          <div>{props.confirm}</div>
          <p class="buttons">
            <Button class={props.isDanger ? "danger" : "primary"} onClick={() => void run()}>
              {props.label}
            </Button>
            <Button onClick={() => setAsking(false)}>Keep</Button>
          </p>
        </Dialog>
      )}
    </>
  );
}

// A modal dialog, open as long as it is drawn. Escape and a click beside it close it.
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === ref.current && props.onClose()}
    >
      <div class="dialog">
        <h2 id={id}>{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

// A name or key without spaces that may be broken where its parts end.
export function Breakable(props: { text: string | undefined }) {
  return <>{(props.text ?? "").split(/(?<=[,_/.])/).map((part, i) => [i > 0 && <wbr />, part])}</>;
}

export function Empty(props: { children: ComponentChildren }) {
  return <p class="empty">{props.children}</p>;
}

export function ErrorLine(props: { error: ApiError }) {
  return (
    <p class="error" role="alert">
      ✗ {props.error.message}
      {props.error.reason && <span class="reason"> ({props.error.reason})</span>}
    </p>
  );
}

export function Loading() {
  return <p class="empty">Loading …</p>;
}

// An outcome by sign and word.
export function Outcome(props: { outcome: OutcomeName | undefined }) {
  const word = outcomeText(props.outcome);
  const [sign, kind] =
    word === "OK"
      ? ["✓", "good"]
      : word === "NOISY" || word === "PRUNED" || word === "LOST"
        ? ["○", "so-so"]
        : ["✗", "bad"];
  return (
    <span class={`outcome ${kind}`}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

export function Time(props: { ms: string | number | undefined; none?: string }) {
  const ms = Number(props.ms ?? 0);
  if (!ms) return <>{props.none ?? "–"}</>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={utcTime(ms)}>
      <span>{localTime(ms).slice(0, 10)}</span> <span>{localTime(ms).slice(11)}</span>
    </time>
  );
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea"); // where a page may not use the clipboard by itself
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(`Copied: ${what}.`);
}

// Copies `text`; the button says so for a moment.
export function CopyButton(props: { label: string; text: string; what: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <Button
      title={`Copy ${props.what}`}
      aria-label={`Copy ${props.what}`}
      onClick={() => void copy(props.text, props.what).then(() => setCopied(true))}
    >
      {isCopied ? "✓ copied" : props.label}
    </Button>
  );
}

// A titled part of a view.
export function Panel(props: {
  title: ComponentChildren;
  class?: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.actions && <div class="buttons">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

// A share from 0 to 1 as a bar beside its number.
export function Share(props: { share: number; text: string }) {
  return (
    <span class="share">
      <span class="bar" aria-hidden="true">
        <span style={{ width: `${Math.round(Math.min(1, Math.max(0, props.share)) * 100)}%` }} />
      </span>
      {props.text}
    </span>
  );
}

// One of several choices, as buttons beside each other.
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}) {
  return (
    <span class="choice" role="group" aria-label={props.label}>
      <span class="muted" aria-hidden="true">
        {props.label}
      </span>
      {props.options.map(([value, text]) => (
        <Button key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </Button>
      ))}
    </span>
  );
}
