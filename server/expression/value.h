// A Value is one parameter value, dim, flag or constant: a bool, a 64-bit integer, a double or a string.
//
// Values are immutable once made and have no shared state: any thread may use a const Value. Equality is identity of
// type and value (1, 1.0 and true are three different values, NaN equals NaN, 0.0 differs from -0.0), so that equal
// values are exactly those of one type with the same text. Comparisons with Python's meaning are the expression
// language's business.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "server/expression/value_type.h"

namespace tunefarm {

// "bool", "int", "float" or "string": the words of kernel definitions.
std::string_view ValueTypeName(ValueType type);

class Value {
 public:
  Value() : data_(int64_t{0}) {}
  // One constructor per type, without conversions between them: Value("x") is never a bool, Value(1u) never a double.
  template <std::same_as<bool> T>
  Value(T value) : data_(value) {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  requires(!std::same_as<T, bool> && (std::signed_integral<T> || sizeof(T) < sizeof(int64_t))) Value(T value)
      : data_(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  Value(T value) : data_(static_cast<double>(value)) {}         // NOLINT(google-explicit-constructor)
  Value(std::string value) : data_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Value(std::string_view value) : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Value(const char* value) : data_(std::string(value)) {}       // NOLINT(google-explicit-constructor)

  ValueType type() const { return static_cast<ValueType>(data_.index()); }
  bool is_bool() const { return type() == ValueType::kBool; }
  bool is_int() const { return type() == ValueType::kInt; }
  bool is_float() const { return type() == ValueType::kFloat; }
  bool is_string() const { return type() == ValueType::kString; }

  // Each requires the type it names; asking a Value of another type for it is a programming error.
  bool bool_value() const { return *std::get_if<bool>(&data_); }
  int64_t int_value() const { return *std::get_if<int64_t>(&data_); }
  double float_value() const { return *std::get_if<double>(&data_); }
  const std::string& string_value() const { return *std::get_if<std::string>(&data_); }

  // The canonical text: true or false; decimal digits; the shortest double that reads back the same, always with a '.',
  // an exponent, "inf" or "nan"; a string as it is, without quotes.
  std::string ToText() const;

  // As an error message shows it and as the expression language would read it: True, 128, 0.5, 'bf16'.
  std::string ToLiteral() const;

  // Reads the whole of `text` as a value of `type`. InvalidArgument, naming the text, when it is not one. Accepts true,
  // false, True, False, 1 and 0 for a bool, decimal integers, and whatever ToText writes for a float.
  static absl::StatusOr<Value> FromText(ValueType type, std::string_view text);

  // Reads text of unknown type: true/false, then an integer, then a float, else a string. Never fails.
  static Value Infer(std::string_view text);

  friend bool operator==(const Value& a, const Value& b);

 private:
  std::variant<bool, int64_t, double, std::string> data_;
};

// A total order of values: by type, then by value.
bool ValueLess(const Value& a, const Value& b);

}  // namespace tunefarm
