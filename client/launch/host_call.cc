#include "client/launch/host_call.h"

#include <bit>
#include <cstring>
#include <utility>

#include "client/launch/package_format.h"
#include "server/driver_step/data_type.h"

namespace tunefarm::launch {
namespace {

// Both systems pass the first integers and the first floats in registers of their own, in order, and everything else on
// the stack, 8 bytes each, in order. So one function type serves all: as many integers as there are registers for,
// then the floats, then what is on the stack. What the callee does not look for does not disturb it.
#if defined(__x86_64__)
constexpr size_t kIntegers = 6;
#elif defined(__aarch64__) && !defined(__APPLE__)
constexpr size_t kIntegers = 8;
#else
#error "the calling convention of this processor is not known here"
#endif
constexpr size_t kFloats = 8;

struct Sorted {
  int64_t integers[kIntegers] = {};
  double floats[kFloats] = {};  // an f32 in the lower half
  int64_t stack[package::kArgumentsMax] = {};
  size_t stack_count = 0;
};

template <size_t>
using Integer = int64_t;
template <size_t>
using Float = double;

template <size_t... I, size_t... F, size_t... S>
void Call(void* entry, const Sorted& sorted, std::index_sequence<I...>, std::index_sequence<F...>,
          std::index_sequence<S...>) {
  reinterpret_cast<void (*)(Integer<I>..., Float<F>..., Integer<S>...)>(entry)(sorted.integers[I]...,
                                                                               sorted.floats[F]..., sorted.stack[S]...);
}

template <size_t stack>
void Call(void* entry, const Sorted& sorted) {
  Call(entry, sorted, std::make_index_sequence<kIntegers>(), std::make_index_sequence<kFloats>(),
       std::make_index_sequence<stack>());
}

// As the caller of a C function widens it.
int64_t Widened(uint32_t type, const void* bytes) {
  int64_t value = 0;
  std::memcpy(&value, bytes, type == 0 ? sizeof(void*) : driver_step::SizeOf(type));
  switch (type) {
    case driver_step::kI8:
      return static_cast<int8_t>(value);
    case driver_step::kI16:
      return static_cast<int16_t>(value);
    case driver_step::kI32:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

}  // namespace

void CallHost(void* entry, const HostArgument* arguments, size_t count) {
  Sorted sorted;
  size_t integers = 0, floats = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t value = Widened(arguments[i].type, arguments[i].bytes);
    const bool is_float = arguments[i].type == driver_step::kF32 || arguments[i].type == driver_step::kF64;
    if (is_float && floats < kFloats) {
      sorted.floats[floats++] = std::bit_cast<double>(value);
    } else if (!is_float && integers < kIntegers) {
      sorted.integers[integers++] = value;
    } else {
      sorted.stack[sorted.stack_count++] = value;
    }
  }
  if (sorted.stack_count == 0) {
    Call<0>(entry, sorted);
  } else if (sorted.stack_count <= 8) {
    Call<8>(entry, sorted);
  } else {
    Call<package::kArgumentsMax>(entry, sorted);
  }
}

}  // namespace tunefarm::launch
