#include "client/cli/sketch/signature_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "client/cli/output.h"
#include "client/cli/sketch/source_signature.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kMismatchesMax = 20;
constexpr std::string_view kTypePrefix = "DATA_TYPE_";

// A kernel of one signature.
struct Found {
  SourceFunction function;
  const v1::SourceFile* source = nullptr;
};

std::string UpperName(v1::DataType type) { return v1::DataType_Name(type).substr(kTypePrefix.size()); }

// Whether a kernel that reads `read` may be meant to be given `passed`.
bool IsReadable(v1::DataType read, v1::DataType passed, bool is_pointer) {
  if (read == passed) return true;
  // Anything may be read as bytes, and bytes may be given as F8E4M3.
  if (is_pointer && SizeOf(read) == 1 && (!IsFloatType(read) || SizeOf(passed) == 1)) return true;
  if (SizeOf(read) != SizeOf(passed)) return false;
  // C++ for the CPU has no floats below 4 bytes: integers take their bits.
  return !IsFloatType(read) && (is_pointer || !IsFloatType(passed) || SizeOf(passed) < sizeof(float));
}

std::string TypeText(const SourceArgument& argument) {
  return argument.type + std::string(static_cast<size_t>(argument.pointers), '*');
}

class SignatureCheck {
 public:
  SignatureCheck(const v1::Kernel& kernel, const std::string& folder) : folder_(folder) {
    for (const v1::Argument& argument : kernel.arguments()) arguments_[argument.name()] = &argument;
    std::set<std::string> seen, overloaded;
    for (const v1::SourceFile& source : kernel.sources()) {
      SourceSignature signature = ReadSignature(source.content(), kernel.language() == v1::LANGUAGE_CUDA);
      for (SourceFunction& function : signature.functions) {
        const std::string name = function.name;
        // Also one of several that conditions choose from.
        if (!seen.insert(name).second) overloaded.insert(name);
        functions_[name] = {std::move(function), &source};
      }
    }
    for (const std::string& name : overloaded) functions_.erase(name);
  }

  void Check(const v1::Step& step) {
    if (!step.has_kernel()) return;
    // "ns::scale<float, 4>"
    std::string name = step.kernel().entry().substr(0, step.kernel().entry().find('<'));
    if (const size_t colons = name.rfind("::"); colons != std::string::npos) name = name.substr(colons + 2);
    const auto found = functions_.find(name);
    if (found != functions_.end()) CheckLaunch(step.kernel(), found->second);
  }

  std::vector<std::string> TakeMismatches() { return std::move(mismatches_); }

 private:
  void CheckLaunch(const v1::KernelLaunch& launch, const Found& found) {
    const std::vector<SourceArgument>& taken = found.function.arguments;
    // Conditions choose among its arguments.
    if (static_cast<int>(taken.size()) != launch.arguments_size()) return;
    for (int i = 0; i < launch.arguments_size(); ++i) {
      const auto passed = arguments_.find(launch.arguments(i));
      if (passed == arguments_.end()) continue;
      CheckArgument(*passed->second, taken[static_cast<size_t>(i)], found);
    }
  }

  void CheckArgument(const v1::Argument& passed, const SourceArgument& taken, const Found& found) {
    const bool is_buffer = passed.has_buffer();
    if (is_buffer != taken.is_pointer() || (!is_buffer && !passed.has_scalar())) return;
    const v1::DataType type = is_buffer ? passed.buffer().data_type() : passed.scalar().data_type();
    v1::DataType read = v1::DATA_TYPE_UNSPECIFIED;
    if (type == v1::DATA_TYPE_UNSPECIFIED || !v1::DataType_IsValid(type) ||
        !v1::DataType_Parse(std::string(kTypePrefix) + taken.data_type(), &read) || IsReadable(read, type, is_buffer)) {
      return;
    }
    Add(*found.source, taken.offset,
        fmt::format("{} of {} is {}, but the definition passes {} of {} as '{}'; one of them has to be changed",
                    Visible(taken.name), Visible(found.function.name), Visible(TypeText(taken)),
                    is_buffer ? "a buffer" : "a scalar", UpperName(type), Visible(passed.name())));
  }

  void Add(const v1::SourceFile& source, size_t offset, const std::string& what) {
    const std::string_view before = std::string_view(source.content()).substr(0, offset);
    const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    const std::string mismatch =
        fmt::format("{}{}{}:{}:{}: {}", folder_, folder_.empty() || folder_.back() == '/' ? "" : "/", source.path(),
                    std::count(before.begin(), before.end(), '\n') + 1, offset - line_start + 1, what);
    // Several steps launch the same kernel.
    const bool is_known = std::find(mismatches_.begin(), mismatches_.end(), mismatch) != mismatches_.end();
    if (!is_known && mismatches_.size() < kMismatchesMax) mismatches_.push_back(mismatch);
  }

  const std::string folder_;
  std::map<std::string, const v1::Argument*> arguments_;
  std::map<std::string, Found> functions_;
  std::vector<std::string> mismatches_;
};

}  // namespace

std::vector<std::string> SignatureMismatches(const v1::Kernel& kernel, const std::string& folder) {
  if (kernel.language() != v1::LANGUAGE_CUDA && kernel.language() != v1::LANGUAGE_HOST_CXX) return {};
  SignatureCheck check(kernel, folder);
  for (const v1::PrepareStep& prepare : kernel.prepare()) check.Check(prepare.step());
  for (const v1::Step& step : kernel.launches()) check.Check(step);
  for (const v1::Step& step : kernel.reference().steps()) check.Check(step);
  for (const v1::Step& step : kernel.baseline().steps()) check.Check(step);
  return check.TakeMismatches();
}

}  // namespace tunefarm::cli
