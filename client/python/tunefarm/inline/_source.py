"""A kernel's source: read, and searched for the kernel's parameters. Private."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tunefarm import _files
from tunefarm._display import a_type
from tunefarm.errors import InvalidArgumentError

CUDA, HOST = "CUDA", "HOST_CXX"

_SOURCE_BYTES_MAX = 4 << 20
_SOURCES_MAX = 64
_LANGUAGES = {"CUDA": CUDA, "PYCUDA": CUDA, "CUPY": CUDA, "NVCUDA": CUDA, "C": HOST, "C++": HOST}
_SUFFIX = re.compile(r"\.\w{1,5}$")
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*("([^"\n]+)"|<[^>\n]+>)[^\n]*$', re.MULTILINE)
_PARAMETER_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_UNNAMED = {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "const", "volatile",
            "size_t", "half", "restrict", "__restrict", "__restrict__"}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__"}
_INTEGER = r"(?:auto|bool|char|int|long|short|signed|size_t|unsigned|u?int\d+_t)"
_FIXED_WIDTH = re.compile(r"u?int(8|16|32|64)_t")
# Directives over all their lines, and what ends a declaration.
_BEFORE_DECLARATION = re.compile(r"^[ \t]*#(?:[^\\\n]|\\\r?[\s\S])*|[;{}]", re.MULTILINE)
_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|endif)[^\n]*$", re.MULTILINE)  # if, ifdef, ifndef
_UNROLL = re.compile(r"^([ \t]*#[ \t]*pragma[ \t]+unroll[ \t]+)(\w*loop_unroll_factor\w*)[ \t\r]*$", re.MULTILINE)
# The device compiler takes no host functions, which this header has besides what kernels use.
_ALL_OF_CUB = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]cub/cub\.cuh[>\"]", re.MULTILINE)
_CUB_OF_DEVICES = "".join(f"#include <cub/{level}/{level}_{part}.cuh>\n" for level, parts in (
    ("block", "adjacent_difference discontinuity exchange histogram load merge_sort radix_sort reduce scan shuffle store"),
    ("warp", "exchange load merge_sort reduce scan store")) for part in parts.split())
_OPENMP = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<omp\.h>", re.MULTILINE)


class Parameter(NamedTuple):
    """One of a function's parameters, as far as its text shows."""

    name: str  # "" if it has none
    is_pointer: bool
    is_const: bool  # what it points to is not written
    is_written: bool  # the body assigns to its elements
    text: str  # "const float *x"
    element: Optional[Tuple[str, int]]  # of C's own number types: "f" (floating point) or "i", and its bytes


class Source(NamedTuple):
    language: str
    files: Dict[str, str]  # path -> text; the first is compiled, the others are headers
    text: str  # of the first, as its author wrote it
    parameters: Optional[List[Parameter]]  # of the kernel; None where its definition was not found


def read(kernel_name: Any, kernel_source: Any, lang: Optional[str], count: Optional[int] = None) -> Source:
    """`kernel_source` is code, a file's name, or a list of files whose first one is compiled. `count`: of arguments."""
    if not isinstance(kernel_name, str) or not kernel_name.strip():
        raise InvalidArgumentError("kernel_name is the name of a function in the source")
    if callable(kernel_source):
        raise InvalidArgumentError("kernel_source: functions that generate code are not supported, because configs differ "
                                   "in macros only; write one source and use the parameters in #if and as constants")
    rest: Sequence[Any] = ()
    if isinstance(kernel_source, (list, tuple)):
        if not kernel_source or any(callable(item) for item in kernel_source):
            raise InvalidArgumentError("kernel_source: a list names files, the first being the one that is compiled")
        kernel_source, rest = kernel_source[0], kernel_source[1:]
    files: Dict[str, str] = {}
    name = "kernel"
    if _is_file_name(kernel_source):
        path = Path(os.fspath(kernel_source))
        text = _read_file(path)
        _add_headers(text, path.parent, path.parent, files)
        name = path.stem
    elif isinstance(kernel_source, str):
        text = kernel_source
        _add_headers(text, Path.cwd(), Path.cwd(), files)
    else:
        raise InvalidArgumentError(f"kernel_source is {a_type(kernel_source)}; give code or a file's name")
    for item in rest:
        files[Path(os.fspath(item)).name] = _read_file(Path(os.fspath(item)))
    language = _language(text, lang)
    if language == HOST and _OPENMP.search(text) and "_OPENMP" not in text:
        raise InvalidArgumentError("kernel_source includes omp.h, and OpenMP is not supported: the library is not linked; "
                                   "leave it out, or write it between #ifdef _OPENMP and #endif")
    if language == HOST and "<<<" in _blanked(text) and "__CUDACC__" not in text:
        raise InvalidArgumentError("kernel_source launches CUDA kernels, and lang='C' is C++ for the CPU: functions of the "
                                   "host around kernels are not supported; tune the kernel itself, with lang='CUDA'")
    parameters = parameters_of(kernel_name, text, count)
    compiled = _for_cuda(text) if language == CUDA else _for_host(kernel_name, text)
    if language == CUDA:
        has_cub = any(_ALL_OF_CUB.search(content) for content in (text, *files.values()))
        files = {header: _for_cuda(content) for header, content in files.items()}
        if has_cub:
            files.setdefault("cub/cub.cuh", _CUB_OF_DEVICES)
    suffix = ".cu" if language == CUDA else ".cc"
    return Source(language, {re.sub(r"\W", "_", name) + suffix: compiled, **files}, text, parameters)


def mentions(source: Source, word: str) -> bool:
    """Whether code has the word."""
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    return any(pattern.search(text) for text in source.files.values())


def _is_file_name(given: Any) -> bool:
    if isinstance(given, os.PathLike):
        return True
    return (isinstance(given, str) and "\n" not in given and not any(sign in given for sign in "(){};") and
            bool(_SUFFIX.search(given.strip())))


def _read_file(path: Path) -> str:
    try:
        return _files.read(path, _SOURCE_BYTES_MAX).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"kernel_source: {path} is not UTF-8 text") from None


def _add_headers(text: str, folder: Path, root: Path, files: Dict[str, str]) -> None:
    """What it includes by a path in quotes and stands below `root`."""
    for match in _INCLUDE.finditer(text):
        if not match.group(2):
            continue
        path = Path(os.path.normpath(folder / match.group(2)))
        name = os.path.relpath(path, root)
        if name.startswith("..") or name in files or not path.is_file():
            continue
        if len(files) + 1 >= _SOURCES_MAX:
            raise InvalidArgumentError(f"kernel_source includes more than {_SOURCES_MAX - 1} files")
        files[name] = _read_file(path)
        _add_headers(files[name], path.parent, root, files)


def _language(text: str, lang: Optional[str]) -> str:
    if lang is not None:
        if not isinstance(lang, str) or lang.upper() not in _LANGUAGES:
            raise InvalidArgumentError(f"lang={lang!r} is not supported; kernels are in CUDA (also PyCUDA, CuPy, "
                                       "NVCUDA) or C")
        return _LANGUAGES[lang.upper()]
    if "__global__" in text:
        return CUDA
    if "__kernel" in text:
        raise InvalidArgumentError("kernel_source is in OpenCL, which is not supported; kernels are in CUDA or C++")
    return HOST


# ---- Parameters ----


def parameters_of(kernel_name: str, text: str, count: Optional[int] = None) -> Optional[List[Parameter]]:
    """Of the definition of the function: a name, parentheses and a body. Of several, as in #if and #else, the first with
    `count` parameters, else the first."""
    plain = _blanked(text)
    found = []
    for match in _named(kernel_name, plain):
        end = _closing(plain, match.end() - 1)
        if _is_definition(plain, end):
            body_begin = plain.index("{", end)
            body = plain[body_begin:_closing(plain, body_begin) + 1]
            parts = _split(plain[match.end():end])
            if any(re.search(rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(part.strip())}\b", plain, re.MULTILINE)
                   for part in parts if part.strip().isidentifier()):
                return None  # a macro stands for any number of them
            found.append([_parameter(part, body) for part in parts if part.strip() not in ("", "void")])
    return next((parameters for parameters in found if len(parameters) == count), found[0] if found else None)


def _blanked(text: str) -> str:
    """As long, without what stands in comments and strings."""
    def spaces(match: "re.Match[str]") -> str:
        blank = re.sub(r"[^\n]", " ", match.group())
        return blank if match.group().startswith("/") else f'"{blank[1:-1]}"'

    return _COMMENT_OR_TEXT.sub(spaces, text)


def _named(kernel_name: str, plain: str) -> "List[re.Match[str]]":
    """The kernel's name with a parenthesis."""
    base = re.split(r"[<(]", kernel_name, maxsplit=1)[0].strip().split("::")[-1]
    return list(re.finditer(rf"\b{re.escape(base)}\s*\(", plain))


def _is_definition(plain: str, end: int) -> bool:
    """Whether a body follows the parenthesis at `end`."""
    return end >= 0 and plain[end + 1:].lstrip().startswith("{")


def _closing(text: str, begin: int) -> int:
    """Where the bracket at `begin` closes; -1: nowhere."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    opening, depth = text[begin], 0
    for index in range(begin, len(text)):
        if text[index] == opening:
            depth += 1
        elif text[index] == pairs[opening]:
            depth -= 1
            if depth == 0:
                return index
    return -1


def _split(text: str) -> List[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "(<[") - (sign in ")>]")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _parameter(text: str, body: str) -> Parameter:
    text = text.split("=")[0].strip()
    found = _PARAMETER_NAME.search(text)
    name = found.group(1) if found else ""
    if name in _UNNAMED or (found and found.start() == 0):
        name = ""
    is_pointer = "*" in text or "[" in text
    is_const = bool(re.search(r"\bconst\b", text.split("*")[0]))
    return Parameter(name, is_pointer, is_pointer and is_const, bool(name) and is_pointer and _is_written(name, body),
                     " ".join(text.split()), _element(text[:found.start()] if found and name else text))


def _element(text: str) -> Optional[Tuple[str, int]]:
    """Of a parameter without its name. None: a type of another name, a reference, or a pointer to pointers."""
    words = [word for word in re.findall(r"[\w:]+", text.split("[")[0]) if word not in _QUALIFIERS]
    if not words or text.count("*") > 1 or re.search(r"[&<]", text):
        return None
    one = words[0].rpartition("std::")[2] if len(words) == 1 else ""
    if one in ("float", "double"):
        return "f", 4 if one == "float" else 8
    fixed = _FIXED_WIDTH.fullmatch(one)
    if fixed or one in ("bool", "size_t"):
        return "i", int(fixed.group(1)) // 8 if fixed else 1 if one == "bool" else 8
    if not set(words) <= {"signed", "unsigned", "char", "short", "int", "long"}:
        return None
    return "i", next((width for word, width in (("char", 1), ("short", 2), ("long", 8)) if word in words), 4)


def _is_written(name: str, body: str) -> bool:
    word = rf"\b{re.escape(name)}\b"
    assigned = re.compile(r"\s*(?:\.\s*\w+\s*)?(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
    for match in re.finditer(rf"{word}\s*\[", body):
        end = _closing(body, match.end() - 1)
        if end >= 0 and (assigned.match(body, end + 1) or body[:match.start()].rstrip().endswith(("++", "--"))):
            return True
    through = rf"\*\s*(?:\(\s*{word}[^;=]*\)|{word})\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
    return bool(re.search(through, body) or re.search(rf"\batomic\w+\s*\(\s*&?\s*\(?\s*{word}", body))


# ---- What the compilers need ----


def _behind_includes(text: str) -> int:
    """Offset behind the last #include."""
    end = 0
    for match in _INCLUDE.finditer(text):
        end = min(match.end() + 1, len(text))
    return end


def _behind_blocks(plain: str, begin: int, end: int) -> int:
    """`begin`, or behind the last #endif before `end` of a block that `begin` lies in: the compiler may leave blocks out."""
    depth = 0
    for match in _CONDITIONAL.finditer(plain, begin, end):
        depth += 1 if match.group(1) == "if" else -1
        if depth < 0:
            begin, depth = min(match.end() + 1, len(plain)), 0
    return begin


def _inserted(text: str, offset: int, lines: str) -> str:
    """With lines that do not count in the compiler's messages."""
    number = text.count("\n", 0, offset) + 1
    before = text[:offset] + ("" if not offset or text[:offset].endswith("\n") else "\n")
    return f"{before}{lines}#line {number}\n{text[offset:]}"


def _for_host(kernel_name: str, text: str) -> str:
    """Entries are extern "C". In a source that does not say so the function's definition becomes it, or all that follows
    the headers where that is not possible, which excludes templates and overloads."""
    if re.search(r'extern\s+"C"', text):
        return text
    plain = _blanked(text)
    name = next(iter(_named(kernel_name, plain)), None)
    if name is not None and _is_definition(plain, _closing(plain, name.end() - 1)):
        begin = max((match.end() for match in _BEFORE_DECLARATION.finditer(plain, 0, name.start())), default=0)
        begin += len(plain[begin:]) - len(plain[begin:].lstrip())
        if not re.search(r"\b(static|inline|template)\b", plain[begin:name.start()]):
            return f'{text[:begin]}extern "C" {text[begin:]}'
    begin = _behind_includes(text)
    begin = _behind_blocks(plain, begin, name.start() if name is not None else begin)
    return _inserted(text, begin, 'extern "C" {\n').rstrip("\n") + "\n}\n"


def _for_cuda(text: str) -> str:
    """The compiler takes no macro in #pragma unroll, but constants. Without a value, or with 0, a parameter named like
    loop_unroll_factor means no pragma; where the source declares the name itself, the pragma stays."""
    plain = _blanked(text)
    names: Dict[str, bool] = {}  # and whether it is declared

    def replaced(match: "re.Match[str]") -> str:
        before, name = match.groups()
        if name not in names:
            names[name] = bool(re.search(rf"\b{_INTEGER}\s+{name}\b", plain))
        own = f"#elif !defined({name})\n{before}{name}\n" if names[name] else ""
        return f"#if {name}\n{before}tunefarm_{name}\n{own}#endif\n"

    lines = []
    for number, line in enumerate(text.split("\n"), 2):
        changed = _UNROLL.sub(replaced, line)
        lines.append(line if changed == line else f"{changed}#line {number}")
    if not names:
        return text
    # A header and the source that includes it may have the same ones.
    constants = "".join(f"#if {name} && !defined(tunefarm_has_{name})\n#define tunefarm_has_{name}\n"
                        f"constexpr int tunefarm_{name} = {name};\n#endif\n" for name in names)
    head = text[:_UNROLL.search(text).start()]  # type: ignore[union-attr]
    begin = _behind_includes(head)
    for match in re.finditer(rf"^[ \t]*#[ \t]*define[ \t]+(?:{'|'.join(names)})\b[^\n]*\n", head, re.MULTILINE):
        begin = max(begin, match.end())
    begin = _behind_blocks(plain, begin, len(head))
    return _inserted("\n".join(lines), begin, constants)
