// ParameterEffects: what the configs of a study show about its parameters without a time: which of them changed neither
// binary nor launch, and whether all fail to compile alike.
//
// A function of the trials that were added, in any order; bounded: trials beyond kTrialsMax are not looked at.
//
// Not thread-safe: a study owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/expression/config.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

class ParameterEffects {
 public:
  static constexpr size_t kTrialsMax = 4096;
  // Configs that fail to compile alike, of which each parameter has had two values, end a search.
  static constexpr int64_t kAlikeMax = 24;

  // `varied` are the parameters that may have more than one value.
  explicit ParameterEffects(std::set<std::string> varied) : unvaried_(varied), varied_(std::move(varied)) {}

  // False: Add of the trial would change nothing.
  bool Needs(const tunefarm::v1::Trial& trial) const {
    return alike_ >= 0 || (trial.work() != 0 && added_ < kTrialsMax);
  }
  // An ended trial of the search with its config.
  void Add(const Config& config, const tunefarm::v1::Trial& trial);

  // Parameters of which at least two values were seen beside the same values of all others, and never to any effect. In
  // the order of their names.
  std::vector<std::string> WithoutEffect() const;
  // Why no config will compile, in a few words; empty: some may. Stays as it was first.
  const std::string& none_compiles() const { return none_compiles_; }

 private:
  struct Seen {
    uint64_t work = 0;
    std::string value;
  };

  void AddWork(const Config& config, uint64_t work);
  void AddError(const Config& config, const tunefarm::v1::Trial& trial);

  std::set<std::string> unvaried_;  // among the failures
  const std::set<std::string> varied_;
  size_t added_ = 0;
  // By parameter: the work of configs that differ in it alone, by a hash of what they have in common.
  std::map<std::string, std::unordered_map<uint64_t, Seen>> seen_;
  std::map<std::string, bool> has_effect_;  // of parameters that were seen to vary alone
  int64_t alike_ = 0;                       // failures so far; -1: something else was seen
  std::string error_;
  Config first_;
  std::string none_compiles_;
};

}  // namespace tunefarm
