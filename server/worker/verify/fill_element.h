#pragma once

/* The content of one element of an input buffer, as a pure function of (seed, buffer, index). C without an include, so
 * that the very same text compiles as C++ on the host and as CUDA (NVRTC): paste server/base/philox.h,
 * server/driver_step/e4m3.h and half.h before it and define TUNEFARM_FILL_FUNCTION to "static __device__ inline".
 * Compile it without contraction of a*b+c (-ffp-contract=off, --fmad=false): then zeros, constant, uniform and iota are
 * the same bits everywhere; normal differs by what the platforms' logf and cosf differ. Stored results depend on these
 * numbers: they must never change.
 *
 * Random words: element i takes two words of Philox block i / 2, the first pair if i is even, the second if it is odd.
 * counter = {low, high of (i / 2), low, high of stream}, key = {low, high of seed}, where stream is FNV-1a (64 bits) of
 * the buffer's name. Of the two words w0 and w1,
 *
 * - uniform floats are low + (high - low) * u with u = ((w1 * 2^32 + w0) >> 11) * 2^-53, in double, each operation
 *   rounded, then converted to the element type; a result that rounding lifted to `high` is the next value below.
 *
 * - uniform integers are range_low + floor((w1 * 2^32 + w0) * range_span / 2^64), range_span 0 standing for 2^64.
 *
 * - normal is mean + deviation * (sqrt(-2 log(u1)) * cos(2 pi u2)) with u1 = ((w0 >> 8) + 1) * 2^-24 and
 *   u2 = (w1 >> 8) * 2^-24, in float.
 *
 * - iota is start + i * step in double, then converted.
 *
 * Conversion of a double to an integer type: toward zero, NaN is 0, clamped to 64 bits (signed unless the type is u64),
 * then the low bits. To f16 and bf16: by way of float. To f8e4m3: at once, and what is beyond 448 is 448.
 */

#ifndef TUNEFARM_FILL_FUNCTION
#define TUNEFARM_FILL_FUNCTION static inline
#endif
#ifndef TUNEFARM_FILL_LOGF
#define TUNEFARM_FILL_LOGF logf
#define TUNEFARM_FILL_SQRTF sqrtf
#define TUNEFARM_FILL_COSF cosf
#endif

enum TunefarmFillKind {
  kTunefarmFillConstant = 0, /* first; also zeros */
  kTunefarmFillNormal = 1,   /* first: mean, second: deviation */
  kTunefarmFillUniform = 2,  /* first: low, second: high (floats) */
  kTunefarmFillIota = 3      /* first: start, second: step */
};

/* The numbers are those of tunefarm.v1.DataType. */
enum TunefarmFillType {
  kTunefarmI8 = 1,
  kTunefarmU8 = 2,
  kTunefarmI16 = 3,
  kTunefarmU16 = 4,
  kTunefarmI32 = 5,
  kTunefarmU32 = 6,
  kTunefarmI64 = 7,
  kTunefarmU64 = 8,
  kTunefarmF16 = 9,
  kTunefarmBf16 = 10,
  kTunefarmF32 = 11,
  kTunefarmF64 = 12,
  kTunefarmF8E4M3 = 14
};

/* Passed by value to a device kernel: fixed layout, no pointers. */
struct TunefarmFill {
  unsigned long long seed;
  unsigned long long stream;
  unsigned long long range_low;  /* uniform integers, two's complement */
  unsigned long long range_span; /* number of values; 0: 2^64 */
  double first;
  double second;
  int kind;
  int type;
};

union TunefarmDoubleBits {
  double value;
  unsigned long long bits;
};

TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_bits_of_double(double value) {
  union TunefarmDoubleBits both;
  both.value = value;
  return both.bits;
}

TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_integer_of_double(double value, int type) {
  if (!(value == value)) return 0ull;
  if (type == kTunefarmU64) {
    if (value <= 0.0) return 0ull;
    return value >= 18446744073709551616.0 ? 0xFFFFFFFFFFFFFFFFull : (unsigned long long)value;
  }
  if (value >= 9223372036854775808.0) return 0x7FFFFFFFFFFFFFFFull;
  if (value <= -9223372036854775808.0) return 0x8000000000000000ull;
  return (unsigned long long)(long long)value;
}

/* The element's bits in the low bytes; what is above them is not zero for negative integers. */
TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_element_of_double(double value, int type) {
  if (type == kTunefarmF64) return tunefarm_bits_of_double(value);
  if (type == kTunefarmF32) return tunefarm_bits_of_float((float)value);
  if (type == kTunefarmF16) return tunefarm_half_from_float((float)value);
  if (type == kTunefarmBf16) return tunefarm_bf16_from_float((float)value);
  if (type == kTunefarmF8E4M3) return tunefarm_e4m3_from_double(value);
  return tunefarm_integer_of_double(value, type);
}

/* The next value below, of a float element that is no NaN and not the smallest. */
TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_element_below(unsigned long long bits, int type) {
  const unsigned long long sign = type == kTunefarmF64      ? 0x8000000000000000ull
                                  : type == kTunefarmF32    ? 0x80000000ull
                                  : type == kTunefarmF8E4M3 ? 0x80ull
                                                            : 0x8000ull;
  if ((bits & ~sign) == 0ull) return sign | 1ull;
  return (bits & sign) != 0ull ? bits + 1ull : bits - 1ull;
}

TUNEFARM_FILL_FUNCTION double tunefarm_double_of_element(unsigned long long bits, int type) {
  if (type == kTunefarmF64) {
    union TunefarmDoubleBits both;
    both.bits = bits;
    return both.value;
  }
  if (type == kTunefarmF32) return (double)tunefarm_float_of_bits((unsigned int)bits);
  if (type == kTunefarmF16) return (double)tunefarm_float_from_half((unsigned short)bits);
  if (type == kTunefarmBf16) return (double)tunefarm_float_from_bf16((unsigned short)bits);
  if (type == kTunefarmF8E4M3) return (double)tunefarm_float_from_e4m3((unsigned char)bits);
  if (type == kTunefarmI8) return (double)(signed char)bits;
  if (type == kTunefarmU8) return (double)(unsigned char)bits;
  if (type == kTunefarmI16) return (double)(short)bits;
  if (type == kTunefarmU16) return (double)(unsigned short)bits;
  if (type == kTunefarmI32) return (double)(int)bits;
  if (type == kTunefarmU32) return (double)(unsigned int)bits;
  if (type == kTunefarmI64) return (double)(long long)bits;
  return (double)bits;
}

/* High 64 bits of a * b, from 32-bit halves: __int128 and __umul64hi are not everywhere. */
TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_multiply_high(unsigned long long a, unsigned long long b) {
  const unsigned long long a0 = a & 0xFFFFFFFFull, a1 = a >> 32;
  const unsigned long long b0 = b & 0xFFFFFFFFull, b1 = b >> 32;
  const unsigned long long middle = a1 * b0 + ((a0 * b0) >> 32);
  const unsigned long long cross = (middle & 0xFFFFFFFFull) + a0 * b1;
  return a1 * b1 + (middle >> 32) + (cross >> 32);
}

TUNEFARM_FILL_FUNCTION unsigned long long tunefarm_random_element(const struct TunefarmFill* fill, unsigned int w0,
                                                                  unsigned int w1) {
  const unsigned long long word = ((unsigned long long)w1 << 32) | w0;
  if (fill->kind == kTunefarmFillNormal) {
    const float u1 = (float)((w0 >> 8) + 1u) * 5.9604644775390625e-8f;
    const float u2 = (float)(w1 >> 8) * 5.9604644775390625e-8f;
    const float radius = TUNEFARM_FILL_SQRTF(-2.0f * TUNEFARM_FILL_LOGF(u1));
    const float unit = radius * TUNEFARM_FILL_COSF(6.283185307179586f * u2);
    const float scaled = (float)fill->second * unit;
    return tunefarm_element_of_double((double)((float)fill->first + scaled), fill->type);
  }
  if (fill->type < kTunefarmF16) {
    return fill->range_low + (fill->range_span == 0ull ? word : tunefarm_multiply_high(word, fill->range_span));
  }
  {
    const double unit = (double)(word >> 11) * 1.1102230246251565e-16;
    const double scaled = (fill->second - fill->first) * unit;
    unsigned long long bits = tunefarm_element_of_double(fill->first + scaled, fill->type);
    while (tunefarm_double_of_element(bits, fill->type) >= fill->second)
      bits = tunefarm_element_below(bits, fill->type);
    return bits;
  }
}

/* The bits of elements 2 * pair and 2 * pair + 1. */
TUNEFARM_FILL_FUNCTION void tunefarm_fill_pair(const struct TunefarmFill* fill, unsigned long long pair,
                                               unsigned long long output[2]) {
  if (fill->kind == kTunefarmFillNormal || fill->kind == kTunefarmFillUniform) {
    const unsigned int counter[4] = {(unsigned int)pair, (unsigned int)(pair >> 32), (unsigned int)fill->stream,
                                     (unsigned int)(fill->stream >> 32)};
    const unsigned int key[2] = {(unsigned int)fill->seed, (unsigned int)(fill->seed >> 32)};
    unsigned int words[4];
    tunefarm_philox4x32_10(counter, key, words);
    output[0] = tunefarm_random_element(fill, words[0], words[1]);
    output[1] = tunefarm_random_element(fill, words[2], words[3]);
    return;
  }
  if (fill->kind == kTunefarmFillIota) {
    const double step0 = (double)(2ull * pair) * fill->second;
    const double step1 = (double)(2ull * pair + 1ull) * fill->second;
    output[0] = tunefarm_element_of_double(fill->first + step0, fill->type);
    output[1] = tunefarm_element_of_double(fill->first + step1, fill->type);
    return;
  }
  output[0] = output[1] = tunefarm_element_of_double(fill->first, fill->type);
}
