"""The short forms of kernel.pbtxt, written out for protobuf's parser: server/definition/short_forms.h says which there
are, and tests/data/definitions/short_forms has the cases that both readers must pass. Private."""

from __future__ import annotations

import bisect
import difflib
import re
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_NUMBER = re.compile(r"-?\s*(?:0[xX][0-9A-Za-z_]*|(?:[0-9]|\.)(?:[eE][+-]|[0-9A-Za-z_.])*)")
_WORD = re.compile(r"-?\s*[A-Za-z_][A-Za-z0-9_]*")
_CLOSING = {"{": "}", "<": ">"}
_NESTING_MAX = 32
_ERRORS_MAX = 20
_SHOWN_MAX = 64

_LISTS = {"int": "ints", "float": "doubles", "bool": "bools", "string": "strings"}
_VALUES = {"int": "int_value", "float": "double_value", "bool": "bool_value", "string": "string_value"}


class _Token(NamedTuple):
    begin: int
    end: int
    kind: str  # int, float, bool, string or word


class _NotWellFormed(Exception):
    """Left to protobuf's parser."""


class ExpandedText:
    """`text` is what protobuf's parser reads, unless there are `errors`: (offset in the original, message) each."""

    def __init__(self, original: str, root: Any) -> None:
        expander = _Expander(original)
        try:
            expander.read_fields(root, "", 0)
        except _NotWellFormed:
            pass
        self.errors = expander.errors
        self._original = original
        pieces: List[str] = []
        self._begins: List[int] = []
        self._changes: List[Tuple[int, int, int]] = []  # end; begin and end in the original
        done = size = 0
        for begin, end, new in expander.edits:
            pieces += [original[done:begin], new]
            size += begin - done
            self._begins.append(size)
            size += len(new)
            self._changes.append((size, begin, end))
            done = end
        self.text = "".join(pieces) + original[done:]

    def original_offset(self, offset: int) -> int:
        """Where a character of `text` comes from."""
        at = bisect.bisect_right(self._begins, offset) - 1
        if at < 0:
            return offset
        end, original_begin, original_end = self._changes[at]
        return original_begin if offset < end else original_end + offset - end

    def position(self, offset: int) -> Tuple[int, int]:
        """Line and column (of bytes, from 1) of an offset in the original."""
        before = self._original[:offset]
        return before.count("\n") + 1, len(before[before.rfind("\n") + 1:].encode("utf-8")) + 1

    def position_of_parser(self, line: int, column: int) -> Tuple[int, int]:
        """Of what text_format counts in `text`: lines and columns of characters, from 1."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
        return self.position(self.original_offset(start + max(column, 1) - 1))


class _Expander:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.edits: List[Tuple[int, int, str]] = []
        self.errors: List[Tuple[int, str]] = []

    def read_fields(self, message: Any, closing: str, depth: int) -> None:
        """Fields up to `closing`, or to the end of the text where that is empty."""
        if depth > _NESTING_MAX:
            raise _NotWellFormed
        while True:
            self._skip_space()
            if self._at == len(self._text) and not closing:
                return
            if closing and self._peek() == closing:
                self._at += 1
                return
            self._read_field(message, depth)
            self._skip_space()
            if self._peek() in (",", ";"):
                self._at += 1

    def _read_field(self, message: Any, depth: int) -> None:
        begin = self._at
        name = self._match(_NAME)
        field = message.fields_by_name.get(name)
        self._skip_space()
        has_colon = self._peek() == ":"
        if has_colon:
            self._at += 1
        self._skip_space()
        if field is None:
            self._note_unknown(begin, message, name)
        is_message = self._peek() in _CLOSING
        if not has_colon and not is_message and self._peek() != "[":
            raise _NotWellFormed
        if field is None:
            self._skip_value()
        elif field.message_type is not None and field.message_type.name == "ValueList" and not is_message:
            self._read_value_list(name)
        elif self._peek() == "[":
            self._read_list(lambda: self._read_value(field, depth))
        else:
            self._read_value(field, depth)

    def _read_list(self, read: Callable[[], Any]) -> None:
        self._at += 1
        self._skip_space()
        while self._peek() != "]":
            self._skip_space()
            read()
            self._skip_space()
            if self._peek() == "]":
                break
            if self._peek() != ",":
                raise _NotWellFormed
            self._at += 1
            self._skip_space()
            if self._peek() == "]":
                raise _NotWellFormed
        self._at += 1

    def _read_value(self, field: Any, depth: int) -> None:
        if field.message_type is not None and self._peek() in _CLOSING:
            closing = _CLOSING[self._peek()]
            self._at += 1
            self.read_fields(field.message_type, closing, depth + 1)
            return
        token = self._read_token()
        message = field.message_type.name if field.message_type is not None else ""
        if message == "DataFile":
            self._expand_file(field, token)
        elif message == "Value":
            self._expand_value(field, token)
        elif message:
            self._note_without_braces(field, token)
        elif field.enum_type is not None:
            self._expand_enum(field, token)
        elif field.type == field.TYPE_STRING:
            self._expand_text(field, token)

    def _read_value_list(self, field: str) -> None:
        begin = self._at
        tokens: List[_Token] = []
        try:
            if self._peek() == "[":
                self._read_list(lambda: tokens.append(self._read_token()))
            else:
                tokens.append(self._read_token())
            end: Optional[int] = self._at
        except _NotWellFormed:
            end = None
        kind = tokens[0].kind if tokens else "int"
        for token in tokens:
            if token.kind == "word":
                self._note_word(field, token)
                break
            if token.kind != kind and not {token.kind, kind} <= {"int", "float"}:
                self._note(token.begin, f"field '{field}' has values of several types: {self._shown(token)} is not like "
                                        f"the first, {self._shown(tokens[0])}; write numbers, true and false, or texts "
                                        "in quotes")
                break
            if token.kind == "float":
                kind = "float"
        self.edits.append((begin, begin, "{ " + _LISTS.get(kind, "ints") + ": "))
        if end is None:
            raise _NotWellFormed
        self.edits.append((end, end, " }"))

    def _note_unknown(self, begin: int, message: Any, name: str) -> None:
        instead = _with_file(message, self._peek_text()) if name in ("file", "path") else ""
        help_text = f"; write {instead}" if instead else _did_you_mean(name, [known.name for known in message.fields])
        self._note(begin, f"{message.name} has no field '{name[:_SHOWN_MAX]}'{help_text}")

    def _peek_text(self) -> str:
        """The text that comes next, in its quotes; an example where none or a long one does."""
        begin = self._at
        text = ""
        try:
            if self._peek() in ('"', "'"):
                token = self._read_token()
                text = self._text[token.begin:token.end]
        except _NotWellFormed:
            pass
        self._at = begin
        return text if 0 < len(text.encode("utf-8")) <= _SHOWN_MAX else '"x.npy"'

    def _note_without_braces(self, field: Any, token: _Token) -> None:
        """A bare value where fields are expected."""
        message, text = field.message_type, self._text[token.begin:token.end]
        help_text = ""
        own = message.fields_by_name.get(text.lower())
        if token.kind == "string":
            help_text = _with_file(message, text if len(text.encode("utf-8")) <= _SHOWN_MAX else '"x.npy"')
        elif own is not None and own.message_type is not None:
            help_text = f"{own.name} {{}}"
        names = ", ".join(known.name for known in message.fields)
        if help_text or not names:
            help_text = f": {field.name} {{ {help_text} }}" if help_text else f": {field.name} {{}}"
        else:
            help_text = f"; its fields are {names}"
        self._note(token.begin, f"field '{field.name}' takes fields in braces{help_text}")

    def _expand_file(self, field: Any, token: _Token) -> None:
        if token.kind != "string":
            self._note_text(field, token)
            return
        self.edits.append((token.begin, token.begin, "{ path: "))
        self.edits.append((token.end, token.end, " }"))

    def _note_text(self, field: Any, token: _Token) -> None:
        self._note(token.begin, f"field '{field.name}' takes a text in quotes: \"{self._shown(token)}\"")

    def _note_word(self, field: str, token: _Token) -> None:
        word = self._shown(token)
        self._note(token.begin, f"field '{field}': {word} is neither a number nor true or false; a text stands in quotes: "
                                f'"{word}"')

    def _expand_value(self, field: Any, token: _Token) -> None:
        if token.kind == "word":
            self._note_word(field.name, token)
            return
        self.edits.append((token.begin, token.begin, "{ " + _VALUES[token.kind] + ": "))
        self.edits.append((token.end, token.end, " }"))

    def _expand_text(self, field: Any, token: _Token) -> None:
        if token.kind in ("int", "float"):
            self.edits += [(token.begin, token.begin, '"'), (token.end, token.end, '"')]
        elif token.kind != "string":
            self._note_text(field, token)

    def _expand_enum(self, field: Any, token: _Token) -> None:
        values = field.enum_type.values_by_name
        word = self._text[token.begin:token.end]
        if token.kind in ("int", "float") or word in values:
            return
        prefix = field.enum_type.values[0].name[:-len("UNSPECIFIED")]
        name = prefix + word.upper()
        if name == "LANGUAGE_HOST":
            name = "LANGUAGE_HOST_CXX"
        if name in values:
            self.edits.append((token.begin, token.end, name))
            return
        known = [value.name for value in field.enum_type.values[1:]]
        if not word.startswith(prefix):
            known = [value[len(prefix):] for value in known]
        help_text = _did_you_mean(word, known) or f"; write one of {', '.join(known)}"
        self._note(token.begin, f"field '{field.name}' has no value '{self._shown(token)}'{help_text}")

    def _skip_value(self) -> None:
        if self._peek() not in ("{", "<", "["):
            self._read_token()
            return
        depth = 0
        while True:
            self._skip_space()
            char = self._peek()
            if not char:
                raise _NotWellFormed
            if char in "\"'":
                self._match(_QUOTED)
                continue
            depth += (char in "{<[") - (char in "}>]")
            self._at += 1
            if depth == 0:
                return

    def _read_token(self) -> _Token:
        begin = end = self._at
        if self._peek() in ('"', "'"):
            while self._peek() in ('"', "'"):
                self._match(_QUOTED)
                end = self._at
                self._skip_space()
            self._at = end
            return _Token(begin, end, "string")
        number = _NUMBER.match(self._text, begin)
        if number:
            self._at = number.end()
            text = number.group().lower()
            is_float = "x" not in text and any(char in text for char in ".ef")
            return _Token(begin, self._at, "float" if is_float else "int")
        word = self._match(_WORD)
        if word.lstrip("- \t\n").lower() in ("inf", "infinity", "nan"):
            return _Token(begin, self._at, "float")
        return _Token(begin, self._at, "bool" if word in ("true", "false", "True", "False") else "word")

    def _peek(self) -> str:
        return self._text[self._at:self._at + 1]

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        if space:
            self._at = space.end()

    def _match(self, pattern: "re.Pattern[str]") -> str:
        found = pattern.match(self._text, self._at)
        if not found:
            raise _NotWellFormed
        self._at = found.end()
        return found.group()

    def _shown(self, token: _Token) -> str:
        return self._text[token.begin:token.end][:_SHOWN_MAX]

    def _note(self, offset: int, message: str) -> None:
        if len(self.errors) < _ERRORS_MAX:
            self.errors.append((offset, message))


def _with_file(message: Any, path: str) -> str:
    """How data of a file are written in such a message; "": not at all."""
    return {"Fill": f"file: {path}", "ExpectedFile": f'buffer: "NAME" file: {path}',
            "Reference": f'files {{ buffer: "NAME" file: {path} }}', "Buffer": f"fill {{ file: {path} }}",
            "ConstantSymbol": f"fill {{ file: {path} }}"}.get(message.name, "")


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f" (did you mean '{close[0]}'?)" if close else ""
