#include "server/expression/value.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "server/base/status.h"

namespace tunefarm {
namespace {

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  // A float must not read back as an int.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool ParseInt(std::string_view text, int64_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

bool ParseFloat(std::string_view text, double* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

// What a message shows of a text from outside.
std::string Shown(std::string_view text) {
  constexpr size_t kShownMax = 80;
  return std::string(text.substr(0, kShownMax)) + (text.size() > kShownMax ? "..." : "");
}

}  // namespace

std::string_view ValueTypeName(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return "bool";
    case ValueType::kInt:
      return "int";
    case ValueType::kFloat:
      return "float";
    case ValueType::kString:
      return "string";
  }
  return "unknown";
}

std::string Value::ToText() const {
  switch (type()) {
    case ValueType::kBool:
      return bool_value() ? "true" : "false";
    case ValueType::kInt:
      return fmt::format_int(int_value()).str();
    case ValueType::kFloat:
      return FloatText(float_value());
    case ValueType::kString:
      return string_value();
  }
  return {};
}

std::string Value::ToLiteral() const {
  if (is_bool()) return bool_value() ? "True" : "False";
  if (!is_string()) return ToText();
  std::string literal = "'";
  for (const char c : string_value()) {
    if (c == '\'' || c == '\\') literal += '\\';
    if (c == '\n') {
      literal += "\\n";
    } else {
      literal += c;
    }
  }
  return literal + "'";
}

absl::StatusOr<Value> Value::FromText(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::kBool:
      if (text == "true" || text == "True" || text == "1") return Value(true);
      if (text == "false" || text == "False" || text == "0") return Value(false);
      return InvalidArgument("'{}' is not a bool; write true or false", Shown(text));
    case ValueType::kInt: {
      int64_t value = 0;
      if (!ParseInt(text, &value)) {
        return InvalidArgument("'{}' is not an int; write decimal digits of a 64-bit integer", Shown(text));
      }
      return Value(value);
    }
    case ValueType::kFloat: {
      double value = 0;
      if (!ParseFloat(text, &value))
        return InvalidArgument("'{}' is not a float; write it like 0.5 or 1e-3", Shown(text));
      return Value(value);
    }
    case ValueType::kString:
      return Value(text);
  }
  return InvalidArgument("value type {} is unknown", static_cast<int>(type));
}

Value Value::Infer(std::string_view text) {
  if (text == "true") return Value(true);
  if (text == "false") return Value(false);
  int64_t as_int = 0;
  if (ParseInt(text, &as_int)) return Value(as_int);
  double as_float = 0;
  if (ParseFloat(text, &as_float)) return Value(as_float);
  return Value(text);
}

bool operator==(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (!a.is_float()) return a.data_ == b.data_;
  if (std::isnan(a.float_value()) && std::isnan(b.float_value())) return true;
  // By bits, so that 0.0 and -0.0, which have different texts, are different values.
  const double x = a.float_value();
  const double y = b.float_value();
  return std::memcmp(&x, &y, sizeof(x)) == 0;
}

bool ValueLess(const Value& a, const Value& b) {
  if (a.type() != b.type()) return a.type() < b.type();
  switch (a.type()) {
    case ValueType::kBool:
      return a.bool_value() < b.bool_value();
    case ValueType::kInt:
      return a.int_value() < b.int_value();
    case ValueType::kFloat:
      return a.float_value() < b.float_value();
    case ValueType::kString:
      break;
  }
  return a.string_value() < b.string_value();
}

}  // namespace tunefarm
