"""Messages of protocol buffers as dicts, by tables: an interpreter that runs kernels may have no protobuf package, or
any version of it. Fields that are absent are absent from the dict; unknown ones are skipped."""

from __future__ import annotations

import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

Message = Dict[str, Any]


class WireError(ValueError):
    """Bytes that are no such message, or a value that its field cannot hold."""


class Field(NamedTuple):
    name: str
    # "int" (int32, int64, enums), "uint", "bool", "double", "float", "string", "bytes", or the table of a message.
    kind: Union[str, Dict[int, "Field"]]
    # "": one; "list"; "map": from strings to the kind.
    many: str = ""


Table = Dict[int, Field]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE_TYPES = {"int": _VARINT, "uint": _VARINT, "bool": _VARINT, "double": _FIXED64, "float": _FIXED32}
_DEPTH_MAX = 32


def _append_varint(value: int, out: bytearray) -> None:
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_varint(data: bytes, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise WireError("a number of more than 10 bytes")


def _wire_type(kind: Union[str, Table]) -> int:
    return _WIRE_TYPES.get(kind, _BYTES) if isinstance(kind, str) else _BYTES


def _append_scalar(field: Field, value: Any, out: bytearray) -> None:
    """The value without its tag."""
    kind = field.kind
    if isinstance(kind, dict):
        _append_bytes(encode(kind, value), out)
    elif kind == "string":
        _append_bytes(str(value).encode("utf-8", "replace"), out)
    elif kind == "bytes":
        _append_bytes(bytes(value), out)
    elif kind == "double":
        out += struct.pack("<d", value)
    elif kind == "float":
        out += struct.pack("<f", value)
    else:
        _append_varint(int(value), out)


def _append_bytes(data: bytes, out: bytearray) -> None:
    _append_varint(len(data), out)
    out += data


def _append_tagged(number: int, field: Field, value: Any, out: bytearray) -> None:
    _append_varint(number << 3 | _wire_type(field.kind), out)
    _append_scalar(field, value, out)


def encode(table: Table, message: Message) -> bytes:
    """WireError for a name that the table lacks: a misspelt field must not be lost."""
    numbers = {field.name: number for number, field in table.items()}
    out = bytearray()
    for name, value in message.items():
        if name not in numbers:
            raise WireError(f"there is no field {name!r}")
        field = table[numbers[name]]
        if field.many == "map":
            entry: Table = {1: Field("key", "string"), 2: Field("value", field.kind)}
            for key, item in value.items():
                _append_tagged(numbers[name], Field(name, entry), {"key": key, "value": item}, out)
        elif field.many == "list" and _wire_type(field.kind) != _BYTES:
            packed = bytearray()
            for item in value:
                _append_scalar(field, item, packed)
            if packed:
                _append_varint(numbers[name] << 3 | _BYTES, out)
                _append_bytes(bytes(packed), out)
        elif field.many == "list":
            for item in value:
                _append_tagged(numbers[name], field, item, out)
        else:
            _append_tagged(numbers[name], field, value, out)
    return bytes(out)


def _scalar(kind: str, wire: int, raw: Union[int, bytes]) -> Any:
    if wire != _wire_type(kind):
        raise WireError(f"a {kind} is written as wire type {wire}")
    if kind in ("double", "float"):
        return struct.unpack("<d" if kind == "double" else "<f", raw)[0]  # type: ignore[arg-type]
    if isinstance(raw, bytes):
        return raw.decode("utf-8") if kind == "string" else raw
    if kind == "bool":
        return raw != 0
    return raw - (1 << 64) if kind == "int" and raw >= 1 << 63 else raw


def _unpacked(field: Field, raw: bytes) -> List[Any]:
    items: List[Any] = []
    at = 0
    size = {"double": 8, "float": 4}.get(str(field.kind), 0)
    while at < len(raw):
        if size:
            items.append(_scalar(str(field.kind), _wire_type(field.kind), raw[at:at + size]))
            at += size
        else:
            value, at = _read_varint(raw, at)
            items.append(_scalar(str(field.kind), _VARINT, value))
    return items


def _raw_field(data: bytes, at: int, wire: int) -> Tuple[Union[int, bytes], int]:
    if wire == _VARINT:
        return _read_varint(data, at)
    if wire == _BYTES:
        size, at = _read_varint(data, at)
    elif wire in (_FIXED64, _FIXED32):
        size = 8 if wire == _FIXED64 else 4
    else:
        raise WireError(f"wire type {wire}")
    if size > len(data) - at:
        raise WireError("a field is cut off")
    return data[at:at + size], at + size


def decode(table: Table, data: bytes, depth: int = 0) -> Message:
    """WireError for what is no such message."""
    if depth > _DEPTH_MAX:
        raise WireError("messages are nested too deeply")
    message: Message = {}
    at = 0
    try:
        while at < len(data):
            tag, at = _read_varint(data, at)
            raw, at = _raw_field(data, at, tag & 7)
            field = table.get(tag >> 3)
            if field is not None:
                _add(message, field, tag & 7, raw, depth)
    except (UnicodeDecodeError, struct.error) as error:
        raise WireError(str(error)) from error
    return message


def _add(message: Message, field: Field, wire: int, raw: Union[int, bytes], depth: int) -> None:
    value: Optional[Any]
    if field.many == "map":
        entry = _message({1: Field("key", "string"), 2: Field("value", field.kind)}, raw, depth)
        empty: Any = {} if isinstance(field.kind, dict) else ""
        message.setdefault(field.name, {})[entry.get("key", "")] = entry.get("value", empty)
        return
    if field.many == "list" and isinstance(field.kind, str) and wire == _BYTES and _wire_type(field.kind) != _BYTES:
        message.setdefault(field.name, []).extend(_unpacked(field, raw if isinstance(raw, bytes) else b""))
        return
    value = _message(field.kind, raw, depth) if isinstance(field.kind, dict) else _scalar(field.kind, wire, raw)
    if field.many == "list":
        message.setdefault(field.name, []).append(value)
    else:
        message[field.name] = value


def _message(table: Table, raw: Union[int, bytes], depth: int) -> Message:
    if not isinstance(raw, bytes):
        raise WireError("a number where a message should be")
    return decode(table, raw, depth + 1)
