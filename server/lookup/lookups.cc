#include "server/lookup/lookups.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

constexpr size_t kDigestBytesMax = 128;  // as stored

}  // namespace

absl::StatusOr<LookupTarget> LookupTarget::Resolve(const LookupContext& context, const std::string& kernel,
                                                   const std::string& program_digest, const std::string& selector) {
  if (program_digest.size() > kDigestBytesMax) {
    return WithReason(InvalidArgument("the program_digest has {} bytes, at most {} are taken", program_digest.size(),
                                      kDigestBytesMax),
                      "PROGRAM_DIGEST_INVALID");
  }
  LookupTarget target;
  target.headers = context.headers;
  ASSIGN_OR_RETURN(target.plan, context.kernels->Get(kernel));
  if (!program_digest.empty() && program_digest != target.plan->program_digest()) {
    auto asked = context.kernels->FindProgram(target.plan->display_name(), program_digest);
    // Where the store does not answer, the catalog does, by the program that is asked for.
    if (asked.ok() && *asked != nullptr) {
      target.plan = *std::move(asked);
    } else {
      target.other_program = program_digest;
    }
  }
  ASSIGN_OR_RETURN(target.device, context.devices->Resolve(selector, *target.plan, true));
  return target;
}

absl::StatusOr<ResolvedProblem> LookupTarget::ResolveProblem(const tunefarm::v1::Problem& problem) const {
  auto resolved = plan->ResolveProblem(problem);
  if (resolved.ok() || other_program.empty()) return resolved;
  return Annotate(resolved.status(), "the definition that is asked for was never submitted, and the newest of {}",
                  plan->display_name());
}

CatalogQuery LookupTarget::Query(const ResolvedProblem& problem, tunefarm::v1::Match worst) const {
  CatalogQuery query;
  query.plan = plan.get();
  query.problem = &problem;
  query.device_class = &device.device_class;
  query.class_id = device.class_id;
  query.other_program = other_program;
  query.driver_version = device.driver_version;
  query.toolkit_version = device.toolkit_version;
  query.worst = worst;
  query.headers = headers;
  return query;
}

MissSource LookupTarget::Source(int64_t now_ms) const {
  const std::string& program = other_program.empty() ? plan->program_digest() : other_program;
  return {plan->display_name(), program, device.class_id, device.device_class.display_name, now_ms};
}

LookupAnswer::LookupAnswer(tunefarm::v1::LookupConfigResponse response,
                           std::shared_ptr<const tunefarm::v1::BestConfig> best)
    : best_(std::move(best)), response_(std::move(response)) {
  TUNEFARM_CHECK(!response_.has_best());
  Lend();
}

LookupAnswer::LookupAnswer(LookupAnswer&& other) noexcept {
  other.TakeBack();
  best_ = std::move(other.best_);
  response_ = std::move(other.response_);
  Lend();
}

LookupAnswer::~LookupAnswer() { TakeBack(); }

// The response is only read. Serialization writes nothing but the sizes that it caches in atomics.
void LookupAnswer::Lend() {
  if (best_ != nullptr) {
    response_.unsafe_arena_set_allocated_best(const_cast<tunefarm::v1::BestConfig*>(best_.get()));
  }
}

// A response would delete its best.
void LookupAnswer::TakeBack() {
  if (best_ != nullptr) response_.unsafe_arena_release_best();
}

absl::StatusOr<LookupAnswer> LookupConfig(const LookupContext& context,
                                          const tunefarm::v1::LookupConfigRequest& request) {
  ASSIGN_OR_RETURN(const LookupTarget target, LookupTarget::Resolve(context, request.kernel(), request.program_digest(),
                                                                    request.device_selector()));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, target.ResolveProblem(request.problem()));
  const CatalogQuery query = target.Query(problem, request.worst_match());
  CatalogAnswer answer = context.catalog->Lookup(query);
  if (answer.match != tunefarm::v1::MATCH_EXACT) {
    const MissQuestion question{problem.key, answer.match, answer.distance};
    context.misses->Count(target.Source(context.clock->WallMs()), {&question, 1},
                          [&problem](size_t) { return problem.ToProto(); });
  }
  tunefarm::v1::LookupConfigResponse response;
  response.set_kernel(KernelName(target.plan->kernel_id()));
  response.set_program_digest(target.plan->program_digest());
  const bool is_by_name = request.program_digest().empty() && request.kernel() == target.plan->display_name();
  if (is_by_name) response.set_other_programs(context.catalog->CountOtherPrograms(query));
  if (request.with_device_class()) *response.mutable_device_class() = target.device.device_class.ToProto();
  response.set_match(answer.match);
  response.set_distance(answer.distance);
  response.set_catalog_revision(answer.revision);
  if (answer.best != nullptr && answer.best->promoted_at_ms() > 0) {
    response.set_age_ms(std::max<int64_t>(0, context.clock->WallMs() - answer.best->promoted_at_ms()));
  }
  return LookupAnswer(std::move(response), std::move(answer.best));
}

}  // namespace tunefarm
