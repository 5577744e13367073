// The memory of one kernel buffer: shared with the forked trial, a guard zone on each side, and pages nobody may touch
// beyond.
//
//   [no access][guard, kGuardBytes][data][guard, kGuardBytes and up to the page's end][no access]
//
// Move-only; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace tunefarm {

class MappedBuffer {
 public:
  // Address space and memory that a buffer of this size takes.
  static size_t FootprintBytes(size_t bytes);

  // ResourceExhausted when there is no memory for it. The guards are filled, the data is zero.
  static absl::StatusOr<MappedBuffer> Create(size_t bytes);

  MappedBuffer() = default;
  ~MappedBuffer();
  MappedBuffer(MappedBuffer&& other) noexcept;
  MappedBuffer& operator=(MappedBuffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() { return {data_, bytes_}; }
  std::span<const std::byte> span() const { return {data_, bytes_}; }

  // "12 bytes before its start" or "4 bytes past its end", of the first damaged guard byte; nothing if both are whole.
  std::optional<std::string> FindDamage() const;
  void RestoreGuards();

  // Whether an address lies in this mapping, and where: "at byte 16", "12 bytes before its start", "0 bytes past its
  // end".
  std::optional<std::string> Locate(uintptr_t address) const;

 private:
  std::span<std::byte> front_guard() const;
  std::span<std::byte> rear_guard() const;

  std::byte* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tunefarm
