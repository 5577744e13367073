// The bests of the fake daemon's catalog, and a job over several numbers of tokens: what exports are made of.
//
// scale_host on two CPUs; grouped_gemm_forward on an H200 for a few numbers of tokens, one of them with a config that
// Triton cannot take and one with another topk; gemm on the same, with names of its own for its parameters.
#pragma once

#include <vector>

#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::golden {

std::vector<v1::BestConfig> CatalogBests();

// Job 27, of grouped_gemm_forward: three problems with three configs each.
v1::Job GroupedJob();
// Of study 1 to 3.
std::vector<v1::Trial> GroupedTrials(int study);

}  // namespace tunefarm::golden
