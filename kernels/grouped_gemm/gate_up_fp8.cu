// Y = SiLU(X * gate^T) * (X * up^T) for each expert's rows, of operands in fp8 with block scales, and in fp8 with block
// scales again. See README.md.
#define GROUPED_GEMM_OP OP_FORWARD
#define quantize_y 1
#if !defined(dtype_fp8) || (!defined(gate_up_split) && !defined(gate_up_blocks))
#error "define dtype_fp8, and gate_up_split or gate_up_blocks"
#endif
#include "hopper.cuh"
#include "quantize.cuh"
#include "reference.cuh"
#include "routing.cuh"
