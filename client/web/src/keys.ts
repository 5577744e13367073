// Single keys, which can be switched off (WCAG 2.1.4).
import { useEffect, useRef } from "preact/hooks";
import { Shared, store, stored } from "./shared";

export const areKeysOn = new Shared(stored("keys") !== "off");

export function setKeysOn(isOn: boolean): void {
  store("keys", isOn ? "" : "off");
  areKeysOn.set(isOn);
}

const handlers = new Map<string, { current: () => void }[]>();

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
  );
}

document.addEventListener("keydown", (event) => {
  if (!areKeysOn.get() || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const handler = handlers.get(event.key)?.at(-1);
  if (!handler) return;
  event.preventDefault();
  handler.current();
});

// While the component is there, `key` acts; of several components the last one has it.
export function useKey(key: string, act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const stack = handlers.get(key) ?? [];
    handlers.set(key, stack);
    stack.push(latest);
    return () => void stack.splice(stack.indexOf(latest), 1);
  }, [key]);
}
