"""The worker's end of the socket to the daemon: one frame per packet, with sealed memory files attached."""

from __future__ import annotations

import array
import fcntl
import os
import socket
from typing import List, Optional, Sequence, Tuple

from . import messages

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class ProtocolError(RuntimeError):
    """The daemon sent a packet that violates the protocol."""


class Closed(Exception):
    """The daemon has closed the channel."""


class Channel:
    def __init__(self, fd: int) -> None:
        # Programs that a module starts must not inherit it.
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)

    def receive(self) -> Tuple[messages.Message, List[bytes]]:
        """Returns the next frame and the contents of the attached files. Raises Closed or ProtocolError."""
        room = socket.CMSG_SPACE(messages.FRAME_FDS_MAX * array.array("i").itemsize)
        try:
            packet, ancillary, flags, _ = self._socket.recvmsg(messages.FRAME_BYTES_MAX + 1, room,
                                                               socket.MSG_CMSG_CLOEXEC)
        except ConnectionError as error:
            raise Closed() from error
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
        try:
            if not packet:
                raise Closed()
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ProtocolError(f"a packet has more than {messages.FRAME_BYTES_MAX} bytes or "
                                    f"{messages.FRAME_FDS_MAX} files")
            contents = [_read_file(fd) for fd in fds]
        finally:
            for fd in fds:
                os.close(fd)
        try:
            return messages.decode(packet), contents
        except ValueError as error:
            raise ProtocolError(f"a packet of {len(packet)} bytes cannot be parsed: {error}") from error

    def send(self, frame: messages.Message, file: Optional[bytes] = None) -> None:
        """Raises Closed when the daemon does not read the channel any more."""
        packet = messages.encode(frame)
        fds: Sequence[int] = [] if file is None else [_sealed_file(file)]
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            self._socket.sendmsg([packet], ancillary)
        except (BrokenPipeError, ConnectionError) as error:
            raise Closed() from error
        finally:
            for fd in fds:
                os.close(fd)


def _read_file(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    size_max = max(messages.ARTIFACT_BYTES_MAX, messages.KERNEL_BYTES_MAX)
    if size > size_max:
        raise ProtocolError(f"an attached file has {size} bytes, the limit is {size_max}")
    content = bytearray()
    while len(content) < size:
        part = os.pread(fd, size - len(content), len(content))
        if not part:
            raise ProtocolError(f"an attached file ends after {len(content)} of {size} bytes")
        content += part
    return bytes(content)


def _sealed_file(content: bytes) -> int:
    fd = os.memfd_create("binary", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest):]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd
