"""What a config must fit into."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Optional

from tunefarm.model import Device, DeviceKind


@dataclass(frozen=True)
class DeviceProperties:
    """Multiprocessors, 32-bit registers per multiprocessor, bytes of shared memory that a block may have (with opting
    in), threads per warp. On a CPU: its cores, and 0 for what it has not."""

    NUM_SM: int
    NUM_REGS: int
    SIZE_SMEM: int
    WARP_SIZE: int


_lock = threading.Lock()
_properties: Optional[DeviceProperties] = None


def get_device_properties() -> DeviceProperties:
    """Of this process's CUDA device where torch is installed and sees one, else of the daemon's first device (GPUs come
    first), for which the private daemon may be started. Asked once in a process, then remembered; thread-safe.
    TunefarmError where neither is there."""
    global _properties
    with _lock:
        if _properties is None:
            _properties = _from_torch() or _from_daemon()
        return _properties


def _from_torch() -> Optional[DeviceProperties]:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    device = torch.cuda.current_device()
    known = torch.cuda.get_device_properties(device)
    shared = getattr(known, "shared_memory_per_block_optin", 0)
    registers = getattr(known, "regs_per_multiprocessor", 0)
    if not shared or not registers:  # Older releases do not tell.
        return None
    return DeviceProperties(known.multi_processor_count, registers, shared, getattr(known, "warp_size", 32))


def _from_daemon() -> DeviceProperties:
    from tunefarm.client import Client
    from tunefarm.errors import NotFoundError

    with Client() as client:
        devices = client.devices()
    if not devices:
        raise NotFoundError("the daemon has no device")
    return properties_of(devices[0])


def properties_of(device: Device) -> DeviceProperties:
    """The same of a device that the daemon knows."""
    known = device.device_class
    if known.kind == DeviceKind.HOST:
        return DeviceProperties(known.sm_count, 0, 0, 0)
    return DeviceProperties(known.sm_count, known.registers_per_sm, known.shared_bytes_per_block_optin, known.warp_size)
