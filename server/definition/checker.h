// Checks a definition, writes its defaults out and compiles its expressions: the work of KernelPlan::Compile, in the
// order in which the fields depend on each other. The first error ends it. Private to this folder; used by one thread.
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

inline constexpr int kSourcesMax = 64;
inline constexpr size_t kSourcePathMax = 256;
inline constexpr size_t kSourceBytesMax = 4 << 20;
inline constexpr size_t kSourcesBytesMax = 8 << 20;

// What an expression must give.
enum class Result { kInt, kNumber, kTruth, kString, kAny };

// Where an expression stands: what it may use, and how a message says so.
struct Context {
  Uses allowed = 0;
  std::string_view rule;
};
inline constexpr Context kDimsOnly = {kUsesDims, "only dims may be used here"};
inline constexpr Context kScratchLength = {kUsesDims | kUsesParameters | kUsesDevice,
                                           "only dims, parameters and device.* may be used here"};
inline constexpr Context kConfigContext = {kUsesDims | kUsesParameters | kUsesDevice,
                                           "kernel.* is known only after compiling, to launches and scalars"};
inline constexpr Context kLaunchContext = {kUsesDims | kUsesParameters | kUsesDevice | kUsesKernel, ""};

// Whether the path may name a source: relative, '/' between its parts, none of them "." or "..".
absl::Status CheckSourcePath(std::string_view field, std::string_view path);

class Checker {
 public:
  using Impl = KernelPlanAccess::Impl;

  explicit Checker(const tunefarm::v1::Kernel& kernel);
  // Once.
  absl::StatusOr<std::shared_ptr<const Impl>> Run();

 private:
  // checker.cc
  absl::Status CheckHeader();
  absl::Status CheckSources();
  absl::Status CheckCompileOptions();
  absl::Status CheckConstraints();
  absl::Status CheckTolerance();
  absl::Status CheckOneTolerance(const std::string& path, tunefarm::v1::Tolerance* tolerance, ToleranceFormula* plan);
  absl::Status CheckResources();
  absl::Status CheckVerification();

  // name_checker.cc: dims, parameters and derived values, which share one name space.
  absl::Status CheckDims();
  absl::Status CheckDim(const std::string& path, tunefarm::v1::Dim* dim);
  absl::Status CheckDimValues(const std::string& path, tunefarm::v1::Dim* dim, DimPlan* plan);
  absl::Status CheckDimLookup(const std::string& path, tunefarm::v1::Dim* dim, const DimPlan& plan);
  absl::Status CheckParameters();
  absl::Status CheckParameter(const std::string& path, tunefarm::v1::Parameter* parameter);
  absl::Status CheckLookup();
  absl::Status CheckStartingConfigs();
  absl::Status CheckDerived();
  absl::Status AddName(const std::string& path, const std::string& name, std::string_view what);
  absl::Status AddMacro(const std::string& path, const std::string& name, const std::vector<Value>& values);
  absl::Status AddDeviceNames();

  // argument_checker.cc
  absl::Status CheckArguments();
  absl::Status CheckBuffer(const std::string& path, const std::string& name, tunefarm::v1::Buffer* buffer);
  absl::Status CheckConstantSymbol(const std::string& path, const std::string& name,
                                   tunefarm::v1::ConstantSymbol* symbol);
  absl::Status CheckScalar(const std::string& path, const std::string& name, tunefarm::v1::Scalar* scalar);
  absl::Status CheckTensorMap(const std::string& path, const std::string& name, tunefarm::v1::TensorMap* map);
  absl::Status CheckFill(const std::string& path, tunefarm::v1::DataType type, tunefarm::v1::Fill* fill);
  absl::Status CheckBufferContent(const std::string& path, tunefarm::v1::Buffer* buffer);
  absl::Status CheckTypeDim(const std::string& path, const std::string& name);

  // step_checker.cc
  absl::Status CheckSteps();
  absl::Status CheckStep(const std::string& path, Sequence sequence, tunefarm::v1::Step* step);
  absl::Status CheckLaunch(const std::string& path, const tunefarm::v1::KernelLaunch& launch, StepFormula* plan);
  absl::Status CheckMemset(const std::string& path, Sequence sequence, const tunefarm::v1::Memset& memset);
  absl::Status CheckLibraryOp(const std::string& path, Sequence sequence, tunefarm::v1::LibraryOp* op,
                              StepFormula* plan);
  absl::Status CheckFillSteps();
  absl::StatusOr<const BufferFormula*> FindBuffer(const std::string& path, const std::string& name) const;

  // python_checker.cc
  absl::Status CheckPython();
  absl::Status CheckBindOfPython(const std::string& path, tunefarm::v1::Bind bind) const;

  // device_rules.cc
  absl::Status MakeDeviceRules();
  absl::Status AddLaunchRules(Sequence sequence, const StepFormula& step);
  absl::Status AddDeviceRule(const std::string& path, DeviceRule rule, const std::string& guard);

  // Compiles one expression; empty text is a missing field.
  absl::StatusOr<Formula> CompileFormula(const std::string& path, const std::string& text, const Context& context,
                                         Result result) const;
  absl::StatusOr<std::optional<Formula>> CompileOptional(const std::string& path, const std::string& text,
                                                         const Context& context, Result result) const;
  template <typename List>
  absl::StatusOr<std::vector<Formula>> CompileList(const std::string& path, const List& texts, const Context& context,
                                                   Result result) const;
  absl::Status CheckUses(const std::string& path, const Formula& formula, const Context& context) const;
  Uses UsesOf(const Expression& expression) const;

  bool is_cuda() const { return kernel().language() == tunefarm::v1::LANGUAGE_CUDA; }
  bool is_python() const { return kernel().language() == tunefarm::v1::LANGUAGE_PYTHON; }
  bool is_on_gpu() const { return DeviceKindOf(kernel()) == DeviceKind::kCuda; }
  const tunefarm::v1::Kernel& kernel() const { return impl_->kernel; }

  std::shared_ptr<Impl> impl_;
  SymbolTable symbols_;
  std::map<std::string, std::string, std::less<>> names_;   // dims, parameters, derived: name to path
  std::map<std::string, std::string, std::less<>> macros_;  // of the sources: name to path
  std::set<std::string, std::less<>> argument_names_;
  std::set<std::string, std::less<>> problem_prepare_names_;
};

template <typename List>
absl::StatusOr<std::vector<Formula>> Checker::CompileList(const std::string& path, const List& texts,
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
