// What must hold after a simulation, whatever went wrong.
#include <fmt/core.h>

#include <map>
#include <set>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/farm/control_link.h"
#include "server/jobs/study.h"
#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/simulation.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

void Simulation::Check() {
  std::string page;
  do {
    const auto jobs = store_->jobs()->ListJobs({}, {100, page});
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    for (const JobRow& row : jobs->rows) CheckJob(row);
    page = jobs->next_page_token;
  } while (!page.empty());
  const auto queue = store_->maintenance()->CountQueue();
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(queue->ready_units, 0) << "units of ended jobs are left";
  for (Node& node : nodes_) {
    ASSERT_NE(node.service, nullptr);
    ReadCatalog(&node);
    const auto bests = store_->bests()->LoadBests();
    ASSERT_TRUE(bests.ok());
    for (const BestRow& row : *bests) {
      EXPECT_EQ(node.told[row.program_digest + row.problem_key + row.class_id], row.revision)
          << "a watcher was not told of a change";
    }
    EXPECT_EQ(node.service->catalog().revision(), *store_->bests()->CatalogRevision()) << "a node's catalog is behind";
  }
}

std::string Simulation::WhatIsLeft(int64_t job_id) {
  std::string left;
  const auto row = store_->jobs()->GetJob(job_id);
  if (!row.ok()) return std::string(row.status().message());
  for (const StudyRow& study : row->studies) {
    const auto history = store_->studies()->LoadHistory(study.study_id, 0, 100'000);
    if (!history.ok()) continue;
    for (const UnitRow& unit : history->units) {
      if (unit.state == UnitState::kTold) continue;
      left += fmt::format("unit {} of study {} in state {}, token {}, attempt {}; ", unit.unit_id, study.number,
                          static_cast<int>(unit.state), unit.token, unit.attempt);
    }
  }
  const auto agents = store_->agents()->ListAgents();
  for (const AgentRow& agent : *agents) {
    const auto held = store_->units()->ClaimsOf(agent.agent_id, agent.epoch);
    for (const ClaimedUnit& claimed : *held) {
      if (claimed.job_id == job_id)
        left += fmt::format("unit {} is agent {}'s; ", claimed.unit.unit_id, agent.agent_id);
    }
  }
  for (const Node& node : nodes_) {
    for (const auto& [agent_id, view] : node.service->link().Agents()) {
      left += fmt::format("node {} has agent {} with {} units, silent for {} s; ", &node - nodes_.data(), agent_id,
                          view.units, std::chrono::duration_cast<std::chrono::seconds>(view.silent).count());
    }
  }
  return left;
}

void Simulation::CheckJob(const JobRow& row) {
  SCOPED_TRACE(fmt::format("job {}", row.job_id));
  const std::string name = fmt::format("jobs/{}", row.job_id);
  if (row.state == JobState::kCancelled) {
    EXPECT_EQ(cancelled_.count(name), 1) << "nobody asked for that";
  } else {
    EXPECT_EQ(row.state, JobState::kSucceeded) << row.state_reason;
  }
  for (const Watched& watched : watched_) {
    if (watched.name != name) continue;
    EXPECT_EQ(watched.told, row.state == JobState::kCancelled ? tunefarm::v1::JOB_STATE_CANCELLED
                                                              : tunefarm::v1::JOB_STATE_SUCCEEDED);
  }
  for (const StudyRow& study : row.studies) CheckStudy(row, study);
  outcome_.digest += fmt::format("{}:{};", row.job_id, static_cast<int>(row.state));
}

void Simulation::CheckStudy(const JobRow& row, const StudyRow& study) {
  SCOPED_TRACE(fmt::format("study {}", study.number));
  const auto history = store_->studies()->LoadHistory(study.study_id, 0, 100'000);
  ASSERT_TRUE(history.ok()) << history.status();
  std::map<int64_t, const UnitRow*> units;
  for (const UnitRow& unit : history->units) units[unit.unit_id] = &unit;
  std::set<int64_t> proposed, told;
  int64_t sequence = 0, next_ordinal = 0;
  for (const StudyEvent& event : history->events) {
    EXPECT_EQ(event.sequence, ++sequence) << "the decision log has a gap";
    const auto unit = units.find(event.unit_id);
    if (event.kind == StudyEvent::Kind::kPropose) {
      EXPECT_TRUE(proposed.insert(event.unit_id).second) << "unit " << event.unit_id << " was proposed twice";
      if (unit == units.end()) continue;  // removed with its job
      EXPECT_TRUE(unit->second->first_ordinal == next_ordinal || row.state == JobState::kCancelled)
          << "ordinals have a gap before " << unit->second->first_ordinal;
      next_ordinal = unit->second->first_ordinal + unit->second->trial_count;
    } else {
      EXPECT_EQ(proposed.count(event.unit_id), 1) << "unit " << event.unit_id << " was told before it was proposed";
      EXPECT_TRUE(told.insert(event.unit_id).second) << "unit " << event.unit_id << " was told twice";
    }
  }
  if (row.state != JobState::kSucceeded) return;
  EXPECT_EQ(told, proposed) << "units are left of a study that has ended";
  TrialQuery query;
  query.job_id = row.job_id;
  query.study_number = study.number;
  query.page.page_size = 1000;
  const auto trials = store_->trials()->ListTrials(query);
  ASSERT_TRUE(trials.ok());
  tunefarm::v1::Study summary;
  ASSERT_TRUE(summary.ParseFromString(study.detail));
  const bool is_whole = summary.search_ended_because().find("without a better one") == std::string::npos;
  if (is_whole) {
    EXPECT_EQ(static_cast<int64_t>(trials->rows.size()), next_ordinal)
        << "an ordinal has no outcome; the search ended because of: " << summary.search_ended_because();
  }
  std::set<std::string> searched;
  for (const TrialRow& trial : trials->rows) {
    EXPECT_NE(trial.outcome, tunefarm::v1::OUTCOME_UNSPECIFIED);
    if (trial.purpose != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
    EXPECT_TRUE(searched.insert(trial.config).second) << trial.config << " was tried twice";
    const bool fails = Fails(trial.config, study.problem_key);
    EXPECT_EQ(trial.outcome, fails ? tunefarm::v1::OUTCOME_WRONG_RESULT : tunefarm::v1::OUTCOME_OK) << trial.config;
    if (!fails) {
      EXPECT_EQ(trial.median_ns, TrueTime(trial.config, study.problem_key)) << trial.config;
    }
  }
  EXPECT_EQ(summary.progress().done(), static_cast<int64_t>(searched.size())) << "as its last step has counted them";
  CheckProposals(row, study, *history);
  CheckFinals(*history);
  CheckBest(row, study);
}

// What a final decides rests on times of one device.
void Simulation::CheckFinals(const StudyHistory& history) {
  std::map<int64_t, Trial> trials;
  for (const TrialRow& row : history.trials) ASSERT_TRUE(trials[row.ordinal].ParseFromString(row.detail));
  const UnitRow* last = nullptr;
  for (const UnitRow& unit : history.units) {
    if (unit.kind != UnitKind::kFinals) continue;
    if (last == nullptr || last->first_ordinal < unit.first_ordinal) last = &unit;
    std::set<std::string> measured_on;
    for (int64_t ordinal = unit.first_ordinal; ordinal < unit.first_ordinal + unit.trial_count; ++ordinal) {
      const Trial& trial = trials[ordinal];
      if (trial.outcome() != tunefarm::v1::OUTCOME_LOST) measured_on.insert(trial.device_uuid());
    }
    EXPECT_LE(measured_on.size(), 1u) << "the final in unit " << unit.unit_id << " was measured on several devices";
  }
  if (last == nullptr) return;
  for (int64_t ordinal = last->first_ordinal; ordinal < last->first_ordinal + last->trial_count; ++ordinal) {
    EXPECT_EQ(trials[ordinal].device_uuid(), trials[last->first_ordinal].device_uuid())
        << "the last final in unit " << last->unit_id << " was not measured again";
  }
}

// The strategy, asked again with the same seed and told the same, proposes the same.
void Simulation::CheckProposals(const JobRow& row, const StudyRow& study, const StudyHistory& history) {
  tunefarm::v1::Job spec;
  tunefarm::v1::Problem problem;
  ASSERT_TRUE(spec.ParseFromString(row.spec));
  ASSERT_TRUE(problem.ParseFromString(study.problem));
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const auto resolved = (*plan)->ResolveProblem(problem);
  ASSERT_TRUE(resolved.ok());
  const auto device_class = DeviceClass::FromProto(HostDevice().device_class());
  ASSERT_TRUE(device_class.ok());
  const auto space = (*plan)->BuildSpace(*resolved, *device_class);
  ASSERT_TRUE(space.ok());
  auto strategy = MakeStudyStrategy(spec, *space);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  std::map<int64_t, const UnitRow*> units;
  for (const UnitRow& unit : history.units) units[unit.unit_id] = &unit;
  std::map<int64_t, const TrialRow*> trials;
  for (const TrialRow& trial : history.trials) trials[trial.ordinal] = &trial;
  for (const StudyEvent& event : history.events) {
    const UnitRow& unit = *units.at(event.unit_id);
    if (unit.kind != UnitKind::kSearch) continue;
    if (event.kind == StudyEvent::Kind::kPropose) {
      wire::Assignment payload;
      ASSERT_TRUE(payload.ParseFromString(unit.payload));
      const auto asked = (*strategy)->Ask(unit.trial_count);
      ASSERT_TRUE(asked.ok()) << asked.status();
      ASSERT_EQ(static_cast<int>(asked->size()), unit.trial_count) << "at event " << event.sequence;
      for (int i = 0; i < unit.trial_count; ++i) {
        EXPECT_EQ((*asked)[static_cast<size_t>(i)].ToText(), payload.trials(i).config())
            << "at event " << event.sequence;
      }
      continue;
    }
    for (int64_t ordinal = unit.first_ordinal; ordinal < unit.first_ordinal + unit.trial_count; ++ordinal) {
      const auto found = trials.find(ordinal);
      if (found == trials.end()) continue;
      Trial trial;
      ASSERT_TRUE(trial.ParseFromString(found->second->detail));
      const auto config = (*plan)->ParseConfig(trial.config());
      ASSERT_TRUE(config.ok());
      (*strategy)->Tell({static_cast<uint64_t>(ordinal), *config,
                         HasTime(trial) ? ToldOutcome::kOk : ToldOutcome::kFailed,
                         HasTime(trial) ? trial.measurement().median_ns() : 0});
    }
  }
}

// The best is the fastest of all that were judged in a final, whichever job found it.
void Simulation::CheckBest(const JobRow& row, const StudyRow& study) {
  const auto plan = KernelPlan::Compile(TestKernel());
  const auto best = store_->bests()->FindBest((*plan)->program_digest(), study.problem_key, study.class_id);
  ASSERT_TRUE(best.ok());
  TrialQuery query;
  query.job_id = row.job_id;
  query.study_number = study.number;
  query.purpose = tunefarm::v1::TRIAL_PURPOSE_FINALIST;
  query.outcomes = {tunefarm::v1::OUTCOME_OK};
  query.order_by_time = true;
  query.page.page_size = 1;
  const auto fastest = store_->trials()->ListTrials(query);
  ASSERT_TRUE(fastest.ok());
  if (fastest->rows.empty()) return;
  ASSERT_TRUE(best->has_value()) << "a final had a winner, and nothing was promoted";
  EXPECT_LE((*best)->median_ns, fastest->rows[0].median_ns * 1.011)
      << "a finalist of job " << row.job_id << " is faster than the best";
  const auto trial = store_->trials()->GetTrial(
      (*best)->job_id, 1 + static_cast<int>((*best)->study_id - study.study_id) + study.number - 1, (*best)->ordinal);
  if ((*best)->job_id == row.job_id) {
    ASSERT_TRUE(trial.ok()) << trial.status();
    EXPECT_EQ(trial->purpose, tunefarm::v1::TRIAL_PURPOSE_FINALIST);
    EXPECT_EQ(trial->outcome, tunefarm::v1::OUTCOME_OK);
  }
}

}  // namespace tunefarm
