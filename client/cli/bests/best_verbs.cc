#include "client/cli/bests/best_verbs.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "client/cli/bests/best_rows.h"
#include "client/cli/bests/best_watch.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Catalog = v1::CatalogService::StubInterface;

constexpr int kBestsShownMax = 1'000'000;
constexpr int kBestsPageMax = 1000;

// Which best a command is about, and why.
struct BestChoice {
  std::string kernel;
  ProblemOptions problem;
  std::string device;
  std::string reason;
  std::string note;
  int64_t from_revision = 0;
  int limit = 50;

  bool names_problem() const { return !problem.dims.empty() || !problem.pins.empty() || !device.empty(); }
};

absl::StatusOr<std::string> KernelNameOf(Session* session, const std::string& text) {
  if (text.empty()) return std::string();
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelWithoutData(text, session->environment));
  return kernel.name;
}

// Whose bests a list is about: all, those of a name, or those of the definition that a path names.
struct Listed {
  std::string name;     // empty: all
  std::string program;  // empty: of every definition of the name

  bool Takes(const std::string& program_digest) const { return program.empty() || program_digest == program; }
};

absl::StatusOr<Listed> ListedOf(Session* session, const std::string& text) {
  Listed listed;
  if (text.empty()) return listed;
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelArgument(text, session->environment));
  listed.name = kernel.name;
  ASSIGN_OR_RETURN(listed.program, ProgramDigestOfPath(kernel));
  return listed;
}

v1::BestConfigKey KeyOfBest(const v1::BestConfig& best) {
  v1::BestConfigKey key;
  key.set_program_digest(best.program_digest());
  key.set_problem_key(best.problem().key());
  key.set_device_class_id(best.device_class_id());
  return key;
}

// The best of exactly this kernel, problem and device.
absl::StatusOr<v1::BestConfig> ChosenBest(Session* session, const BestChoice& choice) {
  if (choice.kernel.empty()) return InvalidArgument("--dim, --pin and --device say more about a KERNEL; name it too");
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelArgument(choice.kernel, session->environment));
  v1::LookupConfigRequest request;
  request.set_kernel(kernel.name);
  ASSIGN_OR_RETURN(*request.mutable_program_digest(), ProgramDigestOf(kernel));
  ASSIGN_OR_RETURN(*request.mutable_problem(), MakeProblem(choice.problem));
  request.set_device_selector(choice.device);
  request.set_worst_match(v1::MATCH_STALE);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  absl::StatusOr<v1::LookupConfigResponse> answer =
      Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::LookupConfig, request);
  RETURN_IF_ERROR(SayNeverTuned(answer.status(), kernel, TuneCommand(choice.kernel, choice.problem, choice.device)));
  v1::LookupConfigResponse& response = *answer;
  if (response.match() == v1::MATCH_EXACT || response.match() == v1::MATCH_STALE) {
    if (response.other_programs() > 0) {
      session->Note(
          kernel.name +
          " stands for several definitions with a best config for this problem; this is about the one that was "
          "submitted last. A path or kernels/ID names another.");
    }
    return std::move(*response.mutable_best());
  }
  return NotFound("{} has no best config for exactly this problem and device; tunefarm best list {} shows those it has",
                  kernel.name, ShellWord(choice.kernel));
}

// Pages of a list until `limit` items are there; whether there are more. `fetch` adds the next page.
absl::StatusOr<bool> FetchPages(int limit, const std::function<absl::StatusOr<std::string>(int, std::string)>& fetch,
                                const std::function<int()>& count) {
  std::string token;
  do {
    ASSIGN_OR_RETURN(token, fetch(std::min(limit - count(), kBestsPageMax), token));
  } while (!token.empty() && count() < limit);
  return !token.empty();
}

void NoteMore(const Session& session, bool has_more) {
  if (has_more) session.Note("There are more; --limit shows more of them.");
}

absl::StatusOr<ExitCode> ListChosenBests(Session* session, const BestChoice& choice) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(const Listed listed, ListedOf(session, choice.kernel));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListBestConfigsResponse all;
  const auto fetch = [&](int size, const std::string& token) -> absl::StatusOr<std::string> {
    v1::ListBestConfigsRequest request;
    request.set_kernel(listed.name);
    request.set_program_digest(listed.program);
    request.set_page_size(size);
    request.set_page_token(token);
    ASSIGN_OR_RETURN(
        const v1::ListBestConfigsResponse page,
        Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::ListBestConfigs, request));
    all.mutable_bests()->MergeFrom(page.bests());
    if (token.empty()) all.set_catalog_revision(page.catalog_revision());
    return page.next_page_token();
  };
  ASSIGN_OR_RETURN(const bool has_more, FetchPages(choice.limit, fetch, [&] { return all.bests_size(); }));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(all));
  } else if (format == OutputFormat::kCsv) {
    session->PrintTable(BestsTable(all, true), format);
  } else if (all.bests().empty()) {
    session->Note(listed.name.empty() ? "No bests yet. Try: tunefarm tune matmul_host"
                                      : "No bests yet. Run: " + TuneCommand(choice.kernel, {}, ""));
  } else {
    session->PrintTable(BestsTable(all, false), format);
  }
  NoteMore(*session, has_more);
  return kExitOk;
}

absl::StatusOr<ExitCode> ShowBestHistory(Session* session, const BestChoice& choice) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  v1::ListBestConfigChangesRequest request;
  Listed listed;
  if (choice.names_problem()) {
    ASSIGN_OR_RETURN(const v1::BestConfig best, ChosenBest(session, choice));
    *request.mutable_key() = KeyOfBest(best);
  } else {
    ASSIGN_OR_RETURN(listed, ListedOf(session, choice.kernel));
    request.set_kernel(listed.name);
  }
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListBestConfigChangesResponse all;
  const auto fetch = [&](int size, const std::string& token) -> absl::StatusOr<std::string> {
    request.set_page_size(size);
    request.set_page_token(token);
    ASSIGN_OR_RETURN(const v1::ListBestConfigChangesResponse page,
                     Connection::Call(connection->catalog(), &Catalog::ListBestConfigChanges, request));
    for (const v1::BestConfigChange& change : page.changes()) {
      if (listed.Takes(change.best().program_digest())) *all.add_changes() = change;
    }
    return page.next_page_token();
  };
  ASSIGN_OR_RETURN(const bool has_more, FetchPages(choice.limit, fetch, [&] { return all.changes_size(); }));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(all));
  } else if (format == OutputFormat::kCsv) {
    session->PrintTable(BestChangesTable(all, true), format);
  } else if (all.changes().empty()) {
    session->Note("The history is empty.");
  } else {
    session->PrintTable(BestChangesTable(all, false), format);
  }
  NoteMore(*session, has_more);
  return kExitOk;
}

// The key of what the catalog's revision changed.
absl::StatusOr<v1::BestConfigKey> KeyAtRevision(Session* session, const std::string& kernel, int64_t revision) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListBestConfigChangesRequest request;
  request.set_kernel(kernel);
  request.set_page_size(kBestsPageMax);
  do {
    ASSIGN_OR_RETURN(const v1::ListBestConfigChangesResponse page,
                     Connection::Call(connection->catalog(), &Catalog::ListBestConfigChanges, request));
    for (const v1::BestConfigChange& change : page.changes()) {
      if (change.revision() == revision) return KeyOfBest(change.best());
      if (change.revision() < revision) break;  // newest first
    }
    const bool is_passed = !page.changes().empty() && page.changes().rbegin()->revision() < revision;
    request.set_page_token(is_passed ? "" : page.next_page_token());
  } while (!request.page_token().empty());
  return NotFound("revision {} is not in the history of {}; tunefarm best history {} shows it", revision, kernel,
                  ShellWord(kernel));
}

absl::Status PrintChanged(const Session& session, const std::string& word, const v1::BestConfig& best,
                          bool is_there = true) {
  ASSIGN_OR_RETURN(const OutputFormat format, session.format_without_csv());
  session.Print(format == OutputFormat::kJson ? ToJson(best) : ChangedBestText(word, best, is_there));
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> PinBest(Session* session, const BestChoice& choice) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  v1::PinBestConfigRequest request;
  if (choice.from_revision > 0) {
    if (choice.names_problem()) {
      return InvalidArgument(
          "--from-revision says which problem and device it is; leave out --dim, --pin and --device");
    }
    ASSIGN_OR_RETURN(const std::string kernel, KernelNameOf(session, choice.kernel));
    ASSIGN_OR_RETURN(*request.mutable_key(), KeyAtRevision(session, kernel, choice.from_revision));
    request.set_from_revision(choice.from_revision);
  } else {
    ASSIGN_OR_RETURN(const v1::BestConfig best, ChosenBest(session, choice));
    *request.mutable_key() = KeyOfBest(best);
  }
  request.set_reason(choice.reason);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::PinBestConfigResponse response,
                   Connection::Call(connection->catalog(), &Catalog::PinBestConfig, request));
  RETURN_IF_ERROR(PrintChanged(*session, "pinned", response.best()));
  return kExitOk;
}

absl::StatusOr<ExitCode> UnpinBest(Session* session, const BestChoice& choice) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  ASSIGN_OR_RETURN(const v1::BestConfig best, ChosenBest(session, choice));
  v1::UnpinBestConfigRequest request;
  *request.mutable_key() = KeyOfBest(best);
  request.set_reason(choice.reason);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::UnpinBestConfigResponse response,
                   Connection::Call(connection->catalog(), &Catalog::UnpinBestConfig, request));
  RETURN_IF_ERROR(PrintChanged(*session, "unpinned", response.best()));
  return kExitOk;
}

absl::StatusOr<ExitCode> RetireBest(Session* session, const BestChoice& choice) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  ASSIGN_OR_RETURN(const v1::BestConfig best, ChosenBest(session, choice));
  v1::RetireBestConfigRequest request;
  *request.mutable_key() = KeyOfBest(best);
  request.set_reason(choice.reason);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::RetireBestConfigResponse response,
                   Connection::Call(connection->catalog(), &Catalog::RetireBestConfig, request));
  RETURN_IF_ERROR(PrintChanged(*session, "retired", best, /*is_there=*/false));
  session->Note(fmt::format("To restore it: tunefarm best pin {} --from-revision {}", ShellWord(choice.kernel),
                            response.revision()));
  return kExitOk;
}

absl::StatusOr<ExitCode> NoteBest(Session* session, const BestChoice& choice) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  ASSIGN_OR_RETURN(const v1::BestConfig best, ChosenBest(session, choice));
  v1::AnnotateBestConfigRequest request;
  *request.mutable_key() = KeyOfBest(best);
  request.set_note(choice.note);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::AnnotateBestConfigResponse response,
                   Connection::Call(connection->catalog(), &Catalog::AnnotateBestConfig, request));
  RETURN_IF_ERROR(PrintChanged(*session, choice.note.empty() ? "no note" : "noted", response.best()));
  return kExitOk;
}

using BestAction = std::function<absl::StatusOr<ExitCode>(Session*, const BestChoice&)>;

struct BestVerb {
  CLI::App* command;
  std::shared_ptr<BestChoice> choice;

  void AddKernel(bool is_required) const {
    command->add_option("KERNEL", choice->kernel, is_required ? "A kernel's name or definition." : "Default: all.")
        ->required(is_required);
  }
  void AddProblem() const {
    choice->problem.AddTo(command, /*many=*/false);
    command->add_option("--device", choice->device, "Device UUID, class, name, or a known class such as A100.")
        ->type_name("DEVICE");
  }
  void AddReason() const {
    command->add_option("--reason", choice->reason, "Reason, kept in the history.")->type_name("TEXT");
  }
  void AddLimit() const {
    command->add_option("--limit", choice->limit, "Maximum number of rows (default 50).")
        ->check(CLI::Range(1, kBestsShownMax));
  }
};

BestVerb AddBestVerb(CLI::App* bests, Session* session, const std::string& verb, const std::string& help,
                     const std::string& example, BestAction action) {
  auto choice = std::make_shared<BestChoice>();
  CLI::App* const command = bests->add_subcommand(verb, help);
  SetExample(command, example);
  command->callback([=] { session->command = [=] { return action(session, *choice); }; });
  return {command, choice};
}

}  // namespace

std::string TuneCommand(const std::string& kernel, const ProblemOptions& problem, const std::string& device) {
  return "tunefarm tune " + ShellWord(kernel) + problem.ToText() +
         (device.empty() ? "" : " --device " + ShellWord(device));
}

absl::Status SayNeverTuned(const absl::Status& answer, const KernelArgument& kernel, const std::string& tune) {
  if (!kernel.definition.has_value() || ReasonOf(answer) != "KERNEL_NOT_FOUND") return answer;
  return NotFound("{} was never tuned here; run: {}", kernel.name, tune);
}

absl::StatusOr<ExitCode> ListBests(Session* session, const std::string& kernel) {
  BestChoice choice;
  choice.kernel = kernel;
  return ListChosenBests(session, choice);
}

void AddBestVerbs(CLI::App* bests, Session* session) {
  bests->require_subcommand(0, 1);
  const BestVerb list = AddBestVerb(bests, session, "list", "The best configs of a kernel, or of all.",
                                    "tunefarm best list matmul --output csv", ListChosenBests);
  list.AddKernel(false);
  list.AddLimit();
  const BestVerb pin =
      AddBestVerb(bests, session, "pin", "Keep a best config regardless of later results, or restore an earlier one.",
                  "tunefarm best pin matmul --dim M=4096 --dim dtype=bf16 --reason \"in production\"\n"
                  "tunefarm best pin matmul --from-revision 12",
                  PinBest);
  pin.AddKernel(true);
  pin.AddProblem();
  pin.command
      ->add_option("--from-revision", pin.choice->from_revision,
                   "Restore the config of this revision of the history, and keep it.")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  pin.AddReason();
  const BestVerb unpin = AddBestVerb(bests, session, "unpin", "Let later jobs replace a pinned best config again.",
                                     "tunefarm best unpin matmul --dim M=4096 --dim dtype=bf16", UnpinBest);
  unpin.AddKernel(true);
  unpin.AddProblem();
  unpin.AddReason();
  const BestVerb retire =
      AddBestVerb(bests, session, "retire", "Take a best config out of the catalog; its history stays.",
                  "tunefarm best retire matmul --dim M=4096 --dim dtype=bf16 --reason \"wrong for NaN\"", RetireBest);
  retire.AddKernel(true);
  retire.AddProblem();
  retire.AddReason();
  const BestVerb note = AddBestVerb(bests, session, "note", "Attach a note to a best config.",
                                    "tunefarm best note matmul \"slow below 600 W\" --dim M=4096", NoteBest);
  note.AddKernel(true);
  note.command->add_option("TEXT", note.choice->note, "The note, which replaces the present one; \"\" removes it.")
      ->required();
  note.AddProblem();
  const BestVerb history =
      AddBestVerb(bests, session, "history", "Changes of best configs, newest first.",
                  "tunefarm best history matmul --limit 5\ntunefarm best history matmul --dim M=4096", ShowBestHistory);
  history.AddKernel(false);
  history.AddProblem();
  history.AddLimit();
  const BestVerb watch =
      AddBestVerb(bests, session, "watch", "Print every best config, then every change as it happens.",
                  "tunefarm best watch matmul --output json",
                  [](Session* own, const BestChoice& choice) -> absl::StatusOr<ExitCode> {
                    ASSIGN_OR_RETURN(const Listed listed, ListedOf(own, choice.kernel));
                    return WatchBests(own, listed.name, listed.program);
                  });
  watch.AddKernel(false);
}

}  // namespace tunefarm::cli
