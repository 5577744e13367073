#include "server/worker/verify/poison.h"

#include <cstring>

#include "server/definition/kernel_plan.h"

namespace tunefarm {

uint64_t PoisonBits(v1::DataType type, PoisonPattern pattern) {
  const bool first = pattern == PoisonPattern::kFirst;
  switch (type) {
    case v1::DATA_TYPE_F16:
      return first ? 0x7EA5u : 0xFE5Au;
    case v1::DATA_TYPE_BF16:
      return first ? 0x7FE5u : 0xFFDAu;
    case v1::DATA_TYPE_F32:
      return first ? 0x7FE5A5A5u : 0xFFDA5A5Au;
    case v1::DATA_TYPE_F64:
      return first ? 0x7FFDA5A5A5A5A5A5u : 0xFFFA5A5A5A5A5A5Au;
    default:
      return first ? 0xA5A5A5A5A5A5A5A5u : 0x5A5A5A5A5A5A5A5Au;
  }
}

void Poison(v1::DataType type, PoisonPattern pattern, std::span<std::byte> output) {
  const uint64_t bits = PoisonBits(type, pattern);
  const size_t size = SizeOf(type);
  for (size_t offset = 0; offset + size <= output.size(); offset += size) {
    std::memcpy(output.data() + offset, &bits, size);
  }
}

void FillGuard(std::span<std::byte> zone) {
  for (size_t i = 0; i < zone.size(); ++i) zone[i] = GuardByte(i);
}

std::optional<size_t> FindGuardDamage(std::span<const std::byte> zone) {
  // Whole words first: this runs over two zones of every buffer after every trial.
  const uint64_t expected = (uint64_t{kGuardWord} << 32) | kGuardWord;
  size_t i = 0;
  for (; i + sizeof(expected) <= zone.size(); i += sizeof(expected)) {
    if (std::memcmp(zone.data() + i, &expected, sizeof(expected)) != 0) break;
  }
  for (; i < zone.size(); ++i) {
    if (zone[i] != GuardByte(i)) return i;
  }
  return std::nullopt;
}

}  // namespace tunefarm
