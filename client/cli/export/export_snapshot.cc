#include "client/cli/export/export_snapshot.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cpp/snapshot/snapshot_writer.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

constexpr int kPageSize = 1000;
constexpr int kAttempts = 20;

struct SnapshotOptions {
  std::string file;
  std::vector<std::string> kernels;
};

snapshot::Scalar ScalarOf(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kIntValue:
      return value.int_value();
    case v1::Value::kDoubleValue:
      return value.double_value();
    case v1::Value::kBoolValue:
      return value.bool_value();
    case v1::Value::kStringValue:
      return value.string_value();
    default:
      return {};
  }
}

snapshot::NamedScalars ScalarsOf(const google::protobuf::Map<std::string, v1::Value>& values) {
  snapshot::NamedScalars scalars;
  for (const auto& [name, value] : std::map<std::string, v1::Value>(values.begin(), values.end())) {
    scalars.emplace_back(name, ScalarOf(value));
  }
  return scalars;
}

snapshot::Best BestOf(const v1::BestConfig& best) {
  snapshot::Best own;
  own.class_id = best.device_class_id();
  own.class_name = best.device_class_name();
  own.problem = best.problem().key();
  own.job = best.job();
  own.driver = best.driver_version();
  own.toolkit = best.toolkit_version();
  own.dims = ScalarsOf(best.problem().dims());
  own.config = ScalarsOf(best.config().values());
  own.pinned = best.pinned();
  own.median_ns = best.measurement().median_ns();
  own.ci_low_ns = best.measurement().ci_low_ns();
  own.ci_high_ns = best.measurement().ci_high_ns();
  own.baseline_ns = best.baseline_ns();
  own.revision = best.revision();
  own.promoted_at_ms = best.promoted_at_ms();
  return own;
}

// All bests of a kernel, or of all kernels if `kernel` is empty.
absl::Status FetchBests(Connection* connection, const std::string& kernel, std::vector<v1::BestConfig>* bests) {
  v1::ListBestConfigsRequest request;
  request.set_kernel(kernel);
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(
        const v1::ListBestConfigsResponse page,
        Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::ListBestConfigs, request));
    bests->insert(bests->end(), page.bests().begin(), page.bests().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CatalogRevision(Connection* connection) {
  v1::ListBestConfigsRequest request;
  request.set_page_size(1);
  ASSIGN_OR_RETURN(const v1::ListBestConfigsResponse page,
                   Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::ListBestConfigs, request));
  return page.catalog_revision();
}

// All bests of these kernels as they were at one revision of the catalog, which is answered.
absl::StatusOr<int64_t> FetchAtOneRevision(Connection* connection, const std::vector<std::string>& kernels,
                                           std::vector<v1::BestConfig>* bests) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ASSIGN_OR_RETURN(const int64_t before, CatalogRevision(connection));
    bests->clear();
    for (const std::string& kernel : kernels) RETURN_IF_ERROR(FetchBests(connection, kernel, bests));
    ASSIGN_OR_RETURN(const int64_t after, CatalogRevision(connection));
    if (before == after) return before;
  }
  return Aborted("best configs change faster than they are read; export them again later");
}

// The newest of a display name, or the one of "kernels/{id}".
absl::StatusOr<v1::Kernel> StoredDefinition(Connection* connection, const std::string& name) {
  v1::GetKernelRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::GetKernelResponse> response =
      Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request);
  if (ReasonOf(response.status()) == "KERNEL_NOT_FOUND")
    return NotFound("there is no kernel '{0}' in the daemon, and no best of it; run: tunefarm tune {1}", name,
                    ShellWord(name));
  RETURN_IF_ERROR(response.status());
  return response->kernel();
}

// The definition that a path names, else a stored one.
absl::StatusOr<v1::Kernel> AskedDefinition(Session* session, Connection* connection, const std::string& text) {
  ASSIGN_OR_RETURN(const KernelArgument argument, ResolveKernelArgument(text, session->environment));
  if (argument.is_built_in || !argument.definition.has_value()) return StoredDefinition(connection, argument.name);
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(*argument.definition));
  v1::Kernel kernel = plan->kernel();
  kernel.set_name("kernels/" + plan->kernel_id());
  kernel.set_program_digest(plan->program_digest());
  return kernel;
}

snapshot::Kernel KernelOf(const v1::Kernel& kernel) {
  snapshot::Kernel own;
  own.name = kernel.display_name();
  own.kernel_id = kernel.name().substr(std::string_view("kernels/").size());
  own.program_digest = kernel.program_digest();
  for (const v1::Dim& dim : kernel.dims()) {
    if (dim.inputs_only()) own.inputs_only |= uint32_t{1} << own.dims.size();  // a kernel has at most 32 dims
    own.dims.emplace_back(dim.name(), ScalarOf(dim.default_value()));
  }
  return own;
}

absl::StatusOr<ExitCode> ExportSnapshot(Session* session, const SnapshotOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  std::vector<std::string> names;
  if (options.kernels.empty()) names.emplace_back();  // all
  // By name, the definitions that are asked for and not the newest of their name.
  std::map<std::string, v1::Kernel> asked;
  for (const std::string& kernel : std::set<std::string>(options.kernels.begin(), options.kernels.end())) {
    ASSIGN_OR_RETURN(const v1::Kernel definition, AskedDefinition(session, connection, kernel));
    const auto [known, is_new] = asked.emplace(definition.display_name(), definition);
    if (!is_new && known->second.program_digest() != definition.program_digest()) {
      return InvalidArgument("--kernel names two definitions of {}; a snapshot holds one of each name",
                             definition.display_name());
    }
    if (is_new) names.push_back(definition.display_name());
  }
  std::vector<v1::BestConfig> bests;
  snapshot::Contents contents;
  contents.made_at_ms = Clock::Real()->WallMs();
  ASSIGN_OR_RETURN(contents.revision, FetchAtOneRevision(connection, names, &bests));
  std::map<std::string, std::vector<const v1::BestConfig*>> by_kernel;
  for (const v1::BestConfig& best : bests) by_kernel[best.kernel_name()].push_back(&best);
  int64_t written = 0, of_older_programs = 0;
  for (const auto& [name, own] : by_kernel) {
    v1::Kernel definition;
    if (const auto found = asked.find(name); found != asked.end()) {
      definition = found->second;
    } else {
      ASSIGN_OR_RETURN(definition, StoredDefinition(connection, name));
    }
    snapshot::Kernel kernel = KernelOf(definition);
    for (const v1::BestConfig* const best : own) {
      // Whether a config of an older program holds for the newest one takes the definition to say.
      if (best->program_digest() != kernel.program_digest) {
        ++of_older_programs;
        continue;
      }
      kernel.bests.push_back(BestOf(*best));
      ++written;
    }
    contents.kernels.push_back(std::move(kernel));
  }
  if (written == 0) {
    return NotFound("there are no best configs to write; tunefarm tune finds some");
  }
  ASSIGN_OR_RETURN(const std::string bytes, snapshot::Encode(contents));
  RETURN_IF_ERROR(session->WriteFile(options.file, bytes));
  session->Note(WroteBestsText(written, static_cast<int64_t>(contents.kernels.size()), options.file));
  if (of_older_programs > 0) {
    session->Note(fmt::format("Left out {} of older kernel sources; tune them again to have them",
                              FormatCount(of_older_programs)));
  }
  return kExitOk;
}

}  // namespace

void AddExportSnapshot(CLI::App* command, Session* session) {
  auto options = std::make_shared<SnapshotOptions>();
  CLI::App* snapshot = command->add_subcommand(
      "snapshot", "The best configs as a file from which the C++ client answers without a daemon.");
  SetExample(snapshot, "tunefarm export snapshot bests.tfsnap\ntunefarm export snapshot bests.tfsnap --kernel matmul");
  snapshot->add_option("FILE", options->file, "The file to write, replaced as a whole; '-' is stdout.")->required();
  snapshot->add_option("--kernel", options->kernels, "Only this kernel. May be repeated. Default: all.")
      ->type_name("KERNEL")
      ->allow_extra_args(false);
  snapshot->callback([=] { session->command = [=] { return ExportSnapshot(session, *options); }; });
}

}  // namespace tunefarm::cli
