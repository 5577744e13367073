// The Python that tuning files carry as text: `Values`, `Conditions`, sizes and generators are expressions that other
// tools hand to eval(). Here they are read by a small parser of Python's expressions, evaluated with bounded steps and
// memory, or written again in the expression language of definitions (server/expression/expression.h) or in C++.
// Nothing is executed but arithmetic on numbers, strings and lists.
//
//   literals       12  0x1f  1_000  2.5  1e-3  True  False  'text'  [1, 2]  (1, 2)
//   operators      or and not  < <= > >= == != in "not in" (chained)  + - * / // % ** unary + -  << >> & | ^ ~
//                  a if c else b   x[i]   lists: + * and slices are not needed and refused
//   comprehensions [e for x in list if c], also nested and as the one argument of a function
//   functions      range list tuple len min max sum prod all any abs int float bool round pow sorted set
//                  and, bare or behind math. or np.: ceil floor sqrt log log2 exp sin cos prod
//
// Values are Python's, but for ints outside 64 bits, which are errors. Errors are InvalidArgument and begin with
// "column N: ", bytes counted from 1; PythonColumn reads it back.
//
// Threads: a PythonText never changes; const use from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm::interchange {

inline constexpr int kPythonTextMax = 64 * 1024;
inline constexpr int kPythonDepthMax = 64;
inline constexpr int kPythonListMax = 65'536;          // elements of one list
inline constexpr int kPythonNestingMax = 3;            // of lists in lists
inline constexpr size_t kPythonStringMax = 256;        // bytes
inline constexpr int64_t kPythonStepsMax = 1'000'000;  // nodes visited by one evaluation

class PythonValue {
 public:
  using List = std::vector<PythonValue>;
  enum class Kind { kBool, kInt, kFloat, kString, kList };

  PythonValue() : data_(int64_t{0}) {}
  explicit PythonValue(bool value) : data_(value) {}
  explicit PythonValue(int64_t value) : data_(value) {}
  explicit PythonValue(double value) : data_(value) {}
  explicit PythonValue(std::string value) : data_(std::move(value)) {}
  explicit PythonValue(List list) {
    for (const PythonValue& value : list) nesting_ = value.nesting_ > nesting_ ? value.nesting_ : nesting_;
    ++nesting_;
    data_ = std::make_shared<const List>(std::move(list));
  }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_float() const { return kind() == Kind::kFloat; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_integral() const { return kind() == Kind::kInt || kind() == Kind::kBool; }
  bool is_number() const { return is_integral() || is_float(); }
  // Each requires the kind it names; integral() takes bools, number() all numbers.
  int64_t integral() const { return is_bool() ? int64_t{*std::get_if<bool>(&data_)} : *std::get_if<int64_t>(&data_); }
  double number() const { return is_float() ? *std::get_if<double>(&data_) : static_cast<double>(integral()); }
  const std::string& text() const { return *std::get_if<std::string>(&data_); }
  const List& list() const { return **std::get_if<std::shared_ptr<const List>>(&data_); }
  // 0 for scalars, 1 for a list of them, ...
  int nesting() const { return nesting_; }
  bool Truth() const;
  // "int", "list", ...
  std::string_view KindName() const;
  // As the expression language reads it; lists in brackets.
  std::string ToLiteral() const;

 private:
  std::variant<bool, int64_t, double, std::string, std::shared_ptr<const List>> data_;
  int nesting_ = 0;
};

using PythonNames = std::map<std::string, PythonValue, std::less<>>;

// What names mean where a text is written in another language.
struct PythonTranslation {
  // Names that stay names; the second is what is written for the first.
  std::map<std::string, std::string, std::less<>> variables;
  // Names with a value that is put in their place. A list may be indexed and handed to functions.
  PythonNames constants;
  // For an element of a list that shall stay symbolic: {"ProblemSize", {"problem_size_x"}} writes problem_size_x for
  // ProblemSize[0].
  std::map<std::string, std::vector<std::string>, std::less<>> elements;
};

struct PythonNode;

class PythonText {
 public:
  static absl::StatusOr<PythonText> Parse(std::string_view text);

  absl::StatusOr<PythonValue> Evaluate(const PythonNames& names) const;

  // In the expression language, or an error that says what has no counterpart there.
  absl::StatusOr<std::string> ToExpression(const PythonTranslation& translation) const;

  // As a C++ expression over doubles with Python's meaning of // and %. It may call floor and the functions of
  // <math.h>.
  absl::StatusOr<std::string> ToCxx(const PythonTranslation& translation) const;

  // Names that are not bound by a comprehension inside, without functions that are called; sorted.
  std::vector<std::string> Names() const;
  const std::string& text() const { return text_; }

 private:
  PythonText(std::string text, std::shared_ptr<const PythonNode> root)
      : text_(std::move(text)), root_(std::move(root)) {}
  std::string text_;
  std::shared_ptr<const PythonNode> root_;
};

// InvalidArgument "column N: message".
absl::Status PythonError(int column, std::string_view message);
// The column of such an error, 0 if it has none; and the message without it.
int PythonColumn(const absl::Status& status);
std::string PythonMessage(const absl::Status& status);

}  // namespace tunefarm::interchange
