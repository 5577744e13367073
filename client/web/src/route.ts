// Where the page is: the fragment "#/jobs/12/studies/1?x=time" holds a path and the state of its view, so that a link
// to it can be sent.
import { Shared, useShared } from "./shared";

export type Query = Readonly<Record<string, string>>;

export interface Route {
  path: string; // "jobs/12/studies/1"; empty: the start
  query: Query;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  let plain = path;
  try {
    plain = path.split("/").map(decodeURIComponent).join("/");
  } catch {
    // A stray '%': taken as it is.
  }
  return { path: plain, query: Object.fromEntries(new URLSearchParams(query)) };
}

// The fragment of a path and a state; states that are empty are left out.
export function href(path: string, query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#/${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

const route = new Shared<Route>(parseRoute(location.hash));
window.addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

export function useRoute(): Route {
  return useShared(route);
}

export function currentRoute(): Route {
  return route.get();
}

export function navigate(to: string): void {
  location.hash = to;
}

// Changes parts of the view's state, in place: "back" leads to the view before, not through each change of a filter.
export function setQuery(changes: Record<string, string | undefined>): void {
  const now = route.get();
  const to = href(now.path, { ...now.query, ...changes });
  history.replaceState(null, "", to);
  route.set(parseRoute(to));
}

// "jobs/:job" and "jobs/12" give {job: "12"}; undefined where they do not fit.
export function matchPath(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/");
  const parts = path.split("/");
  if (wanted.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const actual = parts[i] ?? "";
    if (part.startsWith(":")) params[part.slice(1)] = actual;
    else if (part !== actual) return undefined;
  }
  return params;
}
