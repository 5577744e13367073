// One study: how its search went, what its parameters do, why trials failed, and its trials, all through one filter.
import type {
  AnalyzeStudyResponse,
  GetStudyChartResponse,
  Job,
  Outcome,
  SpaceSize,
  Study as StudyMessage,
  StudyCoverage,
  TrialFilter,
  Value,
} from "api";
import { useEffect, useRef, useState } from "preact/hooks";
import { asApiError, call } from "../api";
import type { ViewProps } from "../app";
import { configCpp, configJson, defineOptions, runCommand } from "../commands";
import { byteRate, configText, count, enumText, flopRate, int, nanoseconds, percent, ratio, spread } from "../format";
import { bestOf, hasEnded, JobActions, ProgressBar, StateWord, useAnnouncedState } from "../jobs";
import { useKey } from "../keys";
import { href, navigate, setQuery } from "../route";
import { type Area, SearchChart } from "../study/chart";
import { isSettled } from "../study/coverage";
import {
  addCondition,
  chipsOf,
  readFilter,
  suggestions,
  toggleOutcome,
  toggleValue,
  withRange,
  withValues,
  writeFilter,
} from "../study/filter";
import { Final } from "../study/final";
import { Outcomes } from "../study/outcomes";
import { type GridNumber, PairGrid } from "../study/pair_grid";
import { Parameters } from "../study/parameters";
import { useAnalysis, useChart, useJob } from "../study/polls";
import { Trials } from "../study/trials";
import { Breakable, Button, Choice, copy, CopyButton, Empty, ErrorLine, Loading, Memo, Panel, Table } from "../ui";

// SpaceSize.valid that stands for this many and more.
const VALID_MAX = "9223372036854775807";

function Header(props: {
  job: Job;
  study: StudyMessage;
  chart: GetStudyChartResponse | undefined;
  onChange: () => void;
}) {
  const { job, study } = props;
  const [, jobId, , number] = (study.name ?? "").split("/");
  const { measurement, config, isFinal } = bestOf(study);
  const ns = measurement?.medianNs;
  const kernel = job.kernelName ?? "";
  useKey("c", () => {
    if (config) void copy(defineOptions(config), "the config as -D options");
  });
  const ratios = (props.chart?.levels ?? []).filter((level) => level.timeNs && !/floor|final/.test(level.label ?? ""));
  return (
    <>
      <div class="title">
        <h1>
          <a href={href("jobs")}>jobs</a> › <a href={href(`jobs/${jobId}`)}>{jobId}</a> › {kernel} ›{" "}
          <span class="mono">
            <Breakable text={study.problem?.key || number} />
          </span>{" "}
          on {study.deviceClassName}
        </h1>
        <StateWord job={job} />
        {!hasEnded(job) && <span class="muted">{enumText(study.state, "STUDY_STATE_").toLowerCase()}</span>}
        <ProgressBar progress={study.progress} isLive={study.state !== "STUDY_STATE_ENDED"} />
        <JobActions job={job} onChange={props.onChange} />
      </div>
      {job.stateReason && <p class="so-so">○ {job.stateReason}</p>}
      {job.error && <p class="error">✗ {job.error}</p>}
      {ns ? (
        <div class="best">
          <strong class="headline">
            {nanoseconds(ns)} <span class="muted">{spread(measurement)}</span>
          </strong>
          <span class="muted">{isFinal ? "in the final" : "in the search"}</span>
          {ratios.map((level) => (
            <span key={level.label}>
              <strong>{ratio((level.timeNs ?? 0) / ns)}</strong>{" "}
              {(level.label ?? "").replace(/^baseline: | config$/g, "")}
            </span>
          ))}
          {study.flops ? <span>{flopRate(study.flops, ns)}</span> : null}
          {study.bytes ? <span>{byteRate(study.bytes, ns)}</span> : null}
          {study.floorNs ? (
            <span title={`roofline floor ${nanoseconds(study.floorNs)}`}>{percent(study.floorNs / ns)} of floor</span>
          ) : null}
          <span class="mono best-config">{configText(config)}</span>
          <span class="buttons" role="group" aria-label="Copy the config">
            <span class="muted">copy:</span>
            <CopyButton label="-D" text={defineOptions(config)} what="the config as -D options" />
            <CopyButton label="JSON" text={configJson(config)} what="the config as JSON" />
            <CopyButton
              label="run"
              text={runCommand(kernel, study.problem, config, study.deviceClassId)}
              what="the command that runs the config"
            />
            <CopyButton label="C++" text={configCpp(config)} what="the config as C++ constants" />
          </span>
        </div>
      ) : (
        <p class="best muted">No config has been measured{study.state === "STUDY_STATE_ENDED" ? "." : " yet."}</p>
      )}
      {study.searchEndedBecause && <p class="muted">The search ended: {study.searchEndedBecause}.</p>}
    </>
  );
}

function FilterBar(props: {
  filter: TrialFilter;
  analysis: AnalyzeStudyResponse | undefined;
  coverage: StudyCoverage | undefined;
  onFilter: (filter: TrialFilter) => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const parameters = props.analysis?.analysis?.parameters ?? [];
  useKey("/", () => field.current?.focus());
  const chips = chipsOf(props.filter);
  useEffect(() => setProblem(""), [writeFilter(props.filter)]);
  const add = (event: Event) => {
    event.preventDefault();
    const next = addCondition(props.filter, text, parameters);
    if (typeof next === "string") return setProblem(next);
    setProblem("");
    setText("");
    props.onFilter(next);
  };
  const c = props.coverage;
  return (
    <div class="filter" role="search" aria-label="Filter of the trials">
      <form class="buttons" onSubmit={add}>
        <label>
          Filter{" "}
          <input
            ref={field}
            list="conditions"
            size={34}
            value={text}
            placeholder="BLOCK_M=64,128 or time<400us"
            aria-describedby={problem ? "filter-problem" : undefined}
            aria-invalid={problem !== ""}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
          />
        </label>
        <Memo of={[props.analysis]}>
          {() => (
            <datalist id="conditions">
              {suggestions(parameters).map((each) => (
                <option key={each} value={each} />
              ))}
            </datalist>
          )}
        </Memo>
        <Button type="submit">Add</Button>
      </form>
      {chips.map((chip) => (
        <span key={chip.text} class="chip">
          {chip.text}{" "}
          <Button
            class="plain"
            aria-label={`Remove the condition ${chip.text}`}
            onClick={() => props.onFilter(chip.without)}
          >
            ×
          </Button>
        </span>
      ))}
      {chips.length > 0 && <Button onClick={() => props.onFilter({})}>Clear</Button>}
      <span class="spring" />
      {c && (
        <span class="muted">
          {chips.length ? `${count(c.matching)} of ${count(c.read)} trials` : `${count(c.read)} trials`}
          {int(c.read) < int(c.stored) &&
            (c.isCut ? ` of ${count(c.stored)}: more are not kept in memory` : ` read of ${count(c.stored)} …`)}
          {int(c.unreadable) > 0 && `, ${count(c.unreadable)} damaged ones left out`}
        </span>
      )}
      {problem && (
        <p id="filter-problem" class="error" role="alert">
          ✗ {problem}
        </p>
      )}
    </div>
  );
}

function Space(props: { space: SpaceSize }) {
  const { space } = props;
  const about = space.valid === VALID_MAX ? "at least " : space.approximate ? "≈" : "";
  return (
    <Panel title="Space">
      <p>
        {space.cartesian} points → {about}
        {count(space.valid)} valid
      </p>
      <Table
        caption="What the rules removed"
        hidesCaption
        rows={(space.rules ?? []).filter((rule) => int(rule.removed) > 0)}
        rowKey={(rule) => rule.rule ?? ""}
        empty="No rule removed a point."
        columns={[
          { name: "removed", isNumber: true, cell: (rule) => (space.approximate ? "≈" : "") + count(rule.removed) },
          {
            name: "rule",
            isText: true,
            cell: (rule) => (
              <>
                {rule.reason && <div>{rule.reason}</div>}
                <span class="mono">{rule.rule}</span>
              </>
            ),
          },
        ]}
      />
    </Panel>
  );
}

export function StudyView({ params, query }: ViewProps) {
  const jobName = `jobs/${params["job"]}`;
  const name = `${jobName}/studies/${params["study"]}`;
  const filter = readFilter(query["f"]);
  const isTime = query["x"] === "time";
  const isLog = query["y"] === "log";
  const [placeError, setPlaceError] = useState("");

  const polledJob = useJob(jobName);
  const job = polledJob.data;
  const study = job?.studies?.find((each) => each.name === name);
  useAnnouncedState(job);
  const polledChart = useChart(name, filter, isTime, isLog);
  const chart = polledChart.data;
  const coverage = chart?.response.coverage;
  const { effects, importance } = useAnalysis(name, filter);
  const analysis = effects.data?.analysis;
  const isOver = isSettled(coverage) && hasEnded(job);

  const onFilter = (next: TrialFilter) => setQuery({ f: writeFilter(next) });
  // These change with each drawing and are read on a click alone: a panel does not depend on them, and one that waits
  // to be redrawn does not go by an older filter.
  const onOutcome = useRef((_: Outcome) => {});
  onOutcome.current = (outcome) => onFilter(toggleOutcome(filter, outcome));
  const onToggle = useRef((_: string, __: Value) => {});
  onToggle.current = (parameter, value) => onFilter(toggleValue(filter, parameter, value));
  const onCell = useRef((_: [string, Value], __: [string, Value]) => {});
  onCell.current = (first, second) =>
    onFilter(withValues(withValues(filter, first[0], [first[1]]), second[0], [second[1]]));
  const onArea = useRef((_: Area) => {});
  const onPlace = useRef((_: Area) => {});
  const withArea = (area: Area): TrialFilter => {
    let next = filter;
    if (area.x) {
      const [min, max] = area.x;
      next = isTime
        ? withRange(next, "seconds", { min: Math.max(0, min), max })
        : withRange(next, "evaluation", { min: Math.max(1, Math.ceil(min)), max: Math.max(1, Math.floor(max)) });
    }
    if (area.ns) next = withRange(next, "medianNs", { min: area.ns[0], max: area.ns[1] });
    return next;
  };
  const openPlace = async (area: Area) => {
    setPlaceError("");
    try {
      const { trials = [] } = await call("tunefarm.v1.TuningService/ListTrials", {
        parent: name,
        filter: withArea(area),
        orderByTime: true,
        pageSize: 1,
      });
      if (trials[0]?.name) navigate(href(trials[0].name));
    } catch (caught) {
      setPlaceError(asApiError(caught).message);
    }
  };

  onArea.current = (area) => onFilter(withArea(area));
  onPlace.current = (area) => void openPlace(area);

  const pair = (query["pair"] ?? "").split(",");
  const filterError = [polledChart.error, effects.error].find((error) => error?.reason === "FILTER_INVALID");
  const names = (analysis?.parameters ?? []).map((each) => each.parameter ?? "");
  const varied = names.filter((_, i) => (analysis?.parameters?.[i]?.values ?? []).length > 1);
  const revision = useRef("");
  revision.current = coverage?.revision ?? "";
  // Panels are drawn again when what they show has changed, not with each answer.
  const search = (
    <Memo of={[name, chart, polledChart.error, polledChart.isLoading, placeError, isTime, isLog]}>
      {() => (
        <Panel
          title="Search"
          actions={
            <>
              <Choice
                label="x"
                value={isTime ? "time" : ""}
                options={[
                  ["", "evaluations"],
                  ["time", "time"],
                ]}
                onChange={(x) => setQuery({ x })}
              />
              <Choice
                label="y"
                value={isLog ? "log" : ""}
                options={[
                  ["", "linear"],
                  ["log", "log"],
                ]}
                onChange={(y) => setQuery({ y })}
              />
            </>
          }
        >
          {polledChart.error && !filterError && <ErrorLine error={polledChart.error} />}
          {placeError && <p class="error">✗ {placeError}</p>}
          {chart ? (
            <SearchChart
              study={name}
              chart={chart}
              onArea={(area) => onArea.current(area)}
              onPlace={(area) => onPlace.current(area)}
              onOutcome={(outcome) => onOutcome.current(outcome)}
            />
          ) : (
            polledChart.isLoading && <Loading />
          )}
        </Panel>
      )}
    </Memo>
  );
  const outcomes = (
    <Memo of={[name, analysis]}>
      {() => (
        <Outcomes study={name} reasons={analysis?.outcomes ?? []} onOutcome={(outcome) => onOutcome.current(outcome)} />
      )}
    </Memo>
  );
  const parameters = (
    <Memo of={[analysis, importance, query]}>
      {() => (
        <Parameters
          effects={analysis?.parameters ?? []}
          importance={importance}
          filter={filter}
          onToggle={(parameter, value) => onToggle.current(parameter, value)}
        />
      )}
    </Memo>
  );
  const pairs = (
    <Memo of={[name, analysis, importance, coverage !== undefined, isSettled(coverage), query]}>
      {() => (
        <PairGrid
          study={name}
          filter={filter}
          effects={analysis?.parameters ?? []}
          pairs={importance?.pairs ?? []}
          pair={pair[0] && pair[1] ? [pair[0], pair[1]] : undefined}
          shown={(query["grid"] as GridNumber | undefined) ?? "best"}
          isChartThere={coverage !== undefined}
          isOver={isSettled(coverage)}
          onPair={([column, row]) => setQuery({ pair: `${column},${row}` })}
          onShown={(shown) => setQuery({ grid: shown })}
          onCell={(first, second) => onCell.current(first, second)}
        />
      )}
    </Memo>
  );
  const trials = (
    <Memo of={[name, names.join(), varied.join(), isOver, query]}>
      {() => (
        <Trials
          study={name}
          filter={filter}
          parameters={names}
          varied={varied}
          revision={revision}
          isOver={isOver}
          byTime={query["order"] !== "end"}
          columns={(query["columns"] ?? "").split(",").filter(Boolean)}
          onOrder={(byTime) => setQuery({ order: byTime ? "" : "end" })}
          onColumns={(columns) => setQuery({ columns: columns.join(",") })}
        />
      )}
    </Memo>
  );
  const space = <Memo of={[JSON.stringify(study?.space)]}>{() => study?.space && <Space space={study.space} />}</Memo>;
  const final = (
    <Memo of={[JSON.stringify([study?.state, study?.best, study?.baseline, study?.notPromotedBecause]), hasEnded(job)]}>
      {() => study && <Final study={study} isOver={hasEnded(job)} />}
    </Memo>
  );
  if (!job) return polledJob.error ? <ErrorLine error={polledJob.error} /> : <Loading />;
  if (!study)
    return (
      <Empty>
        Job {params["job"]} has no study {params["study"]}.
      </Empty>
    );
  return (
    <>
      <Memo of={[job, study, chart?.response]}>
        {() => <Header job={job} study={study} chart={chart?.response} onChange={polledJob.refresh} />}
      </Memo>
      <Memo of={[query, effects.data, coverage]}>
        {() => <FilterBar filter={filter} analysis={effects.data} coverage={coverage} onFilter={onFilter} />}
      </Memo>
      {filterError && <ErrorLine error={filterError} />}
      <div class="halves">
        <div>
          {search}
          {outcomes}
          {space}
        </div>
        <div>
          {parameters}
          {pairs}
          {final}
        </div>
      </div>
      {trials}
    </>
  );
}
