// The density of trials as an image, made in short tasks.

// How many trials each cell has, a byte each, row by row, the lowest times first.
export interface Density {
  columns: number;
  rows: number;
  density: string; // base64
}

// What a slow processor decodes or colours in a few milliseconds. Three bytes are four characters of base64.
const CELLS_AT_ONCE = 15_999;

function nextTask(): Promise<void> {
  return new Promise((run) => setTimeout(run));
}

// `visit` gets numbers from 0 to `count`, at most `atOnce` of them, each part in a task of its own; what follows is in
// another one. False: `isWanted` no more.
async function forParts(
  count: number,
  atOnce: number,
  isWanted: () => boolean,
  visit: (from: number, to: number) => void,
): Promise<boolean> {
  for (let from = 0; from < count; from += atOnce) {
    await nextTask();
    if (!isWanted()) return false;
    visit(from, Math.min(from + atOnce, count));
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
  const cells = new Uint8Array(d.columns * d.rows);
  let most = 1;
  const isDecoded = await forParts(cells.length, CELLS_AT_ONCE, isWanted, (from, to) => {
    const bytes = atob(d.density.slice((from / 3) * 4, Math.ceil(to / 3) * 4));
    for (let i = 0; i < bytes.length; i++) {
      const trials = (cells[from + i] = bytes.charCodeAt(i));
      if (trials > most) most = trials;
    }
  });
  if (!isDecoded) return null;
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
  const isColoured = await forParts(d.rows, Math.ceil(CELLS_AT_ONCE / d.columns), isWanted, (first, end) => {
    for (let row = first; row < end; row++) {
      // The lowest times are at the bottom.
      const from = row * d.columns;
      const to = (d.rows - 1 - row) * d.columns;
      for (let column = 0; column < d.columns; column++) pixels[to + column] = colourOf[cells[from + column]!]!;
    }
  });
  if (!isColoured) return null;
  context.putImageData(image, 0, 0);
  await nextTask();
  return isWanted() ? canvas : null;
}
