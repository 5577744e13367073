// Fuzz target of definitions: whatever the text, and behind the first NUL the file that it may include, loading it ends
// with a definition or an error, the error has a place, and a definition that was accepted is accepted again in its
// canonical form with the same digests. What follows from it (problems, spaces, launches) may fail but not crash.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tunefarm;  // NOLINT(google-build-using-namespace)
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), size);
  const std::string_view text = all.substr(0, end), included = all.substr(std::min(end + 1, size));
  const auto kernel = LoadKernelText(text, "f", [included](const std::string& path) -> absl::StatusOr<std::string> {
    return path.ends_with(".inc") ? std::string(included) : "source";
  });
  if (!kernel.ok()) {
    const std::string_view message = MessageOf(kernel.status());
    const bool has_place = message.substr(0, 2) == "f:" || message.find(" (included at ") != std::string_view::npos;
    if (!has_place || ReasonOf(kernel.status()).empty()) std::abort();
    return 0;
  }
  const auto plan = KernelPlan::Compile(*kernel);
  if (!plan.ok() || (*plan)->kernel_id() != kernel->name().substr(sizeof("kernels/") - 1) ||
      (*plan)->program_digest() != kernel->program_digest()) {
    std::abort();
  }
  const auto problem = (*plan)->ResolveProblem(v1::Problem());
  if (!problem.ok()) return 0;
  DeviceClass device = KnownClasses().front().device_class;
  device.kind = (*plan)->device_kind();
  const Config config = (*plan)->DefaultConfig(*problem);
  if (!(*plan)->ParseConfig((*plan)->ToProto(config)).ok()) std::abort();
  std::map<std::string, LoadedEntry> loaded;
  for (const std::string& entry : (*plan)->Entries(Sequence::kLaunches)) loaded[entry] = LoadedEntry{1, 32, 0};
  (void)(*plan)->Constants(*problem, config, device);
  (void)(*plan)->FootprintBytes(*problem, config, device);
  (void)(*plan)->FirstBrokenDeviceLimit(*problem, config, device);
  (void)(*plan)->BuildSpace(*problem, device);
  for (const Sequence sequence : {Sequence::kLaunches, Sequence::kPreparePerProblem, Sequence::kPreparePerConfig,
                                  Sequence::kReference, Sequence::kBaseline}) {
    (void)(*plan)->Steps(sequence, *problem, config, device, &loaded);
  }
  return 0;
}
