#include "server/agent/final_rounds.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "server/base/random.h"

namespace tunefarm {
namespace {

// Makes another seed of one.
constexpr uint64_t kSecondInputs = 0x9E3779B97F4A7C15u;

// The place of the first trial of a config that has been compiled here; the number of trials if there is none.
size_t FirstConfig(const UnitWork& unit) {
  const auto first = std::ranges::find_if(unit.trials, [](const TrialWork& trial) {
    return !trial.baseline && (trial.compile.artifact != nullptr || !trial.rounds.empty());
  });
  return static_cast<size_t>(first - unit.trials.begin());
}

// Drawn again for every round: a fixed order, and one that only rotates too, keeps a config in step with whatever else
// has a period (where the driver puts code, what ran before), and a difference that is there in every round looks true.
// On an H200 30 to 40 % of A/A intervals excluded 1 with a rotating order.
std::vector<size_t> OrderOfRound(const UnitWork& unit) {
  std::vector<size_t> order(unit.trials.size());
  std::iota(order.begin(), order.end(), size_t{0});
  PhiloxStream random(static_cast<uint64_t>(unit.assignment.unit_id()), static_cast<uint64_t>(unit.round));
  for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.UniformInt(left)]);
  // The yardstick's trial ends last. An agent that is given the rest of the final later, without the trials that are
  // stored, then chooses the same yardstick, and all ratios of the final have the same denominator.
  if (unit.round + 1 == unit.assignment.interleaved_rounds()) {
    const auto first = std::ranges::find(order, FirstConfig(unit));
    if (first != order.end()) std::rotate(first, first + 1, order.end());
  }
  return order;
}

// Kernels of other languages run in workers that measure one config at a time.
bool HasYardstick(const UnitWork& unit, const DeviceClass& device_class) {
  const auto language = unit.plan->language();
  const bool runs_in_cuda_worker = language == tunefarm::v1::LANGUAGE_CUDA || language == tunefarm::v1::LANGUAGE_TRITON;
  return !unit.is_alone && unit.trials.size() > 1 && runs_in_cuda_worker && device_class.kind == DeviceKind::kCuda;
}

void ChooseYardstick(UnitWork* unit) {
  const size_t first = FirstConfig(*unit);
  if (first == unit->trials.size()) {
    unit->is_alone = true;
  } else {
    unit->yardstick = Yardstick{unit->trials[first].config, unit->trials[first].compile.artifact};
  }
}

}  // namespace

TrialWork* NextInRounds(UnitWork* unit) {
  for (const TrialWork& trial : unit->trials) {
    if (trial.state == TrialWork::State::kWaiting || trial.state == TrialWork::State::kCompiling) return nullptr;
  }
  const int count = static_cast<int>(unit->trials.size());
  for (; unit->round < unit->assignment.interleaved_rounds(); ++unit->round, unit->position = 0, unit->order.clear()) {
    if (unit->order.empty()) unit->order = OrderOfRound(*unit);
    for (; unit->position < count; ++unit->position) {
      TrialWork& trial = unit->trials[unit->order[static_cast<size_t>(unit->position)]];
      const bool has_run = static_cast<int>(trial.rounds.size()) > unit->round;
      if (trial.state != TrialWork::State::kCompiled || has_run) continue;
      return trial.delayed ? nullptr : &trial;
    }
  }
  return nullptr;
}

void AddRound(const TrialWork& trial, const DeviceClass& device_class, UnitWork* unit, RunRequest* request) {
  const auto& seeds = unit->problem->input_seeds;
  const size_t round = trial.rounds.size();
  if (!seeds.empty()) request->input_seed = seeds[round % seeds.size()];
  request->keep_samples = true;
  // Finalists once, in their last round: making other inputs and their reference takes longer than a round, and so does
  // an energy.
  const bool is_last = static_cast<int>(round) + 1 >= unit->assignment.interleaved_rounds();
  if (is_last && !trial.baseline && seeds.size() < 2 && !unit->assignment.policy().no_second_inputs()) {
    request->second_input_seed = request->input_seed ^ kSecondInputs;
  }
  request->policy.set_measure_energy(is_last && !trial.baseline && unit->assignment.policy().measure_energy());
  if (!HasYardstick(*unit, device_class)) return;
  if (!unit->yardstick.has_value()) ChooseYardstick(unit);
  request->yardstick = unit->yardstick;
}

bool RunsAgainAlone(const RunResult& result, UnitWork* unit) {
  const bool is_good = result.outcome == tunefarm::v1::OUTCOME_OK || result.outcome == tunefarm::v1::OUTCOME_NOISY;
  // What it computes is its own: the yardstick writes to memory of its own, whose bounds are watched.
  const bool is_wrong = result.outcome == tunefarm::v1::OUTCOME_WRONG_RESULT;
  if (is_good || is_wrong || !unit->yardstick.has_value()) return false;
  unit->yardstick.reset();
  unit->is_alone = true;
  return true;
}

}  // namespace tunefarm
