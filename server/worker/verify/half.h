#pragma once

/* Conversions between float and the 16-bit formats, by bits: round to nearest, ties to even; NaN stays NaN (quiet),
 * with the top bits of its payload. C, integers and unions only and without an include, so that the very same text
 * compiles as C++ and CUDA (NVRTC included), whatever instructions a target has: device code defines
 * TUNEFARM_HALF_FUNCTION to "static __device__ inline" first.
 */

#ifndef TUNEFARM_HALF_FUNCTION
#define TUNEFARM_HALF_FUNCTION static inline
#endif

union TunefarmFloatBits {
  float value;
  unsigned int bits;
};

TUNEFARM_HALF_FUNCTION unsigned int tunefarm_bits_of_float(float value) {
  union TunefarmFloatBits both;
  both.value = value;
  return both.bits;
}

TUNEFARM_HALF_FUNCTION float tunefarm_float_of_bits(unsigned int bits) {
  union TunefarmFloatBits both;
  both.bits = bits;
  return both.value;
}

/* IEEE binary16. */
TUNEFARM_HALF_FUNCTION unsigned short tunefarm_half_from_float(float value) {
  const unsigned int bits = tunefarm_bits_of_float(value);
  const unsigned int sign = (bits >> 16) & 0x8000u;
  const unsigned int magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (unsigned short)(sign | 0x7E00u | ((magnitude >> 13) & 0x1FFu)); /* NaN. */
  if (magnitude >= 0x477FF000u) return (unsigned short)(sign | 0x7C00u); /* 65520 and more round to infinity. */
  if (magnitude >= 0x38800000u) {                                        /* Normal in half: 2^-14 and more. */
    const unsigned int odd = (magnitude >> 13) & 1u;
    return (unsigned short)(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
  }
  if (magnitude <= 0x33000000u) return (unsigned short)sign; /* 2^-25 and less round to zero. */
  {
    /* Subnormal: shift the significand with its leading one to units of 2^-24. */
    const unsigned int shift = 126u - (magnitude >> 23);
    const unsigned int significand = (magnitude & 0x7FFFFFu) | 0x800000u;
    const unsigned int quotient = significand >> shift;
    const unsigned int rest = significand & ((1u << shift) - 1u);
    const unsigned int tie = 1u << (shift - 1u);
    const unsigned int up = rest > tie || (rest == tie && (quotient & 1u)) ? 1u : 0u;
    return (unsigned short)(sign | (quotient + up));
  }
}

TUNEFARM_HALF_FUNCTION float tunefarm_float_from_half(unsigned short encoded) {
  const unsigned int sign = ((unsigned int)encoded & 0x8000u) << 16;
  const unsigned int exponent = ((unsigned int)encoded >> 10) & 0x1Fu;
  unsigned int fraction = (unsigned int)encoded & 0x3FFu;
  if (exponent == 0x1Fu) return tunefarm_float_of_bits(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0u) return tunefarm_float_of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
  if (fraction == 0u) return tunefarm_float_of_bits(sign);
  {
    unsigned int normal_exponent = 113u;
    while ((fraction & 0x400u) == 0u) {
      fraction <<= 1;
      --normal_exponent;
    }
    return tunefarm_float_of_bits(sign | (normal_exponent << 23) | ((fraction & 0x3FFu) << 13));
  }
}

/* bfloat16: the upper half of a float. */
TUNEFARM_HALF_FUNCTION unsigned short tunefarm_bf16_from_float(float value) {
  const unsigned int bits = tunefarm_bits_of_float(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (unsigned short)((bits >> 16) | 0x40u);
  return (unsigned short)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

TUNEFARM_HALF_FUNCTION float tunefarm_float_from_bf16(unsigned short bf16) {
  return tunefarm_float_of_bits((unsigned int)bf16 << 16);
}
