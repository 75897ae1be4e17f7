"""Encoding rows as `pleiades pack` says it does, in numpy: rows are float32 [count, dim].

Each function gives the stored tensors: codes, then scales.
"""

import numpy

from tensors import Array, e4m3_numbers

E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def nearest(values: Array, numbers: Array) -> Array:
    """Indices of the nearest of ascending numbers from zero on, ties to the even index; magnitudes
    beyond the last become it."""
    magnitudes = numpy.minimum(numpy.abs(values.astype(numpy.float64)), numbers[-1])
    upper = numpy.searchsorted(numbers, magnitudes).clip(1, len(numbers) - 1)
    low = magnitudes - numbers[upper - 1]
    high = numbers[upper] - magnitudes
    takes_upper = (high < low) | ((high == low) & (upper % 2 == 0))
    return numpy.where(takes_upper, upper, upper - 1)


def e4m3(values: Array) -> Array:
    codes = nearest(values, e4m3_numbers()[:127])
    return (codes | numpy.signbit(values) * 128).astype(numpy.uint8)


def row_scales(rows: Array, largest_code: float) -> Array:
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    return numpy.where(largest == 0, numpy.float32(1), largest / numpy.float32(largest_code))


def fp8(rows: Array) -> tuple[Array, Array]:
    scales = row_scales(rows, 448)
    return e4m3(rows / scales), scales


def int8(rows: Array) -> tuple[Array, Array]:
    scales = row_scales(rows, 127)
    return numpy.rint(rows / scales).clip(-127, 127).astype(numpy.int8), scales


def nvfp4(rows: Array) -> tuple[Array, Array, Array]:
    largest = numpy.abs(rows).max()
    table_scale = largest / numpy.float32(6 * 448) if largest else numpy.float32(1)
    blocks = rows.reshape(len(rows), -1, 16)
    codes8 = e4m3(numpy.abs(blocks).max(axis=2) / numpy.float32(6) / table_scale)
    scales = (e4m3_numbers()[codes8].astype(numpy.float32) * table_scale)[..., None]
    with numpy.errstate(divide="ignore", invalid="ignore"):
        scaled = blocks / scales
    codes = numpy.where(scales == 0, 0, nearest(numpy.nan_to_num(scaled), E2M1) | numpy.signbit(blocks) * 8)
    codes = codes.reshape(len(rows), -1).astype(numpy.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, codes8, numpy.float32(table_scale)
