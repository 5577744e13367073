#pragma once

#include <cstdlib>
#include <string>

#include "server/base/check.h"
#include "server/base/file.h"

namespace tunefarm {

// A fresh directory under TMPDIR (or /tmp), removed with all it holds.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/tunefarm_test_XXXXXX";
    TUNEFARM_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { TUNEFARM_CHECK_OK(RemoveTree(path_)); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tunefarm
