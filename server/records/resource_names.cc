#include "server/records/resource_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr size_t kNameBytesMax = 256;

absl::Status BadName(std::string_view name, std::string_view shape) {
  return WithReason(InvalidArgument("'{}' is no such name; it looks like {}", name.substr(0, kNameBytesMax), shape),
                    "NAME_INVALID");
}

// The numbers of "a/1/b/2" when the words are those given and every number is canonical and at least its minimum.
std::optional<std::vector<int64_t>> Numbers(std::string_view name, const std::vector<std::string_view>& words) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) {
      if (name.empty() || name[0] != '/') return std::nullopt;
      name.remove_prefix(1);
    }
    if (name.size() <= words[i].size() || name.substr(0, words[i].size()) != words[i] || name[words[i].size()] != '/') {
      return std::nullopt;
    }
    name.remove_prefix(words[i].size() + 1);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool ordinal = words[i] == "trials";
    if (error != std::errc() || number < (ordinal ? 0 : 1)) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    numbers.push_back(number);
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

}  // namespace

std::string JobName(int64_t job_id) { return fmt::format("jobs/{}", job_id); }
std::string StudyNameOf(int64_t job_id, int number) { return fmt::format("jobs/{}/studies/{}", job_id, number); }
std::string TrialNameOf(int64_t job_id, int number, int64_t ordinal) {
  return fmt::format("jobs/{}/studies/{}/trials/{}", job_id, number, ordinal);
}
std::string KernelName(std::string_view kernel_id) { return std::string("kernels/").append(kernel_id); }

absl::StatusOr<int64_t> ParseJobName(std::string_view name) {
  const auto numbers = Numbers(name, {"jobs"});
  if (!numbers.has_value()) return BadName(name, "jobs/12");
  return (*numbers)[0];
}

absl::StatusOr<StudyName> ParseJobOrStudyName(std::string_view name) {
  if (const auto job = Numbers(name, {"jobs"})) return StudyName{(*job)[0], 0};
  const auto study = Numbers(name, {"jobs", "studies"});
  if (!study.has_value() || (*study)[1] > 1'000'000) return BadName(name, "jobs/12 or jobs/12/studies/1");
  return StudyName{(*study)[0], static_cast<int>((*study)[1])};
}

absl::StatusOr<TrialName> ParseTrialName(std::string_view name) {
  const auto numbers = Numbers(name, {"jobs", "studies", "trials"});
  if (!numbers.has_value() || (*numbers)[1] > 1'000'000) return BadName(name, "jobs/12/studies/1/trials/7");
  return TrialName{(*numbers)[0], static_cast<int>((*numbers)[1]), (*numbers)[2]};
}

tunefarm::v1::JobState ToProto(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return tunefarm::v1::JOB_STATE_QUEUED;
    case JobState::kRunning:
      return tunefarm::v1::JOB_STATE_RUNNING;
    case JobState::kPaused:
      return tunefarm::v1::JOB_STATE_PAUSED;
    case JobState::kCancelling:
      return tunefarm::v1::JOB_STATE_CANCELLING;
    case JobState::kSucceeded:
      return tunefarm::v1::JOB_STATE_SUCCEEDED;
    case JobState::kFailed:
      return tunefarm::v1::JOB_STATE_FAILED;
    case JobState::kCancelled:
      return tunefarm::v1::JOB_STATE_CANCELLED;
  }
  return tunefarm::v1::JOB_STATE_UNSPECIFIED;
}

tunefarm::v1::StudyState ToProto(StudyState state) {
  switch (state) {
    case StudyState::kSearching:
      return tunefarm::v1::STUDY_STATE_SEARCHING;
    case StudyState::kFinals:
      return tunefarm::v1::STUDY_STATE_FINALS;
    case StudyState::kEnded:
      return tunefarm::v1::STUDY_STATE_ENDED;
  }
  return tunefarm::v1::STUDY_STATE_UNSPECIFIED;
}

absl::StatusOr<JobState> FromProto(tunefarm::v1::JobState state) {
  for (JobState own : {JobState::kQueued, JobState::kRunning, JobState::kPaused, JobState::kCancelling,
                       JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    if (ToProto(own) == state) return own;
  }
  return WithReason(InvalidArgument("{} is not a state that a job can be in", static_cast<int>(state)), "JOB_INVALID");
}

std::string_view NameOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kPaused:
      return "paused";
    case JobState::kCancelling:
      return "cancelling";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

absl::StatusOr<int> PageSize(int asked) {
  if (asked < 0) return WithReason(InvalidArgument("the page size {} is negative", asked), "PAGE_SIZE_INVALID");
  return asked == 0 ? 50 : std::min(asked, 1000);
}

}  // namespace tunefarm
