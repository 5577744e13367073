"""Timed configs as a table, a CSV file or a frame."""

from __future__ import annotations

import csv
import io
import os
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Union

from tunefarm import _files, _optional
from tunefarm.grouped_gemm.kernel_configs import KernelConfig

if TYPE_CHECKING:
    import pandas

_FLOAT_DIGITS = 6  # after the point, as pandas prints


@dataclass
class KernelResult:
    """One config beside the baseline. `torch_time` is the baseline's, `triton_time` the config's (in one unit, usually
    milliseconds), speedup = torch_time / triton_time. The static methods take any number of results, sort them by a
    column, and leave equal ones in their order."""

    torch_time: float
    triton_time: float
    speedup: float
    kernel_config: KernelConfig

    def to_dict(self) -> "OrderedDict[str, Any]":
        """The config's fields in their order, then torch_time, triton_time, speedup."""
        return OrderedDict(**asdict(self.kernel_config), torch_time=self.torch_time, triton_time=self.triton_time,
                           speedup=self.speedup)

    @staticmethod
    def to_dataframe(results: Sequence["KernelResult"], sort_by: str = "speedup",
                     ascending: bool = False) -> "pandas.DataFrame":
        """The columns of to_dict. ImportError without pandas."""
        pandas = _optional.needed("pandas", "to_dataframe", "to_csv does without")
        rows = _sorted_rows(results, sort_by, ascending)
        return pandas.DataFrame(rows, columns=_columns(rows))

    @staticmethod
    def to_csv(results: Sequence["KernelResult"], sort_by: str = "speedup", ascending: bool = False,
               filename: Union[str, "os.PathLike[str]"] = "results.csv") -> None:
        """The columns of to_dict with a header and no index; truth values are True and False. Needs no pandas."""
        rows = _sorted_rows(results, sort_by, ascending)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, _columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        _files.write(filename, text.getvalue())

    @staticmethod
    def print_table(results: Sequence["KernelResult"], sort_by: str = "speedup", ascending: bool = False,
                    num_results: int = 10) -> None:
        """The first `num_results` rows, columns aligned by spaces, no index. Needs no pandas."""
        rows = _sorted_rows(results, sort_by, ascending)
        print(_table(_columns(rows), rows[:num_results]))


def _sorted_rows(results: Sequence[KernelResult], sort_by: str, ascending: bool) -> List[Dict[str, Any]]:
    rows = [dict(result.to_dict()) for result in results]
    for row in rows:
        if sort_by not in row:
            raise KeyError(sort_by)
    # A descending sort leaves equal rows in their order, too.
    return sorted(rows, key=lambda row: row[sort_by], reverse=not ascending)


def _columns(rows: Sequence[Dict[str, Any]]) -> List[str]:
    """Those of the first row, and what rows of another kind of config have beside."""
    names: Dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)


def _cells(values: Sequence[Any]) -> List[str]:
    texts = ["" if value is None else str(value) for value in values]
    floats = [at for at, value in enumerate(values) if isinstance(value, float)]
    if floats:
        fixed = [f"{values[at]:.{_FLOAT_DIGITS}f}" for at in floats]
        # Zeros at the end that all numbers of the column share say nothing.
        while all(text.endswith("0") and not text.endswith(".0") for text in fixed):
            fixed = [text[:-1] for text in fixed]
        for at, text in zip(floats, fixed):
            texts[at] = text
    return texts


def _table(columns: Sequence[str], rows: Sequence[Dict[str, Any]]) -> str:
    lines = [""] * (len(rows) + 1)
    for number, name in enumerate(columns):
        cells = [name, *_cells([row.get(name) for row in rows])]
        width = max(map(len, cells))
        lines = [line + (" " if number else "") + cell.rjust(width) for line, cell in zip(lines, cells)]
    return "\n".join(lines)
