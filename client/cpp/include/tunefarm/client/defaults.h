// Configs that a program carries in itself, for when nothing else answers: literal types, so that whole tables are
// constexpr. They are copied when a client is opened.
//
//   constexpr DefaultValue kShape[] = {{"M", 4096}, {"dtype", "bf16"}};
//   constexpr DefaultValue kConfig[] = {{"BLOCK_M", 128}, {"SPLIT_K", false}};
//   constexpr DefaultConfig kDefaults[] = {{"matmul", "", kShape, kConfig}};
//   options.defaults.push_back(kDefaults);
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tunefarm/client/value.h"

namespace tunefarm::client {

// A dim or parameter with its value. Texts must be of static storage.
struct DefaultValue {
  const char* name;
  Value::Kind kind;
  int64_t int_value = 0;
  double double_value = 0;
  const char* string_value = "";

  template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  constexpr DefaultValue(const char* of, T value)
      : name(of), kind(Value::Kind::kInt), int_value(static_cast<int64_t>(value)) {}
  constexpr DefaultValue(const char* of, bool value) : name(of), kind(Value::Kind::kBool), int_value(value ? 1 : 0) {}
  constexpr DefaultValue(const char* of, double value) : name(of), kind(Value::Kind::kDouble), double_value(value) {}
  constexpr DefaultValue(const char* of, const char* value)
      : name(of), kind(Value::Kind::kString), string_value(value) {}
};

// Values of static storage.
struct DefaultValues {
  const DefaultValue* data = nullptr;
  size_t size = 0;

  constexpr DefaultValues() = default;
  constexpr DefaultValues(const DefaultValue* first, size_t count) : data(first), size(count) {}
  template <size_t N>
  constexpr DefaultValues(const DefaultValue (&values)[N]) : data(values), size(N) {}  // NOLINT: meant to convert
};

// One config. It answers questions about `kernel` whose dims have all values of `dims` (none: every problem), on the
// device that is asked for by exactly this text (letter case aside), or whose class has this id or name; empty: on any.
// Of several the one with the most dims answers, the first of those.
struct DefaultConfig {
  const char* kernel;
  const char* device;
  DefaultValues dims;
  DefaultValues config;
};

struct DefaultTable {
  const DefaultConfig* data = nullptr;
  size_t size = 0;

  constexpr DefaultTable() = default;
  constexpr DefaultTable(const DefaultConfig* first, size_t count) : data(first), size(count) {}
  template <size_t N>
  constexpr DefaultTable(const DefaultConfig (&entries)[N]) : data(entries), size(N) {}  // NOLINT: meant to convert
};

}  // namespace tunefarm::client
