#include "client/cli/studies/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/cli/bests/best_rows.h"
#include "client/cli/options/measure_options.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/studies/energy_table.h"
#include "client/cli/studies/failure_table.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/memory_text.h"
#include "client/cli/studies/progress.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

std::string SpreadText(const v1::Measurement& m) {
  if (m.median_ns() <= 0 || m.samples() < 2) return "";
  return fmt::format("±{:.1f}%", 50.0 * (m.ci_high_ns() - m.ci_low_ns()) / m.median_ns());
}

std::string RateText(double work, double ns, double unit) {
  return work > 0 && ns > 0 ? fmt::format("{:.4g}", work / ns * 1e9 / unit) : "";
}

struct FlopUnit {
  const char* name;
  double size;
};

FlopUnit FlopUnitOf(double flops, double ns) {
  return ns > 0 && flops / ns * 1e9 < 0.1e12 ? FlopUnit{"GFLOP/s", 1e9} : FlopUnit{"TFLOP/s", 1e12};
}

std::string FloorText(double floor_ns, double ns) {
  return floor_ns > 0 && ns > 0 ? fmt::format("{:.0f}%", 100.0 * floor_ns / ns) : "";
}

std::string RatioText(double baseline_ns, double ns) {
  return baseline_ns > 0 && ns > 0 ? fmt::format("{:.2f}x", baseline_ns / ns) : "";
}

bool IsKept(const v1::Study& study, const v1::Trial& trial) {
  return study.has_best() && trial.purpose() == v1::TRIAL_PURPOSE_FINALIST && trial.ordinal() == study.best().ordinal();
}

// The configs that the table ranks: those of the interleaved final where there was one, else of the search. The one
// that was kept comes first, then the fastest. After a second final a config has several trials, of which the first
// counts.
std::vector<v1::Trial> Ranked(const v1::Study& study, const std::vector<v1::Trial>& trials) {
  std::vector<v1::Trial> ranked;
  const bool has_final = std::any_of(trials.begin(), trials.end(), [](const v1::Trial& t) {
    return t.purpose() == v1::TRIAL_PURPOSE_FINALIST && t.outcome() == v1::OUTCOME_OK;
  });
  for (const v1::Trial& trial : trials) {
    if (trial.outcome() != v1::OUTCOME_OK || trial.config().values().empty()) continue;
    if (has_final == (trial.purpose() == v1::TRIAL_PURPOSE_FINALIST)) ranked.push_back(trial);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const v1::Trial& a, const v1::Trial& b) {
    return a.measurement().median_ns() < b.measurement().median_ns();
  });
  std::stable_partition(ranked.begin(), ranked.end(), [&](const v1::Trial& trial) { return IsKept(study, trial); });
  if (!has_final) return ranked;
  std::set<std::string> seen;
  std::erase_if(ranked, [&](const v1::Trial& trial) { return !seen.insert(ConfigText(trial.config())).second; });
  return ranked;
}

// Whether the config that was kept has to be explained: another one has a smaller time.
bool IsMarked(const v1::Study& study, const std::vector<v1::Trial>& ranked) {
  if (ranked.empty() || !IsKept(study, ranked[0])) return false;
  return std::any_of(ranked.begin(), ranked.end(), [&](const v1::Trial& trial) {
    return trial.measurement().median_ns() < ranked[0].measurement().median_ns();
  });
}

Table RankTable(const v1::Study& study, const std::vector<v1::Trial>& trials, int rows) {
  std::vector<Table::Column> columns = {{"rank", true}, {"time", true}, {"spread", true}, {"speedup", true}};
  // Rates that would begin with 0.0 are told in the next smaller unit.
  const double fastest_ns = trials.empty() ? 0 : trials[0].measurement().median_ns();
  const FlopUnit flop_unit = FlopUnitOf(study.flops(), fastest_ns);
  if (study.flops() > 0) columns.push_back({flop_unit.name, true});
  if (study.bytes() > 0) columns.push_back({"GB/s", true});
  if (study.floor_ns() > 0) columns.push_back({"of floor", true});
  columns.push_back({"config", false});
  Table table(columns);
  const double baseline_ns = study.baseline().measurement().median_ns();
  const auto add = [&](const std::string& rank, const v1::Measurement& m, const std::string& config, Style style) {
    std::vector<std::string> cells = {rank, FormatDuration(m.median_ns()), SpreadText(m),
                                      RatioText(baseline_ns, m.median_ns())};
    if (study.flops() > 0) cells.push_back(RateText(study.flops(), m.median_ns(), flop_unit.size));
    if (study.bytes() > 0) cells.push_back(RateText(study.bytes(), m.median_ns(), 1e9));
    if (study.floor_ns() > 0) cells.push_back(FloorText(study.floor_ns(), m.median_ns()));
    cells.push_back(config);
    table.AddRow(std::move(cells), style);
  };
  int rank = 0;
  for (const v1::Trial& trial : trials) {
    if (rows > 0 && rank == rows) break;
    ++rank;
    add(std::to_string(rank) + (rank == 1 && IsMarked(study, trials) ? "*" : ""), trial.measurement(),
        ConfigText(trial.config()), rank == 1 ? Style::kBold : Style::kPlain);
  }
  if (baseline_ns > 0) {
    const std::string label = study.best().baseline_label();
    const std::string config = ConfigText(study.baseline().config());
    add("", study.baseline().measurement(),
        "baseline: " + (config.empty() ? (label.empty() ? "library" : label) : "default config"), Style::kPlain);
  }
  return table;
}

// What the times of a final have to do with those that were seen during the search, and what it decided.
std::string FinalText(const v1::Study& study, const std::vector<v1::Trial>& trials,
                      const std::vector<v1::Trial>& ranked) {
  if (ranked.empty() || ranked[0].purpose() != v1::TRIAL_PURPOSE_FINALIST) return "";
  double searched_ns = 0;
  for (const v1::Trial& trial : trials) {
    const double ns = trial.measurement().median_ns();
    if (trial.purpose() != v1::TRIAL_PURPOSE_SEARCH || trial.outcome() != v1::OUTCOME_OK || ns <= 0) continue;
    searched_ns = searched_ns > 0 ? std::min(searched_ns, ns) : ns;
  }
  std::string text = "times of the final, measured in turns";
  if (searched_ns > 0) text += fmt::format("; best in the search: {}", FormatDuration(searched_ns));
  text += "\n";
  if (study.kept_because().empty()) return text;
  return text + (IsMarked(study, ranked) ? "* " : "") + study.kept_because() + "\n";
}

std::string StudyText(const Session& session, const v1::Study& study, v1::Objective objective,
                      const std::vector<v1::Trial>& trials, int rows) {
  std::string text = fmt::format("\n{}  on  {}\n", Visible(study.problem().key()), Visible(study.device_class_name()));
  const std::vector<v1::Trial> ranked = Ranked(study, trials);
  if (ranked.empty()) {
    const bool has_ended = study.state() == v1::STUDY_STATE_ENDED;
    text += (has_ended ? session.Styled(Style::kRed, "no valid config") : "no valid config yet") + "\n";
  } else {
    text += RankTable(study, ranked, rows).ToText(session.has_color(), session.columns);
    if (rows > 0 && ranked.size() > static_cast<size_t>(rows)) {
      text += fmt::format("... and {} more; --all shows every trial\n", ranked.size() - static_cast<size_t>(rows));
    }
  }
  text += FinalText(study, trials, ranked);
  if (!ranked.empty() && ranked[0].purpose() == v1::TRIAL_PURPOSE_FINALIST)
    text += EnergyText(session, study, objective, ranked);
  if (!ranked.empty() && ranked[0].measurement().self_judged()) {
    text += "self-judged: the kernel's own process took these times, and nothing outside of it checked them\n";
  }
  // The worker's note about the comparison, which is the same for all configs of a problem.
  if (!ranked.empty() && !ranked[0].message().empty()) text += "warning: " + ranked[0].message() + "\n";
  const int64_t done = study.progress().done();
  if (done > 0) {
    text += fmt::format("{}: {}\n", FormatCount(done, "trial"), OutcomesText(study.progress()));
  } else {
    text += study.state() == v1::STUDY_STATE_ENDED ? "no trials\n" : "no trials yet\n";
  }
  if (!study.search_ended_because().empty()) text += "search complete: " + study.search_ended_because() + "\n";
  if (!study.not_promoted_because().empty()) text += "not promoted: " + study.not_promoted_because() + "\n";
  int64_t early = 0;
  for (const v1::Trial& trial : trials) early += trial.stopped_early();
  if (early > 0) text += fmt::format("{} stopped early (could not win)\n", FormatCount(early));
  if (const std::string idle = WithoutEffectText(study); !idle.empty()) text += idle + "\n";
  for (const v1::Trial& trial : ranked) {
    if (trial.measurement().throttled() || trial.measurement().contended()) {
      text += "warning: the device throttled or was shared while finalists were measured: " +
              ConditionsText(trial.measurement()) + "\n";
      break;
    }
  }
  return text;
}

// "2" for "jobs/17/studies/2/trials/5".
std::string StudyNumber(const std::string& trial_name) {
  constexpr std::string_view kStudies = "/studies/";
  const size_t studies = trial_name.find(kStudies);
  if (studies == std::string::npos) return "";
  const size_t start = studies + kStudies.size();
  return trial_name.substr(start, trial_name.find('/', start) - start);
}

std::string PurposeText(v1::TrialPurpose purpose) {
  const std::string name = v1::TrialPurpose_Name(purpose);
  return name.substr(std::min(name.size(), std::string_view("TRIAL_PURPOSE_").size()));
}

Table TrialTable(const std::vector<v1::Trial>& trials) {
  Table table({{"study", false},           {"ordinal", true},           {"purpose", false},
               {"outcome", false},         {"median_ns", true},         {"ci_low_ns", true},
               {"ci_high_ns", true},       {"samples", true},           {"stop", false},
               {"conditions", false},      {"device_busy_ms", true},    {"energy_mj", true},
               {"energy_ci_low_mj", true}, {"energy_ci_high_mj", true}, {"energy_power_watts", true},
               {"idle_power_watts", true}, {"registers", true},         {"spill_bytes", true},
               {"config", false},          {"message", false}});
  for (const v1::Trial& trial : trials) {
    const v1::Measurement& m = trial.measurement();
    const auto number = [&](double value) { return m.median_ns() > 0 ? fmt::format("{:.1f}", value) : std::string(); };
    const v1::Energy& energy = m.energy();
    const auto of_energy = [&](double value) {
      return energy.millijoules() > 0 ? fmt::format("{:.6g}", value) : std::string();
    };
    table.AddRow({StudyNumber(trial.name()),
                  std::to_string(trial.ordinal()),
                  PurposeText(trial.purpose()),
                  OutcomeText(trial.outcome()),
                  number(m.median_ns()),
                  number(m.ci_low_ns()),
                  number(m.ci_high_ns()),
                  std::to_string(m.samples()),
                  m.median_ns() > 0 ? StopText(m) : "",
                  ConditionsText(m),
                  trial.device_busy_ms() > 0 ? fmt::format("{:.2f}", trial.device_busy_ms()) : "",
                  of_energy(energy.millijoules()),
                  of_energy(energy.ci_low_millijoules()),
                  of_energy(energy.ci_high_millijoules()),
                  of_energy(energy.power_watts()),
                  of_energy(energy.idle_power_watts()),
                  std::to_string(trial.resources().registers()),
                  std::to_string(trial.resources().spill_bytes()),
                  ConfigText(trial.config()),
                  trial.message()});
  }
  return table;
}

// Why a trial is what it is, in a line.
std::string NoteText(const v1::Trial& trial) {
  const std::string message = trial.message().substr(0, trial.message().find('\n'));
  if (!trial.reused_trial().empty()) {
    return fmt::format("measured by {}{}{}", trial.reused_trial(), message.empty() ? "" : ": ", message);
  }
  if (trial.reused()) {
    return fmt::format("the same work as trial {}{}{}", trial.reused_ordinal(), message.empty() ? "" : ": ", message);
  }
  return trial.stopped_early() && message.empty() ? StopText(trial.measurement()) : message;
}

// For people: what fits a screen. All there is goes to CSV and JSON.
Table ShortTrialTable(const std::vector<v1::Trial>& trials, bool has_studies) {
  std::vector<Table::Column> columns = {{"ordinal", true}, {"purpose", false}, {"outcome", false}, {"time", true},
                                        {"spread", true},  {"config", false},  {"why", false}};
  if (has_studies) columns.insert(columns.begin(), {"study", true});
  Table table(std::move(columns));
  for (const v1::Trial& trial : trials) {
    const v1::Measurement& m = trial.measurement();
    std::vector<std::string> cells = {std::to_string(trial.ordinal()),
                                      PurposeText(trial.purpose()),
                                      OutcomeText(trial.outcome()),
                                      m.median_ns() > 0 ? FormatDuration(m.median_ns()) : "",
                                      SpreadText(m),
                                      ConfigText(trial.config()),
                                      NoteText(trial)};
    if (has_studies) cells.insert(cells.begin(), StudyNumber(trial.name()));
    table.AddRow(std::move(cells), trial.outcome() == v1::OUTCOME_OK ? Style::kPlain : Style::kRed);
  }
  return table;
}

// A page in memory at a time, however many trials there are; so does PrintJson.
absl::Status PrintCsv(Session* session, const v1::ListTrialsRequest& request) {
  session->Print(TrialTable({}).ToCsv());
  return ForEachTrial(session, request, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    const std::string text = TrialTable({*trial}).ToCsv();
    session->Print(std::string_view(text).substr(text.find('\n') + 1));  // without the header
    return true;
  });
}

// {"trials": [...]} with a line for each trial.
absl::Status PrintJson(Session* session, const v1::ListTrialsRequest& request) {
  session->Print("{\"trials\": [");
  std::string_view separator = "\n";
  RETURN_IF_ERROR(ForEachTrial(session, request, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
    std::string line = ToJsonLine(*trial);
    line.pop_back();
    session->Print(std::string(separator) + line);
    separator = ",\n";
    return true;
  }));
  session->Print("\n]}\n");
  return absl::OkStatus();
}

// What keeps the match from being exact, in brackets.
std::string MatchReason(const v1::LookupConfigResponse& response) {
  const v1::BestConfig& best = response.best();
  switch (response.match()) {
    case v1::MATCH_STALE:
      return " (measured with another driver or toolkit, or with headers that have changed)";
    case v1::MATCH_STALE_SOURCE:
      return " (measured with another version of the kernel or of its data)";
    case v1::MATCH_NEAREST_SHAPE:
      return fmt::format(" (tuned for {}, distance {:.2f})", best.problem().key(), response.distance());
    case v1::MATCH_SAME_ARCH:
      return fmt::format(" (tuned on {}, of the same architecture)", best.device_class_name());
    case v1::MATCH_DEFAULT:
      return " (nothing was measured)";
    default:
      return "";
  }
}

}  // namespace

std::string DeviceLine(const v1::Device& device) {
  const v1::DeviceClass& c = device.device_class();
  std::string line = Visible(c.display_name());
  if (c.kind() == v1::DEVICE_KIND_CUDA) {
    line += fmt::format("  sm_{}  {} SMs  {} shared/block  {} L2  {} GiB", c.compute_capability(), c.sm_count(),
                        FormatBytes(static_cast<uint64_t>(c.shared_bytes_per_block_optin())),
                        FormatBytes(static_cast<uint64_t>(c.l2_bytes())), c.memory_gib());
    line += fmt::format("  driver {}  toolkit {}", device.driver_version(), device.toolkit_version());
  } else {
    line += fmt::format("  {} cores  {} last-level cache  {} GiB  {}", c.sm_count(),
                        FormatBytes(static_cast<uint64_t>(c.l2_bytes())), c.memory_gib(), c.compiler());
  }
  return line;
}

absl::Status PrintResults(Session* session, const std::string& job_name, const ReportOptions& options) {
  constexpr size_t kTrialsMax = 1'000'000;
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListTrialsRequest request;
  request.set_parent(job_name);
  request.set_order_by_time(!options.all);
  if (format == OutputFormat::kCsv) return PrintCsv(session, request);
  if (format == OutputFormat::kJson) return PrintJson(session, request);
  ASSIGN_OR_RETURN(const std::vector<v1::Trial> trials, FetchTrials(session, request, kTrialsMax));
  v1::GetJobRequest get;
  get.set_name(job_name);
  ASSIGN_OR_RETURN(const v1::GetJobResponse job,
                   Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::GetJob, get));
  if (options.all) {
    session->PrintTable(ShortTrialTable(trials, job.job().studies_size() > 1), format);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  std::map<std::string, std::vector<v1::Trial>> by_study;
  for (const v1::Trial& trial : trials)
    by_study[trial.name().substr(0, trial.name().find("/trials/"))].push_back(trial);
  std::string text = fmt::format("job {}  {}\n", JobNumber(job.job().name()), Visible(job.job().kernel_name()));
  std::vector<std::string> shown;
  for (const v1::Study& study : job.job().studies()) {
    for (const v1::Device& device : devices.devices()) {
      const std::string& id = device.device_class().id();
      if (id != study.device_class_id() || std::find(shown.begin(), shown.end(), id) != shown.end()) continue;
      text += DeviceLine(device) + "\n";
      shown.push_back(id);
    }
  }
  for (const v1::Study& study : job.job().studies())
    text += StudyText(*session, study, job.job().objective(), by_study[study.name()], options.rows);
  text += FailuresText(*session, trials);
  session->Print(text);
  return absl::OkStatus();
}

std::string BestText(const v1::LookupConfigResponse& response, const std::string& question) {
  const v1::BestConfig& best = response.best();
  std::string match = v1::Match_Name(response.match()).substr(std::string_view("MATCH_").size());
  std::string text = fmt::format("{}\nconfig   {}\n", question, ConfigText(best.config()));
  const v1::Measurement& m = best.measurement();
  if (m.median_ns() > 0) {
    text += fmt::format("time     {} {}", FormatDuration(m.median_ns()), SpreadText(m));
    if (m.self_judged()) text += "  self-judged";
    if (best.baseline_ns() > 0) {
      text += fmt::format("  {:.2f}x {}", best.baseline_ns() / m.median_ns(),
                          best.baseline_label().empty() ? "the default config" : best.baseline_label());
    }
    const FlopUnit flop_unit = FlopUnitOf(best.flops(), m.median_ns());
    if (best.flops() > 0) {
      text += fmt::format("  {} {}", RateText(best.flops(), m.median_ns(), flop_unit.size), flop_unit.name);
    }
    if (best.bytes() > 0) text += fmt::format("  {} GB/s", RateText(best.bytes(), m.median_ns(), 1e9));
    if (best.floor_ns() > 0)
      text += fmt::format("  {} of the roofline floor", FloorText(best.floor_ns(), m.median_ns()));
    text += "\n";
  }
  text += "match    " + match + MatchReason(response) + "\n";
  if (best.pinned()) text += "pinned   later jobs do not replace it\n";
  if (!best.note().empty()) text += "note     " + Visible(best.note()) + "\n";
  if (!best.job().empty()) {
    text += fmt::format("from     job {}, {} ago, revision {}\n", JobNumber(best.job()),
                        FormatDuration(static_cast<double>(response.age_ms()) * 1e6), best.revision());
  }
  return text;
}

}  // namespace tunefarm::cli
