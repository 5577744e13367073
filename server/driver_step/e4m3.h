#pragma once

/* OCP FP8 E4M3 (F8E4M3 of tunefarm.v1.DataType): 1 sign bit, 4 bits of exponent with the bias 7, 3 bits of fraction. No
 * infinities; all bits but the sign set is NaN. The largest finite value is 448 (0x7E), the smallest normal one 2^-6
 * (0x08), the smallest subnormal one 2^-9 (0x01).
 *
 * Conversions round once, to nearest, ties to even, and saturate: magnitudes above 448, and infinity, become 448. NaN
 * stays NaN with its sign. C, integers and unions only and without an include, so that the very same text compiles as
 * C++ and CUDA (NVRTC included), whatever instructions a target has: device code defines TUNEFARM_E4M3_FUNCTION to
 * "static __device__ inline" first.
 */

#ifndef TUNEFARM_E4M3_FUNCTION
#define TUNEFARM_E4M3_FUNCTION static inline
#endif

union TunefarmE4m3Double {
  double value;
  unsigned long long bits;
};

union TunefarmE4m3Float {
  float value;
  unsigned int bits;
};

/* Every float is a double, so that this is the conversion of floats too. */
TUNEFARM_E4M3_FUNCTION unsigned char tunefarm_e4m3_from_double(double value) {
  union TunefarmE4m3Double both;
  both.value = value;
  {
    const unsigned int sign = (unsigned int)(both.bits >> 56) & 0x80u;
    const unsigned long long magnitude = both.bits & 0x7FFFFFFFFFFFFFFFull;
    if (magnitude > 0x7FF0000000000000ull) return (unsigned char)(sign | 0x7Fu);  /* NaN. */
    if (magnitude >= 0x407C000000000000ull) return (unsigned char)(sign | 0x7Eu); /* 448 and more. */
    if (magnitude >= 0x3F90000000000000ull) {                                     /* Normal in e4m3: 2^-6 and more. */
      /* 1016 less in the exponent: its bias is 1023 in a double. A carry into the next binade comes out right. */
      const unsigned long long odd = (magnitude >> 49) & 1ull;
      const unsigned long long rounded = magnitude - 0x3F80000000000000ull + 0xFFFFFFFFFFFFull + odd;
      return (unsigned char)(sign | (unsigned int)(rounded >> 49));
    }
    if (magnitude <= 0x3F50000000000000ull) return (unsigned char)sign; /* 2^-10 and less round to zero. */
    {
      /* Subnormal: shift the significand with its leading one to units of 2^-9. */
      const unsigned int shift = 1066u - (unsigned int)(magnitude >> 52);
      const unsigned long long significand = (magnitude & 0xFFFFFFFFFFFFFull) | 0x10000000000000ull;
      const unsigned long long quotient = significand >> shift;
      const unsigned long long rest = significand & ((1ull << shift) - 1ull);
      const unsigned long long tie = 1ull << (shift - 1u);
      const unsigned int up = rest > tie || (rest == tie && (quotient & 1ull) != 0ull) ? 1u : 0u;
      return (unsigned char)(sign | ((unsigned int)quotient + up));
    }
  }
}

TUNEFARM_E4M3_FUNCTION unsigned char tunefarm_e4m3_from_float(float value) {
  return tunefarm_e4m3_from_double((double)value);
}

/* Exact. */
TUNEFARM_E4M3_FUNCTION float tunefarm_float_from_e4m3(unsigned char encoded) {
  const unsigned int exponent = ((unsigned int)encoded >> 3) & 0xFu;
  const unsigned int fraction = (unsigned int)encoded & 7u;
  union TunefarmE4m3Float both;
  if ((encoded & 0x7Fu) == 0x7Fu) {
    both.bits = 0x7FC00000u;
  } else if (exponent == 0u) {
    both.value = (float)fraction * 0.001953125f; /* 2^-9 */
  } else {
    both.bits = ((exponent + 120u) << 23) | (fraction << 20); /* The bias of a float is 127. */
  }
  both.bits |= ((unsigned int)encoded & 0x80u) << 24;
  return both.value;
}
