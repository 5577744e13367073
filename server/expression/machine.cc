// Arithmetic with Python's rules. Where Python's own source decides a corner (signs of floored floats, true division of
// large ints, comparison of an int with a float), the rule is stated here and held by a differential test against
// python3.
#include "server/expression/machine.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tunefarm::expression {
namespace {

// The largest ints that are doubles without rounding.
constexpr int64_t kExactDouble = int64_t{1} << 53;

std::string_view TextOf(const Cell& cell) { return {cell.string_value, cell.string_bytes}; }

double ToDouble(const Cell& cell) {
  return cell.type == ValueType::kFloat ? cell.float_value : static_cast<double>(cell.int_value);
}

// a / b rounded once, as Python does for ints of any size.
double TrueDivide(int64_t a, int64_t b) {
  if (a >= -kExactDouble && a <= kExactDouble && b >= -kExactDouble && b <= kExactDouble) {
    return static_cast<double>(a) / static_cast<double>(b);
  }
  const bool is_negative = (a < 0) != (b < 0);
  const uint64_t x = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  const uint64_t y = b < 0 ? -static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  if (x == 0) return is_negative ? -0.0 : 0.0;
  const int bits_x = 64 - __builtin_clzll(x);
  const int bits_y = 64 - __builtin_clzll(y);
  // Enough shift for a quotient of at least 55 bits: 53 that stay, one to round, and the sticky one set below.
  const int shift = bits_x - bits_y >= 55 ? 0 : 55 + bits_y - bits_x;
  const unsigned __int128 numerator = static_cast<unsigned __int128>(x) << shift;
  uint64_t quotient = static_cast<uint64_t>(numerator / y);
  if (numerator % y != 0) quotient |= 1;
  const double result = std::ldexp(static_cast<double>(quotient), -shift);
  return is_negative ? -result : result;
}

// Python's float divmod: the remainder has the sign of the divisor, the quotient is whole.
void FloatDivmod(double a, double b, double* quotient, double* remainder) {
  double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) {
      mod += b;
      div -= 1.0;
    }
  } else {
    mod = std::copysign(0.0, b);
  }
  if (div != 0) {
    double whole = std::floor(div);
    if (div - whole > 0.5) whole += 1.0;
    div = whole;
  } else {
    div = std::copysign(0.0, a / b);
  }
  *quotient = div;
  *remainder = mod;
}

// -1, 0, 1 for a < b, a == b, a > b, without rounding the int; 2 when b is NaN.
int CompareIntFloat(int64_t a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 9223372036854775808.0) return -1;
  if (b < -9223372036854775808.0) return 1;
  const double whole = std::trunc(b);
  const int64_t as_int = static_cast<int64_t>(whole);
  if (a != as_int) return a < as_int ? -1 : 1;
  if (b == whole) return 0;
  return b > whole ? -1 : 1;
}

int CompareFloats(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : (a > b ? 1 : 0);
}

// As above, for any two numbers.
int CompareNumbers(const Cell& a, const Cell& b) {
  if (a.is_integral() && b.is_integral()) return a.int_value < b.int_value ? -1 : (a.int_value > b.int_value ? 1 : 0);
  if (a.is_integral()) return CompareIntFloat(a.int_value, b.float_value);
  if (b.is_integral()) {
    const int reversed = CompareIntFloat(b.int_value, a.float_value);
    return reversed == 2 ? 2 : -reversed;
  }
  return CompareFloats(a.float_value, b.float_value);
}

bool Decide(Op op, int order) {
  switch (op) {
    case Op::kEqual:
      return order == 0;
    case Op::kNotEqual:
      return order != 0;
    case Op::kLess:
      return order == -1;
    case Op::kLessEqual:
      return order == -1 || order == 0;
    case Op::kGreater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

Fault Compare(Op op, const Cell& a, const Cell& b, bool* out) {
  const bool a_is_string = a.type == ValueType::kString;
  const bool b_is_string = b.type == ValueType::kString;
  if (a_is_string && b_is_string) {
    // Bytes of UTF-8 order as their code points do, which is Python's order.
    const int order = TextOf(a).compare(TextOf(b));
    *out = Decide(op, order < 0 ? -1 : (order > 0 ? 1 : 0));
    return Fault::kNone;
  }
  if (a_is_string || b_is_string) {
    if (op != Op::kEqual && op != Op::kNotEqual) return Fault::kType;
    *out = op == Op::kNotEqual;
    return Fault::kNone;
  }
  *out = Decide(op, CompareNumbers(a, b));
  return Fault::kNone;
}

Fault FloatPower(double a, double b, Cell* out) {
  if (a == 0 && b < 0) return Fault::kDivisionByZero;
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) return Fault::kDomain;
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) return Fault::kOverflow;
  *out = Cell::Float(result);
  return Fault::kNone;
}

// `negated_a` is -a, with the sign of zero that the operand's own type gives it.
Fault FloatBinary(Op op, double a, double negated_a, double b, Cell* out) {
  double quotient = 0;
  double remainder = 0;
  switch (op) {
    case Op::kAdd:
      *out = Cell::Float(a + b);
      return Fault::kNone;
    case Op::kSubtract:
      *out = Cell::Float(a - b);
      return Fault::kNone;
    case Op::kMultiply:
      *out = Cell::Float(a * b);
      return Fault::kNone;
    case Op::kPower:
      return FloatPower(a, b, out);
    default:
      break;
  }
  if (b == 0) return Fault::kDivisionByZero;
  switch (op) {
    case Op::kDivide:
      *out = Cell::Float(a / b);
      return Fault::kNone;
    case Op::kFloorDivide:
      FloatDivmod(a, b, &quotient, &remainder);
      *out = Cell::Float(quotient);
      return Fault::kNone;
    case Op::kModulo:
      FloatDivmod(a, b, &quotient, &remainder);
      *out = Cell::Float(remainder);
      return Fault::kNone;
    default:
      // ceil_div and round_up, by their definitions.
      FloatDivmod(negated_a, b, &quotient, &remainder);
      *out = Cell::Float(op == Op::kCeilDiv ? -quotient : -quotient * b);
      return Fault::kNone;
  }
}

bool IntPower(int64_t base, int64_t exponent, int64_t* out) {
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return false;
    exponent >>= 1;
    if (exponent == 0) break;
    if (__builtin_mul_overflow(base, base, &base)) return false;
  }
  *out = result;
  return true;
}

// An int to a multiple of 10^-digits, halves to the even multiple.
bool RoundInt(int64_t value, int64_t digits, int64_t* out) {
  *out = value;
  if (digits >= 0 || value == 0) return true;
  *out = 0;
  if (digits < -19) return true;  // half of 10^20 is more than any int
  __int128 unit = 1;
  for (int64_t i = 0; i < -digits; ++i) unit *= 10;
  __int128 quotient = value / unit;
  const __int128 remainder = value % unit;
  const __int128 twice = 2 * (remainder < 0 ? -remainder : remainder);
  if (twice > unit || (twice == unit && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  const __int128 result = quotient * unit;
  if (result > INT64_MAX || result < INT64_MIN) return false;
  *out = static_cast<int64_t>(result);
  return true;
}

// A double to `digits` decimal places, which may be negative: its exact decimal value, halves to even, and the nearest
// double of that.
Fault RoundFloat(double value, int64_t digits, Cell* out) {
  *out = Cell::Float(value);
  // A double has at most 1,074 decimal places, and none beyond 323 can change by rounding to the nearest double.
  if (!std::isfinite(value) || value == 0 || digits > 323) return Fault::kNone;
  // All its decimal digits: a double has at most 767. printf rounds the exact value, halves to even.
  char text[800];
  std::snprintf(text, sizeof(text), "%.766e", std::fabs(value));
  const std::string_view exact = text;
  const size_t mark = exact.find('e');
  const int exponent = std::atoi(text + mark + 1);
  // So many of its digits stay.
  const int64_t kept = digits < -400 ? -1 : exponent + 1 + digits;
  double rounded = 0;
  if (kept > 0) {
    std::snprintf(text, sizeof(text), "%.*e", static_cast<int>(kept - 1), std::fabs(value));
    rounded = std::strtod(text, nullptr);
  } else if (kept == 0 && (exact[0] > '5' || (exact[0] == '5' && exact.substr(2, mark - 2).find_first_not_of('0') !=
                                                                     std::string_view::npos))) {
    // More than half of the unit, which is ten times the place of the first digit.
    std::snprintf(text, sizeof(text), "1e%d", exponent + 1);
    rounded = std::strtod(text, nullptr);
  }
  if (std::isinf(rounded)) return Fault::kOverflow;
  *out = Cell::Float(std::copysign(rounded, value));
  return Fault::kNone;
}

// Ints and bools. `**` by a negative exponent and `/` leave the ints.
Fault IntBinary(Op op, int64_t a, int64_t b, Cell* out) {
  if (op == Op::kDivide) {
    if (b == 0) return Fault::kDivisionByZero;
    *out = Cell::Float(TrueDivide(a, b));
    return Fault::kNone;
  }
  if (op == Op::kPower && b < 0) return FloatPower(static_cast<double>(a), static_cast<double>(b), out);
  int64_t result = 0;
  if (!IntegralBinary(op, a, b, &result)) {
    if ((op == Op::kShiftLeft || op == Op::kShiftRight) && b < 0) return Fault::kNegativeShift;
    const bool divides = op == Op::kFloorDivide || op == Op::kModulo || op == Op::kCeilDiv || op == Op::kRoundUp;
    return divides && b == 0 ? Fault::kDivisionByZero : Fault::kOverflow;
  }
  *out = Cell::Int(result);
  return Fault::kNone;
}

Fault FloatToInt(double value, Cell* out) {
  if (std::isnan(value)) return Fault::kDomain;
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return Fault::kOverflow;
  *out = Cell::Int(static_cast<int64_t>(value));
  return Fault::kNone;
}

Fault Log2(const Cell& a, Cell* out) {
  const double value = ToDouble(a);
  if (value <= 0 || (std::isinf(value) && value < 0)) return Fault::kDomain;
  if (a.is_integral() && (a.int_value & (a.int_value - 1)) == 0) {
    *out = Cell::Float(__builtin_ctzll(static_cast<uint64_t>(a.int_value)));
  } else {
    *out = Cell::Float(std::log2(value));
  }
  return Fault::kNone;
}

}  // namespace

bool IntegralBinary(Op op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case Op::kAdd:
      return !__builtin_add_overflow(a, b, out);
    case Op::kSubtract:
      return !__builtin_sub_overflow(a, b, out);
    case Op::kMultiply:
      return !__builtin_mul_overflow(a, b, out);
    case Op::kFloorDivide:
    case Op::kCeilDiv:
    case Op::kRoundUp: {
      if (b == 0) return false;
      if (b == -1) {
        if (op == Op::kRoundUp) {
          *out = a;
          return true;
        }
        return !__builtin_sub_overflow(int64_t{0}, a, out);
      }
      int64_t quotient = a / b;
      if (a % b != 0) {
        const bool is_negative = (a < 0) != (b < 0);
        if (op == Op::kFloorDivide && is_negative) --quotient;
        if (op != Op::kFloorDivide && !is_negative) ++quotient;
      }
      if (op == Op::kRoundUp) return !__builtin_mul_overflow(quotient, b, out);
      *out = quotient;
      return true;
    }
    case Op::kModulo: {
      if (b == 0) return false;
      int64_t remainder = b == -1 ? 0 : a % b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      *out = remainder;
      return true;
    }
    case Op::kPower:
      return b >= 0 && IntPower(a, b, out);
    case Op::kBitAnd:
      *out = a & b;
      return true;
    case Op::kBitOr:
      *out = a | b;
      return true;
    case Op::kBitXor:
      *out = a ^ b;
      return true;
    case Op::kShiftLeft:
      if (b < 0) return false;
      if (a == 0) {
        *out = 0;
        return true;
      }
      if (b >= 63) {
        *out = INT64_MIN;
        return b == 63 && a == -1;
      }
      return !__builtin_mul_overflow(a, int64_t{1} << b, out);
    case Op::kShiftRight:
      if (b < 0) return false;
      *out = a >> (b < 63 ? b : 63);
      return true;
    case Op::kRoundDigits:
      return RoundInt(a, b, out);
    case Op::kEqual:
      *out = a == b;
      return true;
    case Op::kNotEqual:
      *out = a != b;
      return true;
    case Op::kLess:
      *out = a < b;
      return true;
    case Op::kLessEqual:
      *out = a <= b;
      return true;
    case Op::kGreater:
      *out = a > b;
      return true;
    case Op::kGreaterEqual:
      *out = a >= b;
      return true;
    case Op::kMin:
      *out = b < a ? b : a;
      return true;
    case Op::kMax:
      *out = b > a ? b : a;
      return true;
    default:
      return false;
  }
}

bool IntegralUnary(Op op, int64_t a, int64_t* out) {
  switch (op) {
    case Op::kNegate:
      return !__builtin_sub_overflow(int64_t{0}, a, out);
    case Op::kAbs:
      if (a < 0) return !__builtin_sub_overflow(int64_t{0}, a, out);
      *out = a;
      return true;
    case Op::kInvert:
      *out = ~a;
      return true;
    case Op::kPlus:
    case Op::kToInt:
    case Op::kRound:
      *out = a;
      return true;
    case Op::kNot:
      *out = a == 0;
      return true;
    case Op::kToBool:
      *out = a != 0;
      return true;
    case Op::kIsPow2:
      *out = a > 0 && (a & (a - 1)) == 0;
      return true;
    default:
      return false;
  }
}

Fault Binary(Op op, const Cell& a, const Cell& b, Cell* out) {
  if (op >= Op::kEqual && op <= Op::kGreaterEqual) {
    bool result = false;
    const Fault fault = Compare(op, a, b, &result);
    if (fault == Fault::kNone) *out = Cell::Bool(result);
    return fault;
  }
  if (op == Op::kIn || op == Op::kNotIn) {
    if (a.type != ValueType::kString || b.type != ValueType::kString) return Fault::kType;
    *out = Cell::Bool((TextOf(b).find(TextOf(a)) != std::string_view::npos) == (op == Op::kIn));
    return Fault::kNone;
  }
  if (op == Op::kMin || op == Op::kMax) {
    // Python keeps the first of equals, and the operand itself (min(True, 2) is True).
    bool second_wins = false;
    const Fault fault = Compare(op == Op::kMin ? Op::kLess : Op::kGreater, b, a, &second_wins);
    if (fault == Fault::kNone) *out = second_wins ? b : a;
    return fault;
  }
  if (a.type == ValueType::kString || b.type == ValueType::kString) return Fault::kType;
  const bool is_of_bits = op >= Op::kBitAnd && op <= Op::kShiftRight;
  if (a.is_integral() && b.is_integral()) {
    const bool is_bool = is_of_bits && op <= Op::kBitXor && a.type == ValueType::kBool && b.type == ValueType::kBool;
    const Fault fault = IntBinary(op, a.int_value, b.int_value, out);
    if (fault == Fault::kNone && is_bool) *out = Cell::Bool(out->int_value != 0);
    return fault;
  }
  if (is_of_bits) return Fault::kType;
  if (op == Op::kRoundDigits) return b.is_integral() ? RoundFloat(a.float_value, b.int_value, out) : Fault::kType;
  const double x = ToDouble(a);
  return FloatBinary(op, x, a.is_integral() ? 0.0 - x : -x, ToDouble(b), out);
}

Fault Unary(Op op, const Cell& a, Cell* out) {
  if (op == Op::kNot || op == Op::kToBool) {
    *out = Cell::Bool(a.Truth() == (op == Op::kToBool));
    return Fault::kNone;
  }
  if (a.type == ValueType::kString) return Fault::kType;
  if (op == Op::kLog2) return Log2(a, out);
  if (op == Op::kToFloat) {
    *out = Cell::Float(ToDouble(a));
    return Fault::kNone;
  }
  if (a.is_integral()) {
    int64_t result = 0;
    if (!IntegralUnary(op, a.int_value, &result)) return Fault::kOverflow;
    *out = op == Op::kIsPow2 ? Cell::Bool(result != 0) : Cell::Int(result);
    return Fault::kNone;
  }
  switch (op) {
    case Op::kNegate:
      *out = Cell::Float(-a.float_value);
      return Fault::kNone;
    case Op::kPlus:
      *out = a;
      return Fault::kNone;
    case Op::kAbs:
      *out = Cell::Float(std::fabs(a.float_value));
      return Fault::kNone;
    case Op::kToInt:
      return FloatToInt(a.float_value, out);
    case Op::kRound:
      // To the nearest int, halves to the even one: the rounding mode of the process.
      return FloatToInt(std::nearbyint(a.float_value), out);
    default:
      return Fault::kType;  // is_pow2 and ~ of a float
  }
}

}  // namespace tunefarm::expression
