// export vllm and export sglang: tables of their fused mixture-of-experts kernels.

#include <fmt/core.h>

#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/export/triton_source.h"
#include "client/cli/help_format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/fused_moe_json.h"

namespace tunefarm::cli {
namespace {

using interchange::FusedMoeReader;

struct FusedMoeOptions {
  TritonSourceOptions source;
  ExportTarget target;
  int product = 0;
  std::string triton;
};

bool IsOn(const Config& dims, const std::string& name) {
  const Value* const value = dims.Find(name);
  return value != nullptr && value->is_bool() && value->bool_value();
}

// Which product of a layer the problems are of. The first one gathers its rows, the second one scatters them.
absl::StatusOr<int> ProductOf(const FusedMoeOptions& options, const TritonProblems& problems) {
  if (options.product != 0) return options.product;
  const bool gathers = IsOn(problems.dims, "permute_x"), scatters = IsOn(problems.dims, "permute_y");
  if (gathers != scatters) return gathers ? 1 : 2;
  return InvalidArgument("the flags of '{}' ({}) do not say which product of a layer it is; say --product 1 or 2",
                         problems.kernel, problems.dims.ToText());
}

// The first product makes gate and up at once, so that its N is twice the width; the second one reads the width as K.
absl::StatusOr<int64_t> IntermediateOf(const TritonProblems& problems, int product) {
  if (product == 2) return IntegerDim(problems, "K");
  ASSIGN_OR_RETURN(const int64_t n, IntegerDim(problems, "N"));
  if (n % 2 == 0) return n / 2;
  return InvalidArgument("N={} is odd: it is not that of a first product, which has gate and up", n);
}

std::string DtypeOf(const TritonProblems& problems) {
  const Value* const value = problems.dims.Find("dtype");
  const std::string text = value == nullptr ? "" : value->ToText();
  if (text == "bf16" || text == "f16") return "";
  return text == "f32" ? "float32" : text;
}

absl::StatusOr<std::string> FileNameOf(const FusedMoeOptions& options, const TritonProblems& problems,
                                       FusedMoeReader reader) {
  ASSIGN_OR_RETURN(const int product, ProductOf(options, problems));
  interchange::FusedMoeName name;
  ASSIGN_OR_RETURN(name.experts, IntegerDim(problems, "E"));
  ASSIGN_OR_RETURN(name.intermediate, IntermediateOf(problems, product));
  name.device = problems.device_class_name;
  name.dtype = DtypeOf(problems);
  name.is_down = product == 2;
  std::string folder;
  if (reader == FusedMoeReader::kSglang && !options.triton.empty()) {
    folder = "configs/triton_" + options.triton + "/";
    for (char& c : folder) c = c == '.' ? '_' : c;
  }
  return folder + interchange::FusedMoeFileName(name, reader);
}

absl::StatusOr<ExitCode> ExportFusedMoe(Session* session, const FusedMoeOptions& options, FusedMoeReader reader) {
  ASSIGN_OR_RETURN(const std::vector<TritonProblems> all, FetchTritonProblems(session, options.source));
  std::map<std::string, const TritonProblems*> of_file;
  for (const TritonProblems& problems : all) {
    ASSIGN_OR_RETURN(const std::string name, FileNameOf(options, problems, reader));
    const auto [at, is_new] = of_file.emplace(name, &problems);
    if (!is_new) return NeedsChoice(*at->second, problems, name);
  }
  std::vector<ExportedFile> files;
  for (const auto& [name, problems] : of_file) {
    ASSIGN_OR_RETURN(const interchange::TritonTable table, interchange::WriteFusedMoeJson(problems->results));
    files.push_back({name, table.text, SeedNoteOf(*session, options.source, *problems, table, name)});
  }
  RETURN_IF_ERROR(options.target.Write(*session, files));
  return kExitOk;
}

void AddReader(CLI::App* command, Session* session, const std::string& verb, const std::string& help,
               const std::string& example, FusedMoeReader reader) {
  auto options = std::make_shared<FusedMoeOptions>();
  CLI::App* table = command->add_subcommand(verb, help);
  SetExample(table, example);
  options->source.AddTo(table);
  table
      ->add_option("--product", options->product,
                   "Which product of a layer was measured: 1, gate and up (N is twice the width), or 2, down (K is the "
                   "width). Default: 1 with permute_x, 2 with permute_y.")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 2));
  if (reader == FusedMoeReader::kSglang) {
    table
        ->add_option("--triton", options->triton,
                     "Version of Triton, which names the folder configs/triton_X_Y_Z. Default: no such folder.")
        ->type_name("X.Y.Z");
  }
  options->target.AddFile(table);
  options->target.AddDirectory(table);
  table->callback([=] { session->command = [=] { return ExportFusedMoe(session, *options, reader); }; });
}

}  // namespace

void AddExportFusedMoe(CLI::App* command, Session* session) {
  AddReader(command, session, "vllm", "A table of vLLM's fused mixture-of-experts kernel, with all its keys.",
            "tunefarm export vllm --kernel grouped_gemm_forward --dim permute_x=true --dim topk=8 --dir configs",
            FusedMoeReader::kVllm);
  AddReader(command, session, "sglang",
            "A table of SGLang's fused mixture-of-experts kernel, with all its keys; of a second product its own.",
            "tunefarm export sglang --job 17 --triton 3.4.0 --dir my_configs", FusedMoeReader::kSglang);
}

}  // namespace tunefarm::cli
