// The density of trials as an image, made in short tasks.

// How many trials each cell has, row by row, the lowest times first.
export interface Density {
  columns: number;
  rows: number;
  density: Uint8Array;
}

const CELLS_AT_ONCE = 16_000; // what a slow processor colours in a few milliseconds

function nextTask(): Promise<void> {
  return new Promise((run) => setTimeout(run));
}

// `visit` gets rows, part by part, each in a task of its own; what follows is in another one. False: `isWanted` no more.
async function forRows(
  d: Density,
  isWanted: () => boolean,
  visit: (from: number, to: number) => void,
): Promise<boolean> {
  const atOnce = Math.ceil(CELLS_AT_ONCE / d.columns);
  for (let row = 0; row < d.rows; row += atOnce) {
    await nextTask();
    if (!isWanted()) return false;
    visit(row, Math.min(row + atOnce, d.rows));
  }
  await nextTask();
  return isWanted();
}

function rgb(hex: string): [number, number, number] {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// `colour`: of the fullest cell, as #rrggbb; at least one column. Null: `isWanted` no more. What is done with the image is
// in a task of its own.
export async function densityImage(
  d: Density,
  colour: string,
  isWanted: () => boolean,
): Promise<HTMLCanvasElement | null> {
  let most = 1;
  const isCounted = await forRows(d, isWanted, (from, to) => {
    for (let i = from * d.columns; i < to * d.columns; i++) if (d.density[i]! > most) most = d.density[i]!;
  });
  if (!isCounted) return null;
  const canvas = document.createElement("canvas");
  canvas.width = d.columns;
  canvas.height = d.rows;
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  const image = context.createImageData(d.columns, d.rows);
  const [red, green, blue] = rgb(colour);
  // A pixel as one number: red, green, blue and alpha in the order of bytes.
  const pixels = new Uint32Array(image.data.buffer);
  const colourOf = Uint32Array.from({ length: most + 1 }, (_, n) =>
    n === 0 ? 0 : red | (green << 8) | (blue << 16) | ((70 + (185 * n) / most) << 24),
  );
  const isColoured = await forRows(d, isWanted, (first, end) => {
    for (let row = first; row < end; row++) {
      // The lowest times are at the bottom.
      const from = row * d.columns;
      const to = (d.rows - 1 - row) * d.columns;
      for (let column = 0; column < d.columns; column++) pixels[to + column] = colourOf[d.density[from + column]!]!;
    }
  });
  if (!isColoured) return null;
  context.putImageData(image, 0, 0);
  await nextTask();
  return isWanted() ? canvas : null;
}
