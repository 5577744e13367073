// Which earlier results a study starts from, and in what order.
//
// Results of one program for the same dims, on one device class, with one toolkit, are one source, whichever jobs and
// versions of the definition they come from. Sources are ranked: first those of the same class, the nearest problem
// first; then the same problem on classes of the same compute capability; then problems that the definition's lookup
// rules call incomparable, on the same class; then the same problem on other classes; then what is left. Near is the
// sum over dims that are numbers of |log2(a / b)|. Among equals the study's own toolkit comes first, then the newer.
//
// Threads: RankPriors is pure; ChoosePriors only reads the store. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// The study that is to learn. Everything it points to lives during the call only.
struct PriorQuestion {
  int64_t study_id = 0;
  const KernelPlan* plan = nullptr;
  const ResolvedProblem* problem = nullptr;
  const DeviceClass* device_class = nullptr;
  std::string_view class_id;
  std::string_view toolkit;
};

// A source, before its results are read.
struct PriorCandidate {
  std::string problem_key;  // the dims alone
  std::string class_id;
  std::string class_name;
  std::string toolkit;
  std::vector<int64_t> study_ids;  // newest first
  std::string difference;          // as PriorSourceSummary says
};

// Known classes by id.
using ClassesById = std::map<std::string, DeviceClass, std::less<>>;

// The best first. The asking study itself is left out, and so are classes that are not known.
std::vector<PriorCandidate> RankPriors(const PriorQuestion& question, const std::vector<KnownStudyRow>& known,
                                       const ClassesById& classes);

struct ChosenPriors {
  std::vector<PriorRow> rows;                               // what the study keeps
  std::vector<tunefarm::v1::PriorSourceSummary> summaries;  // the same for people
};

// Reads the best sources: at most kPriorSourcesMax that have at least kPriorMeasuredMin configs which ran, of each at
// most PriorCollector::kResultsMax results. What is known to crash on the class counts as failed in the first one.
// Costs what it reads: at most some tens of thousands of look-ups, by index, however many results are stored. The
// store's errors.
inline constexpr int kPriorSourcesMax = 4;
inline constexpr size_t kPriorMeasuredMin = 5;
absl::StatusOr<ChosenPriors> ChoosePriors(const PriorQuestion& question, Store* store);

}  // namespace tunefarm
