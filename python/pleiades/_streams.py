"""The current CUDA stream of a library that has no exchange table (DLPack 1.3) to ask for it."""

import sys
from typing import Any


def current(array: Any) -> int | None:
    """Address of the stream that work on `array` is queued on; None: the default stream."""
    package = type(array).__module__.partition(".")[0]
    if package == "torch":
        torch = sys.modules["torch"]
        return int(torch.cuda.current_stream(array.device).cuda_stream)
    if package == "cupy":
        cupy = sys.modules["cupy"]
        return int(cupy.cuda.get_current_stream().ptr)
    return None
