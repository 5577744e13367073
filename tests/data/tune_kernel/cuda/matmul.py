"""A product of matrices in CUDA, in tiles of shared memory: restrictions, grid divisors in two directions."""

import json
from collections import OrderedDict

import numpy
import tunefarm as kernel_tuner

kernel_string = """
#define WIDTH 256

__global__ void matmul_kernel(float *C, float *A, float *B) {
    __shared__ float sA[block_size_y * tile_size_y][block_size_x];
    __shared__ float sB[block_size_x][block_size_x * tile_size_x];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * block_size_x * tile_size_x + tx;
    int y = blockIdx.y * block_size_y * tile_size_y + ty;
    float sum[tile_size_y][tile_size_x] = {};
    for (int k = 0; k < WIDTH; k += block_size_x) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
            sA[ty + block_size_y * i][tx] = A[(y + block_size_y * i) * WIDTH + k + tx];
            #pragma unroll
            for (int j = 0; j < tile_size_x; j++)
                sB[ty + block_size_y * i][tx + j * block_size_x] = B[(k + ty + block_size_y * i) * WIDTH + x + j * block_size_x];
        }
        __syncthreads();
        #pragma unroll
        for (int kb = 0; kb < block_size_x; kb++)
            for (int i = 0; i < tile_size_y; i++)
                for (int j = 0; j < tile_size_x; j++)
                    sum[i][j] += sA[ty + block_size_y * i][kb] * sB[kb][tx + j * block_size_x];
    }
    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++) C[(y + block_size_y * i) * WIDTH + x + block_size_x * j] = sum[i][j];
}
"""

problem_size = (256, 256)
A = numpy.random.randn(*problem_size).astype(numpy.float32)
B = numpy.random.randn(*problem_size).astype(numpy.float32)
C = numpy.zeros_like(A)

tune_params = OrderedDict()
tune_params["block_size_x"] = [16, 32]
tune_params["block_size_y"] = [2 ** i for i in range(6)]
tune_params["tile_size_x"] = [1, 2, 4]
tune_params["tile_size_y"] = [1, 2, 4]

grid_div_x = ["block_size_x", "tile_size_x"]
grid_div_y = ["block_size_y", "tile_size_y"]
restrict = ["block_size_x==block_size_y*tile_size_y"]
answer = [numpy.dot(A, B), None, None]

results, env = kernel_tuner.tune_kernel("matmul_kernel", kernel_string, problem_size, [C, A, B], tune_params,
                                        grid_div_y=grid_div_y, grid_div_x=grid_div_x, restrictions=restrict, verbose=True,
                                        iterations=32, answer=answer, atol=1e-3,
                                        metrics={"GFLOP/s": lambda p: (2 * 256**3 / 1e9) / (p["time"] / 1e3)})
print(json.dumps({"results": results, "env": env, "configs": 18}))
