// import t1: a kernel that was written for another tool, as ours.

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "client/cli/commands.h"
#include "client/cli/export/export_formats.h"
#include "client/cli/help_format.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/python_process.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/t1.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

// The reader bounds its own CPU time at 20 s.
constexpr Duration kReadTimeout = std::chrono::seconds(60);

struct ImportT1Options {
  std::string file;
  std::string folder;
  std::string name;
  std::string language;
  std::string source;
  std::string reference;  // FILE:ENTRY
  std::vector<std::string> reference_grid, reference_block, reference_arguments;
  bool unverified = false;
  bool force = false;
  int64_t thread_limit = 0;
  std::optional<double> atol, rtol;
};

absl::StatusOr<interchange::T1Options> KernelOptions(const ImportT1Options& options) {
  interchange::T1Options made;
  made.folder = fs::path(options.source.empty() ? options.file : options.source).parent_path().string();
  made.display_name = options.name;
  if (options.language == "cuda") made.language = v1::LANGUAGE_CUDA;
  if (options.language == "host") made.language = v1::LANGUAGE_HOST_CXX;
  made.source = options.source;
  made.thread_limit = options.thread_limit;
  made.is_unverified = options.unverified;
  made.atol = options.atol;
  made.rtol = options.rtol;
  if (options.reference.empty()) return made;
  const size_t colon = options.reference.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.reference.size()) {
    return InvalidArgument("'{}' is not FILE:FUNCTION", options.reference);
  }
  made.reference_file = options.reference.substr(0, colon);
  made.reference_entry = options.reference.substr(colon + 1);
  made.reference_grid = options.reference_grid;
  made.reference_block = options.reference_block;
  made.reference_arguments = options.reference_arguments;
  return made;
}

absl::Status WriteKernel(const fs::path& folder, const interchange::ImportedKernel& imported, bool force) {
  std::error_code error;
  const fs::path definition = folder / "kernel.pbtxt";
  if (!force && fs::exists(definition, error)) {
    return AlreadyExists("{} exists; nothing was written (--force replaces it, --to names another folder)",
                         definition.string());
  }
  // The definition last: where it is, its sources are too.
  for (const v1::SourceFile& source : imported.kernel.sources()) {
    const fs::path file = folder / source.path();
    RETURN_IF_ERROR(MakeDirectories(file.parent_path().string()));
    RETURN_IF_ERROR(WriteOutputFile(file.string(), source.content()));
  }
  RETURN_IF_ERROR(MakeDirectories(folder.string()));
  return WriteOutputFile(definition.string(), imported.text);
}

absl::StatusOr<ExitCode> ImportT1(Session* session, const ImportT1Options& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::string text, ReadFile(options.file, interchange::kT1BytesMax));
  ASSIGN_OR_RETURN(const interchange::T1Options kernel_options, KernelOptions(options));
  absl::StatusOr<std::string> answer = RunPython(interchange::kT1Program, interchange::T1Request(text, kernel_options),
                                                 interchange::kT1AnswerBytesMax, kReadTimeout);
  if (absl::IsFailedPrecondition(answer.status())) {
    return FailedPrecondition("T1 files are read by python3 from version 3.9 on, but {}; install it, or extend PATH",
                              MessageOf(answer.status()));
  }
  if (!answer.ok()) return Annotate(answer.status(), "reading {}", options.file);
  ASSIGN_OR_RETURN(const interchange::ImportedKernel imported,
                   interchange::KernelOfT1(*std::move(answer), options.file, kernel_options));
  const fs::path folder = options.folder.empty() ? fs::path(imported.kernel.display_name()) : fs::path(options.folder);
  RETURN_IF_ERROR(WriteKernel(folder, imported, options.force));
  for (const std::string& note : imported.notes) session->Note("- " + note);
  if (format == OutputFormat::kJson) {
    v1::Kernel kernel = imported.kernel;
    for (v1::SourceFile& source : *kernel.mutable_sources()) source.clear_content();
    session->Print(ToJson(kernel));
  } else {
    const int sources = imported.kernel.sources_size();
    session->Print(fmt::format("{}: {}, {} source{}\nspace: {}\n", (folder / "kernel.pbtxt").string(),
                               imported.kernel.display_name(), sources, sources == 1 ? "" : "s", imported.space_text));
  }
  session->Note(fmt::format("Next: tunefarm kernels check {0}   then: tunefarm tune {0}{1}", ShellWord(folder.string()),
                            imported.budget_options.empty() ? "" : " " + imported.budget_options));
  return kExitOk;
}

}  // namespace

void AddImport(CLI::App* app, Session* session) {
  CLI::App* import = app->add_subcommand("import", "Read files of other tuning tools.");
  import->require_subcommand(1);
  SetExample(import, "tunefarm import t1 hotspot.json");
  auto options = std::make_shared<ImportT1Options>();
  CLI::App* t1 = import->add_subcommand(
      "t1", "Convert a T1 file (Kernel Tuner, KTT) to a kernel definition: a folder that tunefarm tune takes.");
  SetExample(t1,
             "tunefarm import t1 hotspot.json\ntunefarm import t1 sum.json --reference reference.cu:sum "
             "--reference-grid 64 --reference-block 256");
  t1->add_option("FILE", options->file,
                 "The T1 file, read by python3 from version 3.9 on; its KernelFile lies in or below its folder.")
      ->required();
  t1->add_option("--to", options->folder, "The folder to create. Default: the kernel's name, in the current folder.")
      ->type_name("FOLDER");
  t1->add_option("--name", options->name, "The kernel's name. Default: the file's BenchmarkName or KernelName.")
      ->type_name("NAME");
  t1->add_option("--language", options->language, "Language of the source: cuda or host. Default: as the file says.")
      ->type_name("LANGUAGE")
      ->check(CLI::IsMember({"cuda", "host"}));
  t1->add_option("--source", options->source, "The kernel's source, instead of KernelFile.")->type_name("FILE");
  t1->add_option("--thread-limit", options->thread_limit,
                 "Kernel Tuner's unwritten rule: block_size_x * block_size_y * block_size_z is at most this.")
      ->type_name("THREADS")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  t1->add_option("--reference", options->reference,
                 "FILE:NAME of a function to compare results with. Default: what the file expects, else the kernel's "
                 "own default config.")
      ->type_name("FUNCTION");
  t1->add_option("--reference-grid", options->reference_grid, "Blocks of the reference: expressions, X,Y,Z.")
      ->type_name("X,Y,Z")
      ->delimiter(',');
  t1->add_option("--reference-block", options->reference_block, "Threads of the reference: expressions, X,Y,Z.")
      ->type_name("X,Y,Z")
      ->delimiter(',');
  t1->add_option("--reference-arguments", options->reference_arguments,
                 "Arguments of the reference. Default: the kernel's arguments.")
      ->type_name("NAMES")
      ->delimiter(',');
  t1->add_flag("--unverified", options->unverified, "Do not verify results; they are marked as unverified.");
  t1->add_option("--atol", options->atol, "Absolute tolerance. Default: the file's, else 1e-4.")->type_name("NUMBER");
  t1->add_option("--rtol", options->rtol, "Relative tolerance. Default: the file's, else 1e-4.")->type_name("NUMBER");
  t1->add_flag("--force", options->force, "Replace an existing definition.");
  t1->callback([=] { session->command = [=] { return ImportT1(session, *options); }; });
}

}  // namespace tunefarm::cli
