"""Definitions as the Python client reads them: the short forms, what they include, and the places of errors."""

import os
import pathlib
import re
import tempfile
import unittest

import tunefarm
from google.protobuf import text_format
from tunefarm import _assembled_text, _definitions, _short_forms, _wire

CASES = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "definitions"
SHORT_FORMS, INCLUDES = CASES / "short_forms", CASES / "includes"
MALFORMED = 'an include is written include: "tiles.inc", or include { file: "tiles.inc" words { name: "ROWS" value: "M" } }'


def parsed(text):
    return text_format.Parse(text, _wire.empty_kernel())


def expand(text):
    return _short_forms.ExpandedText(text, _wire.empty_kernel().DESCRIPTOR)


class ShortForms(unittest.TestCase):
    def test_are_the_long_ones(self):
        pairs = sorted(SHORT_FORMS.glob("*.long.pbtxt"))
        self.assertGreaterEqual(len(pairs), 2)
        for long in pairs:
            expanded = expand(long.with_name(long.name.replace(".long", "")).read_text())
            self.assertEqual(expanded.errors, [], long)
            self.assertEqual(parsed(expanded.text), parsed(long.read_text()), expanded.text)
            self.assertEqual(expand(long.read_text()).text, long.read_text())

    def test_errors_come_all_at_once_and_say_where(self):
        files = sorted(SHORT_FORMS.glob("bad_*.pbtxt"))
        self.assertGreaterEqual(len(files), 1)
        for file in files:
            expected = re.findall(r"^# error (.*)$", file.read_text(), re.MULTILINE)
            with self.assertRaises(tunefarm.InvalidArgumentError) as caught:
                _definitions.load(file)
            self.assertEqual(str(caught.exception).split("\n"), [f"{file}:{line}" for line in expected])

    def test_offsets_lead_back(self):
        text = "dims { name: 'ä' default_value: 2048 } language: cuda display_name: 'k'"
        expanded = expand(text)
        self.assertIn("default_value: { int_value: 2048 } } language: LANGUAGE_CUDA display", expanded.text)
        for word in ("dims", "2048", "language:", "display_name", "'k'"):
            self.assertEqual(expanded.original_offset(expanded.text.index(word)), text.index(word), word)
        self.assertEqual(expanded.original_offset(expanded.text.index("LANGUAGE") + 5), text.index("cuda"))

    def test_syntax_errors_are_placed_in_the_original(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kernel.pbtxt"
            for text, place in (
                    ("dims { name: 'N' default_value: 8 }\nlanguage = CUDA\n", "2:10"),
                    ("dims { name: 'N' default_value: 8 bind run }", "1:40"),
                    ("parameters { name: 'N' values: [1, 2,] }", "1:38"),
                    ("parameters { name: 'N' values: [1, 2", "1:"),
                    ("description: 'no end\n", "1:"),
            ):
                file.write_text(text)
                with self.assertRaises(tunefarm.InvalidArgumentError) as caught:
                    _definitions.load(file)
                self.assertTrue(str(caught.exception).startswith(f"{file}:{place}"), caught.exception)

    def test_a_byte_order_mark_is_no_part_of_the_text(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kernel.pbtxt"
            file.write_text("display_name: 'k' language: cuda", encoding="utf-8-sig")
            self.assertEqual(_definitions.load(file).display_name, "k")

    def test_any_text_ends(self):
        whole = (SHORT_FORMS / "gpu.pbtxt").read_text()
        for end in range(len(whole)):
            expanded = expand(whole[:end])
            for offset in range(0, len(expanded.text), 7):
                self.assertLessEqual(expanded.original_offset(offset), end)


def assembled(text, files, name="folder/k.pbtxt"):
    """A definition whose included files are these."""
    def read(path):
        if path not in files:
            raise tunefarm.NotFoundError("no such file")
        return files[path]
    return _assembled_text.AssembledText(text, name, read)


class Includes(unittest.TestCase):
    def test_files_stand_in_the_places_of_their_includes(self):
        pairs = sorted(INCLUDES.glob("*.long.pbtxt"))
        self.assertGreaterEqual(len(pairs), 2)
        for long in pairs:
            short = long.with_name(long.name.replace(".long", ""))
            self.assertEqual(_definitions.load(short), _definitions.load(long), short)

    def test_errors_say_which_file_is_wrong_and_where_it_is_included(self):
        files = sorted(INCLUDES.glob("bad_*.pbtxt"))
        self.assertGreaterEqual(len(files), 8)
        for file in files:
            expected = re.findall(r"^# error (.*)$", file.read_text(), re.MULTILINE)
            with self.assertRaises(tunefarm.InvalidArgumentError) as caught:
                _definitions.load(file)
            lines = str(caught.exception).replace(f"{INCLUDES}/", "").split("\n")
            self.assertEqual(len(lines), len(expected), lines)
            for line, wanted in zip(lines, expected):
                self.assertRegex(line, "^" + re.escape(wanted).replace(r"\*", ".+") + "$")

    def test_malformed_includes(self):
        lines = (INCLUDES / "malformed.txt").read_text().splitlines()
        self.assertGreaterEqual(len(lines), 10)
        for line in lines:
            column, text = line.split(": ", 1)
            self.assertEqual(assembled(text, {}).errors, [f"folder/k.pbtxt:1:{column}: {MALFORMED}"])
            made = assembled("\n\ninclude: 'a.inc'", {"a.inc": text})
            self.assertEqual(made.errors, [f"folder/a.inc:1:{column}: {MALFORMED} (included at folder/k.pbtxt:3:1)"])

    def test_limits(self):
        def ring(count):
            return {f"{i}.inc": f"include: '{i + 1}.inc'" for i in range(1, count)} | {f"{count}.inc": "flops: 1"}
        self.assertEqual(assembled("include: '1.inc'", ring(8)).errors, [])
        deep, = assembled("include: '1.inc'", ring(9)).errors
        self.assertTrue(deep.startswith("folder/8.inc:1:1: includes are nested more than 8 deep (included at folder/7.inc:1:1, "), deep)
        self.assertEqual(assembled("include: 'a.inc'\n" * 64, {"a.inc": ""}).errors, [])
        self.assertEqual(assembled("include: 'a.inc'\n" * 65, {"a.inc": ""}).errors,
                         ["folder/k.pbtxt:65:1: a definition has more than 64 includes"])
        too_long = ("folder/k.pbtxt:2:1: the text of the definition and of all that it includes has more than 1048576 bytes")
        half = "#" * ((1 << 19) - 20)
        self.assertEqual(assembled(f"{half}\ninclude: 'a.inc'\n", {"a.inc": half}).errors, [])
        self.assertEqual(assembled(f"{half}\ninclude: 'a.inc'\n", {"a.inc": half + "ä" * 20}).errors, [too_long])
        words = "words { name: 'W' value: '" + "v" * 1000 + "' }"
        self.assertEqual(assembled("#\ninclude { file: 'a.inc' " + words + " }", {"a.inc": "$(W)" * 1050}).errors, [too_long])

    def test_places_lead_back_from_every_character(self):
        made = assembled("dims { name: 'ä' }\ninclude { file: 'a.inc' words { name: 'W' value: 'long' } } # x\nflops: 2\n",
                         {"a.inc": "# $(W)\ndims { name: 'ö$(W)' }\nbytes: $(W)"})
        self.assertEqual(made.errors, [])
        included = " (included at folder/k.pbtxt:2:1)"
        for word, place in (("'ä'", "k.pbtxt:1:14: m"), ("# $", "a.inc:1:1: m" + included), ("'öl", "a.inc:2:14: m" + included),
                            ("long'", "a.inc:2:17: m" + included), ("ong'", "a.inc:2:17: m" + included),
                            ("' }\nb", "a.inc:2:21: m" + included), ("# x", "k.pbtxt:2:61: m"), ("flops", "k.pbtxt:3:1: m")):
            self.assertEqual(made.place("m", made.text.index(word)), "folder/" + place)
        self.assertEqual(made.place("one\n  two", made.text.index("# $")), f"folder/a.inc:1:1: one{included}\n  two")
        self.assertEqual(made.place("m", len(made.text)), "folder/k.pbtxt:4:1: m")

    def test_any_text_ends(self):
        whole = ("include { file: 'a.inc', words: { name: \"W\" value: 'v' # x\n } words <\ndims { name: '}' } include: 'a.inc'; "
                 "flops: [1] include: \"a.inc")
        for end in range(len(whole)):
            made = assembled(whole[:end], {"a.inc": whole[end:]})
            for offset in range(len(made.text) + 1 if not made.errors else 0):
                made.place("m", offset)


if __name__ == "__main__":
    unittest.main()
