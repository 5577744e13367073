"""A product of matrices in C, in tiles: restrictions as strings and as a function, no answer."""

import json
from collections import OrderedDict

import numpy
import tunefarm as kernel_tuner

kernel_string = """
extern "C" float matmul(float *C, const float *A, const float *B) {
    for (int i = 0; i < SIZE * SIZE; i++) C[i] = 0;
    for (int ii = 0; ii < SIZE; ii += tile_i)
        for (int kk = 0; kk < SIZE; kk += tile_k)
            for (int i = ii; i < ii + tile_i; i++)
                for (int k = kk; k < kk + tile_k; k++)
                    for (int j = 0; j < SIZE; j++) C[i * SIZE + j] += A[i * SIZE + k] * B[k * SIZE + j];
    return 0;
}
"""

size = 64
A = numpy.random.randn(size, size).astype(numpy.float32)
B = numpy.random.randn(size, size).astype(numpy.float32)
C = numpy.zeros_like(A)

tune_params = OrderedDict()
tune_params["tile_i"] = [1, 4, 16, 64]
tune_params["tile_k"] = [2, 8, 32]

restrict = ["tile_i >= tile_k", lambda p: p["tile_i"] * p["tile_k"] < 2048]

results, env = kernel_tuner.tune_kernel("matmul", kernel_string.replace("SIZE", str(size)), (size, size), [C, A, B],
                                        tune_params, grid_div_x=["tile_i"], grid_div_y=["tile_k"], restrictions=restrict,
                                        lang="C", compiler_options=["-O2"], verbose=True, iterations=3)
results.best.launch(C, A, B)
print(json.dumps({"results": results, "env": env, "launched": bool(numpy.allclose(C, A @ B, atol=1e-3))}))
