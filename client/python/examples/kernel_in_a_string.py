#!/usr/bin/env python3
"""Tunes a C++ kernel that stands in a string, and launches the winner. Needs no GPU."""

import numpy
from tunefarm import tune_kernel

code = """void scale(float* y, const float* x, float a, int n) {
  for (int i = 0; i < n; i += TILE) for (int j = i; j < i + TILE && j < n; j++) y[j] = a * x[j]; }"""
x, a, n = numpy.random.rand(100_000).astype("f4"), numpy.float32(3), numpy.int32(100_000)
y = numpy.zeros_like(x)
results, env = tune_kernel("scale", code, n, [y, x, a, n], {"TILE": [1, 4, 16, 64]}, answer=[a * x, None, None, None],
                           compiler_options=["-O3", "-march=native"])
results.best.launch(y, x, a, n)
print("right:", numpy.array_equal(y, a * x))
