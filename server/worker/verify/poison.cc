#include "server/worker/verify/poison.h"

#include <cstring>

#include "server/definition/kernel_plan.h"

namespace tunefarm {
namespace {

// Of a size that the compiler knows: this runs before samples too.
template <typename Word>
void FillWith(Word word, std::span<std::byte> output) {
  for (size_t offset = 0; offset + sizeof(word) <= output.size(); offset += sizeof(word)) {
    std::memcpy(output.data() + offset, &word, sizeof(word));
  }
}

}  // namespace

PoisonPattern DrawPattern(PhiloxStream* random) {
  return random->UniformInt(2) == 0 ? PoisonPattern::kFirst : PoisonPattern::kSecond;
}

uint64_t PoisonBits(v1::DataType type, PoisonPattern pattern) {
  const bool first = pattern == PoisonPattern::kFirst;
  switch (type) {
    case v1::DATA_TYPE_F16:
      return first ? 0x7EA5u : 0xFE5Au;
    case v1::DATA_TYPE_BF16:
      return first ? 0x7FE5u : 0xFFDAu;
    case v1::DATA_TYPE_F32:
      return first ? 0x7FE5A5A5u : 0xFFDA5A5Au;
    case v1::DATA_TYPE_F8E4M3:
      return first ? 0x7Fu : 0xFFu;
    case v1::DATA_TYPE_F64:
      return first ? 0x7FFDA5A5A5A5A5A5u : 0xFFFA5A5A5A5A5A5Au;
    default:
      return (first ? 0xA5A5A5A5A5A5A5A5u : 0x5A5A5A5A5A5A5A5Au) >> (64 - 8 * SizeOf(type));
  }
}

bool MayEqualPoison(v1::DataType poisoned) { return !IsFloatType(poisoned) || poisoned == v1::DATA_TYPE_F8E4M3; }

void Poison(v1::DataType type, PoisonPattern pattern, std::span<std::byte> output) {
  const uint64_t bits = PoisonBits(type, pattern);
  switch (SizeOf(type)) {
    case 1:
      return FillWith(static_cast<uint8_t>(bits), output);
    case 2:
      return FillWith(static_cast<uint16_t>(bits), output);
    case 4:
      return FillWith(static_cast<uint32_t>(bits), output);
    default:
      return FillWith(bits, output);
  }
}

void FillGuard(std::span<std::byte> zone) {
  for (size_t i = 0; i < zone.size(); ++i) zone[i] = GuardByte(i);
}

std::optional<size_t> FindGuardDamage(std::span<const std::byte> zone) {
  // A zone that begins right and equals itself one period on is whole, which the C library sees in wide registers: this
  // runs over two zones of every buffer several times in every trial.
  constexpr size_t kPeriod = sizeof(kGuardWord);
  bool begins_right = zone.size() > kPeriod;
  for (size_t i = 0; i < kPeriod && begins_right; ++i) begins_right = zone[i] == GuardByte(i);
  if (begins_right && std::memcmp(zone.data(), zone.data() + kPeriod, zone.size() - kPeriod) == 0) return std::nullopt;
  for (size_t i = 0; i < zone.size(); ++i) {
    if (zone[i] != GuardByte(i)) return i;
  }
  return std::nullopt;
}

}  // namespace tunefarm
