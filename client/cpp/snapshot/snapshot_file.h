// A snapshot file, open for reading.
//
// Threads: const use from any thread. The file must not be written to while it is open: replace it by renaming another
// one over it, as `tunefarm export snapshot` does; a reader that has it open continues with the old one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/snapshot/snapshot_contents.h"
#include "client/cpp/snapshot/snapshot_format.h"

namespace tunefarm::snapshot {

class SnapshotFile {
 public:
  // Maps the file and checks all of it. NotFound and other errors of the system; DataLoss (SNAPSHOT_DAMAGED) for what
  // is no snapshot, is cut off, or was changed; InvalidArgument (SNAPSHOT_VERSION) for another version.
  static absl::StatusOr<SnapshotFile> Open(const std::string& path);
  // The same of bytes that outlive it; `name` is for messages.
  static absl::StatusOr<SnapshotFile> Read(std::string_view bytes, const std::string& name);

  int64_t revision() const { return header_.revision; }
  int64_t made_at_ms() const { return header_.made_at_ms; }
  size_t kernels() const { return header_.kernels.count; }
  // Without its bests.
  Kernel KernelAt(size_t kernel) const;
  size_t BestsOf(size_t kernel) const;
  Best BestAt(size_t kernel, size_t number) const;

 private:
  class Mapping;

  SnapshotFile(std::string_view bytes, std::shared_ptr<const Mapping> mapping)
      : bytes_(bytes), mapping_(std::move(mapping)) {}
  absl::Status Check(const std::string& name);
  bool CheckSections() const;
  bool CheckRecords() const;
  bool ArePairs(uint32_t first, uint32_t count, uint32_t most, bool may_be_none) const;

  template <typename Record>
  Record At(const Section& section, uint64_t index) const;
  std::string String(uint32_t index) const;
  NamedScalars Pairs(uint32_t first, uint32_t count) const;

  std::string_view bytes_;
  std::shared_ptr<const Mapping> mapping_;  // null: of Read
  Header header_ = {};
};

}  // namespace tunefarm::snapshot
