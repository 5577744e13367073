// Kernels in Python: what they name, and what they must not have.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr size_t kModuleNameMax = 256;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "a.b" of "a/b.py" and "a/b/__init__.py"; empty for what is no module.
std::string ModuleOfPath(std::string_view path) {
  if (!EndsWith(path, ".py")) return "";
  path.remove_suffix(3);
  constexpr std::string_view kPackage = "/__init__";
  if (EndsWith(path, kPackage)) path.remove_suffix(kPackage.size());
  std::string module(path);
  std::replace(module.begin(), module.end(), '/', '.');
  for (size_t begin = 0; begin <= module.size();) {
    const size_t end = std::min(module.find('.', begin), module.size());
    if (!IsIdentifier(std::string_view(module).substr(begin, end - begin))) return "";
    begin = end + 1;
  }
  return module;
}

}  // namespace

absl::Status CheckPython(v1::Kernel* definition) {
  v1::Kernel& kernel = *definition;
  if (kernel.language() != v1::LANGUAGE_PYTHON) {
    if (!kernel.has_python()) return absl::OkStatus();
    return FieldError("python", kConflictingFields, "only a kernel of LANGUAGE_PYTHON has a module; leave it out");
  }
  struct Absent {
    std::string_view field;
    bool is_there;
  };
  for (const Absent& absent :
       {Absent{"arguments", kernel.arguments_size() > 0}, Absent{"prepare", kernel.prepare_size() > 0},
        Absent{"launches", kernel.launches_size() > 0}, Absent{"reference", kernel.has_reference()},
        Absent{"baseline", kernel.has_baseline()}, Absent{"unverified_reason", !kernel.unverified_reason().empty()},
        Absent{"compile_options", kernel.compile_options_size() > 0}}) {
    if (!absent.is_there) continue;
    return FieldError(absent.field, kConflictingFields,
                      "it has no meaning for LANGUAGE_PYTHON, whose module makes its inputs, its runs and what the "
                      "outputs must equal; leave it out");
  }
  v1::PythonModule* const python = kernel.mutable_python();
  if (python->device() != v1::DEVICE_KIND_CUDA && python->device() != v1::DEVICE_KIND_HOST) {
    return FieldError("python.device", kMissingField,
                      "a kernel in Python says where it runs: write DEVICE_KIND_HOST or DEVICE_KIND_CUDA");
  }
  std::vector<std::string> modules;
  for (const v1::SourceFile& source : kernel.sources()) {
    if (std::string module = ModuleOfPath(source.path()); !module.empty()) modules.push_back(std::move(module));
  }
  if (python->module().empty()) {
    python->set_module(ModuleOfPath(kernel.sources(0).path()));
    if (!python->module().empty()) return absl::OkStatus();
    return FieldError("sources[0].path", kInvalidField,
                      "'{}' is no Python module; name it like \"matmul.py\", or say which source is in python.module",
                      kernel.sources(0).path());
  }
  if (std::find(modules.begin(), modules.end(), python->module()) == modules.end()) {
    const std::string name = python->module().substr(0, kModuleNameMax);
    return FieldError("python.module", kUnknownName, "no source is the module '{}'{}; its source is part of the kernel",
                      name, DidYouMean(name, modules));
  }
  return absl::OkStatus();
}

absl::Status CheckTriton(const v1::Kernel& kernel) {
  if (kernel.language() != v1::LANGUAGE_TRITON) return absl::OkStatus();
  if (ModuleOfPath(kernel.sources(0).path()).empty()) {
    return FieldError("sources[0].path", kInvalidField,
                      "'{}' is no Python module; name it like \"matmul.py\", and list the source with the functions "
                      "first",
                      kernel.sources(0).path());
  }
  if (kernel.compile_options_size() == 0) return absl::OkStatus();
  return FieldError("compile_options", kConflictingFields,
                    "Triton's options are parameters, dims or derived values with the names num_warps, num_stages, "
                    "num_ctas and maxnreg; leave it out");
}

}  // namespace tunefarm::definition
