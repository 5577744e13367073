#include "client/cli/export/export_target.h"

#include <fmt/core.h>

#include <filesystem>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSeedEnding = ".seed.json";

absl::Status WriteOne(const Session& session, const std::string& path, const ExportedFile& file) {
  // The note first: a table without it would pass for a measured one.
  if (!file.seed_note.empty())
    RETURN_IF_ERROR(WriteFileAtomically(fmt::format("{}{}", path, kSeedEnding), file.seed_note));
  RETURN_IF_ERROR(WriteFileAtomically(path, file.text));
  session.Note(file.seed_note.empty() ? fmt::format("Wrote {}", path)
                                      : fmt::format("Wrote {} and {}{}", path, path, kSeedEnding));
  return absl::OkStatus();
}

}  // namespace

void ExportTarget::AddFile(CLI::App* command) {
  command->add_option("-f,--file", file, "The file to write; an existing one is replaced. Default: stdout.")
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

absl::Status ExportTarget::Write(const Session& session, const std::vector<ExportedFile>& files) const {
  RETURN_IF_ERROR(session.CheckOneForm());
  if (directory.empty() && files.size() != 1) {
    std::string names;
    for (const ExportedFile& one : files) names += "\n  " + one.name;
    return InvalidArgument("these are {} files; write them with --dir FOLDER, or choose one with --dim or --device{}",
                           files.size(), names);
  }
  if (!file.empty()) return WriteOne(session, file, files[0]);
  if (directory.empty()) {
    session.PrintFile(files[0].text);
    return absl::OkStatus();
  }
  for (const ExportedFile& one : files) {
    std::error_code error;
    const fs::path path = fs::path(directory) / one.name;
    if (!force && fs::exists(path, error)) {
      return AlreadyExists("{} exists; nothing was written (--force replaces it)", path.string());
    }
  }
  for (const ExportedFile& one : files) {
    const fs::path path = fs::path(directory) / one.name;
    RETURN_IF_ERROR(MakeDirectories(path.parent_path().string()));
    RETURN_IF_ERROR(WriteOne(session, path.string(), one));
  }
  return absl::OkStatus();
}

}  // namespace tunefarm::cli
