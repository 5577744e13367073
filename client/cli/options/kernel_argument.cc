#include "client/cli/options/kernel_argument.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "client/cli/data/definition_data.h"
#include "client/cli/options/problem_options.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDefinitionBytesMax = 1 << 20;
constexpr uint64_t kSourceBytesMax = 4 << 20;

bool IsSource(const fs::path& file) {
  constexpr std::string_view kEndings[] = {".cu", ".cc", ".cpp", ".cxx", ".py"};
  return std::find(std::begin(kEndings), std::end(kEndings), file.extension().string()) != std::end(kEndings);
}

absl::StatusOr<KernelArgument> LoadFile(const fs::path& file) {
  // The definition itself may be a link, but no FIFO or device.
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return ErrnoStatus(error.value(), "cannot open {}", file.string());
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFileBelow(real.parent_path().string(), real.filename().string(), kDefinitionBytesMax));
  const fs::path folder = file.parent_path();
  ASSIGN_OR_RETURN(v1::Kernel kernel, LoadKernelText(text, file.string(), [&folder](const std::string& path) {
                     // What a definition includes and its sources go to the daemon: nothing that lies elsewhere.
                     return ReadFileBelow(folder.string(), path, kSourceBytesMax);
                   }));
  KernelArgument argument;
  argument.name = kernel.display_name();
  argument.definition = std::move(kernel);
  argument.file = file.string();
  return argument;
}

// The definitions that lie in a folder, by name. kernel.pbtxt stands for the folder.
std::vector<BoxDefinition> DefinitionsIn(const fs::path& folder) {
  std::vector<BoxDefinition> found;
  std::error_code error;
  const fs::path only = folder / "kernel.pbtxt";
  if (fs::exists(only, error)) {
    found.push_back({folder.filename().string(), only.string()});
    return found;
  }
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".pbtxt") found.push_back({it->path().stem().string(), it->path().string()});
  }
  std::sort(found.begin(), found.end(), [](const BoxDefinition& a, const BoxDefinition& b) { return a.name < b.name; });
  return found;
}

absl::StatusOr<KernelArgument> LoadFolder(const std::string& text) {
  // A trailing slash would make the folder's name empty.
  const std::vector<BoxDefinition> definitions = DefinitionsIn(fs::path(text));
  if (definitions.size() == 1) return LoadFile(definitions.front().file);
  if (definitions.empty()) {
    std::error_code error;
    fs::directory_iterator(fs::path(text), error);
    if (error) return ErrnoStatus(error.value(), "cannot read the folder {}", text);
    return NotFound("the folder {} has no kernel.pbtxt; tunefarm kernels new writes one", text);
  }
  std::string names;
  for (const BoxDefinition& definition : definitions) {
    names += (names.empty() ? "" : ", ") + fs::path(definition.file).filename().string();
  }
  return InvalidArgument("the folder {} has several definitions: {}; name one of them", text, names);
}

}  // namespace

std::string KernelsInTheBox(const EnvironmentGetter& environment) {
  if (const auto chosen = environment("TUNEFARM_KERNELS"); chosen && !chosen->empty()) return *chosen;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Installed or bundled; then a program that still lies in build/PRESET/bin of its source tree.
  for (const fs::path& candidate : {folder / "../share/tunefarm/kernels", folder / "../../../kernels"}) {
    if (fs::is_directory(candidate, error)) return fs::canonical(candidate, error).string();
  }
  return "";
}

std::vector<BoxDefinition> DefinitionsInTheBox(const EnvironmentGetter& environment) {
  std::vector<BoxDefinition> all;
  const std::string box = KernelsInTheBox(environment);
  if (box.empty()) return all;
  std::error_code error;
  for (const fs::path& folder : {fs::path(box), fs::path(box) / "examples"}) {
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (!fs::is_directory(it->path(), ignored)) continue;
      for (BoxDefinition& definition : DefinitionsIn(it->path())) all.push_back(std::move(definition));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const BoxDefinition& a, const BoxDefinition& b) { return a.name < b.name; });
  return all;
}

absl::StatusOr<KernelArgument> ResolveKernelArgument(const std::string& text, const EnvironmentGetter& environment) {
  ASSIGN_OR_RETURN(KernelArgument argument, ResolveKernelWithoutData(text, environment));
  if (argument.definition.has_value()) {
    RETURN_IF_ERROR(DescribeDataFiles(&*argument.definition, argument.folder(), {}).status());
  }
  return argument;
}

absl::StatusOr<KernelArgument> ResolveKernelWithoutData(const std::string& text, const EnvironmentGetter& environment) {
  std::error_code error;
  if (fs::is_directory(text, error)) return LoadFolder(text);
  if (fs::exists(text, error) && IsSource(text)) {
    return InvalidArgument(
        "{0} is a source; name its definition, which tunefarm kernels new {1} writes if there is none", text,
        ShellWord(text));
  }
  if (fs::exists(text, error) && fs::path(text).extension() == ".inc") {
    return InvalidArgument("{} is text that definitions include; name a definition", text);
  }
  if (fs::exists(text, error)) return LoadFile(text);
  const bool looks_like_path = text.find('/') != std::string::npos && text.rfind("kernels/", 0) != 0;
  if (looks_like_path || fs::path(text).extension() == ".pbtxt")
    return NotFound("there is no kernel definition at {}", text);
  const std::string name = text.rfind("kernels/", 0) == 0 ? text.substr(8) : text;
  for (const BoxDefinition& definition : DefinitionsInTheBox(environment)) {
    if (definition.name != name) continue;
    ASSIGN_OR_RETURN(KernelArgument argument, LoadFile(definition.file));
    argument.is_built_in = true;
    return argument;
  }
  KernelArgument argument;
  argument.name = text;
  return argument;
}

std::string KernelArgument::folder() const { return fs::path(file).parent_path().string(); }

absl::StatusOr<std::string> ProgramDigestOf(const KernelArgument& argument) {
  if (!argument.definition.has_value()) return std::string();
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(*argument.definition));
  return plan->program_digest();
}

absl::StatusOr<std::string> ProgramDigestOfPath(const KernelArgument& argument) {
  return argument.is_built_in ? std::string() : ProgramDigestOf(argument);
}

std::string VersionText(const std::string& display_name, const std::string& kernel_id) {
  constexpr size_t kShown = 12;
  const size_t begin = kernel_id.rfind("kernels/", 0) == 0 ? std::string_view("kernels/").size() : 0;
  return display_name + "@" + kernel_id.substr(begin, kShown);
}

}  // namespace tunefarm::cli
