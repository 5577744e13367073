// Any text at all: compiling either fails with one clean message or gives a program that evaluates, or fails, without
// undefined behaviour, and the fast path agrees with the general one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/base/status.h"
#include "server/space/config.h"
#include "server/space/expression.h"

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

void Require(bool condition) {
  if (!condition) std::abort();
}

void TryExpression(std::string_view text) {
  const auto expression = Expression::Compile(text, Table());
  if (!expression.ok()) {
    Require(absl::IsInvalidArgument(expression.status()));
    Require(!MessageOf(expression.status()).empty());
    return;
  }
  for (const int64_t x : {int64_t{0}, int64_t{-1}, int64_t{7}, INT64_MIN, INT64_MAX}) {
    const Value slots[] = {x, (x & 1) != 0, static_cast<double>(x) / 2, "bf16", x};
    const auto value = expression->Evaluate(slots);
    if (value.ok() && expression->result_type().has_value()) Require(value->type() == *expression->result_type());
    if (!expression->is_integral()) continue;
    const int64_t ints[] = {x, x & 1, 0, 0, 0};
    int64_t fast = 0;
    Require(expression->EvaluateIntegral(ints, &fast) == value.ok());
    if (value.ok()) Require(fast == (value->is_bool() ? int64_t{value->bool_value()} : value->int_value()));
  }
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
  tunefarm::TryExpression(text);
  tunefarm::TryConfig(text);
  return 0;
}
