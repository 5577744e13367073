// What written buffers hold before a launch sequence, so that an element nobody wrote is known by its bits, and the
// guard zones around every buffer, so that a write outside is.
//
// Pure functions but for DrawPattern's draw; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/base/random.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// The check after timing uses the other pattern, so that a kernel cannot pass by leaving what the first check left.
enum class PoisonPattern { kFirst, kSecond };

// Either with the same probability, so that a kernel cannot know which it is.
PoisonPattern DrawPattern(PhiloxStream* random);

// The bits of a poisoned element in the low bytes, zero above: a quiet NaN with a payload of its own for floats, 0xA5
// bytes (second pattern: 0x5A) for integers. F8E4M3 has one NaN of each sign: 0x7F (second pattern: 0xFF). Device code
// fills with these bits.
uint64_t PoisonBits(tunefarm::v1::DataType type, PoisonPattern pattern);

// Whether a kernel may write the bits of the poison on purpose: integers, and F8E4M3, of which any NaN has them.
bool MayEqualPoison(tunefarm::v1::DataType poisoned);

// Fills whole elements; the size must be a multiple of the element's.
void Poison(tunefarm::v1::DataType type, PoisonPattern pattern, std::span<std::byte> output);

// Bytes of guard zone on each side of every buffer.
inline constexpr size_t kGuardBytes = 64 * 1024;

// The repeated word of guard zones: NaN as f32 and f64, far from any index as an integer.
inline constexpr uint32_t kGuardWord = 0xFFFFC5C5u;

// The guard's byte at an offset from the zone's start.
inline constexpr std::byte GuardByte(size_t offset) {
  return static_cast<std::byte>((kGuardWord >> (8 * (offset % 4))) & 0xFFu);
}

void FillGuard(std::span<std::byte> zone);

// The offset of the first byte that is not as FillGuard left it; nothing if the zone is whole.
std::optional<size_t> FindGuardDamage(std::span<const std::byte> zone);

}  // namespace tunefarm
