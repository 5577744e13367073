#include "server/worker/verify/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "server/worker/verify/fill.h"

namespace tunefarm {
namespace {

using v1::DataType;

uint64_t BitsAt(const std::byte* element, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size);
  return bits;
}

uint64_t MaskOf(size_t size) { return size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1; }

bool IsSigned(DataType type) {
  return type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_I16 || type == v1::DATA_TYPE_I32 ||
         type == v1::DATA_TYPE_I64;
}

// |a - b| of two integers given as bits; never overflows.
double IntegerDistance(uint64_t a, uint64_t b, DataType type, size_t size) {
  if (IsSigned(type)) {
    // To offset binary, which orders like the signed values.
    const uint64_t top = uint64_t{1} << (8 * size - 1);
    a = (a ^ top) & MaskOf(size);
    b = (b ^ top) & MaskOf(size);
  }
  return static_cast<double>(a > b ? a - b : b - a);
}

// Walks a pair of buffers and keeps what Compare reports.
class Comparison {
 public:
  Comparison(DataType type, const TolerancePlan& tolerance, double reference_max, bool expected_is_whole,
             BufferComparison* found)
      : type_(type), size_(SizeOf(type)), tolerance_(tolerance), expected_is_whole_(expected_is_whole), found_(found) {
    if (tolerance.catastrophic_bound > 0) catastrophic_error_ = tolerance.catastrophic_bound * reference_max;
  }

  void Element(uint64_t index, uint64_t actual, uint64_t expected, std::optional<uint64_t> poison) {
    if (poison && expected == *poison && !expected_is_whole_) {
      if (actual != expected) Add(index, MismatchKind::kOverwritten, actual, expected);
      return;
    }
    if (poison && actual == *poison && IsFloatType(type_)) {
      return Add(index, MayEqualPoison(type_) ? MismatchKind::kUnwrittenOrNan : MismatchKind::kUnwritten, actual,
                 expected);
    }
    const double out = ToDouble(actual), ref = ToDouble(expected);
    if (std::isnan(out) || std::isnan(ref)) return Add(index, MismatchKind::kNan, actual, expected);
    if (actual == expected || out == ref)
      return AddToRow(ref, IsFloatType(type_) ? 0 : Distance(actual, expected), index, actual, expected, poison);
    if (std::isinf(out) || std::isinf(ref)) return Add(index, MismatchKind::kCatastrophic, actual, expected);
    AddToRow(ref, Distance(actual, expected), index, actual, expected, poison);
  }

  void EndRow(uint64_t row) {
    if (tolerance_.row_norm_bound > 0 && !found_->bad_row && row_error_ > 0) {
      const double norm = row_reference_ > 0 ? std::sqrt(row_error_ / row_reference_) : HUGE_VAL;
      if (norm > tolerance_.row_norm_bound) {
        found_->bad_row = row;
        found_->bad_row_norm = norm;
      }
    }
    row_error_ = row_reference_ = 0;
  }

 private:
  double ToDouble(uint64_t bits) const { return tunefarm_double_of_element(bits, static_cast<int>(type_)); }

  double Distance(uint64_t actual, uint64_t expected) const {
    if (!IsFloatType(type_)) return IntegerDistance(actual, expected, type_, size_);
    return std::fabs(ToDouble(actual) - ToDouble(expected));
  }

  // An element of two finite values (or equal infinities) that are `error` apart.
  void AddToRow(double ref, double error, uint64_t index, uint64_t actual, uint64_t expected,
                std::optional<uint64_t> poison) {
    if (std::isfinite(ref)) {
      row_reference_ += ref * ref;
      row_error_ += error * error;
    }
    if (error == 0) return;
    found_->max_absolute_error = std::max(found_->max_absolute_error, error);
    if (ref != 0) found_->max_relative_error = std::max(found_->max_relative_error, error / std::fabs(ref));
    const double allowed = tolerance_.atol + (IsFloatType(type_) ? tolerance_.rtol * std::fabs(ref) : 0);
    const bool catastrophic = catastrophic_error_ && error > *catastrophic_error_;
    if (error <= allowed && !catastrophic) return;
    // Any integer may be a right result, so a poisoned one is suspect only where it is wrong.
    if (poison && actual == *poison) return Add(index, MismatchKind::kUnwritten, actual, expected);
    Add(index, catastrophic ? MismatchKind::kCatastrophic : MismatchKind::kTolerance, actual, expected);
  }

  void Add(uint64_t index, MismatchKind kind, uint64_t actual, uint64_t expected) {
    ++found_->mismatches;
    if (kind != MismatchKind::kTolerance) ++found_->hard_mismatches;
    if (found_->first.size() < kFirstMismatchesMax) {
      found_->first.push_back({index, kind, ToDouble(actual), ToDouble(expected)});
    }
  }

  const DataType type_;
  const size_t size_;
  const TolerancePlan& tolerance_;
  const bool expected_is_whole_;
  BufferComparison* const found_;
  std::optional<double> catastrophic_error_;
  double row_error_ = 0, row_reference_ = 0;
};

double LargestMagnitude(DataType type, std::span<const std::byte> values, std::optional<uint64_t> poison) {
  const size_t size = SizeOf(type);
  double largest = 0;
  for (size_t offset = 0; offset + size <= values.size(); offset += size) {
    const uint64_t bits = BitsAt(values.data() + offset, size);
    if (poison && bits == *poison) continue;
    const double value = std::fabs(tunefarm_double_of_element(bits, static_cast<int>(type)));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

std::string Describe(const BufferComparison& comparison, const ElementMismatch& mismatch) {
  const std::string element = fmt::format("{}[{}]", comparison.buffer, mismatch.index);
  switch (mismatch.kind) {
    case MismatchKind::kUnwritten:
      return fmt::format("{} was never written; the reference has {}", element, mismatch.expected);
    case MismatchKind::kUnwrittenOrNan:
      return fmt::format("{} was never written or is NaN; the reference has {}", element, mismatch.expected);
    case MismatchKind::kOverwritten:
      return fmt::format("{} was written ({}), but the reference leaves it untouched", element, mismatch.actual);
    default:
      return fmt::format("{} is {}, but the reference has {}", element, mismatch.actual, mismatch.expected);
  }
}

// Why the buffer fails; empty if it passes.
std::string FailureText(const BufferComparison& comparison, const TolerancePlan& tolerance) {
  const double allowed = tolerance.max_mismatch_fraction * static_cast<double>(comparison.elements);
  if (comparison.hard_mismatches > 0 || static_cast<double>(comparison.mismatches) > allowed) {
    std::string what = fmt::format("{} of {} elements differ", comparison.mismatches, comparison.elements);
    if (comparison.max_absolute_error > 0) what += fmt::format(", by at most {:.6g}", comparison.max_absolute_error);
    if (comparison.first.empty()) return fmt::format("in {}, {}.", comparison.buffer, what);
    return fmt::format("{} ({}).", Describe(comparison, comparison.first.front()), what);
  }
  if (comparison.bad_row) {
    return fmt::format("row {} of {} is off by {:.6g} of its norm, more than the allowed {:.6g}.", *comparison.bad_row,
                       comparison.buffer, comparison.bad_row_norm, tolerance.row_norm_bound);
  }
  return "";
}

}  // namespace

double ElementToDouble(DataType type, const std::byte* element) {
  return tunefarm_double_of_element(BitsAt(element, SizeOf(type)), static_cast<int>(type));
}

BufferComparison Compare(std::string_view buffer, DataType type, std::span<const std::byte> actual,
                         std::span<const std::byte> expected, std::optional<PoisonPattern> poison,
                         const TolerancePlan& tolerance, bool expected_is_whole) {
  BufferComparison found;
  found.buffer = buffer;
  const size_t size = SizeOf(type);
  found.elements = std::min(actual.size(), expected.size()) / size;
  std::optional<uint64_t> poison_bits;
  if (poison) poison_bits = PoisonBits(type, *poison);
  const std::optional<uint64_t> left_out = expected_is_whole ? std::nullopt : poison_bits;
  const double reference_max = tolerance.catastrophic_bound > 0 ? LargestMagnitude(type, expected, left_out) : 0;
  Comparison comparison(type, tolerance, reference_max, expected_is_whole, &found);
  const uint64_t row_length =
      tolerance.row_length > 0 ? static_cast<uint64_t>(tolerance.row_length) : std::max<uint64_t>(found.elements, 1);
  for (uint64_t first = 0; first < found.elements; first += row_length) {
    const uint64_t end = std::min(first + row_length, found.elements);
    for (uint64_t i = first; i < end; ++i) {
      comparison.Element(i, BitsAt(actual.data() + i * size, size), BitsAt(expected.data() + i * size, size),
                         poison_bits);
    }
    comparison.EndRow(first / row_length);
  }
  return found;
}

std::vector<std::byte> ExpectedUnderSecondPoison(DataType type, std::span<const std::byte> expected, bool* ambiguous) {
  std::vector<std::byte> result(expected.begin(), expected.end());
  const size_t size = SizeOf(type);
  const uint64_t first = PoisonBits(type, PoisonPattern::kFirst);
  const uint64_t second = PoisonBits(type, PoisonPattern::kSecond);
  for (size_t offset = 0; offset + size <= result.size(); offset += size) {
    if (BitsAt(result.data() + offset, size) != first) continue;
    if (MayEqualPoison(type)) *ambiguous = true;
    std::memcpy(result.data() + offset, &second, size);
  }
  return result;
}

std::optional<double> PassingConstant(DataType type, std::span<const std::byte> expected,
                                      std::optional<PoisonPattern> poison, const TolerancePlan& tolerance) {
  constexpr size_t kElementsMin = 16, kElementsMax = 1 << 20;
  if (tolerance.row_norm_bound > 0) return std::nullopt;
  const size_t size = SizeOf(type);
  std::optional<uint64_t> poison_bits;
  if (poison) poison_bits = PoisonBits(type, *poison);
  double low = -HUGE_VAL, high = HUGE_VAL;  // what every element so far allows
  size_t written = 0;
  for (size_t i = 0; i < std::min(expected.size() / size, kElementsMax) && low <= high; ++i) {
    const uint64_t bits = BitsAt(expected.data() + i * size, size);
    if (poison_bits && bits == *poison_bits) continue;
    const double ref = tunefarm_double_of_element(bits, static_cast<int>(type));
    if (!std::isfinite(ref)) return std::nullopt;
    const double allowed = tolerance.atol + (IsFloatType(type) ? tolerance.rtol * std::fabs(ref) : 0);
    low = std::max(low, ref - allowed);
    high = std::min(high, ref + allowed);
    ++written;
  }
  if (written < kElementsMin || low > high) return std::nullopt;
  return low / 2 + high / 2;
}

std::string ConstantNote(std::string_view buffer, double constant) {
  return fmt::format(
      "The comparison says little: {:.6g} in every element of {} would pass, since the reference varies by "
      "no more than the tolerance.",
      constant, buffer);
}

Verdict Judge(const std::vector<BufferComparison>& comparisons, const TolerancePlan& tolerance) {
  Verdict verdict;
  v1::Verification& summary = verdict.verification;
  for (const BufferComparison& comparison : comparisons) {
    summary.set_elements(summary.elements() + comparison.elements);
    summary.set_mismatches(summary.mismatches() + comparison.mismatches);
    summary.set_max_absolute_error(std::max(summary.max_absolute_error(), comparison.max_absolute_error));
    summary.set_max_relative_error(std::max(summary.max_relative_error(), comparison.max_relative_error));
    for (const ElementMismatch& mismatch : comparison.first) {
      if (summary.first_mismatches_size() >= static_cast<int>(kFirstMismatchesMax)) break;
      v1::Mismatch* reported = summary.add_first_mismatches();
      reported->set_buffer(comparison.buffer);
      reported->set_index(mismatch.index);
      reported->set_actual(mismatch.actual);
      reported->set_expected(mismatch.expected);
    }
    if (!verdict.passed) continue;
    verdict.message = FailureText(comparison, tolerance);
    verdict.passed = verdict.message.empty();
  }
  return verdict;
}

}  // namespace tunefarm
