// Any text at all: compiling either fails with one clean message or gives a program that evaluates, or fails, without
// undefined behaviour, and the fast path agrees with the general one. A space whose rule it is lists the points where
// it is true, or fails as the evaluation does.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/status.h"
#include "server/expression/config.h"
#include "server/expression/expression.h"
#include "server/space/space.h"

namespace tunefarm {
namespace {

const SymbolTable& Table() {
  static const SymbolTable table = [] {
    SymbolTable symbols;
    const bool is_ok = symbols.AddVariable("x", ValueType::kInt).ok() &&
                       symbols.AddVariable("b", ValueType::kBool).ok() &&
                       symbols.AddVariable("f", ValueType::kFloat).ok() &&
                       symbols.AddVariable("s", ValueType::kString).ok() && symbols.AddVariable("a").ok() &&
                       symbols.AddConstant("device.n", 132).ok() && symbols.AddDerived("d", "x * 2 + device.n").ok();
    if (!is_ok) std::abort();
    return symbols;
  }();
  return table;
}

std::string_view current;  // what is being tried

void Require(bool condition) {
  if (condition) return;
  std::fprintf(stderr, "finding in: %.*s\n", static_cast<int>(current.size()), current.data());
  std::abort();
}

// The parameters of the space below: in the order of the symbols.
std::vector<Parameter> Parameters(bool is_extreme) {
  const std::vector<Value> ints =
      is_extreme ? std::vector<Value>{INT64_MIN, -1, INT64_MAX} : std::vector<Value>{-1, 0, 3};
  return {{"x", ints, {}},
          {"b", {false, true}, {}},
          {"f", {-0.5, 0.0, 2.0}, {}},
          {"s", {"bf16", "x"}, {}},
          {"a", {3, 2.5}, {}}};
}

void TrySpace(std::string_view text, const Expression& expression) {
  const bool is_extreme = text.size() % 4 == 0;
  SpaceDefinition definition;
  definition.parameters = Parameters(is_extreme);
  definition.constants = {{"device.n", 132}};
  definition.derived = {{"d", "x * 2 + device.n"}};
  definition.constraints = {{std::string(text), ""}};
  const auto space = Space::Build(definition);
  Require(space.ok());
  std::vector<std::vector<uint16_t>> expected;
  bool fails = false;
  std::vector<uint16_t> at(definition.parameters.size(), 0);
  while (true) {
    std::vector<Value> slots;
    for (size_t p = 0; p < at.size(); ++p) slots.push_back(definition.parameters[p].values[at[p]]);
    const auto truth = expression.EvaluateBool(slots.data());
    fails = fails || !truth.ok();
    if (truth.ok() && *truth) expected.push_back(at);
    size_t p = at.size();
    while (p > 0 && ++at[p - 1] == definition.parameters[p - 1].values.size()) at[--p] = 0;
    if (p == 0) break;
  }
  const auto table = space->Enumerate();
  const auto count = space->CountValid();
  Require(table.ok() == !fails && count.ok() == !fails);
  if (fails) return;
  Require(table->size() == expected.size() && *count == expected.size());
  for (uint64_t row = 0; row < table->size(); ++row) {
    const auto listed = table->Row(row);
    Require(std::equal(listed.begin(), listed.end(), expected[row].begin()));
  }
  PhiloxStream random(text.size());
  const auto sample = space->SampleUniform(random);
  Require(sample.ok() == !expected.empty());
  if (sample.ok()) Require(space->IsValid(*sample));
}

void TryExpression(std::string_view text) {
  const auto expression = Expression::Compile(text, Table());
  if (!expression.ok()) {
    Require(absl::IsInvalidArgument(expression.status()));
    // One message, with the column and the place below the text.
    const std::string_view message = MessageOf(expression.status());
    Require(message.substr(0, 27) == "expression error at column " && message.find('^') != std::string_view::npos);
    return;
  }
  for (const int64_t x : {int64_t{0}, int64_t{-1}, int64_t{7}, INT64_MIN, INT64_MAX}) {
    const Value slots[] = {x, (x & 1) != 0, static_cast<double>(x) / 2, "bf16", x};
    const auto value = expression->Evaluate(slots);
    if (value.ok() && expression->result_type().has_value()) Require(value->type() == *expression->result_type());
  }
  TrySpace(text, *expression);
}

void TryConfig(std::string_view text) {
  const auto config = Config::FromText(text);
  if (!config.ok()) return;
  // Texts need not be canonical, but what is written reads back as the same text.
  const std::string canonical = config->ToText();
  const auto again = Config::FromText(canonical);
  Require(again.ok() && again->ToText() == canonical);
}

}  // namespace
}  // namespace tunefarm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tunefarm::current = text;
  tunefarm::TryExpression(text);
  tunefarm::TryConfig(text);
  return 0;
}
