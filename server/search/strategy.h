// A Strategy decides which configs of a space to try next, from what was tried before.
//
// Its state is a function of (seed, space, options, priors) and of the calls MarkProposed, Ask and Tell in their order,
// and of nothing else: no clock, no other randomness. A daemon that records each proposal before it runs and each
// result as it is told can therefore rebuild a strategy after a restart: construct it, call MarkProposed and Tell for
// the records in their order, and go on; Ask then proposes what it would have proposed, and never what was recorded.
//
// Threads: not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/space/space.h"

namespace tunefarm {

// What a finished trial says about its config.
enum class ToldOutcome {
  kOk,      // it ran and its result was right: objective_ns counts
  kFailed,  // it cannot be used: did not compile, crashed, was wrong, ...
  kLost,    // the machinery died: says nothing about the config
};

struct Told {
  uint64_t ordinal = 0;  // of the proposal within its study, from 0
  Config config;
  ToldOutcome outcome = ToldOutcome::kLost;
  double objective_ns = 0;  // where kOk; smaller is better
};

// A result of another study that may help: of the same kernel for another problem, on another class of devices, or with
// another toolkit.
struct PriorResult {
  Config config;
  ToldOutcome outcome = ToldOutcome::kFailed;  // kOk or kFailed
  double objective_ns = 0;                     // where kOk
};

// The results of one other study. Objectives of one source compare with each other, never with those of another.
struct PriorSource {
  // How similar it is to this study: 0 is the most similar (the nearest problem on the same class, say), then 1, 2, ...
  int rank = 0;
  std::string label;  // for people: "m=4096 n=4096 on H100"
  std::vector<PriorResult> results;
};

// Sources in any order. Configs that are not of the space (a grown or changed one) are skipped.
using Priors = std::vector<PriorSource>;

using StrategyOptions = std::map<std::string, std::string, std::less<>>;

class Strategy {
 public:
  virtual ~Strategy() = default;

  // The name it was made by, and the version of its algorithm: a record made by another version cannot be replayed.
  virtual std::string_view name() const = 0;
  virtual int version() const = 0;

  // Up to `n` (at least 1) configs to try, all valid, none proposed before. Fewer, or none, when the space is exhausted
  // or when the strategy wants to be told results first. Fails as Space::SampleUniform does.
  virtual absl::StatusOr<std::vector<Config>> Ask(int n) = 0;

  // A proposal made before a restart. Once per recorded proposal, in the order of the ordinals, before the next Ask.
  // InvalidArgument when the config is not of this space (the record belongs to another one).
  virtual absl::Status MarkProposed(const Config& config) = 0;

  // A result of a proposal.
  virtual void Tell(const Told& told) = 0;

  // True once Ask will never propose anything again, whatever is told.
  virtual bool Exhausted() const = 0;

  // How many configs it will propose in all, where that is known: for progress.
  virtual std::optional<uint64_t> Total() const = 0;
};

// The strategy of jobs that name none and whose space is not small.
inline constexpr std::string_view kDefaultStrategy = "default";

// The names that MakeStrategy knows; the default one first.
std::vector<std::string> StrategyNames();

// For help texts: every strategy with one sentence, and its options with their defaults and ranges.
std::string StrategyHelp();

// Every strategy proposes the default config first, where it is valid. "exhaustive" goes through the space in its
// order, "random" in a random one; neither uses `priors` or the space's starting configs, which the others propose
// next. StrategyHelp says what the others do. All but "exhaustive" take spaces of any size: beyond a million configs
// they sample instead of listing.
//
// InvalidArgument for an unknown strategy or option (with the likely meant one) and for a space that is too large to
// list where the strategy must list it; FailedPrecondition for an empty space, with what each rule rejected; otherwise
// fails as Space::Enumerate does.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name, const StrategyOptions& options,
                                                       const Space& space, uint64_t seed, const Priors& priors = {});

// What can be refused of such a request before anything is listed, knowing that the space has about `valid` configs of
// so many points (Space::CartesianText). InvalidArgument as above.
absl::Status CheckStrategy(std::string_view name, const StrategyOptions& options, uint64_t valid,
                           std::string_view points);

class SearchSpace;

// The same over a space that is already listed, or that is a recording; several strategies may share it.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name, const StrategyOptions& options,
                                                       std::shared_ptr<const SearchSpace> space, uint64_t seed,
                                                       const Priors& priors = {});

}  // namespace tunefarm
