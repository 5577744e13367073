// A Pratt parser: one loop over binary operators by precedence, as Python's grammar orders them.
#include <fmt/core.h>

#include <array>
#include <optional>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm::expression {
namespace {

constexpr int kPrecedenceOr = 1;
constexpr int kPrecedenceAnd = 2;
constexpr int kPrecedenceNot = 3;
constexpr int kPrecedenceCompare = 4;
constexpr int kPrecedenceAdd = 5;
constexpr int kPrecedenceMultiply = 6;
constexpr int kPrecedenceUnary = 7;

constexpr std::array<FunctionSpec, 10> kFunctions = {{
    {"min", Op::kMin, 2, -1},
    {"max", Op::kMax, 2, -1},
    {"abs", Op::kAbs, 1, 1},
    {"ceil_div", Op::kCeilDiv, 2, 2},
    {"round_up", Op::kRoundUp, 2, 2},
    {"int", Op::kToInt, 1, 1},
    {"float", Op::kToFloat, 1, 1},
    {"bool", Op::kToBool, 1, 1},
    {"log2", Op::kLog2, 1, 1},
    {"is_pow2", Op::kIsPow2, 1, 1},
}};

struct BinarySpec {
  std::string_view text;
  Op op;
  int precedence;
};
constexpr std::array<BinarySpec, 6> kBinaries = {{
    {"+", Op::kAdd, kPrecedenceAdd},
    {"-", Op::kSubtract, kPrecedenceAdd},
    {"*", Op::kMultiply, kPrecedenceMultiply},
    {"/", Op::kDivide, kPrecedenceMultiply},
    {"//", Op::kFloorDivide, kPrecedenceMultiply},
    {"%", Op::kModulo, kPrecedenceMultiply},
}};

struct CompareSpec {
  std::string_view text;
  Op op;
};
constexpr std::array<CompareSpec, 6> kCompares = {{
    {"==", Op::kEqual},
    {"!=", Op::kNotEqual},
    {"<", Op::kLess},
    {"<=", Op::kLessEqual},
    {">", Op::kGreater},
    {">=", Op::kGreaterEqual},
}};

class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens) : text_(text), tokens_(std::move(tokens)) {}

  absl::StatusOr<Tree> Run() {
    if (Current().kind == TokenKind::kEnd) return ErrorAt(text_, 1, "the expression is empty");
    ASSIGN_OR_RETURN(tree_.root, ParseConditional());
    if (Current().kind != TokenKind::kEnd) return Unexpected();
    return std::move(tree_);
  }

 private:
  // Counts the nesting of one recursive call.
  class Nesting {
   public:
    explicit Nesting(int* depth) : depth_(depth) { ++*depth_; }
    ~Nesting() { --*depth_; }

   private:
    int* const depth_;
  };

  const Token& Current() const { return tokens_[next_]; }
  bool AtSymbol(std::string_view symbol) const {
    return Current().kind == TokenKind::kSymbol && Current().text == symbol;
  }
  bool AtKeyword(std::string_view word) const {
    return Current().kind == TokenKind::kKeyword && Current().text == word;
  }
  bool TakeSymbol(std::string_view symbol) {
    if (!AtSymbol(symbol)) return false;
    ++next_;
    return true;
  }
  bool TakeKeyword(std::string_view word) {
    if (!AtKeyword(word)) return false;
    ++next_;
    return true;
  }

  absl::Status Unexpected() const {
    const Token& token = Current();
    switch (token.kind) {
      case TokenKind::kEnd:
        return ErrorAt(text_, token.column, "the expression ends too early; a value is missing here");
      case TokenKind::kString:
        return ErrorAt(text_, token.column, "unexpected string");
      case TokenKind::kInt:
      case TokenKind::kIntMinMagnitude:
      case TokenKind::kFloat:
        return ErrorAt(text_, token.column, "unexpected number");
      default:
        return ErrorAt(text_, token.column, fmt::format("unexpected '{}'", token.text));
    }
  }

  absl::Status CheckDepth() const {
    if (depth_ <= kExpressionDepthMax) return absl::OkStatus();
    return ErrorAt(text_, Current().column, fmt::format("more than {} levels of nesting", kExpressionDepthMax));
  }

  absl::StatusOr<int> Add(Node node) {
    if (tree_.nodes.size() >= kExpressionNodesMax) {
      return ErrorAt(text_, node.column, fmt::format("more than {} operators and operands", kExpressionNodesMax));
    }
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  absl::StatusOr<int> AddOperation(NodeKind kind, Op op, int column, std::vector<int> children) {
    Node node;
    node.kind = kind;
    node.op = op;
    node.column = column;
    node.children = std::move(children);
    return Add(std::move(node));
  }

  absl::StatusOr<int> ParseConditional() {
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    ASSIGN_OR_RETURN(const int value, ParseBinary(kPrecedenceOr));
    const int column = Current().column;
    if (!TakeKeyword("if")) return value;
    ASSIGN_OR_RETURN(const int condition, ParseBinary(kPrecedenceOr));
    if (!TakeKeyword("else")) return ErrorAt(text_, Current().column, "'else' is missing (a if condition else b)");
    ASSIGN_OR_RETURN(const int other, ParseConditional());
    return AddOperation(NodeKind::kConditional, Op::kAdd, column, {value, condition, other});
  }

  // Everything that binds at least as tightly as `precedence`.
  absl::StatusOr<int> ParseBinary(int precedence) {
    ASSIGN_OR_RETURN(int left, ParsePrefix(precedence));
    while (true) {
      const int column = Current().column;
      if (AtKeyword("or") && precedence <= kPrecedenceOr) {
        ++next_;
        ASSIGN_OR_RETURN(const int right, ParseBinary(kPrecedenceOr + 1));
        ASSIGN_OR_RETURN(left, AddOperation(NodeKind::kOr, Op::kAdd, column, {left, right}));
        continue;
      }
      if (AtKeyword("and") && precedence <= kPrecedenceAnd) {
        ++next_;
        ASSIGN_OR_RETURN(const int right, ParseBinary(kPrecedenceAnd + 1));
        ASSIGN_OR_RETURN(left, AddOperation(NodeKind::kAnd, Op::kAdd, column, {left, right}));
        continue;
      }
      if (precedence <= kPrecedenceCompare && AtComparison().has_value()) {
        ASSIGN_OR_RETURN(left, ParseComparison(left));
        continue;
      }
      const BinarySpec* spec = AtBinary();
      if (spec == nullptr || spec->precedence < precedence) return left;
      ++next_;
      ASSIGN_OR_RETURN(const int right, ParseBinary(spec->precedence + 1));
      ASSIGN_OR_RETURN(left, AddOperation(NodeKind::kBinary, spec->op, column, {left, right}));
    }
  }

  const BinarySpec* AtBinary() const {
    if (Current().kind != TokenKind::kSymbol) return nullptr;
    for (const BinarySpec& spec : kBinaries) {
      if (spec.text == Current().text) return &spec;
    }
    return nullptr;
  }

  std::optional<Op> AtComparison() const {
    if (AtKeyword("in")) return Op::kIn;
    if (AtKeyword("not")) {
      const Token& following = tokens_[next_ + 1];  // kEnd is last and is not "not"
      if (following.kind == TokenKind::kKeyword && following.text == "in") return Op::kNotIn;
      return std::nullopt;
    }
    if (Current().kind != TokenKind::kSymbol) return std::nullopt;
    for (const CompareSpec& spec : kCompares) {
      if (spec.text == Current().text) return spec.op;
    }
    return std::nullopt;
  }

  absl::StatusOr<int> ParseComparison(int first) {
    Node node;
    node.kind = NodeKind::kCompare;
    node.column = Current().column;
    node.children.push_back(first);
    while (const std::optional<Op> op = AtComparison()) {
      if (tree_.nodes[node.children.back()].kind == NodeKind::kList) {
        return ErrorAt(text_, Current().column, "a list can only end a comparison (x in (1, 2))");
      }
      node.ops.push_back(*op);
      node.op_columns.push_back(Current().column);
      next_ += *op == Op::kNotIn ? 2 : 1;
      const bool is_membership = *op == Op::kIn || *op == Op::kNotIn;
      if (is_membership && (AtSymbol("(") || AtSymbol("["))) {
        ASSIGN_OR_RETURN(const int list, ParseListOrGroup());
        node.children.push_back(list);
      } else {
        ASSIGN_OR_RETURN(const int operand, ParseBinary(kPrecedenceCompare + 1));
        node.children.push_back(operand);
      }
    }
    return Add(std::move(node));
  }

  // After "in": [a, b], (a, b), (a,), () are lists; (a) is a group, as in Python.
  absl::StatusOr<int> ParseListOrGroup() {
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    Node node;
    node.kind = NodeKind::kList;
    node.column = Current().column;
    const bool is_bracket = AtSymbol("[");
    const std::string_view close = is_bracket ? "]" : ")";
    ++next_;
    bool has_comma = false;
    while (!AtSymbol(close)) {
      ASSIGN_OR_RETURN(const int element, ParseConditional());
      node.children.push_back(element);
      if (!TakeSymbol(",")) break;
      has_comma = true;
    }
    if (!TakeSymbol(close)) return Missing(close, node.column);
    if (!is_bracket && !has_comma && node.children.size() == 1) return node.children[0];
    return Add(std::move(node));
  }

  absl::Status Missing(std::string_view close, int open_column) const {
    if (Current().kind == TokenKind::kEnd) {
      return ErrorAt(text_, open_column, fmt::format("this bracket is never closed by '{}'", close));
    }
    return Unexpected();
  }

  absl::StatusOr<int> ParsePrefix(int precedence) {
    const int column = Current().column;
    if (AtKeyword("not")) {
      if (precedence > kPrecedenceNot) {
        return ErrorAt(text_, column, "'not' must stand in parentheses here");
      }
      ++next_;
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      ASSIGN_OR_RETURN(const int operand, ParseBinary(kPrecedenceNot));
      return AddOperation(NodeKind::kUnary, Op::kNot, column, {operand});
    }
    if (AtSymbol("-") || AtSymbol("+")) {
      const bool is_minus = TakeSymbol("-");
      if (!is_minus) ++next_;
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      ASSIGN_OR_RETURN(const int operand, ParsePrefix(kPrecedenceUnary));
      Node& node = tree_.nodes[operand];
      if (is_minus && node.kind == NodeKind::kIntMinMagnitude) {
        node.kind = NodeKind::kLiteral;
        node.literal = Value(INT64_MIN);
        return operand;
      }
      return AddOperation(NodeKind::kUnary, is_minus ? Op::kNegate : Op::kPlus, column, {operand});
    }
    return ParsePower();
  }

  absl::StatusOr<int> ParsePower() {
    ASSIGN_OR_RETURN(const int base, ParsePrimary());
    const int column = Current().column;
    if (!TakeSymbol("**")) return base;
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    // The exponent may carry a sign and is itself a power: 2 ** -3 ** 2.
    ASSIGN_OR_RETURN(const int exponent, ParsePrefix(kPrecedenceUnary));
    return AddOperation(NodeKind::kBinary, Op::kPower, column, {base, exponent});
  }

  absl::StatusOr<int> ParsePrimary() {
    const Token token = Current();
    Node node;
    node.column = token.column;
    switch (token.kind) {
      case TokenKind::kInt:
        node.literal = Value(token.int_value);
        break;
      case TokenKind::kIntMinMagnitude:
        node.kind = NodeKind::kIntMinMagnitude;
        break;
      case TokenKind::kFloat:
        node.literal = Value(token.float_value);
        break;
      case TokenKind::kString:
        node.literal = Value(token.text);
        break;
      case TokenKind::kName:
        if (tokens_[next_ + 1].kind == TokenKind::kSymbol && tokens_[next_ + 1].text == "(") return ParseCall();
        node.kind = NodeKind::kName;
        node.name = token.text;
        break;
      case TokenKind::kKeyword:
        if (token.text != "True" && token.text != "False") return Unexpected();
        node.literal = Value(token.text == "True");
        break;
      case TokenKind::kSymbol:
        if (token.text == "(") return ParseGroup();
        if (token.text == "[") return ErrorAt(text_, token.column, "a list can stand only after 'in'");
        return Unexpected();
      case TokenKind::kEnd:
        return Unexpected();
    }
    ++next_;
    if (Current().kind == TokenKind::kString && token.kind == TokenKind::kString) {
      return ErrorAt(text_, Current().column, "adjacent strings are not joined; write one string");
    }
    return Add(std::move(node));
  }

  absl::StatusOr<int> ParseGroup() {
    const int column = Current().column;
    ++next_;
    if (AtSymbol(")")) return ErrorAt(text_, column, "a list can stand only after 'in'");
    ASSIGN_OR_RETURN(const int inner, ParseConditional());
    if (AtSymbol(",")) return ErrorAt(text_, Current().column, "a list can stand only after 'in'");
    if (!TakeSymbol(")")) return Missing(")", column);
    return inner;
  }

  absl::StatusOr<int> ParseCall() {
    const Token name = Current();
    const FunctionSpec* function = FindFunction(name.text);
    if (function == nullptr) {
      std::string known;
      for (const FunctionSpec& spec : kFunctions) {
        known += (known.empty() ? "" : " ") + std::string(spec.name);
      }
      return ErrorAt(text_, name.column, fmt::format("unknown function '{}'; known are {}", name.text, known));
    }
    Node node;
    node.kind = NodeKind::kCall;
    node.op = function->op;
    node.column = name.column;
    next_ += 2;
    const int open_column = tokens_[next_ - 1].column;
    while (!AtSymbol(")")) {
      ASSIGN_OR_RETURN(const int argument, ParseConditional());
      node.children.push_back(argument);
      if (!TakeSymbol(",")) break;
    }
    if (!TakeSymbol(")")) return Missing(")", open_column);
    const int count = static_cast<int>(node.children.size());
    if (count < function->arguments_min || (function->arguments_max >= 0 && count > function->arguments_max)) {
      return ErrorAt(
          text_, name.column,
          fmt::format("{} takes {}{} argument{}, not {}", name.text, function->arguments_max < 0 ? "at least " : "",
                      function->arguments_min, function->arguments_min == 1 ? "" : "s", count));
    }
    return Add(std::move(node));
  }

  const std::string_view text_;
  const std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
  Tree tree_;
};

}  // namespace

const FunctionSpec* FindFunction(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const FunctionSpec& spec : kFunctions) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

absl::StatusOr<Tree> Parse(std::string_view text) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(text));
  return Parser(text, std::move(tokens)).Run();
}

}  // namespace tunefarm::expression

namespace tunefarm {

std::vector<std::string> ExpressionFunctions() {
  std::vector<std::string> names;
  for (const expression::FunctionSpec& spec : expression::kFunctions) names.emplace_back(spec.name);
  return names;
}

std::vector<std::string> ExpressionOperators() {
  std::vector<std::string> names = {"and", "or", "not", "in", "if", "else", "**"};
  for (const expression::BinarySpec& spec : expression::kBinaries) names.emplace_back(spec.text);
  for (const expression::CompareSpec& spec : expression::kCompares) names.emplace_back(spec.text);
  return names;
}

}  // namespace tunefarm
