// Kernels in Python: what they name, and what they must not have.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
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

// Packages that a kernel in Triton and Triton itself import; a source of that name would take their place.
constexpr std::string_view kTritonPackages[] = {"triton", "torch", "numpy", "cupy"};
// OPTIONS of triton_compile.py.
constexpr std::string_view kTritonOptions[] = {
    "num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl"};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::Status CheckTritonOption(std::string_view list, int index, std::string_view name, bool is_compiled) {
  if (is_compiled || !IsOneOf(kTritonOptions, name)) return absl::OkStatus();
  return FieldError(fmt::format("{}[{}].bind", list, index), kConflictingFields,
                    "'{}' is an option of Triton's compiler, which sees nothing that is bound at run time; write bind: "
                    "COMPILE, or choose another name",
                    name);
}

// Options that Triton would not be given. The binds are as they were written.
absl::Status CheckTritonOptions(const v1::Kernel& kernel) {
  for (int i = 0; i < kernel.dims_size(); ++i) {
    const v1::Dim& dim = kernel.dims(i);
    RETURN_IF_ERROR(CheckTritonOption("dims", i, dim.name(), dim.bind() == v1::BIND_COMPILE));
  }
  for (int i = 0; i < kernel.parameters_size(); ++i) {
    const v1::Parameter& parameter = kernel.parameters(i);
    RETURN_IF_ERROR(CheckTritonOption("parameters", i, parameter.name(), parameter.bind() != v1::BIND_RUN));
  }
  for (int i = 0; i < kernel.derived_size(); ++i) {
    const v1::Derived& derived = kernel.derived(i);
    RETURN_IF_ERROR(CheckTritonOption("derived", i, derived.name(), derived.bind() == v1::BIND_COMPILE));
  }
  return absl::OkStatus();
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
  for (int i = 0; i < kernel.sources_size(); ++i) {
    const std::string module = ModuleOfPath(kernel.sources(i).path());
    const std::string package = module.substr(0, module.find('.'));
    if (!IsOneOf(kTritonPackages, package)) continue;
    return FieldError(fmt::format("sources[{}].path", i), kInvalidField,
                      "'{}' would be imported in place of the package {}; choose another name",
                      kernel.sources(i).path(), package);
  }
  RETURN_IF_ERROR(CheckTritonOptions(kernel));
  if (kernel.compile_options_size() == 0) return absl::OkStatus();
  return FieldError(
      "compile_options", kConflictingFields,
      "Triton's options are parameters, dims or derived values with bind COMPILE and the names num_warps, "
      "num_stages, num_ctas and maxnreg; leave it out");
}

}  // namespace tunefarm::definition
