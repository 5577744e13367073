// export aiter: configs by buckets of M, as AITER's Triton kernels read them.

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/export/triton_source.h"
#include "client/cli/help_format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/bucketed_json.h"

namespace tunefarm::cli {
namespace {

using interchange::BucketKeys;

struct AiterOptions {
  TritonSourceOptions source;
  ExportTarget target;
  std::string keys;
  std::string architecture;
  std::string tag = "DEFAULT";
};

BucketKeys KeysOf(const AiterOptions& options, const TritonProblems& problems) {
  if (options.keys == "guide") return BucketKeys::kGuide;
  if (options.keys == "moe" || (options.keys.empty() && problems.dims.Find("E") != nullptr)) return BucketKeys::kMoe;
  return BucketKeys::kGemm;
}

absl::StatusOr<std::string> FileNameOf(const AiterOptions& options, const TritonProblems& problems) {
  std::string device = options.architecture.empty() ? problems.device_class_name : options.architecture;
  std::replace_if(
      device.begin(), device.end(), [](char c) { return c == ' ' || c == '/'; }, '_');
  switch (KeysOf(options, problems)) {
    case BucketKeys::kGuide:
      return fmt::format("{}-{}.json", device, problems.kernel);
    case BucketKeys::kMoe:
      return interchange::BucketedFileName(device, "MOE", options.tag, 0, 0);
    case BucketKeys::kGemm:
      break;
  }
  ASSIGN_OR_RETURN(const int64_t n, IntegerDim(problems, "N"));
  ASSIGN_OR_RETURN(const int64_t k, IntegerDim(problems, "K"));
  return interchange::BucketedFileName(device, "GEMM", options.tag, n, k);
}

absl::StatusOr<ExitCode> ExportAiter(Session* session, const AiterOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const std::vector<TritonProblems> all, FetchTritonProblems(session, options.source));
  std::map<std::string, const TritonProblems*> of_file;
  for (const TritonProblems& problems : all) {
    ASSIGN_OR_RETURN(const std::string name, FileNameOf(options, problems));
    const auto [at, is_new] = of_file.emplace(name, &problems);
    if (!is_new) return NeedsChoice(*at->second, problems, name);
  }
  std::vector<ExportedFile> files;
  for (const auto& [name, problems] : of_file) {
    ASSIGN_OR_RETURN(const interchange::TritonTable table,
                     interchange::WriteBucketedJson(problems->results, KeysOf(options, *problems)));
    files.push_back({name, table.text, SeedNoteOf(*session, options.source, *problems, table, name)});
  }
  RETURN_IF_ERROR(options.target.Write(*session, files));
  return kExitOk;
}

}  // namespace

void AddExportAiter(CLI::App* command, Session* session) {
  auto options = std::make_shared<AiterOptions>();
  CLI::App* aiter = command->add_subcommand(
      "aiter", "Configs by buckets of M for AITER's Triton kernels. Of several M in a bucket the largest counts.");
  SetExample(aiter,
             "tunefarm export aiter --kernel grouped_gemm_forward --dim topk=8 --arch gfx942 --dir configs\n"
             "tunefarm export aiter --job 17 --keys guide --file H200-grouped_gemm_forward.json");
  options->source.AddTo(aiter);
  aiter
      ->add_option("--keys", options->keys,
                   "moe: small_M, medium_M, large_M. gemm: M_LEQ_x, M_GEQ_8192, any. guide: small, medium, large, as "
                   "scripts after the tuning guide write them. Default: moe for kernels with a dim E, else gemm.")
      ->type_name("KEYS")
      ->check(CLI::IsMember({"moe", "gemm", "guide"}));
  aiter
      ->add_option("--arch", options->architecture, "The architecture in the file's name (default: the device's name).")
      ->type_name("NAME");
  aiter->add_option("--tag", options->tag, "The variant in the file's name, such as FP8_W8A8 (default DEFAULT).")
      ->type_name("TAG");
  options->target.AddFile(aiter);
  options->target.AddDirectory(aiter);
  aiter->callback([=] { session->command = [=] { return ExportAiter(session, *options); }; });
}

}  // namespace tunefarm::cli
