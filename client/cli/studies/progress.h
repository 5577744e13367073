// The live line of a job: one line rewritten on a terminal, a line per 10 % elsewhere. Fed by events, prints to stderr.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "client/cli/session.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

class Progress {
 public:
  explicit Progress(const Session* session) : session_(session), begun_(session->clock->Now()) {}

  void OnEvent(const v1::JobEvent& event);
  // Leaves the last state on the screen and goes to a fresh line.
  void Finish();

  // The line for a state, without control characters: what the tests look at.
  std::string Line() const;

 private:
  // What is known of one study.
  struct Tracked {
    double median_ns = 0;
    double baseline_ns = 0;
    bool has_ended = false;
  };
  void Track(const v1::Study& study);
  // What the study has from earlier jobs, once: when it begins, and when its search has ended.
  void TellMemory(const v1::Study& study);
  void Note(const std::string& text);
  void Draw(bool force);
  // "12.0 s  3.4 trials/s": since the job began, and since it is watched; empty in the first second.
  std::string PaceText() const;

  const Session* session_;
  const MonotonicTime begun_;           // of watching
  int64_t ran_before_ms_ = 0;           // how long the job ran before that
  std::optional<int64_t> done_before_;  // its trials at the first snapshot
  v1::Progress progress_;
  std::map<std::string, Tracked> studies_;  // by study name
  std::string held_up_by_;                  // the state's reason that was told last
  std::set<std::string> told_;              // of which priors and taken over results were told
  int studies_total_ = 0;
  int last_tenth_ = -1;
  bool line_is_open_ = false;
};

// "3 WRONG_RESULT, 1 RUN_CRASH": all but OK, most frequent first; empty if there are none.
std::string FailureText(const v1::Progress& progress);

// "198 OK, 3 WRONG_RESULT": OK first; "none" if there are none.
std::string OutcomesText(const v1::Progress& progress);

// "RUN_CRASH" for OUTCOME_RUN_CRASH.
std::string OutcomeText(v1::Outcome outcome);

}  // namespace tunefarm::cli
