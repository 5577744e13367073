// Why trials ended as they did, and what the failed ones have in common.
import type { Outcome as OutcomeName, OutcomeReason, StudyAnalysis } from "api";
import { useState } from "preact/hooks";
import { call } from "../api";
import { count, int, outcomeText, percent, valueText } from "../format";
import { usePoll } from "../poll";
import { href } from "../route";
import { Button, ErrorLine, Loading, Outcome, Panel, Table } from "../ui";
import { isRead } from "./coverage";

const COMMON_MAX = 8;

// The values that are more frequent among the trials of an outcome than among all.
function commonValues(those: StudyAnalysis | undefined, all: StudyAnalysis | undefined) {
  const allByName = new Map((all?.parameters ?? []).map((effect) => [effect.parameter, effect]));
  const number = int(those?.evaluations);
  const numberOfAll = int(all?.evaluations);
  return (those?.parameters ?? [])
    .flatMap((effect) => {
      const whole = allByName.get(effect.parameter);
      if (!number || !numberOfAll || (whole?.values ?? []).length < 2) return [];
      return (effect.values ?? []).map((value) => {
        const text = valueText(value.value);
        const inAll = whole?.values?.find((each) => valueText(each.value) === text);
        return {
          parameter: effect.parameter ?? "",
          value: text,
          share: (int(value.measured) + int(value.failed)) / number,
          shareOfAll: inAll ? (int(inAll.measured) + int(inAll.failed)) / numberOfAll : 1,
        };
      });
    })
    .filter((each) => each.share > 1.2 * each.shareOfAll && each.share > 0.1)
    .sort((a, b) => b.share / b.shareOfAll - a.share / a.shareOfAll || b.share - a.share)
    .slice(0, COMMON_MAX);
}

function Common(props: { study: string; outcome: OutcomeName }) {
  // Of all trials, whatever the filter of the view is.
  const polled = usePoll(
    `common ${props.study} ${props.outcome}`,
    async (signal) => {
      const request = { study: props.study, withoutImportance: true };
      const [those, all] = await Promise.all([
        call("tunefarm.v1.StudyService/AnalyzeStudy", { ...request, filter: { outcomes: [props.outcome] } }, signal),
        call("tunefarm.v1.StudyService/AnalyzeStudy", request, signal),
      ]);
      const isWhole = [those, all].every(({ coverage }) => !coverage?.isBehind && isRead(coverage));
      return { rows: commonValues(those.analysis, all.analysis), isWhole };
    },
    1000,
    (common) => common.isWhole,
  );
  if (polled.error) return <ErrorLine error={polled.error} />;
  // Shares of a part of the trials, or of another outcome's, would mislead.
  if (polled.isLoading || !polled.data?.isWhole) return <Loading />;
  return (
    <Table
      caption={`What ${outcomeText(props.outcome)} has in common`}
      rows={polled.data.rows}
      rowKey={(row) => `${row.parameter} ${row.value}`}
      empty={`No value is much more frequent among the trials with ${outcomeText(props.outcome)} than among all.`}
      columns={[
        {
          name: "value",
          cell: (row) => (
            <span class="mono">
              {row.parameter}={row.value}
            </span>
          ),
        },
        { name: `of ${outcomeText(props.outcome)}`, isNumber: true, cell: (row) => percent(row.share) },
        { name: "of all trials", isNumber: true, cell: (row) => percent(row.shareOfAll) },
      ]}
    />
  );
}

export function Outcomes(props: {
  study: string;
  reasons: OutcomeReason[];
  onOutcome: (outcome: OutcomeName) => void;
}) {
  const [asked, setAsked] = useState<OutcomeName>();
  const all = props.reasons.reduce((sum, reason) => sum + int(reason.count), 0);
  return (
    <Panel title="Outcomes">
      <Table
        caption="Outcomes"
        hidesCaption
        rows={props.reasons}
        rowKey={(reason) => `${reason.outcome} ${reason.reason}`}
        empty="No trial has ended yet."
        columns={[
          {
            name: "outcome",
            cell: (reason) => (
              <Button
                class="link plain"
                title="Only these"
                onClick={() => reason.outcome && props.onOutcome(reason.outcome)}
              >
                <Outcome outcome={reason.outcome} />
              </Button>
            ),
          },
          { name: "trials", isNumber: true, cell: (reason) => count(reason.count) },
          { name: "share", isNumber: true, cell: (reason) => percent(all ? int(reason.count) / all : 0) },
          { name: "why", isText: true, cell: (reason) => <span class="mono">{reason.reason}</span> },
          {
            name: "such as",
            cell: (reason) => (
              <a href={href(`${props.study}/trials/${int(reason.exampleOrdinal)}`)}>
                trial {int(reason.exampleOrdinal)}
              </a>
            ),
          },
          {
            name: "",
            cell: (reason) =>
              reason.outcome !== "OUTCOME_OK" && (
                <Button
                  aria-expanded={asked === reason.outcome}
                  onClick={() => setAsked(asked === reason.outcome ? undefined : reason.outcome)}
                >
                  In common
                </Button>
              ),
          },
        ]}
      />
      {asked && <Common study={props.study} outcome={asked} />}
    </Panel>
  );
}
