"""How values look in an interpreter and in a notebook. Private."""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping, Sequence

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_TEXT_MAX = 100  # characters of one value


def duration_text(nanoseconds: float) -> str:
    """ "41.2 µs"."""
    for factor, unit in _UNITS:
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def config_text(config: Mapping[str, Any]) -> str:
    """ "BLOCK=64 ORDER=row"."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def short(text: object) -> str:
    """On one line of bounded length: control characters are escaped, the middle is left out."""
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
    return line if len(line) <= _TEXT_MAX else line[:_TEXT_MAX - 20] + "..." + line[-17:]


def angle(kind: str, *parts: object) -> str:
    """ "<Job 17 matmul SUCCEEDED>"; empty parts are left out."""
    return "<" + " ".join([kind, *(short(part) for part in parts if str(part))]) + ">"


def table_html(columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table; every text is escaped."""
    def row(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(short(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in rows)
    text = f"<table><thead>{row('th', columns)}</thead><tbody>{body}</tbody></table>"
    return f"{text}<p>{html.escape(note)}</p>" if note else text
