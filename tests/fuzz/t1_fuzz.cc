// Fuzz target of the T1 reader: whatever the text, it ends with a definition or an error, the error has a place and a
// reason, and what is written as a definition is read as the same one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "server/interchange/t1.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tunefarm;               // NOLINT(google-build-using-namespace)
  using namespace tunefarm::interchange;  // NOLINT(google-build-using-namespace)
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  const auto require_place = [&](const absl::Status& status) {
    require(absl::IsInvalidArgument(status));
    require(MessageOf(status).substr(0, 2) == "f:");
    require(!ReasonOf(status).empty());
  };
  const auto t1 = ReadT1(std::string(reinterpret_cast<const char*>(data), size), "f");
  if (!t1.ok()) {
    require_place(t1.status());
    return 0;
  }
  for (const v1::Language language : {v1::LANGUAGE_CUDA, v1::LANGUAGE_HOST_CXX}) {
    const auto made = KernelOfT1(*t1, {.language = language, .space = {.thread_limit = 1024}},
                                 [](const std::string&) { return absl::StatusOr<std::string>("source"); });
    if (!made.ok()) {
      require_place(made.status());
      continue;
    }
    const auto plan = KernelPlan::Compile(made->kernel);
    require(plan.ok());
    const auto loaded = LoadKernelText(made->text, "k", [&](const std::string& path) -> absl::StatusOr<std::string> {
      for (const v1::SourceFile& source : made->kernel.sources()) {
        if (source.path() == path) return source.content();
      }
      std::abort();
    });
    require(loaded.ok() && loaded->name() == "kernels/" + (*plan)->kernel_id());
  }
  return 0;
}
