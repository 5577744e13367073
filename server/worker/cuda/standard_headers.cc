#include "server/worker/cuda/standard_headers.h"

#include <fmt/core.h>

#include <string_view>

#include "server/base/hash.h"

namespace tunefarm::cuda {
namespace {

// With the types of libcu++, which may be included beside it.
constexpr const char* kStdint = R"(#pragma once
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int8_t int_fast8_t;
typedef int16_t int_fast16_t;
typedef int32_t int_fast32_t;
typedef int64_t int_fast64_t;
typedef uint8_t uint_fast8_t;
typedef uint16_t uint_fast16_t;
typedef uint32_t uint_fast32_t;
typedef uint64_t uint_fast64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#ifndef INT8_MAX
#define INT8_MIN (-128)
#define INT16_MIN (-32767 - 1)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define SIZE_MAX UINT64_MAX
#define INT8_C(x) x
#define INT16_C(x) x
#define INT32_C(x) x
#define INT64_C(x) x##LL
#define UINT8_C(x) x
#define UINT16_C(x) x
#define UINT32_C(x) x##U
#define UINT64_C(x) x##ULL
#define INTMAX_C(x) x##LL
#define UINTMAX_C(x) x##ULL
#endif
)";

constexpr const char* kCstdint = R"(#pragma once
#include <stdint.h>
namespace std {
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::int_fast8_t;
using ::int_fast16_t;
using ::int_fast32_t;
using ::int_fast64_t;
using ::uint_fast8_t;
using ::uint_fast16_t;
using ::uint_fast32_t;
using ::uint_fast64_t;
using ::int_least8_t;
using ::int_least16_t;
using ::int_least32_t;
using ::int_least64_t;
using ::uint_least8_t;
using ::uint_least16_t;
using ::uint_least32_t;
using ::uint_least64_t;
using ::intptr_t;
using ::uintptr_t;
using ::intmax_t;
using ::uintmax_t;
}
)";

constexpr const char* kStddef = R"(#pragma once
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
)";

constexpr const char* kCstddef = R"(#pragma once
#include <stddef.h>
namespace std {
using ::size_t;
using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
enum class byte : unsigned char {};
}
)";

constexpr const char* kLimits = R"(#pragma once
#ifndef INT_MAX
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32767 - 1)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
#endif
)";

constexpr const char* kFloat = R"(#pragma once
#ifndef FLT_MAX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define DBL_MANT_DIG 53
#define FLT_DIG 6
#define DBL_DIG 15
#define FLT_MIN_EXP (-125)
#define DBL_MIN_EXP (-1021)
#define FLT_MAX_EXP 128
#define DBL_MAX_EXP 1024
#define FLT_EPSILON 1.1920928955078125e-7f
#define DBL_EPSILON 2.2204460492503131e-16
#define FLT_MIN 1.17549435082228751e-38f
#define DBL_MIN 2.2250738585072014e-308
#define FLT_TRUE_MIN 1.40129846432481707e-45f
#define DBL_TRUE_MIN 4.9406564584124654e-324
#define FLT_MAX 3.40282346638528860e+38f
#define DBL_MAX 1.7976931348623157e+308
#endif
)";

// The functions are NVRTC's own.
constexpr const char* kMath = R"(#pragma once
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#ifndef HUGE_VAL
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000LL)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
)";

constexpr const char* kMathFunctions[] = {
    "abs",      "acos",   "acosh",   "asin",   "asinh",     "atan",      "atan2", "atanh",     "cbrt",     "ceil",
    "copysign", "cos",    "cosh",    "erf",    "erfc",      "exp",       "exp2",  "expm1",     "fabs",     "fdim",
    "floor",    "fma",    "fmax",    "fmin",   "fmod",      "frexp",     "hypot", "ilogb",     "isfinite", "isinf",
    "isnan",    "ldexp",  "lgamma",  "llrint", "llround",   "log",       "log10", "log1p",     "log2",     "logb",
    "lrint",    "lround", "modf",    "nan",    "nearbyint", "nextafter", "pow",   "remainder", "remquo",   "rint",
    "round",    "scalbn", "signbit", "sin",    "sinh",      "sqrt",      "tan",   "tanh",      "tgamma",   "trunc"};

constexpr const char* kTypeTraits = R"(#pragma once
namespace std {
template <class Type, Type kValue>
struct integral_constant {
  static constexpr Type value = kValue;
  typedef Type value_type;
  typedef integral_constant type;
  constexpr operator value_type() const noexcept { return value; }
  constexpr value_type operator()() const noexcept { return value; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool kValue>
using bool_constant = integral_constant<bool, kValue>;
template <bool, class, class Else>
struct conditional { typedef Else type; };
template <class Then, class Else>
struct conditional<true, Then, Else> { typedef Then type; };
template <bool kIf, class Then, class Else>
using conditional_t = typename conditional<kIf, Then, Else>::type;
template <bool, class = void>
struct enable_if {};
template <class Type>
struct enable_if<true, Type> { typedef Type type; };
template <bool kIf, class Type = void>
using enable_if_t = typename enable_if<kIf, Type>::type;
template <class...>
using void_t = void;
template <class Type>
struct type_identity { typedef Type type; };
template <class Type>
using type_identity_t = typename type_identity<Type>::type;

template <class, class>
struct is_same : false_type {};
template <class Type>
struct is_same<Type, Type> : true_type {};
template <class Type>
struct remove_const { typedef Type type; };
template <class Type>
struct remove_const<const Type> { typedef Type type; };
template <class Type>
struct remove_volatile { typedef Type type; };
template <class Type>
struct remove_volatile<volatile Type> { typedef Type type; };
template <class Type>
struct remove_cv { typedef typename remove_const<typename remove_volatile<Type>::type>::type type; };
template <class Type>
struct remove_reference { typedef Type type; };
template <class Type>
struct remove_reference<Type&> { typedef Type type; };
template <class Type>
struct remove_reference<Type&&> { typedef Type type; };
template <class Type>
struct remove_cvref { typedef typename remove_cv<typename remove_reference<Type>::type>::type type; };
template <class Type>
struct remove_extent { typedef Type type; };
template <class Type>
struct remove_extent<Type[]> { typedef Type type; };
template <class Type, decltype(sizeof(0)) kSize>
struct remove_extent<Type[kSize]> { typedef Type type; };
namespace tunefarm_detail {
template <class Type>
struct remove_pointer { typedef Type type; };
template <class Type>
struct remove_pointer<Type*> { typedef Type type; };
}
template <class Type>
struct remove_pointer : tunefarm_detail::remove_pointer<typename remove_cv<Type>::type> {};
template <class Type>
struct add_const { typedef const Type type; };
template <class Type>
struct add_pointer { typedef typename remove_reference<Type>::type* type; };
template <class Type>
using remove_const_t = typename remove_const<Type>::type;
template <class Type>
using remove_volatile_t = typename remove_volatile<Type>::type;
template <class Type>
using remove_cv_t = typename remove_cv<Type>::type;
template <class Type>
using remove_reference_t = typename remove_reference<Type>::type;
template <class Type>
using remove_cvref_t = typename remove_cvref<Type>::type;
template <class Type>
using remove_extent_t = typename remove_extent<Type>::type;
template <class Type>
using remove_pointer_t = typename remove_pointer<Type>::type;
template <class Type>
using add_const_t = typename add_const<Type>::type;
template <class Type>
using add_pointer_t = typename add_pointer<Type>::type;

namespace tunefarm_detail {
template <class>
struct is_integral : false_type {};
template <> struct is_integral<bool> : true_type {};
template <> struct is_integral<char> : true_type {};
template <> struct is_integral<signed char> : true_type {};
template <> struct is_integral<unsigned char> : true_type {};
template <> struct is_integral<wchar_t> : true_type {};
template <> struct is_integral<char16_t> : true_type {};
template <> struct is_integral<char32_t> : true_type {};
template <> struct is_integral<short> : true_type {};
template <> struct is_integral<unsigned short> : true_type {};
template <> struct is_integral<int> : true_type {};
template <> struct is_integral<unsigned int> : true_type {};
template <> struct is_integral<long> : true_type {};
template <> struct is_integral<unsigned long> : true_type {};
template <> struct is_integral<long long> : true_type {};
template <> struct is_integral<unsigned long long> : true_type {};
template <class>
struct is_floating_point : false_type {};
template <> struct is_floating_point<float> : true_type {};
template <> struct is_floating_point<double> : true_type {};
template <class>
struct is_pointer : false_type {};
template <class Type>
struct is_pointer<Type*> : true_type {};
template <class Type, bool = is_integral<Type>::value || is_floating_point<Type>::value>
struct is_signed : bool_constant<(Type(-1) < Type(0))> {};
template <class Type>
struct is_signed<Type, false> : false_type {};
}
template <class Type>
struct is_integral : tunefarm_detail::is_integral<remove_cv_t<Type>> {};
template <class Type>
struct is_floating_point : tunefarm_detail::is_floating_point<remove_cv_t<Type>> {};
template <class Type>
struct is_arithmetic : bool_constant<is_integral<Type>::value || is_floating_point<Type>::value> {};
template <class Type>
struct is_signed : tunefarm_detail::is_signed<remove_cv_t<Type>> {};
template <class Type>
struct is_unsigned : bool_constant<is_arithmetic<Type>::value && !is_signed<Type>::value> {};
template <class Type>
struct is_pointer : tunefarm_detail::is_pointer<remove_cv_t<Type>> {};
template <class Type>
struct is_void : is_same<remove_cv_t<Type>, void> {};
template <class Type>
struct is_const : false_type {};
template <class Type>
struct is_const<const Type> : true_type {};
template <class Type>
struct is_reference : false_type {};
template <class Type>
struct is_reference<Type&> : true_type {};
template <class Type>
struct is_reference<Type&&> : true_type {};
template <class Type>
struct is_lvalue_reference : false_type {};
template <class Type>
struct is_lvalue_reference<Type&> : true_type {};
template <class Type>
struct is_array : false_type {};
template <class Type>
struct is_array<Type[]> : true_type {};
template <class Type, decltype(sizeof(0)) kSize>
struct is_array<Type[kSize]> : true_type {};
template <class Type>
struct is_enum : bool_constant<__is_enum(Type)> {};
template <class Type>
struct is_class : bool_constant<__is_class(Type)> {};
template <class Type>
struct is_trivially_copyable : bool_constant<__is_trivially_copyable(Type)> {};
template <class Base, class Derived>
struct is_base_of : bool_constant<__is_base_of(Base, Derived)> {};
template <class From, class To>
struct is_convertible : bool_constant<__is_convertible_to(From, To)> {};
template <class Type, class... Arguments>
struct is_constructible : bool_constant<__is_constructible(Type, Arguments...)> {};
template <class Type>
struct underlying_type { typedef __underlying_type(Type) type; };
template <class Type>
using underlying_type_t = typename underlying_type<Type>::type;
template <class Type>
struct decay {
  typedef remove_reference_t<Type> Bare;
  typedef conditional_t<is_array<Bare>::value, remove_extent_t<Bare>*, remove_cv_t<Bare>> type;
};
template <class Type>
using decay_t = typename decay<Type>::type;
template <class Type>
struct make_unsigned { typedef Type type; };
template <> struct make_unsigned<char> { typedef unsigned char type; };
template <> struct make_unsigned<signed char> { typedef unsigned char type; };
template <> struct make_unsigned<short> { typedef unsigned short type; };
template <> struct make_unsigned<int> { typedef unsigned int type; };
template <> struct make_unsigned<long> { typedef unsigned long type; };
template <> struct make_unsigned<long long> { typedef unsigned long long type; };
template <class Type>
using make_unsigned_t = typename make_unsigned<Type>::type;
template <class Type>
struct make_signed { typedef Type type; };
template <> struct make_signed<char> { typedef signed char type; };
template <> struct make_signed<unsigned char> { typedef signed char type; };
template <> struct make_signed<unsigned short> { typedef short type; };
template <> struct make_signed<unsigned int> { typedef int type; };
template <> struct make_signed<unsigned long> { typedef long type; };
template <> struct make_signed<unsigned long long> { typedef long long type; };
template <class Type>
using make_signed_t = typename make_signed<Type>::type;
#if __cplusplus >= 201402L
template <class Left, class Right>
constexpr bool is_same_v = is_same<Left, Right>::value;
template <class Type>
constexpr bool is_integral_v = is_integral<Type>::value;
template <class Type>
constexpr bool is_floating_point_v = is_floating_point<Type>::value;
template <class Type>
constexpr bool is_arithmetic_v = is_arithmetic<Type>::value;
template <class Type>
constexpr bool is_signed_v = is_signed<Type>::value;
template <class Type>
constexpr bool is_unsigned_v = is_unsigned<Type>::value;
template <class Type>
constexpr bool is_pointer_v = is_pointer<Type>::value;
template <class Type>
constexpr bool is_void_v = is_void<Type>::value;
template <class Type>
constexpr bool is_const_v = is_const<Type>::value;
template <class Type>
constexpr bool is_reference_v = is_reference<Type>::value;
template <class Type>
constexpr bool is_enum_v = is_enum<Type>::value;
template <class Type>
constexpr bool is_class_v = is_class<Type>::value;
template <class Type>
constexpr bool is_array_v = is_array<Type>::value;
template <class Type>
constexpr bool is_trivially_copyable_v = is_trivially_copyable<Type>::value;
template <class Base, class Derived>
constexpr bool is_base_of_v = is_base_of<Base, Derived>::value;
template <class From, class To>
constexpr bool is_convertible_v = is_convertible<From, To>::value;
template <class Type, class... Arguments>
constexpr bool is_constructible_v = is_constructible<Type, Arguments...>::value;
#endif
}
)";

constexpr const char* kNumericLimits = R"(#pragma once
#include <float.h>
#include <limits.h>
namespace std {
template <class>
struct numeric_limits {
  static constexpr bool is_specialized = false;
};
namespace tunefarm_detail {
template <class Type, Type kMin, Type kMax, int kDigits>
struct integer_limits {
  static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false;
  static constexpr bool is_signed = Type(-1) < Type(0);
  static constexpr int digits = kDigits, radix = 2;
  static constexpr Type min() noexcept { return kMin; }
  static constexpr Type lowest() noexcept { return kMin; }
  static constexpr Type max() noexcept { return kMax; }
  static constexpr Type epsilon() noexcept { return 0; }
};
}
template <> struct numeric_limits<bool> : tunefarm_detail::integer_limits<bool, false, true, 1> {};
template <> struct numeric_limits<char> : tunefarm_detail::integer_limits<char, CHAR_MIN, CHAR_MAX, 7> {};
template <>
struct numeric_limits<signed char> : tunefarm_detail::integer_limits<signed char, SCHAR_MIN, SCHAR_MAX, 7> {};
template <> struct numeric_limits<unsigned char> : tunefarm_detail::integer_limits<unsigned char, 0, UCHAR_MAX, 8> {};
template <> struct numeric_limits<short> : tunefarm_detail::integer_limits<short, SHRT_MIN, SHRT_MAX, 15> {};
template <>
struct numeric_limits<unsigned short> : tunefarm_detail::integer_limits<unsigned short, 0, USHRT_MAX, 16> {};
template <> struct numeric_limits<int> : tunefarm_detail::integer_limits<int, INT_MIN, INT_MAX, 31> {};
template <> struct numeric_limits<unsigned int> : tunefarm_detail::integer_limits<unsigned int, 0, UINT_MAX, 32> {};
template <> struct numeric_limits<long> : tunefarm_detail::integer_limits<long, LONG_MIN, LONG_MAX, 63> {};
template <> struct numeric_limits<unsigned long> : tunefarm_detail::integer_limits<unsigned long, 0, ULONG_MAX, 64> {};
template <> struct numeric_limits<long long> : tunefarm_detail::integer_limits<long long, LLONG_MIN, LLONG_MAX, 63> {};
template <>
struct numeric_limits<unsigned long long> : tunefarm_detail::integer_limits<unsigned long long, 0, ULLONG_MAX, 64> {};
template <>
struct numeric_limits<float> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, has_infinity = true;
  static constexpr bool is_signed = true;
  static constexpr int digits = FLT_MANT_DIG, digits10 = FLT_DIG, radix = 2;
  static constexpr float min() noexcept { return FLT_MIN; }
  static constexpr float lowest() noexcept { return -FLT_MAX; }
  static constexpr float max() noexcept { return FLT_MAX; }
  static constexpr float epsilon() noexcept { return FLT_EPSILON; }
  static constexpr float denorm_min() noexcept { return FLT_TRUE_MIN; }
  static constexpr float infinity() noexcept { return __builtin_bit_cast(float, 0x7f800000); }
  static constexpr float quiet_NaN() noexcept { return __builtin_bit_cast(float, 0x7fffffff); }
};
template <>
struct numeric_limits<double> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, has_infinity = true;
  static constexpr bool is_signed = true;
  static constexpr int digits = DBL_MANT_DIG, digits10 = DBL_DIG, radix = 2;
  static constexpr double min() noexcept { return DBL_MIN; }
  static constexpr double lowest() noexcept { return -DBL_MAX; }
  static constexpr double max() noexcept { return DBL_MAX; }
  static constexpr double epsilon() noexcept { return DBL_EPSILON; }
  static constexpr double denorm_min() noexcept { return DBL_TRUE_MIN; }
  static constexpr double infinity() noexcept { return __builtin_bit_cast(double, 0x7ff0000000000000LL); }
  static constexpr double quiet_NaN() noexcept { return __builtin_bit_cast(double, 0x7fffffffffffffffLL); }
};
}
)";

constexpr const char* kUtility = R"(#pragma once
#include <type_traits>
namespace std {
template <class Type>
Type&& declval() noexcept;
template <class Type>
constexpr void swap(Type& left, Type& right) {
  Type kept = static_cast<Type&&>(left);
  left = static_cast<Type&&>(right);
  right = static_cast<Type&&>(kept);
}
template <class Type, class Other = Type>
constexpr Type exchange(Type& object, Other&& value) {
  Type old = static_cast<Type&&>(object);
  object = static_cast<Other&&>(value);
  return old;
}
template <class First, class Second>
struct pair {
  First first;
  Second second;
};
template <class First, class Second>
constexpr pair<decay_t<First>, decay_t<Second>> make_pair(First&& first, Second&& second) {
  return {static_cast<First&&>(first), static_cast<Second&&>(second)};
}
template <class Type, Type... kValues>
struct integer_sequence {
  typedef Type value_type;
  static constexpr decltype(sizeof(0)) size() noexcept { return sizeof...(kValues); }
};
template <decltype(sizeof(0))... kValues>
using index_sequence = integer_sequence<decltype(sizeof(0)), kValues...>;
namespace tunefarm_detail {
template <class Type, decltype(sizeof(0)) kLeft, Type... kValues>
struct sequence : sequence<Type, kLeft - 1, Type(kLeft - 1), kValues...> {};
template <class Type, Type... kValues>
struct sequence<Type, 0, kValues...> { typedef integer_sequence<Type, kValues...> type; };
}
template <class Type, Type kSize>
using make_integer_sequence = typename tunefarm_detail::sequence<Type, kSize>::type;
template <decltype(sizeof(0)) kSize>
using make_index_sequence = make_integer_sequence<decltype(sizeof(0)), kSize>;
}
)";

constexpr const char* kAlgorithm = R"(#pragma once
#include <utility>
namespace std {
template <class Type>
constexpr const Type& min(const Type& left, const Type& right) { return right < left ? right : left; }
template <class Type>
constexpr const Type& max(const Type& left, const Type& right) { return left < right ? right : left; }
template <class Type>
constexpr const Type& clamp(const Type& value, const Type& low, const Type& high) {
  return value < low ? low : high < value ? high : value;
}
}
)";

constexpr const char* kArray = R"(#pragma once
namespace std {
template <class Type, decltype(sizeof(0)) kSize>
struct array {
  typedef Type value_type;
  Type elements_[kSize];
  constexpr Type& operator[](decltype(sizeof(0)) i) { return elements_[i]; }
  constexpr const Type& operator[](decltype(sizeof(0)) i) const { return elements_[i]; }
  constexpr Type* data() { return elements_; }
  constexpr const Type* data() const { return elements_; }
  constexpr Type* begin() { return elements_; }
  constexpr const Type* begin() const { return elements_; }
  constexpr Type* end() { return elements_ + kSize; }
  constexpr const Type* end() const { return elements_ + kSize; }
  constexpr decltype(sizeof(0)) size() const { return kSize; }
};
}
)";

// Headers of which NVRTC itself has all that works on a device.
constexpr const char* kBuiltIn[] = {"assert.h", "cassert", "stdio.h", "cstdio", "stdbool.h", "initializer_list", "new"};

// Headers whose functions on a device are few.
constexpr const char* kMemory = "#pragma once\n#include <stddef.h>\n";
constexpr const char* kCstring = R"(#pragma once
#include <cstddef>
namespace std {
using ::memcpy;
using ::memset;
}
)";
constexpr const char* kCstdlib = R"(#pragma once
#include <cstddef>
namespace std {
using ::abs;
using ::free;
using ::malloc;
}
)";

// Headers that are libcu++'s, where the toolkit has it.
constexpr const char* kLibcuxx[] = {"bit", "complex", "concepts", "functional", "numeric", "ratio", "tuple"};

std::vector<std::pair<std::string, std::string>> MakeHeaders() {
  std::string cmath = "#pragma once\n#include <math.h>\nnamespace std {\n";
  for (const char* function : kMathFunctions) cmath += fmt::format("using ::{};\n", function);
  cmath += "}\n";
  std::vector<std::pair<std::string, std::string>> headers = {
      {"algorithm", kAlgorithm},
      {"array", kArray},
      {"cfloat", "#pragma once\n#include <float.h>\n"},
      {"cinttypes", "#pragma once\n#include <cstdint>\n"},
      {"climits", "#pragma once\n#include <limits.h>\n"},
      {"cmath", std::move(cmath)},
      {"cstddef", kCstddef},
      {"cstdint", kCstdint},
      {"cstdlib", kCstdlib},
      {"cstring", kCstring},
      {"float.h", kFloat},
      {"inttypes.h", "#pragma once\n#include <stdint.h>\n"},
      {"limits", kNumericLimits},
      {"limits.h", kLimits},
      {"math.h", kMath},
      {"stddef.h", kStddef},
      {"stdint.h", kStdint},
      {"stdlib.h", kMemory},
      {"string.h", kMemory},
      {"type_traits", kTypeTraits},
      {"utility", kUtility},
  };
  for (const char* name : kBuiltIn) headers.emplace_back(name, "#pragma once\n");
  for (const char* name : kLibcuxx) {
    headers.emplace_back(name, fmt::format("#pragma once\n"
                                           "#if !__has_include(<cuda/std/{0}>)\n"
                                           "#error \"<{0}> needs the toolkit's <cuda/std/{0}>, which is not there\"\n"
                                           "#endif\n"
                                           "#include <cuda/std/{0}>\n"
                                           "namespace std {{\nusing namespace ::cuda::std;\n}}\n",
                                           name));
  }
  return headers;
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& StandardHeaders() {
  static const auto* const headers = new std::vector<std::pair<std::string, std::string>>(MakeHeaders());
  return *headers;
}

uint32_t StandardHeadersVersion() {
  std::string all;
  for (const auto& [name, content] : StandardHeaders()) all += fmt::format("{}\n{}\n", name, content);
  return static_cast<uint32_t>(Xxh3(all));
}

}  // namespace tunefarm::cuda
