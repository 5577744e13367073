#include "client/launch/formula.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "server/expression/expression.h"
#include "server/expression/expression_internal.h"

namespace tunefarm::launch {
namespace {

using expression::Cell;
using expression::Op;
using package::InstructionRecord;

// Writes expressions over a, b (ints), t (a bool), f (a float) and s (a string); many of them fail somewhere.
class ExpressionMaker {
 public:
  explicit ExpressionMaker(uint64_t seed) : random_(seed) {}

  std::string Make(int depth) {
    if (depth == 0) return Leaf();
    const auto part = [&] { return Make(depth - 1); };
    switch (random_.UniformInt(8)) {
      case 0:
        return "(" + part() + " if " + part() + " else " + part() + ")";
      case 1:
        return "(" + part() + (random_.UniformInt(2) == 0 ? " and " : " or ") + part() + ")";
      case 2:
        return "(" + part() + Comparison() + part() + Comparison() + part() + ")";
      case 3:
        return "(" + part() + (random_.UniformInt(2) == 0 ? " in (" : " not in (") + part() + ", " + part() + "))";
      case 4: {
        constexpr const char* kFunctions[] = {"min", "max", "ceil_div", "round_up"};
        const size_t which = random_.UniformInt(4);
        const std::string more = which < 2 && random_.UniformInt(2) == 0 ? ", " + part() : "";
        return std::string(kFunctions[which]) + "(" + part() + ", " + part() + more + ")";
      }
      case 5: {
        constexpr const char* kFunctions[] = {"abs",     "int",   "float", "bool", "log2",
                                              "is_pow2", "round", "not ",  "-",    "~"};
        return std::string("(") + kFunctions[random_.UniformInt(10)] + "(" + part() + "))";
      }
      default: {
        constexpr const char* kOperators[] = {" + ", " - ", " * ", " / ", " // ", " % ", " & ", " | ", " << ", " >> "};
        return "(" + part() + kOperators[random_.UniformInt(10)] + part() + ")";
      }
    }
  }

 private:
  std::string Leaf() {
    constexpr const char* kLeaves[] = {"a", "b", "t", "f", "s", "0", "1", "7", "128", "2.5", "True", "'bf16'", "'f'"};
    return kLeaves[random_.UniformInt(13)];
  }
  std::string Comparison() {
    constexpr const char* kComparisons[] = {" < ", " <= ", " == ", " != ", " > ", " >= "};
    return kComparisons[random_.UniformInt(6)];
  }

  PhiloxStream random_;
};

std::vector<InstructionRecord> RecordsOf(const ExportedProgram& program) {
  std::vector<InstructionRecord> records;
  for (const auto& one : program.code) records.push_back({one.operation, one.sub, one.argument});
  return records;
}

struct Runnable {
  std::vector<expression::Instruction> code;
  std::vector<Cell> constants;

  Program Get() const { return {code.data(), constants.data(), static_cast<uint32_t>(code.size()), ""}; }
};

Runnable RunnableOf(const std::vector<InstructionRecord>& records, const std::vector<Value>& constants) {
  Runnable runnable;
  for (const InstructionRecord& record : records) {
    expression::Instruction instruction;
    instruction.op = static_cast<Op>(record.operation);
    instruction.sub = static_cast<Op>(record.sub);
    instruction.argument = record.argument;
    runnable.code.push_back(instruction);
  }
  for (const Value& value : constants) runnable.constants.push_back(expression::CellOf(value));
  return runnable;
}

TEST(FormulaTest, HasTheValueThatTheExpressionHas) {
  SymbolTable symbols;
  for (const char* name : {"a", "b", "t", "f", "s"}) ASSERT_TRUE(symbols.AddVariable(name).ok());
  const std::vector<Value> slots = {64, -3, true, 0.75, "bf16"};
  std::array<Cell, kSlotsMax> cells = {};
  for (size_t i = 0; i < slots.size(); ++i) cells[i] = expression::CellOf(slots[i]);
  ExpressionMaker maker(3);
  std::vector<int32_t> depths;
  int values = 0, faults = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = maker.Make(1 + i % 4);
    const auto expression = Expression::Compile(text, symbols);
    ASSERT_TRUE(expression.ok()) << text;
    const ExportedProgram program = expression->Export();
    const std::vector<InstructionRecord> records = RecordsOf(program);
    uint32_t highest = 0;
    ASSERT_TRUE(
        IsProgram(records.data(), static_cast<uint32_t>(records.size()), program.constants.size(), &highest, &depths))
        << text;
    EXPECT_LE(highest, slots.size()) << text;
    const Runnable runnable = RunnableOf(records, program.constants);
    Cell result = Cell::Int(0);
    expression::Fault fault = expression::Fault::kNone;
    const bool has_value = Evaluate(runnable.Get(), cells.data(), &result, &fault);
    const auto expected = expression->Evaluate(slots.data());
    ASSERT_EQ(has_value, expected.ok()) << text;
    ++(has_value ? values : faults);
    if (has_value) {
      EXPECT_EQ(expression::ValueOf(result), *expected) << text;
    }
  }
  EXPECT_GT(values, 1000);
  EXPECT_GT(faults, 1000);
}

// What is accepted runs within its bounds, whatever it is: the sanitizers would say.
TEST(FormulaTest, AnythingIsRefusedOrRuns) {
  PhiloxStream random(5);
  const std::vector<Value> constants = {1, 0, 2.5, true, "bf16", "f"};
  std::array<Cell, kSlotsMax> cells = {};
  for (Cell& cell : cells) cell = Cell::Int(64);
  std::vector<int32_t> depths;
  int accepted = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::vector<InstructionRecord> records(1 + random.UniformInt(9));
    for (size_t at = 0; at < records.size(); ++at) {
      InstructionRecord& record = records[at];
      // Many constants, or hardly anything would be a program.
      record.operation = static_cast<uint16_t>(random.UniformInt(2) == 0 ? 39 : random.UniformInt(52));
      record.sub = static_cast<uint16_t>(random.UniformInt(28));
      record.argument = static_cast<int32_t>(random.UniformInt(8));
    }
    uint32_t highest = 0;
    const auto count = static_cast<uint32_t>(records.size());
    if (!IsProgram(records.data(), count, constants.size(), &highest, &depths)) continue;
    ++accepted;
    const Runnable runnable = RunnableOf(records, constants);
    Cell result = Cell::Int(0);
    expression::Fault fault = expression::Fault::kNone;
    if (Evaluate(runnable.Get(), cells.data(), &result, &fault)) (void)expression::ValueOf(result);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(FormulaTest, WhatTheMachineCannotRunIsRefused) {
  const auto constant = InstructionRecord{uint16_t(Op::kConstant), 0, 0};
  const auto of = [](Op op, Op sub, int32_t argument) {
    return InstructionRecord{static_cast<uint16_t>(op), static_cast<uint16_t>(sub), argument};
  };
  const std::vector<InstructionRecord> cases[] = {
      {},
      {constant, constant},                                                    // two values are left
      {of(Op::kAdd, Op::kAdd, 0)},                                             // no operands
      {constant, of(Op::kAdd, Op::kAdd, 0)},                                   // one operand
      {of(Op::kConstant, Op::kAdd, 1)},                                        // no such constant
      {of(Op::kConstant, Op::kAdd, -1)},                                       //
      {of(Op::kLoad, Op::kAdd, static_cast<int32_t>(kSlotsMax))},              // no such slot
      {constant, of(Op::kJump, Op::kAdd, 0)},                                  // backwards
      {constant, of(Op::kJump, Op::kAdd, 1)},                                  // to itself
      {constant, of(Op::kJump, Op::kAdd, 3)},                                  // beyond the end
      {of(Op::kJump, Op::kAdd, 2), constant, constant},                        // past what is never run
      {constant, of(Op::kPopJumpIfFalse, Op::kAdd, 3), constant},              // one value on one way only
      {constant, constant, of(Op::kChain, Op::kMin, 3)},                       // no comparison
      {constant, constant, of(Op::kReduce, Op::kMin, 3)},                      // more than there are
      {constant, of(Op::kReduce, Op::kMin, 0)},                                //
      {constant, constant, of(Op::kReduce, Op::kAdd, 2)},                      //
      {constant, of(Op::kInBegin, Op::kAdd, 0), of(Op::kInEnd, Op::kAdd, 0)},  // neither in nor not in
      {constant, of(Op::kSum, Op::kAdd, 0)},                                   // of lists
      {{50, 0, 0}},
  };
  std::vector<int32_t> depths;
  uint32_t slots = 0;
  for (const auto& records : cases) {
    EXPECT_FALSE(IsProgram(records.data(), static_cast<uint32_t>(records.size()), 1, &slots, &depths))
        << &records - cases;
  }
  // As deep as the stack, and one deeper.
  std::vector<InstructionRecord> deep(expression::kStackMax, constant);
  deep.insert(deep.end(), expression::kStackMax - 1, of(Op::kAdd, Op::kAdd, 0));
  EXPECT_TRUE(IsProgram(deep.data(), static_cast<uint32_t>(deep.size()), 1, &slots, &depths));
  deep.insert(deep.begin(), constant);
  deep.push_back(of(Op::kAdd, Op::kAdd, 0));
  EXPECT_FALSE(IsProgram(deep.data(), static_cast<uint32_t>(deep.size()), 1, &slots, &depths));
}

}  // namespace
}  // namespace tunefarm::launch
