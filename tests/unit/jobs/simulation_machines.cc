// The real agents of a simulation: what happens to their machines and to their calls.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "server/base/check.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/simulation.h"

namespace tunefarm {

namespace {

// Calls that are on their way, one within another.
constexpr int kPassingMax = 3;

}  // namespace

void Simulation::MakeMachine(int number, const std::string& directory) {
  const std::string own = fmt::format("{}/machine-{}", directory, number + 1);
  std::filesystem::create_directory(own);
  const auto play = [this](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.median_ns = TrueTime(question.config, question.problem);
    script.binary = fmt::format("{}", script.median_ns);  // some configs do the same
    if (Fails(question.config, question.problem)) script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    script.compile_time = dice_.Ms(1, 60);
    script.run_time = dice_.Ms(1, 60);
    script.out_of_service = question.is_run && !calm_ && dice_.OneIn(300);
    return script;
  };
  Machine machine;
  machine.process = std::make_unique<RemoteMachine>(this, &clock_, &entropy_,
                                                    HostDevice(fmt::format("HOST-{}", number + 1)), own, play);
  machine.process->Boot();
  machines_.push_back(std::move(machine));
}

void Simulation::DisturbMachine() {
  Machine& machine = machines_[static_cast<size_t>(dice_.Below(static_cast<int>(machines_.size())))];
  const int what = dice_.Below(8);
  if (!machine.process->is_up()) return;
  switch (what) {
    case 0:
    case 1:
      machine.process->Kill();
      if (what == 0) machine.process->LoseDisk();
      machine.comes_back = clock_.Now() + dice_.Ms(0, 8000);
      ++outcome_.agents_lost;
      return;
    case 2:
    case 3:
      machine.process->StandStill(clock_.Now() + dice_.Ms(100, 10'000));
      ++outcome_.agents_frozen;
      return;
    case 4:
    case 5: {
      const int only = dice_.Below(options_.nodes);
      const MonotonicTime until = clock_.Now() + dice_.Ms(100, 8000);
      for (int node = 0; node < options_.nodes; ++node) {
        if (what == 4 || node == only) machine.process->network().CutOff(node, until);
      }
      ++outcome_.cut_off;
      return;
    }
    case 6:
      machine.process->Drain();
      ++outcome_.drained;
      return;
    default:
      machine.process->SetQuarantine(true);
      machine.is_out = true;
      machine.heals = clock_.Now() + dice_.Ms(500, 4000);
      ++outcome_.quarantined;
  }
}

void Simulation::LookAfterMachines() {
  for (Machine& machine : machines_) {
    if (machine.process->is_drained()) {
      machine.process->Kill();
      machine.comes_back = clock_.Now() + dice_.Ms(0, 3000);
    }
    if (!machine.process->is_up()) {
      if (!calm_ && clock_.Now() < machine.comes_back) continue;
      machine.process->Boot();
      machine.is_out = false;
    }
    if (machine.is_out && (calm_ || clock_.Now() >= machine.heals)) {
      machine.process->SetQuarantine(false);
      machine.is_out = false;
    }
  }
  for (size_t i = 0; i < late_calls_.size();) {
    if (late_calls_[i].due > clock_.Now()) {
      ++i;
      continue;
    }
    const LateCall call = std::move(late_calls_[i]);
    late_calls_.erase(late_calls_.begin() + static_cast<std::ptrdiff_t>(i));
    call.task();
  }
}

ControlLink* Simulation::ControlAt(int node) {
  Node& one = nodes_[static_cast<size_t>(node)];
  return Runs(one) ? &one.service->link() : nullptr;
}

void Simulation::InNode(int, const std::function<void()>& call) {
  runs_node_ = stalled_ == 0;
  call();
  runs_node_ = false;
}

void Simulation::LetPass(Duration time) {
  if (passing_ >= kPassingMax) return;
  ++passing_;
  const MonotonicTime end = clock_.Now() + time;
  while (clock_.Now() < end) {
    if (!RunSomething() || dice_.OneIn(10)) clock_.Advance(dice_.Ms(5, 120));
  }
  --passing_;
}

void Simulation::Later(Duration delay, std::function<void()> task) {
  late_calls_.push_back({clock_.Now() + delay, std::move(task)});
}

}  // namespace tunefarm
