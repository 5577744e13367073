#include "tests/fuzz/fuzz_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "server/base/check.h"
#include "server/base/random.h"
#include "server/sanitizers.h"

#if TUNEFARM_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tunefarm {
namespace {

// Of the input that is being tried, for the signal handler; and what that does with it.
const char* volatile input_bytes = nullptr;
volatile size_t input_size = 0;
char finding_file[256], finding_text[512];

// Only what a handler may do.
void KeepInput() {
  const int fd = open(finding_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, input_bytes, input_size) < 0 || close(fd) != 0) return;
  if (write(STDERR_FILENO, finding_text, std::strlen(finding_text)) < 0) _exit(1);
}

void KeepInputAndDie(int signal_number) {
  KeepInput();
  raise(signal_number);
}

#if TUNEFARM_ADDRESS_SANITIZER
// The sanitizer reports every other signal by itself, and ends without one after what it finds.
constexpr int kSignals[] = {SIGABRT};
#else
constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#endif

// A parser that goes too deep leaves no stack to handle the signal on.
void HandleSignals() {
#if TUNEFARM_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(KeepInput);
#else
  static char stack[1 << 16];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  TUNEFARM_CHECK(sigaltstack(&alternate, nullptr) == 0);
#endif
  struct sigaction action {};
  action.sa_handler = KeepInputAndDie;
  // Once: the second time the signal ends the program.
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

void HandleSignalsNoMore() {
#if TUNEFARM_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(nullptr);
#endif
  for (const int number : kSignals) std::signal(number, SIG_DFL);
}

int64_t SecondsAsked() {
#if TUNEFARM_THREAD_SANITIZER
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
  // Programs of one working folder run side by side.
  std::snprintf(finding_file, sizeof(finding_file), "%s_finding.bin", program_invocation_short_name);
  std::snprintf(finding_text, sizeof(finding_text), "the input is in %s, in the working folder of the test\n",
                finding_file);
  HandleSignals();
}

FuzzRun::~FuzzRun() {
  HandleSignalsNoMore();
  fmt::print("{} inputs\n", tried_);
}

void FuzzRun::Try(const std::string& input) {
  input_bytes = input.data();
  input_size = input.size();
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  ++tried_;
}

}  // namespace tunefarm
