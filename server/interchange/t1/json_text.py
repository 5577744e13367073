"""JSON that remembers where each value stands, so that an error names the line, the column and the JSON pointer."""

import difflib
import json.decoder
import re

BYTES_MAX = 1 << 20
DEPTH_MAX = 32
VALUES_MAX = 200_000
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

SPACE = re.compile(r"[ \t\n\r]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
SURROGATE = re.compile("[\ud800-\udfff]")
WORDS = {"true": True, "false": False, "null": None}
DIGITS_MAX = 400  # more than any double has


class Refused(Exception):
    """The file cannot be imported. `place` is "12:7", a line and a column in bytes, or empty; `path` is a JSON pointer.

    `is_missing`: a file that the user named does not exist.
    """

    def __init__(self, message, place="", path="", is_missing=False):
        super().__init__(message)
        self.message, self.place, self.path, self.is_missing = message, place, path, is_missing


def shown(text, limit=64):
    """The text as a message may contain it: shortened, without characters that a terminal acts on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit])


def fits(number):
    return INT64_MIN <= number <= INT64_MAX


def inexact(number):
    """Why the integer cannot become a double, or nothing."""
    if int(float(number)) == number:
        return ""
    return f"{str(number)[:40]} is more than a 64-bit float holds exactly; write {float(number)!r} if that is meant"


class Node:
    """A value of the document: None, bool, int, float, str, a list of Nodes or a dict of Nodes."""

    __slots__ = ("document", "value", "start", "parent", "key")

    def __init__(self, document, start, parent, key):
        self.document, self.value, self.start, self.parent, self.key = document, None, start, parent, key

    def kind(self):
        kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array", dict: "an object"}
        return kinds.get(type(self.value), "null")

    def is_text(self):
        return isinstance(self.value, str)

    def is_int(self):
        return type(self.value) is int

    def is_number(self):
        return type(self.value) in (int, float)

    def pointer(self):
        """RFC 6901: "/results/3/times"."""
        parts = []
        node = self
        while node.parent is not None:
            parts.append(str(node.key).replace("~", "~0").replace("/", "~1"))
            node = node.parent
        return "".join("/" + part for part in reversed(parts))

    def place(self):
        return self.document.place(self.start)

    def error(self, message):
        return Refused(message, self.place(), shown(self.pointer(), 200))

    def error_in_text(self, column, message):
        """An error at a byte, counted from 1, of the text of a string."""
        if not self.is_text():
            return self.error(message)
        text = self.document.text
        at = self.start + 1
        passed = 1
        while passed < column and at < len(text) and text[at] != '"':
            if text[at] != "\\":
                passed += len(text[at].encode())
                at += 1
            else:
                passed += 1
                at += 6 if text[at + 1 : at + 2] == "u" else 2
        return Refused(message, self.document.place(at), shown(self.pointer(), 200))

    # What the readers need of a value; each raises Refused where the file has something else.

    def find(self, key):
        """The member of an object; None for other kinds too, and for null."""
        node = self.value.get(key) if isinstance(self.value, dict) else None
        return None if node is None or node.value is None else node

    def required(self, key):
        if not isinstance(self.value, dict):
            raise self.error(f"an object is needed here, not {self.kind()}")
        node = self.find(key)
        if node is None:
            keys = {k.lower(): k for k in list(self.value)[:100] if len(k) < 2 * len(key)}
            close = difflib.get_close_matches(key.lower(), keys, 1, 0.8)
            raise self.error(f'"{key}" is missing' + (f' (misspelled as "{shown(keys[close[0]])}"?)' if close else ""))
        return node

    def string(self):
        if not self.is_text():
            raise self.error(f"a string is needed here, not {self.kind()}")
        return self.value

    def array(self):
        if not isinstance(self.value, list):
            raise self.error(f"an array is needed here, not {self.kind()}")
        return self.value

    def optional_number(self, key):
        node = self.find(key)
        if node is None:
            return None
        if not node.is_number():
            raise node.error(f"a number is needed here, not {node.kind()}")
        return node.value

    def one_of(self, table):
        if self.is_text() and self.value in table:
            return table[self.value]
        what = f"'{shown(self.value)}'" if self.is_text() else self.kind()
        raise self.error(f"{what} is none of {', '.join(sorted(table))}")


class Document:
    """Reads the bytes of a file; `root` is its value."""

    def __init__(self, data):
        self.text = ""
        self.values = 0
        if len(data) > BYTES_MAX:
            raise Refused(f"the file has {len(data)} bytes; at most {BYTES_MAX} are read", "1:1")
        try:
            self.text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            self.text = data[: error.start].decode("utf-8")
            raise self.invalid(error.start, f"byte 0x{data[error.start]:02x} is not UTF-8") from None
        at = 1 if self.text.startswith("\ufeff") else 0
        self.root = Node(self, 0, None, None)
        at = self.skip(self.read(self.skip(at), self.root, 0))
        if at < len(self.text):
            raise self.invalid(at, "nothing may follow the value")

    def place(self, offset):
        line_start = self.text.rfind("\n", 0, offset) + 1
        line = self.text.count("\n", 0, offset) + 1
        return f"{line}:{len(self.text[line_start:offset].encode()) + 1}"

    def invalid(self, offset, message):
        return Refused(f"this is not valid JSON: {message}", self.place(min(offset, len(self.text))))

    def skip(self, at):
        return SPACE.match(self.text, at).end()

    def expect(self, at, character, what):
        if self.text[at : at + 1] != character:
            raise self.invalid(at, f"{what} is expected here" + (", where the file ends" if at >= len(self.text) else ""))
        return at + 1

    def read_string(self, at):
        try:
            value, end = json.decoder.scanstring(self.text, at + 1, True)
        except json.JSONDecodeError as error:
            raise self.invalid(error.pos, error.msg[:1].lower() + error.msg[1:]) from None
        if SURROGATE.search(value):
            raise self.invalid(at, "the string holds half of a surrogate pair")
        return value, end

    def read(self, at, node, depth):
        """Reads the value at `at` into the node and returns where it ends."""
        node.start = at
        self.values += 1
        if self.values > VALUES_MAX:
            raise Refused(f"there are more than {VALUES_MAX} values", self.place(at))
        first = self.text[at : at + 1]
        if first in ("{", "["):
            if depth >= DEPTH_MAX:
                raise Refused(f"values are nested more than {DEPTH_MAX} deep", self.place(at))
            return self.read_object(at + 1, node, depth) if first == "{" else self.read_array(at + 1, node, depth)
        if first == '"':
            node.value, end = self.read_string(at)
            return end
        number = NUMBER.match(self.text, at)
        if number:
            node.value = self.number(number)
            return number.end()
        for word, value in WORDS.items():
            if self.text.startswith(word, at):
                node.value = value
                return at + len(word)
        found = f"not '{shown(self.text[at : at + 16])}'" if first else "where the file ends"
        raise self.invalid(at, f"a value is expected here, {found}")

    def number(self, match):
        text = match.group()
        is_int = match.group(1) is None and match.group(2) is None
        value = float(text)
        if value in (float("inf"), float("-inf")) or (is_int and len(text) > DIGITS_MAX):
            raise self.invalid(match.start(), f"the number {text[:40]} is out of the range of a 64-bit float")
        return int(text) if is_int else value

    def read_array(self, at, node, depth):
        node.value = []
        at = self.skip(at)
        if self.text[at : at + 1] == "]":
            return at + 1
        while True:
            child = Node(self, at, node, len(node.value))
            node.value.append(child)
            at = self.skip(self.read(at, child, depth + 1))
            if self.text[at : at + 1] == "]":
                return at + 1
            at = self.skip(self.expect(at, ",", "',' or ']'"))

    def read_object(self, at, node, depth):
        node.value = {}
        at = self.skip(at)
        if self.text[at : at + 1] == "}":
            return at + 1
        while True:
            self.expect(at, '"', "a key in quotes")
            key, end = self.read_string(at)
            if key in node.value:
                raise Refused(f'the key "{shown(key)}" stands here twice', self.place(at))
            at = self.skip(self.expect(self.skip(end), ":", "':'"))
            child = Node(self, at, node, key)
            node.value[key] = child
            at = self.skip(self.read(at, child, depth + 1))
            if self.text[at : at + 1] == "}":
                return at + 1
            at = self.skip(self.expect(at, ",", "',' or '}'"))
