#include "client/cpp/snapshot/snapshot_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm::snapshot {
namespace {

absl::Status Damaged(const std::string& name, std::string_view what) {
  return WithReason(DataLoss("{} is no snapshot that can be read: {}; export it again", name, what),
                    "SNAPSHOT_DAMAGED");
}

bool IsTime(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

class SnapshotFile::Mapping {
 public:
  Mapping(void* data, size_t size) : data_(data), size_(size) {}
  ~Mapping() { munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* const data_;
  const size_t size_;
};

absl::StatusOr<SnapshotFile> SnapshotFile::Open(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat stat = {};
  if (!fd.valid() || fstat(fd.get(), &stat) != 0) return ErrnoStatus(errno, "opening the snapshot {}", path);
  if (!S_ISREG(stat.st_mode)) return InvalidArgument("the snapshot {} is not a file", path);
  const size_t size = static_cast<size_t>(stat.st_size);
  if (size < sizeof(Header)) return Damaged(path, "it has fewer bytes than the header");
  if (size > kFileBytesMax) return Damaged(path, "it is larger than any snapshot");
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "mapping the snapshot {}", path);
  auto mapping = std::make_shared<const Mapping>(data, size);
  SnapshotFile file(mapping->bytes(), mapping);
  RETURN_IF_ERROR(file.Check(path));
  return file;
}

absl::StatusOr<SnapshotFile> SnapshotFile::Read(std::string_view bytes, const std::string& name) {
  SnapshotFile file(bytes, nullptr);
  RETURN_IF_ERROR(file.Check(name));
  return file;
}

absl::Status SnapshotFile::Check(const std::string& name) {
  if (bytes_.size() < sizeof(Header)) return Damaged(name, "it has fewer bytes than the header");
  std::memcpy(&header_, bytes_.data(), sizeof(header_));
  if (std::memcmp(header_.magic, kMagic, sizeof(kMagic)) != 0) return Damaged(name, "it does not begin like one");
  if (header_.version != kVersion) {
    return WithReason(InvalidArgument("{} is a snapshot of version {}, this program reads version {}; export it with a "
                                      "tunefarm of the same version",
                                      name, header_.version, kVersion),
                      "SNAPSHOT_VERSION");
  }
  if (header_.header_bytes != sizeof(Header)) return Damaged(name, "its header has another size");
  if (header_.file_bytes != bytes_.size()) {
    return Damaged(name,
                   header_.file_bytes > bytes_.size() ? "it is cut off" : "it has bytes that do not belong to it");
  }
  if (header_.checksum != Xxh3(bytes_.substr(kChecksumFrom))) return Damaged(name, "its checksum is wrong");
  if (!CheckSections()) return Damaged(name, "its sections do not lie within it");
  if (!CheckRecords()) return Damaged(name, "its records contradict each other");
  return absl::OkStatus();
}

bool SnapshotFile::CheckSections() const {
  for (const auto& [section, record_bytes] :
       {std::pair{header_.strings, sizeof(StringRecord)}, std::pair{header_.text, size_t{1}},
        std::pair{header_.kernels, sizeof(KernelRecord)}, std::pair{header_.pairs, sizeof(PairRecord)},
        std::pair{header_.bests, sizeof(BestRecord)}}) {
    if (section.offset % 8 != 0 || section.offset < sizeof(Header) || section.offset > bytes_.size()) return false;
    if (section.count > (bytes_.size() - section.offset) / record_bytes) return false;
  }
  return true;
}

bool SnapshotFile::CheckRecords() const {
  for (uint64_t i = 0; i < header_.strings.count; ++i) {
    const auto string = At<StringRecord>(header_.strings, i);
    if (string.bytes > kStringBytesMax || uint64_t{string.offset} + string.bytes > header_.text.count) return false;
  }
  const auto are_strings = [this](std::initializer_list<uint32_t> numbers) {
    for (const uint32_t number : numbers) {
      if (number >= header_.strings.count) return false;
    }
    return true;
  };
  uint64_t next_best = 0;
  for (uint64_t k = 0; k < header_.kernels.count; ++k) {
    const auto kernel = At<KernelRecord>(header_.kernels, k);
    if (!are_strings({kernel.name, kernel.kernel_id, kernel.program_digest})) return false;
    if (!ArePairs(kernel.first_dim, kernel.dims, kDimsMax, /*may_be_none=*/true)) return false;
    if (kernel.dims < kDimsMax && kernel.inputs_only >> kernel.dims != 0) return false;
    if (kernel.first_best != next_best || kernel.bests > header_.bests.count - next_best) return false;
    for (uint64_t i = 0; i < kernel.bests; ++i) {
      const auto best = At<BestRecord>(header_.bests, next_best + i);
      if (best.kernel != k || best.flags > 1) return false;
      if (!are_strings({best.class_id, best.class_name, best.problem, best.job, best.driver, best.toolkit}))
        return false;
      if (!ArePairs(best.first_dim, best.dims, kDimsMax, false)) return false;
      if (!ArePairs(best.first_value, best.values, kParametersMax, false)) return false;
      if (!IsTime(best.median_ns) || !IsTime(best.ci_low_ns) || !IsTime(best.ci_high_ns) || !IsTime(best.baseline_ns)) {
        return false;
      }
    }
    next_best += kernel.bests;
  }
  return next_best == header_.bests.count;
}

bool SnapshotFile::ArePairs(uint32_t first, uint32_t count, uint32_t most, bool may_be_none) const {
  if (count > most || uint64_t{first} + count > header_.pairs.count) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const auto pair = At<PairRecord>(header_.pairs, first + i);
    if (pair.name >= header_.strings.count) return false;
    switch (pair.kind) {
      case kNone:
        if (!may_be_none || pair.payload != 0) return false;
        break;
      case kInt:
        break;
      case kDouble:
        if (!std::isfinite(std::bit_cast<double>(pair.payload))) return false;
        break;
      case kBool:
        if (pair.payload > 1) return false;
        break;
      case kString:
        if (pair.payload >= header_.strings.count) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

template <typename Record>
Record SnapshotFile::At(const Section& section, uint64_t index) const {
  Record record;
  std::memcpy(&record, bytes_.data() + section.offset + index * sizeof(Record), sizeof(Record));
  return record;
}

std::string SnapshotFile::String(uint32_t index) const {
  const auto string = At<StringRecord>(header_.strings, index);
  return std::string(bytes_.substr(header_.text.offset + string.offset, string.bytes));
}

NamedScalars SnapshotFile::Pairs(uint32_t first, uint32_t count) const {
  NamedScalars values;
  for (uint32_t i = 0; i < count; ++i) {
    const auto pair = At<PairRecord>(header_.pairs, first + i);
    Scalar value;
    if (pair.kind == kInt) value = static_cast<int64_t>(pair.payload);
    if (pair.kind == kDouble) value = std::bit_cast<double>(pair.payload);
    if (pair.kind == kBool) value = pair.payload == 1;
    if (pair.kind == kString) value = String(static_cast<uint32_t>(pair.payload));
    values.emplace_back(String(pair.name), std::move(value));
  }
  return values;
}

Kernel SnapshotFile::KernelAt(size_t kernel) const {
  const auto record = At<KernelRecord>(header_.kernels, kernel);
  return {String(record.name),
          String(record.kernel_id),
          String(record.program_digest),
          Pairs(record.first_dim, record.dims),
          {},
          record.inputs_only};
}

size_t SnapshotFile::BestsOf(size_t kernel) const { return At<KernelRecord>(header_.kernels, kernel).bests; }

Best SnapshotFile::BestAt(size_t kernel, size_t number) const {
  const uint64_t first = At<KernelRecord>(header_.kernels, kernel).first_best;
  const auto record = At<BestRecord>(header_.bests, first + number);
  Best best;
  best.class_id = String(record.class_id);
  best.class_name = String(record.class_name);
  best.problem = String(record.problem);
  best.job = String(record.job);
  best.driver = String(record.driver);
  best.toolkit = String(record.toolkit);
  best.dims = Pairs(record.first_dim, record.dims);
  best.config = Pairs(record.first_value, record.values);
  best.pinned = record.flags == 1;
  best.median_ns = record.median_ns;
  best.ci_low_ns = record.ci_low_ns;
  best.ci_high_ns = record.ci_high_ns;
  best.baseline_ns = record.baseline_ns;
  best.revision = record.revision;
  best.promoted_at_ms = record.promoted_at_ms;
  return best;
}

}  // namespace tunefarm::snapshot
