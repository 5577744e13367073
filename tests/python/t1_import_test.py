"""The reader of T1 files (server/interchange/t1): expressions, places of errors, definitions, and hostile files. What the
command makes of it is in t1_command_test.py."""

import base64
import json
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"])
DATA = ROOT / "tests" / "data" / "t1"
sys.path.insert(0, str(ROOT / "server" / "interchange" / "t1"))

import t1_main  # noqa: E402
from json_text import Document, Refused  # noqa: E402
from python_text import PythonText, TextError, literal  # noqa: E402
from python_writer import ATOM, Names, Writer, Written  # noqa: E402
from t1_file import T1  # noqa: E402

# As the program sets it: chains of operators are trees as deep as they are long.
sys.setrecursionlimit(t1_main.RECURSION_MAX)

MINIMAL = """{
  "ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "block_size_x", "Type": "int", "Values": "[32, 64]", "Default": 64},
      {"Name": "unroll", "Type": "uint", "Values": "[2**i for i in range(3)]"}
    ],
    "Conditions": [{"Parameters": ["unroll"], "Expression": "unroll <= 2"}]
  },
  "KernelSpecification": {
    "Language": "CUDA", "KernelName": "k", "KernelFile": "running_sum.cc",
    "ProblemSize": [100], "GridDivX": ["block_size_x"],
    "Arguments": [{"Name": "y", "Type": "float", "MemoryType": "Vector", "Size": "ProblemSize[0]", "AccessType": "WriteOnly"}]
  }
}"""


def answer(text, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return t1_main.answer(data, {"folder": str(DATA), **options})


def error_of(text, **options):
    made = answer(text, **options)
    return f"{made['place']}: {made['error']}" if "error" in made else "accepted"


def kernel_of(text, **options):
    made = answer(text, **options)
    assert "kernel" in made, made
    return json.loads(made["kernel"])


def replaced(text, before, after):
    assert before in text, before
    return text.replace(before, after, 1)


def evaluated(text, names=None):
    try:
        return literal(PythonText(text).evaluate(names))
    except TextError as error:
        return f"column {error.column}: {error.message}"


class Expressions(unittest.TestCase):
    def test_values_as_tuning_files_write_them(self):
        for text, value in (
            ("[16, 32]", "[16, 32]"),
            ("[1, 2, 4] + list(range(32, 128+1, 32))", "[1, 2, 4, 32, 64, 96, 128]"),
            ("[2**i for i in range(0, 6)]", "[1, 2, 4, 8, 16, 32]"),
            ("[1] + [2*i for i in range(1,4)]", "[1, 2, 4, 6]"),
            ("[i for i in range(20) if i % 7 == 0]", "[0, 7, 14]"),
            ("[a * b for a in [1, 2] for b in (3, 5)]", "[3, 5, 6, 10]"),
            ("[a + b for a, b in [[1, 2], (3, 4)]]", "[3, 7]"),
            ("[x if x > 1 else 0 for x in [1, 2] if x]", "[0, 2]"),
            ("['a', \"b\"]", "['a', 'b']"),
            ("1, 2,", "[1, 2]"),
            (" (1,\n 2)\n", "[1, 2]"),
            ("[1 << i for i in range(3)]", "[1, 2, 4]"),
            ("[0] * 3", "[0, 0, 0]"),
            ("sorted(set([3, 1, 3]))", "[1, 3]"),
            ("list(range(5, 0, -2))", "[5, 3, 1]"),
            ("[True, False]", "[True, False]"),
            ("[]", "[]"),
        ):
            self.assertEqual(evaluated(text), value, text)

    def test_arithmetic_is_pythons(self):
        names = {"filter_width": [15]}
        for text in (
            "-7 // 2", "-7 % 3", "7 % -3", "7.5 // 2", "-1.5 % 1", "6 / 3", "2 ** 10", "2 ** -1", "-2 ** 2", "2 ** 3 ** 2",
            "1 < 2 < 3", "1 == 1.0", "9007199254740993 == 9007199254740992.0", "not 0 and 5 or 7", "3 in [1, 2] or 3 not in (1, 2)",
            "max(filter_width) - 1", "int(3.9) + round(2.5) + abs(-1)", "len([1, 2]) + sum(range(4)) + min(3, 2) + [5, 6][-1]",
            "all(x > 0 for x in [1, 2])", "any(x > 2 for x in [1, 2])", "0x10 + 0b11 + 0o7 + 1_000", "True + True", "-True", "~5",
            "6 & 3 | 8 ^ 1", "'a' in 'cab'", "1e3", "10 ** 18",
        ):  # fmt: skip
            self.assertEqual(evaluated(text, names), literal(eval(text, {}, dict(names))), text)
        self.assertEqual(evaluated("math.ceil(7 / 2) + np.prod([2, 3])"), "10")

    def test_errors_name_the_column(self):
        for text, error in (
            ("[1, x]", "column 5: unknown name 'x'"),
            ("1 / 0", "column 3: division by zero"),
            ("(1) / (0)", "column 5: division by zero"),
            ("0 ** -1", "column 3: division by zero"),
            ("2 ** 63", "column 3: the result does not fit in 64 bits"),
            ("1 << 63", "column 3: the result does not fit in 64 bits"),
            ("9223372036854775807 + 1", "column 21: the result does not fit in 64 bits"),
            ("99999999999999999999", "column 1: the number does not fit in 64 bits"),
            ("1e999", "column 1: the number is out of the range of a 64-bit float"),
            ("[1, 2", "column 6: the text ends where ']' is expected"),
            ("[1, 2)", "column 6: ']' is expected here"),
            ("1) + (2", "column 2: ')' is not expected here"),
            ("1 +", "column 4: the text ends where a value is expected"),
            ("", "column 1: the text ends where a value is expected"),
            ("lambda x: x", "column 1: lambda is not supported; write the expression itself"),
            ("__import__('os')", "column 1: the function __import__() is not known"),
            ("os.system('x')", "column 3: 'os.' is not known; only math. and np. are"),
            ("math.pi", "column 1: unknown name 'math.pi'"),
            ("[1, 2][0:1]", "column 7: slices are not supported"),
            ("'a", "column 1: the string has no end"),
            ("'a\nb'", "column 1: the string has no end"),
            ("'\\x41'", "column 2: of the escapes only \\\\, \\', \\\", \\n and \\t are read"),
            ("[1][3]", "column 4: there is no element 3 of 1"),
            ("1 $ 2", "column 3: '$' is not expected here"),
            ("1if 2 else 3", "column 1: '1if' is not a number"),
            ("10.0 ** 400", "column 6: the result is not a finite number"),
            ("1 is 1", "column 1: 'is' and '@' are not supported"),
            ("range(3, step=1)", "column 15: arguments by name are not supported"),
            ("\u00e9", "column 1: '\u00e9' is not expected here"),
        ):
            self.assertEqual(evaluated(text), error, text)
        for text in ("{1}", "{1: 2}", "f'a'", "[*[1]]", "(yield)", "(x := 1)", "1j", "None", "...", "b'a'", "x.y", "f(1)(2)", "1 2", "[1 for x.y in [1]]"):
            self.assertRegex(evaluated(text), r"^column \d+: ", text)

    def test_work_and_memory_are_bounded(self):
        for text, words in (
            ("list(range(100000))", "more than 65536 values"),
            ("range(-9223372036854775807, 9223372036854775807)", "more than 65536 values"),
            ("[0] * 100000", "more than 65536"),
            ("[i for i in range(60000) for j in range(60000) if i < 0]", "too many steps"),
            ("[sum(range(60000)) for i in range(60000)]", "too many steps"),
            ("[[[0] * 60000] * 60000]", "too many steps"),
            ("[[0] * 60000] * 60000 == [[0] * 60000] * 60000", "too many steps"),
            ("[0] in [[0] * 60000] * 60000", "too many steps"),
            ("[[[[[1]]]]]", "nested more than 3"),
            ("(" * 2000 + "1" + ")" * 2000, "levels of nesting"),
            ("-" * 2000 + "1", "operators in a row"),
            ("not " * 2000 + "1", "operators in a row"),
            ("+".join("1" * 5000), "operators in a row"),
            ("1 if 1 else " * 2000 + "1", "operators in a row"),
            (".".join("a" * 5000), "operators in a row"),
            ("a . " * 2000 + "a", "operators in a row"),
            ("a" + "[0]" * 2000, "operators in a row"),
            ("(" * 60 + ("1" + "+1" * 30 + ")") * 60, "operators in a row"),
            ("'aaaaaaaa' " * 40, "more than 256 bytes"),
            (" " * 70_000, "at most 65536 are read"),
            ("2 ** 2 ** 2 ** 2 ** 2 ** 2", "64 bits"),
            ("'" + "a" * 300 + "'", "more than 256 bytes"),
            ("'aaaaaaaa' * 3", "cannot take"),
        ):
            self.assertIn(words, evaluated(text), text[:60])
        self.assertEqual(self.written("a" + " + a" * 450).text, "a" + " + a" * 450)
        self.assertEqual(evaluated("1" + "+1" * 450), "451")
        self.assertEqual(evaluated(" or ".join(["0"] * 5000) + " or 7"), "7")

    def written(self, text, is_cxx=False):
        variables = {"i": Written("x")} if is_cxx else {"a": Written("a", ATOM, int), "b": Written("B", ATOM, int)}
        sizes = [Written("px", ATOM, int), Written("py", ATOM, int)]
        try:
            return Writer(PythonText(text), Names(variables, {"c": [3, 5]}, {"ProblemSize": sizes}), is_cxx).write()
        except TextError as error:
            return Written(f"column {error.column}: {error.message}")

    def test_is_written_in_the_expression_language(self):
        for text, written, type_ in (
            ("a*b <= 1024", "a * B <= 1024", bool),
            ("32 <= a*b <= 1024", "32 <= a * B <= 1024", bool),
            ("(a+1)*(b-2)//-3 % 4", "(a + 1) * (B - 2) // -3 % 4", int),
            ("a-(b-1)", "a - (B - 1)", int),
            ("(a if b else 2) + 1", "(a if B else 2) + 1", int),
            ("not (a and b) or a in [1, 2] + [4]", "not (a and B) or a in [1, 2, 4]", bool),
            ("(-a) ** 2", "(-a) ** 2", int),
            ("a ** b", "a ** B", None),
            ("a / 2", "a / 2", float),
            ("ProblemSize[0] * max(c) + ProblemSize[-1]", "px * 5 + py", int),
            ("all(a % x == 0 for x in c)", "bool(a % 3 == 0 and a % 5 == 0)", bool),
            ("all(a * t <= 512 for t in [b, 2])", "bool(a * B <= 512 and a * 2 <= 512)", bool),
            ("sum([a, b, 1])", "a + B + 1", int),
            ("a * sum([a, b])", "a * (a + B)", int),
            ("np.prod([a, b]) <= 4", "a * B <= 4", bool),
            ("math.ceil(a / b)", "int(ceil_div(a, B))", int),
            ("floor(a / b)", "int(a / B // 1)", int),
            ("params['b'] > p[\"a\"]", "B > a", bool),
            ("pow(a, 2)", "a ** 2", int),
            ("min(a, b, c[0])", "min(a, B, 3)", int),
            ("a & (b - 1) == 0 | b", "(a & B - 1) == (0 | B)", bool),
            ("(a | 1) & ~b ^ 3 << 2", "(a | 1) & ~B ^ 12", int),
            ("(a == 1) | (b == 2)", "(a == 1) | (B == 2)", bool),
            ("a << (b << 1) >> -1", "a << (B << 1) >> -1", int),
            ("round(a / b) + 1", "round(a / B) + 1", int),
        ):
            made = self.written(text)
            self.assertEqual((made.text, made.type), (written, type_), text)

    def test_what_has_no_counterpart_says_so(self):
        self.assertEqual(self.written("i & 1", is_cxx=True).text, "column 3: '&' has no counterpart in C++ code over doubles")
        self.assertEqual(self.written("a > q").text, "column 5: unknown name 'q'")
        self.assertIn("a list that is not", self.written("[a, b]").text)
        self.assertIn("no counterpart", self.written("sum(range(a))").text)
        self.assertEqual(self.written("ProblemSize[2]").text, "column 12: there is no element 2 of 2")
        self.assertIn("an index that is not known", self.written("[1, 2][a]").text)

    def test_is_written_in_cxx(self):
        for text, written in (
            ("1+i*0.1", "1.0 + x * 0.1"),
            ("(i%10)*0.1", "(x - 10.0 * floor(x / 10.0)) * 0.1"),
            ("i//4", "floor(x / 4.0)"),
            ("1 if i % 2 == 0 else -1", "(((x - 2.0 * floor(x / 2.0)) == 0.0) ? (1.0) : ((-1.0)))"),
            ("math.sin(i) + max(i, 2, 3)", "sin(x) + fmax(fmax(x, 2.0), 3.0)"),
            ("0 < i < 3 and i != 1", "0.0 < x && x < 3.0 && (x != 1.0)"),
        ):
            self.assertEqual(self.written(text, is_cxx=True).text, written, text)
        self.assertIn("no counterpart", self.written("'a'", is_cxx=True).text)
        self.assertIn("write 9007199254740992.0", self.written("i + 9007199254740993", is_cxx=True).text)


class Json(unittest.TestCase):
    def test_what_is_no_json_is_refused_with_its_place(self):
        for text, error in (
            (b"", "1:1: this is not valid JSON: a value is expected here, where the file ends"),
            (b"[1,", "1:4: this is not valid JSON: a value is expected here, where the file ends"),
            (b"[1 2]", "1:4: this is not valid JSON: ',' or ']' is expected here"),
            (b"[NaN]", "1:2: this is not valid JSON: a value is expected here, not 'NaN]'"),
            (b"[Infinity]", "1:2: this is not valid JSON: a value is expected here, not 'Infinity]'"),
            (b"{\n \"a\" 1}", "2:6: this is not valid JSON: ':' is expected here"),
            (b"{a: 1}", "1:2: this is not valid JSON: a key in quotes is expected here"),
            (b"[01]", "1:3: this is not valid JSON: ',' or ']' is expected here"),
            (b"[1e999]", "1:2: this is not valid JSON: the number 1e999 is out of the range of a 64-bit float"),
            (b"[" + b"9" * 500 + b"]", f"1:2: this is not valid JSON: the number {'9' * 40} is out of the range of a 64-bit float"),
            (b'["\\ud800"]', "1:2: this is not valid JSON: the string holds half of a surrogate pair"),
            (b'["a\x01"]', "1:4: this is not valid JSON: invalid control character at"),
            (b'{"a": "\xc3\xa9", "b": "\xff"}', "1:19: this is not valid JSON: byte 0xff is not UTF-8"),
            (b"1 1", "1:3: this is not valid JSON: nothing may follow the value"),
            (b'{"a": 1, "a": 2}', '1:10: the key "a" stands here twice'),
            (b"[" * 100_000, "1:33: values are nested more than 32 deep"),
            (b"[" + b"1," * 300_000, "1:400000: there are more than 200000 values"),
            (b" " * (1 << 20) + b"1", "1:1: the file has 1048577 bytes; at most 1048576 are read"),
        ):
            with self.assertRaises(Refused, msg=text[:40]) as raised:
                Document(text)
            self.assertEqual(f"{raised.exception.place}: {raised.exception.message}", error)

    def test_values_know_their_places(self):
        root = Document(b'\xef\xbb\xbf{"a": [1,\n  "\xc3\xa9\\u00e9x\\ny"], "b/c": {"~": 18446744073709551616}}').root
        text = root.find("a").value[1]
        self.assertEqual(text.value, "\u00e9\u00e9x\ny")
        self.assertEqual((text.place(), text.pointer()), ("2:3", "/a/1"))
        self.assertEqual(text.error_in_text(3, "m").place, "2:6")
        number = root.find("b/c").find("~")
        self.assertEqual((number.value, number.pointer()), (1 << 64, "/b~1c/~0"))


class Files(unittest.TestCase):
    def test_a_small_file(self):
        kernel = kernel_of(MINIMAL)
        self.assertEqual(kernel["parameters"][0]["default_value"], {"int_value": 64})
        self.assertEqual(kernel["parameters"][1]["values"], {"ints": [1, 2, 4]})
        self.assertEqual(kernel["constraints"], [{"expression": "unroll <= 2"}])
        limited = kernel_of(MINIMAL, thread_limit=32)["constraints"][1]
        self.assertEqual(limited["expression"], "block_size_x <= 32")

    def test_grid_div_and_problem_size_decide_the_dialect(self):
        sizes = '"ProblemSize": [100], "GridDivX": ["block_size_x"]'
        self.assertFalse(T1(replaced(MINIMAL, sizes, '"GlobalSize": {"X": "100 // block_size_x"}').encode()).is_kernel_tuner)
        both = replaced(MINIMAL, '"GridDivX"', '"GlobalSize": {"X": "1"}, "GridDivX"')
        self.assertTrue(T1(both.encode()).is_kernel_tuner)
        self.assertIn('neither "ProblemSize" nor a "GlobalSize"', error_of(replaced(MINIMAL, sizes + ",", "")))

    def test_defects_of_published_files_are_accepted(self):
        # A default that is no value, a value twice, values as an array, no Parameters in a condition, unknown fields.
        text = replaced(MINIMAL, '"Default": 64', '"Default": 16')
        text = replaced(text, '"[32, 64]"', "[32, 64, 32]")
        text = replaced(text, '"Parameters": ["unroll"], ', "")
        text = replaced(text, '"Language"', '"Stream": null, "Misc": {"jitify": true}, "Language"')
        made = answer(text)
        self.assertEqual(json.loads(made["kernel"])["parameters"][0]["values"], {"ints": [32, 64]})
        self.assertEqual(made["notes"][:2], ["Parameter block_size_x lists a value twice; it counts once.",
                                             "Parameter block_size_x: the Default 16 is not among its values."])  # fmt: skip
        made = answer(replaced(MINIMAL, '"[32, 64]", "Default": 64', '"[0.5, 1]", "Default": [1]'))
        self.assertEqual(json.loads(made["kernel"])["parameters"][0]["values"], {"doubles": [0.5, 1.0]})

    def test_conditions_have_their_text_and_a_translation(self):
        def condition(text):
            return answer(replaced(MINIMAL, "unroll <= 2", text))["translated"][0]

        self.assertEqual(condition("block_size_x in list(range(32, 65, 32))"), {"text": "block_size_x in [32, 64]"})
        where = "/ConfigurationSpace/Conditions/0/Expression"
        self.assertEqual(condition("unrol <= 2"), {"error": f"7:62: {where}: unknown name 'unrol'"})
        self.assertEqual(condition("unroll <= "), {"error": f"7:72: {where}: the text ends where a value is expected"})

    def test_errors_name_the_field_and_the_place(self):
        space, kernel = "/ConfigurationSpace/TuningParameters", "/KernelSpecification"
        for before, after, error in (
            ('"[32, 64]"', '"[32, 64"', f"4:65: {space}/0/Values: the text ends where ']' is expected"),
            ('"[32, 64]"', '"[32, 1/0]"', f"4:64: {space}/0/Values: division by zero"),
            ('"[32, 64]"', '"[]"', f"4:57: {space}/0/Values: 'block_size_x' has no values"),
            ('"[2**i for i in range(3)]"', '"[0.5]"', f"5:52: {space}/1/Values: 0.5 is no int"),
            ('"[2**i for i in range(3)]"', '"[-1]"', f"5:52: {space}/1/Values: -1 is below 0, and the type is uint"),
            ('"[2**i for i in range(3)]"', '"list(range(5000))"', f"5:52: {space}/1/Values: 'unroll' has 5000 values; at most 4096 are read"),
            ('"Type": "int"', '"Type": "integer"', f"4:40: {space}/0/Type: 'integer' is none of bool, float, int, string, uint"),
            ('block_size_x", "Type', 'block size", "Type',
             f"4:16: {space}/0/Name: 'block size' cannot be a name: write [A-Za-z_][A-Za-z0-9_]*, at most 63 characters"),
            ('"unroll", "Type"', '"block_size_x", "Type"', f"5:7: {space}/1: there is already a parameter 'block_size_x'"),
            ('["unroll"]', '["unrol"]', "7:36: /ConfigurationSpace/Conditions/0/Parameters/0: this is not the name of a parameter"),
            ('"KernelName"', '"KernelNam"', f'9:26: {kernel}: "KernelName" is missing (misspelled as "KernelNam"?)'),
            ('"CUDA"', '"Cuda"', f"10:17: {kernel}/Language: 'Cuda' is none of CUDA, Hypertuner, OpenCL, Vulkan"),
            ('"CUDA"', '"OpenCL"', f"10:17: {kernel}/Language: kernels in OpenCL cannot be imported, only CUDA kernels (or host "
             "C++, with --language host)"),
            ("[100]", "[1, 2, 3, 4]", f"11:20: {kernel}/ProblemSize: a problem has 1 to 3 sizes, not 4"),
            ("[100]", "[0]", f"11:21: {kernel}/ProblemSize/0: 0 is not at least 1"),
            ('"Vector"', '"Local"', f"12:64: {kernel}/Arguments/0/MemoryType: arguments in local memory have no counterpart; use "
             "SharedMemory of the KernelSpecification"),
            ('"float"', '"custom"', f"12:41: {kernel}/Arguments/0/Type: arguments of type custom have no counterpart; declare a "
             "vector of a plain type instead"),
            ('"Size": "ProblemSize[0]", ', "", f'12:19: {kernel}/Arguments/0: "Size" is missing'),
            ('"ProblemSize[0]"', '"0"', f"12:82: {kernel}/Arguments/0/Size: a vector has at least one element, not 0"),
            ('"ProblemSize[0]"', '"16 * unroll"', f"12:86: {kernel}/Arguments/0/Size: a list here has no counterpart in the "
             "expression language"),
        ):  # fmt: skip
            self.assertEqual(error_of(replaced(MINIMAL, before, after)), error)

    def test_budgets_become_options(self):
        def budget(text):
            return T1(replaced(MINIMAL, '"KernelSpecification"', f'"Budget": {text}, "KernelSpecification"').encode()).budget

        count, seconds = '{"Type": "ConfigurationCount", "BudgetValue": 10}', '{"Type": "TuningDuration", "BudgetValue": 1.5}'
        self.assertEqual(budget(f"[{count}, {seconds}]"), "--max-trials 10 --max-seconds 2")
        # As BAT writes it.
        self.assertEqual(budget(count), "--max-trials 10")
        self.assertEqual(budget("[]"), "")
        for wrong in ("1", '"10"', '{"Type": "ConfigurationCount"}', count.replace("10", "-1"), count.replace("10", "1e13"),
                      count.replace("10", "9" * 300)):  # fmt: skip
            with self.assertRaises(Refused):
                budget(wrong)

    def test_integers_are_exact_or_refused(self):
        def values(type_, text):
            return replaced(MINIMAL, '"int", "Values": "[32, 64]", "Default": 64', f'"{type_}", "Values": {text}')

        big = (1 << 53) + 1
        for text in (f"[{big}, {-(1 << 63)}]", f'"[{big}, {1 - (1 << 63)} - 1]"'):
            ints = kernel_of(values("int", text))["parameters"][0]["values"]["ints"]
            self.assertEqual(ints, [big, -(1 << 63)])
        for type_, text in (("int", f"[{1 << 63}]"), ("int", f'"[{1 << 63}]"'), ("uint", f"[{1 << 64}]"), ("int", "[" + "9" * 300 + "]")):
            self.assertIn("does not fit in 64 bits", error_of(values(type_, text)))
        for text in (f"[{big}]", f'"[{big}]"', f'"[0.5, {big}]"'):
            self.assertIn(f"{big} is more than a 64-bit float holds exactly; write 9007199254740992.0", error_of(values("float", text)))
        self.assertEqual(kernel_of(values("float", f"[{1 << 60}]"))["parameters"][0]["values"], {"doubles": [float(1 << 60)]})

        def scalar(type_, value):
            entry = f'{{"Name": "n", "Type": "{type_}", "MemoryType": "Scalar", "FillValue": {value}}}'
            return replaced(MINIMAL, '"Arguments": [', f'"Arguments": [{entry}, ')

        self.assertEqual(kernel_of(scalar("int64", big))["arguments"][0]["scalar"]["value"], str(big))
        self.assertEqual(kernel_of(scalar("float", 16777217))["arguments"][0]["scalar"]["value"], "16777217.0")
        self.assertIn("holds exactly", error_of(scalar("double", big)))
        self.assertIn("4294967296 is not in the range of int32, -2147483648 to 2147483647", error_of(scalar("int32", 1 << 32)))
        self.assertIn("-1 is not in the range of uint64", error_of(scalar("uint64", -1)))
        vector = replaced(MINIMAL, '"WriteOnly"', f'"ReadOnly", "FillType": "Constant", "FillValue": {big}')
        self.assertIn("holds exactly", error_of(replaced(vector, '"float"', '"int64"')))
        self.assertIn("does not fit in 64 bits", error_of(replaced(MINIMAL, "[100]", f"[{1 << 63}]")))


class Definitions(unittest.TestCase):
    def read(self, name):
        return (DATA / name).read_text()

    def test_grid_and_block_of_kttf_follow_the_type_of_the_global_size(self):
        text = self.read("running_sum.json")
        for kind, grid in (("CUDA", "int(4096 / CHUNK)"), ("OpenCL", "(int(4096 / CHUNK)) // (1)")):
            kernel = kernel_of(replaced(text, '"GlobalSizeType": "CUDA"', f'"GlobalSizeType": "{kind}"'))
            self.assertEqual(kernel["launches"][0]["kernel"]["grid"][0], grid)

    def test_options_decide(self):
        text = self.read("stencil.json")
        kernel = kernel_of(text, name="My Stencil", thread_limit=64, is_unverified=True)
        self.assertEqual(kernel["display_name"], "my_stencil")
        self.assertEqual(kernel["constraints"][3]["expression"], "block_size_x * block_size_y <= 64")
        self.assertNotIn("reference", kernel)
        self.assertEqual(kernel["unverified_reason"], "imported without a reference")
        reference = {"file": str(DATA / "stencil.cu"), "entry": "stencil_reference", "grid": ["1200"], "block": ["256"]}
        launch = kernel_of(text, reference=reference)["reference"]["steps"][0]["kernel"]
        self.assertEqual((launch["entry"], len(launch["arguments"])), ("stencil_reference", 6))
        self.assertEqual(len(kernel_of(text, reference={**reference, "arguments": ["out", "scale"]})["reference"]["steps"][0]["kernel"]["arguments"]), 2)
        self.assertIn("'other'", error_of(text, reference={**reference, "arguments": ["out", "other"]}))
        self.assertIn("--reference-grid", error_of(text, reference={**reference, "grid": []}))
        self.assertTrue(answer(text, reference={**reference, "file": str(DATA / "none.cu")})["is_missing"])
        self.assertTrue(answer(text, source=str(DATA / "none.cu"))["is_missing"])

    def test_what_cannot_be_mapped_is_named_with_its_place(self):
        text = self.read("running_sum.json")
        for before, after, words in (
            ('"DataSource": "i % 8', '"DataSource": "j % 8', "/Arguments/0/DataSource: unknown name 'j'"),
            ('"FillType": "Generator"', '"FillType": "Script"', "data from scripts and files is not read"),
            ('"4096 / CHUNK"', '"4096 / CHNK"', "/GlobalSize/X: unknown name 'CHNK'"),
            ("running_sum.cc", "missing.cc", "--source names the kernel's source"),
            ("running_sum.cc", "../t4/small_T4.json", "--source names the kernel's source"),
            ("running_sum.cc", "/etc/hostname", "lies outside of"),
            ("running_sum.cc", ".", "lies outside of"),
        ):
            self.assertIn(words, error_of(replaced(text, before, after), language="host"))
        # An expected value from a file is left out, with a note.
        made = answer(replaced(text, '"TargetName": "y", "FillType": "Generator"', '"TargetName": "y", "FillType": "BinaryRaw"'), language="host")
        self.assertTrue(any("which is not read" in note for note in made["notes"]), made)

    def test_sources_are_the_file_and_what_it_includes(self):
        kernel = kernel_of(self.read("stencil.json"))
        self.assertEqual([source["path"] for source in kernel["sources"]], ["imported.cu", "stencil.cu", "stencil_bias.h"])
        self.assertEqual(base64.b64decode(kernel["sources"][1]["content"]), (DATA / "stencil.cu").read_bytes())


    def test_links_that_lead_out_of_the_folder_are_refused_by_name(self):
        text = self.read("stencil.json")
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory, "folder")
            folder.mkdir()
            secret = pathlib.Path(directory, "secret.h")
            secret.write_text("the secret")
            shutil.copy(DATA / "stencil.cu", folder)
            header = folder / "stencil_bias.h"
            header.symlink_to(secret)
            refused = error_of(text, folder=str(folder))
            self.assertIn("stencil_bias.h", refused)
            self.assertIn("lies outside of", refused)
            header.unlink()
            os.mkfifo(header)
            self.assertIn("is not a regular file", error_of(text, folder=str(folder)))
            header.unlink()
            shutil.copy(DATA / "stencil_bias.h", folder / "inner.h")
            header.symlink_to("inner.h")
            self.assertEqual(kernel_of(text, folder=str(folder))["sources"][2]["path"], "stencil_bias.h")


class HostileFiles(unittest.TestCase):
    """Damaged files, of a fixed seed: 1,500 with every run, TUNEFARM_FUZZ_SECONDS=N goes on for that long."""

    TOKENS = [
        "{", "}", "[", "]", ",", ":", '"', "null", "true", "0", "1", "-1", "0.5", "1e308", "1e999", "9223372036854775807",
        "-9223372036854775808", "18446744073709551616", '""', '"x"', "\\u0000", "\\", "NaN", "{}", "[]", "i", " for i in range(9)",
        " if ", " else ", "range(10**9)", "**", "//", "%", "(", ")", "max(", "sum(", "ProblemSize[0]", " and ", " not ", "'a'", "0x",
        "lambda", "__import__", "[[1]]", "*65536", "<<62", '"int"', '"float"', '"bool"', '"string"', '"Scalar"', '"Symbol"',
        '"Vector"', '"Random"', '"Generator"', '"OpenCL"', '"ReadOnly"', '"WriteOnly"', '"half4"', '"double"', '"uint8"', "\xff", "\n",
        "\\ud83d", "1if 1else ", "# ", "math.", "'", ".__class__",
    ]  # fmt: skip

    def damaged(self, text, rng):
        at = rng.randrange(len(text) + 1)
        found = min((i for i in (text.find(c, at) for c in ':,["') if i >= 0), default=at)
        at = min(found + 1, len(text))
        kind = rng.randrange(6)
        if kind == 0:
            return text[:at] + rng.choice(self.TOKENS) + text[at:]
        if kind == 1:
            return text[:at] + text[at + rng.randrange(1, 9) :]
        if kind == 2:
            end = min((i for i in (text.find(c, at) for c in ',]}"') if i >= 0), default=len(text))
            return text[:at] + rng.choice(self.TOKENS) + text[end:]
        if kind == 3:
            start = rng.randrange(len(text) + 1)
            return text[:at] + text[start : start + rng.randrange(60)] + text[at:]
        if kind == 4:
            return text[:at] + chr(rng.randrange(256)) + text[at + 1 :]
        return text[: rng.randrange(len(text) + 1)] if rng.randrange(4) == 0 else text

    def test_whatever_the_file_there_is_a_definition_or_an_error_with_a_place(self):
        seeds = [(DATA / name).read_text() for name in ("running_sum.json", "stencil.json")] + [MINIMAL]
        rng = random.Random(1)
        end = time.monotonic() + float(os.environ.get("TUNEFARM_FUZZ_SECONDS", 0))
        tried = accepted = 0
        while tried < 1500 or time.monotonic() < end:
            text = rng.choice(seeds)
            for _ in range(rng.randrange(1, 5)):
                text = self.damaged(text, rng)
            data = text.encode("latin-1" if rng.randrange(8) == 0 else "utf-8", "replace")
            made = answer(data, language=rng.choice(["cuda", "host"]), thread_limit=1024)
            tried += 1
            if "error" not in made:
                accepted += 1
                json.loads(made["kernel"])
                continue
            self.assertRegex(made["place"], r"^\d+:\d+$", (data, made))
            self.assertNotIn("cannot be read (", made["error"], (data, made))
            self.assertNotIn("nested too deeply", made["error"], data)
            self.assertFalse(re.search(r"[\x00-\x1f\x7f]", made["error"]), made)
            line, column = map(int, made["place"].split(":"))
            lines = data.split(b"\n")
            self.assertTrue(1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1, (data, made))
        self.assertGreater(accepted, 50)


if __name__ == "__main__":
    unittest.main()
