// Fuzz target of definitions: whatever the text, loading it ends with a definition or an error, the error has a place,
// and a definition that was accepted is accepted again in its canonical form with the same digests. What follows from
// it (problems, spaces, launches) may fail but not crash.
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
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto kernel =
      LoadKernelText(text, "f", [](const std::string&) { return absl::StatusOr<std::string>("source"); });
  if (!kernel.ok()) {
    if (MessageOf(kernel.status()).substr(0, 2) != "f:" || ReasonOf(kernel.status()).empty()) std::abort();
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
