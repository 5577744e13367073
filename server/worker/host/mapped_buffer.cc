#include "server/worker/host/mapped_buffer.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "server/base/status.h"
#include "server/worker/verify/poison.h"

namespace tunefarm {
namespace {

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// With either page size in use (4 or 64 KiB) the data starts on a page.
size_t FrontGuardBytes() { return RoundUp(kGuardBytes, PageBytes()); }

}  // namespace

size_t MappedBuffer::FootprintBytes(size_t bytes) {
  return 2 * PageBytes() + FrontGuardBytes() + RoundUp(bytes + kGuardBytes, PageBytes());
}

absl::StatusOr<MappedBuffer> MappedBuffer::Create(size_t bytes) {
  MappedBuffer buffer;
  const size_t total = FootprintBytes(bytes);
  void* const mapping = mmap(nullptr, total, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return ResourceExhausted("no memory for a buffer of {} bytes ({})", bytes, ErrnoStatus(errno, "mmap"));
  }
  buffer.mapping_ = static_cast<std::byte*>(mapping);
  buffer.mapping_bytes_ = total;
  buffer.data_ = buffer.mapping_ + PageBytes() + FrontGuardBytes();
  buffer.bytes_ = bytes;
  if (mprotect(buffer.mapping_ + PageBytes(), total - 2 * PageBytes(), PROT_READ | PROT_WRITE) != 0) {
    return ResourceExhausted("no memory for a buffer of {} bytes ({})", bytes, ErrnoStatus(errno, "mprotect"));
  }
  buffer.RestoreGuards();
  return buffer;
}

MappedBuffer::~MappedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

MappedBuffer::MappedBuffer(MappedBuffer&& other) noexcept { *this = std::move(other); }

MappedBuffer& MappedBuffer::operator=(MappedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::span<std::byte> MappedBuffer::front_guard() const { return {mapping_ + PageBytes(), FrontGuardBytes()}; }

std::span<std::byte> MappedBuffer::rear_guard() const {
  std::byte* const end = mapping_ + mapping_bytes_ - PageBytes();
  return {data_ + bytes_, static_cast<size_t>(end - (data_ + bytes_))};
}

std::optional<std::string> MappedBuffer::FindDamage() const {
  if (mapping_ == nullptr) return std::nullopt;
  if (const std::optional<size_t> offset = FindGuardDamage(front_guard())) {
    return fmt::format("{} bytes before its start", front_guard().size() - *offset);
  }
  if (const std::optional<size_t> offset = FindGuardDamage(rear_guard())) {
    return fmt::format("{} bytes past its end", *offset);
  }
  return std::nullopt;
}

void MappedBuffer::RestoreGuards() {
  FillGuard(front_guard());
  FillGuard(rear_guard());
}

std::optional<std::string> MappedBuffer::Locate(uintptr_t address) const {
  const uintptr_t start = reinterpret_cast<uintptr_t>(mapping_);
  const uintptr_t data = reinterpret_cast<uintptr_t>(data_);
  if (address < start || address >= start + mapping_bytes_) return std::nullopt;
  if (address < data) return fmt::format("{} bytes before its start", data - address);
  if (address >= data + bytes_) return fmt::format("{} bytes past its end", address - data - bytes_);
  return fmt::format("at byte {}", address - data);
}

}  // namespace tunefarm
