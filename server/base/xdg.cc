#include "server/base/xdg.h"

#include <unistd.h>

#include <cstdlib>

#include "server/base/status.h"

namespace tunefarm {
namespace {

// The variable's value if it is an absolute path; the XDG rules tell to ignore any other.
std::optional<std::string> AbsolutePath(const EnvironmentGetter& environment, const char* name) {
  std::optional<std::string> value = environment(name);
  if (!value.has_value() || value->empty() || value->front() != '/') return std::nullopt;
  while (value->size() > 1 && value->back() == '/') value->pop_back();
  return value;
}

absl::StatusOr<std::string> HomeBased(const EnvironmentGetter& environment, const char* variable,
                                      const char* fallback) {
  if (const auto base = AbsolutePath(environment, variable)) return *base + "/tunefarm";
  if (const auto home = AbsolutePath(environment, "HOME")) return *home + "/" + fallback + "/tunefarm";
  return FailedPrecondition("neither {} nor HOME is an absolute path; set one of them", variable);
}

}  // namespace

EnvironmentGetter RealEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

absl::StatusOr<std::string> DataDir(const EnvironmentGetter& environment) {
  return HomeBased(environment, "XDG_DATA_HOME", ".local/share");
}

absl::StatusOr<std::string> ConfigDir(const EnvironmentGetter& environment) {
  return HomeBased(environment, "XDG_CONFIG_HOME", ".config");
}

std::string RuntimeDir(const EnvironmentGetter& environment) {
  if (const auto base = AbsolutePath(environment, "XDG_RUNTIME_DIR")) return *base + "/tunefarm";
  return fmt::format("/tmp/tunefarm-{}", geteuid());
}

}  // namespace tunefarm
