#include "client/cli/export/export_target.h"

#include <fmt/core.h>

#include <filesystem>

#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeedEnding = ".seed.json";

absl::Status WriteOne(const Session& session, const std::string& path, const ExportedFile& file) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // Beside a device or a pipe no note can stand.
  const bool has_note = !file.seed_note.empty() && (!fs::exists(status) || fs::is_regular_file(status));
  // The note first: a table without it would pass for a measured one.
  if (has_note) RETURN_IF_ERROR(session.WriteFile(fmt::format("{}{}", path, kSeedEnding), file.seed_note));
  RETURN_IF_ERROR(session.WriteFile(path, file.text));
  session.Note(has_note ? fmt::format("Wrote {} and {}{}", path, path, kSeedEnding) : fmt::format("Wrote {}", path));
  return absl::OkStatus();
}

}  // namespace

void ExportTarget::AddFile(CLI::App* command) {
  command->add_option("-f,--file", file, "The file to write, replaced as a whole; '-', the default, is stdout.")
      ->type_name("FILE");
}

void ExportTarget::AddDirectory(CLI::App* command) {
  CLI::Option* const own = command
                               ->add_option("--dir", directory,
                                            "The folder to write into, with the file names that the readers expect. If "
                                            "one of the files exists, nothing is written.")
                               ->type_name("FOLDER");
  command->add_flag("--force", force, "Replace existing files.")->needs(own);
  if (CLI::Option* const one = command->get_option_no_throw("--file")) own->excludes(one);
}

absl::Status ExportTarget::CheckIsNew(const std::string& name) const {
  std::error_code error;
  const fs::path path = fs::path(directory) / name;
  if (force || !fs::exists(path, error)) return absl::OkStatus();
  return AlreadyExists("{} exists; nothing was written (--force replaces it)", path.string());
}

absl::Status ExportTarget::Write(const Session& session, const std::vector<ExportedFile>& files) const {
  if (directory.empty() && files.size() != 1) {
    std::string names;
    for (const ExportedFile& one : files) names += "\n  " + one.name;
    return InvalidArgument("these are {} files; write them with --dir FOLDER, or choose one with --dim or --device{}",
                           files.size(), names);
  }
  if (!file.empty() && file != "-") return WriteOne(session, file, files[0]);
  if (directory.empty()) {
    session.PrintFile(files[0].text);
    return absl::OkStatus();
  }
  for (const ExportedFile& one : files) RETURN_IF_ERROR(CheckIsNew(one.name));
  for (const ExportedFile& one : files) {
    const fs::path path = fs::path(directory) / one.name;
    RETURN_IF_ERROR(MakeDirectories(path.parent_path().string()));
    RETURN_IF_ERROR(WriteOne(session, path.string(), one));
  }
  return absl::OkStatus();
}

std::string WroteBestsText(int64_t bests, int64_t kernels, const std::string& file) {
  return fmt::format("Wrote {} of {} to {}", FormatCount(bests, "best config"), FormatCount(kernels, "kernel"), file);
}

}  // namespace tunefarm::cli
