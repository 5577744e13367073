// Bests of the catalog on their way into files: what the writers of all formats share.
//
// Pure; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/config.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm::interchange {

struct ExportedBest {
  v1::BestConfig best;
  // What a look-up of its own problem answers today: EXACT, STALE or STALE_SOURCE.
  v1::Match match = v1::MATCH_EXACT;
  // The problem's dims and the config, checked and sorted by name.
  Config dims;
  Config config;
  // The dims with inputs_only of the kernel's definition, with their defaults; null: none.
  std::shared_ptr<const Config> inputs;

  // Baseline over median; 0 where there was no baseline.
  double speedup() const;
  // Whether only dims make the problem: no pins, and no input seeds of its own.
  bool is_plain() const;
};

// DataLoss where a dim or a parameter has no value.
absl::StatusOr<ExportedBest> MakeExportedBest(v1::BestConfig best, v1::Match match);

// Names and values (ValueLess) in their order.
bool ConfigLess(const Config& a, const Config& b);

// By kernel, device class, dims, and the newest first.
void SortBests(std::vector<ExportedBest>* bests);
// Of sorted bests that have kernel, class and problem in common (of several programs) the newest only.
void KeepNewest(std::vector<ExportedBest>* bests);

// Takes the dims with inputs_only out of `dims`. Of plain bests that then have kernel, class and dims in common, one is
// left, as a look-up chooses: the asked program's own first, then the one with the default inputs, then the newest.
void LeaveOutInputs(std::vector<ExportedBest>* bests);

// "EXACT" for MATCH_EXACT.
std::string MatchText(v1::Match match);
// The shortest text that reads back as the same number, always with a point or an exponent.
std::string NumberText(double number);

}  // namespace tunefarm::interchange
