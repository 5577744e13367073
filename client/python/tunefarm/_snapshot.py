"""Snapshot files of `tunefarm export snapshot`, as far as they answer exactly (client/cpp/snapshot/snapshot_format.h has
the layout). Private. Needs no daemon."""

from __future__ import annotations

import os
import struct
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from tunefarm import _wire
from tunefarm.errors import InvalidArgumentError
from tunefarm.model import Value
from tunefarm.v1 import best_config_pb2

# The checksum takes a second for some 10 MB.
FILE_BYTES_MAX = 256 << 20

_HEADER = struct.Struct("<8sIIQQqq10Q")
_KERNEL = struct.Struct("<8I")
_PAIR = struct.Struct("<IIQ")
_BEST = struct.Struct("<12I4d2q")
_STRING = struct.Struct("<II")
_CHECKSUM_FROM = 32

_MASK = (1 << 64) - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee035"
    "90e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04b"
    "cdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad0"
    "31ce45cb3a8f95160428afd7fbcabb4b407e")
# Shorter inputs are hashed in other ways.
_LONG_FROM = 241
_STRIPE, _STRIPES_PER_BLOCK, _LANES = 64, 16, struct.Struct("<8Q")


def xxh3(data: bytes) -> int:
    """XXH3-64 without seed, of at least 241 bytes."""
    acc = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    keys = [_LANES.unpack_from(_SECRET, 8 * n) for n in range(_STRIPES_PER_BLOCK)]

    def accumulate(offset: int, key: Tuple[int, ...]) -> None:
        for lane, value in enumerate(_LANES.unpack_from(data, offset)):
            mixed = value ^ key[lane]
            acc[lane ^ 1] = acc[lane ^ 1] + value & _MASK
            acc[lane] = acc[lane] + (mixed & 0xFFFFFFFF) * (mixed >> 32) & _MASK

    stripes = (len(data) - 1) // _STRIPE
    last_key = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for stripe in range(stripes):
        accumulate(stripe * _STRIPE, keys[stripe % _STRIPES_PER_BLOCK])
        if stripe % _STRIPES_PER_BLOCK == _STRIPES_PER_BLOCK - 1:
            for lane, value in enumerate(acc):
                acc[lane] = (value ^ value >> 47 ^ last_key[lane]) * _PRIME32[0] & _MASK
    accumulate(len(data) - _STRIPE, _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE - 7))
    merge = _LANES.unpack_from(_SECRET, 11)
    result = len(data) * _PRIME64[0]
    for i in range(0, 8, 2):
        product = (acc[i] ^ merge[i]) * (acc[i + 1] ^ merge[i + 1])
        result += product & _MASK ^ product >> 64
    result &= _MASK
    result = (result ^ result >> 37) * 0x165667919E3779F9 & _MASK
    return result ^ result >> 32


class Snapshot:
    """A file that was read whole and whose checksum is right. InvalidArgumentError (SNAPSHOT_DAMAGED, SNAPSHOT_VERSION)
    for another one, OSError for what cannot be read."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            self._data = file.read(FILE_BYTES_MAX + 1)
        if len(self._data) > FILE_BYTES_MAX:
            raise InvalidArgumentError(f"{self.path} has more than the {FILE_BYTES_MAX} bytes that are read from Python; "
                                       "export the kernels that are needed (--kernel)", reason="SNAPSHOT_DAMAGED")
        if len(self._data) < _HEADER.size:
            raise self._damaged("it has fewer bytes than the header")
        magic, version, header_bytes, file_bytes, checksum, self.revision, _, *sections = _HEADER.unpack_from(self._data)
        if magic != b"TFSNAP\r\n":
            raise self._damaged("it does not begin like one")
        if version != 1:
            raise InvalidArgumentError(f"{self.path} is a snapshot of version {version}, this package reads version 1",
                                       reason="SNAPSHOT_VERSION")
        if header_bytes != _HEADER.size or file_bytes != len(self._data):
            raise self._damaged("it is cut off, or has bytes that do not belong to it")
        self._strings, self._text, self._kernels, self._pairs, self._bests = zip(sections[::2], sections[1::2])
        hashed = self._data[_CHECKSUM_FROM:]
        if len(hashed) < _LONG_FROM:  # it has no room for a best
            self._kernels = (0, 0)
        elif xxh3(hashed) != checksum:
            raise self._damaged("its checksum is wrong")

    def find(self, kernel_id: str, program_digest: str, class_id: str, dims: Mapping[str, Value]) -> Optional[Any]:
        """The v1.BestConfig of exactly this problem, or None. The kernel is the one of the id, and missing dims take
        their defaults; or of the digest where that is not empty, which leaves defaults open, so that no dim may be missing."""
        try:
            return self._find(kernel_id, program_digest, class_id, dims)
        except (IndexError, UnicodeDecodeError, ValueError, struct.error):
            raise self._damaged("its records contradict each other") from None

    def only_best(self, kernel_name: str, class_name: str) -> Optional[Any]:
        """The v1.BestConfig of the kernels of a display name on the device class of a display name ("": on all), if there
        is exactly one and the kernel has no dims."""
        try:
            found = []
            for number in range(self._kernels[1]):
                name, own_id, digest, _, dim_count, first_best, bests, _ = self._at(_KERNEL, self._kernels, number)
                if self._string(name) != kernel_name or dim_count:
                    continue
                texts = kernel_name, self._string(own_id).removeprefix("kernels/"), self._string(digest)
                records = (self._at(_BEST, self._bests, best) for best in range(first_best, first_best + bests))
                found += [self._best(record, texts, {}) for record in records
                          if class_name in ("", self._string(record[2]))]
            return found[0] if len(found) == 1 else None
        except (IndexError, UnicodeDecodeError, ValueError, struct.error):
            raise self._damaged("its records contradict each other") from None

    def _find(self, kernel_id: str, program_digest: str, class_id: str, dims: Mapping[str, Value]) -> Optional[Any]:
        for number in range(self._kernels[1]):
            name, own_id, digest, first_dim, dim_count, first_best, bests, _ = self._at(_KERNEL, self._kernels, number)
            texts = self._string(name), self._string(own_id).removeprefix("kernels/"), self._string(digest)
            if texts[2] != program_digest if program_digest else texts[1] != kernel_id:
                continue
            asked = self._values(first_dim, dim_count)
            if not dims.keys() <= asked.keys() or (program_digest and dims.keys() != asked.keys()):
                return None
            asked.update(dims)
            for best in range(first_best, first_best + bests):
                record = self._at(_BEST, self._bests, best)
                if self._string(record[1]) != class_id:
                    continue
                tuned = self._values(record[7], record[8])
                if _typed(tuned) == _typed(asked):
                    return self._best(record, texts, tuned)
        return None

    def _best(self, record: Tuple[Any, ...], kernel: Tuple[str, str, str], dims: Dict[str, Value]) -> Any:
        _, class_id, class_name, problem, job, driver, toolkit, _, _, first_value, values, flags = record[:12]
        best = best_config_pb2.BestConfig(
            kernel_name=kernel[0], kernel_id=kernel[1], program_digest=kernel[2], device_class_id=self._string(class_id),
            device_class_name=self._string(class_name), baseline_ns=record[15], job=self._string(job),
            driver_version=self._string(driver), toolkit_version=self._string(toolkit), revision=record[16],
            promoted_at_ms=record[17], pinned=flags == 1)
        best.problem.key = self._string(problem)
        _wire.fill_values(best.problem.dims, dims, "dim")
        _wire.fill_values(best.config.values, self._values(first_value, values), "parameter")
        best.measurement.median_ns, best.measurement.ci_low_ns, best.measurement.ci_high_ns = record[12:15]
        return best

    def _at(self, record: struct.Struct, section: Tuple[int, int], number: int) -> Tuple[Any, ...]:
        if number >= section[1]:
            raise IndexError(number)
        return record.unpack_from(self._data, section[0] + number * record.size)

    def _string(self, number: int) -> str:
        offset, size = self._at(_STRING, self._strings, number)
        if offset + size > self._text[1]:
            raise IndexError(number)
        start = self._text[0] + offset
        return self._data[start:start + size].decode()

    def _values(self, first: int, count: int) -> Dict[str, Value]:
        """None: a dim without a default."""
        values: Dict[str, Any] = {}
        for number in range(first, first + count):
            name, kind, payload = self._at(_PAIR, self._pairs, number)
            if kind == 0:
                values[self._string(name)] = None
            elif kind == 1:
                values[self._string(name)] = payload - (1 << 64) if payload >> 63 else payload
            elif kind == 2:
                values[self._string(name)] = struct.unpack("<d", struct.pack("<Q", payload))[0]
            elif kind == 3:
                values[self._string(name)] = payload == 1
            elif kind == 4:
                values[self._string(name)] = self._string(payload)
            else:
                raise ValueError(kind)
        return values

    def _damaged(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.path} is no snapshot, or is damaged: {what}; export it again",
                                    reason="SNAPSHOT_DAMAGED")


def _typed(values: Mapping[str, Any]) -> Dict[str, Tuple[type, Any]]:
    """So that 1 and True differ."""
    return {name: (type(value), value) for name, value in values.items()}
