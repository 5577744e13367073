// export package: tuned kernels with their binaries, as a file that libtunefarm-launch launches. The daemon makes it.

#include "client/cli/export/export_package.h"

#include <fmt/core.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/bests_file.h"
#include "server/interchange/gunzip.h"

namespace tunefarm::cli {
namespace {

// More than the daemon's own.
constexpr Duration kPatience = std::chrono::minutes(45);

struct PackageOptions {
  BestFilter filter;
  std::vector<std::string> bests;
  std::string file;
};

// Takes the definition of --kernel, where it is one that the daemon may not have.
absl::Status NameKernel(Session* session, const PackageOptions& options, v1::ExportPackageRequest* request) {
  if (options.filter.kernel.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(KernelArgument argument, ResolveKernelArgument(options.filter.kernel, session->environment));
  request->set_kernel(argument.name);
  // What there is under a built-in kernel's name is of the newest stored definition.
  if (argument.definition.has_value() && (!argument.is_built_in || !options.bests.empty())) {
    *request->add_definitions() = *std::move(argument.definition);
  }
  return absl::OkStatus();
}

// With the definitions of built-in kernels that nobody has named otherwise.
absl::Status AddBests(Session* session, const PackageOptions& options, v1::ExportPackageRequest* request) {
  const bool is_named = !request->kernel().empty() && request->kernel().rfind("kernels/", 0) != 0;
  std::set<std::string> kernels;
  for (const std::string& path : options.bests) {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, interchange::kBestsBytesMax));
    ASSIGN_OR_RETURN(std::string text, interchange::PlainText(std::move(bytes), path, interchange::kBestsBytesMax));
    ASSIGN_OR_RETURN(interchange::BestsFile file, interchange::ReadBestsFile(std::move(text), path));
    for (interchange::ExportedBest& exported : file.bests) {
      if (is_named && exported.best.kernel_name() != request->kernel()) continue;
      kernels.insert(exported.best.kernel_name());
      *request->add_bests() = std::move(exported.best);
    }
  }
  if (options.bests.empty()) return absl::OkStatus();
  if (request->bests().empty()) {
    return NotFound("there is no best{} in {}", is_named ? " of " + request->kernel() : "",
                    options.bests.size() == 1 ? options.bests[0] : "these files");
  }
  if (!request->kernel().empty()) return absl::OkStatus();
  for (const BoxDefinition& built_in : DefinitionsInTheBox(session->environment)) {
    if (kernels.count(built_in.name) == 0) continue;
    ASSIGN_OR_RETURN(KernelArgument argument, ResolveKernelArgument(built_in.file, session->environment));
    if (argument.definition.has_value()) *request->add_definitions() = *std::move(argument.definition);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ExportPackageRequest> MakeRequest(Session* session, const PackageOptions& options) {
  v1::ExportPackageRequest request;
  RETURN_IF_ERROR(NameKernel(session, options, &request));
  RETURN_IF_ERROR(AddBests(session, options, &request));
  request.set_device_class(options.filter.device);
  for (const std::string& text : options.filter.dims) {
    ASSIGN_OR_RETURN(DimValues dim, ParseDim(text));
    v1::DimFilter* const filter = request.add_dims();
    filter->set_dim(dim.name);
    for (std::string& value : dim.values) filter->add_values(std::move(value));
  }
  return request;
}

void NoteContents(const Session& session, const v1::PackageContents& contents) {
  for (const std::string& text : contents.left_out()) session.Note("Left out " + text);
  if (contents.left_out_count() > contents.left_out_size()) {
    session.Note(fmt::format("Left out {} more", FormatCount(contents.left_out_count() - contents.left_out_size())));
  }
  if (contents.bests_without_time() > 0) {
    session.Note(FormatCount(
        contents.bests_without_time(),
        "of the bests was measured with another version of its kernel: its config is taken, its time is not",
        "of the bests were measured with another version of their kernel: their configs are taken, their "
        "times are not"));
  }
}

absl::StatusOr<ExitCode> ExportPackage(Session* session, const PackageOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const v1::ExportPackageRequest request, MakeRequest(session, options));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  grpc::ClientContext context;
  context.set_deadline(Connection::Deadline(kPatience));
  const auto reader = connection->packages()->ExportPackage(&context, request);
  v1::ExportPackageResponse response;
  v1::PackageContents contents;
  std::string bytes;
  while (reader->Read(&response)) {
    if (response.has_contents()) {
      contents = response.contents();
      NoteContents(*session, contents);
    }
    bytes += response.data();
  }
  RETURN_IF_ERROR(FromGrpc(reader->Finish()));
  if (bytes.empty() || static_cast<int64_t>(bytes.size()) != contents.file_bytes()) {
    return Internal("the daemon sent {} bytes of a package of {}", bytes.size(), contents.file_bytes());
  }
  RETURN_IF_ERROR(session->WriteFile(options.file, bytes));
  session->Note(fmt::format("{} ({} bytes)", WroteBestsText(contents.bests(), contents.kernels(), options.file),
                            FormatCount(contents.file_bytes())));
  return kExitOk;
}

}  // namespace

void AddExportPackage(CLI::App* command, Session* session) {
  auto options = std::make_shared<PackageOptions>();
  CLI::App* package = command->add_subcommand(
      "package", "Best configs with their binaries, as a file that libtunefarm-launch launches.");
  SetExample(package,
             "tunefarm export package matmul.tfpack --kernel matmul\n"
             "tunefarm export package moe.tfpack --kernel grouped_gemm_forward --device H100 --dim dtype=bf16\n"
             "tunefarm export package moe.tfpack --bests h100.json");
  package->add_option("FILE,-f,--file", options->file, "The file to write, replaced as a whole; '-' is stdout.")
      ->required();
  options->filter.AddTo(package);
  package
      ->add_option("--bests", options->bests,
                   "Take the bests of this file, which export bests has written, instead of the daemon's own; with the "
                   "built-in or stored definition of their kernel, or that of --kernel. May be repeated.")
      ->type_name("FILE")
      ->allow_extra_args(false);
  package->callback([=] { session->command = [=] { return ExportPackage(session, *options); }; });
}

}  // namespace tunefarm::cli
