// y = factor * x in e4m3, a byte for each element, or in float. CHUNK: elements between two looks at the end; TABLE:
// whether the values of codes are read from a table. dtype_fp8 or dtype_f32 says what elements are.
#include <cmath>

namespace {

constexpr float kLargest = 448;

float Decoded(unsigned char code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  if ((code & 0x7F) == 0x7F) value = NAN;
  return (code & 0x80) != 0 ? -value : value;
}

struct Table {
  Table() {
    for (int code = 0; code < 256; ++code) values[code] = Decoded(static_cast<unsigned char>(code));
  }
  float values[256];
};

// To nearest, ties to even; beyond the largest value to it.
unsigned char Encoded(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<unsigned char>(sign | 0x7F);
  const float magnitude = std::fmin(std::fabs(value), kLargest);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // From 2^-5 on a binade has 8 values; below it all are 2^-9 apart.
  const int binade = magnitude < 0.03125f ? 0 : exponent + 5;
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 9 - binade)));
  return static_cast<unsigned char>(sign | (8 * binade + units));
}

#if defined(dtype_fp8)
using Element = unsigned char;
Element FromFloat(float value) { return Encoded(value); }
#if TABLE
float ToFloat(Element element) {
  static const Table table;
  return table.values[element];
}
#else
float ToFloat(Element element) { return Decoded(element); }
#endif
#elif defined(dtype_f32)
using Element = float;
Element FromFloat(float value) { return value; }
float ToFloat(Element element) { return element; }
#else
#error "define dtype_fp8 or dtype_f32"
#endif

}  // namespace

extern "C" void scale(const Element* x, Element* y, unsigned char factor, long long n) {
  const float scale = Decoded(factor);
  for (long long begin = 0; begin < n; begin += CHUNK) {
    const long long end = begin + CHUNK < n ? begin + CHUNK : n;
    for (long long i = begin; i < end; ++i) y[i] = FromFloat(scale * ToFloat(x[i]));
  }
}

extern "C" void plain(const Element* x, Element* y, unsigned char factor, long long n) {
  for (long long i = 0; i < n; ++i) y[i] = FromFloat(Decoded(factor) * ToFloat(x[i]));
}
