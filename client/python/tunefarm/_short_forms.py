"""The short forms of kernel.pbtxt, written out for protobuf's parser: server/definition/short_forms.h says which there
are, and tests/data/definitions/short_forms has the cases that both readers must pass. Private."""

from __future__ import annotations

import difflib
from typing import Any, List, Optional, Sequence, Tuple

from tunefarm._text_scanner import EditedText, NotWellFormed, TextScanner, Token

_CLOSING = {"{": "}", "<": ">"}
_NESTING_MAX = 32
_ERRORS_MAX = 20
_SHOWN_MAX = 64

_LISTS = {"int": "ints", "float": "doubles", "bool": "bools", "string": "strings"}
_VALUES = {"int": "int_value", "float": "double_value", "bool": "bool_value", "string": "string_value"}


class ExpandedText(EditedText):
    """`text` is what protobuf's parser reads, unless there are `errors`: (offset in the original, message) each."""

    def __init__(self, original: str, root: Any) -> None:
        expander = _Expander(original)
        try:
            expander.read_fields(root, "", 0)
        except NotWellFormed:
            pass
        super().__init__(original, expander.edits)
        self.errors = expander.errors

    def offset_of_parser(self, line: int, column: int) -> int:
        """In the original, of what text_format counts in `text`: lines and columns of characters, from 1."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
        return self.original_offset(start + max(column, 1) - 1)


class _Expander:
    def __init__(self, text: str) -> None:
        self._in = TextScanner(text)
        self.edits: List[Tuple[int, int, str]] = []
        self.errors: List[Tuple[int, str]] = []

    def read_fields(self, message: Any, closing: str, depth: int) -> None:
        """Fields up to `closing`, or to the end of the text where that is empty."""
        if depth > _NESTING_MAX:
            raise NotWellFormed
        while True:
            self._in.skip_space()
            if self._in.at_end() and not closing:
                return
            if closing and self._in.skip(closing):
                return
            self._read_field(message, depth)
            self._in.skip_separator()

    def _read_field(self, message: Any, depth: int) -> None:
        begin = self._in.at
        name = self._in.read_name()
        field = message.fields_by_name.get(name)
        self._in.skip_space()
        has_colon = self._in.skip(":")
        self._in.skip_space()
        if field is None:
            self._note_unknown(begin, message, name)
        is_message = self._in.peek() in _CLOSING
        if not has_colon and not is_message and self._in.peek() != "[":
            raise NotWellFormed
        if field is None:
            self._in.skip_value()
        elif field.message_type is not None and field.message_type.name == "ValueList" and not is_message:
            self._read_value_list(name)
        elif self._in.peek() == "[":
            self._in.read_list(lambda: self._read_value(field, depth))
        else:
            self._read_value(field, depth)

    def _read_value(self, field: Any, depth: int) -> None:
        if field.message_type is not None and self._in.peek() in _CLOSING:
            closing = _CLOSING[self._in.peek()]
            self._in.at += 1
            self.read_fields(field.message_type, closing, depth + 1)
            return
        token = self._in.read_token()
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
        begin = self._in.at
        tokens: List[Token] = []
        try:
            if self._in.peek() == "[":
                self._in.read_list(lambda: tokens.append(self._in.read_token()))
            else:
                tokens.append(self._in.read_token())
            end: Optional[int] = self._in.at
        except NotWellFormed:
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
            raise NotWellFormed
        self.edits.append((end, end, " }"))

    def _note_unknown(self, begin: int, message: Any, name: str) -> None:
        instead = _with_file(message, self._peek_text()) if name in ("file", "path") else ""
        instead = "it outside of all braces" if name == "include" else instead
        help_text = f"; write {instead}" if instead else _did_you_mean(name, [known.name for known in message.fields])
        self._note(begin, f"{message.name} has no field '{name[:_SHOWN_MAX]}'{help_text}")

    def _peek_text(self) -> str:
        """The text that comes next, in its quotes; an example where none or a long one does."""
        begin = self._in.at
        text = ""
        try:
            if self._in.peek() in ('"', "'"):
                token = self._in.read_token()
                text = self._in.text[token.begin:token.end]
        except NotWellFormed:
            pass
        self._in.at = begin
        return text if 0 < len(text.encode("utf-8")) <= _SHOWN_MAX else '"x.npy"'

    def _note_without_braces(self, field: Any, token: Token) -> None:
        """A bare value where fields are expected."""
        message, text = field.message_type, self._in.text[token.begin:token.end]
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

    def _expand_file(self, field: Any, token: Token) -> None:
        if token.kind != "string":
            self._note_text(field, token)
            return
        self.edits.append((token.begin, token.begin, "{ path: "))
        self.edits.append((token.end, token.end, " }"))

    def _note_text(self, field: Any, token: Token) -> None:
        self._note(token.begin, f"field '{field.name}' takes a text in quotes: \"{self._shown(token)}\"")

    def _note_word(self, field: str, token: Token) -> None:
        word = self._shown(token)
        self._note(token.begin, f"field '{field}': {word} is neither a number nor true or false; a text stands in quotes: "
                                f'"{word}"')

    def _expand_value(self, field: Any, token: Token) -> None:
        if token.kind == "word":
            self._note_word(field.name, token)
            return
        self.edits.append((token.begin, token.begin, "{ " + _VALUES[token.kind] + ": "))
        self.edits.append((token.end, token.end, " }"))

    def _expand_text(self, field: Any, token: Token) -> None:
        if token.kind in ("int", "float"):
            self.edits += [(token.begin, token.begin, '"'), (token.end, token.end, '"')]
        elif token.kind != "string":
            self._note_text(field, token)

    def _expand_enum(self, field: Any, token: Token) -> None:
        values = field.enum_type.values_by_name
        word = self._in.text[token.begin:token.end]
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

    def _shown(self, token: Token) -> str:
        return self._in.text[token.begin:token.end][:_SHOWN_MAX]

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
