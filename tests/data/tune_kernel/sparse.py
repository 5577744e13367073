"""A sparse matrix (CSR) times a vector in C: integers that index memory, doubles, expressions in grid_div_x."""

import json

import numpy
from tunefarm import tune_kernel

kernel_string = """
void spmv(double *y, const int *rows, const int *cols, const double *vals, const double *x, int nrows) {
    for (int row = 0; row < nrows; row++) {
        double sums[unroll] = {};
        int i = rows[row];
        for (; i + unroll <= rows[row + 1]; i += unroll)
            for (int u = 0; u < unroll; u++) sums[u] += vals[i + u] * x[cols[i + u]];
        for (; i < rows[row + 1]; i++) sums[0] += vals[i] * x[cols[i]];
        double sum = 0;
        for (int u = 0; u < unroll; u++) sum += sums[u];
        y[row] = sum;
    }
}
"""

nrows, ncols = numpy.int32(200), 300
random = numpy.random.default_rng(1)
counts = random.integers(0, 20, nrows)
rows = numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int32)
cols = random.integers(0, ncols, rows[-1]).astype(numpy.int32)
vals = random.standard_normal(rows[-1])
x = random.standard_normal(ncols)
y = numpy.zeros(nrows)

expected = numpy.array([numpy.dot(vals[rows[row]:rows[row + 1]], x[cols[rows[row]:rows[row + 1]]]) for row in range(nrows)])

results, env = tune_kernel("spmv", kernel_string, nrows, [y, rows, cols, vals, x, nrows],
                           {"block_size_x": [32, 64], "unroll": [1, 2, 4]}, grid_div_x=["block_size_x/unroll"],
                           restrictions=["block_size_x/unroll >= 16"], answer=[expected] + 5 * [None], atol=1e-9,
                           strategy="genetic_algorithm", strategy_options={"max_fevals": 5, "popsize": 4})
print(json.dumps({"results": results, "env": env}))
