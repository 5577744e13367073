"""A sum in parts in C, whose output has another form for each config: verify, problem_size as a string."""

import json
from collections import OrderedDict

import numpy
from tunefarm import tune_kernel

kernel_string = """
extern "C" float sum_floats(float *sums, const float *x, int n) {
    for (int part = 0; part < num_blocks; part++) {
        float sum = 0;
        for (int i = part; i < n; i += num_blocks) sum += x[i];
        sums[part] = wrong && part > 0 ? 1e6f : sum;
    }
    return 0;
}
"""

size = 20000
x = numpy.random.rand(size).astype(numpy.float32)
sums = numpy.zeros(8).astype(numpy.float32)

tune_params = OrderedDict(num_blocks=[1, 2, 4, 8], wrong=[0, 1])

reference = [numpy.sum(x), None, None]


def verify_partial_reduce(cpu_result, gpu_result, atol=None):
    return numpy.isclose(cpu_result[0], numpy.sum(gpu_result[0]), rtol=atol)


results, env = tune_kernel("sum_floats", kernel_string, "num_blocks", [sums, x, numpy.int32(size)], tune_params,
                           grid_div_x=[], restrictions=lambda num_blocks, wrong: num_blocks == 8 or not wrong,
                           answer=reference, verify=verify_partial_reduce, atol=1e-3, measure={"finalists": 8})
print(json.dumps({"results": results, "env": env, "failed": results.failed, "best": dict(results.best)}))
