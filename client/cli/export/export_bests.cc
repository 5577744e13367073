// export bests and import bests: results on their way from one machine's tunefarm to another's.

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "client/cli/studies/recording_upload.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/bests_file.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kHostNameMax = 256;
// Of what a recording says about its problem and device.
constexpr size_t kLabelMax = 256;

struct ExportBestsOptions {
  BestFilter filter;
  ExportTarget target;
  std::string source;
};

std::string HostName() {
  char name[kHostNameMax] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

absl::StatusOr<ExitCode> ExportBests(Session* session, const ExportBestsOptions& options) {
  interchange::BestsFile file;
  ASSIGN_OR_RETURN(file.bests, FetchBests(session, options.filter));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                   Connection::Call(connection->server(), &v1::ServerService::StubInterface::GetServerInfo,
                                    v1::GetServerInfoRequest()));
  // The daemon is on this machine unless an address of another one was given.
  const bool is_here = connection->address().rfind("unix:", 0) == 0;
  file.source.host = !options.source.empty() ? options.source : is_here ? HostName() : connection->address();
  file.source.data_directory = info.data_directory();
  file.source.tunefarm_version = info.version();
  file.source.exported_at_ms = Clock::Real()->WallMs();
  RETURN_IF_ERROR(options.target.Write(*session, {{"", interchange::WriteBestsFile(file), ""}}));
  session->Note(fmt::format("{} bests of {}. On the other machine: tunefarm import bests {}",
                            FormatCount(static_cast<int64_t>(file.bests.size())), file.source.host,
                            options.target.file.empty() ? "FILE" : options.target.file));
  return kExitOk;
}

struct ImportBestsOptions {
  std::string file;
  std::string name;
};

// What recordings can be called; what cannot stand there becomes '_'.
std::string NameText(std::string text) {
  for (char& c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_letter && c != '.' && c != '_' && c != '-') c = '_';
  }
  return text;
}

std::string Cut(std::string text) {
  if (text.size() > kLabelMax) text.resize(kLabelMax);
  return text;
}

std::string ProblemsText(int64_t count) { return FormatCount(count) + (count == 1 ? " problem" : " problems"); }

absl::StatusOr<ExitCode> ImportBests(Session* session, const ImportBestsOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(std::string text, ReadFile(options.file, interchange::kBestsBytesMax));
  const std::string file_name = std::filesystem::path(options.file).filename().string();
  ASSIGN_OR_RETURN(const interchange::BestsFile file, interchange::ReadBestsFile(std::move(text), options.file));
  const interchange::BestsRecordings made = interchange::RecordingsOf(file);
  if (made.left_out > 0) {
    session->Note(
        fmt::format("{} bests are left out: pinned, or with input seeds of their own", FormatCount(made.left_out)));
  }
  if (made.recordings.empty()) return NotFound("{} has no bests to import", options.file);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  const std::string stem = options.name.empty() ? std::filesystem::path(file_name).stem().string() : options.name;
  for (const interchange::BestsRecording& recording : made.recordings) {
    v1::CreateRecordingRequest about;
    about.set_file_name(file_name);
    about.set_format(v1::RECORDING_FORMAT_T4);
    // Several kernels or classes: a recording each.
    about.set_display_name(NameText(
        made.recordings.size() == 1 ? stem
                                    : fmt::format("{}.{}.{}", stem, recording.kernel_name, recording.device_class_id)));
    about.set_kernel_name(Cut(recording.kernel_name));
    about.set_problem(Cut(fmt::format("bests of {}, from {}", ProblemsText(recording.problems), file.source.host)));
    about.set_device_name(Cut(recording.device_class_name));
    ASSIGN_OR_RETURN(const v1::CreateRecordingResponse response, UploadRecording(connection, about, recording.t4));
    const std::string name = response.recording().display_name();
    if (format == OutputFormat::kJson) {
      session->Print(ToJson(response));
    } else {
      session->Print(fmt::format("recording {}: {} on {}, {}, measured on {}{}\n", name, recording.kernel_name,
                                 recording.device_class_name, ProblemsText(recording.problems), file.source.host,
                                 response.already_stored() ? "; stored already" : ""));
    }
    session->Note(fmt::format("Measure them here: tunefarm tune {} --from-recording {} --max-trials 1",
                              recording.kernel_name, name));
  }
  session->Note("No look-up answers with them before they are measured here.");
  return kExitOk;
}

}  // namespace

void AddExportBests(CLI::App* command, Session* session) {
  auto options = std::make_shared<ExportBestsOptions>();
  CLI::App* bests = command->add_subcommand("bests", "Bests for tunefarm on another machine (import bests).");
  SetExample(bests,
             "tunefarm export bests bests.json\n"
             "tunefarm export bests --kernel matmul --device H200 > matmul_h200.json");
  bests->add_option("FILE,-f,--file", options->target.file,
                    "The file to write; one that is there is replaced. Default: stdout.");
  options->filter.AddTo(bests);
  bests->add_option("--source", options->source, "How to call this machine (default: its host name).")
      ->type_name("TEXT");
  bests->callback([=] { session->command = [=] { return ExportBests(session, *options); }; });
}

void AddImportBests(CLI::App* import, Session* session) {
  auto options = std::make_shared<ImportBestsOptions>();
  CLI::App* bests = import->add_subcommand(
      "bests", "Keep the bests of another machine (export bests) as recordings, to be measured here.");
  SetExample(bests,
             "tunefarm import bests bests.json\n"
             "tunefarm tune matmul --from-recording bests --max-trials 1");
  bests->add_option("FILE", options->file, "What export bests wrote.")->required();
  bests
      ->add_option("--name", options->name,
                   "What to call the recording; of several, what their names begin with. Default: the file's name "
                   "without its ending.")
      ->type_name("NAME");
  bests->callback([=] { session->command = [=] { return ImportBests(session, *options); }; });
}

}  // namespace tunefarm::cli
