// JSON to T1: the budget, the kernel and its launch. The space is read in t1_space_reader.cc, arguments in
// t1_argument_reader.cc.
#include "server/interchange/t1_reader.h"

#include <cmath>
#include <map>
#include <utility>

#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"

namespace tunefarm::interchange {
namespace {

class Reader {
 public:
  explicit Reader(T1* t1) : t1_(t1) {}

  absl::Status Run() {
    const JsonRef root = t1_->document->root();
    ASSIGN_OR_RETURN(const JsonRef space, Required(root, "ConfigurationSpace"));
    RETURN_IF_ERROR(ReadT1Space(space, t1_));
    if (const auto general = root.Find("General"); general.has_value()) {
      if (const auto name = general->Find("BenchmarkName"); name.has_value() && name->is_string())
        t1_->benchmark_name = name->text();
    }
    RETURN_IF_ERROR(ReadBudget(root));
    if (const auto search = root.Find("Search"); search.has_value()) {
      ASSIGN_OR_RETURN(const std::string name, RequiredText(*search, "Name"));
      t1_->notes.push_back(
          fmt::format("Search '{}' is not taken over; tunefarm tune has --strategy.", name.substr(0, 64)));
    }
    ASSIGN_OR_RETURN(const JsonRef kernel, Required(root, "KernelSpecification"));
    return ReadKernel(kernel);
  }

 private:
  absl::Status ReadBudget(const JsonRef& root) {
    const std::optional<JsonRef> budget = root.Find("Budget");
    if (!budget.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(NeedArray(*budget));
    for (const JsonRef& entry : budget->Children()) {
      ASSIGN_OR_RETURN(const JsonRef type, Required(entry, "Type"));
      static const std::map<std::string, int, std::less<>> kTypes = {
          {"TuningDuration", 0}, {"ConfigurationCount", 1}, {"ConfigurationFraction", 2}};
      ASSIGN_OR_RETURN(const int kind, OneOf(type, kTypes));
      ASSIGN_OR_RETURN(const JsonRef value, Required(entry, "BudgetValue"));
      if (!value.is_number() || !(value.number() >= 0) || value.number() > 1e12)
        return value.Error(kBadField, "this is not a number from 0 to 10^12");
      if (kind == 2) {
        t1_->notes.push_back(fmt::format(
            "The budget of {} of the configs has no counterpart; tunefarm tune has --max-trials.", value.number()));
        continue;
      }
      t1_->budget_options +=
          fmt::format("{}--max-{} {}", t1_->budget_options.empty() ? "" : " ", kind == 0 ? "seconds" : "trials",
                      static_cast<int64_t>(std::ceil(value.number())));
    }
    return absl::OkStatus();
  }

  absl::Status ReadKernel(const JsonRef& kernel) {
    ASSIGN_OR_RETURN(const JsonRef language, Required(kernel, "Language"));
    static const std::map<std::string, T1::Language, std::less<>> kLanguages = {
        {"CUDA", T1::Language::kCuda},
        {"OpenCL", T1::Language::kOpenCl},
        {"Vulkan", T1::Language::kVulkan},
        {"Hypertuner", T1::Language::kHypertuner}};
    ASSIGN_OR_RETURN(t1_->language, OneOf(language, kLanguages));
    t1_->language_ref = language;
    ASSIGN_OR_RETURN(t1_->kernel_name, RequiredText(kernel, "KernelName"));
    // A hypertuner has no kernel.
    if (t1_->language != T1::Language::kHypertuner || kernel.Find("KernelFile").has_value()) {
      ASSIGN_OR_RETURN(t1_->kernel_file, RequiredText(kernel, "KernelFile"));
      t1_->kernel_file_ref = kernel.Find("KernelFile");
    }
    if (const auto options = kernel.Find("CompilerOptions"); options.has_value()) {
      RETURN_IF_ERROR(NeedArray(*options));
      for (const JsonRef& option : options->Children()) {
        if (!option.is_string())
          return option.Error(kBadField, "a string is needed here, not {}", JsonKindName(option.kind()));
        if (!option.text().empty()) t1_->compile_options.emplace_back(option, option.text());
      }
    }
    if (const auto shared = kernel.Find("SharedMemory"); shared.has_value()) {
      if (!shared->is_int() || shared->int_value() < 0)
        return shared->Error(kBadField, "a number of bytes is needed here");
      t1_->shared_memory = shared->int_value();
    }
    RETURN_IF_ERROR(ReadLaunch(kernel));
    return ReadT1Arguments(kernel, t1_);
  }

  absl::Status ReadLaunch(const JsonRef& kernel) {
    static constexpr const char* kAxes[] = {"X", "Y", "Z"};
    if (const auto size = kernel.Find("ProblemSize"); size.has_value()) {
      std::vector<JsonRef> entries = {*size};
      if (size->is_array()) entries = size->Children();
      if (entries.empty() || entries.size() > 3)
        return size->Error(kBadField, "a problem has 1 to 3 sizes, not {}", entries.size());
      for (const JsonRef& entry : entries) {
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(entry));
        t1_->problem_size.push_back(std::move(text));
      }
    }
    for (int axis = 0; axis < 3; ++axis) {
      const auto divisors = kernel.Find(std::string("GridDiv") + kAxes[axis]);
      if (!divisors.has_value()) continue;
      t1_->has_grid_div = true;
      std::vector<JsonRef> entries = {*divisors};
      if (divisors->is_array()) entries = divisors->Children();
      for (const JsonRef& entry : entries) {
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(entry));
        t1_->grid_div[axis].push_back(std::move(text));
      }
    }
    for (const auto& [key, sizes] :
         {std::pair{"GlobalSize", t1_->global_size}, std::pair{"LocalSize", t1_->local_size}}) {
      const auto object = kernel.Find(key);
      if (!object.has_value()) continue;
      if (!object->is_object())
        return object->Error(kBadField, "an object is needed here, not {}", JsonKindName(object->kind()));
      for (int axis = 0; axis < 3; ++axis) {
        const auto entry = object->Find(kAxes[axis]);
        if (!entry.has_value()) continue;
        ASSIGN_OR_RETURN(T1Text text, TextOrInt(*entry));
        sizes[axis] = std::move(text);
      }
    }
    if (const auto type = kernel.Find("GlobalSizeType"); type.has_value()) {
      static const std::map<std::string, T1::GlobalSizeType, std::less<>> kTypes = {
          {"CUDA", T1::GlobalSizeType::kBlocks},
          {"Vulkan", T1::GlobalSizeType::kBlocks},
          {"OpenCL", T1::GlobalSizeType::kThreads}};
      ASSIGN_OR_RETURN(t1_->global_size_type, OneOf(*type, kTypes));
    } else if (t1_->language == T1::Language::kOpenCl) {
      t1_->global_size_type = T1::GlobalSizeType::kThreads;
    }
    t1_->is_kernel_tuner = !t1_->problem_size.empty() && (t1_->has_grid_div || !t1_->global_size[0].has_value());
    if (t1_->language != T1::Language::kHypertuner && !t1_->is_kernel_tuner && !t1_->global_size[0].has_value()) {
      return kernel.Error(kBadField, "there is neither \"ProblemSize\" nor a \"GlobalSize\" with \"X\"");
    }
    return absl::OkStatus();
  }

  T1* const t1_;
};

}  // namespace

// A size: Python text, or a number.
absl::StatusOr<T1Text> TextOrInt(const JsonRef& ref) {
  if (ref.is_string()) return T1Text{ref, ref.text()};
  if (ref.is_int()) return T1Text{ref, std::to_string(ref.int_value())};
  return ref.Error(kBadField, "an integer or an expression is needed here, not {}", JsonKindName(ref.kind()));
}

absl::Status NeedIdentifier(const JsonRef& ref) {
  if (definition::IsIdentifier(ref.text())) return absl::OkStatus();
  return ref.Error(kBadField, "'{}' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most 63 characters",
                   ref.text().substr(0, 64));
}

absl::StatusOr<T1> ReadT1(std::string text, std::string file_name) {
  T1 t1;
  ASSIGN_OR_RETURN(t1.document, JsonDocument::Parse(std::move(text), std::move(file_name)));
  RETURN_IF_ERROR(Reader(&t1).Run());
  return t1;
}

}  // namespace tunefarm::interchange
