// The fake NVML (fake_nvml.c) with a state of a test's own, for the processes that the test starts.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "server/base/check.h"
#include "server/base/file.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

class FakeNvml {
 public:
  FakeNvml() {
    const std::string library = std::string(std::getenv("TUNEFARM_BIN_DIR")) + "/fake_nvml/libnvidia-ml.so.1";
    TUNEFARM_CHECK(symlink(library.c_str(), folder_.File("libnvidia-ml.so.1").c_str()) == 0);
    if (const char* const before = std::getenv("LD_LIBRARY_PATH")) before_ = before;
    setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
  }
  ~FakeNvml() {
    if (before_.has_value()) {
      setenv("LD_LIBRARY_PATH", before_->c_str(), 1);
    } else {
      unsetenv("LD_LIBRARY_PATH");
    }
  }

  void Deny() { TUNEFARM_CHECK_OK(WriteFileAtomically(folder_.File("denied"), "")); }
  void Permit() { unlink(folder_.File("denied").c_str()); }
  // "0\n": it is free; empty: nobody has changed it.
  std::string clock() const { return Read("clock"); }
  void SetClock(int mhz) { TUNEFARM_CHECK_OK(WriteFileAtomically(folder_.File("clock"), std::to_string(mhz) + "\n")); }
  // What changed it, a line each: "lock 1410 1410", "reset".
  std::string calls() const { return Read("calls"); }

 private:
  std::string Read(const std::string& name) const { return ReadFile(folder_.File(name), 1 << 20).value_or(""); }

  TemporaryDirectory folder_;
  std::optional<std::string> before_;  // LD_LIBRARY_PATH
};

}  // namespace tunefarm
