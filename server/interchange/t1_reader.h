// The parts that a T1 file is read in. Private to this folder.
#pragma once

#include "server/interchange/json_fields.h"
#include "server/interchange/t1.h"

namespace tunefarm::interchange {

// ConfigurationSpace: parameters and conditions.
absl::Status ReadT1Space(const JsonRef& space, T1* t1);
// Arguments and ReferenceArguments of a KernelSpecification.
absl::Status ReadT1Arguments(const JsonRef& kernel, T1* t1);

// An integer or an expression: a size.
absl::StatusOr<T1Text> TextOrInt(const JsonRef& ref);
// The text as a name of C, or an error.
absl::Status NeedIdentifier(const JsonRef& ref);

}  // namespace tunefarm::interchange
