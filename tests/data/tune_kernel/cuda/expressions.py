"""A sparse matrix (CSR) times a vector in CUDA: expressions and functions in divisors and sizes, own names of blocks."""

import json
import math
from collections import OrderedDict

import numpy
from tunefarm import tune_kernel

kernel_string = """
template <typename T, int per_row>
__global__ void spmv_kernel(T *y, const int *rows, const int *cols, const T *vals, const T *x, int nrows) {
    int row = (blockIdx.x * threads + threadIdx.x) / per_row;
    int lane = threadIdx.x % per_row;
    T sum = 0;
    if (row < nrows) {
        for (int i = rows[row] + lane; i < rows[row + 1]; i += per_row) sum += vals[i] * x[cols[i]];
    }
    for (int offset = per_row / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset, per_row);
    if (row < nrows && lane == 0) y[row] = sum;
}
"""

nrows, ncols = numpy.int32(3000), 2000
random = numpy.random.default_rng(2)
counts = random.integers(0, 60, nrows)
rows = numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int32)
cols = random.integers(0, ncols, rows[-1]).astype(numpy.int32)
vals = random.standard_normal(rows[-1]).astype(numpy.float32)
x = random.standard_normal(ncols).astype(numpy.float32)
y = numpy.zeros(nrows).astype(numpy.float32)
expected = numpy.array([numpy.dot(vals[rows[row]:rows[row + 1]], x[cols[rows[row]:rows[row + 1]]]) for row in range(nrows)])

tune_params = OrderedDict()
tune_params["threads"] = [64, 128, 256]
tune_params["threads_per_row"] = [1, 8, 32]

common = dict(answer=[expected] + 5 * [None], atol=1e-3, block_size_names=["threads"], quiet=True,
              restrictions=lambda p: p["threads"] >= 128 or p["threads_per_row"] < 32)
arguments = [y, rows, cols, vals, x, nrows]
name = "spmv_kernel<float, threads_per_row>"
results, env = tune_kernel(name, kernel_string, nrows, arguments, tune_params, grid_div_x=["threads/threads_per_row"], **common)
other, _ = tune_kernel(name, kernel_string, lambda p: (int(nrows) * p["threads_per_row"],), arguments, tune_params,
                       grid_div_x=lambda p: math.ceil(p["threads"] / 1), **common)
print(json.dumps({"results": results, "env": env, "configs": 8, "others": len(other)}))
