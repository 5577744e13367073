#include "client/cli/kernel_argument.h"

#include <filesystem>
#include <system_error>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDefinitionBytesMax = 1 << 20;
constexpr uint64_t kSourceBytesMax = 4 << 20;

absl::StatusOr<KernelArgument> LoadFile(const fs::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file.string(), kDefinitionBytesMax));
  const fs::path folder = file.parent_path();
  ASSIGN_OR_RETURN(v1::Kernel kernel, LoadKernelText(text, file.string(), [&folder](const std::string& path) {
                     return ReadFile((folder / path).string(), kSourceBytesMax);
                   }));
  KernelArgument argument;
  argument.name = kernel.display_name();
  argument.definition = std::move(kernel);
  argument.file = file.string();
  return argument;
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

absl::StatusOr<KernelArgument> ResolveKernelArgument(const std::string& text, const EnvironmentGetter& environment) {
  std::error_code error;
  if (fs::is_directory(text, error)) {
    const fs::path file = fs::path(text) / "kernel.pbtxt";
    if (!fs::exists(file, error))
      return NotFound("the folder {} has no kernel.pbtxt; tunefarm kernels new writes one", text);
    return LoadFile(file);
  }
  if (fs::exists(text, error)) return LoadFile(text);
  const bool looks_like_path = text.find('/') != std::string::npos && text.rfind("kernels/", 0) != 0;
  if (looks_like_path || fs::path(text).extension() == ".pbtxt")
    return NotFound("there is no kernel definition at {}", text);
  if (const std::string box = KernelsInTheBox(environment); !box.empty()) {
    const std::string name = text.rfind("kernels/", 0) == 0 ? text.substr(8) : text;
    for (const fs::path& file :
         {fs::path(box) / name / "kernel.pbtxt", fs::path(box) / "examples" / name / "kernel.pbtxt"}) {
      if (fs::exists(file, error)) return LoadFile(file);
    }
  }
  KernelArgument argument;
  argument.name = text;
  return argument;
}

}  // namespace tunefarm::cli
