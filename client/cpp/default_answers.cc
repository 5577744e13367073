#include "client/cpp/default_answers.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

namespace tunefarm::client {
namespace {

Value OwnValue(const DefaultValue& value) {
  switch (value.kind) {
    case Value::Kind::kInt:
      return value.int_value;
    case Value::Kind::kDouble:
      return value.double_value;
    case Value::Kind::kBool:
      return value.int_value != 0;
    case Value::Kind::kString:
      return value.string_value != nullptr ? value.string_value : "";
  }
  return {};
}

Result<ValueMap> OwnValues(const DefaultValues& values, const std::string& kernel) {
  ValueMap own;
  for (size_t i = 0; i < values.size; ++i) {
    const DefaultValue& value = values.data[i];
    if (value.name == nullptr || *value.name == '\0' || !own.emplace(value.name, OwnValue(value)).second) {
      return Status{Code::kInvalidArgument,
                    "a default config of '" + kernel + "' has a value without a name, or names '" +
                        (value.name != nullptr ? value.name : "") + "' twice",
                    "DEFAULTS_INVALID"};
    }
  }
  return own;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The conditions on the varying dims; none if the fixed dims contradict.
std::optional<std::vector<std::pair<size_t, int64_t>>> ConditionsOf(const OwnDefault& own, const QuestionSpec& spec) {
  std::vector<std::pair<size_t, int64_t>> conditions;
  for (const auto& [name, value] : own.dims) {
    const auto varying = std::find(spec.varying_dims.begin(), spec.varying_dims.end(), name);
    if (varying != spec.varying_dims.end()) {
      if (value.kind() != Value::Kind::kInt) return std::nullopt;
      conditions.emplace_back(varying - spec.varying_dims.begin(), value.int_value());
      continue;
    }
    const auto fixed = spec.fixed_dims.find(name);
    if (fixed == spec.fixed_dims.end() || fixed->second != value) return std::nullopt;
  }
  return conditions;
}

}  // namespace

Result<std::vector<OwnDefault>> CopyDefaults(const std::vector<DefaultTable>& tables) {
  std::vector<OwnDefault> own;
  for (const DefaultTable& table : tables) {
    for (size_t i = 0; i < table.size; ++i) {
      const DefaultConfig& entry = table.data[i];
      if (entry.kernel == nullptr || *entry.kernel == '\0') {
        return Status{Code::kInvalidArgument, "a default config names no kernel", "DEFAULTS_INVALID"};
      }
      Result<ValueMap> dims = OwnValues(entry.dims, entry.kernel);
      if (!dims.ok()) return dims.status();
      Result<ValueMap> config = OwnValues(entry.config, entry.kernel);
      if (!config.ok()) return config.status();
      own.push_back({entry.kernel, entry.device != nullptr ? entry.device : "", *std::move(dims),
                     Config(std::vector<std::pair<std::string, Value>>(config->begin(), config->end()))});
    }
  }
  return own;
}

DefaultAnswers::DefaultAnswers(const std::vector<OwnDefault>& defaults, const QuestionSpec& spec,
                               const std::string& display_name, const DeviceNames& device)
    : complete_(spec.varying_dims.size(), defaults.size()) {
  if (spec.worst_match < Match::kDefault) return;
  std::vector<std::pair<size_t, const OwnDefault*>> fitting;  // by number of dims
  for (const OwnDefault& own : defaults) {
    if (own.kernel != spec.kernel && own.kernel != display_name) continue;
    const bool is_of_device = own.device.empty() || std::any_of(device.begin(), device.end(), [&](const auto& name) {
                                return EqualsIgnoringCase(name, own.device);
                              });
    if (is_of_device) fitting.emplace_back(own.dims.size(), &own);
  }
  std::stable_sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> key(spec.varying_dims.size());
  for (const auto& [count, own] : fitting) {
    auto conditions = ConditionsOf(*own, spec);
    if (!conditions) continue;
    StoredAnswer stored;
    stored.answer.match = Match::kDefault;
    stored.answer.source = Source::kCompiledIn;
    stored.answer.kernel = own->kernel;
    stored.answer.config = own->config;
    if (conditions->size() < key.size()) {
      partial_.push_back({*std::move(conditions), std::move(stored)});
      continue;
    }
    for (const auto& [place, value] : *conditions) key[place] = value;
    if (complete_.Find(key.data()) == nullptr) {
      complete_.Put(key.data(), std::make_shared<const StoredAnswer>(std::move(stored)));
    }
  }
}

const StoredAnswer* DefaultAnswers::Find(const int64_t* key) const {
  if (const StoredAnswer* const found = complete_.Find(key)) return found;
  for (const Partial& partial : partial_) {
    const bool fits = std::all_of(partial.conditions.begin(), partial.conditions.end(),
                                  [key](const auto& condition) { return key[condition.first] == condition.second; });
    if (fits) return &partial.stored;
  }
  return nullptr;
}

}  // namespace tunefarm::client
