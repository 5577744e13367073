// The samples of a measurement in the order in which they were taken, with the median and its interval.
import type { Measurement } from "api";
import { AsTable, useWidth } from "./facts";
import { nanoseconds } from "./format";
import { linearScale } from "./scale";
import { Table } from "./ui";

const HEIGHT = 120;
const LEFT = 66;
const BOTTOM = 20;
const TOP = 8;

export function SamplePlot(props: { measurement: Measurement }) {
  const [ref, width] = useWidth<HTMLElement>();
  const { sampleNs: samples = [], medianNs: median = 0, ciLowNs: low = 0, ciHighNs: high = 0 } = props.measurement;
  const least = samples.reduce((a, b) => Math.min(a, b), low);
  const most = samples.reduce((a, b) => Math.max(a, b), high);
  const x = linearScale(0, samples.length - 1, LEFT + 4, width - 8);
  const y = linearScale(least, most, HEIGHT - BOTTOM, TOP);
  const dots = samples.map((ns, i) => `M${x.at(i).toFixed(1)} ${y.at(ns).toFixed(1)}h0`).join("");
  return (
    <figure class="plot" ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={
          `${samples.length} samples from ${nanoseconds(least)} to ${nanoseconds(most)}; ` +
          `median ${nanoseconds(median)}, 95 % interval ${nanoseconds(low)} to ${nanoseconds(high)}.`
        }
      >
        <rect
          class="interval"
          x={LEFT}
          width={Math.max(0, width - LEFT)}
          y={y.at(high)}
          height={Math.max(1, y.at(low) - y.at(high))}
        />
        <line class="median" x1={LEFT} x2={width} y1={y.at(median)} y2={y.at(median)} />
        <path class="dots" d={dots} />
        <text class="tick" x={LEFT - 6} y={TOP + 6} text-anchor="end">
          {nanoseconds(most)}
        </text>
        <text class="tick" x={LEFT - 6} y={HEIGHT - BOTTOM} text-anchor="end">
          {nanoseconds(least)}
        </text>
        <text class="tick" x={LEFT} y={HEIGHT - 4}>
          sample 1
        </text>
        <text class="tick" x={width} y={HEIGHT - 4} text-anchor="end">
          {samples.length}
        </text>
      </svg>
      <AsTable>
        {() => (
          <Table
            caption="Samples"
            hidesCaption
            rows={samples.map((ns, i) => ({ ns, number: i + 1 }))}
            rowKey={(row) => row.number}
            columns={[
              { name: "sample", isNumber: true, cell: (row) => row.number },
              { name: "ns", isNumber: true, cell: (row) => row.ns.toFixed(1) },
            ]}
          />
        )}
      </AsTable>
    </figure>
  );
}
