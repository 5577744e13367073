"""How values look in an interpreter and in a notebook. Private."""

from __future__ import annotations

import html
import importlib
import sys
from typing import Any, Mapping, Optional, Sequence, Tuple

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_TEXT_MAX = 100  # characters of one value
_ROWS_MAX = 50  # of a table or a list


def time_unit(nanoseconds: float) -> Tuple[float, str]:
    """In which such a time is a short number: its nanoseconds and its name."""
    return next((unit for unit in _UNITS if nanoseconds >= unit[0]), _UNITS[-1])


def duration_text(nanoseconds: float) -> str:
    """ "41.2 µs"."""
    factor, unit = time_unit(nanoseconds)
    return f"{nanoseconds / factor:.3g} {unit}"


def bytes_text(count: int) -> str:
    """ "1.5 GiB"."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count} B"


def a_type(value: Any) -> str:
    """The type of a value with its article, for messages: "an int", "a str"."""
    name = type(value).__name__
    # As they are spoken: "a uint8", "an ndarray".
    return f"{'an' if name[0].lower() in 'aeio' or name == 'ndarray' else 'a'} {name}"


def count_text(count: int, one: str, many: str = "") -> str:
    """ "1 trial", "3 trials"; `many` where that is not `one` with an "s"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


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


def list_text(values: Sequence[object]) -> str:
    """A line for each of the first values."""
    lines = [repr(value) for value in values[:_ROWS_MAX]]
    if len(values) > _ROWS_MAX:
        lines.append(_more(len(values)))
    return "[" + ",\n ".join(lines) + "]"


def table_html(columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = "", more: str = "") -> str:
    """A table of the first rows, what says that there are more, and a note; every text is escaped."""
    def row(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(short(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in rows[:_ROWS_MAX])
    if len(rows) > _ROWS_MAX:
        more = _more(len(rows))
    paragraphs = "".join(sentence_html(text) for text in (more, note) if text)
    return f"<table><thead>{row('th', columns)}</thead><tbody>{body}</tbody></table>{paragraphs}"


def sentence_html(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def record_html(title: str, fields: Mapping[str, object], config: Optional[Mapping[str, object]] = None) -> str:
    """A table of one value: a row for each field, and instead of a field "config" one for each parameter."""
    rows = [(name, value) for name, value in fields.items() if config is None or name != "config"]
    return table_html((title, ""), [*rows, *(config or {}).items()])


def list_html(values: Sequence[Any], note: str = "", is_all: bool = True) -> str:
    """A table of values with a method _summary(), which are of one type: a column for each field. Not `is_all`: there are
    more than these values."""
    records = [value._summary() for value in values[:_ROWS_MAX]]
    more = _more(len(values), is_all) if len(values) > _ROWS_MAX or not is_all else ""
    return table_html(list(records[0]) if records else [], [list(record.values()) for record in records], note, more)


def _more(count: int, is_all: bool = True) -> str:
    return f"... and {'' if is_all else 'at least '}{max(count - _ROWS_MAX, 1)} more"


def notebook() -> Optional[Any]:
    """The module IPython.display where code runs in the kernel of a notebook; None elsewhere, as in IPython on a
    terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    return importlib.import_module("IPython.display")
