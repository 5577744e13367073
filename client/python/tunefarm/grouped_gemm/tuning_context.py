"""A block in which a config may fail."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional, Type

from tunefarm._visible import visible


def is_out_of_resources(error: BaseException) -> bool:
    """Whether it is Triton's OutOfResources, whichever release it comes from."""
    return any(kind.__name__ == "OutOfResources" for kind in type(error).__mro__)


class TritonTuningContext:
    """Runs one config: what the block raises is recorded and printed instead of ending the script.

        with TritonTuningContext(config) as context:
            time = do_bench(lambda: kernel(config))
        if context.success: ...

    `success` is False after any exception, which is `error` then. Where the device's resources did not suffice,
    `resource`, `required` and `limit` say which and by how much. KeyboardInterrupt and SystemExit are not about the
    config and go on. A context is for one block and one thread.
    """

    def __init__(self, kernel_config: Any) -> None:
        self.kernel_config = kernel_config
        self.success = True
        self.error: Optional[BaseException] = None
        self.resource: Optional[str] = None
        self.required: Optional[int] = None
        self.limit: Optional[int] = None

    def __enter__(self) -> "TritonTuningContext":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> bool:
        if error is None:
            return False
        self.success = False
        self.error = error
        if not isinstance(error, Exception):
            return False
        if is_out_of_resources(error):
            self.resource = getattr(error, "name", None)
            self.required = getattr(error, "required", None)
            self.limit = getattr(error, "limit", None)
            print(f"Out of resources: {self.resource} (required {self.required}, limit {self.limit}) for "
                  f"{self.kernel_config}")
        else:
            print(visible(f"{type(error).__name__} for {self.kernel_config}: {error}"))
        return True
