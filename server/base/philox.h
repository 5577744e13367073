#pragma once

/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011):
 * a pure function of a 128-bit counter and a 64-bit key. C, integers only and without an include, so that the very same
 * text compiles as C, C++ and CUDA (NVRTC included): device code defines TUNEFARM_PHILOX_FUNCTION to
 * "static __device__ inline" first. Stored data depends on these numbers: they must never change.
 */

#ifndef TUNEFARM_PHILOX_FUNCTION
#define TUNEFARM_PHILOX_FUNCTION static inline
#endif

/* output may be the same array as counter. unsigned int is 32 bits wide on every platform CUDA supports. */
TUNEFARM_PHILOX_FUNCTION void tunefarm_philox4x32_10(const unsigned int counter[4], const unsigned int key[2],
                                                     unsigned int output[4]) {
  unsigned int c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  unsigned int k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xD2511F53ull * c0;
    const unsigned long long product1 = 0xCD9E8D57ull * c2;
    const unsigned int high0 = (unsigned int)(product0 >> 32), low0 = (unsigned int)product0;
    const unsigned int high1 = (unsigned int)(product1 >> 32), low1 = (unsigned int)product1;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u; /* The golden ratio. */
    k1 += 0xBB67AE85u; /* sqrt(3) - 1. */
  }
  output[0] = c0;
  output[1] = c1;
  output[2] = c2;
  output[3] = c3;
}
