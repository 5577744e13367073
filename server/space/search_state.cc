#include "server/space/search_state.h"

#include <algorithm>

namespace tunefarm::space_internal {

SearchState::SearchState(const SearchProgram& of, const SearchBudget& budget)
    : program(of),
      memory(of.memory()),
      alive(of.size()),
      positions(of.size(), 0),
      key(of.size()),
      nodes(budget.nodes),
      pace(budget.limit) {
  if (of.uses_bindings()) binding.emplace(of.rules().parameters().size());
}

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

}  // namespace

WalkEnd SearchState::Visit(size_t depth) {
  const SearchProgram::Depth& here = program.At(depth);
  const size_t count = program.DomainAt(depth).size();
  if (nodes < count) return WalkEnd::kBudget;
  nodes -= count;
  if (nodes < ask_below && !GoOn()) return WalkEnd::kStopped;
  if (!pace.Spend(count * (1 + here.instructions.size()))) return WalkEnd::kBudget;
  int64_t* const numbers = memory.data();
  for (const SearchProgram::Instruction& instruction : here.instructions) {
    const size_t a_step = instruction.a_step;
    const size_t b_step = instruction.b_step;
    int64_t* const out = numbers + instruction.out;
    const int64_t* const a = numbers + instruction.a;
    const int64_t* const b = numbers + instruction.b;
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
          out[i] = Apply(instruction.op, a[i * a_step], b[i * b_step], numbers[instruction.c + i * instruction.c_step]);
        }
        break;
    }
  }
  std::vector<uint16_t>& passing = alive[depth];
  passing.resize(count);
  size_t kept = 0;
  if (here.checks.empty()) {
    for (; kept < count; ++kept) passing[kept] = static_cast<uint16_t>(kept);
  } else {
    const int64_t* const first = numbers + here.checks[0];
    for (size_t i = 0; i < count; ++i) {
      passing[kept] = static_cast<uint16_t>(i);
      kept += first[i] != 0 ? 1 : 0;
    }
    for (size_t check = 1; check < here.checks.size(); ++check) {
      const int64_t* const holds = numbers + here.checks[check];
      size_t left = 0;
      for (size_t i = 0; i < kept; ++i) {
        const uint16_t position = passing[i];
        passing[left] = position;
        left += holds[position] != 0 ? 1 : 0;
      }
      kept = left;
    }
  }
  passing.resize(kept);
  if ((!here.faulty_checks.empty() || !here.judged.empty()) && !JudgeRules(depth)) return WalkEnd::kBudget;
  if (!has_faults || depth + 1 != program.free_from() || passing.empty()) return WalkEnd::kDone;
  if (depth > 0 && IsFaulty(depth - 1)) return WalkEnd::kFault;
  if (faulty[depth].empty()) return WalkEnd::kDone;
  Bind(depth, faulty[depth][0].first);
  return WalkEnd::kFault;
}

bool SearchState::JudgeRules(size_t depth) {
  const SearchProgram::Depth& here = program.At(depth);
  const int parameter = program.parameters()[depth];
  const std::vector<uint16_t>& domain = program.DomainAt(depth);
  const uint64_t work = here.faulty_checks.size() + here.judged.size() * SpaceRules::kJudgeWork;
  bool goes_on = true;
  if (has_faults) faulty[depth].clear();
  std::erase_if(alive[depth], [&](uint16_t position) {
    goes_on = goes_on && pace.Spend(work);
    if (!goes_on) return true;
    int failing = -1;
    const auto note = [&failing](int rule) { failing = failing < 0 ? rule : std::min(failing, rule); };
    for (const SearchProgram::FaultyCheck& check : here.faulty_checks) {
      const bool fails = memory[check.fault + size_t{position} * check.fault_step] != 0;
      if (fails) note(check.rule);
      if (!fails && memory[check.value + size_t{position} * check.value_step] == 0) return true;
    }
    if (!here.judged.empty()) program.rules().Bind(parameter, domain[position], &*binding);
    for (const int rule : here.judged) {
      const Verdict verdict = program.rules().Judge(rule, *binding);
      if (verdict == Verdict::kReject) return true;
      if (verdict == Verdict::kFault) note(rule);
    }
    if (failing >= 0) {
      has_faults = true;
      faulty.resize(program.size());
      faulty[depth].emplace_back(position, failing);
    }
    return false;
  });
  return goes_on;
}

void SearchState::Bind(size_t depth, uint16_t position) {
  positions[depth] = position;
  int64_t* const numbers = memory.data();
  for (const SearchProgram::Copy& copy : program.At(depth).exports) numbers[copy.to] = numbers[copy.from + position];
  if (binding.has_value()) {
    program.rules().Bind(program.parameters()[depth], program.DomainAt(depth)[position], &*binding);
  }
  if (has_faults) FollowFault(depth, position);
}

// What was bound before at this depth and below no longer counts.
void SearchState::FollowFault(size_t depth, uint16_t position) {
  if (fault_depth < depth) return;
  fault_depth = kNoDepth;
  for (const auto& [at, rule] : faulty[depth]) {
    if (at != position) continue;
    fault_depth = depth;
    fault_rule = rule;
    return;
  }
}

absl::Status SearchState::FaultStatus() const {
  const SpaceRules& rules = program.rules();
  Binding point(rules.parameters().size());
  // A parameter that the program does not bind has one value only, or one is as good as another.
  for (const int variable : rules.At(fault_rule).Variables()) {
    const std::vector<uint16_t>& domain = rules.domains()[static_cast<size_t>(variable)];
    rules.Bind(variable, domain.empty() ? uint16_t{0} : domain[0], &point);
  }
  for (size_t depth = 0; depth <= fault_depth; ++depth) {
    rules.Bind(program.parameters()[depth], program.DomainAt(depth)[positions[depth]], &point);
  }
  return rules.FaultStatus(fault_rule, point);
}

const std::vector<int64_t>& SearchState::FrontierKey(size_t depth) {
  const SearchProgram::Depth& here = program.At(depth);
  std::vector<int64_t>& words = key[depth];
  words.clear();
  for (const uint32_t place : here.frontier) words.push_back(memory[place]);
  for (const int earlier : here.frontier_positions) words.push_back(positions[static_cast<size_t>(earlier)]);
  return words;
}

}  // namespace tunefarm::space_internal
