#include "server/farm/other_studies.h"

#include <utility>
#include <vector>

#include "server/base/status_macros.h"
#include "server/store/study_store.h"

namespace tunefarm {

absl::StatusOr<const OtherStudies::Program*> OtherStudies::Load(const std::string& program_digest, int64_t study_id) {
  const MonotonicTime now = clock_->Now();
  const auto found = programs_.find(program_digest);
  if (found != programs_.end() && now - found->second.read <= kKept &&
      (!found->second.is_whole || found->second.studies.count(study_id) > 0)) {
    return &found->second;
  }
  ASSIGN_OR_RETURN(std::vector<KnownStudyRow> rows, store_->studies()->StudiesOfProgram(program_digest, studies_max_));
  Program program;
  program.read = now;
  program.is_whole = std::ssize(rows) < studies_max_;
  if (program.is_whole) {
    for (KnownStudyRow& row : rows) {
      program.studies.insert(row.study_id);
      program.by_problem[{std::move(row.problem_key), std::move(row.class_id)}].insert(row.study_id);
    }
  }
  if (found == programs_.end() && programs_.size() >= kProgramsMax) programs_.clear();
  Program& kept = programs_[program_digest];
  kept = std::move(program);
  return &kept;
}

absl::StatusOr<bool> OtherStudies::Exist(int64_t study_id, const std::string& program_digest,
                                         const std::string& problem_key, const std::string& class_id) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Program* program, Load(program_digest, study_id));
  if (!program->is_whole) return true;
  const auto found = program->by_problem.find({problem_key, class_id});
  if (found == program->by_problem.end()) return false;
  return found->second.size() > found->second.count(study_id);
}

}  // namespace tunefarm
