// A value that several parts of the page look at: they are drawn again when it changes.
import { useEffect, useState } from "preact/hooks";

export class Shared<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private current: T) {}

  get(): T {
    return this.current;
  }

  set(next: T): void {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  // Returns what ends the subscription.
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useShared<T>(shared: Shared<T>): T {
  const [value, setValue] = useState(shared.get());
  useEffect(() => {
    const update = () => setValue(() => shared.get());
    update();
    return shared.subscribe(update);
  }, [shared]);
  return value;
}

// localStorage may be switched off in a browser; the page then forgets when it is closed.
export function stored(key: string): string {
  try {
    return localStorage.getItem(`tunefarm.${key}`) ?? "";
  } catch {
    return "";
  }
}

export function store(key: string, value: string): void {
  try {
    if (value) localStorage.setItem(`tunefarm.${key}`, value);
    else localStorage.removeItem(`tunefarm.${key}`);
  } catch {
    // See above.
  }
}
