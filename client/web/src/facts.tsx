// Names with values, warnings, and the width that a plot has.
import type { Config } from "api";
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { configOneLine } from "./names";
import { Breakable } from "./ui";

export type Fact = [name: string, value: ComponentChildren];

// Those with an empty value are left out.
export function Facts(props: { facts: Fact[] }) {
  return (
    <dl class="fact-list">
      {props.facts
        .filter(([, value]) => value !== "" && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function Warning(props: { children: ComponentChildren }) {
  return (
    <span class="so-so">
      <span aria-hidden="true">▲</span> {props.children}
    </span>
  );
}

// The width of the element that gets the reference, in CSS pixels.
export function useWidth<T extends HTMLElement>(): [RefObject<T>, number] {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

// What a chart shows, as a table that is made when it is opened.
export function AsTable(props: { children: () => ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen && props.children()}
    </details>
  );
}

// A text in a cell of a table: a long one wraps, but not to less than a few words.
export function Long(props: { text: string }) {
  if (props.text.length <= 24) return <>{props.text}</>;
  return (
    <span class="long">
      <Breakable text={props.text} />
    </span>
  );
}

// A config in a cell of a table: two lines of it, and all of it when the mouse is there.
export function ConfigCell(props: { config: Config | undefined }) {
  const text = configOneLine(props.config);
  return (
    <code class="config" title={text}>
      {text}
    </code>
  );
}

// A text of several lines in a dialog.
export function TextField(props: { label: string; value: string; onInput: (value: string) => void }) {
  return (
    <label class="field">
      {props.label}
      <textarea
        rows={2}
        maxLength={1000}
        value={props.value}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </label>
  );
}
