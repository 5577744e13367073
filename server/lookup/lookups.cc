#include "server/lookup/lookups.h"

#include <algorithm>
#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm {

absl::StatusOr<LookupTarget> LookupTarget::Resolve(const LookupContext& context, const std::string& kernel,
                                                   const std::string& selector) {
  LookupTarget target;
  ASSIGN_OR_RETURN(target.plan, context.kernels->Get(kernel));
  ASSIGN_OR_RETURN(target.device, context.devices->Resolve(selector, *target.plan, true));
  return target;
}

CatalogQuery LookupTarget::Query(const ResolvedProblem& problem, tunefarm::v1::Match worst) const {
  CatalogQuery query;
  query.plan = plan.get();
  query.problem = &problem;
  query.device_class = &device.device_class;
  query.class_id = device.class_id;
  query.driver_version = device.driver_version;
  query.toolkit_version = device.toolkit_version;
  query.worst = worst;
  return query;
}

MissSource LookupTarget::Source(int64_t now_ms) const {
  return {plan->display_name(), plan->program_digest(), device.class_id, device.device_class.display_name, now_ms};
}

absl::StatusOr<tunefarm::v1::LookupConfigResponse> LookupConfig(const LookupContext& context,
                                                                const tunefarm::v1::LookupConfigRequest& request) {
  ASSIGN_OR_RETURN(const LookupTarget target,
                   LookupTarget::Resolve(context, request.kernel(), request.device_selector()));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, target.plan->ResolveProblem(request.problem()));
  const CatalogAnswer answer = context.catalog->Lookup(target.Query(problem, request.worst_match()));
  if (answer.match != tunefarm::v1::MATCH_EXACT) {
    const MissQuestion question{problem.key, answer.match, answer.distance};
    context.misses->Count(target.Source(context.clock->WallMs()), {&question, 1},
                          [&problem](size_t) { return problem.ToProto(); });
  }
  tunefarm::v1::LookupConfigResponse response;
  response.set_match(answer.match);
  response.set_distance(answer.distance);
  response.set_catalog_revision(answer.revision);
  if (answer.best != nullptr) {
    *response.mutable_best() = *answer.best;
    if (answer.best->promoted_at_ms() > 0) {
      response.set_age_ms(std::max<int64_t>(0, context.clock->WallMs() - answer.best->promoted_at_ms()));
    }
  }
  return response;
}

}  // namespace tunefarm
