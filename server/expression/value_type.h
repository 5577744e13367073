// The types of values.
#pragma once

#include <cstdint>

namespace tunefarm {

enum class ValueType : uint8_t { kBool = 0, kInt = 1, kFloat = 2, kString = 3 };

}  // namespace tunefarm
