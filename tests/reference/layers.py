"""The layers of all families in float64, from the specification alone.

E is a token's rows, concatenated: [T, columns * dim]; R the residual streams [T, streams, hidden].
Nothing is rounded on the way, but where a function says so.
"""

from dataclasses import dataclass

import numpy

from tensors import Array, rounded


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

    def __call__(self, e: Array, r: Array, dead: Array) -> Array:
        streams, hidden = self.query_weight.shape
        parts = numpy.array_split(self.key_value, 16)  # the whole of it in float64 is large
        kv = numpy.concatenate([e @ part.astype(numpy.float64).T for part in parts], axis=1)
        kv = kv.reshape(-1, streams + 1, hidden)
        key, value = kv[:, :streams], kv[:, streams:]
        s = (r * self.query_weight * self.key_weight * key).sum(axis=-1)
        for factor in (r, key):
            s = s / numpy.sqrt((factor * factor).mean(axis=-1) + self.eps)
        s = s / numpy.sqrt(hidden)
        gate = sigmoid(numpy.copysign(numpy.sqrt(numpy.maximum(numpy.abs(s), 1e-6)), s))
        gate = numpy.where(dead[:, None], 0, gate)
        return r + gate[..., None] * value


def expand_blocks(weight: Array, scale: Array, block: int = 32) -> Array:
    """A weight times its scales of block x block elements."""
    return weight * scale.repeat(block, axis=0).repeat(block, axis=1)


def longcat(words: Array, rows: list[Array], projections: list[Array], plain: Array) -> Array:
    """Specification C.4: words [T, hidden]; by table, rows [T, dim] and [hidden, dim]; plain [T]:
    positions that keep the word embedding."""
    total = words + sum(row @ p.T for row, p in zip(rows, projections, strict=True))
    return numpy.where(plain[:, None], words, total / (1 + len(rows)))


@dataclass
class Gemma:
    """Specification D.2; the result is [T, layers * width]. A float32 model keeps its scalars as
    they are in either family."""

    projection: Array  # [layers * width, hidden]
    projection_norm: Array  # [width]
    eps: float
    rounds_scalars: bool = False  # Gemma 3n holds them as tensors of the model's type

    def __call__(self, rows: Array, embeds: Array) -> Array:
        width = len(self.projection_norm)
        scalars = numpy.array([embeds.shape[-1] ** -0.5, 2**-0.5, width**0.5])
        if self.rounds_scalars:
            scalars = rounded(scalars)
        context = (embeds @ self.projection.T * scalars[0]).reshape(len(rows), -1, width)
        context = norm(context, self.eps) * self.projection_norm
        row = rows.reshape(context.shape) * scalars[2]
        return ((context + row) * scalars[1]).reshape(len(rows), -1)
