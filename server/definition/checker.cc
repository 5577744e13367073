#include "server/definition/checker.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>

#include "server/base/status_macros.h"
#include "server/definition/canonical_digest.h"
#include "server/definition/compile_options.h"
#include "server/definition/field_error.h"
#include "server/definition/macro_rules.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr size_t kDescriptionMax = 4096;
constexpr size_t kReasonMax = 256;
constexpr int kOptionsMax = 64;
constexpr int kLookupDistanceMax = 64;
constexpr size_t kOptionBytesMax = 256;
constexpr int kConstraintsMax = 128;
constexpr int kConditionalTolerancesMax = 32;
constexpr size_t kSourcePathMax = 256;
constexpr size_t kSourceNameMax = 255;  // of a file system
constexpr size_t kSourceBytesMax = 4 << 20;

bool IsDisplayName(std::string_view name) {
  return IsIdentifier(name) && name.front() >= 'a' && name.front() <= 'z' &&
         std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

class Checker {
 public:
  explicit Checker(const v1::Kernel& kernel) : draft_(kernel), plan_(*draft_.plan) {}

  absl::StatusOr<std::shared_ptr<const KernelPlanAccess::Impl>> Run(std::vector<absl::Status>* errors) {
    draft_.Note(CheckHeader());
    // What a definition may have depends on its language.
    if (draft_.Note(CheckLanguage())) CheckBody();
    if (!draft_.errors.empty()) {
      absl::Status first = draft_.errors.front();
      if (errors != nullptr) errors->insert(errors->end(), draft_.errors.begin(), draft_.errors.end());
      return first;
    }
    plan_.program_digest = ProgramDigest(plan_.kernel);
    plan_.kernel_id = KernelId(plan_.kernel);
    plan_.kernel.set_program_digest(plan_.program_digest);
    plan_.kernel.set_name("kernels/" + plan_.kernel_id);
    return std::shared_ptr<const KernelPlanAccess::Impl>(draft_.plan);
  }

 private:
  void CheckBody() {
    draft_.Note(CheckSources());
    // A module's name is taken from the sources.
    if (plan_.kernel.sources_size() > 0) {
      draft_.Note(CheckPython(&plan_.kernel));
      draft_.Note(CheckTriton(plan_.kernel));
    }
    draft_.Note(CheckLookup());
    CheckNames(&draft_);
    draft_.Note(CheckCompileOptions());
    CheckConstraints();
    if (draft_.errors.empty() && draft_.has_macros()) CheckDerivedTexts(&draft_);
    CheckArguments(&draft_);
    CheckExpectedFiles(&draft_);
    CheckSteps(&draft_);
    draft_.Note(CheckVerification());
    draft_.Note(CheckTolerance());
    draft_.Note(CheckResources());
    if (draft_.errors.empty()) draft_.Note(MakeDeviceRules(&draft_));
  }

  absl::Status CheckHeader() {
    const v1::Kernel& kernel = plan_.kernel;
    if (kernel.display_name().empty()) {
      return FieldError("display_name", kMissingField, "a kernel needs a name, like \"matmul\"");
    }
    if (!IsDisplayName(kernel.display_name())) {
      return FieldError("display_name", kInvalidField,
                        "'{}' is not a kernel name; write [a-z][a-z0-9_]*, at most 63 characters",
                        kernel.display_name().substr(0, 64));
    }
    if (kernel.description().size() > kDescriptionMax) {
      return FieldError("description", kLimitExceeded, "the description has {} bytes; at most {} are allowed",
                        kernel.description().size(), kDescriptionMax);
    }
    return absl::OkStatus();
  }

  absl::Status CheckLanguage() {
    const v1::Kernel& kernel = plan_.kernel;
    switch (kernel.language()) {
      case v1::LANGUAGE_CUDA:
      case v1::LANGUAGE_HOST_CXX:
      case v1::LANGUAGE_PYTHON:
      case v1::LANGUAGE_TRITON:
        return absl::OkStatus();
      case v1::LANGUAGE_UNSPECIFIED:
        return FieldError(
            "language", kMissingField,
            "a kernel needs a language: LANGUAGE_CUDA, LANGUAGE_HOST_CXX, LANGUAGE_PYTHON or LANGUAGE_TRITON");
      default:
        return FieldError(
            "language", kInvalidField,
            "language {} is unknown; write LANGUAGE_CUDA, LANGUAGE_HOST_CXX, LANGUAGE_PYTHON or LANGUAGE_TRITON",
            static_cast<int>(kernel.language()));
    }
  }

  absl::Status CheckSources() {
    const v1::Kernel& kernel = plan_.kernel;
    if (kernel.sources_size() == 0) {
      return FieldError("sources", kMissingField, "a kernel needs a source; the first is the one that is compiled");
    }
    if (kernel.sources_size() > kSourcesMax) {
      return FieldError("sources", kLimitExceeded, "{} sources are too many; at most {} are allowed",
                        kernel.sources_size(), kSourcesMax);
    }
    std::set<std::string_view> paths;
    size_t total = 0;
    for (int i = 0; i < kernel.sources_size(); ++i) {
      const v1::SourceFile& source = kernel.sources(i);
      const std::string path = fmt::format("sources[{}]", i);
      RETURN_IF_ERROR(CheckSourcePath(path + ".path", source.path()));
      if (!paths.insert(source.path()).second) {
        return FieldError(path + ".path", kDuplicateName, "the source '{}' is listed twice", source.path());
      }
      if (source.content().empty()) {
        return FieldError(path + ".content", kMissingField, "the source '{}' has no content", source.path());
      }
      if (source.content().size() > kSourceBytesMax) {
        return FieldError(path + ".content", kLimitExceeded, "the source '{}' has {} bytes; at most {} are allowed",
                          source.path(), source.content().size(), kSourceBytesMax);
      }
      total += source.content().size();
    }
    for (int i = 0; i < kernel.sources_size(); ++i) {
      const std::string& path = kernel.sources(i).path();
      for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        if (paths.count(std::string_view(path).substr(0, slash)) == 0) continue;
        return FieldError(fmt::format("sources[{}].path", i), kConflictingFields,
                          "'{}' lies in a folder of the name of the source '{}'; rename one of them", path,
                          path.substr(0, slash));
      }
    }
    if (total > kSourcesBytesMax) {
      return FieldError("sources", kLimitExceeded, "the sources have {} bytes together; at most {} are allowed", total,
                        kSourcesBytesMax);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCompileOptions() {
    const v1::Kernel& kernel = plan_.kernel;
    if (draft_.is_triton()) return absl::OkStatus();  // It has none: see CheckTriton.
    if (kernel.compile_options_size() > kOptionsMax) {
      return FieldError("compile_options", kLimitExceeded, "{} options are too many; at most {} are allowed",
                        kernel.compile_options_size(), kOptionsMax);
    }
    for (int i = 0; i < kernel.compile_options_size(); ++i) {
      const std::string& option = kernel.compile_options(i);
      const std::string path = fmt::format("compile_options[{}]", i);
      if (option.size() > kOptionBytesMax) {
        return FieldError(path, kLimitExceeded, "the option has {} bytes; at most {} are allowed", option.size(),
                          kOptionBytesMax);
      }
      if (const absl::Status status = CheckCompileOption(kernel.language(), option); !status.ok()) {
        return FieldError(path, kOptionNotAllowed, "{}", MessageOf(status));
      }
      if (option.compare(0, 2, "-D") != 0) continue;
      const std::string macro = option.substr(2, option.find('=') - 2);
      if (const auto taken = draft_.macros.find(macro); taken != draft_.macros.end()) {
        return FieldError(path, kDuplicateName, "the macro '{}' is already given a value by {}", macro, taken->second);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckLookup() {
    const double distance_max = plan_.kernel.lookup_distance_max();
    if (distance_max >= 0 && distance_max <= kLookupDistanceMax) return absl::OkStatus();  // false for a NaN, too
    return FieldError("lookup_distance_max", kValueOutOfRange, "{} is not from 0 to {}", distance_max,
                      kLookupDistanceMax);
  }

  void CheckConstraints() {
    const v1::Kernel& kernel = plan_.kernel;
    if (kernel.constraints_size() > kConstraintsMax) {
      draft_.Note(FieldError("constraints", kLimitExceeded, "{} constraints are too many; at most {} are allowed",
                             kernel.constraints_size(), kConstraintsMax));
      return;
    }
    for (int i = 0; i < kernel.constraints_size(); ++i) {
      draft_.Note(CheckConstraint(fmt::format("constraints[{}]", i), kernel.constraints(i)));
    }
  }

  absl::Status CheckConstraint(const std::string& path, const v1::Constraint& constraint) {
    ASSIGN_OR_RETURN(Formula formula, draft_.CompileFormula(path + ".expression", constraint.expression(),
                                                            kConfigContext, Result::kTruth));
    plan_.constraints.push_back(std::move(formula));
    if (constraint.reason().size() > kReasonMax) {
      return FieldError(path + ".reason", kLimitExceeded, "the reason has {} bytes; at most {} are allowed",
                        constraint.reason().size(), kReasonMax);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOneTolerance(const std::string& path, v1::Tolerance* tolerance, ToleranceFormula* plan) {
    struct Number {
      std::string_view field;
      double value;
      double highest;
    };
    constexpr double kAny = std::numeric_limits<double>::max();
    for (const Number& number : {Number{"atol", tolerance->atol(), kAny}, Number{"rtol", tolerance->rtol(), kAny},
                                 Number{"max_mismatch_fraction", tolerance->max_mismatch_fraction(), 1},
                                 Number{"catastrophic_bound", tolerance->catastrophic_bound(), kAny},
                                 Number{"row_norm_bound", tolerance->row_norm_bound(), kAny}}) {
      if (!(number.value >= 0) || number.value > number.highest) {
        return FieldError(fmt::format("{}.{}", path, number.field), kValueOutOfRange, "{} is not {}", number.value,
                          number.highest == 1 ? "between 0 and 1" : "a finite number of at least 0");
      }
    }
    if ((tolerance->row_norm_bound() > 0) != !tolerance->row_length().empty()) {
      const std::string_view field = tolerance->row_length().empty() ? "row_length" : "row_norm_bound";
      return FieldError(fmt::format("{}.{}", path, field), kMissingField,
                        "row_norm_bound and row_length need each other; set both or none");
    }
    plan->fixed.atol = tolerance->atol();
    plan->fixed.rtol = tolerance->rtol();
    plan->fixed.max_mismatch_fraction = tolerance->max_mismatch_fraction();
    plan->fixed.catastrophic_bound = tolerance->catastrophic_bound();
    plan->fixed.row_norm_bound = tolerance->row_norm_bound();
    ASSIGN_OR_RETURN(plan->row_length,
                     draft_.CompileOptional(path + ".row_length", tolerance->row_length(), kDimsOnly, Result::kInt));
    return absl::OkStatus();
  }

  absl::Status CheckTolerance() {
    if (!plan_.kernel.has_tolerance()) {
      plan_.kernel.mutable_tolerance()->set_atol(TolerancePlan().atol);
      plan_.kernel.mutable_tolerance()->set_rtol(TolerancePlan().rtol);
    }
    v1::Tolerance* tolerance = plan_.kernel.mutable_tolerance();
    if (tolerance->conditional_size() > kConditionalTolerancesMax) {
      return FieldError("tolerance.conditional", kLimitExceeded,
                        "{} conditional tolerances are too many; at most {} are allowed", tolerance->conditional_size(),
                        kConditionalTolerancesMax);
    }
    for (int i = 0; i < tolerance->conditional_size(); ++i) {
      v1::ConditionalTolerance* conditional = tolerance->mutable_conditional(i);
      const std::string path = fmt::format("tolerance.conditional[{}]", i);
      ToleranceFormula plan;
      ASSIGN_OR_RETURN(Formula when,
                       draft_.CompileFormula(path + ".when", conditional->when(), kDimsOnly, Result::kTruth));
      plan.when = std::move(when);
      if (!conditional->has_tolerance()) {
        return FieldError(path + ".tolerance", kMissingField, "a conditional tolerance needs its tolerance");
      }
      conditional->mutable_tolerance()->clear_conditional();
      RETURN_IF_ERROR(CheckOneTolerance(path + ".tolerance", conditional->mutable_tolerance(), &plan));
      plan_.tolerances.push_back(std::move(plan));
    }
    ToleranceFormula general;
    RETURN_IF_ERROR(CheckOneTolerance("tolerance", tolerance, &general));
    plan_.tolerances.push_back(std::move(general));
    return absl::OkStatus();
  }

  absl::Status CheckResources() {
    v1::Kernel& kernel = plan_.kernel;
    constexpr Context kWork = WithInputs(kConfigContext);
    ASSIGN_OR_RETURN(plan_.flops, draft_.CompileOptional("flops", kernel.flops(), kWork, Result::kNumber));
    ASSIGN_OR_RETURN(plan_.bytes, draft_.CompileOptional("bytes", kernel.bytes(), kWork, Result::kNumber));
    ASSIGN_OR_RETURN(plan_.flops_unit,
                     draft_.CompileOptional("flops_unit", kernel.flops_unit(), kDimsOnly, Result::kString));
    if (!kernel.has_resources()) return absl::OkStatus();
    v1::ResourceEstimate* resources = kernel.mutable_resources();
    if (!draft_.is_on_gpu() && resources->ByteSizeLong() > 0) {
      return FieldError("resources", kConflictingFields, "resources are those of a GPU; leave them out for {}",
                        draft_.is_python() ? "Python on the host" : "LANGUAGE_HOST_CXX");
    }
    ASSIGN_OR_RETURN(plan_.registers_per_thread,
                     draft_.CompileOptional("resources.registers_per_thread", resources->registers_per_thread(),
                                            kConfigContext, Result::kInt));
    ASSIGN_OR_RETURN(plan_.static_shared_bytes,
                     draft_.CompileOptional("resources.static_shared_bytes", resources->static_shared_bytes(),
                                            kConfigContext, Result::kInt));
    const int lowest = resources->min_compute_capability();
    const int exact = resources->exact_compute_capability();
    for (const auto& [field, value] :
         {std::pair<std::string_view, int>{"min_compute_capability", lowest}, {"exact_compute_capability", exact}}) {
      if (value != 0 && (value < 30 || value > 999)) {
        return FieldError(fmt::format("resources.{}", field), kValueOutOfRange,
                          "{} is no compute capability times ten; write 80 for 8.0", value);
      }
    }
    if (lowest != 0 && exact != 0 && exact < lowest) {
      return FieldError("resources.exact_compute_capability", kConflictingFields,
                        "{} is below min_compute_capability {}; no device can satisfy both", exact, lowest);
    }
    if (exact != 0) resources->set_architecture_specific(true);
    return absl::OkStatus();
  }

  absl::Status CheckVerification() {
    const v1::Kernel& kernel = plan_.kernel;
    if (kernel.unverified_reason().size() > kNoteMax) {
      return FieldError("unverified_reason", kLimitExceeded, "the reason has {} bytes; at most {} are allowed",
                        kernel.unverified_reason().size(), kNoteMax);
    }
    if (draft_.is_python()) return absl::OkStatus();  // Its module gives what the outputs must equal.
    if (!kernel.has_reference()) {
      if (!kernel.unverified_reason().empty()) return absl::OkStatus();
      return FieldError("reference", kMissingField,
                        "a kernel needs a reference that says what its outputs must equal, or an unverified_reason");
    }
    if (!kernel.unverified_reason().empty()) {
      return FieldError("unverified_reason", kConflictingFields, "there is a reference; leave one of the two out");
    }
    // From the definition: a buffer with an error is not among the plan's.
    for (const v1::Argument& argument : kernel.arguments()) {
      const v1::Access access = argument.buffer().access();
      if (access == v1::ACCESS_OUT || access == v1::ACCESS_INOUT) return absl::OkStatus();
    }
    return FieldError("arguments", kMissingField,
                      "no buffer has ACCESS_OUT or ACCESS_INOUT, so there is nothing to verify against the reference");
  }

  PlanDraft draft_;
  KernelPlanAccess::Impl& plan_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const KernelPlanAccess::Impl>> CheckDefinition(const v1::Kernel& kernel,
                                                                              std::vector<absl::Status>* errors) {
  return Checker(kernel).Run(errors);
}

absl::Status CheckSourcePath(std::string_view field, std::string_view path) {
  if (path.empty()) return FieldError(field, kMissingField, "a source needs a path");
  if (path.size() > kSourcePathMax) {
    return FieldError(field, kLimitExceeded, "the path has {} bytes; at most {} are allowed", path.size(),
                      kSourcePathMax);
  }
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) {
      return FieldError(field, kInvalidField,
                        "the path has a control character or a backslash; separate parts with '/'");
    }
  }
  std::string_view rest = path;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return FieldError(
          field, kInvalidField,
          "the path '{}' is not plain; write it relative to the definition, without '.', '..' or empty parts", path);
    }
    if (part.size() > kSourceNameMax) {
      return FieldError(field, kLimitExceeded, "a part of the path has {} bytes; at most {} are allowed", part.size(),
                        kSourceNameMax);
    }
    if (slash == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace tunefarm::definition
