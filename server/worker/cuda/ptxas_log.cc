#include "server/worker/cuda/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace tunefarm::cuda {
namespace {

constexpr size_t kLineBytesMax = 1024;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <typename Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The number that stands right before `unit`: "24 bytes spill stores".
std::optional<int> NumberBefore(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  const auto [end, error] = std::from_chars(line.data() + begin, line.data() + at, number);
  if (error != std::errc() || end != line.data() + at) return std::nullopt;
  return number;
}

std::string_view Between(std::string_view line, std::string_view before, char after) {
  const size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + before.size());
  return line.substr(0, line.find(after));
}

}  // namespace

std::map<std::string, PtxasUse> ParsePtxasLog(std::string_view log) {
  std::map<std::string, PtxasUse> uses;
  PtxasUse* entry = nullptr;  // being compiled
  bool of_entry = false;      // whether the function whose properties follow is the entry itself
  std::string name;
  ForEachLine(log, [&](std::string_view line) {
    if (const std::string_view compiled = Between(line, "Compiling entry function '", '\''); !compiled.empty()) {
      name = compiled;
      entry = &uses[name];
      return;
    }
    if (entry == nullptr) return;
    if (const std::string_view function = Between(line, "Function properties for ", '\r'); !function.empty()) {
      of_entry = function == name;
      return;
    }
    if (of_entry) {
      if (const auto bytes = NumberBefore(line, " bytes stack frame")) entry->stack_bytes = *bytes;
      if (const auto bytes = NumberBefore(line, " bytes spill stores")) entry->spill_bytes += *bytes;
      if (const auto bytes = NumberBefore(line, " bytes spill loads")) entry->spill_bytes += *bytes;
    }
    if (const auto registers = NumberBefore(line, " registers"); registers && Contains(line, "Used ")) {
      entry->registers = *registers;
      if (const auto bytes = NumberBefore(line, " bytes smem")) entry->static_shared_bytes = *bytes;
    }
  });
  return uses;
}

std::string WithoutResourceLines(std::string_view log) {
  std::string kept;
  ForEachLine(log, [&kept](std::string_view line) {
    const bool info =
        line.substr(0, 10) == "ptxas info" || (line.substr(0, 6) == "ptxas " && Contains(line, "bytes stack frame"));
    if (info && !Contains(line, "(C7") && !Contains(line, "arning")) return;
    kept.append(line).append("\n");
  });
  return kept;
}

std::string FirstErrorLine(std::string_view log) {
  std::string first;
  ForEachLine(log, [&first](std::string_view line) {
    if (!first.empty()) return;
    const bool error =
        Contains(line, "error:") || Contains(line, "error   :") || Contains(line, "fatal") || Contains(line, "error :");
    if (error) first = line.substr(0, kLineBytesMax);
  });
  return first;
}

}  // namespace tunefarm::cuda
