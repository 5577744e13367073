// Y = SiLU(X * gate^T) * (X * up^T) for each expert's rows, with gate and up in one W. See README.md.
#define GROUPED_GEMM_OP OP_FORWARD
#if !defined(gate_up_split) && !defined(gate_up_blocks)
#error "define gate_up_split or gate_up_blocks"
#endif
#include "baseline.cuh"
#include "hopper.cuh"
#include "reference.cuh"
#include "routing.cuh"
#include "silu.cuh"
