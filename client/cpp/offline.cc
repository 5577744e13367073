#include "client/cpp/offline.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace tunefarm::client {
namespace {

Value OwnValue(const snapshot::Scalar& scalar) {
  if (const auto* const integer = std::get_if<int64_t>(&scalar)) return *integer;
  if (const auto* const number = std::get_if<double>(&scalar)) return *number;
  if (const auto* const truth = std::get_if<bool>(&scalar)) return *truth;
  if (const auto* const text = std::get_if<std::string>(&scalar)) return *text;
  return {};
}

std::vector<std::pair<std::string, Value>> OwnValues(const snapshot::NamedScalars& scalars) {
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [name, scalar] : scalars) values.emplace_back(name, OwnValue(scalar));
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return values;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Problems that dims alone do not name say so in their canonical text.
bool IsPlain(const std::string& problem) {
  return problem.find("|seeds=") == std::string::npos && problem.find("|pinned:") == std::string::npos;
}

MirrorBest OwnBest(const snapshot::Kernel& kernel, const snapshot::Best& best) {
  MirrorBest own;
  own.program = kernel.program_digest;
  own.class_id = best.class_id;
  own.driver = best.driver;
  own.toolkit = best.toolkit;
  own.dims = OwnValues(best.dims);
  own.is_plain = IsPlain(best.problem);
  auto stored = std::make_shared<StoredAnswer>();
  Answer& answer = stored->answer;
  answer.match = Match::kExact;
  answer.source = Source::kSnapshot;
  answer.config = Config(OwnValues(best.config));
  answer.kernel = kernel.name;
  answer.kernel_id = kernel.kernel_id;
  answer.program_digest = kernel.program_digest;
  answer.problem = best.problem;
  answer.device_class_id = best.class_id;
  answer.device_class_name = best.class_name;
  answer.driver_version = best.driver;
  answer.toolkit_version = best.toolkit;
  answer.job = best.job;
  answer.median_ns = best.median_ns;
  answer.ci_low_ns = best.ci_low_ns;
  answer.ci_high_ns = best.ci_high_ns;
  answer.baseline_ns = best.baseline_ns;
  answer.revision = best.revision;
  answer.promoted_at_ms = best.promoted_at_ms;
  answer.pinned = best.pinned;
  own.exact = std::move(stored);
  return own;
}

std::optional<size_t> FindKernel(const snapshot::SnapshotFile& file, const std::string& name) {
  for (size_t i = 0; i < file.kernels(); ++i) {
    const snapshot::Kernel kernel = file.KernelAt(i);
    if (kernel.name == name || "kernels/" + kernel.kernel_id == name) return i;
  }
  return std::nullopt;
}

// The one class that is meant, as id and name.
Result<std::pair<std::string, std::string>> ChooseClass(const std::string& device,
                                                        const std::vector<MirrorBest>& bests) {
  std::map<std::string, std::string> fitting;
  std::string known;
  for (const MirrorBest& best : bests) {
    const std::string& name = best.exact->answer.device_class_name;
    const bool fits = device.empty() || best.class_id == device || Lower(name) == Lower(device);
    if (fits) fitting.emplace(best.class_id, name);
    if (known.find(best.class_id) == std::string::npos) known += (known.empty() ? "" : ", ") + best.class_id;
  }
  if (fitting.empty()) {
    return Status{Code::kNotFound, "the snapshot has no bests on '" + device + "'; it has: " + known,
                  "DEVICE_NOT_FOUND"};
  }
  if (fitting.size() > 1) {
    return Status{Code::kInvalidArgument, "the snapshot has bests on several devices; name one by its id: " + known,
                  "DEVICE_AMBIGUOUS"};
  }
  return std::pair<std::string, std::string>(*fitting.begin());
}

// For problems that differ in their inputs alone the best of the default inputs answers, else the newest, as the
// daemon chooses (Catalog::Lookup). No config is valid for some inputs only, so that this takes no definition.
void PutOfOtherInputs(const snapshot::Kernel& kernel, const std::vector<MirrorBest>& bests, QuestionImpl* question) {
  std::map<std::string, Value> inputs;  // with their defaults
  std::vector<std::string> names;
  for (size_t i = 0; i < kernel.dims.size(); ++i) {
    if ((kernel.inputs_only >> i & 1) == 0) continue;
    inputs.emplace(kernel.dims[i].first, OwnValue(kernel.dims[i].second));
    names.push_back(kernel.dims[i].first);
  }
  if (names.empty()) return;
  const auto rank = [&inputs](const MirrorBest* best) {
    const auto off_default = std::count_if(best->dims.begin(), best->dims.end(), [&inputs](const auto& dim) {
      const auto usual = inputs.find(dim.first);
      return usual != inputs.end() && usual->second != dim.second;
    });
    const Answer& answer = best->exact->answer;
    return std::make_tuple(off_default, -answer.promoted_at_ms, -answer.revision);
  };
  std::vector<const MirrorBest*> order;
  for (const MirrorBest& best : bests) order.push_back(&best);
  std::stable_sort(order.begin(), order.end(),
                   [&rank](const MirrorBest* a, const MirrorBest* b) { return rank(a) < rank(b); });
  for (const MirrorBest* const best : order) question->PutOfOtherInputs(*best, names);
}

}  // namespace

Status FillFromSnapshot(const snapshot::SnapshotFile& file, const std::vector<OwnDefault>& defaults,
                        QuestionImpl* question) {
  question->SetOffline();
  CacheState state;
  state.is_loaded = true;
  state.revision = file.revision();
  question->SetState(state);
  const QuestionSpec& spec = question->spec;
  const bool has_default =
      std::any_of(defaults.begin(), defaults.end(), [&](const OwnDefault& own) { return own.kernel == spec.kernel; });
  const std::optional<size_t> number = FindKernel(file, spec.kernel);
  if (!number) {
    if (has_default) return {};
    return {Code::kNotFound, "the snapshot has no kernel '" + spec.kernel + "'", "KERNEL_NOT_FOUND"};
  }
  const snapshot::Kernel kernel = file.KernelAt(*number);
  if (!spec.program_digest.empty() && spec.program_digest != kernel.program_digest) {
    if (has_default) return {};
    return {Code::kNotFound,
            "the snapshot has another definition of '" + spec.kernel + "' than the one with the program_digest " +
                spec.program_digest + ": that of " + kernel.program_digest,
            "KERNEL_NOT_FOUND"};
  }
  std::vector<MirrorBest> bests;
  for (size_t i = 0; i < file.BestsOf(*number); ++i) bests.push_back(OwnBest(kernel, file.BestAt(*number, i)));
  const auto chosen = ChooseClass(spec.device, bests);
  if (!chosen.ok()) return has_default && chosen.status().code == Code::kNotFound ? Status{} : chosen.status();
  Target target;
  target.display_name = kernel.name;
  target.program_digest = kernel.program_digest;
  for (const auto& [name, otherwise] : kernel.dims) {
    const bool has_value = !std::holds_alternative<std::monostate>(otherwise);
    target.dims.emplace_back(name, has_value ? std::optional<Value>(OwnValue(otherwise)) : std::nullopt);
  }
  target.device.class_id = chosen->first;
  target.device.class_name = chosen->second;
  CacheBudget none;
  question->SetTarget(target, BestMirror(&none), defaults);
  for (const MirrorBest& best : bests) {
    question->PutExact(best);
    ++state.bests;
  }
  PutOfOtherInputs(kernel, bests, question);
  question->SetState(state);
  return {};
}

}  // namespace tunefarm::client
