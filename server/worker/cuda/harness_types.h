#pragma once

/* What the host passes by value to the kernels of harness.cu. C without an include: the same text compiles as C++ and
 * CUDA. */

/* Two buffers to be compared by the rules of server/worker/verify/compare.h. */
struct TunefarmComparison {
  const unsigned char* actual;
  const unsigned char* expected;
  unsigned long long elements;
  /* What the two buffers held before their launch sequences, if has_poison and expected_has_poison. */
  unsigned long long actual_poison;
  unsigned long long expected_poison;
  double atol;
  double rtol;
  double catastrophic_error;
  int type; /* tunefarm.v1.DataType */
  int has_poison;
  int has_catastrophic;
  int expected_has_poison;
};

/* Non-negative doubles order like their bits. */
struct TunefarmComparisonResult {
  unsigned long long mismatches;
  unsigned long long hard_mismatches;
  unsigned long long max_absolute_error_bits;
  unsigned long long max_relative_error_bits;
  unsigned long long first_bad_row;
};

/* Elements that share one count of mismatches. */
#define TUNEFARM_CHUNK_ELEMENTS 65536ull
#define TUNEFARM_NO_INDEX 0xFFFFFFFFFFFFFFFFull
