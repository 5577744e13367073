// Time against energy of a study's finalists: as a table with the Pareto front, and as a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/session.h"
#include "client/cli/studies/chart_svg.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cli {

// A finalist that has a time and an energy.
struct EnergyPoint {
  const v1::Trial* trial = nullptr;
  // On the Pareto front: no other one needs neither more time nor more energy, and less of one of them.
  bool is_on_front = false;
};

// Of those trials that are OK and have both, the least energy first.
std::vector<EnergyPoint> EnergyPoints(const std::vector<v1::Trial>& finalists);

bool NeedsEnergy(v1::Objective objective);
// "time", "energy", "energy times time".
const char* ObjectiveText(v1::Objective objective);

// The table with what belongs to it, or why there is none; empty where neither was asked for. `finalists`: OK, each
// config once.
std::string EnergyText(const Session& session, const v1::Study& study, v1::Objective objective,
                       const std::vector<v1::Trial>& finalists);

// Dots for finalists and a line through the front; absent where fewer than two have an energy.
std::optional<Chart> EnergyChart(const std::string& title, const std::vector<v1::Trial>& finalists);

}  // namespace tunefarm::cli
