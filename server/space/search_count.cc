#include "server/space/search_count.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "server/base/check.h"

namespace tunefarm::space_internal {

namespace {

// As much as a count may remember: some tens of MiB, and more where the frontiers are wide.
constexpr size_t kMemoEntriesMax = 1'000'000;
constexpr uint64_t kMemoBytesMax = 256 << 20;
// How much is taken of a MemoryBudget at a time.
constexpr uint64_t kMemoBytesStep = 1 << 20;
// Of the first depths, CountPrefixes remembers as many as have at most so many combinations of values.
constexpr double kPrefixesMax = 50'000;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();  // nodes, where a search has been bounded before

SolutionCount Plus(SolutionCount a, SolutionCount b) {
  SolutionCount sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kCountMax : sum;
}

// Uniform in [0, n).
SolutionCount UniformBelow(SolutionCount n, PhiloxStream& random) {
  if (n <= UINT64_MAX) return random.UniformInt(static_cast<uint64_t>(n));
  const int high_bits = 64 - std::countl_zero(static_cast<uint64_t>((n - 1) >> 64));
  const uint64_t mask = high_bits == 64 ? UINT64_MAX : (uint64_t{1} << high_bits) - 1;
  while (true) {
    const SolutionCount low = random.NextU64();
    const SolutionCount drawn = (static_cast<SolutionCount>(random.NextU64() & mask) << 64) | low;
    if (drawn < n) return drawn;
  }
}

}  // namespace

// Counts by depth and frontier. Open addressing; the frontiers' words stand one after another.
class SearchMemo {
 public:
  // What it holds counts in the limit's memory; null: nowhere.
  explicit SearchMemo(const WorkLimit* limit) : memory_(limit == nullptr ? nullptr : limit->memory()) {}

  // The remembered count, or nullptr.
  const SolutionCount* Find(size_t depth, const std::vector<int64_t>& key) const {
    if (depth >= tables_.size()) return nullptr;
    const Table& table = tables_[depth];
    if (table.slots.empty()) return nullptr;
    const size_t mask = table.slots.size() - 1;
    for (size_t slot = Hash(key) & mask; table.slots[slot] != 0; slot = (slot + 1) & mask) {
      const size_t entry = table.slots[slot] - size_t{1};
      if (std::equal(key.begin(), key.end(), table.keys.begin() + static_cast<std::ptrdiff_t>(entry * key.size()))) {
        return &table.counts[entry];
      }
    }
    return nullptr;
  }

  void Insert(size_t depth, const std::vector<int64_t>& key, SolutionCount count) {
    if (depth >= tables_.size()) tables_.resize(depth + 1);
    Table& table = tables_[depth];
    if (table.counts.size() * 2 >= table.slots.size()) Grow(&table, key.size());
    table.keys.insert(table.keys.end(), key.begin(), key.end());
    table.counts.push_back(count);
    Link(&table, Hash(key), static_cast<uint32_t>(table.counts.size()));
    ++entries_;
    // A count and its place in slots that are at most half full.
    bytes_ += key.size() * sizeof(int64_t) + sizeof(SolutionCount) + 4 * sizeof(uint32_t);
    if (bytes_ <= taken_) return;
    taken_ = bytes_ + kMemoBytesStep;
    is_full_ = entries_ >= kMemoEntriesMax || bytes_ >= kMemoBytesMax || !memory_.AtLeast(taken_);
  }

  // Whether it has as many counts as it may.
  bool is_full() const { return is_full_ || entries_ >= kMemoEntriesMax; }

 private:
  struct Table {
    std::vector<uint32_t> slots;  // entry + 1, 0 where empty
    std::vector<int64_t> keys;
    std::vector<SolutionCount> counts;
  };

  static uint64_t Hash(std::span<const int64_t> key) {
    uint64_t hash = 0x9e37'79b9'7f4a'7c15;
    for (const int64_t word : key) {
      hash = (std::rotl(hash, 23) ^ static_cast<uint64_t>(word)) * 0x9e37'79b9'7f4a'7c15;
    }
    return hash ^ (hash >> 32);
  }

  static void Link(Table* table, uint64_t hash, uint32_t entry) {
    const size_t mask = table->slots.size() - 1;
    size_t slot = hash & mask;
    while (table->slots[slot] != 0) slot = (slot + 1) & mask;
    table->slots[slot] = entry;
  }

  static void Grow(Table* table, size_t width) {
    table->slots.assign(std::max<size_t>(64, table->slots.size() * 2), 0);
    for (size_t entry = 0; entry < table->counts.size(); ++entry) {
      Link(table, Hash({table->keys.data() + entry * width, width}), static_cast<uint32_t>(entry + 1));
    }
  }

  std::vector<Table> tables_;
  size_t entries_ = 0;
  uint64_t bytes_ = 0;
  uint64_t taken_ = 0;  // of the budget
  bool is_full_ = false;
  MemoryUse memory_;
};

namespace {

// How many of the first depths have their counts remembered in any case.
constexpr size_t kNoDepths = 0, kAllDepths = SIZE_MAX;

// One count. Where all counts are to be remembered and there are too many, it ends with kBudget.
class SolutionCounter {
 public:
  SolutionCounter(SearchState* state, size_t kept_depths, SearchMemo* memo)
      : program_(state->program), state_(*state), kept_depths_(kept_depths), memo_(*memo) {}

  // The number of solutions below the values bound so far.
  WalkEnd Below(size_t depth, SolutionCount* count) {
    if (depth >= program_.free_from()) {
      *count = program_.free_product();
      return WalkEnd::kDone;
    }
    const bool is_kept = depth < kept_depths_;
    if (!is_kept && !program_.At(depth).is_remembered) return Here(depth, count);
    const std::vector<int64_t>& key = state_.FrontierKey(depth);
    if (const SolutionCount* known = memo_.Find(depth, key)) {
      *count = *known;
      return WalkEnd::kDone;
    }
    const WalkEnd end = Here(depth, count);
    if (end != WalkEnd::kDone) return end;
    if (memo_.is_full() && kept_depths_ == kAllDepths) return WalkEnd::kBudget;
    if (is_kept || !memo_.is_full()) memo_.Insert(depth, key, *count);
    return WalkEnd::kDone;
  }

 private:
  WalkEnd Here(size_t depth, SolutionCount* count) {
    const WalkEnd visited = state_.Visit(depth);
    if (visited != WalkEnd::kDone) return visited;
    const std::vector<uint16_t>& alive = state_.alive[depth];
    if (depth + 1 == program_.free_from()) {
      *count = MultiplyCounts(alive.size(), program_.free_product());
      return WalkEnd::kDone;
    }
    *count = 0;
    for (const uint16_t position : alive) {
      state_.Bind(depth, position);
      SolutionCount below = 0;
      const WalkEnd end = Below(depth + 1, &below);
      if (end != WalkEnd::kDone) return end;
      if (below != 0 && state_.IsFaulty(depth)) return WalkEnd::kFault;
      *count = Plus(*count, below);
    }
    return WalkEnd::kDone;
  }

  const SearchProgram& program_;
  SearchState& state_;
  const size_t kept_depths_;
  SearchMemo& memo_;
};

WalkEnd CountInto(const SearchProgram& program, size_t kept_depths, SearchMemo* memo, SearchBudget* budget,
                  SolutionCount* count, absl::Status* fault) {
  *count = 0;
  if (program.free_product() == 0) return WalkEnd::kDone;
  SearchState state(program, *budget);
  const WalkEnd end = SolutionCounter(&state, kept_depths, memo).Below(0, count);
  budget->nodes = state.nodes;
  if (end == WalkEnd::kFault) *fault = state.FaultStatus();
  return end;
}

}  // namespace

WalkEnd CountSolutions(const SearchProgram& program, SearchBudget* budget, SolutionCount* count, absl::Status* fault) {
  SearchMemo memo(budget->limit);
  return CountInto(program, kNoDepths, &memo, budget, count, fault);
}

CountedSolutions::CountedSolutions(const SearchProgram& program) : program_(program) {}

CountedSolutions::~CountedSolutions() = default;

WalkEnd CountedSolutions::CountAll(SearchBudget budget, absl::Status* fault) {
  memo_ = std::make_unique<SearchMemo>(budget.limit);
  return CountInto(program_, kAllDepths, memo_.get(), &budget, &total_, fault);
}

WalkEnd CountedSolutions::CountPrefixes(SearchBudget budget, absl::Status* fault) {
  memo_ = std::make_unique<SearchMemo>(budget.limit);
  double prefixes = 1;
  size_t depth = 0;
  for (; depth < program_.free_from(); ++depth) {
    prefixes *= static_cast<double>(program_.DomainAt(depth).size());
    if (prefixes > kPrefixesMax) break;
  }
  return CountInto(program_, depth + 1, memo_.get(), &budget, &total_, fault);
}

bool CountedSolutions::Draw(PhiloxStream& random, const WorkLimit* limit, std::vector<uint16_t>* row) const {
  SolutionCount rest = UniformBelow(total_, random);
  if (program_.free_from() > 0) {
    const std::optional<SolutionCount> found = FollowCounts(rest, limit, row);
    if (!found.has_value()) return false;
    rest = *found;
  }
  for (size_t depth = program_.free_from(); depth < program_.size(); ++depth) {
    const std::vector<uint16_t>& domain = program_.DomainAt(depth);
    (*row)[program_.parameters()[depth]] = domain[static_cast<size_t>(rest % domain.size())];
    rest /= domain.size();
  }
  return true;
}

std::optional<SolutionCount> CountedSolutions::FollowCounts(SolutionCount rank, const WorkLimit* limit,
                                                            std::vector<uint16_t>* row) const {
  SearchState state(program_, {kUnlimited, limit});
  SearchMemo recounted(limit);
  // Each search here has ended well before.
  const auto has_ended = [](WalkEnd end) {
    TUNEFARM_CHECK(end == WalkEnd::kDone || end == WalkEnd::kBudget);
    return end == WalkEnd::kBudget;
  };
  for (size_t depth = 0; depth < program_.free_from(); ++depth) {
    if (has_ended(state.Visit(depth))) return std::nullopt;
    bool is_found = false;
    for (const uint16_t position : state.alive[depth]) {
      state.Bind(depth, position);
      SolutionCount below = program_.free_product();
      if (depth + 1 < program_.free_from()) {
        if (const SolutionCount* known = memo_->Find(depth + 1, state.FrontierKey(depth + 1))) {
          below = *known;
        } else if (has_ended(SolutionCounter(&state, kNoDepths, &recounted).Below(depth + 1, &below))) {
          return std::nullopt;
        }
      }
      if (rank < below) {
        (*row)[program_.parameters()[depth]] = program_.DomainAt(depth)[position];
        is_found = true;
        break;
      }
      rank -= below;
    }
    TUNEFARM_CHECK(is_found);
  }
  return rank;
}

}  // namespace tunefarm::space_internal
