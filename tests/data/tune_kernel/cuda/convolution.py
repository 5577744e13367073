"""A convolution in CUDA: weights in constant memory, run_kernel for the answer, a restriction with "or"."""

import json
from collections import OrderedDict

import numpy
from tunefarm import run_kernel, tune_kernel

kernel_string = """
#define image_width 256
#define image_height 128
#define filter_width 5
#define filter_height 5
#define input_width (image_width + filter_width - 1)

#ifndef tile_size_x
#define tile_size_x 1
#endif
#ifndef use_padding
#define use_padding 0
#endif

__constant__ float d_filter[filter_height * filter_width];

__global__ void convolution_naive(float *output, float *input, float *filter) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= image_width || y >= image_height) return;
    float sum = 0;
    for (int i = 0; i < filter_height; i++)
        for (int j = 0; j < filter_width; j++) sum += input[(y + i) * input_width + x + j] * filter[i * filter_width + j];
    output[y * image_width + x] = sum;
}

__global__ void convolution_kernel(float *output, float *input) {
    int x = blockIdx.x * block_size_x * tile_size_x + threadIdx.x;
    int y = blockIdx.y * block_size_y + threadIdx.y;
    __shared__ float unused[use_padding * 32 + 1];
    unused[0] = 0;
    for (int t = 0; t < tile_size_x; t++, x += block_size_x) {
        if (x >= image_width || y >= image_height) return;
        float sum = 0;
        for (int i = 0; i < filter_height; i++) {
            #pragma unroll loop_unroll_factor_j
            for (int j = 0; j < filter_width; j++) sum += input[(y + i) * input_width + x + j] * d_filter[i * filter_width + j];
        }
        output[y * image_width + x] = sum;
    }
}
"""

problem_size = (256, 128)
input_image = numpy.random.randn(260 * 132).astype(numpy.float32)
filter_weights = numpy.random.randn(25).astype(numpy.float32)
output_image = numpy.zeros(256 * 128).astype(numpy.float32)

naive = OrderedDict(block_size_x=16, block_size_y=16)
reference = run_kernel("convolution_naive", kernel_string, problem_size, [output_image, input_image, filter_weights], naive,
                       grid_div_x=["block_size_x"], grid_div_y=["block_size_y"])
answer = [reference[0], None]

tune_params = OrderedDict()
tune_params["block_size_x"] = [16, 32, 48]
tune_params["block_size_y"] = [1, 4]
tune_params["tile_size_x"] = [1, 2]
tune_params["use_padding"] = [0, 1]
tune_params["loop_unroll_factor_j"] = [0, 5]

results, env = tune_kernel("convolution_kernel", kernel_string, problem_size, [output_image, input_image], tune_params,
                           grid_div_x=["block_size_x", "tile_size_x"], grid_div_y=["block_size_y"],
                           restrictions=["use_padding==0 or (block_size_x % 32 != 0)"], answer=answer, atol=1e-4,
                           cmem_args={"d_filter": filter_weights})
print(json.dumps({"results": results, "env": env, "configs": 40}))
