// Element types: what they can be filled with, conversions of values to their bytes. Private to this folder; sizes and
// names are in kernel_plan.h.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/driver_step/data_type.h"
#include "server/expression/value.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::definition {

bool IsKnownType(tunefarm::v1::DataType type);

using driver_step::IntegerRange;
using driver_step::RangeOf;

// What an input holds when nothing is said: normal for floats, uniform 0 to 255 (or the type's largest) for integers.
tunefarm::v1::Fill DefaultFill(tunefarm::v1::DataType type);

// A constant or a bound of a uniform fill that no value of F8E4M3 is near; nothing for other fills and types.
std::optional<double> BeyondF8E4M3(tunefarm::v1::DataType type, const tunefarm::v1::Fill& fill);

// Whether a tensor map or descriptor over elements of the type may fill with NaN what lies outside. An unspecified type
// is one that the problem decides.
absl::Status CheckNanFill(const std::string& path, bool oob_fill_nan, tunefarm::v1::DataType type);

// The value as a scalar argument of the type, little-endian. An int or bool must be in the range of an integer type; a
// float is never converted to an integer. InvalidArgument otherwise, also for a float that overflows its type.
absl::StatusOr<ScalarPlan> EncodeScalar(tunefarm::v1::DataType type, const Value& value);

}  // namespace tunefarm::definition
