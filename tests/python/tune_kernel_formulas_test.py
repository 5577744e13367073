"""tune_kernel's formulas, spaces and grids: strings and functions of parameters, and what they become."""

import math
import unittest
import warnings

import numpy

import tunefarm
from tunefarm.inline import _definition, _expressions, _space


class Formulas(unittest.TestCase):
    DOMAINS = {"a": [1, 2, 4, 8], "b": [16, 32, 64], "s": ["x", "y"], "f": [0.5, 1.5]}

    def formula(self, given, truth=False):
        return _expressions.Formula(given, "here", self.DOMAINS, truth)

    def text(self, given):
        return _expressions.text_of(self.formula(given).tree(self.DOMAINS))

    def rule(self, given):
        return self.formula(given, True).constraints(self.DOMAINS)

    def test_strings_of_the_language_stay_as_they_are(self):
        for text in ("a * b", "b // a", "b / a", "-a", "min(a, b) + max(a, 2, b)", "int(b / 3)", "a if b > 16 else 2", "f * 2",
                     "b % a == 0 and a != 2", "s == 'x'", "a in (1, 2)", "1 < a <= 4", "all((a > 1, b > 2))"):
            self.assertEqual(self.text(text), text)

    def test_functions_are_traced(self):
        for function, text in (
                (lambda p: p["a"] * p["b"], "a * b"), (lambda p: numpy.int32(3) * p["a"], "3 * a"),
                (lambda p: p["b"] / p["a"], "b / a"), (lambda p: 5, "5"), (lambda p: numpy.ceil(4.5), "5.0"), (lambda p: -p["a"] + abs(p["f"]), "-a + abs(f)"),
                (lambda p: 32 if p["a"] > 2 else p["b"], "32 if a > 2 else b"), (lambda p: math.ceil(p["b"] / 3), "int(-(-(b / 3) // 1))"),
                (lambda p: max(p["a"], p["b"]), "b if b > a else a")):
            self.assertEqual(self.text(function), text)

    def test_conditions_are_followed_both_ways(self):
        for function, text in (
                (lambda p: p["a"] * p["b"] <= 64 and p["a"] != 2, "a * b <= 64 and a != 2"),
                (lambda p: p["a"] == 1 or p["b"] > 16, "a == 1 or b > 16"), (lambda p: not p["a"] > 1, "a <= 1"),
                (lambda p: 1 < p["a"] < 8, "a > 1 and a < 8"), (lambda p: p["s"] == "x", "s == 'x'"),
                (lambda p: p["a"] in (2, 4), "a == 2 or a == 4")):
            self.assertEqual(self.rule(function), [text])

    def test_what_cannot_be_traced_becomes_a_table(self):
        self.assertEqual(self.text(lambda p: int(p["b"] / 3)), "5 if b == 16 else 10 if b == 32 else 21")
        self.assertEqual(self.text("math.ceil(b / 3)"), "6 if b == 16 else 11 if b == 32 else 22")
        self.assertEqual(self.text(lambda p: f"v{p['s']}"), "'vx' if s == 'x' else 'vy'")
        self.assertEqual(self.text(lambda p: sum(range(p["a"]))), "(0 if a == 1 else 1) if a in (1, 2) else 6 if a == 4 else 28")
        # Symbols are no ints, so that the trace is another function.
        self.assertEqual(self.rule(lambda p: isinstance(p["a"], int) and p["b"] > 16), ["b != 16"])

    def test_what_the_language_cannot_do_with_strings_becomes_a_table(self):
        domains = {"a": [1, 2, 4], "s": ["row", "col"]}
        for given, text in (("a > 2 and s", "a not in (1, 2)"), ("s", "True"), ("s + 'x' == 'rowx'", "s == 'row'"),
                            (lambda p: p["s"] if p["a"] > 2 else p["a"] - 1, "a != 1"), ("s == 'row' or a == 1", "s == 'row' or a == 1"),
                            (lambda p: p["s"] in ("row", "x"), "s == 'row' or s == 'x'"), ("s in ('row', 'x')", "s in ('row', 'x')")):
            formula = _expressions.Formula(given, "rule", domains, is_condition=True)
            self.assertEqual(formula.constraints(domains), [text])
        chosen = _expressions.Formula("s if a > 1 else 'none'", "value", domains)
        self.assertEqual(_expressions.text_of(chosen.tree(domains)), "s if a > 1 else 'none'")

    def test_a_function_without_a_value_is_false(self):
        def even(p):
            if p["a"] % 2 == 0:
                return True

        space = _space.Space({"a": [1, 2, 3, 4]}, [even, lambda p: None if math.sqrt(p["a"]) < 2 else 1])
        self.assertEqual(space.constraints(), ["a % 2 == 0", "a not in (1, 2, 3)"])
        self.assertEqual(list(space.configs()), [{"a": 4}])

    def test_a_division_by_zero_is_false(self):
        self.assertEqual(self.rule("b % (a - 1) == 0"), ["a not in (1, 4, 8)"])
        self.assertEqual(self.rule("b % a == 0"), ["b % a == 0"])

    def test_rules_that_are_too_long_are_split(self):
        domains = {"a": list(range(40)), "b": list(range(40)), "c": [1, 2]}
        chosen = numpy.random.default_rng(1).random((40, 40)) < 0.5
        rules = _expressions.Formula(lambda p: bool(chosen[int(p["a"]), int(p["b"])]), "here", domains, True).constraints(domains)
        self.assertGreater(len(rules), 10)
        for rule in rules:
            self.assertLessEqual(len(rule), _expressions.TEXT_BYTES_MAX)
        for a, b in ((0, 0), (3, 17), (39, 39), (20, 1), (1, 20)):
            self.assertEqual(all(eval(rule, {}, {"a": a, "b": b, "c": 1}) for rule in rules), bool(chosen[a, b]), (a, b))

    def test_errors_name_what_is_wrong(self):
        for given, reason in (("a*c", "here: 'a[*]c' has the unknown name 'c'; parameters are a, b, s, f"), ("a*", "no Python expression"),
                              (lambda p: p["q"], "here reads the unknown parameter 'q'"), ([1], "here is a list"), (math.nan, "finite"),
                              (1 << 70, "64 bits"), (lambda p: p["s"] - 1, "here fails for .*TypeError")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.text(given)

    def test_a_table_is_bounded(self):
        domains = {f"p{number}": list(range(100)) for number in range(4)}
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "100000000 combinations of p0, p1, p2, p3, more than 1000000"):
            _expressions.Formula(lambda p: int(p["p0"] + p["p1"] + p["p2"] + p["p3"]), "here", domains).tree(domains)


class Spaces(unittest.TestCase):
    def test_restrictions_in_all_forms(self):
        space = _space.Space({"x": [8, 16, 32, 64], "y": [1, 2, 4], "t": [1, 2]}, [
            "x == y * t * 8", lambda p: p["x"] > 8, lambda x, y: x * y >= 32, lambda **p: p["t"] < 3, (lambda y: y < 4, ["y"])])
        self.assertEqual(space.constraints(), ["x == y * t * 8", "x > 8", "x * y >= 32", "t < 3", "y < 4"])
        self.assertEqual(list(space.configs()), [{"x": 16, "y": 2, "t": 1}, {"x": 32, "y": 2, "t": 2}])
        self.assertEqual((space.first(), space.count()), ({"x": 16, "y": 2, "t": 1}, 2))
        self.assertEqual(_space.Space({"x": [1]}, "x > 0").count(), 1)
        self.assertEqual(_space.Space({"x": [1, 2]}, lambda p: p["x"] > 1).first(), {"x": 2})

    def test_values_have_one_type(self):
        space = _space.Space({"i": numpy.arange(3), "f": [0, 0.5], "b": [True, False], "m": [True, 2], "r": range(2), "s": ["a"],
                              "d": numpy.linspace(0, 1, 3), "t": numpy.array(["x", "y"])}, None)
        self.assertEqual(space.domains, {"i": [0, 1, 2], "f": [0.0, 0.5], "b": [True, False], "m": [1, 2], "r": [0, 1], "s": ["a"],
                                         "d": [0.0, 0.5, 1.0], "t": ["x", "y"]})
        self.assertEqual({name: type(values[0]) for name, values in space.domains.items()},
                         {"i": int, "f": float, "b": bool, "m": int, "r": int, "s": str, "d": float, "t": str})

    def test_large_spaces_need_no_listing(self):
        space = _space.Space({f"p{number}": list(range(64)) for number in range(10)}, ["p0 == 63", "p9 * p8 == 62 * 63"])
        self.assertEqual(space.first()["p0"], 63)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "1000000 combinations .* max_fevals"):
            space.count()

    def test_what_is_no_space(self):
        for params, restrictions, reason in (
                ([1], None, "dict of lists"), ({"a b": [1]}, None, "no name of a parameter"), ({"a": 5}, None, "no list"), ({"a": []}, None, "no value"),
                ({"a": [1, "x"]}, None, "strings and numbers"), ({"a": [[1]]}, None, "is a list"), ({"a": [1]}, 5, "restrictions is an int"),
                ({"a": [1]}, [5], r"restrictions\[0\] is an int"), ({"a": [1]}, ["b > 1"], r"restrictions\[0\].*'b'"),
                ({"a": [1]}, [(len, ["b"])], "unknown parameter 'b'")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                _space.Space(params, restrictions)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "no config keeps all restrictions"):
            _space.Space({"a": [1]}, "a > 1").first()


class Launches(unittest.TestCase):
    def launch(self, size, *divisors, names=None, shared=None, **parameters):
        space = _space.Space(parameters, None)
        return _definition.Launch(size, (*divisors, *(None,) * (3 - len(divisors))), names, shared, space)

    def test_grids(self):
        both = {"block_size_x": [32, 64], "block_size_y": [1, 2], "tile": [1, 2], "half": [0.5, 1.5]}
        for size, divisors, grid in (
                (1000, (), ["ceil_div(1000, block_size_x)", "ceil_div(1, block_size_y)", "1"]),
                ((1000, 20), ([], []), ["1000", "20", "1"]),
                (numpy.int32(7), (["block_size_x", "tile"], []), ["ceil_div(7, block_size_x * tile)", "1", "1"]),
                ("tile * 8", (["block_size_x/tile"], []), ["ceil_div(tile * 8, int(block_size_x / tile))", "1", "1"]),
                (("tile", 4), (lambda p: p["tile"] * 3, [lambda p: 2]), ["ceil_div(tile, tile * 3)", "ceil_div(4, 2)", "1"]),
                (lambda p: (p["tile"] * 2, 3), ([], []), ["tile * 2", "3", "1"]),
                (100, (lambda p: p["half"], []), ["int(-(-100 / half // 1))", "1", "1"]),
                (100, ([4, "tile"], []), ["ceil_div(100, 4 * tile)", "1", "1"])):
            self.assertEqual(self.launch(size, *divisors, **both).grid, grid)
            for text in grid:
                self.assertIsInstance(eval(text, {"ceil_div": lambda a, b: -(-a // b)},
                                           {"block_size_x": 32, "block_size_y": 1, "tile": 2, "half": 0.5}), int)

    def test_blocks(self):
        self.assertEqual(self.launch(1, block_size_x=[32], block_size_y=[2]).block, ["block_size_x", "block_size_y", "1"])
        self.assertEqual(self.launch(1, tile=[1]).block, ["256", "1", "1"])
        self.assertEqual(self.launch(1, BLOCK_SIZE_X=[32]).block, ["BLOCK_SIZE_X", "1", "1"])
        own = self.launch(100, names=["tx", "ty"], tx=[32, 64], ty=[1])
        self.assertEqual((own.block, own.grid), (["tx", "ty", "1"], ["ceil_div(100, tx)", "ceil_div(1, ty)", "1"]))

    def test_dynamic_shared_memory(self):
        for shared, text in (({"size": 64}, "64"), ({"size": "tile * 4"}, "tile * 4"), ({"size": lambda p: p["tile"] / 2}, "int(tile / 2)"),
                             (lambda p: {"size": p["tile"] * 8}, "tile * 8"), (None, "")):
            self.assertEqual(self.launch(1, shared=shared, tile=[1, 2]).dynamic_shared_bytes, text)
        with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "other keys"):
            self.launch(1, shared={"size": 1, "config": 2}, tile=[1])

    def test_wrong_sizes(self):
        for size, reason in (((1, 2, 3, 4), "4 extents"), ((), "0 extents"), ("nothing", "unknown name"), (None, "NoneType"), (0, "problem_size is 0; give a number above 0"),
                             ((4, -1), "problem_size is -1")):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, reason):
                self.launch(size, tile=[1])
        for divisor in (0, [4, 0], "0", lambda p: -2.5):
            with self.assertRaisesRegex(tunefarm.InvalidArgumentError, "grid_div_x is (0|-2.5); give a number above 0"):
                self.launch(1, divisor, tile=[1])
        self.assertEqual(self.launch("-(-3)", "~(-5)", tile=[1]).grid[0], "ceil_div(--3, ~-5)")
        with self.assertWarnsRegex(UserWarning, "block_size_names: 'ty' is no tunable parameter"):
            self.launch(1, names=["tx", "ty"], tx=[32])


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
