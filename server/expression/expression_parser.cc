// A Pratt parser: one loop over binary operators by precedence, as Python's grammar orders them.
#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm::expression {
namespace {

constexpr int kPrecedenceOr = 1;
constexpr int kPrecedenceAnd = 2;
constexpr int kPrecedenceNot = 3;
constexpr int kPrecedenceCompare = 4;
constexpr int kPrecedenceBitOr = 5;
constexpr int kPrecedenceBitXor = 6;
constexpr int kPrecedenceBitAnd = 7;
constexpr int kPrecedenceShift = 8;
constexpr int kPrecedenceAdd = 9;
constexpr int kPrecedenceMultiply = 10;
constexpr int kPrecedenceUnary = 11;

// Comprehensions are parsed once for each element; this many nodes may be made on the way to at most
// kExpressionNodesMax.
constexpr int kNodesMadeMax = 8 * kExpressionNodesMax;
constexpr int64_t kRangeMax = kExpressionNodesMax;

constexpr std::array<FunctionSpec, 14> kFunctions = {{
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
    {"round", Op::kRound, 1, 2, true},
    {"all", Op::kAll, 1, 1, true},
    {"any", Op::kAny, 1, 1, true},
    {"sum", Op::kSum, 1, 1, true},
}};

struct BinarySpec {
  std::string_view text;
  Op op;
  int precedence;
};
constexpr std::array<BinarySpec, 11> kBinaries = {{
    {"|", Op::kBitOr, kPrecedenceBitOr},
    {"^", Op::kBitXor, kPrecedenceBitXor},
    {"&", Op::kBitAnd, kPrecedenceBitAnd},
    {"<<", Op::kShiftLeft, kPrecedenceShift},
    {">>", Op::kShiftRight, kPrecedenceShift},
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

// The tokens of a text and the place where the parser is.
class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  size_t place() const { return next_; }
  void MoveTo(size_t place) { next_ = place; }
  void Skip(size_t count = 1) { next_ += count; }
  const Token& At(size_t place) const { return tokens_[place]; }
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

  // Of a name.
  bool AtCall() const { return tokens_[next_ + 1].kind == TokenKind::kSymbol && tokens_[next_ + 1].text == "("; }
  bool AtRange() const { return Current().kind == TokenKind::kName && Current().text == "range" && AtCall(); }
  bool AtList() const { return AtSymbol("(") || AtSymbol("[") || AtRange(); }

  // The first token from here on, outside of brackets that open behind here, that is `for` or the closing bracket.
  size_t ForOrClose() const {
    int open = 0;
    size_t at = next_;
    for (; tokens_[at].kind != TokenKind::kEnd; ++at) {
      const std::string& word = tokens_[at].text;
      if (open == 0 && tokens_[at].kind == TokenKind::kKeyword && word == "for") return at;
      if (tokens_[at].kind != TokenKind::kSymbol) continue;
      if (word == "(" || word == "[") ++open;
      if ((word == ")" || word == "]") && --open < 0) return at;
    }
    return at;
  }
  std::optional<size_t> NextFor() const {
    const size_t at = ForOrClose();
    return tokens_[at].kind == TokenKind::kKeyword ? std::optional<size_t>(at) : std::nullopt;
  }

  // Whether the only argument of a function, which begins here, is a list.
  bool AtOnlyList() const {
    if (NextFor().has_value() || AtSymbol("[") || AtRange()) return true;
    if (!AtSymbol("(")) return false;
    // (a, b), but not (a) nor (a) + 1.
    int open = 0;
    bool has_comma = false;
    for (size_t at = next_; tokens_[at].kind != TokenKind::kEnd; ++at) {
      if (tokens_[at].kind == TokenKind::kKeyword && tokens_[at].text == "for" && open == 1) has_comma = true;
      if (tokens_[at].kind != TokenKind::kSymbol) continue;
      const std::string& word = tokens_[at].text;
      if (word == "," && open == 1) has_comma = true;
      if (word == "(" || word == "[") ++open;
      if (word != ")" && word != "]") continue;
      if (--open == 0) {
        const Token& behind = tokens_[at + 1];
        return (has_comma || at == next_ + 1) && behind.kind == TokenKind::kSymbol && behind.text == ")";
      }
    }
    return false;
  }

 private:
  const std::vector<Token> tokens_;
  size_t next_ = 0;
};

// The tree that is being made.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  Node& At(int index) { return tree_.nodes[static_cast<size_t>(index)]; }
  size_t size() const { return tree_.nodes.size(); }
  // Drops the nodes from the number `size` on.
  void Truncate(size_t size) { tree_.nodes.resize(size); }
  Tree Take(int root) {
    tree_.root = root;
    return std::move(tree_);
  }

  absl::StatusOr<int> Add(Node node) {
    if (tree_.nodes.size() >= kExpressionNodesMax || ++nodes_made_ > kNodesMadeMax) {
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

  // The value of an int literal or of its negation.
  std::optional<int64_t> IntOf(const Node& node) {
    if (node.kind == NodeKind::kLiteral && node.literal.is_int()) return node.literal.int_value();
    if (node.kind != NodeKind::kUnary || node.op != Op::kNegate) return std::nullopt;
    const Node& operand = At(node.children[0]);
    if (operand.kind != NodeKind::kLiteral || !operand.literal.is_int()) return std::nullopt;
    if (operand.literal.int_value() == INT64_MIN) return std::nullopt;
    return -operand.literal.int_value();
  }

  // The element where the condition holds, else what changes nothing.
  absl::StatusOr<int> Conditioned(Op function, int condition, int element) {
    const int column = At(element).column;
    ASSIGN_OR_RETURN(const int copy, Copy(condition));
    Node neutral;
    neutral.column = column;
    neutral.literal = function == Op::kSum ? Value(0) : Value(function == Op::kAll);
    ASSIGN_OR_RETURN(const int other, Add(std::move(neutral)));
    return AddOperation(NodeKind::kConditional, Op::kAdd, column, {element, copy, other});
  }

  // What a loop's variable stands for is a part of its own at each use, so that the number of nodes bounds the steps.
  absl::StatusOr<int> Copy(int index) {
    Node node = At(index);
    for (int& child : node.children) {
      ASSIGN_OR_RETURN(child, Copy(child));
    }
    return Add(std::move(node));
  }

  // all(...), any(...), sum(...), and min(...) and max(...) of one list. Of a generator all and any evaluate no element
  // behind the one that decides; of a list, all.
  absl::StatusOr<int> OfList(Op op, int column, std::vector<int> elements, bool is_generator) {
    Node start;
    start.column = column;
    if (op == Op::kMin || op == Op::kMax) {
      if (elements.empty()) return ErrorAt(text_, column, fmt::format("{} of an empty list", OpText(op)));
      if (elements.size() == 1) return elements[0];
      return AddOperation(NodeKind::kCall, op, column, elements);
    }
    if (op == Op::kSum) {
      start.literal = Value(0);
      ASSIGN_OR_RETURN(int sum, Add(std::move(start)));
      for (const int element : elements) {
        ASSIGN_OR_RETURN(sum, AddOperation(NodeKind::kBinary, Op::kAdd, column, {sum, element}));
      }
      return sum;
    }
    if (elements.empty()) {
      start.literal = Value(op == Op::kAll);
      return Add(std::move(start));
    }
    if (!is_generator) {
      for (int& element : elements) {
        ASSIGN_OR_RETURN(element, AddOperation(NodeKind::kCall, Op::kToBool, column, {element}));
      }
    }
    const NodeKind lazy = op == Op::kAll ? NodeKind::kAnd : NodeKind::kOr;
    const Op eager = op == Op::kAll ? Op::kBitAnd : Op::kBitOr;
    int joined = elements[0];
    for (size_t i = 1; i < elements.size(); ++i) {
      ASSIGN_OR_RETURN(joined, AddOperation(is_generator ? lazy : NodeKind::kBinary, is_generator ? Op::kAdd : eager,
                                            column, {joined, elements[i]}));
    }
    return is_generator ? AddOperation(NodeKind::kCall, Op::kToBool, column, {joined}) : joined;
  }

 private:
  const std::string_view text_;
  int nodes_made_ = 0;
  Tree tree_;
};

class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens) : text_(text), cursor_(std::move(tokens)), tree_(text) {}

  absl::StatusOr<Tree> Run() {
    if (cursor_.Current().kind == TokenKind::kEnd) return ErrorAt(text_, 1, "the expression is empty");
    ASSIGN_OR_RETURN(const int root, ParseConditional());
    if (cursor_.Current().kind != TokenKind::kEnd) return Unexpected();
    return tree_.Take(root);
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

  absl::Status Unexpected() const {
    const Token& token = cursor_.Current();
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
    return ErrorAt(text_, cursor_.Current().column, fmt::format("more than {} levels of nesting", kExpressionDepthMax));
  }

  absl::StatusOr<int> ParseConditional() {
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    ASSIGN_OR_RETURN(const int value, ParseBinary(kPrecedenceOr));
    const int column = cursor_.Current().column;
    if (!cursor_.TakeKeyword("if")) return value;
    ASSIGN_OR_RETURN(const int condition, ParseBinary(kPrecedenceOr));
    if (!cursor_.TakeKeyword("else"))
      return ErrorAt(text_, cursor_.Current().column, "'else' is missing (a if condition else b)");
    ASSIGN_OR_RETURN(const int other, ParseConditional());
    return tree_.AddOperation(NodeKind::kConditional, Op::kAdd, column, {value, condition, other});
  }

  // Everything that binds at least as tightly as `precedence`.
  absl::StatusOr<int> ParseBinary(int precedence) {
    ASSIGN_OR_RETURN(int left, ParsePrefix(precedence));
    while (true) {
      const int column = cursor_.Current().column;
      if (cursor_.AtKeyword("or") && precedence <= kPrecedenceOr) {
        cursor_.Skip();
        ASSIGN_OR_RETURN(const int right, ParseBinary(kPrecedenceOr + 1));
        ASSIGN_OR_RETURN(left, tree_.AddOperation(NodeKind::kOr, Op::kAdd, column, {left, right}));
        continue;
      }
      if (cursor_.AtKeyword("and") && precedence <= kPrecedenceAnd) {
        cursor_.Skip();
        ASSIGN_OR_RETURN(const int right, ParseBinary(kPrecedenceAnd + 1));
        ASSIGN_OR_RETURN(left, tree_.AddOperation(NodeKind::kAnd, Op::kAdd, column, {left, right}));
        continue;
      }
      if (precedence <= kPrecedenceCompare && AtComparison().has_value()) {
        ASSIGN_OR_RETURN(left, ParseComparison(left));
        continue;
      }
      const BinarySpec* spec = AtBinary();
      if (spec == nullptr || spec->precedence < precedence) return left;
      cursor_.Skip();
      ASSIGN_OR_RETURN(const int right, ParseBinary(spec->precedence + 1));
      ASSIGN_OR_RETURN(left, tree_.AddOperation(NodeKind::kBinary, spec->op, column, {left, right}));
    }
  }

  const BinarySpec* AtBinary() const {
    if (cursor_.Current().kind != TokenKind::kSymbol) return nullptr;
    for (const BinarySpec& spec : kBinaries) {
      if (spec.text == cursor_.Current().text) return &spec;
    }
    return nullptr;
  }

  std::optional<Op> AtComparison() const {
    if (cursor_.AtKeyword("in")) return Op::kIn;
    if (cursor_.AtKeyword("not")) {
      const Token& following = cursor_.At(cursor_.place() + 1);  // kEnd is last and is not "not"
      if (following.kind == TokenKind::kKeyword && following.text == "in") return Op::kNotIn;
      return std::nullopt;
    }
    if (cursor_.Current().kind != TokenKind::kSymbol) return std::nullopt;
    for (const CompareSpec& spec : kCompares) {
      if (spec.text == cursor_.Current().text) return spec.op;
    }
    return std::nullopt;
  }

  absl::StatusOr<int> ParseComparison(int first) {
    Node node;
    node.kind = NodeKind::kCompare;
    node.column = cursor_.Current().column;
    node.children.push_back(first);
    while (const std::optional<Op> op = AtComparison()) {
      if (tree_.At(node.children.back()).kind == NodeKind::kList) {
        return ErrorAt(text_, cursor_.Current().column, "a list can only end a comparison (x in (1, 2))");
      }
      node.ops.push_back(*op);
      node.op_columns.push_back(cursor_.Current().column);
      cursor_.Skip(*op == Op::kNotIn ? 2 : 1);
      const bool is_membership = *op == Op::kIn || *op == Op::kNotIn;
      if (is_membership && cursor_.AtList()) {
        ASSIGN_OR_RETURN(const int list, ParseListOrGroup());
        node.children.push_back(list);
      } else {
        ASSIGN_OR_RETURN(const int operand, ParseBinary(kPrecedenceCompare + 1));
        node.children.push_back(operand);
      }
    }
    return tree_.Add(std::move(node));
  }

  // [a, b], (a, b), (a,), () are lists; (a) is a group, as in Python. Lists are also [e for x in list], (e for x in
  // list) and range(...); the second, of which Python makes one element after the other, sets `is_generator`.
  absl::StatusOr<int> ParseListOrGroup(bool* is_generator = nullptr) {
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    Node node;
    node.kind = NodeKind::kList;
    node.column = cursor_.Current().column;
    if (cursor_.AtRange()) {
      RETURN_IF_ERROR(ParseRange(&node));
      return tree_.Add(std::move(node));
    }
    const bool is_bracket = cursor_.AtSymbol("[");
    const std::string_view close = is_bracket ? "]" : ")";
    cursor_.Skip();
    if (const auto clauses = cursor_.NextFor()) {
      if (is_generator != nullptr) *is_generator = !is_bracket;
      RETURN_IF_ERROR(ParseComprehension(*clauses, std::nullopt, &node.children));
      if (!cursor_.TakeSymbol(close)) return Missing(close, node.column);
      return tree_.Add(std::move(node));
    }
    bool has_comma = false;
    while (!cursor_.AtSymbol(close)) {
      ASSIGN_OR_RETURN(const int element, ParseConditional());
      node.children.push_back(element);
      if (!cursor_.TakeSymbol(",")) break;
      has_comma = true;
    }
    if (!cursor_.TakeSymbol(close)) return Missing(close, node.column);
    if (!is_bracket && !has_comma && node.children.size() == 1) return node.children[0];
    return tree_.Add(std::move(node));
  }

  // range(end), range(first, end) and range(first, end, step) of int literals.
  absl::Status ParseRange(Node* list) {
    const int column = cursor_.Current().column;
    cursor_.Skip(2);
    std::vector<int64_t> arguments;
    while (!cursor_.AtSymbol(")")) {
      const int argument_column = cursor_.Current().column;
      const size_t nodes_before = tree_.size();
      ASSIGN_OR_RETURN(const int argument, ParseConditional());
      const std::optional<int64_t> number = tree_.IntOf(tree_.At(argument));
      if (!number.has_value()) return ErrorAt(text_, argument_column, "range takes int literals here");
      tree_.Truncate(nodes_before);
      arguments.push_back(*number);
      if (!cursor_.TakeSymbol(",")) break;
    }
    if (!cursor_.TakeSymbol(")")) return Missing(")", column);
    if (arguments.empty() || arguments.size() > 3) {
      return ErrorAt(text_, column, fmt::format("range takes 1 to 3 arguments, not {}", arguments.size()));
    }
    const __int128 begin = arguments.size() == 1 ? 0 : arguments[0];
    const __int128 end = arguments.size() == 1 ? arguments[0] : arguments[1];
    const __int128 step = arguments.size() == 3 ? arguments[2] : 1;
    if (step == 0) return ErrorAt(text_, column, "the step of range is 0");
    if ((end - begin) / step > kRangeMax) {
      return ErrorAt(text_, column, fmt::format("range has more than {} values", kRangeMax));
    }
    for (__int128 value = begin; step > 0 ? value < end : value > end; value += step) {
      Node node;
      node.column = column;
      node.literal = Value(static_cast<int64_t>(value));
      ASSIGN_OR_RETURN(const int element, tree_.Add(std::move(node)));
      list->children.push_back(element);
    }
    return absl::OkStatus();
  }

  // The elements of a comprehension whose element begins here and whose first `for` is the token `clauses`; leaves the
  // parser behind the last clause. The element is parsed once for each turn of the loops, with the loops' variables
  // standing for the elements of their lists. `function` is what takes the elements: where a condition `if c` does not
  // hold, the element is replaced by one that changes nothing of its result. Without a function there are no
  // conditions.
  absl::Status ParseComprehension(size_t clauses, std::optional<Op> function, std::vector<int>* elements) {
    const Loop loop{cursor_.place(), clauses, function, elements};
    std::vector<int> conditions;
    cursor_.MoveTo(clauses);
    return ParseClause(loop, &conditions);
  }

  struct Loop {
    size_t element;  // the first token
    size_t clauses;  // the token behind the element
    std::optional<Op> function;
    std::vector<int>* elements;
  };

  // `for`, `if`, or the end of the clauses.
  absl::Status ParseClause(const Loop& loop, std::vector<int>* conditions) {
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    if (cursor_.TakeKeyword("if")) {
      if (!loop.function.has_value()) {
        return ErrorAt(text_, cursor_.At(cursor_.place() - 1).column,
                       "a condition of a comprehension can stand only in all, any and sum");
      }
      ASSIGN_OR_RETURN(const int condition, ParseBinary(kPrecedenceOr));
      conditions->push_back(condition);
      const absl::Status status = ParseClause(loop, conditions);
      conditions->pop_back();
      return status;
    }
    if (!cursor_.AtKeyword("for")) {
      const size_t end = cursor_.place();
      cursor_.MoveTo(loop.element);
      ASSIGN_OR_RETURN(int element, ParseConditional());
      if (cursor_.place() != loop.clauses) return Unexpected();
      for (auto condition = conditions->rbegin(); condition != conditions->rend(); ++condition) {
        ASSIGN_OR_RETURN(element, tree_.Conditioned(*loop.function, *condition, element));
      }
      loop.elements->push_back(element);
      cursor_.MoveTo(end);
      return absl::OkStatus();
    }
    cursor_.Skip();
    if (cursor_.Current().kind != TokenKind::kName) {
      return ErrorAt(text_, cursor_.Current().column, "the variable of a comprehension must be one name");
    }
    const std::string name = cursor_.Current().text;
    cursor_.Skip();
    if (!cursor_.TakeKeyword("in")) {
      return ErrorAt(text_, cursor_.Current().column, "'in' is missing (x > 0 for x in (1, 2))");
    }
    const int list_column = cursor_.Current().column;
    if (!cursor_.AtList()) return ErrorAt(text_, list_column, "a list is needed here: (1, 2), [a, b] or range(4)");
    ASSIGN_OR_RETURN(const int list, ParseListOrGroup());
    if (tree_.At(list).kind != NodeKind::kList) {
      return ErrorAt(text_, list_column, "a list is needed here; one of one element is written (x,) or [x]");
    }
    const size_t rest = cursor_.place();
    const std::vector<int> values = tree_.At(list).children;
    if (values.empty()) {
      // What follows is parsed for its errors and its end only.
      std::vector<int> dropped;
      const size_t nodes_before = tree_.size();
      ASSIGN_OR_RETURN(const int nothing, tree_.Add(Node()));
      bound_.emplace_back(name, nothing);
      const absl::Status status = ParseClause({loop.element, loop.clauses, loop.function, &dropped}, conditions);
      bound_.pop_back();
      tree_.Truncate(nodes_before);
      return status;
    }
    for (const int value : values) {
      cursor_.MoveTo(rest);
      bound_.emplace_back(name, value);
      const absl::Status status = ParseClause(loop, conditions);
      bound_.pop_back();
      RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  absl::Status Missing(std::string_view close, int open_column) const {
    if (cursor_.Current().kind == TokenKind::kEnd) {
      return ErrorAt(text_, open_column, fmt::format("this bracket is never closed by '{}'", close));
    }
    return Unexpected();
  }

  absl::StatusOr<int> ParsePrefix(int precedence) {
    const int column = cursor_.Current().column;
    if (cursor_.AtKeyword("not")) {
      if (precedence > kPrecedenceNot) {
        return ErrorAt(text_, column, "'not' must stand in parentheses here");
      }
      cursor_.Skip();
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      ASSIGN_OR_RETURN(const int operand, ParseBinary(kPrecedenceNot));
      return tree_.AddOperation(NodeKind::kUnary, Op::kNot, column, {operand});
    }
    if (cursor_.TakeSymbol("~")) {
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      ASSIGN_OR_RETURN(const int operand, ParsePrefix(kPrecedenceUnary));
      return tree_.AddOperation(NodeKind::kUnary, Op::kInvert, column, {operand});
    }
    if (cursor_.AtSymbol("-") || cursor_.AtSymbol("+")) {
      const bool is_minus = cursor_.TakeSymbol("-");
      if (!is_minus) cursor_.Skip();
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      ASSIGN_OR_RETURN(const int operand, ParsePrefix(kPrecedenceUnary));
      Node& node = tree_.At(operand);
      if (is_minus && node.kind == NodeKind::kIntMinMagnitude) {
        node.kind = NodeKind::kLiteral;
        node.literal = Value(INT64_MIN);
        return operand;
      }
      return tree_.AddOperation(NodeKind::kUnary, is_minus ? Op::kNegate : Op::kPlus, column, {operand});
    }
    return ParsePower();
  }

  absl::StatusOr<int> ParsePower() {
    ASSIGN_OR_RETURN(const int base, ParsePrimary());
    const int column = cursor_.Current().column;
    if (!cursor_.TakeSymbol("**")) return base;
    const Nesting nesting(&depth_);
    RETURN_IF_ERROR(CheckDepth());
    // The exponent may carry a sign and is itself a power: 2 ** -3 ** 2.
    ASSIGN_OR_RETURN(const int exponent, ParsePrefix(kPrecedenceUnary));
    return tree_.AddOperation(NodeKind::kBinary, Op::kPower, column, {base, exponent});
  }

  absl::StatusOr<int> ParsePrimary() {
    const Token token = cursor_.Current();
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
        if (cursor_.AtCall()) return ParseCall();
        for (auto bound = bound_.rbegin(); bound != bound_.rend(); ++bound) {
          if (bound->first != token.text) continue;
          cursor_.Skip();
          return tree_.Copy(bound->second);
        }
        node.kind = NodeKind::kName;
        node.name = token.text;
        break;
      case TokenKind::kKeyword:
        if (token.text != "True" && token.text != "False") return Unexpected();
        node.literal = Value(token.text == "True");
        break;
      case TokenKind::kSymbol:
        if (token.text == "(") return ParseGroup();
        if (token.text == "[") return ListHere(token.column);
        return Unexpected();
      case TokenKind::kEnd:
        return Unexpected();
    }
    cursor_.Skip();
    if (cursor_.Current().kind == TokenKind::kString && token.kind == TokenKind::kString) {
      return ErrorAt(text_, cursor_.Current().column, "adjacent strings are not joined; write one string");
    }
    return tree_.Add(std::move(node));
  }

  absl::StatusOr<int> ParseGroup() {
    const int column = cursor_.Current().column;
    cursor_.Skip();
    if (cursor_.AtSymbol(")")) return ListHere(column);
    ASSIGN_OR_RETURN(const int inner, ParseConditional());
    if (cursor_.AtSymbol(",") || cursor_.AtKeyword("for")) return ListHere(cursor_.Current().column);
    if (!cursor_.TakeSymbol(")")) return Missing(")", column);
    return inner;
  }

  absl::Status ListHere(int column) const {
    return ErrorAt(text_, column, "a list can stand only after 'in' and in all, any, sum, min and max");
  }

  // Behind the '(' of a function whose only argument is a list.
  absl::StatusOr<int> ParseCallOfList(const Token& name, Op op) {
    const int open_column = cursor_.At(cursor_.place() - 1).column;
    std::vector<int> elements;
    bool is_generator = true;
    if (const auto clauses = cursor_.NextFor()) {
      const bool takes_conditions = op == Op::kAll || op == Op::kAny || op == Op::kSum;
      RETURN_IF_ERROR(ParseComprehension(*clauses, takes_conditions ? std::optional<Op>(op) : std::nullopt, &elements));
    } else {
      is_generator = false;
      ASSIGN_OR_RETURN(const int list, ParseListOrGroup(&is_generator));
      elements = tree_.At(list).children;
    }
    if (!cursor_.TakeSymbol(")")) return Missing(")", open_column);
    return tree_.OfList(op, name.column, std::move(elements), is_generator);
  }

  absl::StatusOr<int> ParseCall() {
    const Token name = cursor_.Current();
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
    cursor_.Skip(2);
    const bool takes_list = function->op == Op::kAll || function->op == Op::kAny || function->op == Op::kSum;
    if ((takes_list || function->op == Op::kMin || function->op == Op::kMax) && cursor_.AtOnlyList()) {
      const Nesting nesting(&depth_);
      RETURN_IF_ERROR(CheckDepth());
      return ParseCallOfList(name, function->op);
    }
    if (takes_list) {
      return ErrorAt(text_, name.column,
                     fmt::format("{0} takes one list, such as {0}((a, b)) or {0}(x > 1 for x in (a, b))", name.text));
    }
    const int open_column = cursor_.At(cursor_.place() - 1).column;
    while (!cursor_.AtSymbol(")")) {
      ASSIGN_OR_RETURN(const int argument, ParseConditional());
      node.children.push_back(argument);
      if (!cursor_.TakeSymbol(",")) break;
    }
    if (!cursor_.TakeSymbol(")")) return Missing(")", open_column);
    const int count = static_cast<int>(node.children.size());
    if (count < function->arguments_min || (function->arguments_max >= 0 && count > function->arguments_max)) {
      const int most = function->arguments_max;
      std::string wanted = (most < 0 ? "at least " : "") + std::to_string(function->arguments_min);
      if (most > function->arguments_min) wanted += fmt::format(" to {}", most);
      return ErrorAt(text_, name.column,
                     fmt::format("{} takes {} argument{}, not {}", name.text, wanted, wanted == "1" ? "" : "s", count));
    }
    if (node.op == Op::kRound && count == 2) node.op = Op::kRoundDigits;
    return tree_.Add(std::move(node));
  }

  const std::string_view text_;
  Cursor cursor_;
  int depth_ = 0;
  std::vector<std::pair<std::string, int>> bound_;  // variables of the loops around, and the nodes they stand for
  TreeBuilder tree_;
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
  std::vector<std::string> names = {"and", "or", "not", "in", "if", "else", "for", "**", "~"};
  for (const expression::BinarySpec& spec : expression::kBinaries) names.emplace_back(spec.text);
  for (const expression::CompareSpec& spec : expression::kCompares) names.emplace_back(spec.text);
  return names;
}

}  // namespace tunefarm
