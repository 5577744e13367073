"""What others wrote (the daemon, other users, compilers), fit for a terminal. Private."""

from __future__ import annotations

import re

# Control characters but line feeds and tabs (also U+0080 to U+009F, which terminals obey), marks that change the direction
# of text, separators of lines, and what stands for bytes that are no UTF-8.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """As the command line prints it: each byte of such a character becomes \\xNN."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: "re.Match[str]") -> str:
    code = ord(found[0])
    # Python's own stand-in for a byte that is no UTF-8.
    raw = bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else found[0].encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in raw)
