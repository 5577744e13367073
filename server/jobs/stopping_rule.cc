#include "server/jobs/stopping_rule.h"

#include <fmt/core.h>

#include <cmath>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr double kShareMax = 10;
constexpr int kNeverBeganMax = 2;
// Each of them was tried several times before it was LOST.
constexpr int kLostAlikeMax = 3;

absl::Status CheckRange(std::string_view field, double value, double max, std::string_view meaning) {
  if (value >= 0 && value <= max) return absl::OkStatus();  // false for NaN
  return WithReason(InvalidArgument("{} is {:g}, it must be between 0 and {:.0f} {}", field, value, max, meaning),
                    "BUDGET_INVALID");
}

// Such a trial says nothing about whether the device can measure.
bool HasReachedDevice(tunefarm::v1::Outcome outcome) {
  switch (outcome) {
    case tunefarm::v1::OUTCOME_PRUNED:
    case tunefarm::v1::OUTCOME_COMPILE_ERROR:
    case tunefarm::v1::OUTCOME_COMPILE_TIMEOUT:
    case tunefarm::v1::OUTCOME_COMPILE_CRASH:
    case tunefarm::v1::OUTCOME_LOAD_ERROR:
    case tunefarm::v1::OUTCOME_POISONED:
      return false;
    default:
      return true;
  }
}

}  // namespace

absl::Status CheckBudget(const tunefarm::v1::Budget& budget) {
  RETURN_IF_ERROR(CheckRange("budget.max_device_seconds", budget.max_device_seconds(),
                             static_cast<double>(kBudgetSecondsMax), "seconds"));
  return CheckRange("budget.stop_within_floor", budget.stop_within_floor(), kShareMax,
                    "(a share of the roofline floor: 0.05 stops at 5 % above it)");
}

absl::Status CheckBudgetApplies(const tunefarm::v1::Budget& budget, double floor_ns, std::string_view problem_key,
                                std::string_view device) {
  if (budget.stop_within_floor() <= 0 || floor_ns > 0) return absl::OkStatus();
  return WithReason(
      InvalidArgument("budget.stop_within_floor needs the roofline floor of {} on {}, which is not known: the "
                      "definition must state flops or bytes, and the peaks of the device must be known; leave it out "
                      "or bound the search another way",
                      problem_key, device),
      "BUDGET_INVALID");
}

double DeviceBusyMs(const tunefarm::v1::Trial& trial) {
  const double ms = trial.device_busy_ms() > 0 ? trial.device_busy_ms() : trial.run_ms();
  return std::isfinite(ms) && ms > 0 && !trial.reused() ? ms : 0;
}

StoppingRule::StoppingRule(const tunefarm::v1::Budget& budget, double floor_ns)
    : limit_ns_(budget.stop_within_floor() > 0 ? floor_ns * (1 + budget.stop_within_floor()) : 0),
      floor_ns_(floor_ns),
      patience_(budget.max_trials_without_gain()) {}

void StoppingRule::NoteLoss(const tunefarm::v1::Trial& trial) {
  if (!HasReachedDevice(trial.outcome())) return;
  const bool is_alike = trial.outcome() == tunefarm::v1::OUTCOME_LOST && trial.phase() == tunefarm::v1::PHASE_MEASURE &&
                        !trial.message().empty() && (lost_alike_ == 0 || trial.message() == loss_);
  if (lost_alike_ < 0 || !is_alike) {
    lost_alike_ = -1;
    return;
  }
  loss_ = trial.message();
  if (++lost_alike_ == kLostAlikeMax) because_ = fmt::format("the first {} trials could not be measured", lost_alike_);
}

void StoppingRule::Tell(const tunefarm::v1::Trial& trial) {
  if (!because_.empty()) return;
  NoteLoss(trial);
  if (trial.outcome() == tunefarm::v1::OUTCOME_LOST) return;
  const bool crashed =
      trial.outcome() == tunefarm::v1::OUTCOME_RUN_CRASH || trial.outcome() == tunefarm::v1::OUTCOME_RUN_TIMEOUT;
  const bool may_be_the_inputs = crashed || trial.outcome() == tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH;
  if (may_be_the_inputs && trial.phase() == tunefarm::v1::PHASE_UNSPECIFIED) {
    if (++never_began_ == kNeverBeganMax) {
      because_ =
          fmt::format("the reference or the inputs {}, so no config can be judged; see the first trial's message",
                      crashed ? "crash or hang" : "cannot be made as the definition says");
      return;
    }
  } else if (crashed || trial.outcome() == tunefarm::v1::OUTCOME_OK ||
             trial.outcome() == tunefarm::v1::OUTCOME_WRONG_RESULT) {
    never_began_ = 0;
  }
  const double median_ns = trial.outcome() == tunefarm::v1::OUTCOME_OK ? trial.measurement().median_ns() : 0;
  if (median_ns > 0 && (best_ns_ == 0 || median_ns < best_ns_)) {
    best_ns_ = median_ns;
    without_gain_ = 0;
  } else {
    ++without_gain_;
  }
  if (limit_ns_ > 0 && best_ns_ > 0 && best_ns_ <= limit_ns_) {
    because_ = fmt::format("{} is within {:.3g} % of the roofline floor, {}", FormatDuration(best_ns_),
                           100 * (limit_ns_ / floor_ns_ - 1), FormatDuration(floor_ns_));
  } else if (patience_ > 0 && without_gain_ >= patience_) {
    because_ = FormatCount(without_gain_, "trial") + " without a better one";
  }
}

}  // namespace tunefarm
