// Rate over arithmetic intensity of the best configs of a kernel on a device class, with the roofs that the floors of
// their problems imply.
import type { BestConfig } from "api";
import { flopRate, nanoseconds, number, percent } from "./format";
import { useWidth } from "./facts";
import { decades, logScale } from "./scale";

const HEIGHT = 340;
const LEFT = 64;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 42;
const CEILINGS = 4; // lines at most
const MOST_LINKS = 300; // points that are links

interface Point {
  best: BestConfig;
  intensity: number; // FLOP a byte
  rate: number; // FLOP/s
  roof: number; // FLOP/s at the floor
}

function pointsOf(bests: BestConfig[]): Point[] {
  return bests.flatMap((best) => {
    const ns = best.measurement?.medianNs;
    if (!best.flops || !best.bytes || !best.floorNs || !ns) return [];
    return [
      {
        best,
        intensity: best.flops / best.bytes,
        rate: (best.flops / ns) * 1e9,
        roof: (best.flops / best.floorNs) * 1e9,
      },
    ];
  });
}

// The rate of memory in bytes per second, as the floors that are nearest to it imply, and the highest rates of
// arithmetic: one for each unit that bounds a problem.
function roofsOf(points: Point[]): { memory: number; ceilings: number[] } {
  const memory = Math.max(...points.map((point) => point.roof / point.intensity));
  const ceilings: number[] = [];
  for (const point of points) {
    const isBoundByMemory = point.roof / point.intensity > memory * 0.99;
    if (isBoundByMemory || ceilings.some((known) => Math.abs(known / point.roof - 1) < 0.01)) continue;
    ceilings.push(point.roof);
  }
  return { memory, ceilings: ceilings.sort((a, b) => b - a).slice(0, CEILINGS) };
}

export function Roofline(props: { bests: BestConfig[]; href: (best: BestConfig) => string }) {
  const [ref, width] = useWidth<HTMLElement>();
  const points = pointsOf(props.bests);
  if (points.length === 0) {
    return (
      <p class="muted">No roofline: the definition declares no FLOPs and bytes, or the device's peaks are not known.</p>
    );
  }
  const { memory, ceilings } = roofsOf(points);
  const intensities = points.map((point) => point.intensity);
  const x = logScale(Math.min(...intensities) / 1.5, Math.max(...intensities) * 1.5, LEFT, width - RIGHT);
  const highest = Math.max(...points.map((point) => Math.max(point.roof, point.rate)));
  const y = logScale(Math.min(...points.map((point) => point.rate)) / 1.5, highest * 1.4, HEIGHT - BOTTOM, TOP);
  const top = ceilings[0] ?? highest;
  const knee = Math.min(x.to, top / memory);
  const slopeFrom = Math.max(x.from, y.from / memory);
  const low = Math.min(...points.map((point) => point.rate / point.roof));
  const high = Math.max(...points.map((point) => point.rate / point.roof));
  return (
    <figure class="plot" ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={
          `Roofline of ${points.length} best configs: between ${percent(low)} and ${percent(high)} of the roof. ` +
          "The table of best configs has the numbers."
        }
      >
        {decades(x.from, x.to).map((value) => (
          <g key={value}>
            <line class="grid-line" x1={x.at(value)} x2={x.at(value)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text class="tick" x={x.at(value)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
              {number(value)}
            </text>
          </g>
        ))}
        {decades(y.from, y.to).map((value) => (
          <g key={value}>
            <line class="grid-line" x1={LEFT} x2={width - RIGHT} y1={y.at(value)} y2={y.at(value)} />
            <text class="tick" x={LEFT - 6} y={y.at(value) + 4} text-anchor="end">
              {flopRate(value, 1e9).replace("FLOP/s", "")}
            </text>
          </g>
        ))}
        <text class="tick" x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">
          FLOP per byte
        </text>
        <text
          class="tick"
          x={14}
          y={HEIGHT / 2 - 10}
          text-anchor="middle"
          transform={`rotate(-90 14 ${HEIGHT / 2 - 10})`}
        >
          FLOP/s
        </text>
        {slopeFrom < knee && (
          <line
            class="roof"
            x1={x.at(slopeFrom)}
            y1={y.at(slopeFrom * memory)}
            x2={x.at(knee)}
            y2={y.at(knee * memory)}
          />
        )}
        {ceilings.map((rate) => (
          <line
            key={rate}
            class="roof"
            x1={x.at(Math.max(x.from, rate / memory))}
            x2={x.at(x.to)}
            y1={y.at(rate)}
            y2={y.at(rate)}
          />
        ))}
        {points.length > MOST_LINKS && (
          <path
            class="dots"
            d={points.map((point) => `M${x.at(point.intensity).toFixed(1)} ${y.at(point.rate).toFixed(1)}h0`).join("")}
          />
        )}
        {points.length <= MOST_LINKS &&
          points.map((point) => (
            <a key={`${point.best.programDigest} ${point.best.problem?.key}`} href={props.href(point.best)}>
              <circle class="point" cx={x.at(point.intensity)} cy={y.at(point.rate)} r="4">
                <title>
                  {`${point.best.problem?.key}: ${nanoseconds(point.best.measurement?.medianNs)}, ` +
                    `${flopRate(point.rate, 1e9)}, ${percent(point.rate / point.roof)} of the roof`}
                </title>
              </circle>
            </a>
          ))}
      </svg>
      <figcaption class="muted">
        Each point is a best config; the lines are the roofs that the floors of the problems imply.
      </figcaption>
    </figure>
  );
}
