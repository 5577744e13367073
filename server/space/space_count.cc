#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <optional>

#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/base/work_limit.h"
#include "server/space/space_search.h"

namespace tunefarm {
namespace space_internal {
namespace {

constexpr uint64_t kEstimateSamples = 1'000'000;
constexpr uint64_t kExactNodesMax = 100'000'000;
// The part of a limited time that each way to count may take: so much, and so much of what is left.
constexpr Duration kPartTime = std::chrono::seconds(3);
constexpr int kPartOfLeft = 4;
constexpr uint64_t kEstimateSeed = 0x7075'6e65'7265'706f;  // any fixed number: two calls give one answer

// Walks the parameters in declared order and judges a rule where its last parameter is bound. Below a point where rule
// r has failed, only rules declared before r can still change the answer: where none is left, the whole subtree is
// counted at once.
class ExactCount {
 public:
  ExactCount(const SpaceSearch& search, const WorkLimit* limit, PruneReport* report)
      : search_(search),
        rules_(search.rules()),
        report_(report),
        binding_(rules_.parameters().size()),
        nodes_(search.options().nodes_max),
        pace_(limit) {
    const size_t count = rules_.parameters().size();
    rules_at_.resize(count + 1);
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      const auto& variables = rules_.At(static_cast<int>(rule)).Variables();
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
      points_below_[depth] = points_below_[depth + 1] * static_cast<double>(rules_.parameters()[depth].values.size());
    }
  }

  absl::Status Run() { return Visit(0, INT_MAX, absl::OkStatus()); }

 private:
  // `failed` is the first rule that rejects so far, `fault` the first error of a rule that could not be judged.
  absl::Status Visit(size_t depth, int failed, absl::Status fault) {
    for (const int rule : rules_at_[depth]) {
      if (rule > failed) break;  // ascending
      const Verdict verdict = rules_.Judge(rule, binding_);
      if (verdict == Verdict::kFault && fault.ok()) fault = rules_.FaultStatus(rule, binding_);
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
    const size_t values = rules_.parameters()[depth].values.size();
    for (size_t value = 0; value < values; ++value) {
      if (nodes_ == 0 || !pace_.Spend(1 + rules_at_[depth + 1].size() * SpaceRules::kJudgeWork)) {
        return search_.BudgetStatus();
      }
      --nodes_;
      rules_.Bind(static_cast<int>(depth), static_cast<uint16_t>(value), &binding_);
      RETURN_IF_ERROR(Visit(depth + 1, failed, fault));
    }
    return absl::OkStatus();
  }

  const SpaceSearch& search_;
  const SpaceRules& rules_;
  PruneReport* const report_;
  Binding binding_;
  uint64_t nodes_;
  WorkPace pace_;
  std::vector<std::vector<int>> rules_at_;
  std::vector<int> first_rule_below_;
  std::vector<double> points_below_;
};

// Draws fewer points where the limit ends.
absl::Status Estimate(const SpaceRules& rules, const WorkLimit* limit, PruneReport* report) {
  PhiloxStream random(kEstimateSeed);
  WorkPace pace(limit);
  Binding binding(rules.parameters().size());
  report->exact = false;
  report->is_valid_exact = false;
  uint64_t samples = 0;
  while (samples < kEstimateSamples && pace.Spend(rules.parameters().size())) {
    ++samples;
    for (size_t p = 0; p < rules.parameters().size(); ++p) {
      const uint64_t value = random.UniformInt(rules.parameters()[p].values.size());
      rules.Bind(static_cast<int>(p), static_cast<uint16_t>(value), &binding);
    }
    absl::Status fault;
    bool is_rejected = false;
    for (size_t rule = 0; rule < rules.size() && !is_rejected; ++rule) {
      pace.Spend(SpaceRules::kJudgeWork);
      const Verdict verdict = rules.Judge(static_cast<int>(rule), binding);
      if (verdict == Verdict::kFault && fault.ok()) fault = rules.FaultStatus(static_cast<int>(rule), binding);
      if (verdict != Verdict::kReject) continue;
      report->rules[rule].rejected += 1;
      is_rejected = true;
    }
    if (is_rejected) continue;
    RETURN_IF_ERROR(fault);
    report->valid += 1;
  }
  report->samples = samples;
  const double weight = report->cartesian / static_cast<double>(std::max<uint64_t>(1, samples));
  for (RuleCount& rule : report->rules) rule.rejected *= weight;
  report->valid *= weight;
  return absl::OkStatus();
}

// A part of the search's limit, for one way to count; none without a limit.
class Part {
 public:
  explicit Part(const SpaceSearch& search) {
    const WorkLimit* const whole = search.options().limit.get();
    if (whole != nullptr) limit_.emplace(whole, std::min(kPartTime, whole->Left() / kPartOfLeft));
  }
  const WorkLimit* limit() const { return limit_.has_value() ? &*limit_ : nullptr; }
  bool has_ended() const { return limit_.has_value() && !limit_->GoOn(); }

 private:
  std::optional<WorkLimit> limit_;
};

}  // namespace

absl::StatusOr<PruneReport> CountByRule(const SpaceSearch& search, double cartesian, uint64_t exact_max) {
  const SpaceRules& rules = search.rules();
  PruneReport report;
  report.cartesian = cartesian;
  for (size_t i = 0; i < rules.size(); ++i) {
    const int rule = static_cast<int>(i);
    report.rules.push_back({rules.Declared(rule).text, rules.Declared(rule).reason, rules.IsDeviceRule(rule), 0});
  }
  if (cartesian <= static_cast<double>(exact_max)) {
    const Part part(search);
    const absl::Status counted = ExactCount(search, part.limit(), &report).Run();
    if (counted.ok()) return report;
    if (!part.has_ended()) return counted;
    RETURN_IF_ERROR(search.LimitStatus());
    for (RuleCount& rule : report.rules) rule.rejected = 0;
    report.valid = 0;
  }
  {
    const Part part(search);
    RETURN_IF_ERROR(Estimate(rules, part.limit(), &report));
  }
  RETURN_IF_ERROR(search.LimitStatus());
  // What is left of a space can often be counted where each rule's share cannot.
  const Part part(search);
  const auto valid = search.Count({std::min(search.options().nodes_max, kExactNodesMax), part.limit()});
  RETURN_IF_ERROR(search.LimitStatus());
  if (valid.ok()) {
    report.valid = static_cast<double>(*valid);
    report.is_valid_exact = true;
  }
  return report;
}

std::string CountText(double count, bool is_exact) {
  // What a double holds exactly; beyond that the digits end, not the exactness.
  constexpr double kWholeMax = 9.0e15;
  const std::string prefix = is_exact ? "" : "≈";
  if (count < (is_exact ? kWholeMax : 1e12)) return prefix + FormatCount(static_cast<int64_t>(std::llround(count)));
  const int exponent = static_cast<int>(std::floor(std::log10(count)));
  return fmt::format("{}{:.1f}e{}", prefix, count / std::pow(10.0, exponent), exponent);
}

}  // namespace space_internal

}  // namespace tunefarm
