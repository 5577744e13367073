"""The Python that T1 files carry as text: values, conditions, sizes and generators are expressions that other tools hand
to eval(). Here they are parsed by `ast`, evaluated with bounded steps and memory, or written again in the expression
language of kernel definitions or in C++ over doubles. Nothing is executed but arithmetic on numbers, strings and lists.

  literals       ints of 64 bits, floats, True, False, strings, lists and tuples
  operators      or and not, comparisons, in, + - * / // % **, << >> & | ^ ~, a if c else b, x[i]
  comprehensions lists and generators, also nested
  functions      range list tuple len min max sum prod all any abs int float bool round pow sorted set
                 and, bare or behind math. or np.: ceil floor sqrt log log2 exp sin cos prod
"""

import ast
import math
import re

from json_text import fits, shown

TEXT_MAX = 64 * 1024
DEPTH_MAX = 64  # of brackets
OPERATORS_MAX = 500  # on one path of the tree
LIST_MAX = 65_536  # elements of one list
NESTING_MAX = 3  # of lists in lists
STRING_MAX = 256  # bytes
STEPS_MAX = 1_000_000  # nodes that one text may visit
WRITTEN_MAX = 64 * 1024

MODULES = ("math", "np", "numpy")
OF_NUMBER = ("abs", "int", "float", "round", "ceil", "floor", "sqrt", "log", "log2", "exp", "sin", "cos")
OF_LIST = ("list", "tuple", "len", "min", "max", "sum", "prod", "all", "any", "sorted", "set")
SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip

# What is looked at before `ast` sees the text: it bounds the depth of the tree, which `ast` does not do everywhere.
TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\\n\0]|\\.)*'|"(?:[^"\\\n\0]|\\.)*")|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<split>,|\band\b|\bor\b)|(?P<operator>\*\*|//|<<|>>|[-+*/%&|^~<>=!]=?|\b(?:not|if|else|in|for|is|lambda)\b)"""
    r"""|(?P<number>(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?)"""
    r"""(?![A-Za-z0-9_.]))|(?P<space>[ \t\r\n]+)|(?P<word>[A-Za-z0-9_.]+)|(?P<other>.)""",
    re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class TextError(Exception):
    """What is wrong at a byte of the text, counted from 1."""

    def __init__(self, column, message):
        super().__init__(message)
        self.column, self.message = column, message


def kind_name(value):
    return {bool: "bool", int: "int", float: "float", str: "string", list: "list"}[type(value)]


def is_number(value):
    return type(value) in (bool, int, float)


def is_integral(value):
    return type(value) in (bool, int)


def literal(value):
    """As the expression language reads it."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    if isinstance(value, list):
        return "[" + ", ".join(literal(element) for element in value) + "]"
    return repr(value)


def check_tokens(text):
    """Refuses what no reader accepts, and trees that are too deep: before `ast`, whose own bounds depend on its version."""
    levels = [[0, 0]]  # of each open bracket: operators since the last comma, and the most between two commas
    closing = []
    last = ""  # the last token, if a value must follow it
    column = 1
    for token in TOKEN.finditer(text):
        kind, word = token.lastgroup, token.group()
        if kind == "string":
            for escape in ESCAPE.finditer(word):
                if escape.group(1) not in "\\'\"nt":
                    raise TextError(column + escape.start(), "of the escapes only \\\\, \\', \\\", \\n and \\t are read")
        elif kind == "open":
            levels.append([0, 0])
            closing.append(CLOSING[word])
            if len(levels) > DEPTH_MAX:
                raise TextError(column, f"more than {DEPTH_MAX} levels of nesting")
        elif kind == "close":
            if not closing:
                raise TextError(column, f"'{word}' is not expected here")
            if word != closing[-1]:
                raise TextError(column, f"'{closing[-1]}' is expected here")
            closing.pop()
            count = 1 + max(levels.pop())
            levels[-1][0] += count
        elif kind == "split":
            levels[-1] = [0, max(levels[-1])]
        elif kind == "operator":
            levels[-1][0] += 1
        elif kind == "word":
            if word[0].isdigit():
                raise TextError(column, f"'{shown(word, 40)}' is not a number")
            levels[-1][0] += word.count(".")
        elif kind == "other" and word in "'\"":
            raise TextError(column, "the string has no end")
        elif kind == "other" and word != ":":
            raise TextError(column, f"'{shown(word)}' is not expected here")
        if levels[-1][0] > OPERATORS_MAX:
            raise TextError(column, f"more than {OPERATORS_MAX} operators in a row")
        if kind != "space":
            last = word if kind == "operator" or kind == "split" and word != "," else ""
        column += len(word.encode())
    if last or not text.strip(" \t\r\n"):
        raise TextError(column, "the text ends where a value is expected")
    if closing:
        raise TextError(column, f"the text ends where '{closing[-1]}' is expected")


class PythonText:
    """A parsed text. `names` of evaluate() are values; see Writer for the others."""

    def __init__(self, text):
        if len(text.encode()) > TEXT_MAX:
            raise TextError(1, f"the text has {len(text.encode())} bytes; at most {TEXT_MAX} are read")
        check_tokens(text)
        # A line break inside an expression is white space; it cannot be inside a string here.
        line = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
        self.source = line.strip(" ")
        self.indent = len(line) - len(line.lstrip(" "))
        self.bytes = self.source.encode()
        try:
            self.root = ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            offset = min(max(error.offset or 1, 1), len(self.source) + 1)
            column = self.indent + len(self.source[: offset - 1].encode()) + 1
            raise TextError(column, f"this is not a Python expression: {shown(error.msg or '', 100)}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise TextError(1, f"this is not a Python expression that can be read: {shown(str(error), 100)}") from None
        self.check(self.root)

    def column(self, node):
        return self.indent + node.col_offset + 1

    def column_behind(self, node, symbol):
        """Of an operator: what stands between it and the end of its left operand are brackets and blanks."""
        found = self.bytes.find(symbol.split()[0].encode(), node.end_col_offset)
        return self.indent + found + 1 if found >= 0 else self.column(node)

    def place_of(self, node):
        """Where an error of the node is shown: at its operator, if it has one behind an operand."""
        if isinstance(node, ast.BinOp):
            return self.column_behind(node.left, SYMBOLS[type(node.op)])
        if isinstance(node, ast.BoolOp):
            return self.column_behind(node.values[0], SYMBOLS[type(node.op)])
        if isinstance(node, ast.Compare):
            return self.column_behind(node.left, SYMBOLS[type(node.ops[0])])
        if isinstance(node, ast.IfExp):
            return self.column_behind(node.body, "if")
        if isinstance(node, ast.Subscript):
            return self.column_behind(node.value, "[")
        return self.column(node)

    def check(self, node):
        """Raises where the tree has something that is not read; text order."""
        if isinstance(node, ast.Constant):
            if type(node.value) not in (bool, int, float, str):
                raise TextError(self.column(node), "this is no number, string or list")
            if type(node.value) is int and not fits(node.value):
                raise TextError(self.column(node), "the number does not fit in 64 bits")
            if type(node.value) is str and len(node.value.encode()) > STRING_MAX:
                raise TextError(self.column(node), f"the string has more than {STRING_MAX} bytes")
            if type(node.value) is float and not math.isfinite(node.value):
                raise TextError(self.column(node), "the number is out of the range of a 64-bit float")
        elif isinstance(node, ast.Lambda):
            raise TextError(self.column(node), "lambda is not supported; write the expression itself")
        elif isinstance(node, ast.Subscript):
            self.check(node.value)
            if isinstance(node.slice, ast.Slice):
                raise TextError(self.column_behind(node.value, "["), "slices are not supported")
            self.check(node.slice)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            self.check_comprehension(node)
        elif isinstance(node, ast.Call):
            self.check_call(node)
        elif isinstance(node, ast.Attribute):
            self.check_module(node)
        elif isinstance(node, (ast.Name, ast.List, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.IfExp, ast.Compare)):
            operators = getattr(node, "ops", [getattr(node, "op", None)])
            if any(op is not None and type(op) not in SYMBOLS for op in operators):
                raise TextError(self.column(node), "'is' and '@' are not supported")
            for child in self.children(node):
                self.check(child)
        else:
            raise TextError(self.column(node), "only numbers, strings, lists, operators, comprehensions and functions are read")

    def check_module(self, node):
        if not isinstance(node.value, ast.Name) or node.value.id not in MODULES:
            what = node.value.id if isinstance(node.value, ast.Name) else "this"
            raise TextError(self.column_behind(node.value, "."), f"'{shown(what)}.' is not known; only math. and np. are")

    def check_call(self, node):
        if isinstance(node.func, ast.Attribute):
            self.check_module(node.func)
        elif not isinstance(node.func, ast.Name):
            raise TextError(self.column_behind(node.func, "("), "only functions can be called")
        if node.keywords:
            raise TextError(self.column(node.keywords[0].value), "arguments by name are not supported")
        for argument in node.args:
            self.check(argument)

    def check_comprehension(self, node):
        if len(node.generators) > 8:
            raise TextError(self.column(node), "more than 8 'for' in one comprehension")
        self.check(node.elt)
        for clause in node.generators:
            targets = clause.target.elts if isinstance(clause.target, (ast.Tuple, ast.List)) else [clause.target]
            if clause.is_async or not all(isinstance(target, ast.Name) for target in targets):
                raise TextError(self.column(clause.target), "a loop's variable is a name, or names in brackets")
            self.check(clause.iter)
            for condition in clause.ifs:
                self.check(condition)

    @staticmethod
    def children(node):
        """The operands of a node without clauses, in the order in which `ast` has them."""
        if isinstance(node, ast.Call):
            return node.args
        if isinstance(node, ast.Subscript):
            return [node.value, node.slice]
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]

    @staticmethod
    def function(node):
        return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id

    @staticmethod
    def targets(clause):
        target = clause.target
        return [name.id for name in target.elts] if isinstance(target, (ast.Tuple, ast.List)) else [target.id]

    def evaluate(self, names=None):
        return Evaluator(self).value(self.root, names or {})


class Evaluator:
    """Python's arithmetic on 64-bit ints and doubles; the steps that one evaluator may take are bounded."""

    def __init__(self, text):
        self.text = text
        self.steps = STEPS_MAX

    def spend(self, steps, node):
        self.steps -= steps
        if self.steps < 0:
            raise TextError(self.text.place_of(node), "this takes too many steps")

    def error(self, node, message):
        return TextError(self.text.place_of(node), message)

    def value(self, node, names):
        self.spend(1, node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in names:
                raise self.error(node, f"unknown name '{shown(node.id)}'")
            return names[node.id]
        if isinstance(node, (ast.List, ast.Tuple)):
            return self.listed(node, [self.value(child, names) for child in node.elts])
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            elements = []
            self.each_turn(node, names, lambda scope: elements.append(self.value(node.elt, scope)), elements)
            return self.listed(node, elements)
        if isinstance(node, ast.IfExp):
            return self.value(node.body if self.value(node.test, names) else node.orelse, names)
        if isinstance(node, ast.BoolOp):
            is_or = isinstance(node.op, ast.Or)
            for child in node.values:
                result = self.value(child, names)
                if bool(result) == is_or:
                    break
            return result
        if isinstance(node, ast.Compare):
            return self.compared(node, names)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, self.value(node.operand, names))
        if isinstance(node, ast.BinOp):
            operands = self.value(node.left, names), self.value(node.right, names)
            return self.charged(node, self.binary(SYMBOLS[type(node.op)], *operands, node))
        if isinstance(node, ast.Subscript):
            return self.subscript(node, self.value(node.value, names), self.value(node.slice, names))
        if isinstance(node, ast.Call):
            arguments = [self.charged(node, self.value(child, names)) for child in node.args]
            return self.charged(node, self.call(self.text.function(node), arguments, node))
        raise self.error(node, f"unknown name '{shown(node.value.id)}.{shown(node.attr)}'")  # ast.Attribute

    def charged(self, node, value):
        """Lists cost what they are long."""
        if isinstance(value, list):
            self.spend(len(value), node)
        return value

    def listed(self, node, elements):
        if len(elements) > LIST_MAX:
            raise self.error(node, f"a list would have more than {LIST_MAX} elements")
        if self.nesting(elements, node) > NESTING_MAX:
            raise self.error(node, f"lists are nested more than {NESTING_MAX} deep")
        return elements

    def nesting(self, elements, node):
        self.charged(node, elements)
        return 1 + max((self.nesting(element, node) for element in elements if isinstance(element, list)), default=0)

    def each_turn(self, node, names, visit, elements, index=0):
        """Calls `visit` with the names of each turn of a comprehension whose conditions hold."""
        if index == len(node.generators):
            visit(names)
            if len(elements) > LIST_MAX:
                raise self.error(node, f"a list would have more than {LIST_MAX} elements")
            return
        clause = node.generators[index]
        iterable = self.value(clause.iter, names)
        if not isinstance(iterable, list):
            raise self.error(clause.iter, f"'for ... in' needs a list, not a {kind_name(iterable)}")
        targets = self.text.targets(clause)
        inner = dict(names)
        for value in iterable:
            self.spend(1 + len(names), node)
            if isinstance(clause.target, ast.Name):
                inner[targets[0]] = value
            elif isinstance(value, list) and len(value) == len(targets):
                inner.update(zip(targets, value))
            else:
                raise self.error(node, f"the elements are not lists of {len(targets)}")
            if all(self.value(condition, inner) for condition in clause.ifs):
                self.each_turn(node, inner, visit, elements, index + 1)

    def compared(self, node, names):
        left = self.value(node.left, names)
        for op, child in zip(node.ops, node.comparators):
            right = self.value(child, names)
            if isinstance(right, list):
                self.nesting(right, node)  # a list of lists costs what all of them are long
            if not self.comparison(SYMBOLS[type(op)], left, right, node):
                return False
            left = right
        return True

    def comparison(self, op, a, b, node):
        if op in ("in", "not in"):
            if isinstance(b, str) and isinstance(a, str) or isinstance(b, list):
                return (a in b) == (op == "in")
            raise self.error(node, f"'in' needs a list, not a {kind_name(b)}")
        if op in ("==", "!="):
            return (a == b) == (op == "==")
        self.need_order(a, b, node, f"'{op}' cannot compare a {kind_name(a)} and a {kind_name(b)}")
        return a < b if op == "<" else a <= b if op == "<=" else a > b if op == ">" else a >= b

    def need_order(self, a, b, node, message):
        if not (is_number(a) and is_number(b) or isinstance(a, str) and isinstance(b, str)):
            raise self.error(node, message)

    def unary(self, node, value):
        op = SYMBOLS[type(node.op)]
        if op == "not":
            return not value
        if not is_number(value):
            raise self.error(node, f"'{op}' cannot take a {kind_name(value)}")
        if op == "~":
            if not is_integral(value):
                raise self.error(node, "'~' needs an int")
            return ~int(value)
        return self.number(-value if op == "-" else +value, node)

    def number(self, value, node):
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(node, "the result is not a finite number")
        if is_integral(value) and not fits(value):
            raise self.error(node, "the result does not fit in 64 bits")
        return value

    def binary(self, op, a, b, node):
        if is_number(a) and is_number(b):
            try:
                return self.number(self.arithmetic(op, a, b, node), node)
            except ZeroDivisionError:
                raise self.error(node, "division by zero") from None
            except OverflowError:
                raise self.error(node, "the result is not a finite number") from None
        if op == "+" and isinstance(a, list) and isinstance(b, list):
            return self.repeated(a, len(a) + len(b), node) + b
        if op == "*" and isinstance(a, list) and is_integral(b):
            return self.repeated(a, len(a) * max(b, 0), node) * max(b, 0)
        if op == "*" and is_integral(a) and isinstance(b, list):
            return self.repeated(b, len(b) * max(a, 0), node) * max(a, 0)
        if op == "+" and isinstance(a, str) and isinstance(b, str):
            if len((a + b).encode()) > STRING_MAX:
                raise self.error(node, "the string is too long")
            return a + b
        raise self.error(node, f"'{op}' cannot take a {kind_name(a)} and a {kind_name(b)}")

    def repeated(self, elements, length, node):
        if length > LIST_MAX:
            raise self.error(node, f"a list would have more than {LIST_MAX} elements")
        return elements

    def arithmetic(self, op, a, b, node):
        if is_integral(a) and is_integral(b):
            a, b = int(a), int(b)
        elif op in ("<<", ">>", "&", "|", "^"):
            raise self.error(node, f"'{op}' needs ints")
        if op == "+":
            return a + b
        if op == "-":
            return a - b
        if op == "*":
            return a * b
        if op == "/":
            return a / b
        if op == "//":
            return a // b
        if op == "%":
            return a % b
        if op == "**":
            return self.power(a, b, node)
        if op in ("<<", ">>"):
            if b < 0:
                raise self.error(node, "a shift by a negative number")
            return a >> b if op == ">>" else a << min(b, 64)
        return a & b if op == "&" else a | b if op == "|" else a ^ b

    def power(self, a, b, node):
        if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b > 64:
            raise self.error(node, "the result does not fit in 64 bits")
        if a < 0 and isinstance(b, float) and not b.is_integer():
            raise self.error(node, "a root of a negative number")
        return a**b

    def subscript(self, node, value, index):
        if not isinstance(value, list):
            raise self.error(node, f"a {kind_name(value)} has no elements")
        if not is_integral(index):
            raise self.error(node, "an index is an int")
        if not -len(value) <= index < len(value):
            raise self.error(node, f"there is no element {index} of {len(value)}")
        return value[index]

    def call(self, name, arguments, node):
        if name == "range":
            return self.range(arguments, node)
        if name == "pow":
            if len(arguments) != 2:
                raise self.error(node, "pow() takes 2 arguments")
            return self.binary("**", *arguments, node)
        if name in ("min", "max") and len(arguments) > 1:
            return self.of_list(name, arguments, node)
        if name not in OF_NUMBER and name not in OF_LIST and name != "bool":
            raise self.error(node, f"the function {shown(name)}() is not known")
        if len(arguments) != 1:
            raise self.error(node, f"{name}() takes one argument here")
        value = arguments[0]
        if name == "bool":
            return bool(value)
        if name in OF_NUMBER:
            return self.of_number(name, value, node)
        if name == "len" and isinstance(value, str):
            return len(value.encode())
        if not isinstance(value, list):
            raise self.error(node, f"{name}() needs a list, not a {kind_name(value)}")
        return value if name in ("list", "tuple") else len(value) if name == "len" else self.of_list(name, value, node)

    def range(self, arguments, node):
        if not all(is_integral(argument) for argument in arguments):
            raise self.error(node, "range() needs ints")
        if not 1 <= len(arguments) <= 3:
            raise self.error(node, "range() takes 1 to 3 arguments")
        first = arguments[0] if len(arguments) > 1 else 0
        end = arguments[1] if len(arguments) > 1 else arguments[0]
        step = arguments[2] if len(arguments) > 2 else 1
        if step == 0:
            raise self.error(node, "the step of range() is 0")
        if (end - first) / step > LIST_MAX:
            raise self.error(node, f"range() has more than {LIST_MAX} values")
        return list(range(first, end, step))

    def of_number(self, name, x, node):
        if not is_number(x):
            raise self.error(node, f"{name}() needs a number, not a {kind_name(x)}")
        if name in ("int", "round", "ceil", "floor"):
            rounded = {"int": math.trunc, "round": round, "ceil": math.ceil, "floor": math.floor}[name](x)
            return self.number(int(rounded), node)
        if name == "abs":
            return self.number(abs(x), node)
        if name == "sqrt" and x < 0 or name in ("log", "log2") and x <= 0:
            raise self.error(node, f"{name}() of {literal(x)}")
        try:
            return self.number(float(x) if name == "float" else getattr(math, name)(x), node)
        except OverflowError:
            raise self.error(node, "the result is not a finite number") from None

    def of_list(self, name, values, node):
        if name in ("any", "all"):
            return any(values) if name == "any" else all(values)
        if name in ("sum", "prod"):
            result = 0 if name == "sum" else 1
            for value in values:
                result = self.binary("+" if name == "sum" else "*", result, value, node)
            return result
        if name in ("min", "max") and not values:
            raise self.error(node, f"{name}() of nothing")
        message = "the elements have no order" if name in ("sorted", "set") else f"{name}() of values without an order"
        for value in values:
            self.need_order(values[0], value, node, message)
        if name in ("min", "max"):
            return min(values) if name == "min" else max(values)
        ordered = sorted(values)
        if name == "set":
            ordered = [value for i, value in enumerate(ordered) if i == 0 or value != ordered[i - 1]]
        return ordered
