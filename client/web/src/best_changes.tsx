// What happened to best configs, newest first.
import type { BestConfig, BestConfigChange, ListBestConfigChangesRequest } from "api";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, asApiError, call } from "./api";
import { shortName } from "./names";
import { ConfigCell, Long } from "./facts";
import { enumText, nanoseconds } from "./format";
import { usePoll } from "./poll";
import { href } from "./route";
import { Button, ErrorLine, Loading, Table, Time } from "./ui";

const PAGE = 20;

// Of the request's kernel or best. `action` adds a column.
export function BestChanges(props: {
  request: ListBestConfigChangesRequest;
  deviceClassId?: string;
  bestHref?: (best: BestConfig) => string;
  action?: (change: BestConfigChange) => ComponentChildren;
  reloadKey?: string;
}) {
  const [older, setOlder] = useState<{ changes: BestConfigChange[]; token: string }>();
  const [error, setError] = useState<ApiError>();
  const method = "tunefarm.v1.CatalogService/ListBestConfigChanges";
  const first = usePoll(
    `changes ${props.reloadKey ?? ""}`,
    (signal) => call(method, { ...props.request, pageSize: PAGE }, signal),
    5000,
  );
  if (first.error && !first.data) return <ErrorLine error={first.error} />;
  if (!first.data) return <Loading />;
  const token = older ? older.token : (first.data.nextPageToken ?? "");
  const more = async () => {
    try {
      const page = await call(method, { ...props.request, pageSize: PAGE, pageToken: token });
      setOlder({ changes: [...(older?.changes ?? []), ...(page.changes ?? [])], token: page.nextPageToken ?? "" });
      setError(undefined);
    } catch (caught) {
      setError(asApiError(caught));
    }
  };
  // A change that came since moves others to the next page: each is shown once.
  const all = new Map(
    [...(first.data.changes ?? []), ...(older?.changes ?? [])].map((change) => [change.revision, change]),
  );
  const isOne = props.request.key !== undefined;
  const name = (best: BestConfig) => {
    const text = <Long text={best.problem?.key ?? ""} />;
    return props.bestHref ? <a href={props.bestHref(best)}>{text}</a> : text;
  };
  return (
    <>
      <Table<BestConfigChange>
        caption="Changes"
        hidesCaption
        rows={[...all.values()].filter(
          (change) => !props.deviceClassId || change.best?.deviceClassId === props.deviceClassId,
        )}
        rowKey={(change) => change.revision ?? ""}
        empty="The history is empty."
        columns={[
          { name: "when", cell: (change) => <Time ms={change.changedAtMs} /> },
          { name: "change", cell: (change) => enumText(change.kind, "BEST_CONFIG_CHANGE_KIND_").toLowerCase() },
          ...(isOne
            ? []
            : [
                { name: "kernel", cell: (change: BestConfigChange) => <Long text={change.best?.kernelName ?? ""} /> },
                { name: "problem", cell: (change: BestConfigChange) => name(change.best ?? {}) },
                { name: "device class", cell: (change: BestConfigChange) => change.best?.deviceClassName ?? "" },
              ]),
          { name: "time", isNumber: true, cell: (change) => nanoseconds(change.best?.measurement?.medianNs) },
          {
            name: "job",
            cell: (change) =>
              change.best?.job ? <a href={href(change.best.job)}>{shortName(change.best.job)}</a> : "–",
          },
          {
            name: "reason",
            cell: (change) => (
              <Long
                text={
                  change.kind === "BEST_CONFIG_CHANGE_KIND_ANNOTATED"
                    ? (change.best?.note ?? "")
                    : (change.reason ?? "")
                }
              />
            ),
          },
          { name: "config", cell: (change) => <ConfigCell config={change.best?.config} /> },
          { name: "revision", isNumber: true, cell: (change) => change.revision },
          ...(props.action ? [{ name: "action", cell: props.action }] : []),
        ]}
      />
      {error && <ErrorLine error={error} />}
      {token && <Button onClick={() => void more()}>older changes</Button>}
    </>
  );
}
