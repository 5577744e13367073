"""One step of hopper_bringup.py, in this process: reads it from standard input as JSON, prints one line that begins with "ok"
or says what is wrong."""

import json
import sys

import numpy as np

from cuda_driver import Device
from hopper_definition import Definition

POISON = 0x7FA5  # A NaN in both types.
GUARD = 65536  # Elements in front of and behind an output.


def to_bits(values, dtype):
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def whole_numbers(generator, count, dtype):
    return to_bits(generator.integers(-2, 3, count), dtype)


def normal_numbers(generator, count, dtype):
    block = to_bits(generator.standard_normal(1 << 22, dtype=np.float32), dtype)
    return np.resize(block, count)


def first_difference(found, expected, columns):
    places = np.flatnonzero(found != expected)
    if places.size == 0:
        return ""
    rows = np.unique(places // columns)
    return "WRONG: %d of %d elements in %d rows, first at row %d column %d (%04x, not %04x), rows %s..." % (
        places.size, found.size, rows.size, places[0] // columns, places[0] % columns, found[places[0]], expected[places[0]],
        rows[:6].tolist())


class Kernel:
    def __init__(self, step):
        self.step = step
        self.definition = Definition(step["op"])
        self.values = self.definition.environment(step["problem"], step["config"])
        self.device = Device()
        with open(step["cubin"], "rb") as file:
            self.module = self.device.module(file.read())
        self.generator = np.random.default_rng(7)
        self.make_data()

    def make_data(self):
        v, device, dtype = self.values, self.device, self.step["dtype"]
        rows, experts, n, k = v["rows"], v["E"], v["N"], v["K"]
        sizes = self.step.get("sizes")
        if sizes is None:
            sizes = np.bincount(self.generator.integers(0, experts, rows), minlength=experts)
        self.sizes = np.asarray(sizes, np.int32)
        numbers = normal_numbers if self.step.get("timed") else whole_numbers
        x_rows = v["tokens"] if v["permute_x"] else rows
        lengths = {"x": x_rows * k, "w": experts * n * k, "dy": rows * n}
        outputs = {"forward": ("y", rows * n, n), "dx": ("dx", rows * k, k), "dw": ("dw", experts * n * k, k)}
        self.out_name, self.out_length, self.out_columns = outputs[self.step["op"]]
        needed = {"forward": "x w", "dx": "dy w", "dw": "dy x"}[self.step["op"]].split()
        self.pointers = {name: device.upload(numbers(self.generator, lengths[name], dtype)) for name in needed}
        self.pointers["m_sizes"] = device.upload(self.sizes)
        self.pointers["gather_indices"] = device.upload(self.generator.permutation(rows).astype(np.int32))
        self.pointers["topk_weights"] = device.upload(self.generator.random(rows, dtype=np.float32))
        self.allocation = device.allocate(2 * (self.out_length + 2 * GUARD))
        self.pointers[self.out_name] = self.allocation + 2 * GUARD
        self.scalars = {"row_count": rows, "experts": experts, "n": n, "k": k, "experts_per_token": v["topk"], "group_size_m": v["GROUP_SIZE_M"], "group_ends_flag": 0}

    def argument(self, name):
        if name in self.scalars:
            return ("i", int(self.scalars[name]))
        if name not in self.definition.maps:
            return ("p", self.pointers[name])
        buffer, dims, strides, box, swizzle = self.definition.maps[name]
        read = lambda texts: [eval(text, self.values) for text in texts]
        return self.device.tensor_map(self.step["dtype"], self.pointers[buffer], read(dims), read(strides), read(box), eval(swizzle, self.values))

    def prepare_launch(self):
        launch = self.definition.launch(self.values)
        function = self.device.function(self.module, "grouped_gemm_" + self.step["op"], launch["shared"])
        arguments = [self.argument(name) for name in launch["arguments"]]
        return lambda: self.device.launch(function, launch["grid"], launch["block"], launch["shared"], launch["cluster"], arguments)

    def output(self, run):
        self.device.fill(self.allocation, POISON, self.out_length + 2 * GUARD)
        run()
        self.device.synchronize()
        found = np.empty(self.out_length + 2 * GUARD, np.uint16)
        self.device.read(self.allocation, found)
        return found

    def reference(self):
        v, op, p = self.values, self.step["op"], self.pointers
        function = self.device.function(self.module, "grouped_gemm_%s_reference" % op)
        ceil = lambda a, b: -(-a // b)
        numbers = [("i", v["E"]), ("i", v["N"]), ("i", v["K"]), ("i", v["topk"]), ("i", 0)]
        row_blocks = (v["rows"] + min(v["E"], v["rows"]) * 63) // 64
        if op == "forward":
            grid, names = (ceil(v["N"], 64), row_blocks, 1), ["x", "w", "y", "m_sizes", "gather_indices", "topk_weights"]
        elif op == "dx":
            numbers = numbers[:3] + numbers[4:]
            grid, names = (ceil(v["K"], 64), row_blocks, 1), ["dy", "w", "dx", "m_sizes", "gather_indices"]
        else:
            grid, names, numbers = (ceil(v["K"], 64), ceil(v["N"], 64), v["E"]), ["dy", "x", "dw", "m_sizes", "gather_indices"], numbers[1:]
        self.device.launch(function, grid, (16, 16, 1), 0, 1, [("p", p[name]) for name in names] + numbers)

    def check(self):
        expected = self.output(self.reference)
        run = self.prepare_launch()
        for repeat in range(4):
            found = self.output(run)
            wrong = first_difference(found[GUARD:-GUARD], expected[GUARD:-GUARD], self.out_columns)
            if wrong:
                return wrong + (" (launch %d)" % repeat)
            if not (np.all(found[:GUARD] == POISON) and np.all(found[-GUARD:] == POISON)):
                return "WRONG: wrote outside of the output"
        return "ok"

    def time(self):
        device, run = self.device, self.prepare_launch()
        flush = device.allocate(1 << 28)
        times = []
        for repeat in range(13):
            device.fill(flush, repeat, 1 << 27)
            begin, end = device.event(), device.event()
            device.record(begin)
            run()
            device.record(end)
            times.append(device.elapsed_us(begin, end))
        median = sorted(times[3:])[5]
        v = self.values
        flops = 2.0 * v["rows"] * v["N"] * v["K"]
        floor = max(flops / 790e6, 2.0 * (v["rows"] * (v["N"] + v["K"]) + np.count_nonzero(self.sizes) * v["N"] * v["K"]) / 4.3e6)
        return "ok %8.1f us %6.1f TFLOP/s, %.2f of the floor %.0f us" % (median, flops / median / 1e6, floor / median, floor)


def probe(step):
    definition = Definition(step["op"])
    v = definition.environment(step["problem"], step["config"])
    device = Device()
    with open(step["cubin"], "rb") as file:
        module = device.module(file.read())
    generator = np.random.default_rng(3)
    dtype, op = step["dtype"], step["op"]
    rows, cols, depth = {"forward": "MNK", "dx": "MKN", "dw": "NKM"}[op]
    rows, cols, depth = (v["BLOCK_SIZE_" + axis] for axis in (rows, cols, depth))
    shared = 232448
    row_fast, row_slow = (rows, depth) if op == "dw" else (depth, rows)
    col_fast, col_slow = (depth, cols) if op == "forward" else (cols, depth)

    def function(name):
        return device.function(module, name, shared)

    if step["probe"] == "multiply":
        p, q = generator.integers(-2, 3, (row_slow, row_fast)), generator.integers(-2, 3, (col_slow, col_fast))
        out = device.upload(np.zeros(rows * cols, np.float32))
        device.launch(function("probe_multiply"), 1, 128, shared, 1,
                      [("p", device.upload(to_bits(p, dtype).ravel().copy())), ("p", device.upload(to_bits(q, dtype).ravel().copy())), ("p", out)])
        device.synchronize()
        found = np.empty((rows, cols), np.float32)
        device.read(out, found)
        expected = ((p.T if op == "dw" else p) @ (q.T if op == "forward" else q)).astype(np.float32)
        wrong = np.argwhere(found != expected)
        return "ok" if wrong.size == 0 else "WRONG: %d of %d, first at %s: %s not %s" % (
            len(wrong), found.size, wrong[0], found[tuple(wrong[0])], expected[tuple(wrong[0])])
    if step["probe"] == "load":
        return probe_load(step, definition, v, device, function("probe_load"), shared, (row_fast, row_slow, col_fast, col_slow), generator)
    if step["probe"] == "copy":
        source = to_bits(generator.integers(-99, 99, (row_slow, row_fast)), dtype)
        out = device.upload(np.zeros(row_slow * row_fast, np.uint16))
        device.launch(function("probe_copy"), 1, 128, shared, 1, [("p", device.upload(source)), ("p", out), ("i", row_slow - 3)])
        device.synchronize()
        found = np.empty_like(source)
        device.read(out, found)
        source[row_slow - 3:] = 0
        return first_difference(found.ravel(), source.ravel(), row_fast) or "ok"
    return probe_store(step, v, device, function("probe_store"), shared)


def probe_load(step, definition, v, device, function, shared, extents, generator):
    row_fast, row_slow, col_fast, col_slow = extents
    op, dtype, cluster = step["op"], step["dtype"], v["cluster_m"] * v["cluster_n"]
    experts = 3
    # Tensors that end inside of the tiles: 8 columns and 5 rows are outside and must come as zeros.
    row_tensor = to_bits(generator.integers(-99, 99, (2 * row_slow, row_fast + 56)), dtype)
    col_tensor = to_bits(generator.integers(-99, 99, (experts, 2 * col_slow - 5, col_fast + 56)), dtype)
    names = {"forward": ("x_map", "w_map"), "dx": ("dy_map", "w_map"), "dw": ("dy_map", "x_map")}[op]
    boxes = [[eval(text, v) for text in definition.maps[name][3]] for name in names]
    swizzles = [eval(definition.maps[name][4], v) for name in names]
    row_map = device.tensor_map(dtype, device.upload(row_tensor), [row_fast + 56, 2 * row_slow], [2 * (row_fast + 56)], boxes[0], swizzles[0])
    width = 2 * (col_fast + 56)
    if op == "dw":
        col_tensor = col_tensor[:1]
        col_map = device.tensor_map(dtype, device.upload(col_tensor), [col_fast + 56, 2 * col_slow - 5], [width], boxes[1], swizzles[1])
    else:
        col_map = device.tensor_map(dtype, device.upload(col_tensor), [col_fast + 56, 2 * col_slow - 5, experts], [width, width * (2 * col_slow - 5)],
                                    boxes[1], swizzles[1])
    size = row_fast * row_slow + col_fast * col_slow
    out = device.upload(np.zeros(size * cluster, np.uint16))
    at = (64, 7, 64, col_slow)
    expert = 0 if op == "dw" else 1
    for together in ([0, 1] if cluster > 1 else [0]):
        device.launch(function, cluster, 128, shared, cluster,
                      [row_map, col_map, ("p", out)] + [("i", value) for value in at] + [("i", expert), ("i", together)])
        device.synchronize()
        found = np.empty(size * cluster, np.uint16)
        device.read(out, found)

        def box(tensor, fast, slow, width, height):
            padded = np.pad(tensor, ((0, height), (0, width)))
            return padded[slow:slow + height, fast:fast + width].ravel()

        expected = np.concatenate([box(row_tensor, at[0], at[1], row_fast, row_slow),
                                   box(col_tensor[expert], at[2], at[3], col_fast, col_slow)])
        for rank in range(cluster):
            part = found[rank * size:(rank + 1) * size]
            wrong = first_difference(part, expected, 8)
            if wrong:
                return wrong + " block %d, %s (row tile has %d)" % (rank, "multicast" if together else "alone", row_fast * row_slow)
    return "ok"


def probe_store(step, v, device, function, shared):
    columns = v["slab_columns"]
    for rows in (16, 5):
        for cols in (columns, columns - 8):
            out_rows = 24
            out = device.upload(np.full(out_rows * cols, POISON, np.uint16))
            chunk = 64 if columns % 64 == 0 else 32
            out_map = device.tensor_map(step["dtype"], out, [cols, out_rows], [2 * cols], [chunk, 16], "128B" if chunk == 64 else "64B")
            device.launch(function, 1, 128, shared, 1, [out_map, ("p", out), ("i", rows), ("i", cols)])
            device.synchronize()
            found = np.empty(out_rows * cols, np.uint16)
            device.read(out, found)
            expected = np.full((out_rows, cols), POISON, np.uint16)
            full = to_bits_rounded(np.arange(16 * columns, dtype=np.float32), step["dtype"]).reshape(16, columns)
            expected[:rows] = full[:rows, :cols]
            wrong = first_difference(found, expected.ravel(), cols)
            if wrong:
                return wrong + " of %d rows, %d columns" % (rows, cols)
    return "ok"


def to_bits_rounded(values, dtype):
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def main():
    step = json.load(sys.stdin)
    if step["kind"] == "probe":
        print(probe(step))
        return
    kernel = Kernel(step)
    print(kernel.time() if step.get("timed") else kernel.check())


if __name__ == "__main__":
    main()
