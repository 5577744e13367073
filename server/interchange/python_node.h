// The syntax tree of PythonText. Private to this folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/interchange/python_text.h"

namespace tunefarm::interchange {

struct PythonNode {
  enum class Kind {
    kLiteral,        // value
    kName,           // text
    kList,           // children
    kUnary,          // text is "-", "+", "~" or "not"; children[0]
    kBinary,         // text is the operator; children[0], children[1]
    kBool,           // text is "and" or "or"; two children
    kCompare,        // children[0] operators[0] children[1] operators[1] ...
    kConditional,    // children: value, condition, other value
    kCall,           // text is the function's name without its module; children: arguments
    kSubscript,      // children[0][children[1]]
    kComprehension,  // children[0] for each of `clauses`
  };
  struct Clause {
    std::vector<std::string> targets;
    std::unique_ptr<PythonNode> iterable;
    std::vector<std::unique_ptr<PythonNode>> conditions;
  };

  Kind kind = Kind::kLiteral;
  int column = 1;
  int height = 1;  // of the tree below; bounded by the parser, since trees are walked recursively
  std::string text;
  PythonValue value;
  std::vector<std::unique_ptr<PythonNode>> children;
  std::vector<std::string> operators;
  std::vector<Clause> clauses;
};

// Scalar arithmetic with Python's meaning. `column` is where an error is said to be.
absl::StatusOr<PythonValue> PythonBinary(std::string_view op, const PythonValue& a, const PythonValue& b, int column);
absl::StatusOr<bool> PythonCompare(std::string_view op, const PythonValue& a, const PythonValue& b, int column);
// A function of numbers, strings and lists; `name` without its module.
absl::StatusOr<PythonValue> PythonCall(const std::string& name, const std::vector<PythonValue>& arguments, int column);

// Evaluates a tree. `steps` counts down and bounds the work.
absl::StatusOr<PythonValue> EvaluatePython(const PythonNode& node, const PythonNames& names, int64_t* steps);

// Calls `visit` with the names that one turn of a comprehension adds to `names`, for each turn whose conditions hold.
absl::Status ForEachTurn(const PythonNode& comprehension, size_t clause, const PythonNames& names, int64_t* steps,
                         const std::function<absl::Status(const PythonNames&)>& visit);

}  // namespace tunefarm::interchange
