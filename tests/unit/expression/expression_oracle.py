"""Answers what Python makes of expressions: one JSON object per line in, one line per expression out.

Every intermediate integer must fit in 64 bits, as in the expression language; Python's own operators, precedence and
short circuits do the rest. Lines: "bool True", "int 5", "float 0x1.8p+1", "str 'a'" or "error overflow|zero|other".
"""
import ast
import json
import math
import sys

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class OutOfRange(Exception):
    pass


def check(value):
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise OutOfRange
    if isinstance(value, complex):
        raise ValueError("complex")
    return value


def integer(value):
    if not isinstance(value, (int, float)):
        raise TypeError
    return check(int(value))


def ceil_div(a, b):
    return check(-(-a // b))


def power(a, b):
    # Keeps 9**9**9 from being computed: all that is far out of range.
    if isinstance(a, int) and isinstance(b, int) and b > 64 and abs(a) > 1:
        raise OutOfRange
    return check(a**b)


def shift_left(a, b):
    # Keeps 1 << 9**9 from being computed.
    if isinstance(a, int) and isinstance(b, int) and b > 64 and a != 0:
        raise OutOfRange
    return check(a << min(b, 64) if isinstance(b, int) else a << b)


def rounded(value, *digits):
    if isinstance(value, int) and digits and isinstance(digits[0], int):
        return check(round(value, max(digits[0], -30)))
    return check(round(value, *digits))


def total(values):
    # Not sum(), which from Python 3.12 on corrects the rounding of floats.
    result = 0
    for value in values:
        result = binary(lambda a, b: a + b, result, value)
    return result


def is_pow2(n):
    if not isinstance(n, int):
        raise TypeError
    return n > 0 and n & (n - 1) == 0


def number(value):
    if not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


FUNCTIONS = {
    "min": min, "max": max, "abs": lambda v: check(abs(v)), "ceil_div": ceil_div,
    "round_up": lambda a, b: check(-(-a // b) * b), "int": integer, "float": number, "bool": bool,
    "log2": lambda v: math.log2(v) if isinstance(v, (int, float)) else number(v), "is_pow2": is_pow2,
    "round": rounded, "all": all, "any": any, "sum": total, "range": range,
}


class Checked(ast.NodeTransformer):
    """Wraps arithmetic in range checks. Strings have no arithmetic in the language."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        name = {ast.Pow: "_power", ast.LShift: "_shift_left"}.get(type(node.op), "_binary")
        operands = [node.left, node.right]
        if name != "_binary":
            return ast.Call(ast.Name(name, ast.Load()), operands, [])
        arguments = ast.arguments([], [ast.arg("a"), ast.arg("b")], None, [], [], None, [])
        body = ast.BinOp(ast.Name("a", ast.Load()), node.op, ast.Name("b", ast.Load()))
        return ast.Call(ast.Name(name, ast.Load()), [ast.Lambda(arguments, body)] + operands, [])

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name("_check", ast.Load()), [node], [])


def binary(function, a, b):
    if isinstance(a, str) or isinstance(b, str):
        raise TypeError
    return check(function(a, b))


def describe(value):
    if isinstance(value, float):
        return "float " + ("nan" if value != value else value.hex())
    return f"{type(value).__name__} {value!r}"


def main():
    for line in sys.stdin:
        request = json.loads(line)
        # As globals, which comprehensions see.
        names = dict(FUNCTIONS, __builtins__={}, _binary=binary, _check=check, _power=power, _shift_left=shift_left, **request["names"])
        try:
            tree = ast.fix_missing_locations(Checked().visit(ast.parse(request["text"], mode="eval")))
            print(describe(eval(compile(tree, "expression", "eval"), names)))
        except (OutOfRange, OverflowError):
            print("error overflow")
        except ZeroDivisionError:
            print("error zero")
        except (TypeError, ValueError):
            print("error other")


main()
