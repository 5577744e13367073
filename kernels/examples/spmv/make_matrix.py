#!/usr/bin/env python3
"""Writes a sparse square matrix in CSR form as three .npy files, and prints how to tune with it. Needs no packages.

The matrix is that of a grid of WIDTH x WIDTH points with five-point differences, as simulations have it, where every
SPACING-th point has links to others far away, so that rows differ in length.
"""

import argparse
import array
import pathlib
import random
import sys


def save(file, code, numbers):
    """A one-dimensional array as .npy 1.0; `code`: "i" for int32, "f" for float32."""
    data = array.array(code, numbers)
    if sys.byteorder != "little":
        data.byteswap()
    header = f"{{'descr': '<{code}4', 'fortran_order': False, 'shape': ({len(data)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data.tobytes())


def rows_of_grid(width, spacing, links):
    """The elements of each row, as columns in ascending order with their values."""
    chance = random.Random(1)
    points = width * width
    for point in range(points):
        at_x, at_y = point % width, point // width
        row = {point: 4.0}
        for x, y in ((at_x - 1, at_y), (at_x + 1, at_y), (at_x, at_y - 1), (at_x, at_y + 1)):
            if 0 <= x < width and 0 <= y < width:
                row[y * width + x] = -1.0
        if point % spacing == 0:
            for other in chance.sample(range(points), min(links, points)):
                row.setdefault(other, -0.125)
        yield sorted(row.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--width", type=int, default=24, help="of the grid, in points (default 24)")
    parser.add_argument("--spacing", type=int, default=24, help="of points with links (default 24)")
    parser.add_argument("--links", type=int, default=24, help="of such a point (default 24)")
    options = parser.parse_args()
    row_starts, columns, values = [0], [], []
    for row in rows_of_grid(options.width, options.spacing, options.links):
        columns += [column for column, _ in row]
        values += [value for _, value in row]
        row_starts.append(len(columns))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, code, numbers in (("row_starts", "i", row_starts), ("columns", "i", columns), ("values", "f", values)):
        save(options.folder / f"{name}.npy", code, numbers)
    inputs = " ".join(f"--input {name}={options.folder}/{name}.npy" for name in ("row_starts", "columns", "values"))
    print(f"tunefarm tune spmv_host --dim rows={len(row_starts) - 1} --dim nonzeros={len(columns)} {inputs}")


if __name__ == "__main__":
    main()
