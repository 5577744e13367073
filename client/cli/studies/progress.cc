#include "client/cli/studies/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "client/cli/studies/memory_text.h"
#include "server/base/format.h"

namespace tunefarm::cli {

std::string OutcomeText(v1::Outcome outcome) {
  const std::string name = v1::Outcome_Name(outcome);
  constexpr std::string_view kPrefix = "OUTCOME_";
  return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size())
                                     : fmt::format("OUTCOME {}", static_cast<int>(outcome));
}

std::string FailureText(const v1::Progress& progress) {
  std::vector<v1::OutcomeCount> counts;
  for (const v1::OutcomeCount& count : progress.outcomes()) {
    if (count.outcome() != v1::OUTCOME_OK && count.count() > 0) counts.push_back(count);
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.count() > b.count(); });
  std::string text;
  for (const v1::OutcomeCount& count : counts) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", FormatCount(count.count()), OutcomeText(count.outcome()));
  }
  return text;
}

std::string OutcomesText(const v1::Progress& progress) {
  std::string text;
  for (const v1::OutcomeCount& count : progress.outcomes()) {
    if (count.outcome() == v1::OUTCOME_OK && count.count() > 0) text = FormatCount(count.count()) + " OK";
  }
  const std::string failures = FailureText(progress);
  if (!text.empty() && !failures.empty()) text += ", ";
  text += failures;
  return text.empty() ? "none" : text;
}

void Progress::Track(const v1::Study& study) {
  Tracked& best = studies_[study.name()];
  if (study.incumbent().measurement().median_ns() > 0) best.median_ns = study.incumbent().measurement().median_ns();
  if (study.baseline().measurement().median_ns() > 0) best.baseline_ns = study.baseline().measurement().median_ns();
  best.has_ended = study.state() == v1::STUDY_STATE_ENDED;
  TellMemory(study);
}

void Progress::TellMemory(const v1::Study& study) {
  // Of many problems the first few: jobs show has them all.
  constexpr size_t kToldMax = 8;
  const std::string of = studies_total_ > 1 ? study.problem().key() + " " : "";
  const auto tell = [&](const std::string& what, const std::string& text) {
    if (text.empty() || told_.size() >= kToldMax || !told_.insert(what + study.name()).second) return;
    Note(text);
  };
  if (const std::string priors = PriorsText(study); !priors.empty()) {
    tell("begin ", fmt::format("{}starts from earlier results: {}", of, priors));
  }
  if (study.state() == v1::STUDY_STATE_SEARCHING || study.state() == v1::STUDY_STATE_UNSPECIFIED) return;
  if (const std::string taken = TakenOverText(study); !taken.empty()) {
    tell("end ", of.empty() ? taken : fmt::format("{}: {}", study.problem().key(), taken));
  }
  if (const std::string idle = WithoutEffectText(study); !idle.empty()) tell("idle ", of + idle);
}

void Progress::Note(const std::string& text) {
  if (line_is_open_) std::fputs("\r\x1b[K", session_->err);
  line_is_open_ = false;
  session_->Note(text);
}

void Progress::OnEvent(const v1::JobEvent& event) {
  if (event.has_progress()) progress_ = event.progress();
  bool force = false;
  switch (event.kind_case()) {
    case v1::JobEvent::kJob:
      progress_ = event.job().progress();
      if (!done_before_.has_value()) {
        done_before_ = progress_.done();
        const int64_t started_at_ms = event.job().started_at_ms();
        if (started_at_ms > 0) ran_before_ms_ = std::max<int64_t>(0, session_->clock->WallMs() - started_at_ms);
      }
      studies_total_ = event.job().studies_size();
      for (const v1::Study& study : event.job().studies()) Track(study);
      if (event.job().state_reason() != held_up_by_) {
        held_up_by_ = event.job().state_reason();
        if (!held_up_by_.empty()) {
          Note(held_up_by_);
        } else if (event.job().state() == v1::JOB_STATE_QUEUED || event.job().state() == v1::JOB_STATE_RUNNING) {
          Note("the job continues");
        }
      }
      force = last_tenth_ < 0;
      break;
    case v1::JobEvent::kStudyChanged:
      Track(event.study_changed());
      break;
    case v1::JobEvent::kTrialEnded: {
      const v1::Trial& trial = event.trial_ended();
      const double median = trial.measurement().median_ns();
      if (trial.outcome() != v1::OUTCOME_OK || median <= 0) break;
      Tracked& best = studies_[event.study()];
      if (trial.purpose() == v1::TRIAL_PURPOSE_BASELINE) {
        best.baseline_ns = median;
      } else if (trial.purpose() == v1::TRIAL_PURPOSE_FINALIST) {
        break;  // who wins is told at its end
      } else if (best.median_ns <= 0 || median < best.median_ns) {
        best.median_ns = median;
      }
      break;
    }
    case v1::JobEvent::kMessage:
      Note(event.message());
      break;
    case v1::JobEvent::KIND_NOT_SET:
      break;
  }
  Draw(force);
}

std::string Progress::PaceText() const {
  const Duration watched = session_->clock->Now() - begun_;
  const Duration ran = watched + std::chrono::milliseconds(ran_before_ms_);
  if (ran < std::chrono::seconds(1)) return "";
  std::string text = FormatDuration(static_cast<double>(ran / std::chrono::seconds(1)) * 1e9);
  const double seconds = std::chrono::duration<double>(watched).count();
  const int64_t done = progress_.done() - done_before_.value_or(0);
  if (done > 0 && seconds >= 1) text += fmt::format("  {:.3g} trials/s", static_cast<double>(done) / seconds);
  return text;
}

std::string Progress::Line() const {
  const int64_t total = progress_.total();
  const int64_t done = progress_.done();
  std::string line = fmt::format("[{}/{}{}]", done, progress_.total_is_estimate() ? "~" : "", total);
  if (total > 0) line += fmt::format(" {:3}%", std::min<int64_t>(100, done * 100 / total));
  if (const std::string pace = PaceText(); !pace.empty()) line += "  " + pace;
  // With several problems there is no one best time: how many are through, and how many have a best, say how far it is.
  if (studies_total_ <= 1 && !studies_.empty()) {
    const Tracked& best = studies_.begin()->second;
    if (best.median_ns > 0) line += "  best " + FormatDuration(best.median_ns);
    if (best.median_ns > 0 && best.baseline_ns > 0)
      line += fmt::format(" ({:.2f}x baseline)", best.baseline_ns / best.median_ns);
  } else if (studies_total_ > 1) {
    const auto count = [this](auto is_counted) { return std::count_if(studies_.begin(), studies_.end(), is_counted); };
    line +=
        fmt::format("  {}/{} problems done, {} have a best", count([](const auto& s) { return s.second.has_ended; }),
                    studies_total_, count([](const auto& s) { return s.second.median_ns > 0; }));
  }
  if (progress_.finals_total() > 0)
    line += fmt::format("  final {}/{}", progress_.finals_done(), progress_.finals_total());
  if (progress_.eta_ms() > 0) line += "  eta " + FormatDuration(static_cast<double>(progress_.eta_ms()) * 1e6);
  // Last, since it is what a narrow terminal cuts off.
  if (const std::string failures = FailureText(progress_); !failures.empty()) line += "  " + failures;
  return line;
}

void Progress::Draw(bool force) {
  if (session_->quiet) return;
  if (session_->err_is_terminal) {
    // A line that wraps could not be drawn over.
    std::fprintf(session_->err, "\r%s\x1b[K", CutTo(TerminalColumns(session_->err), Line()).c_str());
    std::fflush(session_->err);
    line_is_open_ = true;
    return;
  }
  const int tenth = progress_.total() > 0 ? static_cast<int>(progress_.done() * 10 / progress_.total()) : 0;
  if (!force && tenth <= last_tenth_) return;
  last_tenth_ = tenth;
  std::fprintf(session_->err, "%s\n", Line().c_str());
  std::fflush(session_->err);
}

void Progress::Finish() {
  if (line_is_open_) std::fputc('\n', session_->err);
  line_is_open_ = false;
}

}  // namespace tunefarm::cli
