// The writer of the tables of configs that vLLM and SGLang read for their fused mixture-of-experts kernel: the names
// that these frameworks look for, the JSON that they read, and a report in Markdown beside each table that says what
// was measured and how. The rows come from the tuner of tune-moe.
//
// Functions without state, for the thread of the command.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/export/export_target.h"
#include "client/cli/moe/tune_moe_options.h"
#include "server/interchange/fused_moe_json.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

// Trials whose config was compiled or taken from the cache, and how many of them were compiled.
struct MoeCompiles {
  int64_t trials = 0, compiled = 0;
};

// For both products of `layer`, before hours of tuning. AlreadyExists where a table or report exists and the user did
// not ask to replace it.
absl::Status CheckMoeTablesAreNew(const TuneMoeOptions& options, interchange::FusedMoeLayer layer);

// Appends the table of one product of `layer` and its report to `files`, with paths relative to the folder that
// `options` names.
void AddMoeTable(const TuneMoeOptions& options, const interchange::FusedMoeLayer& layer, const v1::Kernel& kernel,
                 const MoeCompiles& compiles, const std::vector<interchange::FusedMoeRow>& rows,
                 std::vector<ExportedFile>* files);

}  // namespace tunefarm::cli
