// What messages of failed trials say, as reasons that can be counted.
//
// Threads: not thread-safe while reasons are added; const use from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tunefarm {

// Tells reasons apart and numbers them.
class OutcomeReasons {
 public:
  struct Reason {
    int outcome = 0;
    std::string text;
  };

  // The number of a reason, from 0. `outcome` is the caller's number for it. Of the message its first line counts, with
  // # for numbers, so that "y[7] is 3" and "y[12] is 4" are one reason. The first kReasonsMax reasons are told apart;
  // what comes later has for each outcome the reason "others".
  uint16_t NumberOf(int outcome, std::string_view message);

  const std::vector<Reason>& reasons() const { return reasons_; }

  static constexpr size_t kReasonsMax = 1000;

 private:
  std::map<std::pair<int, std::string>, uint16_t> numbers_;
  std::vector<Reason> reasons_;
};

// The first line of a message, shortened, with # in place of numbers.
std::string ReasonPattern(std::string_view message);

}  // namespace tunefarm
