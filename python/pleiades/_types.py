"""Types of arguments, as the stubs name them."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy
import numpy.typing


class DLPackArray(Protocol):
    """An array of any library that speaks DLPack."""

    @property
    def __dlpack__(self) -> Any: ...


Array: TypeAlias = DLPackArray | numpy.typing.NDArray[Any]
Tokens: TypeAlias = int | Sequence[int] | DLPackArray | numpy.typing.NDArray[numpy.integer[Any]]
Stream: TypeAlias = Any  # an address, or a stream object of torch or cupy

Arithmetic: TypeAlias = Literal["auto", "float32", "mixed", "reference"]
Arena: TypeAlias = Literal["auto", "cached", "resident"]
SlotMemory: TypeAlias = Literal["auto", "device", "pinned"]
Projection: TypeAlias = Literal["auto", "fp8", "dequantized"]
Io: TypeAlias = Literal["auto", "uring", "pread"]
Mode: TypeAlias = Literal["update", "delta"]
SnapshotKind: TypeAlias = Literal["compact", "full"]
RowFormat: TypeAlias = Literal["bf16", "fp8_e4m3"]
PackFormat: TypeAlias = Literal["bf16", "fp8", "int8", "nvfp4"]
