// Problems that were looked up and had no exact best, as the daemon counts them, and what the processes of distributed
// runs agreed on. A run's row is locked while an answer is added to it, which orders those who ask at once; the primary
// key of the answers is what makes one of them the first.

#include <fmt/core.h>

#include "server/store/checks.h"
#include "server/store/lookup_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"
#include "server/store/shared/key_sha.h"

namespace tunefarm {
namespace {

Digest KeyOf(const MissRow& miss) { return KeySha({miss.kernel_name, miss.problem_key, miss.class_id}); }

// `statement`: kReplace or kAdd.
absl::Status Put(Sql& sql, std::string_view statement, const MissRow& row) {
  const Digest key = KeyOf(row);
  return sql.Run(statement, Blob{key.view()}, row.kernel_name, row.problem_key, row.class_id, row.class_name,
                 row.program_digest, Blob{row.problem}, row.asked, row.match, row.distance, row.first_asked_at_ms,
                 row.last_asked_at_ms);
}

#define TUNEFARM_INSERT_MISS                               \
  "INSERT INTO miss AS m (key_sha, " TUNEFARM_MISS_COLUMNS \
  ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (key_sha) DO UPDATE SET "
constexpr std::string_view kReplace = TUNEFARM_INSERT_MISS
    "class_name = excluded.class_name, program_digest = excluded.program_digest, problem = excluded.problem, "
    "asked = excluded.asked, last_match = excluded.last_match, last_distance = excluded.last_distance, "
    "first_asked_at_ms = excluded.first_asked_at_ms, last_asked_at_ms = excluded.last_asked_at_ms";
// The later answer stays, the counts add up.
#define TUNEFARM_LATER(column)                                            \
  column                                                                  \
      " = CASE WHEN m.last_asked_at_ms < excluded.last_asked_at_ms THEN " \
      "excluded." column " ELSE m." column " END, "
constexpr std::string_view kAdd = TUNEFARM_INSERT_MISS TUNEFARM_LATER("class_name") TUNEFARM_LATER("program_digest")
    TUNEFARM_LATER("problem") TUNEFARM_LATER("last_match") TUNEFARM_LATER("last_distance")
        TUNEFARM_LATER("last_asked_at_ms")
    "first_asked_at_ms = CASE WHEN excluded.first_asked_at_ms < m.first_asked_at_ms THEN excluded.first_asked_at_ms "
    "ELSE m.first_asked_at_ms END, asked = m.asked + excluded.asked";

absl::StatusOr<std::optional<AgreedRunRow>> FindRun(Sql& sql, std::string_view run_id) {
  return sql.ReadOne(ReadAgreedRun, "SELECT " TUNEFARM_AGREED_RUN_COLUMNS " FROM agreed_run WHERE run_id = $1", run_id);
}

absl::StatusOr<std::optional<AgreedAnswerRow>> FindAnswer(Sql& sql, std::string_view run_id,
                                                          std::string_view question_sha) {
  const auto read = [](const SqlRow& row) { return AgreedAnswerRow{row.Bytes(0), row.Int(1)}; };
  return sql.ReadOne(read, "SELECT answer, agreed_at_ms FROM agreed_answer WHERE run_id = $1 AND question_sha = $2",
                     run_id, Blob{question_sha});
}

absl::Status QuotaError(const std::string& owner, std::string_view what) {
  return WithReason(
      ResourceExhausted(
          "{} may have no more than the {} that are stored; runs are removed {} days after their last use",
          owner.empty() ? "who uses the local sockets" : owner, what, kUnusedRunDays),
      "RUN_QUOTA");
}

struct RunSize {
  std::string owner;
  int64_t answers = 0;
};

class Lookups final : public SharedFacet<LookupStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status WriteMisses(const MissChanges& changes) override {
    RETURN_IF_ERROR(CheckMisses(changes));
    return backend_->Write([&](Sql& sql) -> absl::Status {
      for (const MissRow& row : changes.gone) {
        const Digest key = KeyOf(row);
        RETURN_IF_ERROR(sql.Run("DELETE FROM miss WHERE key_sha = $1", Blob{key.view()}));
      }
      for (const MissRow& row : changes.present) RETURN_IF_ERROR(Put(sql, changes.adds ? kAdd : kReplace, row));
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::vector<MissRow>> LoadMisses() override {
    return backend_->Read([](Sql& sql) {
      return sql.ReadAll(ReadMiss,
                         "SELECT " TUNEFARM_MISS_COLUMNS " FROM miss ORDER BY kernel_name, problem_key, class_id");
    });
  }

  absl::StatusOr<std::optional<Agreement>> FindAgreement(std::string_view run_id,
                                                         std::string_view question_sha) override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<std::optional<Agreement>> {
      ASSIGN_OR_RETURN(std::optional<AgreedRunRow> run, FindRun(sql, run_id));
      if (!run.has_value()) return std::nullopt;
      ASSIGN_OR_RETURN(std::optional<AgreedAnswerRow> answer, FindAnswer(sql, run_id, question_sha));
      return Agreement{*std::move(run), std::move(answer)};
    });
  }

  absl::StatusOr<AgreedRunRow> BeginRun(const AgreedRunRow& run, const AgreementLimits& limits) override {
    ASSIGN_OR_RETURN(const int64_t touched, backend_->Write([&](Sql& sql) {
      return sql.Change(
          "UPDATE agreed_run SET last_used_at_ms = CASE WHEN last_used_at_ms < $2 THEN $2 ELSE last_used_at_ms END "
          "WHERE run_id = $1",
          run.run_id, run.last_used_at_ms);
    }));
    if (touched > 0) {
      ASSIGN_OR_RETURN(const std::optional<AgreedRunRow> found,
                       backend_->Read([&](Sql& sql) { return FindRun(sql, run.run_id); }));
      if (found.has_value()) return *found;
    }
    return backend_->Write([&](Sql& sql) -> absl::StatusOr<AgreedRunRow> {
      // Runs begin rarely, and those that begin at once must not find the same place in the quota free.
      RETURN_IF_ERROR(sql.Lock("SELECT pg_advisory_xact_lock(hashtextextended('agreed_run', 2))"));
      ASSIGN_OR_RETURN(const std::optional<AgreedRunRow> found, FindRun(sql, run.run_id));
      if (found.has_value()) return *found;
      ASSIGN_OR_RETURN(const int64_t runs, sql.QueryInt("SELECT count(*) FROM agreed_run WHERE owner = $1", run.owner));
      if (runs >= limits.runs_per_owner) return QuotaError(run.owner, fmt::format("{} runs", runs));
      RETURN_IF_ERROR(sql.Run("INSERT INTO agreed_run (" TUNEFARM_AGREED_RUN_COLUMNS ") VALUES ($1, $2, $3, $4, $5)",
                              run.run_id, run.owner, run.catalog_revision, run.begun_at_ms, run.last_used_at_ms));
      return run;
    });
  }

  absl::StatusOr<AgreedAnswerRow> AgreeOn(std::string_view run_id, std::string_view question_sha,
                                          const AgreedAnswerRow& answer, const AgreementLimits& limits) override {
    if (answer.answer.empty() || answer.answer.size() > kAgreedBytesMax) {
      return InvalidArgument("the answer has {} bytes; 1 to {} can be agreed on", answer.answer.size(),
                             kAgreedBytesMax);
    }
    return backend_->Write([&](Sql& sql) -> absl::StatusOr<AgreedAnswerRow> {
      const auto read = [](const SqlRow& row) { return RunSize{row.Bytes(0), row.Int(1)}; };
      ASSIGN_OR_RETURN(
          const std::optional<RunSize> run,
          sql.ReadOne(read, TUNEFARM_FOR_UPDATE(sql, "SELECT owner, answers FROM agreed_run WHERE run_id = $1"),
                      run_id));
      if (!run.has_value()) return WithReason(NotFound("there is no run {}", run_id), "RUN_NOT_FOUND");
      ASSIGN_OR_RETURN(const std::optional<AgreedAnswerRow> found, FindAnswer(sql, run_id, question_sha));
      if (found.has_value()) return *found;
      if (run->answers >= limits.answers_per_run) {
        return QuotaError("run " + std::string(run_id), fmt::format("{} answers", run->answers));
      }
      ASSIGN_OR_RETURN(
          const int64_t bytes,
          sql.QueryInt("SELECT CAST(coalesce(sum(answer_bytes), 0) AS bigint) FROM agreed_run WHERE owner = $1",
                       run->owner));
      const auto size = static_cast<int64_t>(answer.answer.size());
      if (bytes + size > limits.bytes_per_owner) {
        return QuotaError(run->owner, fmt::format("{} bytes of answers of runs", bytes));
      }
      RETURN_IF_ERROR(
          sql.Run("INSERT INTO agreed_answer (run_id, question_sha, answer, agreed_at_ms) VALUES ($1, $2, $3, $4)",
                  run_id, Blob{question_sha}, Blob{answer.answer}, answer.agreed_at_ms));
      RETURN_IF_ERROR(
          sql.Run("UPDATE agreed_run SET answers = answers + 1, answer_bytes = answer_bytes + $2 WHERE run_id = $1",
                  run_id, size));
      return answer;
    });
  }

  absl::StatusOr<int64_t> DeleteUnusedRuns(int64_t used_before_ms, int runs_max) override {
    return backend_->Write([&](Sql& sql) {
      // The condition is there twice for a run that is used while this waits for its row.
      return sql.Change(
          "DELETE FROM agreed_run WHERE run_id IN (SELECT run_id FROM agreed_run WHERE last_used_at_ms < $1 ORDER BY "
          "last_used_at_ms, run_id LIMIT $2) AND last_used_at_ms < $1",
          used_before_ms, int64_t{runs_max});
    });
  }
};

}  // namespace

std::unique_ptr<LookupStore> NewLookupStore(SqlBackend* backend) { return std::make_unique<Lookups>(backend); }

}  // namespace tunefarm
