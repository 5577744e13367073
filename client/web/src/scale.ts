// Scales of the page's SVG plots.

export interface Scale {
  from: number;
  to: number;
  at: (value: number) => number; // pixels
}

export function linearScale(from: number, to: number, start: number, end: number): Scale {
  const span = to - from || 1;
  return { from, to, at: (value) => start + ((value - from) / span) * (end - start) };
}

// `from` is above 0.
export function logScale(from: number, to: number, start: number, end: number): Scale {
  const span = Math.log(to / from) || 1;
  return { from, to, at: (value) => start + (Math.log(value / from) / span) * (end - start) };
}

// Round values between two positive ones for a logarithmic axis: powers of ten, and twice and five times these where
// there would be fewer than three.
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
  return powers.length >= 3 ? powers : values([1, 2, 5]);
}
