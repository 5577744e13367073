#include "server/definition/value_proto.h"

#include <algorithm>
#include <cmath>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::definition {
namespace {

bool IsLetterOrUnderscore(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

absl::StatusOr<Value> FromProto(const v1::Value& proto) {
  switch (proto.kind_case()) {
    case v1::Value::kIntValue:
      return Value(static_cast<int64_t>(proto.int_value()));
    case v1::Value::kDoubleValue:
      if (!std::isfinite(proto.double_value())) {
        return InvalidArgument("{} is not a finite number", Value(proto.double_value()).ToText());
      }
      return Value(proto.double_value());
    case v1::Value::kBoolValue:
      return Value(proto.bool_value());
    case v1::Value::kStringValue:
      if (proto.string_value().size() > kValueTextMax) {
        return InvalidArgument("a string of {} bytes is too long; at most {} are allowed", proto.string_value().size(),
                               kValueTextMax);
      }
      return Value(proto.string_value());
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("the value is empty; set one of int_value, double_value, bool_value and string_value");
}

absl::StatusOr<Value> FromProto(const v1::Value& proto, ValueType type) {
  ASSIGN_OR_RETURN(Value value, FromProto(proto));
  if (value.is_int() && type == ValueType::kFloat) return Value(static_cast<double>(value.int_value()));
  if (value.type() == type) return value;
  return InvalidArgument("{} is of type {}, not {}", value.ToLiteral(), ValueTypeName(value.type()),
                         ValueTypeName(type));
}

absl::StatusOr<Value> FromWritten(const v1::Value& proto, ValueType type) {
  absl::StatusOr<Value> value = FromProto(proto, type);
  if (value.ok()) return value;
  const absl::StatusOr<Value> given = FromProto(proto);
  if (!given.ok()) return value;
  absl::StatusOr<Value> read = Value::FromText(type, given->ToText());
  const bool is_read = read.ok() && (!read->is_float() || std::isfinite(read->float_value()));
  return is_read ? read : value;
}

v1::Value ToProto(const Value& value) {
  v1::Value proto;
  switch (value.type()) {
    case ValueType::kBool:
      proto.set_bool_value(value.bool_value());
      break;
    case ValueType::kInt:
      proto.set_int_value(value.int_value());
      break;
    case ValueType::kFloat:
      proto.set_double_value(value.float_value());
      break;
    case ValueType::kString:
      proto.set_string_value(value.string_value());
      break;
  }
  return proto;
}

ValueType FromProto(v1::ValueType type) {
  switch (type) {
    case v1::VALUE_TYPE_DOUBLE:
      return ValueType::kFloat;
    case v1::VALUE_TYPE_BOOL:
      return ValueType::kBool;
    case v1::VALUE_TYPE_STRING:
      return ValueType::kString;
    default:
      return ValueType::kInt;
  }
}

v1::ValueType ToProto(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return v1::VALUE_TYPE_BOOL;
    case ValueType::kInt:
      return v1::VALUE_TYPE_INT;
    case ValueType::kFloat:
      return v1::VALUE_TYPE_DOUBLE;
    case ValueType::kString:
      return v1::VALUE_TYPE_STRING;
  }
  return v1::VALUE_TYPE_UNSPECIFIED;
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && text.size() <= 63 && IsLetterOrUnderscore(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsLetterOrUnderscore(c) || IsDigit(c); });
}

}  // namespace tunefarm::definition
