// LookupStore: what look-ups leave behind: problems that had no exact best config, and what the processes of
// distributed runs agreed on. Threads and errors: as Store (store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

// A problem that was looked up and had no exact best; by kernel name, problem key and class.
struct MissRow {
  std::string kernel_name, problem_key, class_id;  // at most 256, 4096 and 256 bytes
  std::string class_name;                          // at most 256 bytes
  std::string program_digest;                      // of the program that was asked last
  std::string problem;                             // opaque; at most 64 KiB
  int64_t asked = 0;                               // how often
  int match = 0;                                   // of the last answer, as tunefarm.v1.Match
  double distance = 0;                             // of the last answer
  int64_t first_asked_at_ms = 0, last_asked_at_ms = 0;
};

struct MissChanges {
  std::vector<MissRow> gone;     // only what names them is looked at; need not be there
  std::vector<MissRow> present;  // put in, or in the place of what was there
  // `asked` of what is present counts on top of what was there, and the later answer stays: several daemons count.
  bool adds = false;
};

// Of an answer.
inline constexpr size_t kAgreedBytesMax = size_t{1} << 20;

// Retention removes runs that were not used for so long.
inline constexpr int kUnusedRunDays = 30;

struct AgreementLimits {
  int64_t runs_per_owner = 10'000;
  int64_t bytes_per_owner = int64_t{256} << 20;  // of answers, in all runs together
  int64_t answers_per_run = 10'000;
};

struct AgreedRunRow {
  std::string run_id;            // 1 to 128 bytes
  std::string owner;             // who began it; empty: a local socket. Its answers count in the owner's quota
  int64_t catalog_revision = 0;  // when it began
  int64_t begun_at_ms = 0;
  int64_t last_used_at_ms = 0;
};

struct AgreedAnswerRow {
  std::string answer;  // opaque, never empty
  int64_t agreed_at_ms = 0;
};

struct Agreement {
  AgreedRunRow run;
  std::optional<AgreedAnswerRow> answer;  // none: the question was not asked yet
};

class LookupStore {
 public:
  virtual ~LookupStore() = default;

  // In one transaction: first what is gone, then what is present. InvalidArgument, with nothing changed, for more than
  // 1000 rows in all.
  virtual absl::Status WriteMisses(const MissChanges& changes) = 0;
  // By kernel name, problem key and class.
  virtual absl::StatusOr<std::vector<MissRow>> LoadMisses() = 0;

  // None: there is no such run. `question_sha`: 32 bytes.
  virtual absl::StatusOr<std::optional<Agreement>> FindAgreement(std::string_view run_id,
                                                                 std::string_view question_sha) = 0;
  // The run of that id as it is then: begun by this row if there is none, else with its last use moved to the row's.
  // ResourceExhausted (RUN_QUOTA) for a new one that is more than its owner may have.
  virtual absl::StatusOr<AgreedRunRow> BeginRun(const AgreedRunRow& run, const AgreementLimits& limits) = 0;
  // The answer that stands: this one if it is the first. NotFound (RUN_NOT_FOUND); InvalidArgument for an answer that
  // is empty or too long; ResourceExhausted (RUN_QUOTA) where the run or its owner may have no more.
  virtual absl::StatusOr<AgreedAnswerRow> AgreeOn(std::string_view run_id, std::string_view question_sha,
                                                  const AgreedAnswerRow& answer, const AgreementLimits& limits) = 0;
  // Runs with all their answers, those that were used last longest ago first; at most so many. Returns how many went.
  virtual absl::StatusOr<int64_t> DeleteUnusedRuns(int64_t used_before_ms, int runs_max) = 0;
};

}  // namespace tunefarm
