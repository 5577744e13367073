// One best config: its time and conditions, its history, and what administrators decide about it.
import type { BestConfig, BestConfigKey } from "api";
import { useState } from "preact/hooks";
import { call, caller, has } from "../api";
import type { ViewProps } from "../app";
import { BestChanges } from "../best_changes";
import { bestCommand, configOneLine, shortName } from "../names";
import { Facts, TextField } from "../facts";
import { nanoseconds } from "../format";
import { usePoll } from "../poll";
import { ConditionsPanel, ConfigPanel, TimePanel } from "../result_panels";
import { href, type Query } from "../route";
import { useShared } from "../shared";
import { ActionButton, Empty, ErrorLine, Loading, Panel, Time } from "../ui";

const CATALOG = "tunefarm.v1.CatalogService";

// undefined: there is none, or it was retired.
async function load(query: Query, signal: AbortSignal): Promise<{ best: BestConfig | undefined }> {
  const { kernel = "", program = "", problem = "", class: deviceClass = "" } = query;
  let pageToken = "";
  do {
    const request = { kernel, programDigest: program, deviceClassId: deviceClass, pageSize: 1000, pageToken };
    const page = await call("tunefarm.v1.LookupService/ListBestConfigs", request, signal);
    const best = page.bests?.find((each) => (each.problem?.key ?? "") === problem);
    if (best) return { best };
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  return { best: undefined };
}

// The decisions about a best, each with a dialog.
function Decisions(props: { best: BestConfig; bestKey: BestConfigKey; onChange: () => void }) {
  const { best, bestKey: key, onChange } = props;
  const [reason, setReason] = useState("");
  const [note, setNote] = useState(best.note ?? "");
  const after = async (made: Promise<unknown>) => {
    await made;
    setReason("");
    onChange();
  };
  const why = <TextField label="Reason, for the history" value={reason} onInput={setReason} />;
  return (
    <div class="buttons">
      {best.pinned ? (
        <ActionButton
          label="Unpin"
          done="Unpinned."
          act={() => after(call(`${CATALOG}/UnpinBestConfig`, { key, reason }))}
          confirm={
            <>
              <p>Later jobs may replace it again.</p>
              {why}
            </>
          }
        />
      ) : (
        <ActionButton
          label="Pin"
          done="Pinned."
          act={() => after(call(`${CATALOG}/PinBestConfig`, { key, reason }))}
          confirm={
            <>
              <p>It stays the best config whatever later jobs find.</p>
              {why}
            </>
          }
        />
      )}
      <ActionButton
        label="Note"
        done="The note is stored."
        act={() => after(call(`${CATALOG}/AnnotateBestConfig`, { key, note }))}
        confirm={<TextField label="Note; empty for none" value={note} onInput={setNote} />}
      />
      <ActionButton
        label="Retire"
        done="Retired."
        isDanger
        act={() => after(call(`${CATALOG}/RetireBestConfig`, { key, reason }))}
        confirm={
          <>
            <p>No look-up answers with it any more. Its history stays, and a later job may file a new best config.</p>
            {why}
          </>
        }
      />
    </div>
  );
}

export function BestView({ query }: ViewProps) {
  const { kernel = "", program = "", problem = "", class: deviceClass = "" } = query;
  const key: BestConfigKey = { programDigest: program, problemKey: problem, deviceClassId: deviceClass };
  const isAdmin = has(useShared(caller), "admin");
  const [changes, setChanges] = useState(0);
  const { data, error, refresh } = usePoll(
    `${program} ${deviceClass} ${problem} ${kernel}`,
    (signal) => load(query, signal),
    5000,
  );
  if (error && !data) return <ErrorLine error={error} />;
  if (!data) return <Loading />;
  const { best } = data;
  const changed = () => {
    setChanges(changes + 1);
    refresh();
  };
  return (
    <>
      <p class="path">
        <a href={href("catalog")}>catalog</a> › <a href={href("catalog", { kernel })}>{kernel}</a> ›{" "}
        <a href={href("catalog", { kernel, class: deviceClass })}>{best?.deviceClassName || deviceClass}</a>
      </p>
      <h1>
        {problem} {best && nanoseconds(best.measurement?.medianNs)} {best?.pinned && "· pinned"}
      </h1>
      {!best && <Empty>There is no such best config: it was retired, or it never was. Its history:</Empty>}
      {best && (
        <>
          {isAdmin && <Decisions key={best.note} best={best} bestKey={key} onChange={changed} />}
          <Facts
            facts={[
              ["note", best.note],
              ["promoted", <Time ms={best.promotedAtMs} />],
              [
                "from",
                best.job ? (
                  <>
                    <a href={href(best.job)}>job {shortName(best.job)}</a>, trial {best.ordinal ?? "0"}
                  </>
                ) : (
                  ""
                ),
              ],
              ["program", <code>{best.programDigest}</code>],
            ]}
          />
          <div class="panels">
            <ConfigPanel
              config={best.config}
              command={bestCommand(kernel, best.problem, deviceClass)}
              title="Look it up"
              label="best"
            />
            {best.measurement && <TimePanel m={best.measurement} against={best} />}
            {best.measurement && (
              <ConditionsPanel
                m={best.measurement}
                more={[
                  ["driver", best.driverVersion],
                  ["toolkit", best.toolkitVersion],
                ]}
              />
            )}
          </div>
        </>
      )}
      <div class="panels">
        <Panel title="History" class="wide">
          <BestChanges
            request={{ key }}
            reloadKey={String(changes)}
            {...(isAdmin && {
              action: (change) =>
                change.kind === "BEST_CONFIG_CHANGE_KIND_PROMOTED" &&
                configOneLine(change.best?.config) !== configOneLine(best?.config) && (
                  <ActionButton
                    label="Restore"
                    done="Restored and pinned."
                    act={() =>
                      call(`${CATALOG}/PinBestConfig`, { key, fromRevision: change.revision ?? "0" }).then(changed)
                    }
                    confirm="This config becomes the best one and is pinned."
                  />
                ),
            })}
          />
        </Panel>
      </div>
    </>
  );
}
