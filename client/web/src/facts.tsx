// Names with values, warnings, and the width that a plot has.
import type { ComponentChildren } from "preact";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export type Fact = [name: string, value: ComponentChildren];

// Those with an empty value are left out.
export function Facts(props: { facts: Fact[] }) {
  return (
    <dl class="facts">
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
