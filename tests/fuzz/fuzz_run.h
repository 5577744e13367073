// How long a fuzz target runs without libFuzzer, and what is left of an input that it stumbles over.
//
// A fixed number of inputs of a fixed seed with every build; TUNEFARM_FUZZ_SECONDS=N (60 in continuous integration, an
// hour where TUNEFARM_NIGHTLY=1 and nothing else is said) goes on for that long, from a seed of its own, which is
// printed. TUNEFARM_FUZZ_SEED=N repeats one run's inputs. The thread sanitizer has nothing to find in pure functions of
// one thread: there it is never more than the fixed number.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tunefarm {

class FuzzRun {
 public:
  // At least `inputs_min` inputs are tried.
  explicit FuzzRun(int64_t inputs_min);
  // Prints how many there were.
  ~FuzzRun();
  FuzzRun(const FuzzRun&) = delete;
  FuzzRun& operator=(const FuzzRun&) = delete;

  uint64_t seed() const { return seed_; }
  bool GoesOn() const { return tried_ < inputs_min_ || std::chrono::steady_clock::now() < end_; }
  // Runs the target. If the program dies of it, be it of its stack or by a sanitizer, the input stays in a file in the
  // working folder whose name is printed.
  void Try(const std::string& input);

 private:
  const int64_t inputs_min_;
  uint64_t seed_ = 1;
  std::chrono::steady_clock::time_point end_;
  int64_t tried_ = 0;
};

}  // namespace tunefarm
