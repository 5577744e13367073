"""Definitions as the Python client reads them: the short forms and the places of errors."""

import os
import pathlib
import re
import tempfile
import unittest

import tunefarm
from google.protobuf import text_format
from tunefarm import _definitions, _short_forms, _wire

SHORT_FORMS = pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "data" / "definitions" / "short_forms"


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


if __name__ == "__main__":
    unittest.main()
