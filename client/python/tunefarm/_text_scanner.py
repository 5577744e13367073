"""Protobuf text, token by token and with parts replaced, as server/definition/text_scanner.h and edited_text.h have it.
Needs no protobuf. Private."""

from __future__ import annotations

import bisect
import re
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
_NUMBER = re.compile(r"-?\s*(?:0[xX][0-9A-Za-z_]*|(?:[0-9]|\.)(?:[eE][+-]|[0-9A-Za-z_.])*)")
_WORD = re.compile(r"-?\s*[A-Za-z_][A-Za-z0-9_]*")


class Token(NamedTuple):
    begin: int
    end: int
    kind: str  # int, float, bool, string or word


class NotWellFormed(Exception):
    """Left to protobuf's parser."""


class EditedText:
    """A text in which parts of an original are replaced, and which knows where each character comes from. `edits`: begin
    and end in the original and what stands there, ascending."""

    def __init__(self, original: str, edits: Sequence[Tuple[int, int, str]]) -> None:
        pieces: List[str] = []
        self._begins: List[int] = []
        self._changes: List[Tuple[int, int, int]] = []  # end; begin and end in the original
        done = size = 0
        for begin, end, new in edits:
            pieces += [original[done:begin], new]
            size += begin - done
            self._begins.append(size)
            size += len(new)
            self._changes.append((size, begin, end))
            done = end
        self.text = "".join(pieces) + original[done:]

    def original_offset(self, offset: int) -> int:
        """Where a character of `text` comes from: of a replaced part from where that begins."""
        at = bisect.bisect_right(self._begins, offset) - 1
        if at < 0:
            return offset
        end, original_begin, original_end = self._changes[at]
        return original_begin if offset < end else original_end + offset - end


class TextScanner:
    """What reads raises NotWellFormed where the text is not."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def at_end(self) -> bool:
        return self.at == len(self.text)

    def peek(self) -> str:
        return self.text[self.at:self.at + 1]

    def skip(self, char: str) -> bool:
        """Over the next character where it is that one."""
        found = self.peek() == char
        self.at += found
        return found

    def skip_space(self) -> None:
        """Over white space and comments."""
        space = _SPACE.match(self.text, self.at)
        if space:
            self.at = space.end()

    def skip_separator(self) -> None:
        """Over the comma or semicolon that may stand after a field."""
        begin = self.at
        self.skip_space()
        if not self.skip(",") and not self.skip(";"):
            self.at = begin

    def skip_value(self) -> None:
        """A value of any type, of which only the extent is looked at."""
        if self.peek() not in ("{", "<", "["):
            self.read_token()
            return
        depth = 0
        while True:
            self.skip_space()
            char = self.peek()
            if not char:
                raise NotWellFormed
            if char in "\"'":
                self._read_quoted()
                continue
            depth += (char in "{<[") - (char in "}>]")
            self.at += 1
            if depth == 0:
                return

    def read_name(self) -> str:
        return self._match(_NAME)

    def read_list(self, read: Callable[[], Any]) -> None:
        """[a, b, ...], each element read by the function."""
        self.at += 1
        self.skip_space()
        while self.peek() != "]":
            self.skip_space()
            read()
            self.skip_space()
            if self.peek() == "]":
                break
            if not self.skip(","):
                raise NotWellFormed
            self.skip_space()
            if self.peek() == "]":
                raise NotWellFormed
        self.at += 1

    def read_token(self) -> Token:
        """A number, a word, or a text, which may be written in several pieces."""
        begin = end = self.at
        if self.peek() in ('"', "'"):
            while self.peek() in ('"', "'"):
                self._read_quoted()
                end = self.at
                self.skip_space()
            self.at = end
            return Token(begin, end, "string")
        number = _NUMBER.match(self.text, begin)
        if number:
            self.at = number.end()
            text = number.group().lower()
            is_float = "x" not in text and any(char in text for char in ".ef")
            return Token(begin, self.at, "float" if is_float else "int")
        word = self._match(_WORD)
        if word.lstrip("- \t\n").lower() in ("inf", "infinity", "nan"):
            return Token(begin, self.at, "float")
        return Token(begin, self.at, "bool" if word in ("true", "false", "True", "False") else "word")

    def _read_quoted(self) -> None:
        if not _QUOTED.match(self.text, self.at) and "\n" not in self.text[self.at:]:
            self.at = len(self.text)  # the text ends in it
        self._match(_QUOTED)

    def _match(self, pattern: "re.Pattern[str]") -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            raise NotWellFormed
        self.at = found.end()
        return found.group()
