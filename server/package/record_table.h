// The records of one section of a package file (client/launch/package_format.h), in which equal runs are stored once.
//
// A run is a sequence of records that others refer to by the number of its first record and their count. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tunefarm {

template <typename Record>
class RecordTable {
 public:
  static_assert(std::has_unique_object_representations_v<Record>, "runs are compared by their bytes");

  // The number of the first record. A run that was added before is not stored again; runs that only overlap are.
  uint32_t Add(const std::vector<Record>& run) {
    std::string bytes(reinterpret_cast<const char*>(run.data()), run.size() * sizeof(Record));
    const auto [known, is_new] = first_.try_emplace(std::move(bytes), static_cast<uint32_t>(records_.size()));
    if (is_new) Append(run);
    return known->second;
  }
  // Stores the run even where an equal one was added, and does not offer it to later ones.
  uint32_t Append(const std::vector<Record>& run) {
    records_.insert(records_.end(), run.begin(), run.end());
    return static_cast<uint32_t>(records_.size() - run.size());
  }
  const std::vector<Record>& records() const { return records_; }

 private:
  std::vector<Record> records_;
  std::map<std::string, uint32_t> first_;  // by the run's bytes
};

}  // namespace tunefarm
