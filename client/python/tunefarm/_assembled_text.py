"""The text of a definition with the files that it includes in their places: server/definition/assembled_text.h says how
includes are written, and tests/data/definitions/includes has the cases that both readers must pass. Needs no protobuf.
Private."""

from __future__ import annotations

import bisect
import re
from typing import Callable, List, NamedTuple, NoReturn, Optional, Tuple

from tunefarm._text_scanner import EditedText, NotWellFormed, TextScanner
from tunefarm.errors import TunefarmError

BYTES_MAX = 1 << 20  # of a definition with all that it includes
_DEPTH_MAX = 8
_INCLUDES_MAX = 64
_ERRORS_MAX = 20
_SHOWN_MAX = 64
_PATH_BYTES_MAX = 256
_PART_BYTES_MAX = 255

_WORD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIECE = re.compile(r'"([^"]*)"' r"|'([^']*)'" r"|#[^\n]*")
# Comments, texts that do not end, what a backslash escapes, and names of words.
_MARK = re.compile(r"#[^\n]*|[\"'\n]|\\.|\$\(([^)\n]*)(\)?)", re.DOTALL)


class _File:
    def __init__(self, path: str, original: str, included_by: "Optional[_File]" = None, included_at: int = 0) -> None:
        self.path = path  # from the definition's folder; empty: the definition
        self.original = original
        self.included_by = included_by
        self.included_at = included_at  # in the original of included_by
        self.text = EditedText(original, [])  # with the values of words in the places of their names


class _Word(NamedTuple):
    name: str
    value: str
    offset: int  # of the word in the text with the include


class _Error(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class AssembledText:
    """`text`, and what is wrong with its includes: `errors`, each with its place. `file_name` is what errors call the
    definition; `read` gives the text of a file by its path from the definition's folder, and raises TunefarmError."""

    def __init__(self, text: str, file_name: str, read: Callable[[str], str]) -> None:
        self._file_name = file_name
        self._read = read
        self._includes = 0
        self._bytes = len(text.encode("utf-8"))  # of all files, and of the values that stand in them
        self._begins: List[int] = []  # of pieces, in the text
        self._pieces: List[Tuple[_File, int]] = []  # a piece's file, and where the piece begins in the text of that
        self._parts: List[str] = []
        self._size = 0  # of the parts
        self.errors: List[str] = []
        self._append(_File("", text))
        self.text = "".join(self._parts)

    def place(self, message: str, offset: int) -> str:
        """The error with the place where a character of the text was written: "tiles.inc:3:7: ...". Where that is an
        included file, the first line ends in " (included at kernel.pbtxt:12:1)"."""
        at = bisect.bisect_right(self._begins, offset) - 1
        file, begin = self._pieces[at]
        return self._placed(message, file, file.text.original_offset(begin + offset - self._begins[at]))

    def _placed(self, message: str, file: _File, offset: int) -> str:
        places = []
        of: Optional[_File] = file
        while of is not None and of.included_by is not None:
            places.append(self._position(of.included_by, of.included_at))
            of = of.included_by
        if places:
            first, newline, rest = message.partition("\n")
            message = f"{first} (included at {', at '.join(places)}){newline}{rest}"
        return f"{self._position(file, offset)}: {message}"

    def _position(self, file: _File, offset: int) -> str:
        """File, line and column (of bytes, from 1) of an offset in its original."""
        before = file.original[:offset]
        line, column = before.count("\n") + 1, len(before[before.rfind("\n") + 1:].encode("utf-8")) + 1
        folder = self._file_name[:self._file_name.rfind("/") + 1]
        return f"{folder + file.path if file.path else self._file_name}:{line}:{column}"

    def _append(self, file: _File) -> None:
        """The text of a file, and in it those of the files that it includes. What is not well formed is left to
        protobuf's parser: from there on nothing is looked at."""
        scanner = TextScanner(file.text.text)
        done = 0
        scanner.skip_space()
        while not scanner.at_end():
            begin = scanner.at
            try:
                if scanner.read_name() == "include":
                    path, words = _read_include(scanner)
                    scanner.skip_separator()
                    self._append_piece(file, done, begin)
                    self._append_include(file, begin, path, words)
                    done = scanner.at
                else:
                    _skip_field(scanner)
                    scanner.skip_separator()
            except NotWellFormed:
                if file.included_by is None or not scanner.at_end():
                    break
                self._note(file, begin, "this field does not end in its file; an included file holds whole fields")
                return
            except _Error as error:
                self._note(file, error.offset, str(error))
                return
            scanner.skip_space()
        self._append_piece(file, done, len(file.text.text))

    def _append_piece(self, file: _File, begin: int, end: int) -> None:
        self._begins.append(self._size)
        self._pieces.append((file, begin))
        self._parts.append(file.text.text[begin:end])
        self._size += end - begin

    def _append_include(self, includer: _File, offset: int, path: str, words: List[_Word]) -> None:
        problem = self._problem_of(includer, path)
        if problem:
            self._note(includer, offset, problem)
            return
        try:
            original = self._read(path)
        except TunefarmError as error:
            self._note(includer, offset, f"the file '{path}' cannot be read: {error}")
            return
        self._includes += 1
        file = _File(path, original, includer, includer.text.original_offset(offset))
        errors = len(self.errors)
        edits, used = self._edits(file, words)
        if self._bytes > BYTES_MAX:
            self._note(includer, offset, f"the text of the definition and of all that it includes has more than {BYTES_MAX} "
                                         "bytes")
            return
        for word in words:
            if word.name not in used:
                self._note(includer, word.offset, f"the word '{word.name[:_SHOWN_MAX]}' is not used in {path}")
        if len(self.errors) > errors:
            return
        file.text = EditedText(original, edits)
        self._append(file)
        self._parts.append("\n")  # a comment may end the file
        self._size += 1

    def _problem_of(self, includer: _File, path: str) -> str:
        """Why the file may not be included there; "" if it may."""
        if not _is_plain(path) or not path.endswith(".inc"):
            return (f"'{path[:_SHOWN_MAX]}' is not the path of an included file: relative to the definition, without '.', "
                    "'..' or empty parts, ending in .inc")
        chain, depth, file = path, 1, includer
        while file.included_by is not None:
            chain = f"{file.path} > {chain}"
            if file.path == path:
                return f"'{path}' includes itself: {chain}"
            file, depth = file.included_by, depth + 1
        if depth > _DEPTH_MAX:
            return f"includes are nested more than {_DEPTH_MAX} deep"
        if self._includes == _INCLUDES_MAX:
            return f"a definition has more than {_INCLUDES_MAX} includes"
        return ""

    def _edits(self, file: _File, words: List[_Word]) -> Tuple[List[Tuple[int, int, str]], List[str]]:
        """The values of words for $(NAME) outside of comments, and the names that were found; adds the bytes of the file
        and of the values, and notes names that have none. Not all of them where there is an error."""
        values = {word.name: word.value for word in words}
        edits: List[Tuple[int, int, str]] = []
        used: List[str] = []
        unknown: List[str] = []
        self._bytes += len(file.original.encode("utf-8"))
        quote, at = "", 0
        while self._bytes <= BYTES_MAX and len(self.errors) < _ERRORS_MAX:
            mark = _MARK.search(file.original, at)
            if not mark:
                break
            at = mark.end()
            text, name = mark.group(), mark.group(1)
            if text[0] == "#":
                if quote:
                    at = mark.start() + 1
            elif text in ('"', "'"):
                quote = text if not quote else "" if text == quote else quote
            elif text == "\n":
                quote = ""
            elif name is not None and not (mark.group(2) and _WORD_NAME.fullmatch(name)):
                self._note(file, mark.start(), "'$(' begins a word, which is written $(NAME)")
                at = mark.start() + 1
            elif name in values:
                used.append(name)
                edits.append((mark.start(), at, values[name]))
                self._bytes += len(values[name].encode("utf-8"))
            elif name is not None and name not in unknown:
                unknown.append(name)
                self._note(file, mark.start(), f'$({name[:_SHOWN_MAX]}) has no value; the include gives it: words {{ name: '
                                               f'"{name[:_SHOWN_MAX]}" value: "..." }}')
        return edits, used

    def _note(self, file: _File, offset: int, message: str) -> None:
        if len(self.errors) < _ERRORS_MAX:
            self.errors.append(self._placed(message, file, file.text.original_offset(offset)))


def _skip_field(scanner: TextScanner) -> None:
    """What stands behind the name of a field."""
    scanner.skip_space()
    has_colon = scanner.skip(":")
    scanner.skip_space()
    if not has_colon and scanner.peek() not in ("{", "<", "["):
        raise NotWellFormed
    scanner.skip_value()


def _read_include(scanner: TextScanner) -> Tuple[str, List[_Word]]:
    """What stands behind the word "include": the file and the words."""
    scanner.skip_space()
    has_colon = scanner.skip(":")
    scanner.skip_space()
    begin = scanner.at
    if not scanner.skip("{"):
        if not has_colon:
            _malformed(begin)
        return _read_text(scanner), []
    begin = scanner.at
    path: Optional[str] = None
    words: List[_Word] = []
    scanner.skip_space()
    while not scanner.skip("}"):
        at = scanner.at
        name = _name_of_field(scanner)
        if name == "words":
            words.append(_read_word(scanner, at, words))
        elif name == "file" and path is None:
            path = _read_text_field(scanner)
        else:
            _malformed(at)
        scanner.skip_separator()
        scanner.skip_space()
    if path is None:
        _malformed(begin)
    return path, words


def _read_word(scanner: TextScanner, at: int, others: List[_Word]) -> _Word:
    given = {}
    scanner.skip_space()
    scanner.skip(":")
    scanner.skip_space()
    if not scanner.skip("{"):
        _malformed(scanner.at)
    scanner.skip_space()
    while not scanner.skip("}"):
        field_at = scanner.at
        field = _name_of_field(scanner)
        if field not in ("name", "value") or field in given:
            _malformed(field_at)
        given[field] = _read_text_field(scanner)
        scanner.skip_separator()
        scanner.skip_space()
    if len(given) < 2:
        _malformed(at)
    name = given["name"]
    if not _WORD_NAME.fullmatch(name):
        raise _Error(at, f"'{name[:_SHOWN_MAX]}' is not the name of a word: letters, digits and '_'")
    if any(word.name == name for word in others):
        raise _Error(at, f"the word '{name[:_SHOWN_MAX]}' is given twice")
    return _Word(name, given["value"], at)


def _name_of_field(scanner: TextScanner) -> str:
    try:
        return scanner.read_name()
    except NotWellFormed:
        return ""


def _read_text_field(scanner: TextScanner) -> str:
    """A colon and a text."""
    scanner.skip_space()
    if not scanner.skip(":"):
        _malformed(scanner.at)
    scanner.skip_space()
    return _read_text(scanner)


def _read_text(scanner: TextScanner) -> str:
    """One or more pieces in quotes, which stand for themselves: there are no escapes."""
    begin = scanner.at
    try:
        token = scanner.read_token()
    except NotWellFormed:
        _malformed(begin)
    if token.kind != "string":
        _malformed(begin)
    written = scanner.text[token.begin:token.end]
    if "\\" in written:
        raise _Error(begin, "a text of an include has no backslash")
    return "".join((piece.group(1) or "") + (piece.group(2) or "") for piece in _PIECE.finditer(written))


def _malformed(offset: int) -> NoReturn:
    raise _Error(offset, 'an include is written include: "tiles.inc", or include { file: "tiles.inc" words { name: "ROWS" '
                         'value: "M" } }')


def _is_plain(path: str) -> bool:
    """Whether it may name a file of a definition: relative, '/' between its parts, none of them "." or ".."."""
    parts = path.split("/")
    return (0 < len(path.encode("utf-8")) <= _PATH_BYTES_MAX and not any(char < " " or char in "\\\x7f" for char in path)
            and all(part not in ("", ".", "..") and len(part.encode("utf-8")) <= _PART_BYTES_MAX for part in parts))
