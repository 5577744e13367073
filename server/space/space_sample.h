// Uniform sampling without listing. Groups of parameters that no rule connects are independent, so a uniform solution
// of each makes a uniform config. The solutions of a group are listed, or else counted exactly and drawn by their
// counts. Where neither can be done for all groups, there are two exact ways for each:
//   - rejection: uniform points of its Cartesian product until one is valid; taken where a fair share of points is
//     valid;
//   - counting with the counts of the first parameters remembered only; what is below these is counted again for each
//     sample.
// (Restarting a depth-first search from random values is none of these: it favours solutions in sparse subtrees.)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/space/search_count.h"
#include "server/space/space_search.h"

namespace tunefarm::space_internal {

// Threads: never changes after construction; const use from any thread.
class SpaceSampler {
 public:
  // Counts. `search` must outlive this. Where its limit ends meanwhile, this is not to be used.
  explicit SpaceSampler(const SpaceSearch& search);

  // One valid config's value indices; fails as Space::SampleUniform does.
  absl::StatusOr<std::vector<uint16_t>> Draw(PhiloxStream& random) const;

 private:
  // One group of parameters.
  struct Part {
    enum class Way { kList, kCounts, kPrefixes, kRejection };
    std::shared_ptr<const SearchProgram> program;
    Way way = Way::kRejection;
    std::vector<uint64_t> keys;                // of kList
    std::unique_ptr<MemoryUse> memory;         // that the keys take
    std::unique_ptr<CountedSolutions> counts;  // of kCounts and kPrefixes
  };

  void Fail(const absl::Status& status);
  // Lists every group or counts all of it. False where one can be neither listed nor counted.
  bool CountParts();
  // Prepares every group for rejection, or counts its prefixes.
  void SearchParts();
  bool IsOftenValid(const SearchProgram& program) const;
  const WorkLimit* limit() const { return search_.options().limit.get(); }
  // One uniform point of the group's Cartesian product into `row`.
  Verdict DrawPoint(const SearchProgram& program, PhiloxStream& random, Binding* binding, std::vector<uint16_t>* row,
                    absl::Status* fault) const;
  absl::Status DrawByRejection(const SearchProgram& program, PhiloxStream& random, std::vector<uint16_t>* row) const;

  const SpaceSearch& search_;
  const SpaceRules& rules_;
  std::vector<Part> parts_;
  absl::Status status_;  // why nothing can be drawn
};

}  // namespace tunefarm::space_internal
