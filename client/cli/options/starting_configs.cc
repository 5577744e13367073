#include "client/cli/options/starting_configs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/cli/studies/recorded_source.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/interchange/bests_file.h"

namespace tunefarm::cli {
namespace {

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

}  // namespace

std::vector<v1::Problem> RecordedStarts::Problems() const {
  std::vector<v1::Problem> problems;
  std::set<std::string> seen;
  for (const auto& [dims, config] : rows) {
    if (dims.empty() || !seen.insert(dims.ToText()).second) continue;
    v1::Problem problem;
    for (const auto& [dim, value] : dims) (*problem.mutable_dims())[dim] = definition::ToProto(value);
    problems.push_back(std::move(problem));
  }
  return problems;
}

absl::StatusOr<RecordedStarts> FetchStarts(Session* session, const std::string& recording) {
  ASSIGN_OR_RETURN(RecordedSource source, FromRecording(session, recording));
  std::vector<RecordedTrial>& trials = source.trials;
  trials.erase(std::remove_if(trials.begin(), trials.end(),
                              [](const RecordedTrial& trial) { return trial.result.outcome != ToldOutcome::kOk; }),
               trials.end());
  if (trials.empty()) return NotFound("no config of recording {} has a time", source.name);
  RecordedStarts starts;
  starts.name = source.name;
  const bool has_dims = !interchange::SplitRecorded(trials[0].config).first.empty();
  if (!has_dims) {
    std::stable_sort(trials.begin(), trials.end(), [](const RecordedTrial& a, const RecordedTrial& b) {
      return a.result.objective_ns < b.result.objective_ns;
    });
    // No problem gets more of them.
    if (trials.size() > kForeignStartsMax) trials.resize(kForeignStartsMax);
  }
  for (const RecordedTrial& trial : trials) starts.rows.push_back(interchange::SplitRecorded(trial.config));
  return starts;
}

void AddStartingConfigs(const Session& session, const RecordedStarts& starts, const v1::Kernel& kernel, v1::Job* job) {
  std::map<std::string, std::vector<const Config*>> of_problem;
  std::vector<const Config*> foreign;
  std::set<std::string> seen;
  for (const auto& [dims, config] : starts.rows) {
    if (!dims.empty()) of_problem[dims.ToText()].push_back(&config);
    if (foreign.size() < kForeignStartsMax && seen.insert(config.ToText()).second) foreign.push_back(&config);
  }
  int with_own = 0;
  for (int i = 0; i < job->problems_size(); ++i) {
    const auto own = of_problem.find(DimsOf(job->problems(i), kernel).ToText());
    if (own != of_problem.end()) ++with_own;
    for (const Config* const config : own != of_problem.end() ? own->second : foreign) {
      v1::StartingConfig* const starting = job->add_starting_configs();
      starting->set_problem_index(i);
      for (const auto& [name, value] : *config) {
        (*starting->mutable_config()->mutable_values())[name] = definition::ToProto(value);
      }
    }
  }
  const int others = job->problems_size() - with_own;
  const auto problems = [](int count) { return fmt::format("{} problem{}", count, count == 1 ? "" : "s"); };
  std::string text = fmt::format("From recording {} first: ", starts.name);
  if (with_own > 0)
    text += problems(with_own) + (with_own == 1 ? " with configs of its own" : " with configs of their own");
  if (with_own > 0 && others > 0) text += ", ";
  if (others > 0) text += fmt::format("{} with {} configs of others", problems(others), foreign.size());
  session.Note(text);
}

}  // namespace tunefarm::cli
