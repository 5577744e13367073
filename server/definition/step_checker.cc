// Steps: launches, memsets and library operations of every sequence.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr int kPrepareMax = 16;
constexpr int kLaunchesMax = 32;
constexpr int kReferenceMax = 16;
constexpr int kLaunchArgumentsMax = 64;
constexpr size_t kEntryMax = 1024;
constexpr size_t kNameMax = 256;

absl::Status CheckCount(const std::string& path, int count, int most, bool required) {
  if (count == 0 && required) return FieldError(path, kMissingField, "at least one step is needed");
  if (count <= most) return absl::OkStatus();
  return FieldError(path, kLimitExceeded, "{} steps are too many; at most {} are allowed", count, most);
}

class StepChecker {
 public:
  explicit StepChecker(PlanDraft* draft) : draft_(*draft), plan_(*draft->plan) {}

  void Check() {
    v1::Kernel& kernel = plan_.kernel;
    if (draft_.Note(CheckCount("prepare", kernel.prepare_size(), kPrepareMax, false))) {
      for (int i = 0; i < kernel.prepare_size(); ++i) {
        draft_.Note(CheckPrepare(fmt::format("prepare[{}]", i), kernel.mutable_prepare(i)));
      }
    }
    if (draft_.is_python()) return;
    CheckList("launches", Sequence::kLaunches, kLaunchesMax, true, kernel.mutable_launches());
    const auto& launches = kernel.launches();
    if (launches.size() > 0 &&
        std::all_of(launches.begin(), launches.end(), [](const v1::Step& step) { return step.untimed(); })) {
      draft_.Note(
          FieldError("launches", kConflictingFields, "every launch is untimed, so there is nothing to measure"));
    }
    if (kernel.has_reference() && kernel.reference().files_size() == 0) {
      CheckList("reference.steps", Sequence::kReference, kReferenceMax, true,
                kernel.mutable_reference()->mutable_steps());
    }
    if (kernel.baseline().steps_size() > 0) {
      CheckList("baseline.steps", Sequence::kBaseline, kReferenceMax, false,
                kernel.mutable_baseline()->mutable_steps());
    }
    draft_.Note(CheckLabel(kernel.baseline()));
    draft_.Note(CheckFillSteps());
  }

 private:
  using StepList = google::protobuf::RepeatedPtrField<v1::Step>;

  void CheckList(const std::string& path, Sequence sequence, int most, bool required, StepList* steps) {
    if (!draft_.Note(CheckCount(path, steps->size(), most, required))) return;
    for (int i = 0; i < steps->size(); ++i) {
      draft_.Note(CheckStep(fmt::format("{}[{}]", path, i), sequence, steps->Mutable(i)));
    }
  }

  absl::Status CheckPrepare(const std::string& path, v1::PrepareStep* prepare) {
    if (!v1::PreparePer_IsValid(prepare->per()))
      return FieldError(path + ".per", kInvalidField, "the value is unknown");
    if (prepare->per() == v1::PREPARE_PER_UNSPECIFIED) prepare->set_per(v1::PREPARE_PER_PROBLEM);
    const bool per_problem = prepare->per() == v1::PREPARE_PER_PROBLEM;
    if (!prepare->has_step()) return FieldError(path + ".step", kMissingField, "the step is missing");
    const std::string& name = prepare->step().name();
    if (per_problem && !name.empty() && !problem_prepare_names_.insert(name).second) {
      return FieldError(path + ".step.name", kDuplicateName, "there is already a prepare step named '{}'", name);
    }
    return CheckStep(path + ".step", per_problem ? Sequence::kPreparePerProblem : Sequence::kPreparePerConfig,
                     prepare->mutable_step());
  }

  static absl::Status CheckLabel(const v1::Baseline& baseline) {
    if (baseline.steps_size() > 0 && baseline.label().empty()) {
      return FieldError("baseline.label", kMissingField, "a baseline with steps needs a label, like \"cuBLAS\"");
    }
    if (baseline.label().size() > kNameMax) {
      return FieldError("baseline.label", kLimitExceeded, "the label has {} bytes; at most {} are allowed",
                        baseline.label().size(), kNameMax);
    }
    return absl::OkStatus();
  }

  absl::Status CheckFillSteps() {
    const std::vector<std::string> names(problem_prepare_names_.begin(), problem_prepare_names_.end());
    for (const BufferFormula& buffer : plan_.buffers) {
      if (buffer.fill.kind_case() != v1::Fill::kPrepareStep) continue;
      const std::string& name = buffer.fill.prepare_step();
      if (problem_prepare_names_.count(name) > 0) continue;
      return FieldError(buffer.path + ".fill.prepare_step", kUnknownName,
                        "there is no prepare step per PROBLEM named '{}'{}", name, DidYouMean(name, names));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStep(const std::string& path, Sequence sequence, v1::Step* step) {
    StepFormula plan;
    plan.path = path;
    if (step->name().size() > kNameMax) {
      return FieldError(path + ".name", kLimitExceeded, "the name has {} bytes; at most {} are allowed",
                        step->name().size(), kNameMax);
    }
    const bool is_launch = step->kind_case() == v1::Step::kKernel;
    const Context& when = is_launch && draft_.is_cuda() ? kLaunchContext : kConfigContext;
    ASSIGN_OR_RETURN(plan.when,
                     draft_.CompileOptional(path + ".when", step->when(), Within(sequence, when), Result::kTruth));
    switch (step->kind_case()) {
      case v1::Step::kKernel:
        plan.kind = StepPlan::Kind::kKernel;
        RETURN_IF_ERROR(CheckLaunch(path + ".kernel", sequence, step->kernel(), &plan));
        break;
      case v1::Step::kMemset:
        plan.kind = StepPlan::Kind::kMemset;
        RETURN_IF_ERROR(CheckMemset(path + ".memset", sequence, step->memset()));
        break;
      case v1::Step::kLibraryOp:
        plan.kind = StepPlan::Kind::kLibraryOp;
        RETURN_IF_ERROR(CheckLibraryOp(path + ".library_op", sequence, step->mutable_library_op(), &plan));
        break;
      case v1::Step::KIND_NOT_SET:
        return FieldError(path, kMissingField, "a step needs one of kernel, memset and library_op");
    }
    plan.step = *step;
    plan_.sequences[sequence].push_back(std::move(plan));
    return absl::OkStatus();
  }

  // Whether every config runs the step, so that it must not depend on what only describes inputs.
  static bool IsTuned(Sequence sequence) {
    return sequence == Sequence::kLaunches || sequence == Sequence::kPreparePerConfig;
  }
  static Context Within(Sequence sequence, const Context& context) {
    return IsTuned(sequence) ? context : WithInputs(context);
  }

  // An argument of a step, for the field at `path`, which names it.
  absl::Status CheckInputsOf(const std::string& path, Sequence sequence, const std::string& name) const {
    if (!IsTuned(sequence)) return absl::OkStatus();
    std::vector<const Formula*> formulas;
    const auto add = [&formulas](const auto& list) {
      for (const Formula& formula : list) formulas.push_back(&formula);
    };
    std::string buffer_name = name;
    if (const auto scalar = plan_.scalars.find(name); scalar != plan_.scalars.end()) {
      formulas.push_back(&*scalar->second.value);
    }
    if (const auto map = plan_.tensor_maps.find(name); map != plan_.tensor_maps.end()) {
      const TensorMapFormula& own = map->second;
      for (const auto* list : {&own.dims, &own.byte_strides, &own.box, &own.element_strides}) add(*list);
      for (const auto* one : {&own.swizzle, &own.interleave, &own.l2_promotion, &own.base_offset_bytes}) {
        formulas.push_back(&**one);
      }
      buffer_name = own.buffer;
    }
    if (const auto found = plan_.tensor_descriptors.find(name); found != plan_.tensor_descriptors.end()) {
      for (const auto* list : {&found->second.shape, &found->second.strides, &found->second.block_shape}) add(*list);
      buffer_name = found->second.buffer;
    }
    const BufferFormula* const buffer = plan_.FindBuffer(buffer_name);
    if (buffer != nullptr) formulas.push_back(&*buffer->length);
    for (const Formula* const formula : formulas) {
      const std::string dim = draft_.InputsDimOf(*formula);
      if (dim.empty()) continue;
      return FieldError(path, kConflictingFields, "'{}' uses the dim '{}', which has inputs_only: {}", name, dim,
                        kInputsRule);
    }
    return absl::OkStatus();
  }

  absl::Status CheckLaunch(const std::string& path, Sequence sequence, const v1::KernelLaunch& launch,
                           StepFormula* plan) {
    if (launch.entry().empty())
      return FieldError(path + ".entry", kMissingField, "a launch needs the name of its function");
    if (launch.entry().size() > kEntryMax) {
      return FieldError(path + ".entry", kLimitExceeded, "the name has {} bytes; at most {} are allowed",
                        launch.entry().size(), kEntryMax);
    }
    if (!draft_.is_cuda() && !IsIdentifier(launch.entry())) {
      return FieldError(path + ".entry", kInvalidField, "'{}' is not the name of {} function", launch.entry(),
                        draft_.is_triton() ? "a" : "an extern \"C\"");
    }
    if (draft_.is_triton()) RETURN_IF_ERROR(CheckTritonLaunch(path, launch));
    for (const auto& [field, list] : {std::pair{"grid", &launch.grid()}, std::pair{"block", &launch.block()},
                                      std::pair{"cluster", &launch.cluster()}}) {
      const std::string list_path = fmt::format("{}.{}", path, field);
      if (!draft_.has_grids() && list->size() > 0) {
        return FieldError(list_path, kConflictingFields, "{} has no meaning for LANGUAGE_HOST_CXX; leave it out",
                          field);
      }
      const bool required = list == &launch.grid() ? draft_.has_grids() : draft_.is_cuda() && list == &launch.block();
      if (required && list->size() == 0)
        return FieldError(list_path, kMissingField, "a launch needs 1 to 3 expressions here");
      if (list->size() > 3) {
        return FieldError(list_path, kLimitExceeded, "{} expressions are too many; x, y and z are 3", list->size());
      }
    }
    if (!draft_.has_grids() && !launch.dynamic_shared_bytes().empty()) {
      return FieldError(path + ".dynamic_shared_bytes", kConflictingFields,
                        "LANGUAGE_HOST_CXX has no shared memory; leave it out");
    }
    if (!draft_.has_grids() && launch.has_attributes()) {
      return FieldError(path + ".attributes", kConflictingFields,
                        "LANGUAGE_HOST_CXX has no launch attributes; leave them out");
    }
    const int carveout = launch.attributes().shared_memory_carveout_percent();
    if (carveout < 0 || carveout > 100) {
      return FieldError(path + ".attributes.shared_memory_carveout_percent", kValueOutOfRange,
                        "{} is not between 0 and 100", carveout);
    }
    const Context context = Within(sequence, draft_.is_cuda() ? kLaunchContext : kConfigContext);
    ASSIGN_OR_RETURN(plan->grid, draft_.CompileList(path + ".grid", launch.grid(), context, Result::kInt));
    ASSIGN_OR_RETURN(plan->block, draft_.CompileList(path + ".block", launch.block(), context, Result::kInt));
    ASSIGN_OR_RETURN(plan->cluster, draft_.CompileList(path + ".cluster", launch.cluster(), context, Result::kInt));
    ASSIGN_OR_RETURN(
        plan->dynamic_shared_bytes,
        draft_.CompileOptional(path + ".dynamic_shared_bytes", launch.dynamic_shared_bytes(), context, Result::kInt));
    if (launch.arguments_size() > kLaunchArgumentsMax) {
      return FieldError(path + ".arguments", kLimitExceeded, "{} arguments are too many; at most {} are allowed",
                        launch.arguments_size(), kLaunchArgumentsMax);
    }
    for (int i = 0; i < launch.arguments_size(); ++i) {
      const std::string& name = launch.arguments(i);
      const std::string argument_path = fmt::format("{}.arguments[{}]", path, i);
      if (draft_.argument_names.count(name) == 0) {
        const std::vector<std::string> candidates(draft_.argument_names.begin(), draft_.argument_names.end());
        return FieldError(argument_path, kUnknownName, "there is no argument '{}'{}", name,
                          DidYouMean(name, candidates));
      }
      const BufferFormula* buffer = plan_.FindBuffer(name);
      if (buffer != nullptr && buffer->is_constant_symbol) {
        return FieldError(argument_path, kConflictingFields,
                          "'{}' is a constant symbol: the functions see it by its own name, it is not passed", name);
      }
      RETURN_IF_ERROR(CheckInputsOf(argument_path, sequence, name));
    }
    return absl::OkStatus();
  }

  // What the compiled kernel says is not written down again.
  static absl::Status CheckTritonLaunch(const std::string& path, const v1::KernelLaunch& launch) {
    struct Absent {
      std::string_view field;
      bool is_there;
      std::string_view instead;
    };
    for (const Absent& absent :
         {Absent{"block", launch.block_size() > 0, "a parameter named num_warps sets it"},
          Absent{"cluster", launch.cluster_size() > 0, "a parameter named num_ctas sets it"},
          Absent{"dynamic_shared_bytes", !launch.dynamic_shared_bytes().empty(), "Triton decides it"},
          Absent{"attributes", launch.has_attributes(),
                 "launch_cooperative_grid and launch_pdl are options of Triton, set by parameters of these names"}}) {
      if (!absent.is_there) continue;
      return FieldError(fmt::format("{}.{}", path, absent.field), kConflictingFields,
                        "the compiled kernel of LANGUAGE_TRITON says it ({}); leave it out", absent.instead);
    }
    return absl::OkStatus();
  }

  absl::Status CheckMemset(const std::string& path, Sequence sequence, const v1::Memset& memset) {
    ASSIGN_OR_RETURN(const BufferFormula* buffer, draft_.FindBuffer(path + ".buffer", memset.buffer()));
    if (buffer->access == v1::ACCESS_IN && sequence != Sequence::kPreparePerProblem) {
      return FieldError(path + ".buffer", kConflictingFields, "'{}' has ACCESS_IN, so no step may write it",
                        memset.buffer());
    }
    RETURN_IF_ERROR(CheckInputsOf(path + ".buffer", sequence, memset.buffer()));
    if (memset.byte() > 255)
      return FieldError(path + ".byte", kValueOutOfRange, "{} is not between 0 and 255", memset.byte());
    return absl::OkStatus();
  }

  absl::Status CheckLibraryOp(const std::string& path, Sequence sequence, v1::LibraryOp* op, StepFormula* plan) {
    if (!draft_.has_grids()) {
      return FieldError(path, kNotSupported,
                        "library operations need LANGUAGE_CUDA; write a function of your own instead");
    }
    if (op->op() == v1::LIBRARY_OP_KIND_UNSPECIFIED || !v1::LibraryOpKind_IsValid(op->op())) {
      return FieldError(path + ".op", kMissingField,
                        "a library operation needs its kind: LIBRARY_OP_KIND_GEMM, GEMM_LOOP or GEMM_GROUPED");
    }
    for (const auto& [field, name] : {std::pair{"a", &op->a()}, std::pair{"b", &op->b()}, std::pair{"c", &op->c()}}) {
      const std::string field_path = fmt::format("{}.{}", path, field);
      ASSIGN_OR_RETURN(const BufferFormula* buffer, draft_.FindBuffer(field_path, *name));
      if (buffer->type != v1::DATA_TYPE_UNSPECIFIED && !IsFloatType(buffer->type)) {
        return FieldError(field_path, kTypeMismatch, "'{}' is of type {}; a product needs floats", *name,
                          NameOf(buffer->type));
      }
      if (buffer->type == v1::DATA_TYPE_F8E4M3) {
        return FieldError(field_path, kNotSupported,
                          "'{}' is of type {}, which library operations do not multiply; write a kernel of your own",
                          *name, NameOf(buffer->type));
      }
      RETURN_IF_ERROR(CheckInputsOf(field_path, sequence, *name));
      if (name == &op->c() && buffer->access == v1::ACCESS_IN && sequence != Sequence::kPreparePerProblem) {
        return FieldError(field_path, kConflictingFields, "'{}' has ACCESS_IN, so no step may write it", *name);
      }
    }
    const bool grouped = op->op() != v1::LIBRARY_OP_KIND_GEMM;
    if (grouped) {
      ASSIGN_OR_RETURN(const BufferFormula* sizes, draft_.FindBuffer(path + ".group_sizes", op->group_sizes()));
      RETURN_IF_ERROR(CheckInputsOf(path + ".group_sizes", sequence, op->group_sizes()));
      if (sizes->type != v1::DATA_TYPE_I32 && sizes->type != v1::DATA_TYPE_I64) {
        return FieldError(path + ".group_sizes", kTypeMismatch, "'{}' must be of type i32 or i64", op->group_sizes());
      }
    } else if (!op->group_sizes().empty()) {
      return FieldError(path + ".group_sizes", kConflictingFields, "group sizes are for GEMM_LOOP and GEMM_GROUPED");
    }
    if (!v1::ComputeType_IsValid(op->compute_type())) {
      return FieldError(path + ".compute_type", kInvalidField, "the compute type is unknown");
    }
    if (op->compute_type() == v1::COMPUTE_TYPE_UNSPECIFIED) op->set_compute_type(v1::COMPUTE_TYPE_FP32);
    for (const auto& [field, text, formula] : {std::tuple{"m", &op->m(), &plan->m}, std::tuple{"n", &op->n(), &plan->n},
                                               std::tuple{"k", &op->k(), &plan->k}}) {
      const std::string field_path = fmt::format("{}.{}", path, field);
      if (text->empty() && (!grouped || formula == &plan->n)) {
        return FieldError(field_path, kMissingField, "an expression is missing");
      }
      ASSIGN_OR_RETURN(*formula,
                       draft_.CompileOptional(field_path, *text, Within(sequence, kConfigContext), Result::kInt));
    }
    if (grouped && op->m().empty() == op->k().empty()) {
      return FieldError(path + ".m", kConflictingFields,
                        "the groups divide m or k: leave that one out and give the other");
    }
    return absl::OkStatus();
  }

  PlanDraft& draft_;
  KernelPlanAccess::Impl& plan_;
  std::set<std::string, std::less<>> problem_prepare_names_;
};

}  // namespace

void CheckSteps(PlanDraft* draft) { StepChecker(draft).Check(); }

}  // namespace tunefarm::definition
