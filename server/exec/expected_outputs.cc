#include "server/exec/expected_outputs.h"

#include <algorithm>
#include <utility>

namespace tunefarm {
namespace {

// Each holds a descriptor.
constexpr size_t kOutputsMax = 64;

}  // namespace

std::shared_ptr<const SharedMemfd> ExpectedOutputs::Find(const std::string& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&key](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().outputs;
}

void ExpectedOutputs::Put(const std::string& key, SharedMemfd outputs) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&key](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    total_bytes_ -= found->outputs->bytes;
    entries_.erase(found);
  }
  if (outputs.bytes > std::min(one_bytes_max_, total_bytes_max_)) return;
  while (!entries_.empty() && (total_bytes_ + outputs.bytes > total_bytes_max_ || entries_.size() >= kOutputsMax)) {
    total_bytes_ -= entries_.back().outputs->bytes;
    entries_.pop_back();
  }
  total_bytes_ += outputs.bytes;
  entries_.push_front({key, std::make_shared<const SharedMemfd>(std::move(outputs))});
}

}  // namespace tunefarm
