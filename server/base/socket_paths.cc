#include "server/base/socket_paths.h"

#include <sys/un.h>

#include <filesystem>
#include <system_error>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

bool LeadsElsewhere(const std::string& link, const std::string& directory) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(link, error);
  return !error && target != directory && !std::filesystem::equivalent(target, directory, error);
}

}  // namespace

absl::StatusOr<std::string> ChosenDataDirectory(const std::string& flag, const EnvironmentGetter& environment) {
  std::string chosen = flag;
  if (chosen.empty()) chosen = environment("TUNEFARM_DATA_DIR").value_or("");
  if (chosen.empty()) {
    ASSIGN_OR_RETURN(chosen, DataDir(environment));
  }
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(chosen, error).lexically_normal();
  if (error) return InvalidArgument("data directory '{}' is not a usable path: {}", chosen, error.message());
  std::string text = path.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<SocketPaths> SocketPathsFor(const std::string& data_directory, const EnvironmentGetter& environment) {
  SocketPaths paths;
  absl::StatusOr<std::string> standard = DataDir(environment);
  if (standard.ok() && *standard == data_directory) {
    paths.directory = RuntimeDir(environment);
    paths.owner = paths.directory + "/data";
  }
  if (paths.owner.empty() || LeadsElsewhere(paths.owner, data_directory)) {
    paths.directory = data_directory + "/run";
    paths.owner.clear();
  }
  paths.admin = paths.directory + "/admin.sock";
  paths.client = paths.directory + "/client.sock";
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (paths.client.size() > kPathMax) {
    return FailedPrecondition(
        "the socket path '{}' has {} bytes, but a Unix socket may have {}; choose a shorter data "
        "directory",
        paths.client, paths.client.size(), kPathMax);
  }
  return paths;
}

}  // namespace tunefarm
