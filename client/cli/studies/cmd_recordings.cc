// import {t4,cache} and recordings {list,show,delete}: results of other tools and machines in the store.

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/studies/recorded_source.h"
#include "client/cli/studies/recording_upload.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Service = v1::RecordingService::StubInterface;

// What the daemon takes; a larger file is not read to the end.
constexpr uint64_t kContentBytesMax = uint64_t{64} << 20;

struct ImportOptions {
  std::string file;
  std::string name, kernel, problem, device;
  v1::RecordingFormat format = v1::RECORDING_FORMAT_UNSPECIFIED;
};

std::string NumberOf(const v1::Recording& recording) { return recording.name().substr(recording.name().find('/') + 1); }

// "0.5536 ms"; other objectives have no unit that we know.
std::string BestText(const v1::Recording& recording) {
  if (recording.valid_count() == 0) return "";
  if (recording.objective() == "time") return FormatDuration(recording.best_objective() * 1e6);
  return fmt::format("{} {}", recording.objective(), recording.best_objective());
}

absl::StatusOr<ExitCode> ImportRecorded(Session* session, const ImportOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  absl::StatusOr<std::string> content = ReadFile(options.file, kContentBytesMax);
  if (absl::IsResourceExhausted(content.status())) {
    return InvalidArgument("{} has more than {}; gzip it, or give it to tunefarm simulate as it is", options.file,
                           FormatBytes(kContentBytesMax));
  }
  RETURN_IF_ERROR(content.status());
  v1::CreateRecordingRequest about;
  about.set_file_name(std::filesystem::path(options.file).filename().string());
  about.set_format(options.format);
  about.set_display_name(options.name);
  about.set_kernel_name(options.kernel);
  about.set_problem(options.problem);
  about.set_device_name(options.device);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::CreateRecordingResponse response, UploadRecording(connection, about, *content));
  const v1::Recording& recording = response.recording();
  for (const std::string& note : recording.notes()) session->Note(options.file + ": " + note);
  if (response.already_stored()) {
    session->Note(
        fmt::format("The same results are stored already, as recording {}; nothing was changed.", NumberOf(recording)));
  }
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
  } else {
    session->Print(fmt::format("recording {}: {}, {} configs, {} failed{}{}\n", NumberOf(recording),
                               recording.display_name(), FormatCount(recording.result_count()),
                               FormatCount(recording.failed_count()), recording.valid_count() > 0 ? ", best " : "",
                               BestText(recording)));
  }
  session->Note(fmt::format("Next: tunefarm simulate --recording {}", recording.display_name()));
  return kExitOk;
}

absl::StatusOr<ExitCode> ListRecordings(Session* session, int limit) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListRecordingsRequest request;
  request.set_page_size(limit);
  ASSIGN_OR_RETURN(const v1::ListRecordingsResponse response,
                   Connection::Call(connection->recordings(), &Service::ListRecordings, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  Table table({{"recording", true},
               {"name", false},
               {"kernel", false},
               {"problem", false},
               {"device", false},
               {"configs", true},
               {"failed", true},
               {"best", true},
               {"imported", false}});
  const bool is_csv = format == OutputFormat::kCsv;
  for (const v1::Recording& recording : response.recordings()) {
    const auto age_ns = static_cast<double>(Clock::Real()->WallMs() - recording.imported_at_ms()) * 1e6;
    const auto count = [is_csv](int64_t n) { return is_csv ? std::to_string(n) : FormatCount(n); };
    table.AddRow(
        {NumberOf(recording), recording.display_name(), recording.kernel_name(), recording.problem(),
         recording.device_name(), count(recording.result_count()), count(recording.failed_count()),
         is_csv && recording.valid_count() > 0 ? fmt::format("{}", recording.best_objective()) : BestText(recording),
         is_csv ? std::to_string(recording.imported_at_ms()) : FormatDuration(age_ns) + " ago"});
  }
  session->Print(is_csv ? table.ToCsv() : table.ToText());
  if (table.rows() == 0) session->Note("No recordings yet. Try: tunefarm import t4 FILE");
  if (!response.next_page_token().empty()) session->Note("There are more; --limit shows more of them.");
  return kExitOk;
}

absl::StatusOr<ExitCode> ShowRecording(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const v1::Recording recording, FetchRecording(session, text));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(recording));
    return kExitOk;
  }
  const auto line = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) session->Print(fmt::format("{:<10}{}\n", what, value));
  };
  session->Print(fmt::format("recording {}: {}\n", NumberOf(recording), recording.display_name()));
  line("file", fmt::format("{} ({})", recording.file_name(),
                           recording.format() == v1::RECORDING_FORMAT_T4 ? "T4" : "cache file of Kernel Tuner"));
  line("content", "sha256 " + recording.content_digest());
  line("kernel", recording.kernel_name());
  line("problem", recording.problem());
  line("device", recording.device_name());
  line("configs",
       fmt::format("{}, {} failed", FormatCount(recording.result_count()), FormatCount(recording.failed_count())));
  line("best", BestText(recording));
  line("stored", FormatBytes(static_cast<uint64_t>(recording.stored_bytes())));
  for (const std::string& note : recording.notes()) line("note", note);
  Table table({{"parameter", false}, {"values", true}});
  for (const v1::RecordedParameter& parameter : recording.parameters()) {
    table.AddRow({parameter.name(), FormatCount(parameter.values_size())});
  }
  session->Print("\n" + table.ToText());
  return kExitOk;
}

absl::StatusOr<ExitCode> DeleteRecording(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const v1::Recording recording, FetchRecording(session, text));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::DeleteRecordingRequest request;
  request.set_name(recording.name());
  RETURN_IF_ERROR(Connection::Call(connection->recordings(), &Service::DeleteRecording, request).status());
  session->Note(fmt::format("Recording {} ({}) is deleted.", NumberOf(recording), recording.display_name()));
  return kExitOk;
}

void AddImportVerb(CLI::App* import, Session* session, const std::string& verb, const std::string& help,
                   const std::string& example, v1::RecordingFormat format) {
  auto options = std::make_shared<ImportOptions>();
  options->format = format;
  CLI::App* command = import->add_subcommand(verb, help);
  SetExample(command, example);
  command->add_option("FILE", options->file, "The file, plain or .gz; at most 64 MiB.")->required();
  command->add_option("--name", options->name, "What to call it. Default: the file's name without .json and .gz.")
      ->type_name("NAME");
  command->add_option("--kernel", options->kernel, "What was measured, instead of what the file says.")
      ->type_name("TEXT");
  command->add_option("--problem", options->problem, "For which problem, instead of what the file says.")
      ->type_name("TEXT");
  command->add_option("--device", options->device, "On which device, instead of what the file says.")
      ->type_name("TEXT");
  command->callback([=] { session->command = [=] { return ImportRecorded(session, *options); }; });
}

}  // namespace

void AddImportRecorded(CLI::App* import, Session* session) {
  AddImportVerb(import, session, "t4", "Store the results of a T4 file, to simulate on.",
                "tunefarm import t4 convolution_A100_T4.json.gz --kernel convolution --device A100",
                v1::RECORDING_FORMAT_T4);
  AddImportVerb(import, session, "cache", "Store the results of a cache file of Kernel Tuner, to simulate on.",
                "tunefarm import cache gemm_cache.json --name gemm_A100", v1::RECORDING_FORMAT_KERNEL_TUNER_CACHE);
}

void AddRecordings(CLI::App* app, Session* session) {
  CLI::App* recordings = app->add_subcommand(
      "recordings", "List, show or delete recorded results (import t4, import cache, import bests).");
  recordings->require_subcommand(1);
  SetExample(recordings, "tunefarm recordings list\ntunefarm recordings show convolution_A100_T4");
  auto limit = std::make_shared<int>(50);
  CLI::App* list = recordings->add_subcommand("list", "The newest recordings.");
  SetExample(list, "tunefarm recordings list --limit 5");
  list->add_option("--limit", *limit, "How many (default 50).")->check(CLI::Range(1, 1000));
  list->callback([=] { session->command = [=] { return ListRecordings(session, *limit); }; });
  const auto add_verb = [&](const std::string& verb, const std::string& help,
                            absl::StatusOr<ExitCode> (*action)(Session*, const std::string&)) {
    auto text = std::make_shared<std::string>();
    CLI::App* command = recordings->add_subcommand(verb, help);
    SetExample(command, "tunefarm recordings " + verb + " 3");
    command->add_option("RECORDING", *text, "Its number or name.")->required();
    command->callback([=] { session->command = [=] { return action(session, *text); }; });
  };
  add_verb("show", "One recording: where it comes from, its counts and parameters.", ShowRecording);
  add_verb("delete", "Remove a recording and its results.", DeleteRecording);
}

}  // namespace tunefarm::cli
