// Y = X * W^T for each expert's rows, with operands in fp8 and block scales. See README.md.
#define GROUPED_GEMM_OP OP_FORWARD
#if !defined(dtype_fp8)
#error "define dtype_fp8"
#endif
#include "hopper.cuh"
#include "quantize.cuh"
#include "reference.cuh"
#include "routing.cuh"
