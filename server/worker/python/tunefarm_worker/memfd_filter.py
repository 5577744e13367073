"""Forbids files in memory (memfd_create) to this process once its GPU is initialised: no limit of a process counts them.
The driver needs them until then: cuInit fails without (CUDA_ERROR_OPERATING_SYSTEM)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

# By machine: AUDIT_ARCH_* (linux/audit.h), the numbers of seccomp and memfd_create.
_MACHINES = {"x86_64": (0xC000003E, 317, 319), "aarch64": (0xC00000B7, 277, 279)}
# linux/seccomp.h, linux/bpf_common.h.
_SET_MODE_FILTER, _FLAG_TSYNC = 1, 1
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_LOAD_WORD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4  # of struct seccomp_data
_PR_SET_NO_NEW_PRIVS = 38


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction))]


class IsolationError(Exception):
    """What must be forbidden is still allowed."""


def initialise_gpu() -> None:
    """Creates the primary context of the first visible device, which torch and CuPy use too and which stays for the life
    of the process. Without a driver or a device that works: does nothing, since a config that needs it reports that."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"the GPU cannot be used: {error}", file=sys.stderr)
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    error = (driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0) or
             driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    if error != 0:
        print(f"the GPU cannot be used: the driver's error {error}", file=sys.stderr)


def forbid_memfds() -> None:
    """For all threads of this process, and for what it starts, for good: memfd_create fails with EPERM. Raises
    IsolationError if it still works."""
    if platform.machine() not in _MACHINES:
        raise IsolationError(f"no filter is known for the processor {platform.machine()}")
    architecture, seccomp, memfd_create = _MACHINES[platform.machine()]
    instructions = (_Instruction * 6)(
        _Instruction(_LOAD_WORD, 0, 0, _ARCHITECTURE_OFFSET), _Instruction(_JUMP_EQUAL, 0, 2, architecture),
        _Instruction(_LOAD_WORD, 0, 0, _NUMBER_OFFSET), _Instruction(_JUMP_EQUAL, 1, 0, memfd_create),
        _Instruction(_RETURN, 0, 0, _RET_ALLOW), _Instruction(_RETURN, 0, 0, _RET_ERRNO | errno.EPERM))
    program = _Program(len(instructions), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise IsolationError("no_new_privs cannot be set: " + os.strerror(ctypes.get_errno()))
    if libc.syscall(ctypes.c_long(seccomp), _SET_MODE_FILTER, _FLAG_TSYNC, ctypes.byref(program)) != 0:
        raise IsolationError("the filter cannot be set in all threads: " + os.strerror(ctypes.get_errno()))
    # By its number: an interpreter that was built with an older C library has no os.memfd_create.
    fd = libc.syscall(ctypes.c_long(memfd_create), b"probe", 0)
    if fd >= 0:
        os.close(fd)
        raise IsolationError("memfd_create works under the filter")
