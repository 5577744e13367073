// A plan while its definition is being checked: what is known so far, and the compiler of its expressions. Private to
// this folder; used by one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/definition/plan_impl.h"
#include "server/expression/expression.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::definition {

// What an expression must give.
enum class Result { kInt, kNumber, kTruth, kString, kAny };

// Where an expression stands: what it may use, and how a message says so.
struct Context {
  Uses allowed = 0;
  std::string_view rule;
};
// Dims with inputs_only may be used in what makes and judges the inputs and outputs of a tuning, and nowhere else.
inline constexpr Context kDimsOnly = {kUsesDims | kUsesInputs, "only dims may be used here"};
inline constexpr Context kScratchLength = {kUsesDims | kUsesInputs | kUsesParameters | kUsesDevice,
                                           "only dims, parameters and device.* may be used here"};
inline constexpr Context kConfigContext = {kUsesDims | kUsesParameters | kUsesDevice,
                                           "kernel.* is known only after compiling, to launches and scalars"};
inline constexpr Context kLaunchContext = {kUsesDims | kUsesParameters | kUsesDevice | kUsesKernel, ""};

// The context with dims that have inputs_only.
constexpr Context WithInputs(Context context) { return {context.allowed | kUsesInputs, context.rule}; }

// Why a dim with inputs_only is refused.
inline constexpr std::string_view kInputsRule = "it describes test inputs, on which nothing that is tuned may depend";

struct PlanDraft {
  explicit PlanDraft(const tunefarm::v1::Kernel& definition);

  // Compiles one expression; empty text is a missing field.
  absl::StatusOr<Formula> CompileFormula(const std::string& path, const std::string& text, const Context& context,
                                         Result result) const;
  absl::StatusOr<std::optional<Formula>> CompileOptional(const std::string& path, const std::string& text,
                                                         const Context& context, Result result) const;
  template <typename List>
  absl::StatusOr<std::vector<Formula>> CompileList(const std::string& path, const List& texts, const Context& context,
                                                   Result result) const;
  // The first dim with inputs_only in the formula; empty if there is none.
  std::string InputsDimOf(const Formula& formula) const;
  // A buffer that is not a constant symbol, for the field at `path`, which names it.
  absl::StatusOr<const BufferFormula*> FindBuffer(const std::string& path, const std::string& name) const;

  // Keeps an error and returns whether there is none. Errors that only follow from one about `broken` are not kept:
  // unknown names that a definition gives to something else that is wrong.
  bool Note(const absl::Status& status);

  bool is_cuda() const { return plan->kernel.language() == tunefarm::v1::LANGUAGE_CUDA; }
  bool is_python() const { return plan->kernel.language() == tunefarm::v1::LANGUAGE_PYTHON; }
  bool is_triton() const { return plan->kernel.language() == tunefarm::v1::LANGUAGE_TRITON; }
  // Whether its steps are launches of grids.
  bool has_grids() const { return is_cuda() || is_triton(); }
  bool has_macros() const { return HasMacros(plan->kernel.language()); }
  bool is_on_gpu() const { return DeviceKindOf(plan->kernel) == DeviceKind::kCuda; }

  std::shared_ptr<KernelPlanAccess::Impl> plan;
  SymbolTable symbols;
  std::map<std::string, std::string, std::less<>> macros;  // of the sources: name to path
  std::set<std::string, std::less<>> argument_names;
  std::set<std::string, std::less<>> broken;  // names of dims, parameters, derived values and arguments with errors
  std::vector<absl::Status> errors;

 private:
  absl::Status CheckUses(const std::string& path, const Formula& formula, const Context& context) const;
  Uses UseOf(int slot) const;
};

template <typename List>
absl::StatusOr<std::vector<Formula>> PlanDraft::CompileList(const std::string& path, const List& texts,
                                                            const Context& context, Result result) const {
  std::vector<Formula> formulas;
  for (int i = 0; i < texts.size(); ++i) {
    auto formula = CompileFormula(path + "[" + std::to_string(i) + "]", texts.Get(i), context, result);
    if (!formula.ok()) return formula.status();
    formulas.push_back(*std::move(formula));
  }
  return formulas;
}

}  // namespace tunefarm::definition
