// Listing all solutions of a search program, large ones on several threads.
#include <algorithm>
#include <atomic>
#include <memory>

#include "server/space/key_sort.h"
#include "server/space/parallel.h"
#include "server/space/search_state.h"

namespace tunefarm::space_internal {

namespace {

// Below, a search is over before other threads would have helped: about 20 ms.
constexpr uint64_t kNodesOfOneThread = 1'000'000;
// Enough parts that the last ones to end are small. Each has a cost of its own: more than the most are made only where
// there would be fewer than the least.
constexpr double kPartsWanted = 256, kPartsMin = 32, kPartsMax = 16'384;
// How many keys a part adds between two looks at the common bounds.
constexpr uint64_t kKeysBetween = 1 << 16;

}  // namespace

// One listing. It begins on one thread. When that has visited many nodes, what is left is divided into parts by the
// values of the first parameters, for several threads. All parts together have the bounds that the search has: a part
// stops when those before it and itself have reached one, and also when one before it has failed.
class SearchProgram::Listing {
 public:
  Listing(const SearchProgram& program, const KeyLayout& layout, uint64_t limit, int threads, uint64_t nodes);

  // As of SearchProgram::List, unsorted.
  WalkEnd Run(uint64_t* nodes, std::vector<uint64_t>* keys);

 private:
  // What the first parameters are, and what is found there. The first part has all that is found before the others are
  // made, and no prefix.
  struct Part {
    std::vector<uint16_t> positions;  // by depth
    std::vector<int64_t> numbers;     // the exports of their depths, one after another
    uint64_t prefix = 0;

    WalkEnd end = WalkEnd::kStopped;
    std::vector<uint64_t> keys;
    // As of the last look; exact when the part has ended.
    std::atomic<uint64_t> nodes_used{0}, key_count{0};
  };
  // One thread's search of a part.
  struct Search final : SearchWatch {
    explicit Search(Listing* of) : listing(*of), state(of->program_) { state.watch = this; }
    bool GoOn(uint64_t nodes_left) override;

    Listing& listing;
    State state;
    size_t index = 0;
    Part* part = nullptr;
    bool divides = false;  // what is not begun at split_depth_ becomes a part of its own
  };

  void SearchPart(size_t index, Search* search);
  WalkEnd Descend(size_t depth, uint64_t key, Search* search);
  // Solutions at the last searched depth, whose values are alive. False: enough.
  bool Emit(size_t depth, uint64_t prefix, Search* search) const;
  void AddPart(uint64_t prefix, const State& state);
  // Notes what the part has had by now.
  void Note(uint64_t nodes_used, uint64_t key_count, Part* part);
  void Take(const Part& part, State* state) const;
  WalkEnd Join(uint64_t* nodes, std::vector<uint64_t>* keys);

  const SearchProgram& program_;
  const KeyLayout& layout_;
  const std::vector<uint64_t> free_keys_;
  const uint64_t limit_;
  const int threads_;
  const uint64_t nodes_;
  size_t split_depth_ = 0;  // of the parts' first own parameter; 0: it is never divided
  std::vector<std::unique_ptr<Part>> parts_;
  std::atomic<size_t> next_{1}, failed_{SIZE_MAX};      // the first part known to have failed
  std::atomic<uint64_t> nodes_used_{0}, key_count_{0};  // of all parts, as they were last noted
};

SearchProgram::Listing::Listing(const SearchProgram& program, const KeyLayout& layout, uint64_t limit, int threads,
                                uint64_t nodes)
    : program_(program),
      layout_(layout),
      free_keys_(program.FreeKeys(layout)),
      limit_(limit),
      threads_(threads),
      nodes_(nodes) {
  double parts = 1;
  for (size_t depth = 0; depth + 1 < program.free_from_ && parts < kPartsWanted; ++depth) {
    const double more = parts * static_cast<double>(program.domains_[depth].size());
    if (more > kPartsMax && parts >= kPartsMin) break;
    parts = more;
    split_depth_ = depth + 1;
  }
}

WalkEnd SearchProgram::Listing::Run(uint64_t* nodes, std::vector<uint64_t>* keys) {
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
  return Join(nodes, keys);
}

void SearchProgram::Listing::SearchPart(size_t index, Search* search) {
  Part& part = *parts_[index];
  search->index = index;
  search->part = &part;
  search->state.nodes = nodes_;
  search->state.ask_below = nodes_;
  if (failed_ < index) return;
  Take(part, &search->state);
  part.end = Descend(part.positions.size(), part.prefix, search);
  Note(nodes_ - search->state.nodes, part.keys.size(), &part);
  if (part.end == WalkEnd::kDone) return;
  size_t first = failed_;
  while (index < first && !failed_.compare_exchange_weak(first, index)) continue;
}

void SearchProgram::Listing::Note(uint64_t nodes_used, uint64_t key_count, Part* part) {
  nodes_used_ += nodes_used - part->nodes_used;
  key_count_ += key_count - part->key_count;
  part->nodes_used = nodes_used;
  part->key_count = key_count;
}

bool SearchProgram::Listing::Search::GoOn(uint64_t nodes_left) {
  const uint64_t used = listing.nodes_ - nodes_left;
  listing.Note(used, part->keys.size(), part);
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

WalkEnd SearchProgram::Listing::Descend(size_t depth, uint64_t key, Search* search) {
  State& state = search->state;
  if (search->divides && depth == split_depth_) {
    AddPart(key, state);
    return WalkEnd::kDone;
  }
  const WalkEnd visited = program_.Visit(depth, &state);
  if (visited != WalkEnd::kDone) return visited;
  if (depth + 1 == program_.free_from_) return Emit(depth, key, search) ? WalkEnd::kDone : WalkEnd::kStopped;
  const int shift = layout_.shift[static_cast<size_t>(program_.order_[depth])];
  for (const uint16_t position : state.alive[depth]) {
    program_.BindPosition(depth, position, &state);
    const uint64_t value = program_.domains_[depth][position];
    const WalkEnd end = Descend(depth + 1, key | (value << shift), search);
    if (end != WalkEnd::kDone) return end;
  }
  return WalkEnd::kDone;
}

bool SearchProgram::Listing::Emit(size_t depth, uint64_t prefix, Search* search) const {
  const int shift = layout_.shift[static_cast<size_t>(program_.order_[depth])];
  std::vector<uint64_t>& keys = search->part->keys;
  for (const uint16_t position : search->state.alive[depth]) {
    const uint64_t key = prefix | (static_cast<uint64_t>(program_.domains_[depth][position]) << shift);
    for (const uint64_t free_key : free_keys_) keys.push_back(key | free_key);
  }
  if (keys.size() > limit_) return false;
  return keys.size() - search->part->key_count < kKeysBetween || search->GoOn(search->state.nodes);
}

void SearchProgram::Listing::AddPart(uint64_t prefix, const State& state) {
  auto part = std::make_unique<Part>();
  part->prefix = prefix;
  part->positions.assign(state.positions.begin(), state.positions.begin() + static_cast<ptrdiff_t>(split_depth_));
  for (size_t depth = 0; depth < split_depth_; ++depth) {
    for (const Copy& copy : program_.depths_[depth].exports) part->numbers.push_back(state.memory[copy.to]);
  }
  parts_.push_back(std::move(part));
}

void SearchProgram::Listing::Take(const Part& part, State* state) const {
  size_t number = 0;
  for (size_t depth = 0; depth < part.positions.size(); ++depth) {
    const uint16_t position = part.positions[depth];
    state->positions[depth] = position;
    for (const Copy& copy : program_.depths_[depth].exports) state->memory[copy.to] = part.numbers[number++];
    if (!program_.uses_bindings_) continue;
    program_.impl_.Bind(program_.order_[depth], program_.domains_[depth][position], &*state->binding);
  }
}

WalkEnd SearchProgram::Listing::Join(uint64_t* nodes, std::vector<uint64_t>* keys) {
  uint64_t left = nodes_;
  uint64_t count = 0;
  for (const auto& part : parts_) {
    if (part->nodes_used > left) return WalkEnd::kBudget;
    left -= part->nodes_used;
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

std::vector<uint64_t> SearchProgram::FreeKeys(const KeyLayout& layout) const {
  std::vector<uint64_t> keys = {0};
  for (size_t depth = free_from_; depth < order_.size(); ++depth) {
    std::vector<uint64_t> longer;
    const int shift = layout.shift[static_cast<size_t>(order_[depth])];
    for (const uint64_t key : keys) {
      for (const uint16_t value : domains_[depth]) longer.push_back(key | (static_cast<uint64_t>(value) << shift));
    }
    keys = std::move(longer);
  }
  return keys;
}

WalkEnd SearchProgram::List(const KeyLayout& layout, uint64_t limit, int threads, uint64_t* nodes,
                            std::vector<uint64_t>* keys) const {
  if (is_too_large_) return WalkEnd::kFault;
  if (free_product_ > limit) {
    // More than the limit, unless nothing at all.
    SolutionCount count = 0;
    const WalkEnd end = Count(nodes, &count);
    if (end != WalkEnd::kDone) return end;
    return count > limit ? WalkEnd::kStopped : WalkEnd::kDone;
  }
  if (free_from_ == 0) {
    *keys = FreeKeys(layout);
    SortKeys(layout.total_bits, keys);
    return WalkEnd::kDone;
  }
  Listing listing(*this, layout, limit, threads, *nodes);
  const WalkEnd end = listing.Run(nodes, keys);
  if (end == WalkEnd::kDone) SortKeys(layout.total_bits, keys);
  return end;
}

}  // namespace tunefarm::space_internal
