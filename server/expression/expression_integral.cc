// The fast path of expressions over ints and bools: register code, made from the stack code. Where the stack code moves
// operands about, an instruction here names them, so that there are about half as many to run.
#include <algorithm>
#include <map>

#include "server/expression/expression_internal.h"

namespace tunefarm {
namespace expression {
namespace {

// Runs the stack code with registers in the place of values. The value at height h of the stack is either in the
// register of a constant or a variable, or in the one that belongs to h.
class RegisterAllocator {
 public:
  explicit RegisterAllocator(const Expression::Program& program) : program_(program) {}

  IntegralCode Run() {
    const int end = static_cast<int>(program_.code.size());
    FindConstants();
    first_height_ = static_cast<int>(code_.constants.size() + program_.variables.size());
    new_place_.assign(static_cast<size_t>(end) + 1, 0);
    std::vector<bool> is_target(static_cast<size_t>(end) + 1, false);
    for (const Instruction& instruction : program_.code) {
      // A conditional expression's first jump takes nothing along.
      const bool takes_value = IsJump(instruction.op) && instruction.op != Op::kPopJumpIfFalse;
      if (takes_value) is_target[static_cast<size_t>(instruction.argument)] = true;
    }
    for (int pc = 0; pc <= end; ++pc) {
      // Whichever way leads here, the value on top is in the same register.
      if (is_target[static_cast<size_t>(pc)]) Settle();
      new_place_[static_cast<size_t>(pc)] = static_cast<int32_t>(code_.steps.size());
      if (pc < end) Translate(program_.code[static_cast<size_t>(pc)]);
    }
    for (IntegralStep& step : code_.steps) {
      if (IsJump(step.op)) step.target = new_place_[static_cast<size_t>(step.target)];
    }
    code_.result = stack_.back();
    code_.variables = program_.variables;
    return std::move(code_);
  }

 private:
  static bool IsJump(Op op) {
    return op == Op::kJump || op == Op::kJumpIfFalseElsePop || op == Op::kJumpIfTrueElsePop ||
           op == Op::kPopJumpIfFalse || op == Op::kChain;
  }

  void FindConstants() {
    const auto add = [this](int64_t value) {
      if (constant_at_.try_emplace(value, static_cast<int>(code_.constants.size())).second) {
        code_.constants.push_back(value);
      }
    };
    for (const Instruction& instruction : program_.code) {
      if (instruction.op == Op::kConstant) add(program_.constant_cells[instruction.argument].int_value);
      if (instruction.op == Op::kInBegin || instruction.op == Op::kInEnd) {
        add(0);
        add(1);
      }
    }
  }

  int RegisterOfHeight(size_t height) const { return first_height_ + static_cast<int>(height); }
  int RegisterOfVariable(int slot) const {
    const auto& variables = program_.variables;
    const auto it = std::lower_bound(variables.begin(), variables.end(), slot);
    return static_cast<int>(code_.constants.size()) + static_cast<int>(it - variables.begin());
  }

  void Emit(Op op, int out, int a, int b = 0, int32_t target = 0) {
    code_.steps.push_back({op, static_cast<uint16_t>(out), static_cast<uint16_t>(a), static_cast<uint16_t>(b), target});
  }
  // kPlus is the move.
  void Settle() {
    if (stack_.empty()) return;
    const int own = RegisterOfHeight(stack_.size() - 1);
    if (stack_.back() != own) Emit(Op::kPlus, own, stack_.back());
    stack_.back() = own;
  }
  int Pop() {
    const int top = stack_.back();
    stack_.pop_back();
    return top;
  }
  void PushOwn() { stack_.push_back(RegisterOfHeight(stack_.size())); }

  void Translate(const Instruction& instruction) {
    switch (instruction.op) {
      case Op::kConstant:
        stack_.push_back(constant_at_.at(program_.constant_cells[instruction.argument].int_value));
        return;
      case Op::kLoad:
        stack_.push_back(RegisterOfVariable(instruction.argument));
        return;
      case Op::kJump:
        Settle();
        Emit(Op::kJump, 0, 0, 0, instruction.argument);
        stack_.pop_back();
        return;
      case Op::kJumpIfFalseElsePop:
      case Op::kJumpIfTrueElsePop:
        Settle();
        Emit(instruction.op, 0, stack_.back(), 0, instruction.argument);
        stack_.pop_back();
        return;
      case Op::kPopJumpIfFalse:
        Emit(Op::kPopJumpIfFalse, 0, Pop(), 0, instruction.argument);
        return;
      case Op::kChain:
        TranslateChain(instruction);
        return;
      case Op::kReduce:
        TranslateReduce(instruction);
        return;
      case Op::kInBegin:
        stack_.push_back(constant_at_.at(0));
        Settle();
        return;
      case Op::kInElement: {
        const int element = Pop();
        Emit(Op::kInElement, stack_.back(), stack_[stack_.size() - 2], element);
        return;
      }
      case Op::kInEnd: {
        const int found = Pop();
        stack_.pop_back();
        PushOwn();
        Emit(Op::kEqual, stack_.back(), found, constant_at_.at(instruction.sub == Op::kIn ? 1 : 0));
        return;
      }
      default:
        break;
    }
    const bool is_unary = instruction.op >= Op::kNegate && instruction.op <= Op::kNot;
    const bool is_unary_function = instruction.op == Op::kAbs || instruction.op == Op::kToInt ||
                                   instruction.op == Op::kToBool || instruction.op == Op::kIsPow2 ||
                                   instruction.op == Op::kRound;
    const int b = is_unary || is_unary_function ? 0 : Pop();
    const int a = Pop();
    PushOwn();
    const bool is_move = instruction.op == Op::kToInt || instruction.op == Op::kRound;
    Emit(is_move ? Op::kPlus : instruction.op, stack_.back(), a, b);
  }

  // A link of a < b < c: where it does not hold, 0 in the place of a, and on to the end; else b takes the place of a.
  void TranslateChain(const Instruction& instruction) {
    const int b = Pop();
    const int a = Pop();
    const int own = RegisterOfHeight(stack_.size());
    const int scratch = RegisterOfHeight(stack_.size() + 2);
    Emit(instruction.sub, scratch, a, b);
    Emit(Op::kChain, own, scratch, 0, instruction.argument);
    stack_.push_back(b);
    if (b >= first_height_) Settle();  // the register of its height will be written
  }

  void TranslateReduce(const Instruction& instruction) {
    const size_t first = stack_.size() - static_cast<size_t>(instruction.argument);
    const int own = RegisterOfHeight(first);
    int last = stack_[first];
    for (size_t i = first + 1; i < stack_.size(); ++i) {
      Emit(instruction.sub, own, last, stack_[i]);
      last = own;
    }
    stack_.resize(first);
    PushOwn();
  }

  const Expression::Program& program_;
  IntegralCode code_;
  std::map<int64_t, int> constant_at_;
  int first_height_ = 0;
  std::vector<int> stack_;
  std::vector<int32_t> new_place_;  // of each stack instruction
};

// Both not negative: one unsigned division, and a short one where that is enough.
inline uint64_t PlainRemainder(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) % static_cast<uint32_t>(b);
  return a % b;
}
inline uint64_t PlainQuotient(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

}  // namespace

IntegralCode MakeIntegralCode(const Expression::Program& program) { return RegisterAllocator(program).Run(); }

}  // namespace expression

bool Expression::EvaluateIntegral(const int64_t* slots, int64_t* result) const {
  using expression::Op;
  // Constants, variables, then one register for each height of the stack. Not initialised: only what is used is
  // written.
  int64_t registers[expression::kRegistersMax];
  const expression::IntegralCode& code = program_->integral_code;
  int64_t* next = registers;
  for (const int64_t constant : code.constants) *next++ = constant;
  for (const int slot : code.variables) *next++ = slots[slot];
  const expression::IntegralStep* const begin = code.steps.data();
  const expression::IntegralStep* const end = begin + code.steps.size();
  for (const expression::IntegralStep* step = begin; step != end;) {
    const int64_t a = registers[step->a];
    const int64_t b = registers[step->b];
    int64_t* const out = registers + step->out;
    switch (step->op) {
      case Op::kMultiply:
        if (__builtin_mul_overflow(a, b, out)) return false;
        break;
      case Op::kAdd:
        if (__builtin_add_overflow(a, b, out)) return false;
        break;
      case Op::kSubtract:
        if (__builtin_sub_overflow(a, b, out)) return false;
        break;
      case Op::kLessEqual:
        *out = a <= b;
        break;
      case Op::kLess:
        *out = a < b;
        break;
      case Op::kGreaterEqual:
        *out = a >= b;
        break;
      case Op::kGreater:
        *out = a > b;
        break;
      case Op::kEqual:
        *out = a == b;
        break;
      case Op::kNotEqual:
        *out = a != b;
        break;
      case Op::kPlus:
        *out = a;
        break;
      case Op::kNot:
        *out = a == 0;
        break;
      case Op::kInElement:
        *out |= a == b ? 1 : 0;
        break;
      case Op::kModulo:
      case Op::kFloorDivide:
        if (a >= 0 && b > 0) {
          const uint64_t x = static_cast<uint64_t>(a);
          const uint64_t y = static_cast<uint64_t>(b);
          *out = static_cast<int64_t>(step->op == Op::kModulo ? expression::PlainRemainder(x, y)
                                                              : expression::PlainQuotient(x, y));
        } else if (!expression::IntegralBinary(step->op, a, b, out)) {
          return false;
        }
        break;
      case Op::kJump:
        step = begin + step->target;
        continue;
      case Op::kPopJumpIfFalse:
      case Op::kJumpIfFalseElsePop:
        if (a != 0) break;
        step = begin + step->target;
        continue;
      case Op::kJumpIfTrueElsePop:
        if (a == 0) break;
        step = begin + step->target;
        continue;
      case Op::kChain:
        if (a != 0) break;
        *out = 0;
        step = begin + step->target;
        continue;
      case Op::kNegate:
      case Op::kInvert:
      case Op::kAbs:
      case Op::kToBool:
      case Op::kIsPow2:
        if (!expression::IntegralUnary(step->op, a, out)) return false;
        break;
      default:
        if (!expression::IntegralBinary(step->op, a, b, out)) return false;
        break;
    }
    ++step;
  }
  *result = registers[code.result];
  return true;
}

}  // namespace tunefarm
