// The rules by which a best config answers a question that is not exactly its own. Threads: any; nothing is shared.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/base/file_set.h"
#include "server/definition/dim_distance.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/expression/config.h"
#include "server/space/space.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// A question. Everything it points to must live during the call only.
struct CatalogQuery {
  const KernelPlan* plan = nullptr;          // of the definition that is asked for, or the newest of its name
  const ResolvedProblem* problem = nullptr;  // resolved by that plan
  const DeviceClass* device_class = nullptr;
  std::string_view class_id;  // device_class->Id()
  // Of the asked device. Empty: not known, and then nothing is STALE.
  std::string_view driver_version;
  std::string_view toolkit_version;
  // Worse matches are answered as NOT_FOUND. UNSPECIFIED: DEFAULT.
  tunefarm::v1::Match worst = tunefarm::v1::MATCH_DEFAULT;
  // The program that is asked for where it is not the plan's, since its definition is not stored. Empty: the plan's.
  std::string_view other_program = {};
  // Of this machine; null: no header is known to have changed.
  FileSetBook* headers = nullptr;

  std::string_view program_digest() const { return other_program.empty() ? plan->program_digest() : other_program; }
};

// A checksum of all that IsStale asks of a best.
uint64_t ConditionsOf(const tunefarm::v1::BestConfig& best);

// Whether the driver or the toolkit of the asked device is known to be another one than was measured with, or headers
// outside of the definition to have changed since. May look at these on the disk (FileSetBook::HaveChanged).
bool IsStale(const CatalogQuery& query, const tunefarm::v1::BestConfig& best);

// By the dim's rule: see definition/dim_distance.h.
std::optional<double> DimDistance(const tunefarm::v1::Dim& dim, int64_t asked, int64_t tuned);

// How far the tuned problem is from the asked one by the dims' rules: the sum over the dims, with one term for all
// PRODUCT dims and none for dims with inputs_only. None if a rule forbids that it answers, or if it is too far away.
std::optional<double> ShapeDistance(const KernelPlan& plan, const Config& asked, const Config& tuned);

// Whether the problems agree in all dims but those with inputs_only.
bool DifferInInputsOnly(const KernelPlan& plan, const Config& asked, const Config& tuned);

// Whether the asked definition accepts a config from elsewhere for the asked problem and class, pins included. The
// space is built on the first question.
class Acceptance {
 public:
  // `query` must outlive it.
  explicit Acceptance(const CatalogQuery& query) : query_(query) {}

  bool Accepts(const tunefarm::v1::BestConfig& best);
  bool Accepts(const Config& config);

 private:
  const CatalogQuery& query_;
  bool tried_ = false;
  std::optional<Space> space_;
};

}  // namespace tunefarm
