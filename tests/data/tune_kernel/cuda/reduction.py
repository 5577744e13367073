"""A sum in parts in CUDA: verify, problem_size as a string, no grid divisor, dynamic shared memory."""

import json
from collections import OrderedDict

import numpy
from tunefarm import tune_kernel

kernel_string = """
__global__ void sum_floats(float *sums, float *x, int n) {
    extern __shared__ float shared[];
    float sum = 0;
    for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n; i += block_size_x * num_blocks) sum += x[i];
    shared[threadIdx.x] = sum;
    for (int half = block_size_x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = shared[0];
}
"""

tune_params = OrderedDict()
tune_params["block_size_x"] = [64, 128, 256]
tune_params["num_blocks"] = [16, 64, 256]

size = 1000000
x = numpy.random.rand(size).astype(numpy.float32)
sum_x = numpy.zeros(256).astype(numpy.float32)
args = [sum_x, x, numpy.int32(size)]
reference = [numpy.sum(x), None, None]


def verify_partial_reduce(cpu_result, gpu_result, atol=None):
    return numpy.isclose(cpu_result[0], numpy.sum(gpu_result[0]), rtol=1e-4)


results, env = tune_kernel("sum_floats", kernel_string, "num_blocks", args, tune_params, grid_div_x=[], verbose=True,
                           answer=reference, verify=verify_partial_reduce,
                           smem_args={"size": lambda p: p["block_size_x"] * 4})
print(json.dumps({"results": results, "env": env, "configs": 9}))
