#include "server/worker/cuda/toolkit_headers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string_view>

#include "server/base/file.h"
#include "server/base/file_set.h"
#include "server/definition/source_includes.h"

namespace tunefarm::cuda {
namespace {

constexpr uint64_t kHeaderBytesMax = 16 << 20;

// A regular one that the compiler can read.
bool IsReadableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), R_OK) == 0;
}

std::string Joined(std::string_view folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).lexically_normal().string();
}

}  // namespace

const std::vector<ToolkitHeaders::Name>& ToolkitHeaders::NamesIn(const std::string& path) {
  Scanned& scanned = scanned_[path];
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return scanned.names;
  const int64_t modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (scanned.bytes == info.st_size && scanned.modified_ns == modified_ns) return scanned.names;
  scanned = {info.st_size, modified_ns, {}};
  const absl::StatusOr<std::string> content = ReadFile(path, kHeaderBytesMax);
  if (!content.ok()) return scanned.names;
  for (const IncludedName& included : FindIncludedNames(*content)) {
    scanned.names.push_back({included.name, included.is_quoted});
  }
  return scanned.names;
}

std::vector<std::string> ToolkitHeaders::ReachableFrom(const NvrtcInput& input) {
  std::set<std::string_view> given;
  for (const auto& [path, content] : input.headers) given.insert(path);
  std::set<std::string> found;
  std::vector<std::string> left;
  const auto add = [&](const Name& name, std::string_view folder) {
    if (given.count(name.name) > 0) return;
    std::vector<std::string> candidates;
    if (name.is_quoted && !folder.empty()) candidates.push_back(Joined(folder, name.name));
    for (const std::string& directory : directories_) candidates.push_back(Joined(directory, name.name));
    for (std::string& candidate : candidates) {
      if (!IsReadableFile(candidate)) continue;
      if (found.insert(candidate).second) left.push_back(std::move(candidate));
      return;
    }
  };
  const auto add_text = [&](std::string_view text) {
    for (const IncludedName& included : FindIncludedNames(text)) add({included.name, included.is_quoted}, "");
  };
  add_text(input.source);
  // Of the definition, and those that stand for the standard library: few of these include anything.
  for (const auto& [path, content] : input.headers) add_text(content);
  while (!left.empty() && found.size() <= kFileSetFilesMax) {
    const std::string path = std::move(left.back());
    left.pop_back();
    for (const Name& name : NamesIn(path)) add(name, std::string_view(path).substr(0, path.rfind('/')));
  }
  return {found.begin(), found.end()};
}

}  // namespace tunefarm::cuda
