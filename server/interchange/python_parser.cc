// Tokens to tree: a recursive descent over Python's expression grammar.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/json_document.h"
#include "server/interchange/python_node.h"
#include "server/interchange/python_token.h"

namespace tunefarm::interchange {
namespace {

constexpr int kHeightMax = 500;

using Token = PythonToken;
using NodePtr = std::unique_ptr<PythonNode>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<NodePtr> Run() {
    ASSIGN_OR_RETURN(NodePtr node, Conditional());
    // "1, 2" is a tuple.
    if (IsOperator(",")) {
      NodePtr list = Make(PythonNode::Kind::kList);
      list->children.push_back(std::move(node));
      RETURN_IF_ERROR(Elements(list.get(), ""));
      node = std::move(list);
    }
    if (Peek().kind != Token::Kind::kEnd) return Unexpected();
    return node;
  }

 private:
  struct Depth {
    explicit Depth(int* counter) : counter_(counter) { ++*counter_; }
    ~Depth() { --*counter_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    int* const counter_;
  };

  const Token& Peek() const { return tokens_[at_]; }
  bool IsOperator(std::string_view text) const { return Peek().kind == Token::Kind::kOperator && Peek().text == text; }
  bool IsWord(std::string_view text) const { return Peek().kind == Token::Kind::kName && Peek().text == text; }
  bool Take(std::string_view text) {
    if (!IsOperator(text) && !IsWord(text)) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(std::string_view text) {
    if (Take(text)) return absl::OkStatus();
    return PythonError(Peek().column, Peek().kind == Token::Kind::kEnd
                                          ? fmt::format("the text ends where '{}' is expected", text)
                                          : fmt::format("'{}' is expected here", text));
  }
  absl::Status Unexpected() const {
    if (Peek().kind == Token::Kind::kEnd) return PythonError(Peek().column, "the text ends where a value is expected");
    if (Peek().kind == Token::Kind::kString) return PythonError(Peek().column, "a string is not expected here");
    if (Peek().kind == Token::Kind::kNumber) return PythonError(Peek().column, "a number is not expected here");
    return PythonError(Peek().column, fmt::format("'{}' is not expected here", Peek().text.substr(0, 40)));
  }
  NodePtr Make(PythonNode::Kind kind) const {
    auto node = std::make_unique<PythonNode>();
    node->kind = kind;
    node->column = Peek().column;
    return node;
  }
  static NodePtr Measured(NodePtr node) {
    int height = 0;
    for (const NodePtr& child : node->children) height = std::max(height, child->height);
    for (const PythonNode::Clause& clause : node->clauses) {
      height = std::max(height, clause.iterable->height);
      for (const NodePtr& condition : clause.conditions) height = std::max(height, condition->height);
    }
    node->height = height + 1;
    return node;
  }
  static NodePtr Two(NodePtr node, NodePtr a, NodePtr b) {
    node->children.push_back(std::move(a));
    node->children.push_back(std::move(b));
    return Measured(std::move(node));
  }
  absl::Status TooDeep() const {
    return PythonError(Peek().column, fmt::format("more than {} levels of nesting", kPythonDepthMax));
  }

  absl::StatusOr<NodePtr> Conditional() {
    const Depth depth(&depth_);
    if (depth_ > kPythonDepthMax) return TooDeep();
    if (IsWord("lambda")) return PythonError(Peek().column, "lambda is not supported; write the expression itself");
    ASSIGN_OR_RETURN(NodePtr value, Or());
    // In a comprehension "x for x in a if c" the condition is not followed by else.
    if (!IsWord("if") || !HasElse()) return value;
    NodePtr node = Make(PythonNode::Kind::kConditional);
    ++at_;
    ASSIGN_OR_RETURN(NodePtr condition, Or());
    RETURN_IF_ERROR(Expect("else"));
    ASSIGN_OR_RETURN(NodePtr other, Conditional());
    node->children.push_back(std::move(value));
    node->children.push_back(std::move(condition));
    node->children.push_back(std::move(other));
    return Measured(std::move(node));
  }

  // Whether the "if" here has an "else" before the bracket around it closes.
  bool HasElse() const {
    int depth = 0;
    for (size_t at = at_ + 1; at < tokens_.size(); ++at) {
      const Token& token = tokens_[at];
      if (token.kind == Token::Kind::kOperator) {
        if (token.text == "(" || token.text == "[") ++depth;
        if ((token.text == ")" || token.text == "]") && --depth < 0) return false;
        if (token.text == "," && depth == 0) return false;
      }
      if (token.kind == Token::Kind::kName && depth == 0) {
        if (token.text == "else") return true;
        if (token.text == "for" || token.text == "if") return false;
      }
    }
    return false;
  }

  absl::StatusOr<NodePtr> Or() { return Left(0); }

  // Left-associative levels from loosest to tightest.
  absl::StatusOr<NodePtr> Left(int level) {
    static constexpr std::string_view kLevels[][4] = {
        {"or"}, {"and"}, {"not"}, {"compare"}, {"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%"}};
    constexpr int kLevelCount = static_cast<int>(std::size(kLevels));
    if (level == kLevelCount) return Unary();
    if (level == 2) return Not();
    if (level == 3) return Compare();
    ASSIGN_OR_RETURN(NodePtr left, Left(level + 1));
    while (true) {
      const bool is_word = level < 2;
      const std::string_view* op = std::find_if(
          std::begin(kLevels[level]), std::end(kLevels[level]),
          [&](std::string_view text) { return !text.empty() && (is_word ? IsWord(text) : IsOperator(text)); });
      if (op == std::end(kLevels[level])) return left;
      // A chain is as deep a tree as it is long.
      if (left->height > kHeightMax) return PythonError(Peek().column, "too many operators in a row; use brackets");
      NodePtr node = Make(is_word ? PythonNode::Kind::kBool : PythonNode::Kind::kBinary);
      node->text = *op;
      ++at_;
      ASSIGN_OR_RETURN(NodePtr right, Left(level + 1));
      left = Two(std::move(node), std::move(left), std::move(right));
    }
  }

  absl::StatusOr<NodePtr> Not() {
    if (!IsWord("not")) return Left(3);
    const Depth depth(&depth_);
    if (depth_ > kPythonDepthMax) return TooDeep();
    NodePtr node = Make(PythonNode::Kind::kUnary);
    node->text = "not";
    ++at_;
    ASSIGN_OR_RETURN(NodePtr operand, Not());
    node->children.push_back(std::move(operand));
    return Measured(std::move(node));
  }

  absl::StatusOr<NodePtr> Compare() {
    ASSIGN_OR_RETURN(NodePtr first, Left(4));
    NodePtr node;
    while (true) {
      std::string op;
      for (const std::string_view text : {"<=", ">=", "==", "!=", "<", ">"}) {
        if (IsOperator(text)) op = text;
      }
      size_t words = 1;
      if (IsWord("in")) op = "in";
      if (IsWord("not") && tokens_[at_ + 1].kind == Token::Kind::kName && tokens_[at_ + 1].text == "in") {
        op = "not in";
        words = 2;
      }
      if (op.empty()) return node == nullptr ? std::move(first) : Measured(std::move(node));
      if (node == nullptr) {
        node = Make(PythonNode::Kind::kCompare);
        node->children.push_back(std::move(first));
      }
      at_ += words;
      node->operators.push_back(op);
      ASSIGN_OR_RETURN(NodePtr next, Left(4));
      node->children.push_back(std::move(next));
    }
  }

  absl::StatusOr<NodePtr> Unary() {
    if (!IsOperator("-") && !IsOperator("+") && !IsOperator("~")) return Power();
    const Depth depth(&depth_);
    if (depth_ > kPythonDepthMax) return TooDeep();
    NodePtr node = Make(PythonNode::Kind::kUnary);
    node->text = Peek().text;
    ++at_;
    ASSIGN_OR_RETURN(NodePtr operand, Unary());
    node->children.push_back(std::move(operand));
    return Measured(std::move(node));
  }

  absl::StatusOr<NodePtr> Power() {
    ASSIGN_OR_RETURN(NodePtr base, Postfix());
    if (!IsOperator("**")) return base;
    const Depth depth(&depth_);
    if (depth_ > kPythonDepthMax) return TooDeep();
    NodePtr node = Make(PythonNode::Kind::kBinary);
    node->text = "**";
    ++at_;
    ASSIGN_OR_RETURN(NodePtr exponent, Unary());
    return Two(std::move(node), std::move(base), std::move(exponent));
  }

  absl::StatusOr<NodePtr> Postfix() {
    ASSIGN_OR_RETURN(NodePtr node, Atom());
    for (int count = 0;; ++count) {
      if (!IsOperator("[") && !IsOperator("(")) return node;
      if (count > kPythonDepthMax) return PythonError(Peek().column, "too many brackets in a row");
      if (IsOperator("(")) return PythonError(Peek().column, "only functions can be called");
      NodePtr subscript = Make(PythonNode::Kind::kSubscript);
      ++at_;
      ASSIGN_OR_RETURN(NodePtr index, Conditional());
      if (IsOperator(":")) return PythonError(Peek().column, "slices are not supported");
      RETURN_IF_ERROR(Expect("]"));
      node = Two(std::move(subscript), std::move(node), std::move(index));
    }
  }

  absl::StatusOr<NodePtr> Atom() {
    const Token& token = Peek();
    if (token.kind == Token::Kind::kNumber || token.kind == Token::Kind::kString) {
      NodePtr node = Make(PythonNode::Kind::kLiteral);
      node->value = token.kind == Token::Kind::kNumber ? token.number : PythonValue(token.text);
      ++at_;
      return node;
    }
    if (token.kind == Token::Kind::kName) return Name();
    if (IsOperator("[") || IsOperator("(")) return Bracket();
    return Unexpected();
  }

  absl::StatusOr<NodePtr> Bracket() {
    const bool is_list = IsOperator("[");
    const std::string_view close = is_list ? "]" : ")";
    NodePtr list = Make(PythonNode::Kind::kList);
    ++at_;
    if (Take(close)) return list;
    ASSIGN_OR_RETURN(NodePtr first, Conditional());
    if (IsWord("for")) {
      ASSIGN_OR_RETURN(NodePtr node, Comprehension(std::move(first)));
      RETURN_IF_ERROR(Expect(close));
      return node;
    }
    if (!is_list && Take(close)) return first;
    list->children.push_back(std::move(first));
    RETURN_IF_ERROR(Elements(list.get(), close));
    return Measured(std::move(list));
  }

  // ", b, c" and the closing bracket (none for a bare tuple).
  absl::Status Elements(PythonNode* list, std::string_view close) {
    while (Take(",")) {
      if (close.empty() ? Peek().kind == Token::Kind::kEnd : IsOperator(close)) break;
      ASSIGN_OR_RETURN(NodePtr element, Conditional());
      list->children.push_back(std::move(element));
    }
    return close.empty() ? absl::OkStatus() : Expect(close);
  }

  absl::StatusOr<NodePtr> Comprehension(NodePtr element) {
    NodePtr node = Make(PythonNode::Kind::kComprehension);
    node->children.push_back(std::move(element));
    while (Take("for")) {
      if (node->clauses.size() >= 8) return PythonError(Peek().column, "more than 8 'for' in one comprehension");
      PythonNode::Clause clause;
      const bool has_bracket = Take("(");
      do {
        if (Peek().kind != Token::Kind::kName) return Unexpected();
        clause.targets.push_back(Peek().text);
        ++at_;
      } while (Take(","));
      if (has_bracket) RETURN_IF_ERROR(Expect(")"));
      RETURN_IF_ERROR(Expect("in"));
      ASSIGN_OR_RETURN(clause.iterable, Or());
      while (Take("if")) {
        ASSIGN_OR_RETURN(NodePtr condition, Or());
        clause.conditions.push_back(std::move(condition));
      }
      node->clauses.push_back(std::move(clause));
    }
    return Measured(std::move(node));
  }

  absl::StatusOr<NodePtr> Name() {
    static const std::set<std::string, std::less<>> kModules = {"math", "np", "numpy"};
    NodePtr node = Make(PythonNode::Kind::kName);
    node->text = Peek().text;
    ++at_;
    if (node->text == "True" || node->text == "False") {
      node->kind = PythonNode::Kind::kLiteral;
      node->value = PythonValue(node->text == "True");
      return node;
    }
    static const std::set<std::string, std::less<>> kWords = {"and", "or", "not", "if",   "else",
                                                              "for", "in", "is",  "None", "lambda"};
    if (kWords.count(node->text) != 0) {
      --at_;
      return Unexpected();
    }
    if (IsOperator(".")) {
      if (kModules.count(node->text) == 0)
        return PythonError(Peek().column, fmt::format("'{}.' is not known; only math. and np. are", node->text));
      ++at_;
      if (Peek().kind != Token::Kind::kName) return Unexpected();
      node->text = Peek().text;
      ++at_;
    }
    if (!Take("(")) return node;
    node->kind = PythonNode::Kind::kCall;
    if (Take(")")) return node;
    ASSIGN_OR_RETURN(NodePtr first, Conditional());
    if (IsWord("for")) {
      ASSIGN_OR_RETURN(first, Comprehension(std::move(first)));
      node->children.push_back(std::move(first));
      RETURN_IF_ERROR(Expect(")"));
      return Measured(std::move(node));
    }
    node->children.push_back(std::move(first));
    RETURN_IF_ERROR(Elements(node.get(), ")"));
    return Measured(std::move(node));
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

void CollectNames(const PythonNode& node, const std::set<std::string>& bound, std::set<std::string>* names) {
  if (node.kind == PythonNode::Kind::kName && bound.count(node.text) == 0) names->insert(node.text);
  std::set<std::string> inner = bound;
  for (const PythonNode::Clause& clause : node.clauses) {
    CollectNames(*clause.iterable, inner, names);
    inner.insert(clause.targets.begin(), clause.targets.end());
    for (const auto& condition : clause.conditions) CollectNames(*condition, inner, names);
  }
  for (const auto& child : node.children) CollectNames(*child, inner, names);
}

}  // namespace

absl::StatusOr<PythonText> PythonText::Parse(std::string_view text) {
  if (text.size() > static_cast<size_t>(kPythonTextMax)) {
    return PythonError(1, fmt::format("the text has {} bytes; at most {} are read", text.size(), kPythonTextMax));
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, PythonTokens(text));
  ASSIGN_OR_RETURN(NodePtr root, Parser(std::move(tokens)).Run());
  return PythonText(std::string(text), std::move(root));
}

std::vector<std::string> PythonText::Names() const {
  std::set<std::string> names;
  CollectNames(*root_, {}, &names);
  return {names.begin(), names.end()};
}

absl::Status PythonError(int column, std::string_view message) {
  return WithReason(InvalidArgument("column {}: {}", column, message), kBadExpression);
}

int PythonColumn(const absl::Status& status) {
  constexpr std::string_view kPrefix = "column ";
  const std::string_view message = MessageOf(status);
  if (message.substr(0, kPrefix.size()) != kPrefix) return 0;
  int column = 0;
  std::from_chars(message.data() + kPrefix.size(), message.data() + message.size(), column);
  return column;
}

std::string PythonMessage(const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  const size_t colon = PythonColumn(status) > 0 ? message.find(": ") : std::string_view::npos;
  return std::string(colon == std::string_view::npos ? message : message.substr(colon + 2));
}

}  // namespace tunefarm::interchange
