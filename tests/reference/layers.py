"""The layers of all families in float64, from the specification alone.

E is a token's rows, concatenated: [T, columns * dim]; R the residual streams [T, streams, hidden].
Nothing is rounded on the way, but where a function says so: a step is what follows every operation,
and nothing where the model computes in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy

import row_formats
from tensors import Array, e4m3_numbers, rounded

Step = Callable[[Array], Array]


def exact(x: Array) -> Array:
    return x


def sigmoid(x: Array) -> Array:
    return 1 / (1 + numpy.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def norm(x: Array, eps: float) -> Array:
    """Root mean square of the last axis."""
    return x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def signed_root(s: Array) -> Array:
    """A, B.1: the sign of zero is zero."""
    return numpy.sqrt(numpy.maximum(numpy.abs(s), 1e-6)) * numpy.sign(s)


def depthwise(x: Array, taps: Array, dilation: int) -> Array:
    """Causal, zeros before the sequence: x [T, streams, hidden], taps [streams, hidden, K]."""
    count = taps.shape[-1]
    out = numpy.zeros_like(x)
    for tap in range(count):
        lag = (count - 1 - tap) * dilation
        if lag < len(x):
            out[lag:] += taps[..., tap] * x[: len(x) - lag]
    return out


@dataclass
class Qwen:
    """Specification A.5; the result is what the layer adds."""

    key: Array  # [streams * hidden, embed]
    value: Array  # [hidden, embed]
    norm_key: Array  # [streams, hidden], zero-centred
    norm_query: Array
    norm_conv: Array
    conv: Array  # [streams, hidden, K]
    dilation: int
    eps: float

    def __call__(self, e: Array, r: Array) -> Array:
        streams, hidden = self.norm_key.shape
        key = (e @ self.key.T).reshape(-1, streams, hidden)
        key = norm(key, self.eps) * (1 + self.norm_key)
        query = norm(r, self.eps) * (1 + self.norm_query)
        s = (key * query).sum(axis=-1) / numpy.sqrt(hidden)
        gated = sigmoid(signed_root(s))[..., None] * (e @ self.value.T)[:, None]
        normed = norm(gated, self.eps) * (1 + self.norm_conv)
        return gated + silu(depthwise(normed, self.conv, self.dilation))


@dataclass
class EngramDemo:
    """Specification B.1; the result is what the layer adds."""

    key: Array  # [streams, hidden, embed]
    key_bias: Array  # [streams, hidden]
    value: Array  # [hidden, embed]
    value_bias: Array  # [hidden]
    norm_key: Array  # [streams, hidden]
    norm_query: Array
    norm_conv: Array
    conv: Array  # [streams, hidden, K]
    dilation: int
    eps: float = 2.0**-23
    conv_eps: float = 1e-5

    def __call__(self, e: Array, r: Array) -> Array:
        key = numpy.einsum("te,she->tsh", e, self.key, optimize=True) + self.key_bias
        key = norm(key, self.eps) * self.norm_key
        query = norm(r, self.eps) * self.norm_query
        s = (key * query).sum(axis=-1) / numpy.sqrt(key.shape[-1])
        value = (e @ self.value.T + self.value_bias)[:, None]
        gated = sigmoid(signed_root(s))[..., None] * value
        normed = norm(gated, self.conv_eps) * self.norm_conv
        return gated + silu(depthwise(normed, self.conv, self.dilation))


@dataclass
class EngramV41:
    """Specification B.2; the result is the updated stream."""

    key_value: Array  # [(streams + 1) * hidden, embed], dequantised
    query_weight: Array  # [streams, hidden]
    key_weight: Array
    eps: float
    is_fp8: bool  # rows are given to the product in E4M3, whose result is bfloat16

    def __call__(self, e: Array, r: Array, dead: Array) -> Array:
        key, value = self.product(e)
        gate = numpy.where(dead[:, None], 0, self.gate(self.score(key, r)))
        return r + gate[..., None] * value

    def slack(self, e: Array, r: Array, dead: Array) -> Array:
        """[T]: what two keys and two values of each stream do to a token's output that fall on the
        other side of an edge between two bfloat16. Of a score near 0 the root makes much."""
        key, value = self.product(e)
        score = self.score(key, r)
        largest = (numpy.abs(r * self.query_weight * self.key_weight) * spacing(key)).max(axis=-1)
        moved = 2 * largest / self.score_scale(key, r)
        swing = numpy.abs(self.gate(score + moved) - self.gate(score - moved))
        values = swing * numpy.linalg.norm(value, axis=-1) + 2 * spacing(value).max(axis=-1)
        return numpy.where(dead, 0, values.sum(axis=-1))

    def product(self, e: Array) -> tuple[Array, Array]:
        """Keys [T, streams, hidden] and values [T, 1, hidden]."""
        streams, hidden = self.query_weight.shape
        if self.is_fp8:
            e = quantized(e)
        parts = numpy.array_split(self.key_value, 16)  # the whole of it in float64 is large
        kv = numpy.concatenate([e @ part.astype(numpy.float64).T for part in parts], axis=1)
        if self.is_fp8:
            kv = rounded(kv)
        kv = kv.reshape(-1, streams + 1, hidden)
        return kv[:, :streams], kv[:, streams:]

    def score_scale(self, key: Array, r: Array) -> Array:
        mean_squares = [(factor * factor).mean(axis=-1) + self.eps for factor in (r, key)]
        return numpy.sqrt(mean_squares[0] * mean_squares[1] * key.shape[-1])

    def score(self, key: Array, r: Array) -> Array:
        dot = (r * self.query_weight * self.key_weight * key).sum(axis=-1)
        return dot / self.score_scale(key, r)

    def gate(self, s: Array) -> Array:
        return sigmoid(numpy.copysign(numpy.sqrt(numpy.maximum(numpy.abs(s), 1e-6)), s))


def spacing(values: Array) -> Array:
    """From a number to the next bfloat16."""
    return numpy.ldexp(1.0, numpy.frexp(values)[1] - 8)


def expand_blocks(weight: Array, scale: Array, block: int = 32) -> Array:
    """A weight times its scales of block x block elements."""
    return weight * scale.repeat(block, axis=0).repeat(block, axis=1)


def quantized(values: Array, block: int = 32) -> Array:
    """What E4M3 keeps, with a power of two for each block of the last axis."""
    blocks = values.reshape(-1, block)
    largest = numpy.abs(blocks).max(axis=1, keepdims=True)
    least = numpy.maximum(largest, 1e-4).astype(numpy.float32) * numpy.float32(1 / 448)
    scale = 2 ** numpy.ceil(numpy.log2(least.astype(numpy.float64)))
    return (e4m3_numbers()[row_formats.e4m3(blocks / scale)] * scale).reshape(values.shape)


def longcat(
    words: Array, rows: list[Array], projections: list[Array], plain: Array, step: Step = exact
) -> Array:
    """Specification C.4: words [T, hidden]; by table, rows [T, dim] and [hidden, dim]; plain [T]:
    positions that keep the word embedding."""
    total = words
    for row, projection in zip(rows, projections, strict=True):
        total = step(total + step(row @ projection.T))
    return numpy.where(plain[:, None], words, step(total / (1 + len(rows))))


@dataclass
class Gemma:
    """Specification D.2; the result is [T, layers * width]."""

    projection: Array  # [layers * width, hidden]
    projection_norm: Array  # [width]
    eps: float
    step: Step
    holds_scalars: bool  # as tensors of the model's type: Gemma 3n

    def __call__(self, rows: Array, embeds: Array) -> Array:
        step, width = self.step, len(self.projection_norm)
        scalars = numpy.array([embeds.shape[-1] ** -0.5, 2**-0.5])
        if self.holds_scalars:
            scalars = step(scalars)
        context = step(step(embeds @ self.projection.T) * scalars[0]).reshape(len(rows), -1, width)
        context = step(norm(context, self.eps) * self.projection_norm)
        row = step(rows.reshape(context.shape) * step(numpy.sqrt(numpy.float64(width))))
        return step(step(context + row) * scalars[1]).reshape(len(rows), -1)
