// Scales of the page's SVG plots.

export interface Scale {
  from: number;
  to: number;
  at: (value: number) => number; // pixels
}

export function linearScale(from: number, to: number, start: number, end: number): Scale {
  const span = to - from;
  return { from, to, at: (value) => start + (span ? (value - from) / span : 0.5) * (end - start) };
}

// `from` is above 0 and below `to`.
export function logScale(from: number, to: number, start: number, end: number): Scale {
  const span = Math.log(to / from);
  return { from, to, at: (value) => start + (Math.log(value / from) / span) * (end - start) };
}

// About `wanted` round numbers from min to max.
export function roundNumbers(min: number, max: number, wanted: number): number[] {
  const raw = (max - min) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10) * power;
  const out: number[] = [];
  for (let i = Math.ceil(min / step); i * step <= max && out.length < 100; i++) out.push(i * step);
  return out;
}

// Round values between two positive ones for a logarithmic axis: powers of ten, and twice and five times these where
// there would be fewer than three; on a narrow axis, round numbers at equal distances.
export function decades(from: number, to: number): number[] {
  const values = (steps: number[]) => {
    const all: number[] = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= from && value <= to) all.push(value);
      }
    }
    return all;
  };
  const powers = values([1]);
  if (powers.length >= 3) return powers;
  const more = values([1, 2, 5]);
  return more.length >= 2 ? more : roundNumbers(from, to, 4);
}
