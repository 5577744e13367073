// Counts of trials by outcome and by what their messages say.
//
// Threads: not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tunefarm {

class OutcomeReasons {
 public:
  struct Row {
    int outcome = 0;
    std::string reason;
    int64_t count = 0;
    int64_t example_ordinal = 0;  // the smallest of them
  };

  // `outcome` is the caller's number for it. Of the message its first line counts, with # for numbers, so that
  // "y[7] is 3" and "y[12] is 4" are one reason. The first kReasonsMax reasons are told apart; what comes later is
  // counted for its outcome with the reason "others".
  void Add(int outcome, std::string_view message, int64_t ordinal);

  // The most frequent first, then in the order of the examples.
  std::vector<Row> Rows() const;

  static constexpr size_t kReasonsMax = 1000;

 private:
  std::map<std::pair<int, std::string>, Row> rows_;
};

// The first line of a message, shortened, with # in place of numbers.
std::string ReasonPattern(std::string_view message);

}  // namespace tunefarm
