// How many points each rule rejects.
#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cmath>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Binding;
using space_internal::Verdict;

namespace {

constexpr uint64_t kEstimateSamples = 1'000'000;
constexpr uint64_t kExactNodesMax = 100'000'000;
constexpr uint64_t kEstimateSeed = 0x7075'6e65'7265'706f;  // any fixed number: two calls give one answer

// Walks the parameters in declared order and judges a rule where its last parameter is bound. Below a point where rule
// r has failed, only rules declared before r can still change the answer: where none is left, the whole subtree is
// counted at once.
class ExactCount {
 public:
  ExactCount(const Space::Impl& impl, PruneReport* report)
      : impl_(impl), report_(report), binding_(impl.parameters.size()), nodes_(impl.options.nodes_max) {
    const size_t count = impl.parameters.size();
    rules_at_.resize(count + 1);
    for (size_t rule = 0; rule < impl.rules.size(); ++rule) {
      const auto& variables = impl.rules[rule].expression.Variables();
      // Depth d binds parameter d - 1; depth 0 judges the rules without variables.
      rules_at_[variables.empty() ? 0 : static_cast<size_t>(variables.back()) + 1].push_back(static_cast<int>(rule));
    }
    first_rule_below_.assign(count + 1, INT_MAX);
    for (size_t depth = count; depth-- > 0;) {
      first_rule_below_[depth] = first_rule_below_[depth + 1];
      for (const int rule : rules_at_[depth + 1]) first_rule_below_[depth] = std::min(first_rule_below_[depth], rule);
    }
    points_below_.assign(count + 1, 1);
    for (size_t depth = count; depth-- > 0;) {
      points_below_[depth] = points_below_[depth + 1] * static_cast<double>(impl.parameters[depth].values.size());
    }
  }

  absl::Status Run() { return Visit(0, INT_MAX, absl::OkStatus()); }

 private:
  // `failed` is the first rule that rejects so far, `fault` the first error of a rule that could not be judged.
  absl::Status Visit(size_t depth, int failed, absl::Status fault) {
    for (const int rule : rules_at_[depth]) {
      if (rule > failed) break;  // ascending
      const Verdict verdict = impl_.Judge(rule, binding_);
      if (verdict == Verdict::kFault && fault.ok()) fault = impl_.FaultStatus(rule, binding_);
      if (verdict == Verdict::kReject) failed = rule;
    }
    if (failed != INT_MAX && failed < first_rule_below_[depth]) {
      report_->rules[failed].rejected += points_below_[depth];
      return absl::OkStatus();
    }
    if (first_rule_below_[depth] == INT_MAX) {
      RETURN_IF_ERROR(fault);
      report_->valid += points_below_[depth];
      return absl::OkStatus();
    }
    const size_t values = impl_.parameters[depth].values.size();
    for (size_t value = 0; value < values; ++value) {
      if (nodes_ == 0) return impl_.BudgetStatus();
      --nodes_;
      impl_.Bind(static_cast<int>(depth), static_cast<uint16_t>(value), &binding_);
      RETURN_IF_ERROR(Visit(depth + 1, failed, fault));
    }
    return absl::OkStatus();
  }

  const Space::Impl& impl_;
  PruneReport* const report_;
  Binding binding_;
  uint64_t nodes_;
  std::vector<std::vector<int>> rules_at_;
  std::vector<int> first_rule_below_;
  std::vector<double> points_below_;
};

absl::Status Estimate(const Space::Impl& impl, PruneReport* report) {
  PhiloxStream random(kEstimateSeed);
  Binding binding(impl.parameters.size());
  report->exact = false;
  report->is_valid_exact = false;
  report->samples = kEstimateSamples;
  const double weight = report->cartesian / static_cast<double>(kEstimateSamples);
  for (uint64_t sample = 0; sample < kEstimateSamples; ++sample) {
    for (size_t p = 0; p < impl.parameters.size(); ++p) {
      const uint64_t value = random.UniformInt(impl.parameters[p].values.size());
      impl.Bind(static_cast<int>(p), static_cast<uint16_t>(value), &binding);
    }
    absl::Status fault;
    bool is_rejected = false;
    for (size_t rule = 0; rule < impl.rules.size() && !is_rejected; ++rule) {
      const Verdict verdict = impl.Judge(static_cast<int>(rule), binding);
      if (verdict == Verdict::kFault && fault.ok()) fault = impl.FaultStatus(static_cast<int>(rule), binding);
      if (verdict != Verdict::kReject) continue;
      report->rules[rule].rejected += weight;
      is_rejected = true;
    }
    if (is_rejected) continue;
    RETURN_IF_ERROR(fault);
    report->valid += weight;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PruneReport> Space::CountByRule(uint64_t exact_max) const {
  PruneReport report;
  report.cartesian = CartesianSize();
  for (size_t rule = 0; rule < impl_->rules.size(); ++rule) {
    const Rule& declared = impl_->RuleAt(static_cast<int>(rule));
    report.rules.push_back({declared.text, declared.reason, impl_->rules[rule].is_device_rule, 0});
  }
  if (report.cartesian <= static_cast<double>(exact_max)) {
    RETURN_IF_ERROR(ExactCount(*impl_, &report).Run());
  } else {
    RETURN_IF_ERROR(Estimate(*impl_, &report));
    // What is left of a space can often be counted where each rule's share cannot.
    const auto valid = impl_->CountWithPrograms(std::min(impl_->options.nodes_max, kExactNodesMax));
    if (valid.has_value() && valid->ok()) {
      report.valid = static_cast<double>(**valid);
      report.is_valid_exact = true;
    }
  }
  return report;
}

std::string PruneReport::ToText() const {
  std::string text = fmt::format("{} of {} points are valid", space_internal::CountText(valid, is_valid_exact),
                                 space_internal::CountText(cartesian, true));
  for (const RuleCount& rule : rules) {
    text += fmt::format("\n  {} rejected by {} '{}'{}{}", space_internal::CountText(rule.rejected, exact),
                        rule.is_device_rule ? "device rule" : "constraint", rule.text, rule.reason.empty() ? "" : ": ",
                        rule.reason);
  }
  return text;
}

std::string Space::ExplainEmpty() const {
  const auto report = CountByRule();
  if (!report.ok()) return fmt::format("the space is empty ({})", MessageOf(report.status()));
  std::string text = fmt::format("the space is empty: the rules reject all {} points", CartesianText());
  for (const RuleCount& rule : report->rules) {
    if (rule.rejected == 0) continue;
    text += fmt::format("\n  {} by {} '{}'{}{}", space_internal::CountText(rule.rejected, report->exact),
                        rule.is_device_rule ? "device rule" : "constraint", rule.text, rule.reason.empty() ? "" : ": ",
                        rule.reason);
  }
  return text;
}

}  // namespace tunefarm
