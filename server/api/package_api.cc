#include "server/api/package_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread_pool.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/lookup_rules.h"
#include "server/device/device_class.h"
#include "server/interchange/best_selection.h"
#include "server/interchange/exported_best.h"
#include "server/package/package_writer.h"

namespace tunefarm {
namespace {

using interchange::ExportedBest;

constexpr int kBestsMax = 10'000;
constexpr int kDefinitionsMax = 64;
constexpr int kDimsMax = 64;
constexpr int kDimValuesMax = 10'000;
constexpr int kCatalogPage = 1000;
// The file, the binaries that it is made of and a copy of them are in memory at once.
constexpr uint64_t kPackageBinariesBytesMax = 128ull << 20;
constexpr Duration kTimeMax = std::chrono::minutes(30);
constexpr size_t kCompilesAtOnce = 4;
constexpr size_t kLeftOutMax = 1000;
constexpr size_t kSentenceBytesMax = 1024;
constexpr int kShownValuesMax = 4;

// At most so many bytes, none of them part of a character.
std::string Shortened(std::string text) {
  if (text.size() <= kSentenceBytesMax) return text;
  size_t end = kSentenceBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

absl::Status CheckCounts(const v1::ExportPackageRequest& request) {
  const auto refused = [](int count, std::string_view what, int most) {
    return WithReason(InvalidArgument("{} {} are too many; at most {} are taken", count, what, most), "TOO_MANY_BESTS");
  };
  if (request.bests_size() > kBestsMax) return refused(request.bests_size(), "bests", kBestsMax);
  if (request.definitions_size() > kDefinitionsMax) {
    return refused(request.definitions_size(), "definitions", kDefinitionsMax);
  }
  if (request.dims_size() > kDimsMax) return refused(request.dims_size(), "dims", kDimsMax);
  for (const v1::DimFilter& dim : request.dims()) {
    if (dim.dim().empty() || dim.values().empty()) {
      return WithReason(InvalidArgument("dims: '{}' has no value, or a dim no name", dim.dim()), "FILTER_INVALID");
    }
    if (dim.values_size() > kDimValuesMax) return refused(dim.values_size(), "values of a dim", kDimValuesMax);
  }
  return absl::OkStatus();
}

absl::Status CheckGiven(const v1::BestConfig& best, int index) {
  const std::string_view missing = best.kernel_name().empty()       ? "kernel name"
                                   : best.device_class_id().empty() ? "device class"
                                   : best.config().values().empty() ? "config"
                                                                    : "";
  if (!missing.empty()) {
    return WithReason(InvalidArgument("bests[{}] has no {}", index, missing), "BEST_INVALID");
  }
  const std::string_view negative = best.promoted_at_ms() < 0                ? "time of promotion"
                                    : best.revision() < 0                    ? "revision"
                                    : !(best.measurement().median_ns() >= 0) ? "median"
                                                                             : "";
  if (negative.empty()) return absl::OkStatus();
  return WithReason(InvalidArgument("bests[{}] has a negative {}", index, negative), "BEST_INVALID");
}

// By id: the classes of the devices here, and those that are known without one.
absl::StatusOr<std::map<std::string, DeviceClass>> CompilableClasses(const DeviceDirectory& devices) {
  std::map<std::string, DeviceClass> classes;
  for (const v1::Device& device : devices.List()) {
    ASSIGN_OR_RETURN(DeviceClass device_class, DeviceClass::FromProto(device.device_class()));
    const std::string id = device_class.Id();
    classes.insert_or_assign(id, std::move(device_class));
  }
  for (const KnownClass& known : KnownClasses()) classes.try_emplace(known.device_class.Id(), known.device_class);
  return classes;
}

// Every entry under its own name: symbols are known only after compiling.
std::map<std::string, std::string> OwnNames(const KernelPlan& plan) {
  std::map<std::string, std::string> names;
  for (const Sequence sequence : {Sequence::kLaunches, Sequence::kPreparePerConfig}) {
    for (const std::string& entry : plan.Entries(sequence)) names.emplace(entry, entry);
  }
  return names;
}

// What a look-up can tell apart, with the dims that each launch gives or without.
std::string KeyOf(const KernelPlan& plan, const ResolvedProblem& problem, const std::string& class_id, bool with_open) {
  Config dims;
  for (const v1::Dim& dim : plan.kernel().dims()) {
    if (!dim.inputs_only() && (with_open || !IsOpenDim(dim))) dims.Set(dim.name(), *problem.dims.Find(dim.name()));
  }
  return class_id + "|" + dims.ToText();
}

// One package on its way from bests to a file.
class Making {
 public:
  Making(KernelRegistry* kernels, const Catalog& catalog, const CompileConfigs& compile_configs,
         const v1::ExportPackageRequest& request, std::function<absl::Status()> check_wanted)
      : kernels_(kernels),
        catalog_(catalog),
        compile_configs_(compile_configs),
        request_(request),
        check_wanted_(std::move(check_wanted)) {}

  // The bests that are asked for, by kernel.
  absl::Status ChooseBests() {
    RETURN_IF_ERROR(CheckCounts(request_));
    RETURN_IF_ERROR(TakeDefinitions());
    for (const v1::DimFilter& dim : request_.dims()) {
      for (const std::string& value : dim.values()) dims_.Add(dim.dim(), value);
    }
    std::vector<ExportedBest> bests;
    if (request_.bests().empty()) {
      std::string token;
      do {
        ASSIGN_OR_RETURN(auto found, catalog_.List(kernel_, kCatalogPage, token));
        for (const auto& best : found.first) RETURN_IF_ERROR(Take(*best, &bests));
        token = found.second;
      } while (!token.empty());
    }
    for (int i = 0; i < request_.bests_size(); ++i) {
      RETURN_IF_ERROR(CheckGiven(request_.bests(i), i));
      if (kernel_.empty() || request_.bests(i).kernel_name() == kernel_) {
        RETURN_IF_ERROR(Take(request_.bests(i), &bests));
      }
    }
    if (bests.empty()) return NothingLeft();
    interchange::SortBests(&bests);
    // Of given ones those that are not taken are named.
    if (request_.bests().empty()) interchange::KeepNewest(&bests);
    for (ExportedBest& best : bests) by_kernel_[best.best.kernel_name()].push_back(std::move(best));
    return absl::OkStatus();
  }

  // What is to be compiled, in the order of the file.
  absl::Status Plan(const std::map<std::string, DeviceClass>& classes) {
    for (auto& [name, bests] : by_kernel_) {
      const auto& plan = PlanOf(name);
      if (!plan.ok()) {
        if (!absl::IsNotFound(plan.status())) return plan.status();
        LeaveOut(name, MessageOf(plan.status()));
        continue;
      }
      Seen seen;
      for (const ExportedBest& best : ByPreference(**plan, std::move(bests))) {
        RETURN_IF_ERROR(check_wanted_());
        PlanBest(*plan, best, classes, &seen);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Compile() {
    size_t count = 0;
    for (const Choice& choice : choices_) count += choice.why.empty() ? 1 : 0;
    if (count == 0) return absl::OkStatus();
    if (!compile_configs_) {
      return WithReason(FailedPrecondition("this daemon compiles nothing: it has no compile workers"), "NO_COMPILER");
    }
    std::atomic<bool> has_failed{false};
    std::atomic<uint64_t> bytes{0};
    {
      ThreadPool threads("package", static_cast<int>(std::min(count, kCompilesAtOnce)));
      for (Choice& choice : choices_) {
        if (!choice.why.empty()) continue;
        threads.Post([this, &choice, &has_failed, &bytes] {
          if (has_failed) return;
          choice.compiled = CompileOne(choice, &bytes);
          if (!choice.compiled.ok()) has_failed = true;
        });
      }
    }
    size_t compiled = 0;
    for (const Choice& choice : choices_) compiled += choice.why.empty() && choice.compiled.ok() ? 1 : 0;
    // Those that were not begun have no compile of their own to blame.
    for (const Choice& choice : choices_) {
      if (!choice.why.empty() || !choice.is_begun || choice.compiled.ok()) continue;
      const absl::Status& failed = choice.compiled.status();
      if (ReasonOf(failed) != "PACKAGE_TIME") return failed;
      return Annotate(failed, "{} of {} configs are compiled", compiled, count);
    }
    return absl::OkStatus();
  }

  // The kernels that have a best, and what is said of all that is left out.
  absl::StatusOr<std::vector<PackagedKernel>> Finish(v1::PackageContents* contents) {
    std::vector<PackagedKernel> kernels;
    std::map<std::string, size_t> index;
    for (Choice& choice : choices_) {
      if (!choice.why.empty()) continue;
      if (choice.compiled->outcome != v1::OUTCOME_OK) {
        choice.why = choice.compiled->message.empty() ? "it does not compile" : choice.compiled->message;
        continue;
      }
      const KernelPlan& plan = *choice.plan;
      ASSIGN_OR_RETURN(choice.packaged.sequence,
                       MakeLaunchSequence(plan, *choice.problem, choice.packaged.config, choice.packaged.device_class,
                                          choice.compiled->lowered_names));
      choice.packaged.binary = std::move(choice.compiled->binary);
      // Without where it lies on the machine that compiled.
      choice.packaged.toolchain = choice.compiled->toolchain.substr(0, choice.compiled->toolchain.rfind(" ("));
      const auto [at, is_new] = index.emplace(plan.display_name(), kernels.size());
      if (is_new) kernels.push_back({choice.plan, {}});
      if (!choice.packaged.is_default) {
        contents->set_bests(contents->bests() + 1);
        if (choice.is_without_time) contents->set_bests_without_time(contents->bests_without_time() + 1);
      }
      kernels[at->second].choices.push_back(std::move(choice.packaged));
    }
    for (const Choice& choice : choices_) {
      if (choice.why.empty()) continue;
      contents->set_left_out_count(contents->left_out_count() + 1);
      if (static_cast<size_t>(contents->left_out_size()) < kLeftOutMax) {
        contents->add_left_out(Shortened(fmt::format("{}: {}", choice.what, choice.why)));
      }
    }
    std::erase_if(kernels, [](const PackagedKernel& kernel) {
      return std::all_of(kernel.choices.begin(), kernel.choices.end(),
                         [](const PackagedChoice& choice) { return choice.is_default; });
    });
    contents->set_kernels(static_cast<int64_t>(kernels.size()));
    if (!kernels.empty()) return kernels;
    return WithReason(FailedPrecondition("nothing can be packaged{}{}", contents->left_out().empty() ? "" : "; ",
                                         contents->left_out().empty() ? "" : contents->left_out(0)),
                      "PACKAGE_EMPTY");
  }

 private:
  // One config of the file, or what is left out of it.
  struct Choice {
    std::string what;  // for messages
    std::string why;   // it is left out; empty: it is not
    std::shared_ptr<const KernelPlan> plan;
    std::shared_ptr<const ResolvedProblem> problem;
    PackagedChoice packaged;
    bool is_without_time = false;  // although it was measured
    bool is_begun = false;
    absl::StatusOr<CompiledConfig> compiled;
  };
  // Of a kernel: problems with a best, and with a default config.
  struct Seen {
    std::set<std::string> tuned, defaults;
  };

  absl::Status TakeDefinitions() {
    for (const v1::Kernel& definition : request_.definitions()) {
      ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(definition));
      if (!plans_.emplace(plan->display_name(), plan).second) {
        return WithReason(InvalidArgument("there are two definitions of kernel '{}'", plan->display_name()),
                          "KERNEL_REPEATED");
      }
    }
    kernel_ = request_.kernel();
    if (kernel_.rfind("kernels/", 0) == 0) {
      ASSIGN_OR_RETURN(const auto plan, kernels_->Get(kernel_));
      kernel_ = plan->display_name();
      plans_.insert_or_assign(kernel_, plan);
    }
    for (const auto& [name, plan] : plans_) given_.insert(name);
    return absl::OkStatus();
  }

  const absl::StatusOr<std::shared_ptr<const KernelPlan>>& PlanOf(const std::string& name) {
    const auto known = plans_.find(name);
    return known != plans_.end() ? known->second : plans_.emplace(name, kernels_->Get(name)).first->second;
  }

  absl::Status Take(const v1::BestConfig& best, std::vector<ExportedBest>* bests) {
    const auto& plan = PlanOf(best.kernel_name());
    const bool is_own = !plan.ok() || best.program_digest() == (*plan)->program_digest();
    // A definition that is given is asked for itself, as a look-up by it is.
    if (!is_own && request_.bests().empty() && given_.count(best.kernel_name()) > 0) return absl::OkStatus();
    devices_.insert(best.device_class_name());
    if (!interchange::IsDeviceNamed(request_.device_class(), best.device_class_id(), best.device_class_name())) {
      return absl::OkStatus();
    }
    absl::StatusOr<ExportedBest> exported =
        interchange::MakeExportedBest(best, is_own ? v1::MATCH_EXACT : v1::MATCH_STALE_SOURCE);
    if (!exported.ok()) {
      if (request_.bests().empty()) return exported.status();
      return WithReason(InvalidArgument("a best of {}: {}", best.kernel_name(), MessageOf(exported.status())),
                        "BEST_INVALID");
    }
    if (!dims_.Takes(exported->dims)) return absl::OkStatus();
    if (bests->size() >= static_cast<size_t>(kBestsMax)) {
      return WithReason(InvalidArgument("there are more than {} such bests; choose some", kBestsMax), "TOO_MANY_BESTS");
    }
    bests->push_back(*std::move(exported));
    return absl::OkStatus();
  }

  absl::Status NothingLeft() const {
    std::string text = "no best";
    if (!kernel_.empty()) text += " of " + kernel_;
    text += " is known";
    if (!devices_.empty()) {
      if (!request_.device_class().empty()) text += " on " + request_.device_class();
      for (int i = 0; i < request_.dims_size(); ++i) {
        const v1::DimFilter& dim = request_.dims(i);
        text += (i == 0 ? " with " : ", ") + dim.dim() + "=";
        for (int v = 0; v < std::min(dim.values_size(), kShownValuesMax); ++v)
          text += (v > 0 ? "," : "") + dim.values(v);
        if (dim.values_size() > kShownValuesMax) text += ",...";
      }
      std::string names;
      for (const std::string& name : devices_) names += (names.empty() ? "" : ", ") + name;
      text += "; there are bests on: " + names;
    }
    return WithReason(NotFound("{}", Shortened(std::move(text))), "BEST_NOT_FOUND");
  }

  // As look-ups prefer bests. Of those that a launch cannot tell apart the first is taken, and of those that are
  // equally near the file's first answers.
  static std::vector<ExportedBest> ByPreference(const KernelPlan& plan, std::vector<ExportedBest> bests) {
    const auto rank = [&plan, defaults = InputDefaults(plan.kernel())](const ExportedBest& best) {
      return std::make_tuple(best.best.program_digest() != plan.program_digest(), !best.is_plain(),
                             InputsOffDefault(defaults, best.dims), -best.best.promoted_at_ms(), -best.best.revision());
    };
    std::stable_sort(bests.begin(), bests.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return bests;
  }

  void PlanBest(const std::shared_ptr<const KernelPlan>& plan, const ExportedBest& best,
                const std::map<std::string, DeviceClass>& classes, Seen* seen) {
    const v1::BestConfig& found = best.best;
    const std::string what =
        fmt::format("{} for {} on {}", found.kernel_name(),
                    found.problem().key().empty() ? best.dims.ToText() : found.problem().key(),
                    found.device_class_name().empty() ? found.device_class_id() : found.device_class_name());
    const bool is_of_other = found.program_digest() != plan->program_digest();
    const auto device = classes.find(found.device_class_id());
    if (is_of_other && request_.bests().empty()) {
      return LeaveOut(what, "it was found with another version of the kernel or of its data; tune it again");
    }
    if (!found.problem().pinned().empty()) {
      return LeaveOut(what, "its parameters were pinned, which a launch does not ask for");
    }
    if (device == classes.end()) {
      return LeaveOut(what, "no device of its class is known here, so that nothing can be compiled for it");
    }
    const absl::StatusOr<ResolvedProblem> resolved = plan->ResolveProblem(found.problem());
    if (!resolved.ok()) return LeaveOut(what, MessageOf(resolved.status()));
    const absl::StatusOr<Config> config = plan->ParseConfig(found.config());
    if (!config.ok()) return LeaveOut(what, MessageOf(config.status()));
    if (!seen->tuned.insert(KeyOf(*plan, *resolved, device->first, /*with_open=*/true)).second) {
      return LeaveOut(what, "another best is of the same dims, and inputs alone make the difference");
    }
    Choice tuned;
    tuned.what = what;
    tuned.is_without_time = is_of_other;
    tuned.packaged.median_ns = is_of_other ? 0 : found.measurement().median_ns();
    tuned.packaged.config = *config;
    PlanChoice(plan, *resolved, device->second, std::move(tuned));
    if (!seen->defaults.insert(KeyOf(*plan, *resolved, device->first, /*with_open=*/false)).second) return;
    Choice fallback;
    fallback.what = fmt::format("the default config of {}", what);
    fallback.packaged.is_default = true;
    fallback.packaged.config = plan->DefaultConfig(*resolved);
    PlanChoice(plan, *resolved, device->second, std::move(fallback));
  }

  void PlanChoice(const std::shared_ptr<const KernelPlan>& plan, const ResolvedProblem& problem,
                  const DeviceClass& device_class, Choice choice) {
    choice.plan = plan;
    choice.problem = std::make_shared<const ResolvedProblem>(problem);
    choice.packaged.device_class = device_class;
    choice.packaged.dims = problem.dims;
    // Before it is compiled, since what cannot be launched need not be.
    absl::Status fits = plan->CheckProblem(problem, device_class);
    if (fits.ok()) {
      fits = MakeLaunchSequence(*plan, problem, choice.packaged.config, device_class, OwnNames(*plan)).status();
    }
    if (!fits.ok()) choice.why = MessageOf(fits);
    choices_.push_back(std::move(choice));
  }

  void LeaveOut(const std::string& what, std::string_view why) {
    Choice choice;
    choice.what = what;
    choice.why = why;
    choices_.push_back(std::move(choice));
  }

  absl::StatusOr<CompiledConfig> CompileOne(Choice& choice, std::atomic<uint64_t>* bytes) const {
    choice.is_begun = true;
    RETURN_IF_ERROR(check_wanted_());
    CompileOrder order;
    order.plan = choice.plan;
    order.problem = choice.problem;
    order.device_class = choice.packaged.device_class;
    order.configs = {choice.packaged.config};
    order.binaries_bytes_max = kPackageBinariesBytesMax;
    order.check_wanted = check_wanted_;
    absl::StatusOr<std::vector<CompiledConfig>> compiled = compile_configs_(order);
    if (!compiled.ok()) return Annotate(compiled.status(), "{}", Shortened(choice.what));
    if (compiled->size() != 1) return Internal("{} of 1 config was compiled", compiled->size());
    if ((*bytes += compiled->front().binary_bytes) > kPackageBinariesBytesMax) {
      return WithReason(ResourceExhausted("the binaries have more than {} MiB together; ask for fewer bests",
                                          kPackageBinariesBytesMax >> 20),
                        "PACKAGE_TOO_LARGE");
    }
    return std::move(compiled->front());
  }

  KernelRegistry* const kernels_;
  const Catalog& catalog_;
  const CompileConfigs& compile_configs_;
  const v1::ExportPackageRequest& request_;
  const std::function<absl::Status()> check_wanted_;  // on several threads
  std::string kernel_;                                // display name; empty: all
  interchange::DimFilter dims_;
  std::map<std::string, absl::StatusOr<std::shared_ptr<const KernelPlan>>> plans_;  // by display name
  std::set<std::string> given_;                                                     // plans of the request
  std::set<std::string> devices_;                                                   // with bests of the kernel
  std::map<std::string, std::vector<ExportedBest>> by_kernel_;
  std::vector<Choice> choices_;
};

}  // namespace

MadePackage PackageApi::ExportPackage(const v1::ExportPackageRequest& request,
                                      const std::function<bool()>& is_cancelled) {
  MadePackage made;
  const MonotonicTime give_up = clock_->Now() + kTimeMax;
  Making making(kernels_, *catalog_, compile_configs_, request, [this, give_up, &is_cancelled]() -> absl::Status {
    if (is_cancelled()) return Cancelled("nobody waits for the package any more");
    if (clock_->Now() <= give_up) return absl::OkStatus();
    return WithReason(
        DeadlineExceeded("the package was not made within {} minutes, in which it waited for compile workers, which "
                         "compile for jobs too; what is compiled is kept: ask again",
                         kTimeMax / std::chrono::minutes(1)),
        "PACKAGE_TIME");
  });
  made.file = [&]() -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(making.ChooseBests());
    ASSIGN_OR_RETURN(const auto classes, CompilableClasses(*devices_));
    RETURN_IF_ERROR(making.Plan(classes));
    RETURN_IF_ERROR(making.Compile());
    ASSIGN_OR_RETURN(const std::vector<PackagedKernel> kernels, making.Finish(&made.contents));
    ASSIGN_OR_RETURN(std::string file, WritePackage(kernels, clock_->WallMs()));
    made.contents.set_file_bytes(static_cast<int64_t>(file.size()));
    return file;
  }();
  return made;
}

}  // namespace tunefarm
