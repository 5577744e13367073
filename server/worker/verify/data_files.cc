#include "server/worker/verify/data_files.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace tunefarm {
namespace {

// The number of the first element of which `is_bad` is true.
template <typename Element, typename IsBad>
std::optional<uint64_t> FindElement(std::span<const std::byte> elements, IsBad is_bad) {
  for (size_t i = 0; i < elements.size() / sizeof(Element); ++i) {
    Element element;
    std::memcpy(&element, elements.data() + i * sizeof(Element), sizeof(Element));
    if (is_bad(element)) return i;
  }
  return std::nullopt;
}

// Beyond the largest magnitude, which has these bits: infinity, in F8E4M3 448.
template <typename Word>
std::optional<uint64_t> FindNan(std::span<const std::byte> elements, Word largest) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  return FindElement<Word>(elements, [largest](Word word) { return static_cast<Word>(word & kMagnitude) > largest; });
}

std::optional<uint64_t> FindNan(v1::DataType type, std::span<const std::byte> elements) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return FindNan<uint16_t>(elements, 0x7C00u);
    case v1::DATA_TYPE_BF16:
      return FindNan<uint16_t>(elements, 0x7F80u);
    case v1::DATA_TYPE_F8E4M3:
      return FindNan<uint8_t>(elements, 0x7Eu);
    case v1::DATA_TYPE_F32:
      return FindNan<uint32_t>(elements, 0x7F800000u);
    case v1::DATA_TYPE_F64:
      return FindNan<uint64_t>(elements, 0x7FF0000000000000u);
    default:
      return std::nullopt;
  }
}

template <typename Integer>
Failure CheckIntegers(const BufferPlan& buffer, uint64_t first, std::span<const std::byte> elements) {
  const int64_t limit = *buffer.index_limit;
  const std::optional<uint64_t> found = FindElement<Integer>(
      elements, [limit](Integer value) { return std::cmp_less(value, 0) || std::cmp_greater_equal(value, limit); });
  if (!found) return {};
  Integer value;
  std::memcpy(&value, elements.data() + *found * sizeof(Integer), sizeof(Integer));
  return {v1::OUTCOME_INFEASIBLE_LAUNCH,
          fmt::format("{}[{}] is {}, but the kernel indexes memory with it and its index_limit allows 0 to {}.",
                      buffer.name, first + *found, std::to_string(value), limit - 1)};
}

}  // namespace

Failure DataFileReader::Open(const PreparedKernel& kernel, const v1::DataFile& file, const BufferPlan& buffer,
                             DataFileReader* reader) {
  const std::string name = file.path().empty() ? file.digest() : file.path();
  if (file.bytes() != buffer.bytes()) {
    return {v1::OUTCOME_INFEASIBLE_LAUNCH, fmt::format("Buffer {} has {} bytes, but its file {} has {}.", buffer.name,
                                                       buffer.bytes(), name, file.bytes())};
  }
  const auto found = kernel.data_files.find(file.digest());
  if (found == kernel.data_files.end()) {
    return {v1::OUTCOME_LOST, fmt::format("The file {} of buffer {} was not handed to the worker.", name, buffer.name)};
  }
  reader->file_ = found->second;
  reader->what_ = fmt::format("The file {} of buffer {} (content {})", name, buffer.name, file.digest());
  reader->bytes_ = static_cast<uint64_t>(file.bytes());
  struct stat info = {};
  if (fstat(reader->file_->get(), &info) != 0) {
    return {v1::OUTCOME_LOST, fmt::format("{} cannot be read: {}.", reader->what_, strerrordesc_np(errno))};
  }
  if (info.st_size == file.bytes()) return {};
  return {v1::OUTCOME_LOST, fmt::format("{} is damaged: its copy on this machine has {} of {} bytes.", reader->what_,
                                        info.st_size, file.bytes())};
}

Failure DataFileReader::Read(uint64_t offset, std::span<std::byte> part) const {
  size_t done = 0;
  while (done < part.size()) {
    const ssize_t got = pread(file_->get(), part.data() + done, part.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {v1::OUTCOME_LOST, fmt::format("{} cannot be read: {}.", what_, strerrordesc_np(errno))};
    if (got == 0) {
      return {v1::OUTCOME_LOST, fmt::format("{} is damaged: its copy on this machine ends after {} of {} bytes.", what_,
                                            offset + done, bytes_)};
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

Failure CheckExpected(const BufferPlan& buffer, uint64_t first, std::span<const std::byte> elements) {
  const std::optional<uint64_t> found = FindNan(buffer.type, elements);
  if (!found) return {};
  return {v1::OUTCOME_INFEASIBLE_LAUNCH,
          fmt::format("The file of what {0} must hold has NaN at {0}[{1}], which no output can equal.", buffer.name,
                      first + *found)};
}

Failure CheckIndices(const BufferPlan& buffer, uint64_t first, std::span<const std::byte> elements) {
  if (!buffer.index_limit) return {};
  switch (buffer.type) {
    case v1::DATA_TYPE_I8:
      return CheckIntegers<int8_t>(buffer, first, elements);
    case v1::DATA_TYPE_U8:
      return CheckIntegers<uint8_t>(buffer, first, elements);
    case v1::DATA_TYPE_I16:
      return CheckIntegers<int16_t>(buffer, first, elements);
    case v1::DATA_TYPE_U16:
      return CheckIntegers<uint16_t>(buffer, first, elements);
    case v1::DATA_TYPE_I32:
      return CheckIntegers<int32_t>(buffer, first, elements);
    case v1::DATA_TYPE_U32:
      return CheckIntegers<uint32_t>(buffer, first, elements);
    case v1::DATA_TYPE_I64:
      return CheckIntegers<int64_t>(buffer, first, elements);
    case v1::DATA_TYPE_U64:
      return CheckIntegers<uint64_t>(buffer, first, elements);
    default:
      return {};
  }
}

}  // namespace tunefarm
