"""A convolution in C in a file with a header: defines, run_kernel for the answer, a random sample, an objective."""

import json
import os
from collections import OrderedDict

import numpy
from tunefarm import run_kernel, tune_kernel

os.chdir(os.path.dirname(os.path.abspath(__file__)))

width, height, extent = 64, 32, 5
input_image = numpy.random.randn(height + extent - 1, width + extent - 1).astype(numpy.float32)
filter_weights = numpy.random.randn(extent * extent).astype(numpy.float32)
output_image = numpy.zeros((height, width), numpy.float32)
args = [output_image, input_image, filter_weights]

defines = {"image_width": width, "image_height": str(height), "filter_width": lambda p: extent, "filter_height": extent,
           "unroll": "unroll"}
common = dict(defines=defines, lang="C", compiler_options=["-O2"])

reference = run_kernel("convolution", "convolution.cc", (width, height), args, {"unroll": 1}, **common)
answer = [reference[0], None, None]

tune_params = OrderedDict(unroll=[1, 2, 4, 8, 16, 32])
metrics = OrderedDict()
metrics["GFLOP/s"] = lambda p: width * height * extent * extent * 2 / 1e9 / (p["time"] / 1e3)

results, env = tune_kernel("convolution", "convolution.cc", (width, height), args, tune_params, answer=answer, atol=1e-4,
                           strategy="random_sample", strategy_options={"max_fevals": 4}, seed=3, metrics=metrics,
                           objective="GFLOP/s", quiet=True, **common)
expected = sum(input_image[i:i + height, j:j + width] * filter_weights[i * extent + j]
               for i in range(extent) for j in range(extent))
print(json.dumps({"results": results, "env": env, "untouched": not output_image.any(),
                  "launched": bool(numpy.allclose(reference[0], expected, atol=1e-3))}))
