// How long the compile of a config will probably take, from those of the same study before it: the geometric mean of
// all, times a factor for each parameter's value (means on the log, as if parameters did not interact; little seen
// counts little). It is good enough to tell long from short, which is all that the order of compiles needs.
//
// Pure. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "server/expression/config.h"

namespace tunefarm {

class CompileForecast {
 public:
  // Of parameters with more values, those seen first have a factor of their own.
  static constexpr size_t kFactorsMax = 4096;

  // What is not a positive number is no time.
  void Note(const Config& config, double compile_ms);
  // 0: nothing is known yet.
  double ExpectMs(const Config& config) const;

 private:
  struct Logs {
    double sum = 0;
    double count = 0;
  };

  Logs all_;
  std::map<std::pair<std::string, std::string>, Logs> by_value_;  // by parameter and value
};

}  // namespace tunefarm
