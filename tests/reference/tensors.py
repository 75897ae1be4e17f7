"""Safetensors files, and the number formats in them as float64."""

import json
from pathlib import Path
from typing import Any

import numpy

Array = numpy.ndarray[Any, Any]
DTYPES = {
    "F64": numpy.float64,
    "BOOL": numpy.uint8,
    "F32": numpy.float32,
    "F16": numpy.float16,
    "BF16": numpy.uint16,
    "I64": numpy.int64,
    "I32": numpy.int32,
    "I8": numpy.int8,
    "U8": numpy.uint8,
    "F8_E4M3": numpy.uint8,
    "F8_E8M0": numpy.uint8,
}


def from_bf16(bits: Array) -> Array:
    """The numbers that 16-bit patterns stand for."""
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def to_bf16(values: Array) -> Array:
    """The nearest patterns, ties to even, of finite numbers that are first rounded to float32."""
    bits = numpy.asarray(values, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def rounded(values: Array) -> Array:
    """Numbers rounded once to the nearest bfloat16, ties to even."""
    step = 2.0 ** (numpy.maximum(numpy.frexp(values)[1], -125) - 8)
    return numpy.rint(values / step) * step


def e4m3_numbers() -> Array:
    """What each of the 256 codes stands for."""
    codes = numpy.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    normal = (8 + mantissa) * 2.0 ** (exponent - 10.0)
    numbers = numpy.where(exponent == 0, mantissa * 2.0**-9, normal)
    numbers[(codes & 127) == 127] = numpy.nan
    return numpy.where(codes >= 128, -numbers, numbers)


def e8m0_numbers() -> Array:
    """What each of the 256 codes stands for; 255 is not a number."""
    numbers = 2.0 ** (numpy.arange(256) - 127.0)
    numbers[255] = numpy.nan
    return numbers


def decode(dtype: str, values: Array) -> Array:
    """Stored elements as floats that hold them exactly, integers as they are."""
    if dtype == "BF16":
        return from_bf16(values)
    if dtype == "F8_E4M3":  # of which there are many: the numbers are exact in float32
        return e4m3_numbers().astype(numpy.float32)[values]
    if dtype == "F8_E8M0":
        return e8m0_numbers().astype(numpy.float32)[values]
    return values.astype(numpy.float64) if dtype.startswith("F") else values


class Tensors:
    """The tensors of all safetensors files of a folder, or of one file."""

    def __init__(self, path: Path) -> None:
        self.entries: dict[str, tuple[Path, dict[str, Any], int]] = {}
        for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
            with file.open("rb") as stream:
                header_bytes = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(header_bytes))
            for name, entry in header.items():
                if name != "__metadata__":
                    self.entries[name] = (file, entry, 8 + header_bytes)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def stored(self, name: str) -> Array:
        """As it is in the file."""
        file, entry, begin = self.entries[name]
        dtype = numpy.dtype(DTYPES[entry["dtype"]])
        count = (entry["data_offsets"][1] - entry["data_offsets"][0]) // dtype.itemsize
        values = numpy.fromfile(file, dtype, count, offset=begin + entry["data_offsets"][0])
        return values.reshape(entry["shape"])

    def __getitem__(self, name: str) -> Array:
        return decode(self.entries[name][1]["dtype"], self.stored(name))


def write(path: Path, tensors: dict[str, tuple[str, Array]]) -> None:
    """A file of tensors, given as safetensors dtype and stored elements."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, values) in tensors.items():
        begin, end = end, end + values.nbytes
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, values in tensors.values():
            stream.write(numpy.ascontiguousarray(values).tobytes())
