// The users' own data in a worker: files that the daemon has opened, which hold what buffers start with and what
// outputs must equal. They are read by position and never mapped: a file that is cut short meanwhile would end the
// process.
//
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "server/base/unique_fd.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/backend.h"
#include "server/worker/verify/failure.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// Of what is copied and checked at once, where it is not all. A multiple of every element's size; few enough parts that
// a standby may yield the device after each.
inline constexpr size_t kDataFilePartBytes = size_t{16} << 20;

class DataFileReader {
 public:
  // A file that must hold as many bytes as the buffer. INFEASIBLE_LAUNCH if it is declared to be of another size; LOST
  // if the daemon has not sent it, or a file of another size.
  static Failure Open(const PreparedKernel& kernel, const tunefarm::v1::DataFile& file, const BufferPlan& buffer,
                      DataFileReader* reader);

  // All bytes of `part`, which begins at `offset` in the file. LOST if it ends before, or cannot be read.
  Failure Read(uint64_t offset, std::span<std::byte> part) const;

 private:
  std::shared_ptr<const UniqueFd> file_;
  std::string what_;  // begins a sentence
  uint64_t bytes_ = 0;
};

// What is expected of an output, or a part of it that begins with element `first`: INFEASIBLE_LAUNCH if an element is
// NaN, which no output could equal.
Failure CheckExpected(const BufferPlan& buffer, uint64_t first, std::span<const std::byte> elements);

// What a buffer holds before the launches, or a part of it that begins with element `first`: INFEASIBLE_LAUNCH if an
// element is no index below the buffer's limit. Nothing where it has none.
Failure CheckIndices(const BufferPlan& buffer, uint64_t first, std::span<const std::byte> elements);

}  // namespace tunefarm
