// Element types: conversions of values to their bytes. Private to this folder; sizes and names are in kernel_plan.h.
#pragma once

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

// The value as a scalar argument of the type, little-endian. An int or bool must be in the range of an integer type; a
// float is never converted to an integer. InvalidArgument otherwise, also for a float that overflows its type.
absl::StatusOr<ScalarPlan> EncodeScalar(tunefarm::v1::DataType type, const Value& value);

}  // namespace tunefarm::definition
