"""A vector sum in C: alignment to vectors, an answer, metrics as functions and strings."""

import json
from collections import OrderedDict

import numpy
from tunefarm import tune_kernel

kernel_string = """
#include <cmath>

float vector_add(float *c, float *a, float *b, int n) {
    int i = 0;
    for (; i + vecsize <= n; i += vecsize) {
        for (int j = 0; j < vecsize; j++) c[i + j] = a[i + j] + b[i + j];
    }
    for (; i < n; i++) c[i] = a[i] + b[i];
    return 0.0f;
}
"""

size = 100000
a = numpy.random.randn(size).astype(numpy.float32)
b = numpy.random.randn(size).astype(numpy.float32)
c = numpy.zeros_like(b)
n = numpy.int32(size)

tune_params = OrderedDict()
tune_params["vecsize"] = [1, 2, 4, 8]

metrics = OrderedDict()
metrics["GFLOP/s"] = lambda p: (size / 1e9) / (p["time"] / 1e3)
metrics["GB/s"] = f"({size}*4*3/1e9) / (time/1000)"

results, env = tune_kernel("vector_add", kernel_string, size, [c, a, b, n], tune_params, answer=[a + b, None, None, None],
                           compiler_options=["-O3"], metrics=metrics)
results.best.launch(c, a, b, n)
best = min(results, key=lambda result: result["time"])
print(json.dumps({"results": results, "env": env, "best": best, "launched": bool((c == a + b).all())}))
