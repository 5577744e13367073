#include "client/cli/moe/kernel_file.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "client/cli/python_process.h"
#include "server/base/embedded_file.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
extern const EmbeddedFile kMoeKernelReader[];
extern const size_t kMoeKernelReaderCount;
}  // namespace tunefarm

namespace tunefarm::cli {
namespace {

constexpr uint64_t kMoeFileBytesMax = 4 << 20;
// JSON takes up to six bytes for one.
constexpr uint64_t kMoeAnswerBytesMax = 8 * kMoeFileBytesMax;
constexpr Duration kMoeReadTimeout = std::chrono::seconds(20);

// What kernel_file.py passes to parameters that the built-in kernel does not have. Both frameworks exchange A and B by
// the same rule.
constexpr std::pair<const char*, const char*> kMoeDerived[] = {
    {"is_swapped", "operands == 'u8' and device.compute_capability == 90 and BLOCK_SIZE_M < 64 and BLOCK_SIZE_N >= 64"},
    {"up_is_even", "hidden % BLOCK_SIZE_K == 0"},
    {"down_is_even", "intermediate % BLOCK_SIZE_K == 0"},
};

std::string StringMember(const nlohmann::json& answer, const char* member) {
  const auto found = answer.find(member);
  return found != answer.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

absl::Status UseKernelFile(const std::string& file, v1::Kernel* kernel) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMoeFileBytesMax));
  absl::StatusOr<std::string> written = RunPython(kMoeKernelReader[0].bytes, text, kMoeAnswerBytesMax, kMoeReadTimeout);
  if (absl::IsFailedPrecondition(written.status())) {
    return FailedPrecondition(
        "a --kernel-file is read by python3 from version 3.9 on, but {}; install it, or extend PATH",
        MessageOf(written.status()));
  }
  if (!written.ok()) return Annotate(written.status(), "reading {}", file);
  const nlohmann::json answer = nlohmann::json::parse(*written, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Internal("the reader of {} answered with something else than JSON", file);
  if (const std::string error = StringMember(answer, "error"); !error.empty()) {
    return InvalidArgument("--kernel-file {}: {}", file, error);
  }
  kernel->set_display_name(kernel->display_name() + "_file");
  kernel->mutable_sources(0)->set_content(StringMember(answer, "products"));
  v1::SourceFile* const source = kernel->add_sources();
  source->set_path("user_kernel.py");
  source->set_content(StringMember(answer, "kernel"));
  for (const auto& [name, expression] : kMoeDerived) {
    v1::Derived* const derived = kernel->add_derived();
    derived->set_name(name);
    derived->set_expression(expression);
    derived->set_bind(v1::BIND_COMPILE);
  }
  for (v1::Argument& argument : *kernel->mutable_arguments()) {
    const std::string& name = argument.name();
    if (name == "row_count" || name.rfind("em_", 0) == 0) argument.mutable_scalar()->set_do_not_specialize(false);
  }
  return absl::OkStatus();
}

}  // namespace tunefarm::cli
