#include "client/cli/options/best_filter.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/lookup_rules.h"

namespace tunefarm::cli {
namespace {

using interchange::ExportedBest;

// More than a catalog is made for.
constexpr size_t kBestsMax = 1'000'000;
constexpr int kPageSize = 1000;

absl::StatusOr<v1::Kernel> StoredKernel(Connection* connection, const std::string& name) {
  v1::GetKernelRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(const v1::GetKernelResponse found,
                   Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request));
  return found.kernel();
}

// What look-ups of a best's own problem answer now. Asked once for all: what the newest definition of each kernel is,
// and with what the devices of this machine measure.
class MatchTeller {
 public:
  // `asked`: the definition that is asked for; none: the newest of each name.
  MatchTeller(Connection* connection, std::optional<v1::Kernel> asked)
      : connection_(connection), asked_(std::move(asked)) {
    v1::ListDevicesRequest request;
    request.set_page_size(kPageSize);
    const auto devices =
        Connection::Call(connection_->devices(), &v1::DeviceService::StubInterface::ListDevices, request);
    if (!devices.ok()) return;
    for (const v1::Device& device : devices->devices()) {
      conditions_[device.device_class().id()] = {device.driver_version(), device.toolkit_version()};
    }
  }

  v1::Match MatchOf(const v1::BestConfig& best) {
    const std::string& newest = DefinitionOf(best.kernel_name()).program_digest();
    if (!newest.empty() && !best.program_digest().empty() && newest != best.program_digest()) {
      return v1::MATCH_STALE_SOURCE;
    }
    const auto own = conditions_.find(best.device_class_id());
    if (own == conditions_.end()) return v1::MATCH_EXACT;
    const auto differs = [](const std::string& now, const std::string& then) {
      return !now.empty() && !then.empty() && now != then;
    };
    const bool is_stale =
        differs(own->second.first, best.driver_version()) || differs(own->second.second, best.toolkit_version());
    return is_stale ? v1::MATCH_STALE : v1::MATCH_EXACT;
  }

  // See ExportedBest.
  std::shared_ptr<const Config> InputsOf(const std::string& kernel) {
    const auto [at, is_new] = inputs_.emplace(kernel, nullptr);
    if (!is_new) return at->second;
    Config inputs = InputDefaults(DefinitionOf(kernel));
    if (!inputs.empty()) at->second = std::make_shared<const Config>(std::move(inputs));
    return at->second;
  }

 private:
  // An empty one where there is none any more.
  const v1::Kernel& DefinitionOf(const std::string& kernel) {
    if (asked_) return *asked_;
    const auto [at, is_new] = definitions_.emplace(kernel, v1::Kernel());
    if (!is_new) return at->second;
    if (auto found = StoredKernel(connection_, kernel); found.ok()) at->second = *std::move(found);
    return at->second;
  }

  Connection* const connection_;
  const std::optional<v1::Kernel> asked_;
  std::map<std::string, v1::Kernel> definitions_;                          // by the kernel's name
  std::map<std::string, std::shared_ptr<const Config>> inputs_;            // by the kernel's name
  std::map<std::string, std::pair<std::string, std::string>> conditions_;  // driver and toolkit, by class id
};

absl::Status NothingLeft(const BestFilter& filter, const std::string& kernel, const std::set<std::string>& devices) {
  const std::string of = kernel.empty() ? "" : " of " + kernel;
  if (devices.empty())
    return NotFound("no best{} is known; run: tunefarm tune {}", of, kernel.empty() ? "KERNEL" : ShellWord(kernel));
  std::string names;
  for (const std::string& name : devices) names += (names.empty() ? "" : ", ") + name;
  std::string asked;
  if (!filter.device.empty()) asked += " on " + filter.device;
  for (const std::string& dim : filter.dims) asked += (asked.empty() ? " with " : ", ") + dim;
  return NotFound("no best{} is known{}; there are bests on: {}", of, asked, names);
}

}  // namespace

void BestFilter::AddTo(CLI::App* command) {
  command->add_option("--kernel", kernel, "Bests of this kernel.")->type_name("KERNEL");
  command->add_option("--device", device, "Bests of this device class: its id, its name, or a word of its name (H200).")
      ->type_name("DEVICE");
  AddListOption(command, "-d,--dim", &dims,
                "Problems with this value of a dim, or one of NAME=V1,V2 or NAME=1..8192*2. May be repeated.");
}

bool BestFilter::TakesDevice(const std::string& class_id, const std::string& class_name) const {
  return interchange::IsDeviceNamed(device, class_id, class_name);
}

absl::StatusOr<interchange::DimFilter> MakeDimFilter(const std::vector<std::string>& dims) {
  interchange::DimFilter filter;
  for (const std::string& text : dims) {
    ASSIGN_OR_RETURN(const DimValues dim, ParseDim(text));
    for (const std::string& value : dim.values) filter.Add(dim.name, value);
  }
  return filter;
}

absl::StatusOr<std::vector<ExportedBest>> FetchBests(Session* session, const BestFilter& filter) {
  std::string kernel, program;
  std::optional<v1::Kernel> asked;
  if (!filter.kernel.empty()) {
    ASSIGN_OR_RETURN(const KernelArgument argument, ResolveKernelArgument(filter.kernel, session->environment));
    kernel = argument.name;
    ASSIGN_OR_RETURN(program, ProgramDigestOfPath(argument));
    if (!program.empty()) asked = argument.definition;
  }
  ASSIGN_OR_RETURN(const interchange::DimFilter dims, MakeDimFilter(filter.dims));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  if (kernel.rfind("kernels/", 0) == 0) {
    ASSIGN_OR_RETURN(asked, StoredKernel(connection, kernel));
    kernel = asked->display_name();
    program = asked->program_digest();
  }
  if (asked) asked->set_program_digest(program);
  MatchTeller matches(connection, std::move(asked));
  std::vector<ExportedBest> bests;
  std::set<std::string> devices;
  v1::ListBestConfigsRequest page;
  page.set_kernel(kernel);
  page.set_program_digest(program);
  page.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(v1::ListBestConfigsResponse response,
                     Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::ListBestConfigs, page));
    for (v1::BestConfig& best : *response.mutable_bests()) {
      devices.insert(best.device_class_name());
      if (!filter.TakesDevice(best.device_class_id(), best.device_class_name())) continue;
      const v1::Match match = matches.MatchOf(best);
      ASSIGN_OR_RETURN(ExportedBest exported, interchange::MakeExportedBest(std::move(best), match));
      if (!dims.Takes(exported.dims)) continue;
      exported.inputs = matches.InputsOf(exported.best.kernel_name());
      if (bests.size() >= kBestsMax) return ResourceExhausted("there are more than {} bests; choose some", kBestsMax);
      bests.push_back(std::move(exported));
    }
    page.set_page_token(response.next_page_token());
  } while (!page.page_token().empty());
  if (bests.empty()) return NothingLeft(filter, kernel, devices);
  interchange::SortBests(&bests);
  interchange::KeepNewest(&bests);
  return bests;
}

}  // namespace tunefarm::cli
