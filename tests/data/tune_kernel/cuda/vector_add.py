"""A vector sum in CUDA: no answer, metrics as functions and strings."""

import json
from collections import OrderedDict

import numpy
from tunefarm import tune_kernel

kernel_string = """
__global__ void vector_add(float *c, float *a, float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""

size = 1000000
a = numpy.random.randn(size).astype(numpy.float32)
b = numpy.random.randn(size).astype(numpy.float32)
c = numpy.zeros_like(b)
n = numpy.int32(size)

tune_params = OrderedDict()
tune_params["block_size_x"] = [32 * i for i in range(1, 33, 4)]

metrics = OrderedDict()
metrics["GFLOP/s"] = lambda p: (size / 1e9) / (p["time"] / 1000)
metrics["GB/s"] = f"({size}*4*3/1e9) / (time/1000)"

results, env = tune_kernel("vector_add", kernel_string, size, [c, a, b, n], tune_params, metrics=metrics)
print(json.dumps({"results": results, "env": env, "configs": 8}))
