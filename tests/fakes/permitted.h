#pragma once

// For tests that need what not every machine permits, such as mounts and namespaces.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tunefarm {

inline bool NamespacesAreRequired() {
  const char* value = std::getenv("TUNEFARM_REQUIRE_NAMESPACES");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace tunefarm

// Ends the running test with `reason`, a std::string. It counts as skipped, and ./dev test prints the reason; where
// TUNEFARM_REQUIRE_NAMESPACES=1 is set, as .ci/run does, it fails.
#define SKIP_NOT_PERMITTED(reason)                                                                          \
  do {                                                                                                      \
    const std::string why = (reason);                                                                       \
    if (::tunefarm::NamespacesAreRequired()) FAIL() << why << ", but TUNEFARM_REQUIRE_NAMESPACES=1 is set"; \
    std::printf("NOT TESTED: %s\n", why.c_str());                                                           \
    GTEST_SKIP() << why;                                                                                    \
  } while (false)
