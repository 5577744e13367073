// A Config is one point of a space, or one problem's dims: values by name, ordered by name.
//
// A plain value type: copyable, no shared state, const use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/expression/value.h"

namespace tunefarm {

using ValueMap = std::map<std::string, Value, std::less<>>;
using ValueTypeMap = std::map<std::string, ValueType, std::less<>>;

class Config {
 public:
  Config() = default;
  Config(std::initializer_list<std::pair<const std::string, Value>> values) : values_(values) {}
  explicit Config(ValueMap values) : values_(std::move(values)) {}

  // Sets or replaces one value.
  void Set(std::string_view name, Value value) { values_.insert_or_assign(std::string(name), std::move(value)); }
  // nullptr when there is no such name. The pointer lives until that name is set again or the Config dies.
  const Value* Find(std::string_view name) const;

  const ValueMap& values() const { return values_; }
  ValueMap::const_iterator begin() const { return values_.begin(); }
  ValueMap::const_iterator end() const { return values_.end(); }
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }

  // The canonical text, sorted by name: "A=1,B=true,dtype=bf16". In names and strings the characters , = \ and newline
  // are written \, \= \\ and \n. The text carries no types: within one kernel each name has one type, so there the text
  // identifies the Config, and that is what results are filed under.
  std::string ToText() const;

  // Reads what ToText writes. With `types`, each value is read as the type of its name, and a name that `types` lacks
  // is InvalidArgument; without, types are inferred (Value::Infer). InvalidArgument also for a missing '=', an empty or
  // repeated name and a dangling escape; the message names the place. Text over 64 KiB is refused.
  static absl::StatusOr<Config> FromText(std::string_view text);
  static absl::StatusOr<Config> FromText(std::string_view text, const ValueTypeMap& types);

  // A stable 64-bit hash of the canonical text: the same in every build and on every machine.
  uint64_t Hash() const;

  friend bool operator==(const Config& a, const Config& b) { return a.values_ == b.values_; }

 private:
  ValueMap values_;
};

// For std::unordered_set<Config, ConfigHash>.
struct ConfigHash {
  size_t operator()(const Config& config) const { return config.Hash(); }
};

}  // namespace tunefarm
