#include "client/launch/formula.h"

namespace tunefarm::launch {
namespace {

using expression::Op;

bool IsComparison(uint16_t op) { return op >= uint16_t(Op::kEqual) && op <= uint16_t(Op::kNotIn); }
bool IsMembership(uint16_t op) { return op == uint16_t(Op::kIn) || op == uint16_t(Op::kNotIn); }
bool IsExtremum(uint16_t op) { return op == uint16_t(Op::kMin) || op == uint16_t(Op::kMax); }

// The values on the stack before each instruction; kUnknown where none leads to it.
class Walk {
 public:
  static constexpr int32_t kUnknown = -1;

  Walk(uint32_t count, std::vector<int32_t>* depths) : depths_(*depths) {
    depths_.assign(size_t{count} + 1, kUnknown);
    depths_[0] = 0;
  }

  int32_t At(uint32_t at) const { return depths_[at]; }

  // An instruction leads to `to` with `depth` values. False if it may not.
  bool Lead(uint32_t to, int32_t depth) {
    if (depth < 0 || depth > expression::kStackMax || to >= depths_.size()) return false;
    if (depths_[to] == kUnknown) depths_[to] = depth;
    return depths_[to] == depth;
  }

 private:
  std::vector<int32_t>& depths_;
};

}  // namespace

bool IsProgram(const package::InstructionRecord* code, uint32_t count, uint64_t constants, uint32_t* slots,
               std::vector<int32_t>* depths) {
  *slots = 0;
  if (count == 0 || count > package::kInstructionsMax) return false;
  Walk walk(count, depths);
  for (uint32_t at = 0; at < count; ++at) {
    const int32_t depth = walk.At(at);
    if (depth == Walk::kUnknown) return false;
    const package::InstructionRecord& instruction = code[at];
    if (instruction.operation >= expression::kOps || instruction.sub >= expression::kOps) return false;
    const auto argument = static_cast<uint32_t>(instruction.argument);
    const bool jumps_forward = instruction.argument > static_cast<int32_t>(at) && argument <= count;
    int32_t needed = 0;  // on the stack
    int32_t change = 0;
    const Op op = static_cast<Op>(instruction.operation);
    switch (op) {
      case Op::kConstant:
        if (instruction.argument < 0 || argument >= constants) return false;
        change = 1;
        break;
      case Op::kLoad:
        if (argument >= kSlotsMax) return false;
        if (argument >= *slots) *slots = argument + 1;
        change = 1;
        break;
      case Op::kJump:
        if (!jumps_forward || !walk.Lead(argument, depth)) return false;
        continue;
      case Op::kJumpIfFalseElsePop:
      case Op::kJumpIfTrueElsePop:
        if (!jumps_forward || !walk.Lead(argument, depth)) return false;
        needed = 1, change = -1;
        break;
      case Op::kPopJumpIfFalse:
        if (!jumps_forward || !walk.Lead(argument, depth - 1)) return false;
        needed = 1, change = -1;
        break;
      case Op::kChain:
        if (!IsComparison(instruction.sub) || !jumps_forward || !walk.Lead(argument, depth - 1)) return false;
        needed = 2, change = -1;
        break;
      case Op::kReduce:
        if (!IsExtremum(instruction.sub) || instruction.argument < 1 || instruction.argument > depth) return false;
        needed = 1, change = 1 - instruction.argument;
        break;
      case Op::kInBegin:
        needed = 1, change = 1;
        break;
      case Op::kInElement:
        needed = 3, change = -1;
        break;
      case Op::kInEnd:
        if (!IsMembership(instruction.sub)) return false;
        needed = 2, change = -1;
        break;
      case Op::kAll:
      case Op::kAny:
      case Op::kSum:
        return false;  // the compiler writes other operations for them
      default:
        needed = expression::IsUnary(op) ? 1 : 2;
        change = expression::IsUnary(op) ? 0 : -1;
        break;
    }
    if (depth < needed || !walk.Lead(at + 1, depth + change)) return false;
  }
  return walk.At(count) == 1;
}

bool Evaluate(const Program& program, const expression::Cell* slots, expression::Cell* result,
              expression::Fault* fault) {
  expression::Failure failure;
  if (expression::Run(
          program.code, 0, static_cast<int>(program.instructions), program.constants,
          [slots](int slot) { return slots[slot]; }, result, &failure)) {
    return true;
  }
  *fault = failure.fault;
  return false;
}

const char* FaultText(expression::Fault fault) {
  switch (fault) {
    case expression::Fault::kType:
      return "it has operands of types that do not go together";
    case expression::Fault::kDivisionByZero:
      return "it divides by zero";
    case expression::Fault::kOverflow:
      return "its result does not fit into 64 bits";
    case expression::Fault::kDomain:
      return "it has no real value";
    case expression::Fault::kNegativeShift:
      return "it shifts by a negative count";
    case expression::Fault::kNone:
      break;
  }
  return "it has another type than is needed";
}

}  // namespace tunefarm::launch
