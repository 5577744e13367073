// The verdict on the outputs of a launch sequence, by the rule of tunefarm.v1.Tolerance:
//
// - An element that the reference left poisoned must hold the very bits of the poison; a poisoned element that the
// reference
//   wrote was never written. Neither is excused by max_mismatch_fraction, and neither is a NaN: it never passes.
// - Infinities must be equal. Otherwise |out - ref| <= atol + rtol * |ref| for floats. Integers are compared without
// rounding
//   and by atol alone: a relative tolerance made for rounding errors would let wrong counts and indices pass.
// - An error above catastrophic_bound * max|ref| of the buffer is not excused by max_mismatch_fraction.
// - Every row of row_length elements (the whole buffer if 0) must satisfy ||out - ref|| <= row_norm_bound * ||ref||.
//
// Pure; any thread. Device code fills BufferComparison by the same rule and hands it to Judge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/worker/verify/poison.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// How a single element failed, the worst last.
enum class MismatchKind { kTolerance, kCatastrophic, kNan, kUnwrittenOrNan, kUnwritten, kOverwritten };

struct ElementMismatch {
  uint64_t index = 0;
  MismatchKind kind = MismatchKind::kTolerance;
  double actual = 0;
  double expected = 0;
};

inline constexpr size_t kFirstMismatchesMax = 8;

// What comparing one buffer found.
struct BufferComparison {
  std::string buffer;
  uint64_t elements = 0;
  uint64_t mismatches = 0;       // of any kind
  uint64_t hard_mismatches = 0;  // of any kind but kTolerance: never excused
  double max_absolute_error = 0;
  double max_relative_error = 0;
  std::vector<ElementMismatch> first;  // by index, at most kFirstMismatchesMax
  std::optional<uint64_t> bad_row;     // the first row that breaks row_norm_bound
  double bad_row_norm = 0;             // its ||out - ref|| / ||ref||
};

// An element as a double; 64-bit integers may round (for reports only).
double ElementToDouble(tunefarm::v1::DataType type, const std::byte* element);

// Compares whole buffers of one type and size. `poison` is what the buffer held before the launch sequence, in both
// runs; nothing if it held data. `expected_is_whole`: no run left what is expected, so that none of it is poison; an
// element that equals the poison is a value as others are.
BufferComparison Compare(std::string_view buffer, tunefarm::v1::DataType type, std::span<const std::byte> actual,
                         std::span<const std::byte> expected, std::optional<PoisonPattern> poison,
                         const TolerancePlan& tolerance, bool expected_is_whole = false);

// The expected output when the buffer was poisoned with the second pattern, made from the one under the first. Sets
// *ambiguous if an element equals the first pattern, which the reference may have written on purpose (MayEqualPoison):
// then run the reference again under the second pattern instead.
std::vector<std::byte> ExpectedUnderSecondPoison(tunefarm::v1::DataType type, std::span<const std::byte> expected,
                                                 bool* ambiguous);

// A value that passes for every element of a reference's output, so that the comparison says nothing: the reference
// varies by no more than the tolerance. Nothing where there is none, for fewer than 16 written elements, and where rows
// are compared by their norm. Looks at the first million elements.
std::optional<double> PassingConstant(tunefarm::v1::DataType type, std::span<const std::byte> expected,
                                      std::optional<PoisonPattern> poison, const TolerancePlan& tolerance);
// The note about it, a sentence.
std::string ConstantNote(std::string_view buffer, double constant);

struct Verdict {
  bool passed = true;
  std::string message;  // one sentence; empty if passed
  tunefarm::v1::Verification verification;
};

Verdict Judge(const std::vector<BufferComparison>& comparisons, const TolerancePlan& tolerance);

}  // namespace tunefarm
