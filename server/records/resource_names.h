// "jobs/12", "jobs/12/studies/1", "jobs/12/studies/1/trials/7", "kernels/{id}": names to numbers and back, and the
// public states. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/store/job_rows.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

struct StudyName {
  int64_t job_id = 0;
  int number = 0;  // 0: the whole job
};
struct TrialName {
  int64_t job_id = 0;
  int study_number = 0;
  int64_t ordinal = 0;
};

std::string JobName(int64_t job_id);
std::string StudyNameOf(int64_t job_id, int number);
std::string TrialNameOf(int64_t job_id, int number, int64_t ordinal);
std::string KernelName(std::string_view kernel_id);

// InvalidArgument (NAME_INVALID) that shows how such a name looks.
absl::StatusOr<int64_t> ParseJobName(std::string_view name);
absl::StatusOr<StudyName> ParseJobOrStudyName(std::string_view name);
absl::StatusOr<TrialName> ParseTrialName(std::string_view name);

tunefarm::v1::JobState ToProto(JobState state);
tunefarm::v1::StudyState ToProto(StudyState state);
// InvalidArgument (JOB_INVALID) for UNSPECIFIED and unknown values.
absl::StatusOr<JobState> FromProto(tunefarm::v1::JobState state);
// "running".
std::string_view NameOf(JobState state);

// What a client asked for as a page: default 50, at most 1000. InvalidArgument (PAGE_SIZE_INVALID) when negative.
absl::StatusOr<int> PageSize(int asked);

}  // namespace tunefarm
