#pragma once

// The outputs of references, kept in host memory so that a standby and every later runner of a device need not run the
// reference again: on a device it may take seconds, and the device belongs to the configs. The content is opaque here:
// it was made by one worker and is checked by the next, by length, key and checksum, which falls back to the reference.
//
// Loop thread only.

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "server/base/memfd.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

// A sealed memfd that several may hold.
struct SharedMemfd {
  UniqueFd fd;
  uint64_t bytes = 0;
};

class ExpectedOutputs {
 public:
  // Bounds in bytes: of all together, and of one, beyond which a worker does not send them.
  ExpectedOutputs(uint64_t total_bytes_max, uint64_t one_bytes_max)
      : total_bytes_max_(total_bytes_max), one_bytes_max_(one_bytes_max) {}

  uint64_t one_bytes_max() const { return one_bytes_max_; }

  // Null: not there. Marks it as used.
  std::shared_ptr<const SharedMemfd> Find(const std::string& key);
  // Takes the descriptor over and forgets what was not used for longest. What is larger than one_bytes_max is not kept.
  void Put(const std::string& key, SharedMemfd outputs);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const SharedMemfd> outputs;
  };
  const uint64_t total_bytes_max_, one_bytes_max_;
  uint64_t total_bytes_ = 0;
  std::list<Entry> entries_;  // last used first
};

}  // namespace tunefarm
