// Running a search program.
#include <algorithm>
#include <bit>
#include <cstring>

#include "server/base/check.h"
#include "server/space/search_state.h"

namespace tunefarm::space_internal {

namespace {

// As much as a count may remember: some tens of MiB.
constexpr size_t kMemoEntriesMax = 1'000'000;

SolutionCount Plus(SolutionCount a, SolutionCount b) {
  SolutionCount sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kCountMax : sum;
}

SolutionCount Times(SolutionCount a, SolutionCount b) {
  SolutionCount product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kCountMax : product;
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
    if (is_full()) return;
    if (depth >= tables_.size()) tables_.resize(depth + 1);
    Table& table = tables_[depth];
    if (table.counts.size() * 2 >= table.slots.size()) Grow(&table, key.size());
    table.keys.insert(table.keys.end(), key.begin(), key.end());
    table.counts.push_back(count);
    Link(&table, Hash(key), static_cast<uint32_t>(table.counts.size()));
    ++entries_;
  }

  bool is_full() const { return entries_ >= kMemoEntriesMax; }

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
};

std::shared_ptr<SearchMemo> SearchProgram::NewMemo() { return std::make_shared<SearchMemo>(); }

namespace {

// One operation on all values of a depth. The loops for the frequent operations are written so that the compiler sees
// what they do.
template <typename Operation>
inline void ForAll(size_t count, int64_t* out, const int64_t* a, size_t a_step, const int64_t* b, size_t b_step,
                   const Operation& operation) {
  if (a_step == 1 && b_step == 0) {
    const int64_t right = *b;
    for (size_t i = 0; i < count; ++i) out[i] = operation(a[i], right);
  } else if (a_step == 0 && b_step == 1) {
    const int64_t left = *a;
    for (size_t i = 0; i < count; ++i) out[i] = operation(left, b[i]);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = operation(a[i * a_step], b[i * b_step]);
  }
}

template <GraphOp kOp>
inline void Run(size_t count, int64_t* out, const int64_t* a, size_t a_step, const int64_t* b, size_t b_step) {
  ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return Apply(kOp, x, y, 0); });
}

}  // namespace

WalkEnd SearchProgram::Visit(size_t depth, State* state) const {
  const Depth& here = depths_[depth];
  const size_t count = domains_[depth].size();
  if (state->nodes < count) return WalkEnd::kBudget;
  state->nodes -= count;
  if (state->nodes < state->ask_below && !state->GoOn()) return WalkEnd::kStopped;
  int64_t* const memory = state->memory.data();
  for (const Instruction& instruction : here.instructions) {
    int64_t* const out = memory + instruction.out;
    const int64_t* const a = memory + instruction.a;
    const int64_t* const b = memory + instruction.b;
    const size_t a_step = instruction.a_step;
    const size_t b_step = instruction.b_step;
    switch (instruction.op) {
      case GraphOp::kAdd:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return x + y; });
        break;
      case GraphOp::kMultiply:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return x * y; });
        break;
      case GraphOp::kLessEqual:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return int64_t{x <= y}; });
        break;
      case GraphOp::kLess:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return int64_t{x < y}; });
        break;
      case GraphOp::kEqual:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return int64_t{x == y}; });
        break;
      case GraphOp::kNotEqual:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return int64_t{x != y}; });
        break;
      case GraphOp::kAnd:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return x & y; });
        break;
      case GraphOp::kOr:
        ForAll(count, out, a, a_step, b, b_step, [](int64_t x, int64_t y) { return x | y; });
        break;
      case GraphOp::kPlainDivide:
      case GraphOp::kPlainModulo: {
        const bool is_modulo = instruction.op == GraphOp::kPlainModulo;
        ForAll(count, out, a, a_step, b, b_step, [is_modulo](int64_t x, int64_t y) {
          return Apply(is_modulo ? GraphOp::kPlainModulo : GraphOp::kPlainDivide, x, y, 0);
        });
        break;
      }
      default:
        for (size_t i = 0; i < count; ++i) {
          out[i] = Apply(instruction.op, a[i * a_step], b[i * b_step], memory[instruction.c + i * instruction.c_step]);
        }
        break;
    }
  }
  std::vector<uint16_t>& alive = state->alive[depth];
  alive.resize(count);
  size_t kept = 0;
  if (here.checks.empty()) {
    for (; kept < count; ++kept) alive[kept] = static_cast<uint16_t>(kept);
  } else {
    const int64_t* first = memory + here.checks[0];
    for (size_t i = 0; i < count; ++i) {
      alive[kept] = static_cast<uint16_t>(i);
      kept += first[i] != 0 ? 1 : 0;
    }
    for (size_t check = 1; check < here.checks.size(); ++check) {
      const int64_t* const holds = memory + here.checks[check];
      size_t left = 0;
      for (size_t i = 0; i < kept; ++i) {
        const uint16_t position = alive[i];
        alive[left] = position;
        left += holds[position] != 0 ? 1 : 0;
      }
      kept = left;
    }
  }
  alive.resize(kept);
  if (here.faulty_checks.empty() && here.judged.empty()) return WalkEnd::kDone;
  return JudgeRules(depth, state);
}

WalkEnd SearchProgram::JudgeRules(size_t depth, State* state) const {
  const Depth& here = depths_[depth];
  bool is_faulty = false;
  std::erase_if(state->alive[depth], [&](uint16_t position) {
    bool has_fault = false;
    for (const FaultyCheck& check : here.faulty_checks) {
      const bool fails = state->memory[check.fault + size_t{position} * check.fault_step] != 0;
      has_fault = has_fault || fails;
      if (!fails && state->memory[check.value + size_t{position} * check.value_step] == 0) return true;
    }
    if (!here.judged.empty()) impl_.Bind(order_[depth], domains_[depth][position], &*state->binding);
    for (const int rule : here.judged) {
      const Verdict verdict = impl_.Judge(rule, *state->binding);
      if (verdict == Verdict::kReject) return true;
      has_fault = has_fault || verdict == Verdict::kFault;
    }
    is_faulty = is_faulty || has_fault;
    return false;
  });
  return is_faulty ? WalkEnd::kFault : WalkEnd::kDone;
}

void SearchProgram::BindPosition(size_t depth, uint16_t position, State* state) const {
  state->positions[depth] = position;
  int64_t* const memory = state->memory.data();
  for (const Copy& copy : depths_[depth].exports) memory[copy.to] = memory[copy.from + position];
  if (uses_bindings_) impl_.Bind(order_[depth], domains_[depth][position], &*state->binding);
}

const std::vector<int64_t>& SearchProgram::FrontierKey(size_t depth, State* state) const {
  const Depth& here = depths_[depth];
  std::vector<int64_t>& key = state->key[depth];
  key.clear();
  for (const uint32_t place : here.frontier) key.push_back(state->memory[place]);
  for (const int earlier : here.frontier_positions) key.push_back(state->positions[static_cast<size_t>(earlier)]);
  return key;
}

WalkEnd SearchProgram::CountBelow(size_t depth, State* state, SearchMemo* memo, SolutionCount* count) const {
  if (depth >= free_from_) {
    *count = free_product_;
    return WalkEnd::kDone;
  }
  const Depth& here = depths_[depth];
  if (!here.is_remembered && !state->remembers_all) return CountHere(depth, state, memo, count);
  const std::vector<int64_t>& key = FrontierKey(depth, state);
  if (const SolutionCount* known = memo->Find(depth, key)) {
    *count = *known;
    return WalkEnd::kDone;
  }
  const WalkEnd end = CountHere(depth, state, memo, count);
  if (end != WalkEnd::kDone) return end;
  if (state->remembers_all && memo->is_full()) return WalkEnd::kBudget;
  memo->Insert(depth, key, *count);
  return WalkEnd::kDone;
}

WalkEnd SearchProgram::CountHere(size_t depth, State* state, SearchMemo* memo, SolutionCount* count) const {
  const WalkEnd visited = Visit(depth, state);
  if (visited != WalkEnd::kDone) return visited;
  const std::vector<uint16_t>& alive = state->alive[depth];
  if (depth + 1 == free_from_) {
    *count = Times(alive.size(), free_product_);
    return WalkEnd::kDone;
  }
  *count = 0;
  for (const uint16_t position : alive) {
    BindPosition(depth, position, state);
    SolutionCount below = 0;
    const WalkEnd end = CountBelow(depth + 1, state, memo, &below);
    if (end != WalkEnd::kDone) return end;
    *count = Plus(*count, below);
  }
  return WalkEnd::kDone;
}

WalkEnd SearchProgram::Count(uint64_t* nodes, SolutionCount* count) const {
  if (is_too_large_) return WalkEnd::kFault;
  SearchMemo memo;
  State state(*this);
  state.nodes = *nodes;
  const WalkEnd end = CountBelow(0, &state, &memo, count);
  *nodes = state.nodes;
  return end;
}

WalkEnd SearchProgram::CountInto(SearchMemo* memo, uint64_t* nodes, SolutionCount* count) const {
  if (is_too_large_) return WalkEnd::kFault;
  State state(*this);
  state.nodes = *nodes;
  state.remembers_all = true;
  const WalkEnd end = CountBelow(0, &state, memo, count);
  *nodes = state.nodes;
  return end;
}

bool SearchProgram::Draw(const SearchMemo& memo, SolutionCount total, PhiloxStream& random,
                         std::vector<uint16_t>* row) const {
  State state(*this);
  state.nodes = UINT64_MAX;
  SolutionCount rest = UniformBelow(total, random);
  for (size_t depth = 0; depth < free_from_; ++depth) {
    if (Visit(depth, &state) != WalkEnd::kDone) return false;
    bool is_found = false;
    for (const uint16_t position : state.alive[depth]) {
      BindPosition(depth, position, &state);
      SolutionCount below = free_product_;
      if (depth + 1 < free_from_) {
        const SolutionCount* known = memo.Find(depth + 1, FrontierKey(depth + 1, &state));
        TUNEFARM_CHECK(known != nullptr);
        below = *known;
      }
      if (rest < below) {
        (*row)[order_[depth]] = domains_[depth][position];
        is_found = true;
        break;
      }
      rest -= below;
    }
    TUNEFARM_CHECK(is_found);
  }
  for (size_t depth = free_from_; depth < order_.size(); ++depth) {
    const auto& domain = domains_[depth];
    (*row)[order_[depth]] = domain[static_cast<size_t>(rest % domain.size())];
    rest /= domain.size();
  }
  return true;
}

bool SearchProgram::MarkOccurring(size_t depth, State* state, const SearchMemo& memo, SearchMemo* seen,
                                  std::vector<std::vector<bool>>* marks) const {
  if (depth >= free_from_) return true;
  const std::vector<int64_t>& key = FrontierKey(depth, state);
  if (seen->Find(depth, key) != nullptr) return true;
  seen->Insert(depth, key, 1);
  if (Visit(depth, state) != WalkEnd::kDone) return false;
  for (const uint16_t position : state->alive[depth]) {
    BindPosition(depth, position, state);
    if (depth + 1 < free_from_) {
      const SolutionCount* below = memo.Find(depth + 1, FrontierKey(depth + 1, state));
      if (below == nullptr) return false;
      if (*below == 0) continue;
      if (!MarkOccurring(depth + 1, state, memo, seen, marks)) return false;
    }
    (*marks)[depth][position] = true;
  }
  return true;
}

bool SearchProgram::FindOccurring(const SearchMemo& memo, std::vector<std::vector<uint16_t>>* occurring) const {
  State state(*this);
  state.nodes = UINT64_MAX;
  SearchMemo seen;
  std::vector<std::vector<bool>> marks;
  for (size_t depth = 0; depth < order_.size(); ++depth)
    marks.emplace_back(domains_[depth].size(), depth >= free_from_);
  if (!MarkOccurring(0, &state, memo, &seen, &marks)) return false;
  for (size_t depth = 0; depth < order_.size(); ++depth) {
    std::vector<uint16_t>& values = (*occurring)[static_cast<size_t>(order_[depth])];
    for (size_t position = 0; position < marks[depth].size(); ++position) {
      if (marks[depth][position]) values.push_back(domains_[depth][position]);
    }
  }
  return true;
}

}  // namespace tunefarm::space_internal
