#include "client/cli/options/starting_configs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/cli/studies/recorded_source.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/interchange/bests_file.h"
#include "server/interchange/gunzip.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm::cli {
namespace {

using Rows = std::vector<std::pair<Config, Config>>;

std::string Count(size_t count) { return FormatCount(static_cast<int64_t>(count)); }
std::string Count(size_t count, std::string_view one) { return FormatCount(static_cast<int64_t>(count), one); }

// The dims of a problem with defaults in the place of what it leaves out.
Config DimsOf(const v1::Problem& problem, const v1::Kernel& kernel) {
  Config dims;
  const auto set = [&dims](const std::string& name, const v1::Value& proto) {
    if (const auto value = definition::FromProto(proto); value.ok()) dims.Set(name, *value);
  };
  for (const v1::Dim& dim : kernel.dims()) {
    if (dim.has_default_value()) set(dim.name(), dim.default_value());
  }
  for (const auto& [name, value] : problem.dims()) set(name, value);
  return dims;
}

absl::StatusOr<Rows> RowsOfBests(const Session& session, std::string text, const std::string& path,
                                 const std::string& kernel) {
  ASSIGN_OR_RETURN(interchange::BestsFile file, interchange::ReadBestsFile(std::move(text), path));
  std::vector<interchange::ExportedBest> bests;
  std::set<std::string> kernels;
  size_t left_out = 0;
  for (interchange::ExportedBest& best : file.bests) {
    kernels.insert(best.best.kernel_name());
    if (best.best.kernel_name() != kernel) continue;
    if (best.is_plain()) {
      bests.push_back(std::move(best));
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) {
    session.Note(fmt::format("{}: {} of '{}' {}.", path, Count(left_out, "best"), kernel,
                             left_out == 1
                                 ? "is left out: it is of a pinned problem, or of a problem with input seeds of its own"
                                 : "are left out: they are of pinned problems, or of problems with input seeds of "
                                   "their own"));
  }
  if (bests.empty()) {
    std::string known;
    for (const std::string& name : kernels) known += (known.empty() ? "" : ", ") + name;
    return InvalidArgument("{} has no usable best of kernel '{}'; {}", path, kernel,
                           known.empty() ? "it has none of any kernel" : "it has bests of " + known);
  }
  interchange::SortBests(&bests);
  Rows rows;
  for (interchange::ExportedBest& best : bests) rows.emplace_back(std::move(best.dims), std::move(best.config));
  return rows;
}

absl::StatusOr<Rows> RowsOfResults(const Session& session, std::string text, const std::string& path,
                                   const interchange::RecordedObjective& objective) {
  ASSIGN_OR_RETURN(interchange::RecordedFile file, interchange::ReadRecordedFile(std::move(text), path, objective));
  for (const std::string& note : file.notes) session.Note(path + ": " + note);
  std::vector<interchange::RecordedRow>& results = file.rows;
  results.erase(std::remove_if(results.begin(), results.end(),
                               [](const interchange::RecordedRow& row) { return !row.objective.has_value(); }),
                results.end());
  if (results.empty()) return InvalidArgument("no config in {} has a time", path);
  std::stable_sort(results.begin(), results.end(),
                   [&file](const interchange::RecordedRow& a, const interchange::RecordedRow& b) {
                     return *file.Minimised(a) < *file.Minimised(b);
                   });
  Rows rows;
  for (interchange::RecordedRow& row : results) rows.emplace_back(Config(), std::move(row.config));
  return rows;
}

// Leaves the configs that the kernel takes, as it takes them.
absl::Status KeepFitting(const Session& session, const std::string& path, const KernelPlan& plan, Rows* rows) {
  Rows fitting;
  absl::Status first;
  for (auto& [dims, config] : *rows) {
    absl::StatusOr<Config> parsed = plan.ParseConfig(plan.ToProto(config));
    if (parsed.ok()) {
      fitting.emplace_back(std::move(dims), *std::move(parsed));
    } else if (first.ok()) {
      first = parsed.status();
    }
  }
  if (fitting.empty()) {
    return InvalidArgument("no config in {} fits kernel '{}'; the first of {}: {}", path, plan.display_name(),
                           Count(rows->size()), MessageOf(first));
  }
  if (!first.ok()) {
    const size_t left_out = rows->size() - fitting.size();
    session.Note(fmt::format("{}: {} of {} {} not fit kernel '{}' and {} left out; the first: {}", path,
                             Count(left_out), Count(rows->size(), "config"), left_out == 1 ? "does" : "do",
                             plan.display_name(), left_out == 1 ? "is" : "are", MessageOf(first)));
  }
  *rows = std::move(fitting);
  return absl::OkStatus();
}

}  // namespace

std::vector<v1::Problem> StartingConfigs::Problems() const {
  std::vector<v1::Problem> problems;
  std::set<std::string> seen;
  for (const auto& [dims, config] : rows) {
    if (!seen.insert(dims.ToText()).second) continue;
    v1::Problem problem;
    for (const auto& [dim, value] : dims) (*problem.mutable_dims())[dim] = definition::ToProto(value);
    problems.push_back(std::move(problem));
  }
  return problems;
}

absl::StatusOr<StartingConfigs> ReadStartingConfigs(const Session& session, const std::string& path,
                                                    const interchange::RecordedObjective& objective,
                                                    const KernelPlan& plan) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, interchange::kRecordedBytesMax));
  ASSIGN_OR_RETURN(std::string text, interchange::PlainText(std::move(bytes), path, interchange::kRecordedBytesMax));
  StartingConfigs starts;
  starts.file = path;
  starts.is_of_bests = interchange::IsBestsFile(text);
  if (starts.is_of_bests) {
    ASSIGN_OR_RETURN(starts.rows, RowsOfBests(session, std::move(text), path, plan.display_name()));
  } else {
    ASSIGN_OR_RETURN(starts.rows, RowsOfResults(session, std::move(text), path, objective));
  }
  RETURN_IF_ERROR(KeepFitting(session, path, plan, &starts.rows));
  return starts;
}

void AddStartingConfigs(const Session& session, const StartingConfigs& starts, const KernelPlan& plan, v1::Job* job) {
  std::map<std::string, std::vector<const Config*>> of_problem;
  std::vector<const Config*> any;
  std::set<std::string> seen_of_problem, seen;
  for (const auto& [dims, config] : starts.rows) {
    const std::string text = config.ToText();
    if (any.size() < kStartsPerProblemMax && seen.insert(text).second) any.push_back(&config);
    if (!starts.is_of_bests) continue;
    const std::string problem = dims.ToText();
    std::vector<const Config*>& own = of_problem[problem];
    // Bests of several device classes may be the same config.
    const bool is_new = seen_of_problem.insert(problem + " " + text).second;
    if (is_new && own.size() < kStartsPerProblemMax) own.push_back(&config);
  }
  size_t with_own = 0;
  const auto problems = static_cast<size_t>(job->problems_size());
  for (int i = 0; i < job->problems_size(); ++i) {
    const auto own = of_problem.find(DimsOf(job->problems(i), plan.kernel()).ToText());
    if (own != of_problem.end()) ++with_own;
    for (const Config* const config : own != of_problem.end() ? own->second : any) {
      v1::StartingConfig* const starting = job->add_starting_configs();
      starting->set_problem_index(i);
      *starting->mutable_config() = plan.ToProto(*config);
    }
  }
  std::string text = starts.file + ": ";
  if (!starts.is_of_bests) {
    text += fmt::format("the fastest {} of {} {} tried first", Count(any.size()),
                        FormatCount(static_cast<int64_t>(starts.rows.size()), "config that fits", "configs that fit"),
                        any.size() == 1 ? "is" : "are");
  } else {
    if (with_own > 0) {
      text += Count(with_own, "problem") + " with starting configs of " + (with_own == 1 ? "its own" : "their own");
    }
    if (with_own > 0 && with_own < problems) text += ", ";
    if (with_own < problems) {
      text += fmt::format("{} with {} of other problems", Count(problems - with_own, "problem"),
                          Count(any.size(), "starting config"));
    }
  }
  session.Note(text + ".");
}

}  // namespace tunefarm::cli
