// Which bests an export takes: those of a device class, and of some values of dims.
//
// Pure; any thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "server/expression/config.h"

namespace tunefarm::interchange {

// Whether `wanted` is the class's id, its name or whole words of its name, whatever the case; an empty one is every
// class.
bool IsDeviceNamed(std::string_view wanted, std::string_view class_id, std::string_view class_name);

// Whether a problem has, of each named dim, one of the values.
class DimFilter {
 public:
  // A value as it is printed: "007" is the string, or the int 7.
  void Add(const std::string& dim, const std::string& value);
  bool Takes(const Config& dims) const;

 private:
  std::map<std::string, std::set<std::string>> values_;
};

}  // namespace tunefarm::interchange
