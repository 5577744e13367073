#include "server/space/search_list.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <numeric>

#include "server/space/key_sort.h"
#include "server/space/parallel.h"
#include "server/space/search_count.h"

namespace tunefarm::space_internal {

namespace {

// Below, a search is over before other threads would have helped: about 20 ms.
constexpr uint64_t kNodesOfOneThread = 1'000'000;
// Enough parts that the last ones to end are small. Each has a cost of its own: more than the most are made only where
// there would be fewer than the least.
constexpr double kPartsWanted = 256, kPartsMin = 32, kPartsMax = 16'384;
// How many keys a part adds between two looks at the common bounds.
constexpr uint64_t kKeysBetween = 1 << 16;
// How many rows of value indices are added between two looks.
constexpr uint64_t kRowsBetween = 1 << 12;

// The keys of all combinations of the parameters that no rule restricts.
std::vector<uint64_t> FreeKeys(const SearchProgram& program, const KeyLayout& layout) {
  std::vector<uint64_t> keys = {0};
  for (size_t depth = program.free_from(); depth < program.size(); ++depth) {
    std::vector<uint64_t> longer;
    const int shift = layout.shift[static_cast<size_t>(program.parameters()[depth])];
    for (const uint64_t key : keys) {
      for (const uint16_t value : program.DomainAt(depth)) longer.push_back(key | (uint64_t{value} << shift));
    }
    keys = std::move(longer);
  }
  return keys;
}

// One listing. It begins on one thread. When that has visited many nodes, what is left is divided into parts by the
// values of the first parameters, for several threads. All parts together have the bounds that the search has: a part
// stops when those before it and itself have reached one, and also when one before it has failed.
class Listing {
 public:
  Listing(const SearchProgram& program, const KeyLayout& layout, const ListOptions& options,
          const SearchBudget& budget);

  // As ListKeys, unsorted.
  WalkEnd Run(uint64_t* nodes, std::vector<uint64_t>* keys, absl::Status* fault);

 private:
  // What the first parameters are, and what is found there. The first part has all that is found before the others are
  // made, and no prefix.
  struct Part {
    std::vector<uint16_t> positions;  // by depth
    std::vector<int64_t> numbers;     // the exports of their depths, one after another
    uint64_t prefix = 0;
    size_t fault_depth = SearchState::kNoDepth;
    int fault_rule = -1;

    WalkEnd end = WalkEnd::kStopped;
    absl::Status fault;
    std::vector<uint64_t> keys;
    // As of the last look; exact when the part has ended.
    std::atomic<uint64_t> nodes_used{0}, key_count{0};
  };
  // One thread's search of a part.
  struct Search final : SearchWatch {
    explicit Search(Listing* of) : listing(*of), state(of->program_, {of->nodes_, of->work_limit_}) {
      state.watch = this;
    }
    bool GoOn(uint64_t nodes_left) override;

    Listing& listing;
    SearchState state;
    size_t index = 0;
    Part* part = nullptr;
    bool divides = false;  // what is not begun at split_depth_ becomes a part of its own
  };

  void SearchPart(size_t index, Search* search);
  WalkEnd Descend(size_t depth, uint64_t key, Search* search);
  // Solutions at the last searched depth, whose values are alive.
  WalkEnd Emit(size_t depth, uint64_t prefix, Search* search) const;
  void AddPart(uint64_t prefix, const SearchState& state);
  // Notes what the part has had by now.
  void Note(uint64_t nodes_used, uint64_t key_count, Part* part);
  void Take(const Part& part, SearchState* state) const;
  WalkEnd Join(uint64_t* nodes, std::vector<uint64_t>* keys, absl::Status* fault);

  const SearchProgram& program_;
  const KeyLayout& layout_;
  const std::vector<uint64_t> free_keys_;
  const uint64_t limit_;
  const int threads_;
  const uint64_t nodes_;
  const WorkLimit* const work_limit_;
  MemoryUse* const memory_;
  const uint64_t bytes_before_, bytes_each_;  // of memory_
  size_t split_depth_ = 0;                    // of the parts' first own parameter; 0: it is never divided
  std::vector<std::unique_ptr<Part>> parts_;
  std::atomic<size_t> next_{1}, failed_{SIZE_MAX};      // the first part known to have failed
  std::atomic<uint64_t> nodes_used_{0}, key_count_{0};  // of all parts, as they were last noted
};

Listing::Listing(const SearchProgram& program, const KeyLayout& layout, const ListOptions& options,
                 const SearchBudget& budget)
    : program_(program),
      layout_(layout),
      free_keys_(FreeKeys(program, layout)),
      limit_(options.limit),
      threads_(options.threads),
      nodes_(budget.nodes),
      work_limit_(budget.limit),
      memory_(options.memory),
      bytes_before_(options.memory->bytes()),
      bytes_each_(options.bytes_each) {
  double parts = 1;
  for (size_t depth = 0; depth + 1 < program.free_from() && parts < kPartsWanted; ++depth) {
    const double more = parts * static_cast<double>(program.DomainAt(depth).size());
    if (more > kPartsMax && parts >= kPartsMin) break;
    parts = more;
    split_depth_ = depth + 1;
  }
}

WalkEnd Listing::Run(uint64_t* nodes, std::vector<uint64_t>* keys, absl::Status* fault) {
  parts_.push_back(std::make_unique<Part>());
  Search first(this);
  SearchPart(0, &first);
  const size_t left = parts_.size() - 1;
  if (left > 0) {
    const size_t threads = std::min(static_cast<size_t>(threads_), left);
    ForEachPart(static_cast<int>(threads), threads, [&](size_t) {
      Search search(this);
      for (size_t index = next_++; index < parts_.size(); index = next_++) SearchPart(index, &search);
    });
  }
  return Join(nodes, keys, fault);
}

void Listing::SearchPart(size_t index, Search* search) {
  Part& part = *parts_[index];
  search->index = index;
  search->part = &part;
  search->state.nodes = nodes_;
  search->state.ask_below = nodes_;
  if (failed_ < index) return;
  Take(part, &search->state);
  part.end = Descend(part.positions.size(), part.prefix, search);
  if (part.end == WalkEnd::kFault) part.fault = search->state.FaultStatus();
  Note(nodes_ - search->state.nodes, part.keys.size(), &part);
  if (part.end == WalkEnd::kDone) return;
  size_t first = failed_;
  while (index < first && !failed_.compare_exchange_weak(first, index)) continue;
}

void Listing::Note(uint64_t nodes_used, uint64_t key_count, Part* part) {
  nodes_used_ += nodes_used - part->nodes_used;
  key_count_ += key_count - part->key_count;
  part->nodes_used = nodes_used;
  part->key_count = key_count;
}

bool Listing::Search::GoOn(uint64_t nodes_left) {
  const uint64_t used = listing.nodes_ - nodes_left;
  listing.Note(used, part->keys.size(), part);
  if (!listing.memory_->AtLeast(listing.bytes_before_ + listing.key_count_ * listing.bytes_each_)) return false;
  if (index == 0) {
    divides = used >= kNodesOfOneThread && listing.split_depth_ > 0 && listing.threads_ > 1;
    return true;
  }
  if (listing.failed_ < index) return false;
  // Only near a bound it matters which parts come before: there are many, and each asks.
  if (listing.nodes_used_ <= listing.nodes_ && listing.key_count_ <= listing.limit_) return true;
  uint64_t nodes = 0, keys = 0;
  for (size_t i = 0; i <= index; ++i) {
    nodes += listing.parts_[i]->nodes_used;
    keys += listing.parts_[i]->key_count;
  }
  return nodes <= listing.nodes_ && keys <= listing.limit_;
}

WalkEnd Listing::Descend(size_t depth, uint64_t key, Search* search) {
  SearchState& state = search->state;
  if (search->divides && depth == split_depth_) {
    AddPart(key, state);
    return WalkEnd::kDone;
  }
  const WalkEnd visited = state.Visit(depth);
  if (visited != WalkEnd::kDone) return visited;
  if (depth + 1 == program_.free_from()) return Emit(depth, key, search);
  const int shift = layout_.shift[static_cast<size_t>(program_.parameters()[depth])];
  const std::vector<uint16_t>& domain = program_.DomainAt(depth);
  for (const uint16_t position : state.alive[depth]) {
    state.Bind(depth, position);
    const uint64_t value = domain[position];
    const WalkEnd end = Descend(depth + 1, key | (value << shift), search);
    if (end != WalkEnd::kDone) return end;
  }
  return WalkEnd::kDone;
}

WalkEnd Listing::Emit(size_t depth, uint64_t prefix, Search* search) const {
  const int shift = layout_.shift[static_cast<size_t>(program_.parameters()[depth])];
  const std::vector<uint16_t>& domain = program_.DomainAt(depth);
  std::vector<uint64_t>& keys = search->part->keys;
  for (const uint16_t position : search->state.alive[depth]) {
    const uint64_t key = prefix | (uint64_t{domain[position]} << shift);
    for (const uint64_t free_key : free_keys_) keys.push_back(key | free_key);
  }
  if (keys.size() > limit_) return WalkEnd::kStopped;
  if (keys.size() - search->part->key_count < kKeysBetween) return WalkEnd::kDone;
  return search->GoOn(search->state.nodes) ? WalkEnd::kDone : WalkEnd::kStopped;
}

void Listing::AddPart(uint64_t prefix, const SearchState& state) {
  auto part = std::make_unique<Part>();
  part->prefix = prefix;
  part->positions.assign(state.positions.begin(), state.positions.begin() + static_cast<ptrdiff_t>(split_depth_));
  for (size_t depth = 0; depth < split_depth_; ++depth) {
    for (const SearchProgram::Copy& copy : program_.At(depth).exports) part->numbers.push_back(state.memory[copy.to]);
  }
  if (state.IsFaulty(split_depth_ - 1)) {
    part->fault_depth = state.fault_depth;
    part->fault_rule = state.fault_rule;
  }
  parts_.push_back(std::move(part));
}

void Listing::Take(const Part& part, SearchState* state) const {
  size_t number = 0;
  for (size_t depth = 0; depth < part.positions.size(); ++depth) {
    const uint16_t position = part.positions[depth];
    state->positions[depth] = position;
    for (const SearchProgram::Copy& copy : program_.At(depth).exports) state->memory[copy.to] = part.numbers[number++];
    if (!state->binding.has_value()) continue;
    program_.rules().Bind(program_.parameters()[depth], program_.DomainAt(depth)[position], &*state->binding);
  }
  state->fault_depth = part.fault_depth;
  state->fault_rule = part.fault_rule;
  if (part.fault_rule < 0) return;
  state->has_faults = true;
  state->faulty.resize(program_.size());
}

WalkEnd Listing::Join(uint64_t* nodes, std::vector<uint64_t>* keys, absl::Status* fault) {
  uint64_t left = nodes_;
  uint64_t count = 0;
  for (const auto& part : parts_) {
    if (part->nodes_used > left) return WalkEnd::kBudget;
    left -= part->nodes_used;
    if (part->end == WalkEnd::kFault) *fault = part->fault;
    if (part->end == WalkEnd::kBudget || part->end == WalkEnd::kFault) return part->end;
    count += part->keys.size();
    if (part->end == WalkEnd::kStopped || count > limit_) return WalkEnd::kStopped;
  }
  *nodes = left;
  *keys = std::move(parts_[0]->keys);
  keys->reserve(count);
  for (size_t i = 1; i < parts_.size(); ++i) {
    keys->insert(keys->end(), parts_[i]->keys.begin(), parts_[i]->keys.end());
    parts_[i]->keys = {};
  }
  return WalkEnd::kDone;
}

// Depth first, on one thread.
class RowListing {
 public:
  RowListing(SearchState* state, const ListOptions& options, std::vector<uint16_t>* rows)
      : program_(state->program),
        state_(*state),
        options_(options),
        bytes_before_(options.memory->bytes()),
        rows_(*rows),
        row_(state->program.rules().parameters().size(), 0) {}

  WalkEnd Descend(size_t depth) {
    if (depth == program_.size()) {
      if (count_ == options_.limit) return WalkEnd::kStopped;
      if (count_ % kRowsBetween == 0) {
        const uint64_t bytes = (count_ + kRowsBetween) * options_.bytes_each;
        if (!options_.memory->AtLeast(bytes_before_ + bytes)) return WalkEnd::kStopped;
        if (!state_.pace.Spend(kRowsBetween)) return WalkEnd::kBudget;
      }
      ++count_;
      rows_.insert(rows_.end(), row_.begin(), row_.end());
      return WalkEnd::kDone;
    }
    std::vector<uint16_t>& alive = state_.alive[depth];
    const bool is_free = depth >= program_.free_from();
    if (is_free) {
      alive.resize(program_.DomainAt(depth).size());
      std::iota(alive.begin(), alive.end(), uint16_t{0});
    } else if (const WalkEnd visited = state_.Visit(depth); visited != WalkEnd::kDone) {
      return visited;
    }
    for (const uint16_t position : alive) {
      if (!is_free) state_.Bind(depth, position);
      row_[static_cast<size_t>(program_.parameters()[depth])] = program_.DomainAt(depth)[position];
      if (const WalkEnd end = Descend(depth + 1); end != WalkEnd::kDone) return end;
    }
    return WalkEnd::kDone;
  }

 private:
  const SearchProgram& program_;
  SearchState& state_;
  const ListOptions options_;
  const uint64_t bytes_before_;
  std::vector<uint16_t>& rows_;
  std::vector<uint16_t> row_;
  uint64_t count_ = 0;
};

}  // namespace

KeyLayout::KeyLayout(const std::vector<Parameter>& parameters) : shift(parameters.size()), bits(parameters.size()) {
  for (size_t p = parameters.size(); p-- > 0;) {
    bits[p] = std::bit_width(parameters[p].values.size() - 1);
    shift[p] = bits[p] == 0 ? 0 : total_bits;
    total_bits += bits[p];
  }
}

WalkEnd ListKeys(const SearchProgram& program, const KeyLayout& layout, const ListOptions& options,
                 SearchBudget* budget, std::vector<uint64_t>* keys, absl::Status* fault) {
  if (program.free_product() == 0) return WalkEnd::kDone;
  if (program.free_product() > options.limit) {
    // More than the limit, unless nothing at all.
    SolutionCount count = 0;
    const WalkEnd end = CountSolutions(program, budget, &count, fault);
    if (end != WalkEnd::kDone) return end;
    return count > options.limit ? WalkEnd::kStopped : WalkEnd::kDone;
  }
  const uint64_t free_bytes = static_cast<uint64_t>(program.free_product()) * options.bytes_each;
  if (!options.memory->AtLeast(options.memory->bytes() + free_bytes)) return WalkEnd::kStopped;
  if (program.free_from() == 0) {
    *keys = FreeKeys(program, layout);
    SortKeys(layout.total_bits, keys);
    return WalkEnd::kDone;
  }
  Listing listing(program, layout, options, *budget);
  const WalkEnd end = listing.Run(&budget->nodes, keys, fault);
  if (end == WalkEnd::kDone) SortKeys(layout.total_bits, keys);
  return end;
}

WalkEnd ListRows(SearchState* state, const ListOptions& options, std::vector<uint16_t>* rows) {
  // A fault at what is no point is none.
  for (size_t depth = 0; depth < state->program.size(); ++depth) {
    if (state->program.DomainAt(depth).empty()) return WalkEnd::kDone;
  }
  return RowListing(state, options, rows).Descend(0);
}

}  // namespace tunefarm::space_internal
