#include "client/cli/bests/best_rows.h"

#include <fmt/core.h>

#include <algorithm>

#include "client/cli/options/problem_options.h"
#include "client/cli/studies/job_names.h"
#include "server/base/clock.h"
#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

std::string TimeOfBest(const v1::BestConfig& best, bool is_csv) {
  const double ns = best.measurement().median_ns();
  if (ns <= 0) return "";
  return is_csv ? fmt::format("{}", ns) : FormatDuration(ns);
}

std::string SpeedupOfBest(const v1::BestConfig& best, bool is_csv) {
  const double ns = best.measurement().median_ns();
  if (ns <= 0 || best.baseline_ns() <= 0) return "";
  return is_csv ? fmt::format("{:.4g}", best.baseline_ns() / ns) : fmt::format("{:.2f}x", best.baseline_ns() / ns);
}

std::string WordOf(v1::BestConfigChangeKind kind) {
  std::string word = v1::BestConfigChangeKind_Name(kind).substr(std::string_view("BEST_CONFIG_CHANGE_KIND_").size());
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return word;
}

}  // namespace

Table BestsTable(const v1::ListBestConfigsResponse& bests, bool is_csv) {
  Table table({{"kernel", false},
               {"problem", false},
               {"device", false},
               {is_csv ? "time_ns" : "time", true},
               {"speedup", true},
               {"pinned", false},
               {"revision", true},
               {"job", true},
               {"note", false},
               {"config", false}});
  for (const v1::BestConfig& best : bests.bests()) {
    table.AddRow({best.kernel_name(), best.problem().key(), best.device_class_name(), TimeOfBest(best, is_csv),
                  SpeedupOfBest(best, is_csv), best.pinned() ? "yes" : "", std::to_string(best.revision()),
                  JobNumber(best.job()), best.note(), ConfigText(best.config())});
  }
  return table;
}

Table BestChangesTable(const v1::ListBestConfigChangesResponse& changes, bool is_csv) {
  Table table({{"revision", true},
               {is_csv ? "changed_at_ms" : "when", false},
               {"change", false},
               {"kernel", false},
               {"problem", false},
               {"device", false},
               {is_csv ? "time_ns" : "time", true},
               {"job", true},
               {"config", false},
               {"because", false}});
  const int64_t now_ms = Clock::Real()->WallMs();
  for (const v1::BestConfigChange& change : changes.changes()) {
    const v1::BestConfig& best = change.best();
    const bool is_note = change.kind() == v1::BEST_CONFIG_CHANGE_KIND_ANNOTATED;
    const std::string when = is_csv
                                 ? std::to_string(change.changed_at_ms())
                                 : FormatDuration(static_cast<double>(now_ms - change.changed_at_ms()) * 1e6) + " ago";
    table.AddRow({std::to_string(change.revision()), when, WordOf(change.kind()), best.kernel_name(),
                  best.problem().key(), best.device_class_name(), TimeOfBest(best, is_csv), JobNumber(best.job()),
                  ConfigText(best.config()), is_note ? best.note() : change.reason()});
  }
  return table;
}

std::string BestLine(const v1::BestConfig& best) {
  std::string line = fmt::format("{}  {}  on  {}  {}", Visible(best.kernel_name()), Visible(best.problem().key()),
                                 Visible(best.device_class_name()), ConfigText(best.config()));
  if (const std::string time = TimeOfBest(best, false); !time.empty()) line += "  " + time;
  if (best.pinned()) line += "  pinned";
  if (!best.note().empty()) line += "  note: " + Visible(best.note());
  return line;
}

std::string ChangedBestText(const std::string& word, const v1::BestConfig& best, bool is_there) {
  std::string text =
      fmt::format("{}  {}  {}  on  {}\nconfig   {}\n", word, Visible(best.kernel_name()), Visible(best.problem().key()),
                  Visible(best.device_class_name()), ConfigText(best.config()));
  if (const std::string time = TimeOfBest(best, false); !time.empty()) {
    const std::string speedup = SpeedupOfBest(best, false);
    text += fmt::format("time     {}{}\n", time, speedup.empty() ? "" : "  " + speedup);
  }
  if (best.pinned() && is_there) text += "pinned   later jobs do not replace it\n";
  if (!best.note().empty()) text += "note     " + Visible(best.note()) + "\n";
  if (!best.job().empty())
    text += fmt::format("from     job {}, revision {}\n", JobNumber(best.job()), best.revision());
  return text;
}

}  // namespace tunefarm::cli
