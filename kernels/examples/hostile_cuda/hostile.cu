// y[i] = 2 * x[i] on a GPU, from a source that tries to reach out of its compiler. The tuner defines BLOCK_SIZE and
// ATTEMPT_<value> before this text.

#if defined(ATTEMPT_include_passwd)
#include "/etc/passwd"
#elif defined(ATTEMPT_include_secret)
#include "/etc/shadow"
#elif defined(ATTEMPT_include_environment)
#include "/proc/1/environ"
#elif defined(ATTEMPT_explode_templates)
template <int depth, int width>
struct Explode {
  static constexpr long long value = Explode<depth - 1, 2 * width>::value + Explode<depth - 1, 2 * width + 1>::value;
};
template <int width>
struct Explode<0, width> {
  static constexpr long long value = width;
};
static_assert(Explode<26, 1>::value != 0);
#endif

extern "C" __global__ void hostile(const float* x, float* y, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
