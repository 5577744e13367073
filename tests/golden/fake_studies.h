// What the fake daemon says of the trials of a study: the answers of server/results, made from its trials.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/cli/studies/study_trials.h"
#include "server/base/check.h"
#include "server/results/study_answers.h"
#include "server/results/study_data.h"
#include "tests/golden/fake_data.h"
#include "tests/golden/fake_status.h"
#include "tunefarm/v1/study_service.grpc.pb.h"

namespace tunefarm::golden {

class FakeStudies final : public v1::StudyService::Service {
  // "jobs/18/studies/2"
  static v1::Study StudyNamed(const std::string& name) {
    const v1::Job job = JobNumbered(std::stoi(name.substr(5)));
    for (const v1::Study& study : job.studies()) {
      if (study.name() == name) return study;
    }
    TUNEFARM_CHECK(false);
    return {};
  }
  static std::vector<v1::Trial> TrialsOfStudy(const std::string& name) {
    if (name.ends_with("/studies/2")) return {};
    return TrialsOf(std::stoi(name.substr(5)));
  }

  template <typename Answer>
  static auto WithView(const v1::Study& study, const Answer& answer) {
    StudyData data;
    data.BeginPass();
    for (const v1::Trial& trial : TrialsOfStudy(study.name())) {
      TrialColumns row;
      row.ordinal = trial.ordinal();
      row.outcome = trial.outcome();
      row.purpose = trial.purpose();
      row.config = cli::ConfigOf(trial.config())->ToText();
      row.median_ns = trial.measurement().median_ns();
      row.ended_at_ms = trial.ended_at_ms();
      row.detail = trial.SerializeAsString();
      TUNEFARM_CHECK_OK(data.Add(row));
    }
    data.Settle();
    StudyView view;
    view.data = &data;
    view.revision = 1;
    view.stored = static_cast<int64_t>(data.columns().size());
    view.name = study.name();
    view.problem_key = study.problem().key();
    view.device_class_name = study.device_class_name();
    const v1::Job job = JobNumbered(std::stoi(study.name().substr(5)));
    view.job_started_ms = job.studies_size() == 1 ? job.started_at_ms() : 0;
    return *answer(view);
  }

  grpc::Status GetStudyChart(grpc::ServerContext*, const v1::GetStudyChartRequest* request,
                             v1::GetStudyChartResponse* response) override {
    const v1::Study study = StudyNamed(request->study());
    *response = WithView(study, [&](const StudyView& view) { return ChartAnswer(view, *request); });
    // The fake's baselines stand in its studies, not among its trials.
    response->clear_levels();
    const auto add = [&](const std::string& label, double ns) {
      if (ns <= 0) return;
      v1::ChartLevel* level = response->add_levels();
      level->set_label(label);
      level->set_time_ns(ns);
    };
    add(study.baseline().config().values().empty() ? "baseline" : "default config",
        study.baseline().measurement().median_ns());
    add("roofline floor", study.floor_ns());
    double final_ns = 0;
    for (const v1::Trial& trial : TrialsOfStudy(study.name())) {
      const double ns = trial.measurement().median_ns();
      if (trial.purpose() == v1::TRIAL_PURPOSE_FINALIST && (final_ns == 0 || ns < final_ns)) final_ns = ns;
    }
    add("final", final_ns);
    return grpc::Status::OK;
  }
  grpc::Status AnalyzeStudy(grpc::ServerContext*, const v1::AnalyzeStudyRequest* request,
                            v1::AnalyzeStudyResponse* response) override {
    *response =
        WithView(StudyNamed(request->study()), [&](const StudyView& view) { return AnalysisAnswer(view, *request); });
    return grpc::Status::OK;
  }
};

}  // namespace tunefarm::golden
