// The frame of the page: navigation, who is logged in, how fresh the view is, and the view that the address names.
import type { ComponentType } from "preact";
import { render } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "../app.css";
import "../views.css";
import { type ApiError, asApiError, call, caller, isOutdated, secret } from "./api";
import { duration, localTime } from "./format";
import { useKey } from "./keys";
import { afterContent, freshness, isPaused } from "./poll";
import { href, matchPath, type Query, useRoute } from "./route";
import { useShared } from "./shared";
import { announce, Announcer, Button, Empty, ErrorLine, whenDrawn } from "./ui";
import { Account } from "./views/account";
import { BestView } from "./views/best";
import { CatalogView } from "./views/catalog";
import { CompareView } from "./views/compare";
import { DevicesView } from "./views/devices";
import { Farm } from "./views/farm";
import { Help } from "./views/help";
import { JobView } from "./views/job";
import { Jobs } from "./views/jobs";
import { KernelView, KernelsView } from "./views/kernels";
import { buySession, Login } from "./views/login";
import { MissesView } from "./views/misses";
import { StudyView } from "./views/study";
import { TrialView } from "./views/trial";

export interface ViewProps {
  params: Record<string, string>; // the parts of the path that the pattern names
  query: Query;
}

interface View {
  pattern: string; // of the path: "jobs/:job"
  title: (params: Record<string, string>) => string;
  component: ComponentType<ViewProps>;
}

const views: View[] = [
  { pattern: "", title: () => "Farm", component: Farm },
  { pattern: "jobs", title: () => "Jobs", component: Jobs },
  { pattern: "jobs/:job", title: ({ job }) => `Job ${job}`, component: JobView },
  {
    pattern: "jobs/:job/studies/:study",
    title: ({ job, study }) => `Job ${job}, study ${study}`,
    component: StudyView,
  },
  {
    pattern: "jobs/:job/studies/:study/trials/:trial",
    title: ({ job, study, trial }) => `Trial ${job}/${study}/${trial}`,
    component: TrialView,
  },
  { pattern: "catalog", title: () => "Catalog", component: CatalogView },
  { pattern: "catalog/best", title: () => "Best config", component: BestView },
  { pattern: "misses", title: () => "Misses", component: MissesView },
  { pattern: "kernels", title: () => "Kernels", component: KernelsView },
  { pattern: "kernels/:kernel", title: ({ kernel }) => kernel ?? "", component: KernelView },
  { pattern: "devices", title: () => "Devices", component: DevicesView },
  { pattern: "compare", title: () => "Compare", component: CompareView },
];

// What the navigation shows: path and word.
const navigation: [string, string][] = [
  ["", "Farm"],
  ["jobs", "Jobs"],
  ["catalog", "Catalog"],
  ["misses", "Misses"],
  ["kernels", "Kernels"],
  ["devices", "Devices"],
];

// "live", or how old the view is and why.
function FreshnessLine() {
  const state = useShared(freshness);
  const paused = useShared(isPaused);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!state) return null;
  const age = now - state.asOf;
  const isOld = state.asOf > 0 && (paused || state.error || age > 15_000) && !(state.isOver && !state.error);
  return (
    <div class="freshness">
      {state.error && state.asOf > 0 && <span class="bad">✗ {state.error.message} </span>}
      {isOld ? (
        <span title={localTime(state.asOf)}>
          as of {localTime(state.asOf).slice(11)}, {duration(Math.max(0, age))} ago
        </span>
      ) : (
        <span class="muted">{state.isOver ? "ended" : state.asOf ? "live" : ""}</span>
      )}
      {!state.isOver && (
        <Button aria-pressed={paused} onClick={() => isPaused.set(!paused)}>
          {paused ? "go on" : "hold"}
        </Button>
      )}
    </div>
  );
}

// A view, or one sentence where it fails: the rest of the page goes on.
function Guarded(props: { view: ComponentType<ViewProps>; params: Record<string, string>; query: Query }) {
  const [error, forget] = useErrorBoundary((caught: unknown) => console.error(caught));
  const View = props.view;
  if (!error) return <View params={props.params} query={props.query} />;
  return (
    <>
      <ErrorLine error={asApiError(error)} />
      <Button onClick={forget}>Show it again</Button>
    </>
  );
}

function App() {
  const route = useRoute();
  const key = useShared(secret);
  const outdated = useShared(isOutdated);
  const [loginError, setLoginError] = useState<ApiError>();
  const [isBuying, setBuying] = useState(false);
  const [isHelping, setHelping] = useState(false);
  useKey("?", () => setHelping(true));

  const code = /^login=(.+)$/.exec(route.path)?.[1];
  useEffect(() => {
    if (!code) return;
    setBuying(true);
    buySession(code)
      .catch((caught: unknown) => setLoginError(asApiError(caught)))
      .finally(() => setBuying(false));
  }, [code]);
  useEffect(() => {
    if (!key || isBuying) return;
    setLoginError(undefined);
    return afterContent(() =>
      whenDrawn(() => {
        call("tunefarm.v1.AccessService/GetCaller", {})
          .then((response) => caller.set(response.caller))
          .catch((caught: unknown) => setLoginError(asApiError(caught)));
      }),
    );
  }, [key, isBuying]);

  const found = views
    .map((view) => ({ view, params: matchPath(view.pattern, route.path) }))
    .find((each) => each.params);
  const title = found?.params ? found.view.title(found.params) : "";
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = title ? `${title} – tunefarm` : "tunefarm";
    window.scrollTo(0, 0);
    // Who cannot see that the view is another one is told, and goes on from its beginning.
    if (!isFirst.current) {
      announce(title);
      document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
    }
    isFirst.current = false;
  }, [title]);

  let content = <Login error={loginError} key={loginError?.message} />;
  if (code || isBuying) content = <Empty>Logging in …</Empty>;
  else if (key && found?.params) {
    content = <Guarded key={route.path} view={found.view.component} params={found.params} query={route.query} />;
  } else if (key) content = <Empty>There is no such view.</Empty>;

  return (
    <>
      <Button class="skip" onClick={() => document.querySelector<HTMLElement>("main")?.focus()}>
        Skip to the content
      </Button>
      <header class="frame">
        <a class="brand" href={href("")}>
          tunefarm
        </a>
        {key && (
          <nav aria-label="Views">
            {navigation.map(([path, word]) => {
              const isHere = path ? route.path.split("/")[0] === path : route.path === "";
              return (
                <a key={path} href={href(path)} aria-current={isHere ? "page" : undefined}>
                  {word}
                </a>
              );
            })}
          </nav>
        )}
        <span class="spring" />
        <FreshnessLine />
        <Account />
        <Button aria-label="Help" title="Help (?)" onClick={() => setHelping(true)}>
          ?
        </Button>
      </header>
      {outdated && (
        <p class="notice" role="status">
          The daemon is of another revision than this page. <Button onClick={() => location.reload()}>Reload</Button>
        </p>
      )}
      <main tabIndex={-1}>
        {key && loginError && <ErrorLine error={loginError} />}
        {content}
      </main>
      <Announcer />
      {isHelping && <Help onClose={() => setHelping(false)} />}
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
