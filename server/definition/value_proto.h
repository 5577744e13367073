// Values between messages and the expression language.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/expression/value.h"
#include "tunefarm/v1/value.pb.h"

namespace tunefarm::definition {

inline constexpr size_t kValueTextMax = 256;

// InvalidArgument for an unset kind, NaN, an infinity, and a string over 256 bytes.
absl::StatusOr<Value> FromProto(const tunefarm::v1::Value& proto);
// As above and of the given type; an int is taken for a float.
absl::StatusOr<Value> FromProto(const tunefarm::v1::Value& proto, ValueType type);
// As above for what a person wrote and a program guessed the type of: a value of another type is read as its text is.
// 1 is the string "1" and the bool true, "64" is the int 64.
absl::StatusOr<Value> FromWritten(const tunefarm::v1::Value& proto, ValueType type);
tunefarm::v1::Value ToProto(const Value& value);

// UNSPECIFIED is INT.
ValueType FromProto(tunefarm::v1::ValueType type);
tunefarm::v1::ValueType ToProto(ValueType type);

// [A-Za-z_][A-Za-z0-9_]{0,62}
bool IsIdentifier(std::string_view text);

}  // namespace tunefarm::definition
