#include "server/interchange/best_tables.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "server/base/format.h"
#include "server/interchange/json_value.h"

namespace tunefarm::interchange {
namespace {

using Json = nlohmann::ordered_json;

// A named number or text; absent where nothing is known.
struct Fact {
  std::string_view name;
  std::optional<Value> value;
};

std::optional<Value> Known(double number) { return number > 0 ? std::optional<Value>(number) : std::nullopt; }
std::optional<Value> Known(const std::string& text) { return text.empty() ? std::nullopt : std::optional<Value>(text); }
std::optional<Value> Known(int64_t number) { return number > 0 ? std::optional<Value>(number) : std::nullopt; }

// What stands behind dims and config, in the order of the columns.
std::vector<Fact> FactsOf(const ExportedBest& exported) {
  const v1::BestConfig& best = exported.best;
  const v1::Measurement& measured = best.measurement();
  return {{"median_ns", Known(measured.median_ns())},
          {"ci_low_ns", Known(measured.ci_low_ns())},
          {"ci_high_ns", Known(measured.ci_high_ns())},
          {"samples", Known(int64_t{measured.samples()})},
          {"baseline_ns", Known(best.baseline_ns())},
          {"baseline", Known(best.baseline_label())},
          {"speedup", Known(exported.speedup())},
          {"match", Known(MatchText(exported.match))},
          {"toolkit", Known(best.toolkit_version())},
          {"driver", Known(best.driver_version())},
          {"job", Known(best.job())},
          {"ordinal", Value(best.ordinal())},
          {"revision", Known(best.revision())},
          {"promoted_at_ms", Known(best.promoted_at_ms())},
          {"pinned", Value(best.pinned())},
          {"note", Known(best.note())},
          {"program_digest", Known(best.program_digest())}};
}

std::string TextOf(const Config& config, const std::string& name) {
  const Value* const value = config.Find(name);
  return value == nullptr ? "" : value->ToText();
}

std::string MarkdownCell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c == '\n' || c == '\r' ? ' ' : c;
  }
  return cell;
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + MarkdownCell(cell) + " |";
  return row + "\n";
}

using BestIterator = std::vector<ExportedBest>::const_iterator;

// One kernel on one class.
std::string MarkdownSection(BestIterator begin, BestIterator end) {
  std::map<std::string, std::set<std::string>> values;
  bool all_exact = true, all_plain = true;
  for (auto at = begin; at != end; ++at) {
    for (const auto& [name, value] : at->dims) values[name].insert(value.ToText());
    all_exact = all_exact && at->match == v1::MATCH_EXACT;
    all_plain = all_plain && at->is_plain();
  }
  std::string shared;
  std::vector<std::string> varied;
  for (const auto& [name, different] : values) {
    if (different.size() > 1) {
      varied.push_back(name);
    } else {
      shared += fmt::format("{}{}={}", shared.empty() ? "" : ", ", name, *different.begin());
    }
  }
  std::string text = fmt::format("## {} on {}\n\n", begin->best.kernel_name(), begin->best.device_class_name());
  if (!shared.empty()) text += fmt::format("{} {}.\n\n", varied.empty() ? "Problem:" : "All problems:", shared);
  std::vector<std::string> header = varied;
  if (!all_plain) header.emplace_back("problem");
  header.insert(header.end(), {"config", "time", "95 % interval", "baseline", "speedup"});
  if (!all_exact) header.emplace_back("match");
  text += MarkdownRow(header) + "|";
  for (const std::string& name : header) {
    const bool is_text = name == "config" || name == "problem" || name == "match" || name == "95 % interval";
    text += is_text ? " --- |" : " ---: |";
  }
  text += "\n";
  for (auto at = begin; at != end; ++at) {
    const v1::Measurement& measured = at->best.measurement();
    std::vector<std::string> row;
    for (const std::string& name : varied) row.push_back(TextOf(at->dims, name));
    if (!all_plain) row.push_back("`" + at->best.problem().key() + "`");
    row.push_back("`" + at->config.ToText() + "`");
    row.push_back(FormatDuration(measured.median_ns()));
    row.push_back(measured.ci_high_ns() > 0 ? fmt::format("{} to {}", FormatDuration(measured.ci_low_ns()),
                                                          FormatDuration(measured.ci_high_ns()))
                                            : "");
    row.push_back(at->best.baseline_ns() > 0 ? FormatDuration(at->best.baseline_ns()) : "");
    row.push_back(at->speedup() > 0 ? fmt::format("{:.2f}x", at->speedup()) : "");
    if (!all_exact) row.push_back(MatchText(at->match));
    text += MarkdownRow(row);
  }
  return text;
}

}  // namespace

std::string CsvCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + "\"";
}

std::string WriteBestsCsv(const std::vector<ExportedBest>& bests) {
  std::set<std::string> dims, parameters;
  for (const ExportedBest& exported : bests) {
    for (const auto& [name, value] : exported.dims) dims.insert(name);
    for (const auto& [name, value] : exported.config) parameters.insert(name);
  }
  std::string text = "kernel,device,device_class,problem";
  for (const std::string& name : dims) text += ",dim." + name;
  for (const std::string& name : parameters) text += ",config." + name;
  for (const Fact& fact : FactsOf({})) text += fmt::format(",{}", fact.name);
  text += "\n";
  for (const ExportedBest& exported : bests) {
    const v1::BestConfig& best = exported.best;
    text += CsvCell(best.kernel_name()) + "," + CsvCell(best.device_class_name()) + "," +
            CsvCell(best.device_class_id()) + "," + CsvCell(best.problem().key());
    for (const std::string& name : dims) text += "," + CsvCell(TextOf(exported.dims, name));
    for (const std::string& name : parameters) text += "," + CsvCell(TextOf(exported.config, name));
    for (const Fact& fact : FactsOf(exported)) text += "," + (fact.value ? CsvCell(fact.value->ToText()) : "");
    text += "\n";
  }
  return text;
}

std::string WriteBestsJson(const std::vector<ExportedBest>& bests) {
  Json array = Json::array();
  for (const ExportedBest& exported : bests) {
    Json object;
    object["kernel"] = exported.best.kernel_name();
    object["device"] = exported.best.device_class_name();
    object["device_class"] = exported.best.device_class_id();
    object["problem"] = exported.best.problem().key();
    object["dims"] = JsonOf(exported.dims);
    object["config"] = JsonOf(exported.config);
    for (const Fact& fact : FactsOf(exported)) {
      object[std::string(fact.name)] = fact.value ? JsonOf(*fact.value) : Json();
    }
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string WriteBestsMarkdown(const std::vector<ExportedBest>& bests) {
  std::string text;
  for (auto begin = bests.begin(); begin != bests.end();) {
    auto end = begin;
    while (end != bests.end() && end->best.kernel_name() == begin->best.kernel_name() &&
           end->best.device_class_id() == begin->best.device_class_id()) {
      ++end;
    }
    text += (text.empty() ? "" : "\n") + MarkdownSection(begin, end);
    begin = end;
  }
  return text;
}

}  // namespace tunefarm::interchange
