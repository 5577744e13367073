// "default": needs no choice by the user. A surrogate model proposes most points; a pack search, which shares the
// history but not the model, proposes the others, so that a model that is wrong costs little.
#pragma once

#include <memory>

#include "server/search/model_search.h"
#include "server/search/pack_search.h"
#include "server/search/prior_knowledge.h"
#include "server/search/proposer.h"

namespace tunefarm {

class Portfolio final : public Proposer {
 public:
  // `prior` may be null.
  Portfolio(std::shared_ptr<const SearchSpace> space, uint64_t seed, const ModelSearchOptions& options,
            std::shared_ptr<const PriorKnowledge> prior);

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;
  void Observed(const History& history, size_t observation, PhiloxStream& random) override;

 private:
  ModelSearch model_;
  PackSearch pack_;
};

}  // namespace tunefarm
