#include "tests/fuzz/fuzz_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "server/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tunefarm {
namespace {

constexpr char kFindingFile[] = "fuzz_finding.bin";

// Of the input that is being tried, for the signal handler.
const char* volatile input_bytes = nullptr;
volatile size_t input_size = 0;

// Only what a handler may do.
void KeepInput(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  const int fd = open(kFindingFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0 && write(fd, input_bytes, input_size) >= 0 && close(fd) == 0) {
    constexpr char kText[] = "the input is in fuzz_finding.bin, in the working folder of the test\n";
    if (write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) _exit(1);
  }
  raise(signal_number);
}

int64_t SecondsAsked() {
#if defined(__SANITIZE_THREAD__)
  return 0;
#else
  if (const char* const text = std::getenv("TUNEFARM_FUZZ_SECONDS"); text != nullptr) return std::atoll(text);
  const char* const nightly = std::getenv("TUNEFARM_NIGHTLY");
  return nightly != nullptr && std::string_view(nightly) == "1" ? 3600 : 0;
#endif
}

}  // namespace

FuzzRun::FuzzRun(int64_t inputs_min) : inputs_min_(inputs_min) {
  const int64_t seconds = SecondsAsked();
  end_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  if (seconds > 0) EntropySource::Real()->Fill(&seed_, sizeof(seed_));
  if (const char* const text = std::getenv("TUNEFARM_FUZZ_SEED"); text != nullptr) {
    seed_ = std::strtoull(text, nullptr, 10);
  }
  fmt::print("seed {}, {} s\n", seed_, seconds);
  // What a signal ends loses what is not written yet.
  std::fflush(stdout);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, KeepInput);
}

FuzzRun::~FuzzRun() {
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, SIG_DFL);
  fmt::print("{} inputs\n", tried_);
}

void FuzzRun::Try(const std::string& input) {
  input_bytes = input.data();
  input_size = input.size();
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  ++tried_;
}

}  // namespace tunefarm
