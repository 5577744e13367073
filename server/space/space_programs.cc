// Space by search programs: rules split into their smallest groups of parameters, counted, listed and sampled apart.
#include <algorithm>
#include <bit>
#include <set>

#include "server/base/check.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/space/key_sort.h"
#include "server/space/parallel.h"
#include "server/space/search_program.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Conjunct;
using space_internal::GraphOp;
using space_internal::LowerRule;
using space_internal::ParameterSet;
using space_internal::ProgramSampler;
using space_internal::RuleGraph;
using space_internal::SearchProgram;
using space_internal::SolutionCount;
using space_internal::WalkEnd;

namespace {

// A sampler's program may visit this many values to be counted; beyond, the older ways of sampling are tried.
constexpr uint64_t kSamplerNodesMax = 100'000'000;
// Up to so many solutions, sampling picks from their list.
constexpr uint64_t kSamplerListMax = 1'000'000;
// Of fewer rows than this, half are not worth a thread.
constexpr size_t kRowsOfAPart = 1 << 19;

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

}  // namespace

void Space::Impl::BuildPrograms(const SymbolTable& symbols, const std::vector<std::vector<uint16_t>>& domain_of,
                                const std::vector<int>& open_rules) {
  const size_t count = parameters.size();
  key_layout.shift.resize(count);
  key_layout.bits.resize(count);
  for (size_t p = count; p-- > 0;) {
    key_layout.bits[p] = std::bit_width(parameters[p].values.size() - 1);
    key_layout.shift[p] = key_layout.bits[p] == 0 ? 0 : key_layout.total_bits;
    key_layout.total_bits += key_layout.bits[p];
  }
  RuleGraph graph(parameters, domain_of);
  std::vector<Conjunct> conjuncts;
  for (const int rule : open_rules) {
    const Expression& expression = rules[static_cast<size_t>(rule)].expression;
    const auto lowered = LowerRule(expression.text(), symbols, parameters, &graph);
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
      is_rejected_by_program = true;
    }
  }
  space_internal::Groups groups(count);
  for (const Conjunct& conjunct : conjuncts) {
    for (const int variable : conjunct.variables) groups.Join(conjunct.variables[0], variable);
  }
  std::map<int, std::vector<int>> members;
  for (size_t p = 0; p < count; ++p) members[groups.Find(static_cast<int>(p))].push_back(static_cast<int>(p));
  for (const auto& [root, group] : members) {
    std::vector<Conjunct> own;
    std::vector<std::vector<int>> variables;
    for (const Conjunct& conjunct : conjuncts) {
      if (groups.Find(conjunct.variables[0]) != root) continue;
      own.push_back(conjunct);
      variables.push_back(conjunct.variables);
    }
    std::vector<int> order = space_internal::SearchOrder(group, variables, domain_of);
    std::vector<std::vector<uint16_t>> domains;
    for (const int parameter : order) domains.push_back(domain_of[static_cast<size_t>(parameter)]);
    programs.push_back(std::make_shared<const SearchProgram>(*this, &graph, std::move(order), std::move(domains), own));
  }
}

std::optional<absl::StatusOr<SolutionCount>> Space::Impl::CountWithPrograms(uint64_t nodes_max) const {
  if (!constant_fault.ok()) return std::nullopt;
  if (is_rejected_by_program) return SolutionCount{0};
  SolutionCount total = 1;
  bool is_over_budget = false;
  uint64_t nodes = nodes_max;
  for (const auto& program : programs) {
    SolutionCount count = 0;
    const WalkEnd end = program->Count(&nodes, &count);
    if (end == WalkEnd::kFault) return std::nullopt;
    if (end == WalkEnd::kBudget) {
      is_over_budget = true;
      nodes = nodes_max;
      continue;
    }
    if (count == 0) return SolutionCount{0};
    if (__builtin_mul_overflow(total, count, &total)) total = space_internal::kCountMax;
  }
  if (is_over_budget) return BudgetStatus();
  return total;
}

namespace {

// All combinations of two lists of keys.
std::vector<uint64_t> Combine(const std::vector<uint64_t>& outer, const std::vector<uint64_t>& inner) {
  std::vector<uint64_t> keys;
  keys.reserve(outer.size() * inner.size());
  for (const uint64_t high : outer) {
    for (const uint64_t low : inner) keys.push_back(high | low);
  }
  return keys;
}

std::vector<uint64_t> AddToAll(std::vector<uint64_t> keys, uint64_t key) {
  for (uint64_t& each : keys) each |= key;
  return keys;
}

}  // namespace

std::optional<absl::StatusOr<ConfigTable>> Space::Impl::EnumerateWithPrograms(uint64_t limit) const {
  if (!constant_fault.ok() || key_layout.total_bits > 64) return std::nullopt;
  ConfigTable table(static_cast<int>(parameters.size()));
  if (is_rejected_by_program) return table;
  uint64_t nodes = options.nodes_max;
  const int threads = space_internal::ThreadCount(options.threads);
  std::vector<uint64_t> keys = {0};
  std::vector<std::vector<uint64_t>> lists;
  bool is_over = false;
  for (const auto& program : programs) {
    std::vector<uint64_t> list;
    const WalkEnd end = program->List(key_layout, limit, threads, &nodes, &list);
    if (end == WalkEnd::kFault) return std::nullopt;
    if (end == WalkEnd::kBudget) return BudgetStatus();
    if (end == WalkEnd::kStopped) {
      is_over = true;
      continue;
    }
    if (list.empty()) return table;
    lists.push_back(std::move(list));
  }
  SolutionCount count = 1;
  for (const auto& list : lists) {
    if (__builtin_mul_overflow(count, SolutionCount{list.size()}, &count)) count = space_internal::kCountMax;
  }
  if (is_over || count > limit) return TooManyToList(limit);
  // Lists of earlier parameters outside: where no two lists interleave, nothing is left to sort.
  std::sort(lists.begin(), lists.end(),
            [](const auto& a, const auto& b) { return (a.front() | a.back()) > (b.front() | b.back()); });
  for (const auto& list : lists) keys = list.size() == 1 ? AddToAll(std::move(keys), list[0]) : Combine(keys, list);
  lists.clear();
  space_internal::SortKeys(key_layout.total_bits, &keys);
  UnpackKeys(keys, threads, &table);
  return table;
}

void Space::Impl::UnpackKeys(const std::vector<uint64_t>& keys, int threads, ConfigTable* table) const {
  const size_t width = parameters.size();
  table->size_ = keys.size();
  table->indices_.resize(keys.size() * width);
  // By bit of a key: the first parameter that a change there concerns. Rows that follow one another share their
  // beginnings.
  std::vector<size_t> parameter_of_bit(65, width);
  for (size_t p = width; p-- > 0;) {
    for (int bit = 0; bit < key_layout.bits[p]; ++bit) {
      parameter_of_bit[static_cast<size_t>(key_layout.shift[p] + bit)] = p;
    }
  }
  const size_t parts = keys.size() / kRowsOfAPart + 1;
  space_internal::ForEachPart(threads, parts, [&](size_t part) {
    const size_t begin = keys.size() * part / parts, end = keys.size() * (part + 1) / parts;
    uint16_t* row = table->indices_.data() + begin * width;
    for (size_t i = begin; i < end; ++i, row += width) {
      const uint64_t key = keys[i];
      size_t from = 0;
      if (i > begin) {
        from = parameter_of_bit[static_cast<size_t>(63 - std::countl_zero(key ^ keys[i - 1]))];
        std::copy(row - width, row - width + from, row);
      }
      for (size_t p = from; p < width; ++p) row[p] = IndexInKey(key, p);
    }
  });
}

bool Space::Impl::MakeProgramSamplers(std::vector<ProgramSampler>* samplers) const {
  for (const auto& program : programs) {
    ProgramSampler sampler;
    auto memo = SearchProgram::NewMemo();
    uint64_t nodes = std::min(options.nodes_max, kSamplerNodesMax);
    const WalkEnd counted = program->CountInto(memo.get(), &nodes, &sampler.total);
    if (counted == WalkEnd::kFault) return false;
    const bool is_counted = counted == WalkEnd::kDone && sampler.total < space_internal::kCountMax;
    // A short list is drawn from faster than counts are followed; and what is too much to remember may still be short
    // enough to list.
    const bool is_short = !is_counted || sampler.total <= kSamplerListMax;
    bool is_listed = false;
    if (is_short && !program->is_free() && key_layout.total_bits <= 64) {
      nodes = std::min(options.nodes_max, kSamplerNodesMax);
      const WalkEnd listed = program->List(key_layout, kSamplerListMax, space_internal::ThreadCount(options.threads),
                                           &nodes, &sampler.keys);
      if (listed == WalkEnd::kFault) return false;
      is_listed = listed == WalkEnd::kDone;
    }
    if (is_listed) {
      sampler.total = sampler.keys.size();
    } else if (is_counted) {
      sampler.keys.clear();
      sampler.memo = std::move(memo);
    } else {
      return false;
    }
    samplers->push_back(std::move(sampler));
  }
  return true;
}

bool Space::Impl::OccurringInPrograms(const std::vector<ProgramSampler>& samplers,
                                      std::vector<std::vector<uint16_t>>* occurring) const {
  for (size_t i = 0; i < samplers.size(); ++i) {
    if (samplers[i].memo != nullptr) {
      if (!programs[i]->FindOccurring(*samplers[i].memo, occurring)) return false;
      continue;
    }
    for (const int parameter : programs[i]->parameters()) {
      const size_t p = static_cast<size_t>(parameter);
      std::vector<bool> is_seen(parameters[p].values.size());
      for (const uint64_t key : samplers[i].keys) is_seen[IndexInKey(key, p)] = true;
      for (size_t index = 0; index < is_seen.size(); ++index) {
        if (is_seen[index]) (*occurring)[p].push_back(static_cast<uint16_t>(index));
      }
    }
  }
  return true;
}

bool Space::Impl::DrawFromProgram(size_t index, const ProgramSampler& sampler, PhiloxStream& random,
                                  std::vector<uint16_t>* row) const {
  const SearchProgram& program = *programs[index];
  if (sampler.memo != nullptr) return program.Draw(*sampler.memo, sampler.total, random, row);
  const uint64_t key = sampler.keys[random.UniformInt(sampler.keys.size())];
  for (const int parameter : program.parameters()) {
    const size_t p = static_cast<size_t>(parameter);
    (*row)[p] = IndexInKey(key, p);
  }
  return true;
}

}  // namespace tunefarm
