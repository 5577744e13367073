// The search as a density of trials, or as points where they are few, with the best so far, levels and failures.
import type { GetStudyChartResponse, Outcome as OutcomeName } from "api";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { AsTable } from "../facts";
import {
  count,
  decodeDoubles,
  decodeInt64,
  decodeUint32,
  duration,
  int,
  nanoseconds,
  outcomeText,
} from "../format";
import { href, navigate } from "../route";
import { roundNumbers } from "../scale";
import { announce, Button, Empty, Table } from "../ui";
import { densityImage } from "./density";

export interface Chart {
  response: GetStudyChartResponse;
  isTime: boolean; // the axis is seconds, else evaluations
  isLog: boolean;
}

export interface Area {
  x?: [number, number];
  ns?: [number, number];
}

const HEIGHT = 340;
const FAILURE_ROW = 10;
const FAILURE_ROWS_MAX = 6;
const NEAR_PX = 12;
const FLAT_AXIS = 1.1; // the end of the axis of equal times, divided by that time
const levelDashes = [
  [7, 4],
  [2, 3],
  [10, 3, 2, 3],
  [4, 8],
];
const levelColours = ["--c2", "--c3", "--c4", "--c5"];
const failureColours = ["--bad", "--c4", "--c3", "--c5", "--c2", "--muted"];

function decode({ response, isLog }: Chart) {
  const bestX = decodeDoubles(response.bestX);
  const bestNs = decodeDoubles(response.bestNs);
  const isEmpty = bestX.length === 0;
  const low = isEmpty ? 1 : (response.yMinNs ?? 0);
  const most = isEmpty ? 2 : (response.yMaxNs ?? 0);
  // Equal times are in the middle of an axis of their own width.
  const isFlat = most < low * 1.000001;
  const high = isFlat ? low * FLAT_AXIS : most;
  // Levels a little below the times are worth a wider axis; those far away are named beside the chart only.
  const levels = response.levels ?? [];
  const near = levels.map((level) => level.timeNs ?? 0).filter((ns) => ns > 0 && ns >= low / 2 && ns < low);
  const scale = isLog ? Math.log2 : (ns: number) => ns;
  const bottom = scale(Math.min(isFlat ? low / FLAT_AXIS : low, ...near));
  const top = scale(high);
  return {
    bestX,
    bestNs,
    bestOrdinals: decodeInt64(response.bestOrdinals),
    pointX: decodeDoubles(response.pointX),
    pointNs: decodeDoubles(response.pointNs),
    pointOrdinals: decodeInt64(response.pointOrdinals),
    columns: response.columns ?? 0,
    rows: response.rows ?? 0,
    density: response.density ?? "",
    failures: (response.failures ?? []).map((each) => ({ ...each, byColumn: decodeUint32(each.counts) })),
    levels,
    xMin: response.xMin ?? 0,
    xMax: Math.max(response.xMax ?? 0, (response.xMin ?? 0) + 1e-9),
    low,
    high,
    bottom: bottom - (top - bottom) * 0.04,
    top: top + (top - bottom) * 0.02,
    isEmpty,
    scale,
    unscale: isLog ? (y: number) => 2 ** y : (y: number) => y,
  };
}
type Decoded = ReturnType<typeof decode>;

// Of failures alone there is a row of marks.
function heightOf(d: Decoded): number {
  return d.isEmpty ? 110 : HEIGHT;
}

function yTicks(d: Decoded, isLog: boolean, min: number, max: number): number[] {
  if (!isLog) return roundNumbers(min, max, 6);
  const [low, high] = [2 ** min, 2 ** max];
  const ticks: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const digit of high / low > 50 ? [1, 3] : [1, 1.5, 2, 3, 5, 7]) ticks.push(digit * power);
  const inside = ticks.filter((ns) => ns >= low && ns <= high);
  return (inside.length >= 3 ? inside : roundNumbers(low, high, 6)).map(d.scale);
}

// The colours of CSS variables, as the colour scheme has them now: read once, since reading computes styles.
const colours = new Map<string, string>();
function colour(variable: string): string {
  let value = colours.get(variable);
  if (!value) {
    value = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
    colours.set(variable, value);
  }
  return value;
}

export function SearchChart(props: {
  study: string;
  chart: Chart;
  onArea: (area: Area) => void; // dragged
  onPlace: (area: Area) => void; // clicked where no point is drawn: the trials there
  onOutcome: (outcome: OutcomeName) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLParagraphElement>(null);
  const plot = useRef<uPlot>();
  const image = useRef<{ of: Decoded; canvas: HTMLCanvasElement }>();
  const [recoloured, setRecoloured] = useState(0); // how often
  const step = useRef(-1); // the step of the best that the keyboard is at
  const d = useMemo(() => decode(props.chart), [props.chart]);
  const latest = useRef({ props, d });
  latest.current = { props, d };
  const { isTime } = props.chart;
  const place = (x: number) => (isTime ? duration(x * 1000) : `evaluation ${count(Math.round(x))}`);
  const open = (ordinal: number) => navigate(href(`${props.study}/trials/${ordinal}`));
  const say = (text: string) => {
    if (readout.current) readout.current.textContent = text;
  };

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const now = () => latest.current.d;
    const band = () => Math.min(FAILURE_ROWS_MAX, now().failures.length) * FAILURE_ROW;
    const font = "12px system-ui, sans-serif";
    const axis = (more: uPlot.Axis): uPlot.Axis => ({
      stroke: () => colour("--muted"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { stroke: () => colour("--line"), width: 1 },
      font,
      ...more,
    });
    const nearest = (u: uPlot): number => {
      const { pointX, pointNs, scale } = now();
      const { left = -1, top = -1 } = u.cursor;
      let found = -1;
      let least = NEAR_PX ** 2;
      for (let i = 0; i < pointX.length; i++) {
        const dx = u.valToPos(pointX[i]!, "x") - left;
        const dy = u.valToPos(scale(pointNs[i]!), "y") - top;
        const distance = dx * dx + dy * dy;
        if (distance < least) [found, least] = [i, distance];
      }
      return found;
    };
    const under = (u: uPlot) => {
      const data = now();
      const context = u.ctx;
      const ratio = devicePixelRatio;
      const { left, top, width, height } = u.bbox;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      if (data.pointX.length) {
        context.fillStyle = colour("--accent");
        context.globalAlpha = data.pointX.length > 1000 ? 0.45 : 0.75;
        const size = (data.pointX.length > 1000 ? 3 : 4.5) * ratio;
        for (let i = 0; i < data.pointX.length; i++) {
          const x = u.valToPos(data.pointX[i]!, "x", true);
          const y = Math.max(top + band() * ratio, u.valToPos(data.scale(data.pointNs[i]!), "y", true));
          context.fillRect(x - size / 2, y - size / 2, size, size);
        }
      } else if (data.columns && data.rows) {
        const canvas = image.current?.of === data && image.current.canvas;
        if (!canvas) return context.restore();
        const x = u.valToPos(data.xMin, "x", true);
        const y = u.valToPos(data.scale(data.high), "y", true);
        context.imageSmoothingEnabled = false;
        context.drawImage(
          canvas,
          x,
          y,
          u.valToPos(data.xMax, "x", true) - x,
          u.valToPos(data.scale(data.low), "y", true) - y,
        );
      }
      context.restore();
    };
    const over = (u: uPlot) => {
      const data = now();
      const context = u.ctx;
      const ratio = devicePixelRatio;
      const { left, top, width, height } = u.bbox;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      data.levels.forEach((level, i) => {
        const y = u.valToPos(data.scale(level.timeNs ?? 0), "y", true);
        context.beginPath();
        context.moveTo(left, y);
        context.lineTo(left + width, y);
        // On a ground of its own, so that it is seen on a density too.
        context.strokeStyle = colour("--back");
        context.lineWidth = 3.5 * ratio;
        context.setLineDash([]);
        context.stroke();
        context.strokeStyle = colour(levelColours[i % levelColours.length]!);
        context.lineWidth = 1.5 * ratio;
        context.setLineDash(levelDashes[i % levelDashes.length]!.map((each) => each * ratio));
        context.stroke();
      });
      context.setLineDash([]);
      data.failures.slice(0, FAILURE_ROWS_MAX).forEach((failure, row) => {
        context.fillStyle = colour(failureColours[row]!);
        const columns = failure.byColumn.length;
        const at = (column: number) =>
          u.valToPos(data.xMin + ((data.xMax - data.xMin) * (column + 0.5)) / columns, "x", true);
        // Columns beside each other are one mark: they are many, and each mark takes time to paint.
        for (let from = 0, end = 0; from < columns; from = end + 1) {
          for (end = from; failure.byColumn[end]; end++);
          if (end === from) continue;
          const x = at(from) - ratio;
          const width = at(end - 1) + ratio - x;
          context.fillRect(x, top + (row * FAILURE_ROW + 1) * ratio, width, (FAILURE_ROW - 2) * ratio);
        }
      });
      context.restore();
      const at = step.current;
      if (at < 0 || at >= data.bestX.length) return;
      context.strokeStyle = colour("--text");
      context.lineWidth = 2 * ratio;
      context.beginPath();
      context.arc(
        u.valToPos(data.bestX[at]!, "x", true),
        u.valToPos(data.scale(data.bestNs[at]!), "y", true),
        7 * ratio,
        0,
        7,
      );
      context.stroke();
    };
    const selected = (u: uPlot) => {
      const { left, top, width, height } = u.select;
      if (width <= 0 && height <= 0) return;
      const area: Area = {};
      if (width < u.over.clientWidth) area.x = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
      if (height < u.over.clientHeight)
        area.ns = [now().unscale(u.posToVal(top + height, "y")), now().unscale(u.posToVal(top, "y"))];
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      latest.current.props.onArea(area);
    };
    const u = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: heightOf(now()),
        legend: { show: false },
        padding: [6, 40, 0, 0],
        scales: {
          x: { time: false, range: () => [now().xMin, now().xMax] },
          y: {
            range: (self) => {
              const { bottom, top } = now();
              const plotHeight = (self.bbox?.height ?? 0) / devicePixelRatio || HEIGHT - 60;
              return [bottom, bottom + ((top - bottom) * plotHeight) / Math.max(50, plotHeight - band())];
            },
          },
        },
        axes: [
          axis({
            size: 32,
            values: (_, splits) =>
              splits.map((x) => (latest.current.props.chart.isTime ? duration(x * 1000) : count(x))),
            splits: (_, __, min, max) =>
              roundNumbers(min, max, Math.max(2, Math.min(8, (host.current?.clientWidth ?? 600) / 110))).filter(
                (x) => latest.current.props.chart.isTime || Number.isInteger(x),
              ),
          }),
          axis({
            size: 66,
            splits: (_, __, min, max) =>
              now().isEmpty ? [] : yTicks(now(), latest.current.props.chart.isLog, min, max),
            values: (_, splits) => splits.map((y) => nanoseconds(now().unscale(y))),
          }),
        ],
        series: [
          {},
          {
            stroke: () => colour("--c1"),
            width: 2,
            paths: uPlot.paths.stepped!({ align: 1 }),
            points: { show: false },
          },
        ],
        cursor: { y: true, points: { show: false }, drag: { x: true, y: true, uni: 30, dist: 5, setScale: false } },
        hooks: {
          drawAxes: [under],
          draw: [over],
          setSelect: [selected],
          setCursor: [
            (self) => {
              const { left = -1, top = -1 } = self.cursor;
              if (left < 0) return;
              const data = now();
              const i = nearest(self);
              if (i >= 0)
                say(`trial ${data.pointOrdinals[i]}: ${nanoseconds(data.pointNs[i])} at ${place(data.pointX[i]!)}`);
              else say(`${place(self.posToVal(left, "x"))}, ${nanoseconds(data.unscale(self.posToVal(top, "y")))}`);
            },
          ],
        },
      },
      [[], []],
      element,
    );
    plot.current = u;

    let pressed = [0, 0];
    u.over.addEventListener("mousedown", (event) => (pressed = [event.clientX, event.clientY]));
    u.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed[0]!) + Math.abs(event.clientY - pressed[1]!) > 4) return;
      const i = nearest(u);
      const data = now();
      if (i >= 0) return open(data.pointOrdinals[i]!);
      if (data.pointX.length) return;
      const { left = 0, top = 0 } = u.cursor;
      const ns = [top + 6, top - 6].map((y) => data.unscale(u.posToVal(y, "y")));
      latest.current.props.onPlace({ x: [u.posToVal(left - 6, "x"), u.posToVal(left + 6, "x")], ns: [ns[0]!, ns[1]!] });
    });
    const observer = new ResizeObserver(() => {
      const width = Math.max(200, element.clientWidth);
      if (width !== u.width) u.setSize({ width, height: heightOf(now()) });
    });
    observer.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => {
      colours.clear();
      setRecoloured((times) => times + 1);
    };
    scheme.addEventListener("change", recolour);
    return () => {
      scheme.removeEventListener("change", recolour);
      observer.disconnect();
      u.destroy();
    };
  }, []);

  const draw = () => {
    const last = d.bestNs.length - 1;
    const xs = [...d.bestX, ...(last >= 0 ? [d.xMax] : [])];
    const ys = [...d.bestNs, ...(last >= 0 ? [d.bestNs[last]!] : [])].map(d.scale);
    const height = heightOf(d);
    const u = plot.current;
    if (u && u.height !== height) u.setSize({ width: u.width, height });
    u?.setData(
      xs.length
        ? [xs, ys]
        : [
            [d.xMin, d.xMax],
            [null, null],
          ],
    );
  };

  useEffect(() => {
    if (d.pointX.length || !d.columns || !d.rows) return draw();
    let isWanted = true;
    void densityImage(d, colour("--accent"), () => isWanted).then((canvas) => {
      if (!canvas) return;
      image.current = { of: d, canvas };
      draw();
    });
    return () => {
      isWanted = false;
    };
  }, [d, recoloured]);

  const move = (event: KeyboardEvent) => {
    const last = d.bestX.length - 1;
    if (last < 0) return;
    if (event.key === "ArrowRight") step.current = Math.min(last, step.current + 1);
    else if (event.key === "ArrowLeft") step.current = step.current < 0 ? last : Math.max(0, step.current - 1);
    else if (event.key === "Enter" && step.current >= 0) return open(d.bestOrdinals[step.current]!);
    else return;
    event.preventDefault();
    const at = step.current;
    const text = `step ${at + 1} of ${last + 1}: ${nanoseconds(d.bestNs[at])} at ${place(d.bestX[at]!)}, trial ${d.bestOrdinals[at]}`;
    say(text);
    announce(text);
    plot.current?.redraw(false);
  };

  const failed = d.failures.reduce((sum, each) => sum + int(each.count), 0);
  const last = d.bestNs.length - 1;
  const sentence =
    (last < 0
      ? "No trial was measured"
      : `Best ${nanoseconds(d.bestNs[last])}, trial ${d.bestOrdinals[last]}, reached at ${place(d.bestX[last]!)} in ${last + 1} steps`) +
    (failed ? `; ${count(failed)} failed, most of them ${outcomeText(d.failures[0]?.outcome)}.` : "; none failed.");

  return (
    <figure>
      {last < 0 && <Empty>{failed ? "No trial was measured." : "No trial to draw."}</Empty>}
      <div
        ref={host}
        class="chart"
        hidden={last < 0 && !failed}
        role="group"
        tabIndex={0}
        aria-label={`Times of the search. ${sentence} Arrow keys go through the steps of the best, Enter opens a trial.`}
        onKeyDown={move}
      />
      <p ref={readout} class="readout muted">
        {last < 0 ? "" : "drag: filter, click: trial"}
      </p>
      <ul class="legend" aria-label="Legend">
        {last >= 0 && (
          <li>
            <Swatch fill="var(--accent)" /> {d.pointX.length ? "trials" : "density of trials"}
          </li>
        )}
        {last >= 0 && (
          <li>
            <Swatch stroke="var(--c1)" dash="" /> best so far {nanoseconds(d.bestNs[last])}
          </li>
        )}
        {d.levels.map((level, i) => {
          const y = d.scale(level.timeNs ?? 0);
          return (
            <li key={level.label}>
              <Swatch
                stroke={`var(${levelColours[i % levelColours.length]})`}
                dash={levelDashes[i % levelDashes.length]!.join(" ")}
              />{" "}
              {level.label} {nanoseconds(level.timeNs)}
              {(y < d.bottom || y > d.top) && <span class="muted"> (not on the axis)</span>}
            </li>
          );
        })}
        {d.failures.map((failure, i) => (
          <li key={failure.outcome}>
            {i < FAILURE_ROWS_MAX && <Swatch fill={`var(${failureColours[i]})`} />}{" "}
            <Button class="link" title="Only these" onClick={() => failure.outcome && props.onOutcome(failure.outcome)}>
              {outcomeText(failure.outcome)}
            </Button>{" "}
            {count(failure.count)}
          </li>
        ))}
      </ul>
      <AsTable>
        {() => (
          <>
            <p>{sentence}</p>
            <Table
              caption="Steps of the best"
              rows={[...d.bestX.keys()]}
              rowKey={(i) => i}
              empty="There is none."
              columns={[
                {
                  name: isTime ? "after" : "evaluation",
                  isNumber: true,
                  cell: (i) => (isTime ? duration(d.bestX[i]! * 1000) : count(d.bestX[i])),
                },
                { name: "time", isNumber: true, cell: (i) => nanoseconds(d.bestNs[i]) },
                {
                  name: "trial",
                  isNumber: true,
                  cell: (i) => <a href={href(`${props.study}/trials/${d.bestOrdinals[i]}`)}>{d.bestOrdinals[i]}</a>,
                },
              ]}
            />
          </>
        )}
      </AsTable>
    </figure>
  );
}

function Swatch(props: { fill?: string; stroke?: string; dash?: string }) {
  return (
    <svg class="swatch" width="22" height="10" aria-hidden="true">
      {props.fill ? (
        <rect x="6" y="0" width="10" height="10" fill={props.fill} />
      ) : (
        <line x1="0" x2="22" y1="5" y2="5" stroke={props.stroke} stroke-width="2" stroke-dasharray={props.dash} />
      )}
    </svg>
  );
}
