// --cost-model: what is done with times predicted before anything is compiled.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"

namespace tunefarm::cli {

void AddCostOption(CLI::App* command, std::string* text);

// "off", "rank", "prune" or "prune=2.5"; empty is a CostModel that says nothing. InvalidArgument for anything else.
absl::StatusOr<v1::CostModel> ParseCostModel(std::string_view text);

// What a job does with predictions, for people: "off", "rank: ...", or "prune: ..." with how many configs that left
// out.
std::string CostModelText(const v1::Job& job);

// The predictions of a counted space, for people; empty where there are none.
std::string PredictionsText(const v1::CountSpaceResponse& response);

}  // namespace tunefarm::cli
