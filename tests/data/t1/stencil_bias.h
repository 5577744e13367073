#pragma once

inline __device__ float BiasOf(float2 pair) { return pair.x + pair.y; }
