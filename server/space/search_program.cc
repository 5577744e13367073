// Compiling a search: what is checked where, and where in the state's memory every number stands.
#include "server/space/search_program.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace tunefarm::space_internal {

namespace {

// Bounds of a rule with more parameters than this are checked at its first depths only: building them costs more than
// they save.
constexpr int kBoundsMax = 24;
constexpr int kBoundsPerProgramMax = 2000;
// Nodes of the graph, some hundred bytes each, beyond which no more bounds are built.
constexpr int kGraphNodesMax = 200'000;
// What it costs to go through the parts of a rule once, in the units of WorkPace.
constexpr uint64_t kRuleWork = 20'000;
// Numbers that a search holds; more only where very many rules meet very long lists of values.
constexpr size_t kMemoryMax = 4'000'000;

}  // namespace

// Where each node's value stands.
struct SearchProgram::Layout {
  struct Spot {
    uint32_t vector = 0;  // its values at its own depth; of a constant, the number
    uint32_t number = 0;  // its value once its depth is bound
    bool has_number = false;
  };
  std::map<RuleGraph::Id, Spot> spots;  // ascending: operands come before what uses them
};

SearchProgram::SearchProgram(const SpaceRules& rules, RuleGraph* graph, std::vector<int> order,
                             std::vector<std::vector<uint16_t>> domains, const std::vector<Conjunct>& conjuncts,
                             const WorkLimit* limit)
    : rules_(rules), order_(std::move(order)), domains_(std::move(domains)), depth_of_(rules.parameters().size(), -1) {
  depths_.resize(order_.size());
  for (size_t depth = 0; depth < order_.size(); ++depth) depth_of_[order_[depth]] = static_cast<int>(depth);
  WorkPace pace(limit);
  Checks checks = Order(conjuncts, graph, &pace);
  FilterDomains(*graph, &checks, &pace);
  for (size_t depth = 0; depth < depths_.size(); ++depth) {
    cartesian_ *= static_cast<double>(domains_[depth].size());
    const bool has_checks =
        !checks.nodes[depth].empty() || !checks.faulty[depth].empty() || !depths_[depth].judged.empty();
    if (has_checks) free_from_ = depth + 1;
    uses_bindings_ = uses_bindings_ || !depths_[depth].judged.empty();
  }
  for (size_t depth = free_from_; depth < depths_.size(); ++depth) {
    free_product_ = MultiplyCounts(free_product_, domains_[depth].size());
  }
  Place(*graph, checks, &pace);
}

int SearchProgram::DepthOf(const GraphNode& node) const {
  int deepest = -1;
  for (size_t depth = 0; depth < order_.size(); ++depth) {
    if (node.variables[static_cast<size_t>(order_[depth])]) deepest = static_cast<int>(depth);
  }
  return deepest;
}

// Finds what to check at each depth.
SearchProgram::Checks SearchProgram::Order(const std::vector<Conjunct>& conjuncts, RuleGraph* graph, WorkPace* pace) {
  Checks checks;
  checks.nodes.resize(depths_.size());
  checks.faulty.resize(depths_.size());
  std::set<RuleGraph::Id> known;
  const auto check = [&](RuleGraph::Id id) {
    if (graph->IsConstant(id)) {
      // Never satisfied: no value of the first parameter is left.
      if (graph->At(id).value == 0) domains_[0].clear();
      return;
    }
    if (!known.insert(id).second) return;
    checks.nodes[static_cast<size_t>(DepthOf(graph->At(id)))].push_back(id);
  };
  int all_bounds = 0;
  for (const Conjunct& conjunct : conjuncts) {
    if (!pace->Spend(kRuleWork)) return checks;
    int last = 0;
    for (const int variable : conjunct.variables) last = std::max(last, depth_of_[variable]);
    if (conjunct.value < 0) {
      depths_[static_cast<size_t>(last)].judged.push_back(conjunct.rule);
      continue;
    }
    const RuleGraph::Id value = graph->Reassociate(conjunct.value, depth_of_);
    if (!graph->IsConstant(conjunct.fault)) {
      const RuleGraph::Id fault = graph->Reassociate(conjunct.fault, depth_of_);
      checks.faulty[static_cast<size_t>(last)].push_back({value, fault, conjunct.rule});
      continue;
    }
    // Bounds first: what they need is mostly needed anyway. Those of one parameter alone narrow its values.
    ParameterSet bound;
    int bounds = 0;
    for (int depth = 0; depth <= last && bounds < kBoundsMax && all_bounds < kBoundsPerProgramMax; ++depth) {
      if (graph->size() > kGraphNodesMax || !pace->Spend(kRuleWork)) break;
      const size_t parameter = static_cast<size_t>(order_[static_cast<size_t>(depth)]);
      bound.set(parameter);
      if (!graph->At(value).variables[parameter]) continue;
      ParameterSet alone;
      alone.set(parameter);
      if (bounds > 0) check(graph->Bound(value, /*is_upper=*/true, alone));
      if (depth < last) check(graph->Bound(value, /*is_upper=*/true, bound));
      ++bounds;
      ++all_bounds;
    }
    check(value);
  }
  return checks;
}

// Checks on one parameter alone are made now.
void SearchProgram::FilterDomains(const RuleGraph& graph, Checks* checks, WorkPace* pace) {
  bool goes_on = true;
  for (size_t depth = 0; depth < depths_.size(); ++depth) {
    std::erase_if(checks->nodes[depth], [&](RuleGraph::Id id) {
      if (graph.At(id).variables.count() != 1) return false;
      std::map<RuleGraph::Id, int64_t> values;
      const std::function<int64_t(RuleGraph::Id, uint16_t)> evaluate = [&](RuleGraph::Id node_id, uint16_t index) {
        const auto known = values.find(node_id);
        if (known != values.end()) return known->second;
        const GraphNode& node = graph.At(node_id);
        int64_t value = node.value;
        if (node.op == GraphOp::kVariable) {
          value = graph.ValueOf(static_cast<int>(node.value), index);
        } else if (node.op == GraphOp::kTable) {
          value = graph.TableAt(node_id, index) ? 1 : 0;
        } else if (node.op != GraphOp::kConstant) {
          const auto operand = [&](RuleGraph::Id of) { return of < 0 ? 0 : evaluate(of, index); };
          value = Apply(node.op, operand(node.a), operand(node.b), operand(node.c));
        }
        values.emplace(node_id, value);
        return value;
      };
      std::erase_if(domains_[depth], [&](uint16_t index) {
        values.clear();
        goes_on = goes_on && pace->Spend(kRuleWork);
        return goes_on && evaluate(id, index) == 0;
      });
      return true;
    });
  }
}

// Gives every needed node its place, computes what depends on one parameter alone, and writes the operations.
void SearchProgram::Place(const RuleGraph& graph, const Checks& checks, WorkPace* pace) {
  Layout layout;
  std::vector<RuleGraph::Id> open;
  const auto need = [&](RuleGraph::Id id) {
    if (id >= 0 && layout.spots.try_emplace(id).second) open.push_back(id);
  };
  for (const auto& ids : checks.nodes) {
    for (const RuleGraph::Id id : ids) need(id);
  }
  for (const auto& at_depth : checks.faulty) {
    for (const FaultyNodes& faulty : at_depth) {
      need(faulty.value);
      need(faulty.fault);
    }
  }
  while (!open.empty()) {
    const GraphNode& node = graph.At(open.back());
    open.pop_back();
    for (const RuleGraph::Id operand : {node.a, node.b, node.c}) need(operand);
  }
  for (auto& [id, spot] : layout.spots) {
    const GraphNode& node = graph.At(id);
    const int depth = DepthOf(node);
    spot.vector = static_cast<uint32_t>(memory_.size());
    if (depth < 0) {
      memory_.push_back(node.value);
      continue;
    }
    const std::vector<uint16_t>& domain = domains_[static_cast<size_t>(depth)];
    if (!pace->Spend(depths_.size() + domain.size())) return;
    if (memory_.size() + domain.size() > kMemoryMax) {
      is_too_large_ = true;
      memory_.clear();
      return;
    }
    memory_.resize(memory_.size() + domain.size(), 0);
    const auto operand = [&](RuleGraph::Id of, uint32_t* place, uint8_t* step) {
      if (of < 0) return;
      Layout::Spot& from = layout.spots[of];
      const int operand_depth = DepthOf(graph.At(of));
      *step = operand_depth == depth ? 1 : 0;
      *place = from.vector;
      if (operand_depth < 0 || operand_depth == depth) return;
      if (!from.has_number) {
        from.has_number = true;
        from.number = static_cast<uint32_t>(memory_.size());
        memory_.push_back(0);
        depths_[static_cast<size_t>(operand_depth)].exports.push_back({from.vector, from.number});
      }
      *place = from.number;
    };
    Instruction instruction;
    instruction.op = node.op;
    instruction.out = spot.vector;
    operand(node.a, &instruction.a, &instruction.a_step);
    operand(node.b, &instruction.b, &instruction.b_step);
    operand(node.c, &instruction.c, &instruction.c_step);
    if (node.variables.count() > 1) {
      depths_[static_cast<size_t>(depth)].instructions.push_back(instruction);
      continue;
    }
    for (size_t i = 0; i < domain.size(); ++i) {
      int64_t* const out = &memory_[spot.vector + i];
      if (node.op == GraphOp::kVariable) {
        *out = graph.ValueOf(static_cast<int>(node.value), domain[i]);
      } else if (node.op == GraphOp::kTable) {
        *out = graph.TableAt(id, domain[i]) ? 1 : 0;
      } else {
        *out = Apply(node.op, memory_[instruction.a + i * instruction.a_step],
                     memory_[instruction.b + i * instruction.b_step], memory_[instruction.c + i * instruction.c_step]);
      }
    }
  }
  for (size_t depth = 0; depth < depths_.size(); ++depth) {
    for (const RuleGraph::Id id : checks.nodes[depth]) depths_[depth].checks.push_back(layout.spots[id].vector);
    for (const auto& [value, fault, rule] : checks.faulty[depth]) {
      // Either may be known earlier than the other.
      const auto place = [&](RuleGraph::Id id, uint32_t* at, uint8_t* step) {
        Layout::Spot& spot = layout.spots[id];
        const int own = DepthOf(graph.At(id));
        *at = spot.vector;
        *step = own == static_cast<int>(depth) ? 1 : 0;
        if (own < 0 || *step == 1) return;
        if (!spot.has_number) {
          spot.has_number = true;
          spot.number = static_cast<uint32_t>(memory_.size());
          memory_.push_back(0);
          depths_[static_cast<size_t>(own)].exports.push_back({spot.vector, spot.number});
        }
        *at = spot.number;
      };
      FaultyCheck faulty;
      faulty.rule = rule;
      place(value, &faulty.value, &faulty.value_step);
      place(fault, &faulty.fault, &faulty.fault_step);
      depths_[depth].faulty_checks.push_back(faulty);
    }
  }
  FindFrontiers(graph, layout);
}

void SearchProgram::FindFrontiers(const RuleGraph& graph, const Layout& layout) {
  // By place of a number: the depth that makes it and the last one that reads it.
  std::map<uint32_t, std::pair<int, int>> lives;
  std::vector<bool> is_whole(depths_.size(), false);  // the depth's value itself is among its exports
  for (size_t depth = 0; depth < depths_.size(); ++depth) {
    for (const Copy& copy : depths_[depth].exports) lives[copy.to] = {static_cast<int>(depth), -1};
  }
  const auto read = [&](uint32_t place, int depth) {
    const auto it = lives.find(place);
    if (it != lives.end()) it->second.second = std::max(it->second.second, depth);
  };
  std::vector<int> last_judged(depths_.size(), -1);  // the last depth that judges a rule on this depth's parameter
  for (size_t depth = 0; depth < depths_.size(); ++depth) {
    const int at = static_cast<int>(depth);
    for (const Instruction& instruction : depths_[depth].instructions) {
      read(instruction.a, at);
      read(instruction.b, at);
      read(instruction.c, at);
    }
    for (const FaultyCheck& faulty : depths_[depth].faulty_checks) {
      read(faulty.value, at);
      read(faulty.fault, at);
    }
    for (const int rule : depths_[depth].judged) {
      for (const int variable : rules_.At(rule).Variables()) {
        if (depth_of_[variable] >= 0) last_judged[static_cast<size_t>(depth_of_[variable])] = at;
      }
    }
  }
  std::map<uint32_t, RuleGraph::Id> node_at;
  for (const auto& [id, spot] : layout.spots) {
    if (spot.has_number) node_at[spot.number] = id;
  }
  for (size_t depth = 1; depth < depths_.size(); ++depth) {
    Depth& into = depths_[depth];
    std::set<int> told;  // depths whose value the frontier tells
    for (const auto& [place, life] : lives) {
      if (life.first >= static_cast<int>(depth) || life.second < static_cast<int>(depth)) continue;
      into.frontier.push_back(place);
      if (graph.At(node_at[place]).op == GraphOp::kVariable) told.insert(life.first);
    }
    for (size_t earlier = 0; earlier < depth; ++earlier) {
      if (last_judged[earlier] < static_cast<int>(depth)) continue;
      into.frontier_positions.push_back(static_cast<int>(earlier));
      told.insert(static_cast<int>(earlier));
    }
    // Where it tells everything, no combination is met twice.
    size_t varying = 0;
    for (size_t earlier = 0; earlier < depth; ++earlier) varying += domains_[earlier].size() > 1 ? 1 : 0;
    size_t varying_told = 0;
    for (const int earlier : told) varying_told += domains_[static_cast<size_t>(earlier)].size() > 1 ? 1 : 0;
    into.is_remembered = varying_told < varying;
  }
  depths_[0].is_remembered = false;
}

}  // namespace tunefarm::space_internal
