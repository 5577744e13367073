"""Python expressions written again: in the expression language of kernel definitions, or in C++ over doubles."""

import ast

from json_text import inexact, shown
from python_text import SYMBOLS, WRITTEN_MAX, Evaluator, TextError, kind_name, literal

# How tightly a written text binds, loosest first.
LOOSEST, OR, AND, NOT, COMPARED, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGNED, RAISED, ATOM = range(14)
BIT_LEVELS = {"|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "<<": SHIFT, ">>": SHIFT}

FOLDS = {"any": (OR, " or ", " || "), "all": (AND, " and ", " && "), "sum": (SUM, " + ", " + "), "prod": (PRODUCT, " * ", " * ")}
CXX_FUNCTIONS = {
    "abs": "fabs", "int": "trunc", "float": "", "round": "nearbyint", "ceil": "ceil", "floor": "floor", "sqrt": "sqrt",
    "log": "log", "log2": "log2", "exp": "exp", "sin": "sin", "cos": "cos",
}  # fmt: skip


class Written:
    """A text, how tightly it binds, and the type of its values where it is known: bool, int, float or str."""

    def __init__(self, text, tightness=ATOM, type_=None):
        self.text, self.tightness, self.type = text, tightness, type_

    def inside(self, needed):
        return self.text if self.tightness >= needed else f"({self.text})"


def is_integral(*written):
    return all(w.type in (int, bool) for w in written)


def joined(*written):
    """The type of a value that is one of several."""
    types = {w.type for w in written}
    return types.pop() if len(types) == 1 else None


def arithmetic_type(a, b):
    return int if is_integral(a, b) else float if float in (a.type, b.type) else None


def natural(node):
    return isinstance(node, ast.Constant) and type(node.value) in (bool, int) and node.value >= 0


class Names:
    """What the names of a text mean.

    variables: name to Written, which stays symbolic.
    constants: name to the value that is put in its place; a list may be indexed and handed to functions.
    elements:  name of a list to the Written of each element: ProblemSize[0].
    """

    def __init__(self, variables=None, constants=None, elements=None):
        self.variables, self.constants, self.elements = variables or {}, constants or {}, elements or {}

    def is_symbolic(self, name):
        return name in self.variables or name in self.elements


class Writer:
    """Used once, by write()."""

    def __init__(self, text, names, is_cxx=False):
        self.text, self.names, self.is_cxx = text, names, is_cxx
        self.evaluator = Evaluator(text)
        self.substitutions = {}  # of a loop's name, while an element is written

    def write(self):
        return self.print(self.text.root, {})

    def error(self, node, message):
        return TextError(self.text.place_of(node), message)

    def no_counterpart(self, node, what):
        language = "C++ code over doubles" if self.is_cxx else "the expression language"
        return self.error(node, f"{what} has no counterpart in {language}")

    def checked(self, node, text, tightness=ATOM, type_=None):
        if len(text) > WRITTEN_MAX:
            raise self.error(node, "written out, the expression is too long")
        return Written(text, tightness, type_)

    def is_constant(self, node, bound):
        """No variable inside. A name that is unknown is not constant: it is reported where it stands."""
        self.evaluator.spend(1, node)
        if isinstance(node, ast.Name):
            if node.id in bound:
                return True
            known = node.id in self.names.constants and not self.names.is_symbolic(node.id)
            return known and node.id not in self.substitutions
        if isinstance(node, ast.Attribute):
            return False
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = dict(bound)
            for clause in node.generators:
                if not self.is_constant(clause.iter, inner):
                    return False
                inner.update((name, 0) for name in self.text.targets(clause))
                for condition in clause.ifs:
                    if not self.is_constant(condition, inner):
                        return False
            return self.is_constant(node.elt, inner)
        # A loop, not all(): the depth of calls from C is bounded more tightly than that of Python's own.
        for child in self.text.children(node):
            if not self.is_constant(child, bound):
                return False
        return True

    def constant(self, node, bound):
        return self.evaluator.value(node, {**self.names.constants, **bound})

    def literal(self, node, value):
        if isinstance(value, list):
            raise self.no_counterpart(node, "a list here")
        if not self.is_cxx:
            is_negative = not isinstance(value, str) and value < 0
            return Written(literal(value), SIGNED if is_negative else ATOM, type(value))
        if isinstance(value, str):
            raise self.no_counterpart(node, "a string")
        if inexact(value) if type(value) is int else "":
            raise self.error(node, inexact(value))
        text = repr(float(value))
        return Written(f"({text})" if value < 0 else text)

    def print(self, node, bound):
        # What no variable is in is a value, and written as one.
        if self.is_constant(node, bound):
            return self.literal(node, self.constant(node, bound))
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, bound)
        if isinstance(node, ast.BinOp):
            return self.binary(node, bound)
        if isinstance(node, ast.BoolOp):
            return self.bool_op(node, bound)
        if isinstance(node, ast.Compare):
            return self.compare(node, bound)
        if isinstance(node, ast.IfExp):
            return self.conditional(node, bound)
        if isinstance(node, ast.Call):
            return self.call(node, bound)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, bound)
        if isinstance(node, ast.Attribute):
            raise self.error(node, f"unknown name '{shown(node.value.id)}.{shown(node.attr)}'")
        raise self.no_counterpart(
            node, "a list that is not the right side of 'in' nor handed to min, max, sum, prod, any or all"
        )

    def name(self, node):
        if node.id in self.substitutions:
            return self.substitutions[node.id]
        if node.id in self.names.variables:
            return self.names.variables[node.id]
        if node.id in self.names.elements:
            raise self.no_counterpart(node, f"the list '{node.id}' as a whole")
        raise self.error(node, f"unknown name '{shown(node.id)}'")

    def unary(self, node, bound):
        op = SYMBOLS[type(node.op)]
        if op == "~" and self.is_cxx:
            raise self.no_counterpart(node, "'~'")
        operand = self.print(node.operand, bound)
        if op == "~":
            return self.checked(node, op + operand.inside(SIGNED), SIGNED, int)
        if op == "not":
            text = "!" + operand.inside(ATOM) if self.is_cxx else "not " + operand.inside(NOT)
            return self.checked(node, text, SIGNED if self.is_cxx else NOT, bool)
        type_ = int if is_integral(operand) else operand.type if operand.type is float else None
        return self.checked(node, op + operand.inside(ATOM if self.is_cxx else SIGNED), SIGNED, type_)

    def binary(self, node, bound):
        op = SYMBOLS[type(node.op)]
        if op in BIT_LEVELS and self.is_cxx:
            raise self.no_counterpart(node, f"'{op}'")
        a, b = self.print(node.left, bound), self.print(node.right, bound)
        if op in BIT_LEVELS:
            level = BIT_LEVELS[op]
            is_shift = level == SHIFT
            # Of two bools & | and ^ make a bool.
            type_ = int if is_shift or (is_integral(a, b) and int in (a.type, b.type)) else joined(a, b)
            return self.checked(node, f"{a.inside(level)} {op} {b.inside(level + 1)}", level, type_)
        if op == "**":
            return self.raised(node, a, b, natural(node.right))
        if self.is_cxx and op == "//":
            return self.checked(node, f"floor({a.inside(PRODUCT)} / {b.inside(SIGNED)})")
        if self.is_cxx and op == "%":
            x, y = a.inside(SIGNED), b.inside(SIGNED)
            return self.checked(node, f"({x} - {y} * floor({x} / {y}))")
        level = SUM if op in "+-" else PRODUCT
        type_ = arithmetic_type(a, b)
        if op == "/" and type_ is int:
            type_ = float
        return self.checked(node, f"{a.inside(level)} {op} {b.inside(level + 1)}", level, type_)

    def raised(self, node, a, b, is_natural):
        if self.is_cxx:
            return self.checked(node, f"pow({a.text}, {b.text})")
        type_ = (int if is_natural else None) if is_integral(a, b) else arithmetic_type(a, b)
        return self.checked(node, f"{a.inside(ATOM)} ** {b.inside(SIGNED)}", RAISED, type_)

    def bool_op(self, node, bound):
        level, name = (OR, "or") if isinstance(node.op, ast.Or) else (AND, "and")
        operands = [self.print(child, bound) for child in node.values]
        texts = [operands[0].inside(level)] + [operand.inside(level + 1) for operand in operands[1:]]
        op = {"or": "||", "and": "&&"}[name] if self.is_cxx else name
        return self.checked(node, f" {op} ".join(texts), level, joined(*operands))

    def compare(self, node, bound):
        parts = [self.print(node.left, bound).inside(ATOM if self.is_cxx else SUM)]
        operators = [SYMBOLS[type(op)] for op in node.ops]
        for op, child in zip(operators, node.comparators):
            if op in ("in", "not in"):
                elements = self.elements(child, bound)
                if self.is_cxx or not elements:
                    raise self.no_counterpart(node, "this 'in'")
                parts.append("[" + ", ".join(element.text for element in elements) + "]")
            else:
                parts.append(self.print(child, bound).inside(ATOM if self.is_cxx else SUM))
        if self.is_cxx:
            links = [f"{parts[i]} {op} {parts[i + 1]}" for i, op in enumerate(operators)]
            return self.checked(node, " && ".join(links), AND)
        return self.checked(node, parts[0] + "".join(f" {op} {p}" for op, p in zip(operators, parts[1:])), COMPARED, bool)

    def conditional(self, node, bound):
        value, test, other = (self.print(child, bound) for child in (node.body, node.test, node.orelse))
        if self.is_cxx:
            return self.checked(node, f"(({test.text}) ? ({value.text}) : ({other.text}))")
        text = f"{value.inside(OR)} if {test.inside(OR)} else {other.inside(LOOSEST)}"
        return self.checked(node, text, LOOSEST, joined(value, other))

    def elements(self, node, bound):
        """The elements of a list, each written for itself."""
        if self.is_constant(node, bound):
            value = self.constant(node, bound)
            if not isinstance(value, list):
                raise self.error(node, f"a list is needed here, not a {kind_name(value)}")
            return [self.literal(node, element) for element in value]
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.print(child, bound) for child in node.elts]
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.turns(node, bound)
        if isinstance(node, ast.Call) and self.text.function(node) in ("list", "tuple") and len(node.args) == 1:
            return self.elements(node.args[0], bound)
        raise self.no_counterpart(node, "this list")

    def turns(self, node, bound):
        """The elements of a comprehension."""
        first = node.generators[0]
        is_plain = len(node.generators) == 1 and not first.ifs and isinstance(first.target, ast.Name)
        if is_plain and isinstance(first.iter, (ast.List, ast.Tuple)):
            return self.substituted(node, bound)
        for clause in node.generators:
            for part in [clause.iter, *clause.ifs]:
                if any(isinstance(n, ast.Name) and self.names.is_symbolic(n.id) for n in ast.walk(part)):
                    raise self.no_counterpart(node, "a comprehension whose list depends on parameters")
        elements = []
        names = {**self.names.constants, **bound}
        self.evaluator.each_turn(node, names, lambda scope: elements.append(self.print(node.elt, scope)), elements)
        return elements

    def substituted(self, node, bound):
        """[e for x in [a, b]] with variables in a and b: e once for each text that stands for x."""
        target = node.generators[0].target.id
        inner = {name: value for name, value in bound.items() if name != target}
        elements = []
        for child in node.generators[0].iter.elts:
            outer = dict(self.substitutions)
            self.substitutions[target] = self.print(child, bound)
            elements.append(self.print(node.elt, inner))
            self.substitutions = outer
        return elements

    def folded(self, node, name, elements):
        """Elements joined by an operator, or handed to a function of several arguments."""
        if name in ("min", "max"):
            if not elements:
                raise self.error(node, f"{name}() of nothing")
            if len(elements) == 1:
                return elements[0]
            if not self.is_cxx:
                return self.checked(node, f"{name}({', '.join(e.text for e in elements)})", ATOM, joined(*elements))
            text = elements[0].text
            for element in elements[1:]:
                text = self.checked(node, f"f{name}({text}, {element.text})").text
            return Written(text)
        level, op, cxx_op = FOLDS[name]
        if not elements:
            return self.literal(node, {"any": False, "all": True, "sum": 0, "prod": 1}[name])
        texts = [elements[0].inside(level)] + [element.inside(level + 1) for element in elements[1:]]
        text = (cxx_op if self.is_cxx else op).join(texts)
        if name in ("any", "all") and not self.is_cxx:
            return self.checked(node, f"bool({text})", ATOM, bool)
        type_ = elements[0].type
        if len(elements) > 1:
            type_ = int if is_integral(*elements) else float if any(e.type is float for e in elements) else None
        return self.checked(node, text, level if len(elements) > 1 else min(level, elements[0].tightness), type_)

    def call(self, node, bound):
        name, count = self.text.function(node), len(node.args)
        if name in ("min", "max", *FOLDS):
            if count == 1:
                return self.folded(node, name, self.elements(node.args[0], bound))
            if name in FOLDS:
                raise self.error(node, f"{name}() takes one argument here")
        if name == "len" and count == 1:
            return self.literal(node, len(self.elements(node.args[0], bound)))
        if name == "ceil" and count == 1 and not self.is_cxx:
            inner = node.args[0]
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
                # Exact where a float may not be.
                a, b = self.print(inner.left, bound), self.print(inner.right, bound)
                return self.checked(node, f"int(ceil_div({a.text}, {b.text}))", ATOM, int)
        arguments = [self.print(child, bound) for child in node.args]
        if name in ("min", "max"):
            return self.folded(node, name, arguments)
        if name == "pow" and count == 2:
            return self.raised(node, *arguments, natural(node.args[1]))
        if count != 1:
            raise self.no_counterpart(node, f"{shown(name)}() with {count} arguments")
        if self.is_cxx:
            if name not in CXX_FUNCTIONS:
                raise self.error(node, f"the function {shown(name)}() is not known")
            return self.checked(node, f"{CXX_FUNCTIONS[name]}({arguments[0].text})")
        return self.function(node, name, arguments[0])

    def function(self, node, name, x):
        """A function of one argument in the expression language."""
        if name in ("abs", "int", "float", "bool", "log2", "round"):
            of_abs = int if is_integral(x) else float if x.type is float else None
            type_ = {"abs": of_abs, "int": int, "bool": bool, "round": int}.get(name, float)
            return self.checked(node, f"{name}({x.text})", ATOM, type_)
        if name == "floor":
            return self.checked(node, f"int({x.inside(PRODUCT)} // 1)", ATOM, int)
        if name == "ceil":
            return self.checked(node, f"-int(-{x.inside(SIGNED)} // 1)", SIGNED, int)
        if name == "sqrt":
            return self.checked(node, f"{x.inside(ATOM)} ** 0.5", RAISED, float if x.type in (int, bool, float) else None)
        raise self.no_counterpart(node, f"the function {shown(name)}()")

    def subscript(self, node, bound):
        if not self.is_constant(node.slice, bound):
            raise self.no_counterpart(node, "an index that is not known beforehand")
        index = self.constant(node.slice, bound)
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        # params["block_size_x"]: how Kernel Tuner's lambdas name a parameter.
        if isinstance(index, str) and name in ("p", "params", "config"):
            if index not in self.names.variables:
                raise self.error(node, f"unknown name '{shown(index)}'")
            return self.names.variables[index]
        if type(index) in (bool, int) and name in self.names.elements:
            elements = self.names.elements[name]
            if not -len(elements) <= index < len(elements):
                raise self.error(node, f"there is no element {index} of {len(elements)}")
            return elements[index]
        raise self.no_counterpart(node, "this index")
