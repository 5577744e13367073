#include "server/worker/cuda/nvrtc.h"

#include <fmt/core.h>
#include <nvrtc.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/cuda/ptxas_log.h"

namespace tunefarm::cuda {

#define TUNEFARM_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                   \
  X(nvrtcGetErrorString)            \
  X(nvrtcCreateProgram)             \
  X(nvrtcDestroyProgram)            \
  X(nvrtcAddNameExpression)         \
  X(nvrtcCompileProgram)            \
  X(nvrtcGetProgramLogSize)         \
  X(nvrtcGetProgramLog)             \
  X(nvrtcGetCUBINSize)              \
  X(nvrtcGetCUBIN)                  \
  X(nvrtcGetPTXSize)                \
  X(nvrtcGetPTX)                    \
  X(nvrtcGetLoweredName)

// NVRTC's interface is by symbol, without versions: the header's types are those of every 12.x and 13.x.
struct Nvrtc::Functions {
#define TUNEFARM_DECLARE(function) decltype(&::function) function = nullptr;
  TUNEFARM_NVRTC_FUNCTIONS(TUNEFARM_DECLARE)
#undef TUNEFARM_DECLARE
};

namespace {

v1::Outcome OutcomeOf(nvrtcResult error) {
  switch (error) {
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return v1::OUTCOME_COMPILE_ERROR;
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return v1::OUTCOME_OUT_OF_MEMORY;
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return v1::OUTCOME_LOST;  // its own files are missing
    default:
      return v1::OUTCOME_COMPILE_CRASH;
  }
}

}  // namespace

Nvrtc::Nvrtc() : functions_(std::make_unique<Functions>()) {}
Nvrtc::~Nvrtc() = default;

absl::StatusOr<std::unique_ptr<Nvrtc>> Nvrtc::Open(const std::vector<SearchPlace>& places) {
  std::unique_ptr<Nvrtc> nvrtc(new Nvrtc);
  absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Find(places, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                          {"libnvrtc-builtins.so", "libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.12.4"});
  if (!library.ok()) return FailedPrecondition("NVRTC is needed to compile CUDA: {}", MessageOf(library.status()));
  nvrtc->library_ = *std::move(library);
#define TUNEFARM_RESOLVE(function)                                                                      \
  if (!nvrtc->library_.Resolve(#function, &nvrtc->functions_->function)) {                              \
    return FailedPrecondition("{} has no {}: NVRTC 12.0 or newer is needed", nvrtc->path(), #function); \
  }
  TUNEFARM_NVRTC_FUNCTIONS(TUNEFARM_RESOLVE)
#undef TUNEFARM_RESOLVE
  nvrtc->functions_->nvrtcVersion(&nvrtc->major_, &nvrtc->minor_);
  // The loader's paths say nothing about headers: then those of the directory that the library really came from.
  SearchPlace place = nvrtc->library_.found().place;
  if (place.include_directories.empty()) {
    const std::string root = nvrtc->path().substr(0, nvrtc->path().rfind('/')) + "/..";
    place.include_directories = {root + "/include", root + "/../../include"};
  }
  const std::string include = FindHeaderDirectory(places, place, "cuda_fp16.h");
  if (!include.empty()) {
    nvrtc->include_directories_.push_back(include);
    std::error_code unknown;
    if (std::filesystem::is_directory(include + "/cccl", unknown))
      nvrtc->include_directories_.push_back(include + "/cccl");
  }
  return nvrtc;
}

std::string Nvrtc::version() const { return fmt::format("{}.{}", major_, minor_); }
const std::string& Nvrtc::path() const { return library_.path(); }

NvrtcOutput Nvrtc::Compile(const NvrtcInput& input) const {
  const Functions& nvrtc = *functions_;
  NvrtcOutput output;
  std::vector<const char*> contents, paths, options;
  for (const auto& [path, content] : input.headers) {
    paths.push_back(path.c_str());
    contents.push_back(content.c_str());
  }
  for (const std::string& option : input.options) options.push_back(option.c_str());
  nvrtcProgram program = nullptr;
  nvrtcResult error = nvrtc.nvrtcCreateProgram(&program, input.source.c_str(), input.name.c_str(),
                                               static_cast<int>(paths.size()), contents.data(), paths.data());
  for (const std::string& name : input.name_expressions) {
    if (error == NVRTC_SUCCESS) error = nvrtc.nvrtcAddNameExpression(program, name.c_str());
  }
  if (error == NVRTC_SUCCESS) {
    error = nvrtc.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
    size_t size = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
      output.log.resize(size);
      if (nvrtc.nvrtcGetProgramLog(program, output.log.data()) != NVRTC_SUCCESS) output.log.clear();
      output.log.resize(std::string_view(output.log.c_str()).size());  // without the terminator
    }
  }
  for (const std::string& name : input.name_expressions) {
    if (error != NVRTC_SUCCESS) break;
    const char* lowered = nullptr;
    error = nvrtc.nvrtcGetLoweredName(program, name.c_str(), &lowered);
    if (error == NVRTC_SUCCESS) output.lowered_names[name] = lowered;
  }
  size_t size = 0;
  if (error == NVRTC_SUCCESS) error = (input.ptx ? nvrtc.nvrtcGetPTXSize : nvrtc.nvrtcGetCUBINSize)(program, &size);
  if (error == NVRTC_SUCCESS) {
    output.binary.resize(size);
    error = (input.ptx ? nvrtc.nvrtcGetPTX : nvrtc.nvrtcGetCUBIN)(program, output.binary.data());
    if (input.ptx && !output.binary.empty()) output.binary.pop_back();
  }
  if (error != NVRTC_SUCCESS) {
    output.binary.clear();
    output.outcome = OutcomeOf(error);
    const std::string first = FirstErrorLine(output.log);
    output.message = !first.empty() ? first : fmt::format("NVRTC failed: {}.", nvrtc.nvrtcGetErrorString(error));
  }
  if (program != nullptr) nvrtc.nvrtcDestroyProgram(&program);
  return output;
}

}  // namespace tunefarm::cuda
