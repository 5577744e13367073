"""The current GPU of this process, as PyTorch sees it. Private. Nothing here imports PyTorch."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from tunefarm.errors import ResourceExhaustedError


class Gpu(NamedTuple):
    """All empty where PyTorch does not say which GPU is the current one."""

    name: str = ""
    uuid: str = ""
    kind: str = ""  # the properties that all GPUs with the same answers have in common


def current() -> Gpu:
    """The GPU that the calling thread launches on. Initialises CUDA, which a launch does anyway."""
    cuda = _cuda()
    if cuda is None:
        return Gpu()
    number = cuda.current_device()
    # get_device_properties() first counts the devices through NVML, and then calls this function.
    properties = getattr(cuda, "_get_device_properties", cuda.get_device_properties)(number)
    name = properties.name
    kind = (f"{name} {getattr(properties, 'major', '')} {getattr(properties, 'minor', '')} "
            f"{getattr(properties, 'multi_processor_count', '')} {getattr(properties, 'total_memory', '')}")
    return Gpu(name, str(getattr(properties, "uuid", "")), kind)


def is_capturing() -> bool:
    """Whether the current stream's launches are captured into a graph. Does not initialise CUDA."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def check_memory(needed: int) -> None:
    """ResourceExhaustedError where the current GPU has less than `needed` bytes free."""
    cuda = _cuda()
    free = cuda.mem_get_info()[0] if cuda is not None else needed
    if needed > free:
        raise ResourceExhaustedError(f"the daemon needs {needed} bytes of the GPU's memory beside this process, and {free} are "
                                     "free")


def synchronize() -> None:
    """Waits for all work of the current GPU that this process has enqueued."""
    cuda = _cuda()
    if cuda is not None:
        cuda.synchronize()


def _cuda() -> Any:
    """torch.cuda where PyTorch is imported and has a GPU, else None."""
    torch = sys.modules.get("torch")
    # is_available() asks the driver.
    return torch.cuda if torch is not None and (torch.cuda.is_initialized() or torch.cuda.is_available()) else None
