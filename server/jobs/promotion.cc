#include "server/jobs/promotion.h"

#include "server/base/failpoint.h"
#include "server/base/status_macros.h"
#include "server/measure/kept_samples.h"
#include "server/records/resource_names.h"
#include "server/store/best_store.h"

namespace tunefarm {

using tunefarm::v1::BestConfig;

namespace {

BestConfig BestOf(const PromotionTools& tools, const Study& study, const StudyStep::Promotion& promotion) {
  const StudyContext& context = study.context();
  const KernelPlan& plan = *context.plan;
  BestConfig best;
  best.set_kernel_name(plan.display_name());
  best.set_kernel_id(plan.kernel_id());
  best.set_program_digest(plan.program_digest());
  *best.mutable_problem() = context.problem->ToProto();
  best.set_device_class_id(context.row.class_id);
  best.set_device_class_name(context.device_class.display_name);
  *best.mutable_config() = promotion.winner.config();
  *best.mutable_measurement() = promotion.winner.measurement();
  DropSamples(best.mutable_measurement());
  if (promotion.baseline.has_value()) {
    best.set_baseline_ns(promotion.baseline->measurement().median_ns());
    best.set_baseline_label(promotion.baseline_label);
  }
  best.set_job(JobName(context.job_id));
  best.set_ordinal(promotion.winner.ordinal());
  best.set_driver_version(tools.devices->DriverOf(promotion.winner.device_uuid()));
  best.set_toolkit_version(tools.devices->ToolkitOf(promotion.winner.device_uuid()));
  best.set_promoted_at_ms(tools.clock->WallMs());
  if (const auto config = plan.ConfigFromText(promotion.config); config.ok()) {
    best.set_flops(plan.Flops(*context.problem, *config, context.device_class));
    best.set_bytes(plan.Bytes(*context.problem, *config, context.device_class));
  }
  best.set_floor_ns(context.floor_ns);
  best.set_headers(promotion.winner.headers());
  return best;
}

}  // namespace

absl::Status Promote(const PromotionTools& tools, const BestConfig* incumbent, Study* study, StudyStep* step) {
  const StudyContext& context = study->context();
  const StudyStep::Promotion& promotion = *step->promotion;
  const BestConfig best = BestOf(tools, *study, promotion);
  BestRow row;
  row.kernel_name = context.plan->display_name();
  row.kernel_id = context.plan->kernel_id();
  row.program_digest = context.plan->program_digest();
  row.problem_key = context.row.problem_key;
  row.class_id = context.row.class_id;
  row.config = promotion.config;
  row.detail = best.SerializeAsString();
  row.median_ns = best.measurement().median_ns();
  row.job_id = context.job_id;
  row.study_id = context.row.study_id;
  row.ordinal = promotion.winner.ordinal();
  row.promoted_at_ms = best.promoted_at_ms();
  // Another daemon may be promoting for the same problem: who comes second is measured against who came first.
  row.compared_with = incumbent == nullptr ? 0 : incumbent->revision();
  ASSIGN_OR_RETURN(const PromotionVerdict verdict, tools.bests->Promote(row));
  RETURN_IF_ERROR(Failpoint("jobs.promote.after"));
  if (verdict == PromotionVerdict::kKeptPinned) study->NoteNotPromoted("the best is pinned", step);
  const auto filed = tools.catalog->Find(row.program_digest, row.problem_key, row.class_id);
  // What is not in the catalog has no revision.
  const bool is_own = filed != nullptr && filed->job() == best.job() && filed->ordinal() == best.ordinal();
  study->SetBest(verdict == PromotionVerdict::kFiled && is_own ? *filed : best);
  return absl::OkStatus();
}

}  // namespace tunefarm
