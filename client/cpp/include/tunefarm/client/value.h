// The values of dims and parameters, and configs. Plain values; one object is used by one thread at a time, or read by
// many.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tunefarm::client {

// An integer, floating-point number, truth value or text. Texts have at most 256 bytes.
class Value {
 public:
  enum class Kind : uint8_t { kInt, kDouble, kBool, kString };

  Value() = default;  // the integer 0
  template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T value) : kind_(Kind::kInt), int_(static_cast<int64_t>(value)) {}       // NOLINT: meant to convert
  Value(double value) : kind_(Kind::kDouble), double_(value) {}                  // NOLINT: meant to convert
  Value(bool value) : kind_(Kind::kBool), int_(value ? 1 : 0) {}                 // NOLINT: meant to convert
  Value(std::string value) : kind_(Kind::kString), string_(std::move(value)) {}  // NOLINT: meant to convert
  Value(std::string_view value) : kind_(Kind::kString), string_(value) {}        // NOLINT: meant to convert
  Value(const char* value) : kind_(Kind::kString), string_(value) {}             // NOLINT: meant to convert

  Kind kind() const { return kind_; }
  // Of another kind: 0 (a bool is 0 or 1), 0.0 (an integer is converted), false, and the empty text.
  int64_t int_value() const { return int_; }
  double double_value() const { return kind_ == Kind::kDouble ? double_ : static_cast<double>(int_); }
  bool bool_value() const { return int_ != 0; }
  const std::string& string_value() const { return string_; }

  // true or false; decimal digits; the shortest number that reads back the same; the text itself.
  std::string ToText() const;

  friend bool operator==(const Value& a, const Value& b) {
    return a.kind_ == b.kind_ && a.int_ == b.int_ && a.double_ == b.double_ && a.string_ == b.string_;
  }
  friend bool operator!=(const Value& a, const Value& b) { return !(a == b); }

 private:
  Kind kind_ = Kind::kInt;
  int64_t int_ = 0;
  double double_ = 0;
  std::string string_;
};

// Dims of a problem, or parameters held at a value, by name.
using ValueMap = std::map<std::string, Value>;

// One point of a space: every parameter with its value, sorted by name.
class Config {
 public:
  Config() = default;
  explicit Config(std::vector<std::pair<std::string, Value>> sorted) : values_(std::move(sorted)) {}

  // nullptr where there is no such parameter.
  const Value* Find(std::string_view name) const {
    for (const auto& [own, value] : values_) {
      if (own == name) return &value;
    }
    return nullptr;
  }
  // `otherwise` where there is no such parameter, or it is a text or a floating-point number.
  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    const Value* const value = Find(name);
    const bool is_int = value != nullptr && (value->kind() == Value::Kind::kInt || value->kind() == Value::Kind::kBool);
    return is_int ? value->int_value() : otherwise;
  }

  const std::vector<std::pair<std::string, Value>>& values() const { return values_; }
  bool empty() const { return values_.empty(); }
  // "BLOCK_M=128 SPLIT_K=1".
  std::string ToText() const;

  friend bool operator==(const Config& a, const Config& b) { return a.values_ == b.values_; }
  friend bool operator!=(const Config& a, const Config& b) { return !(a == b); }

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

}  // namespace tunefarm::client
