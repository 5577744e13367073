#include "server/space/space_search.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/key_sort.h"
#include "server/space/parallel.h"
#include "server/space/search_count.h"

namespace tunefarm::space_internal {

namespace {

// Of fewer rows than this, half are not worth a thread.
constexpr size_t kRowsOfAPart = 1 << 19;
// Of a node of the graph, with its place in the map of all.
constexpr uint64_t kNodeBytes = 256;
// Rows are numbered in 32 bits by those who read a list.
constexpr uint64_t kRowsMax = UINT32_MAX;

// Union-find over parameters.
class Groups {
 public:
  explicit Groups(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int item) {
    while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
    return item;
  }
  void Join(int a, int b) { parent_[std::max(Find(a), Find(b))] = std::min(Find(a), Find(b)); }

 private:
  std::vector<int> parent_;
};

// Early failure first: again and again the rule that is cheapest to complete (fewest combinations of its unbound
// parameters) has those parameters bound next.
std::vector<int> SearchOrder(const std::vector<int>& parameters, const std::vector<std::vector<int>>& rule_variables,
                             const std::vector<std::vector<uint16_t>>& domain_of, const WorkLimit* limit) {
  WorkPace pace(limit);
  std::vector<int> order;
  std::vector<bool> is_bound(domain_of.size(), false);
  std::vector<bool> is_used(rule_variables.size(), false);
  while (pace.Spend(4 * rule_variables.size())) {
    int best = -1;
    double best_cost = 0;
    for (size_t rule = 0; rule < rule_variables.size(); ++rule) {
      if (is_used[rule]) continue;
      double cost = 1;
      for (const int variable : rule_variables[rule]) {
        if (!is_bound[variable]) cost *= static_cast<double>(domain_of[variable].size());
      }
      if (best < 0 || cost < best_cost) {
        best = static_cast<int>(rule);
        best_cost = cost;
      }
    }
    if (best < 0) break;
    is_used[best] = true;
    for (const int variable : rule_variables[best]) {
      if (is_bound[variable]) continue;
      is_bound[variable] = true;
      order.push_back(variable);
    }
  }
  for (const int parameter : parameters) {
    if (!is_bound[parameter]) order.push_back(parameter);
  }
  return order;
}

std::vector<int> Members(const ParameterSet& set) {
  std::vector<int> members;
  for (size_t p = 0; p < set.size(); ++p) {
    if (set[p]) members.push_back(static_cast<int>(p));
  }
  return members;
}

// The sides of an `and` become conjuncts of their own.
void Split(const RuleGraph& graph, RuleGraph::Id value, RuleGraph::Id no_fault, std::vector<Conjunct>* conjuncts) {
  const auto& node = graph.At(value);
  if (node.op == GraphOp::kAnd) {
    Split(graph, node.a, no_fault, conjuncts);
    Split(graph, node.b, no_fault, conjuncts);
    return;
  }
  conjuncts->push_back({value, no_fault, -1, Members(node.variables)});
}

// All combinations of two lists of keys (`width` 1) or of rows; what one list gives a value is 0 in the other.
template <typename Word>
std::vector<Word> Combine(const std::vector<Word>& outer, const std::vector<Word>& inner, size_t width) {
  std::vector<Word> words;
  words.reserve(outer.size() / width * inner.size());
  for (size_t high = 0; high < outer.size(); high += width) {
    const auto begin = words.insert(words.end(), inner.begin(), inner.end());
    for (size_t low = 0; low < inner.size(); low += width) {
      for (size_t i = 0; i < width; ++i) begin[static_cast<ptrdiff_t>(low + i)] |= outer[high + i];
    }
  }
  return words;
}

}  // namespace

SpaceSearch::SpaceSearch(const SpaceRules& rules, const SymbolTable& symbols, const SpaceOptions& options)
    : rules_(rules),
      options_(options),
      layout_(rules.parameters()),
      memory_(options.limit == nullptr ? nullptr : options.limit->memory()),
      is_empty_(rules.is_rejected_by_constant_rule()) {
  RuleGraph graph(rules.parameters(), rules.domains());
  MemoryUse graph_memory(options.limit == nullptr ? nullptr : options.limit->memory());
  std::vector<Conjunct> conjuncts;
  for (const int rule : rules.open_rules()) {
    if (options.limit != nullptr && !options.limit->GoOn()) return;
    const Expression& expression = rules.At(rule);
    const bool has_room = graph_memory.AtLeast(static_cast<uint64_t>(graph.size()) * kNodeBytes);
    const auto lowered =
        has_room ? LowerRule(expression.text(), symbols, rules.parameters(), &graph) : std::optional<LoweredRule>();
    if (!lowered.has_value()) {
      conjuncts.push_back({-1, -1, rule, expression.Variables()});
    } else if (!graph.IsConstant(lowered->fault)) {
      conjuncts.push_back({lowered->value, lowered->fault, rule,
                           Members(graph.At(lowered->value).variables | graph.At(lowered->fault).variables)});
    } else if (graph.At(lowered->fault).value != 0) {
      conjuncts.push_back({-1, -1, rule, expression.Variables()});  // fails everywhere: its Expression says why
    } else if (!graph.IsConstant(lowered->value)) {
      Split(graph, lowered->value, lowered->fault, &conjuncts);
    } else if (graph.At(lowered->value).value == 0) {
      is_empty_ = true;
    }
  }
  programs_ = BuildPrograms(&graph, conjuncts, &memory_);
  const bool is_too_large =
      std::any_of(programs_.begin(), programs_.end(), [](const auto& program) { return program->is_too_large(); });
  if (!is_too_large && !memory_.is_refused()) return;
  programs_ = JudgedPrograms();
  memory_.AtMost(0);
}

SpaceSearch::Programs SpaceSearch::BuildPrograms(RuleGraph* graph, const std::vector<Conjunct>& conjuncts,
                                                 MemoryUse* memory) const {
  const size_t count = rules_.parameters().size();
  Groups groups(count);
  for (const Conjunct& conjunct : conjuncts) {
    for (const int variable : conjunct.variables) groups.Join(conjunct.variables[0], variable);
  }
  std::map<int, std::vector<int>> members;
  for (size_t p = 0; p < count; ++p) members[groups.Find(static_cast<int>(p))].push_back(static_cast<int>(p));
  Programs programs;
  uint64_t bytes = 0;
  for (const auto& [root, group] : members) {
    std::vector<Conjunct> own;
    std::vector<std::vector<int>> variables;
    for (const Conjunct& conjunct : conjuncts) {
      if (groups.Find(conjunct.variables[0]) != root) continue;
      own.push_back(conjunct);
      variables.push_back(conjunct.variables);
    }
    std::vector<int> order = SearchOrder(group, variables, rules_.domains(), options_.limit.get());
    std::vector<std::vector<uint16_t>> domains;
    for (const int parameter : order) domains.push_back(rules_.domains()[static_cast<size_t>(parameter)]);
    programs.push_back(std::make_shared<const SearchProgram>(rules_, graph, std::move(order), std::move(domains), own,
                                                             options_.limit.get()));
    if (options_.limit != nullptr && !options_.limit->GoOn()) break;
    bytes += programs.back()->memory().size() * sizeof(int64_t);
    if (memory != nullptr && !memory->AtLeast(bytes)) break;
  }
  return programs;
}

SpaceSearch::Programs SpaceSearch::JudgedPrograms() const {
  std::vector<Conjunct> conjuncts;
  for (const int rule : rules_.open_rules()) conjuncts.push_back({-1, -1, rule, rules_.At(rule).Variables()});
  RuleGraph graph({}, {});
  return BuildPrograms(&graph, conjuncts, nullptr);
}

template <typename Search>
absl::StatusOr<SolutionCount> SpaceSearch::SearchAll(const SearchBudget& whole, const Search& search) const {
  if (is_empty_) return SolutionCount{0};
  SolutionCount total = 1;
  bool is_over_budget = false;
  absl::Status failure = rules_.constant_fault();
  SearchBudget budget = whole;
  for (const auto& program : programs_) {
    SolutionCount count = 0;
    absl::Status fault;
    const WalkEnd end = search(*program, &budget, &count, &fault);
    RETURN_IF_ERROR(LimitStatus());
    // A group without a solution rejects every point: then nothing else matters.
    if (end == WalkEnd::kDone && count == 0) return SolutionCount{0};
    if (end == WalkEnd::kFault && failure.ok()) failure = fault;
    if (end != WalkEnd::kDone) budget.nodes = whole.nodes;
    is_over_budget = is_over_budget || end == WalkEnd::kBudget;
    total = end == WalkEnd::kDone ? MultiplyCounts(total, count) : kCountMax;
  }
  RETURN_IF_ERROR(failure);
  if (is_over_budget) return BudgetStatus();
  return total;
}

absl::StatusOr<SolutionCount> SpaceSearch::Count(const SearchBudget& budget) const {
  return SearchAll(budget, CountSolutions);
}

absl::StatusOr<ConfigTable> SpaceSearch::List(uint64_t limit, const WorkLimit* work_limit) const {
  limit = std::min(limit, kRowsMax);
  if (layout_.total_bits > 64) return ListWide(limit, work_limit);
  const int threads = ThreadCount(options_.threads);
  const uint64_t row_bytes = rules_.parameters().size() * sizeof(uint16_t);
  auto memory = std::make_shared<MemoryUse>(options_.limit == nullptr ? nullptr : options_.limit->memory());
  // Its key as it is found, among all others and while they are sorted; its row.
  const ListOptions list_options = {limit, threads, memory.get(), 3 * sizeof(uint64_t) + row_bytes};
  std::vector<std::vector<uint64_t>> lists;
  const auto search = [&](const SearchProgram& program, SearchBudget* budget, SolutionCount* count,
                          absl::Status* fault) {
    std::vector<uint64_t>& list = lists.emplace_back();
    const WalkEnd end = ListKeys(program, layout_, list_options, budget, &list, fault);
    *count = list.size();
    return end;
  };
  ASSIGN_OR_RETURN(const SolutionCount count, SearchAll({options_.nodes_max, work_limit}, search));
  if (memory->is_refused()) return MemoryStatus();
  if (count == 0) return ConfigTable(static_cast<int>(rules_.parameters().size()));
  if (count > limit) return TooManyToList(limit);
  if (!memory->AtLeast(static_cast<uint64_t>(count) * list_options.bytes_each)) return MemoryStatus();
  // Lists of one key first, then those of earlier parameters outside: where no two lists interleave, nothing is left to
  // sort.
  std::sort(lists.begin(), lists.end(), [](const auto& a, const auto& b) {
    return std::pair(a.size() > 1, b.front() | b.back()) < std::pair(b.size() > 1, a.front() | a.back());
  });
  std::vector<uint64_t> keys = {0};
  for (auto& list : lists) keys = keys == std::vector<uint64_t>{0} ? std::move(list) : Combine(keys, list, 1);
  lists.clear();
  SortKeys(layout_.total_bits, &keys);
  ConfigTable table = UnpackKeys(keys, threads);
  memory->AtMost(table.size() * row_bytes);
  table.HoldMemory(std::move(memory));
  return table;
}

ConfigTable SpaceSearch::UnpackKeys(const std::vector<uint64_t>& keys, int threads) const {
  const size_t width = rules_.parameters().size();
  std::vector<uint16_t> indices(keys.size() * width);
  // By bit of a key: the first parameter that a change there concerns. Rows that follow one another share their
  // beginnings.
  std::vector<size_t> parameter_of_bit(65, width);
  for (size_t p = width; p-- > 0;) {
    for (int bit = 0; bit < layout_.bits[p]; ++bit) {
      parameter_of_bit[static_cast<size_t>(layout_.shift[p] + bit)] = p;
    }
  }
  const size_t parts = keys.size() / kRowsOfAPart + 1;
  ForEachPart(threads, parts, [&](size_t part) {
    const size_t begin = keys.size() * part / parts, end = keys.size() * (part + 1) / parts;
    uint16_t* row = indices.data() + begin * width;
    for (size_t i = begin; i < end; ++i, row += width) {
      const uint64_t key = keys[i];
      size_t from = 0;
      if (i > begin) {
        from = parameter_of_bit[static_cast<size_t>(63 - std::countl_zero(key ^ keys[i - 1]))];
        std::copy(row - width, row - width + from, row);
      }
      for (size_t p = from; p < width; ++p) row[p] = layout_.IndexIn(key, p);
    }
  });
  return ConfigTable(static_cast<int>(width), keys.size(), std::move(indices));
}

absl::StatusOr<ConfigTable> SpaceSearch::ListWide(uint64_t limit, const WorkLimit* work_limit) const {
  const size_t width = layout_.bits.size();
  const uint64_t row_bytes = width * sizeof(uint16_t);
  auto memory = std::make_shared<MemoryUse>(options_.limit == nullptr ? nullptr : options_.limit->memory());
  // As it is found, combined with others twice, and sorted; where it stands.
  const ListOptions list_options = {limit, 1, memory.get(), 4 * row_bytes + sizeof(std::span<const uint16_t>)};
  std::vector<std::vector<uint16_t>> lists;
  const auto search = [&](const SearchProgram& program, SearchBudget* budget, SolutionCount* count,
                          absl::Status* fault) {
    SearchState state(program, *budget);
    const WalkEnd end = ListRows(&state, list_options, &lists.emplace_back());
    if (end == WalkEnd::kFault) *fault = state.FaultStatus();
    budget->nodes = state.nodes;
    *count = lists.back().size() / width;
    return end;
  };
  ASSIGN_OR_RETURN(const SolutionCount count, SearchAll({options_.nodes_max, work_limit}, search));
  if (memory->is_refused()) return MemoryStatus();
  if (count == 0) return ConfigTable(static_cast<int>(width));
  if (count > limit) return TooManyToList(limit);
  if (!memory->AtLeast(static_cast<uint64_t>(count) * list_options.bytes_each)) return MemoryStatus();
  // What has one value only is put together first, as in List.
  std::stable_partition(lists.begin(), lists.end(), [width](const auto& list) { return list.size() == width; });
  std::vector<uint16_t> rows(width, 0);
  for (const auto& list : lists) rows = Combine(rows, list, width);
  std::vector<std::span<const uint16_t>> order;
  for (size_t row = 0; row < rows.size(); row += width) order.emplace_back(&rows[row], width);
  const auto is_less = [](const auto& a, const auto& b) { return std::ranges::lexicographical_compare(a, b); };
  if (!std::is_sorted(order.begin(), order.end(), is_less)) std::sort(order.begin(), order.end(), is_less);
  std::vector<uint16_t> sorted;
  sorted.reserve(order.size() * width);
  for (const auto& row : order) sorted.insert(sorted.end(), row.begin(), row.end());
  ConfigTable table(static_cast<int>(width), order.size(), std::move(sorted));
  memory->AtMost(table.size() * row_bytes);
  table.HoldMemory(std::move(memory));
  return table;
}

absl::Status SpaceSearch::MemoryStatus() const {
  const MemoryBudget& budget = *options_.limit->memory();
  return WithReason(
      ResourceExhausted("a list of the valid configs ({} points before the rules) needs more memory than search spaces "
                        "may hold ({}, or what other spaces leave of it); list fewer values, or use a strategy that "
                        "does not list the space",
                        CartesianText(), FormatBytes(budget.bytes_max())),
      "SPACE_MEMORY");
}

absl::Status SpaceSearch::BudgetStatus() const {
  RETURN_IF_ERROR(LimitStatus());
  return WithReason(
      ResourceExhausted(
          "searching the space took more than {} steps; add constraints over fewer parameters or list fewer values",
          FormatCount(static_cast<int64_t>(options_.nodes_max))),
      "SEARCH_BUDGET");
}

std::string SpaceSearch::CartesianText() const {
  double cartesian = 1;
  for (const Parameter& parameter : rules_.parameters()) cartesian *= static_cast<double>(parameter.values.size());
  return CountText(cartesian, true);
}

absl::Status SpaceSearch::TooManyToList(uint64_t limit) const {
  return ResourceExhausted(
      "the space has more than {} valid configs ({} points before the rules), too many to list; narrow the values or "
      "use a strategy that does not list the space",
      CountText(static_cast<double>(limit), true), CartesianText());
}

}  // namespace tunefarm::space_internal
