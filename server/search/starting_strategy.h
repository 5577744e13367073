// StartingStrategy: proposes given configs, then whatever another strategy proposes.
//
// Threads: not thread-safe; one owner.
#pragma once

#include <memory>
#include <vector>

#include "server/search/strategy.h"

namespace tunefarm {

// `first` in its order, each once, then the proposals of `rest`, which is told of the first ones as it is of recorded
// proposals and so never repeats them. A config that `rest` does not take for one of its space is left out. Name,
// version and total are those of `rest`.
std::unique_ptr<Strategy> MakeStartingStrategy(std::vector<Config> first, std::unique_ptr<Strategy> rest);

}  // namespace tunefarm
