#include "client/cli/options/problem_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "client/cli/options/seed_option.h"
#include "client/cli/output.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/value.h"

namespace tunefarm::cli {
namespace {

absl::StatusOr<std::pair<std::string, std::string>> SplitSetting(const std::string& text, std::string_view flag,
                                                                 bool may_be_empty) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || (equals + 1 == text.size() && !may_be_empty)) {
    return InvalidArgument("{} {}: write {} NAME=VALUE", flag, text, flag);
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items;
  size_t start = 0;
  while (true) {
    const size_t comma = text.find(',', start);
    items.push_back(text.substr(start, comma - start));
    if (comma == std::string::npos) return items;
    start = comma + 1;
  }
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "1..8192*2", "64..256+64" or "1..4". What has no number on both sides of ".." is no range but a text.
absl::Status AppendItem(const std::string& dim, const std::string& item, std::vector<std::string>* values) {
  if (item.empty()) return InvalidArgument("--dim {}: an empty value", dim);
  const size_t dots = item.find("..");
  const size_t sign = dots == std::string::npos ? dots : item.find_first_of("*+", dots);
  const auto first = WholeNumber(std::string_view(item).substr(0, dots));
  if (dots == std::string::npos || !first.has_value()) {
    values->push_back(item);
    return absl::OkStatus();
  }
  const std::string_view rest = std::string_view(item).substr(dots + 2);
  const bool has_step = sign != std::string::npos;
  const auto last = WholeNumber(rest.substr(0, has_step ? sign - dots - 2 : rest.size()));
  const auto step = has_step ? WholeNumber(std::string_view(item).substr(sign + 1)) : std::optional<int64_t>(1);
  const bool multiplies = has_step && item[sign] == '*';
  if (!last.has_value() || !step.has_value() || *last < *first || *step < (multiplies ? 2 : 1) ||
      (multiplies && *first < 1)) {
    return InvalidArgument("--dim {}: '{}' is no range; ranges look like 1..8192*2, 64..256+64 or 1..4", dim, item);
  }
  for (int64_t value = *first; value <= *last;) {
    if (values->size() >= kDimValuesMax) {
      return InvalidArgument("--dim {}: more than {} values", dim, kDimValuesMax);
    }
    values->push_back(std::to_string(value));
    const bool ends = multiplies ? value > *last / *step : *step > *last - value;
    if (ends) break;
    value = multiplies ? value * *step : value + *step;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DimValues> ParseDim(const std::string& text) {
  ASSIGN_OR_RETURN(const auto setting, SplitSetting(text, "--dim", /*may_be_empty=*/false));
  DimValues dim;
  dim.name = setting.first;
  for (const std::string& item : SplitList(setting.second)) RETURN_IF_ERROR(AppendItem(text, item, &dim.values));
  return dim;
}

CLI::Option* AddListOption(CLI::App* command, const std::string& flag, std::vector<std::string>* values,
                           const std::string& help) {
  // One value each time: "--dim M=64 KERNEL" must not take the kernel for another value.
  return command->add_option(flag, *values, help)->type_name("NAME=VALUE")->allow_extra_args(false);
}

void ProblemOptions::AddTo(CLI::App* command, bool many) {
  AddListOption(command, "-d,--dim", &dims,
                many ? "A dim of the problem; NAME=V1,V2 makes a problem of each, NAME=1..8192*2 is a range. May be "
                       "repeated."
                     : "A dim of the problem. May be repeated.");
  AddListOption(command, "--pin", &pins, "Hold a parameter at one value. May be repeated.");
  command->add_option("--input-seed", seeds, "Seed of the input data; repeat it for several input sets.")
      ->check(CheckSeed)
      ->allow_extra_args(false);
}

std::string ProblemOptions::ToText() const {
  std::string text;
  for (const std::string& dim : dims) text += " --dim " + ShellWord(dim);
  for (const std::string& pin : pins) text += " --pin " + ShellWord(pin);
  for (const uint64_t seed : seeds) text += " --input-seed " + std::to_string(seed);
  return text;
}

v1::Value InferValue(std::string_view text) {
  v1::Value result;
  const Value value = Value::Infer(text);
  if (value.ToText() != text || (value.is_float() && !std::isfinite(value.float_value()))) {
    result.set_string_value(std::string(text));
  } else if (value.is_bool()) {
    result.set_bool_value(value.bool_value());
  } else if (value.is_int()) {
    result.set_int_value(value.int_value());
  } else if (value.is_float()) {
    result.set_double_value(value.float_value());
  } else {
    result.set_string_value(value.string_value());
  }
  return result;
}

std::string ValueText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kIntValue:
      return Value(value.int_value()).ToText();
    case v1::Value::kDoubleValue:
      return Value(value.double_value()).ToText();
    case v1::Value::kBoolValue:
      return Value(value.bool_value()).ToText();
    case v1::Value::kStringValue:
      return value.string_value();
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string ShellWord(const std::string& text) {
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string ConfigText(const v1::Config& config) {
  const std::map<std::string, v1::Value> sorted(config.values().begin(), config.values().end());
  std::string text;
  for (const auto& [name, value] : sorted) {
    if (!text.empty()) text += ' ';
    text += Visible(name + "=" + ShellWord(ValueText(value)));
  }
  return text;
}

absl::StatusOr<std::vector<v1::Problem>> MakeProblems(const ProblemOptions& options, size_t problems_max) {
  std::vector<v1::Problem> problems(1);
  for (const std::string& pin : options.pins) {
    ASSIGN_OR_RETURN(const auto setting, SplitSetting(pin, "--pin", /*may_be_empty=*/true));
    if (!(*problems[0].mutable_pinned()).insert({setting.first, InferValue(setting.second)}).second) {
      return InvalidArgument("--pin {} is given twice", setting.first);
    }
  }
  for (const uint64_t seed : options.seeds) problems[0].add_input_seeds(seed);
  for (const std::string& text : options.dims) {
    ASSIGN_OR_RETURN(const DimValues dim, ParseDim(text));
    if (problems[0].dims().count(dim.name) > 0) return InvalidArgument("--dim {} is given twice", dim.name);
    if (problems.size() * dim.values.size() > problems_max) {
      return InvalidArgument("--dim: more than {} problems; make several jobs", problems_max);
    }
    std::vector<v1::Problem> grid;
    for (const v1::Problem& problem : problems) {
      for (const std::string& value : dim.values) {
        grid.push_back(problem);
        (*grid.back().mutable_dims())[dim.name] = InferValue(value);
      }
    }
    problems = std::move(grid);
  }
  return problems;
}

absl::StatusOr<v1::Problem> MakeProblem(const ProblemOptions& options) {
  ASSIGN_OR_RETURN(std::vector<v1::Problem> problems, MakeProblems(options));
  if (problems.size() != 1) return InvalidArgument("--dim: this command takes one value for each dim");
  return problems[0];
}

}  // namespace tunefarm::cli
