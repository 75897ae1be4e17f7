"""What `Model.describe` takes: a model whose files and weights the caller holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from pleiades._types import Array, RowFormat

__all__ = ["Geometry", "LayerWeights", "Shard"]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The numbers of a qwen4_exp configuration, under the names of ``ple_model_desc``.

    ``ngram_size`` is also the dilation of the convolution, ``row_count_divisor`` the
    configuration's ``make_ngram_vocab_size_divisible_by``.
    """

    vocab_size: int
    eos_token_id: int
    hidden: int
    stream_count: int
    embed_dim: int
    ngram_size: int = 3
    heads_per_ngram: int = 8
    tap_count: int = 4
    ngram_vocab_size_base: int = 20_000_000
    row_count_divisor: int = 128
    seed: int = 1234
    eps: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Rows ``[row_begin, row_begin + row_count)``, in a file or in memory.

    Attributes
    ----------
    file : str or path, optional
        The file that holds them from byte `offset` on.
    data : array, uint8, optional
        Or the bytes themselves, from byte `offset` on.
    """

    row_begin: int
    row_count: int
    file: str | PathLike[str] | None = None
    data: Array | None = None
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One PLE layer. Weights are bfloat16, or uint16 with its bits, in host memory.

    Attributes
    ----------
    layer_index : int
        0-based decoder layer.
    key : array, [stream_count * hidden, embed_dim]
    value : array, [hidden, embed_dim]
    norm_key, norm_query, norm_conv : array, [stream_count * hidden]
        Zero-centred, as checkpoints store them.
    conv : array, [stream_count * hidden, tap_count]
    row_format : {"bf16", "fp8_e4m3"}
    row_scale : float
        Of FP8 rows.
    """

    layer_index: int
    shards: Sequence[Shard]
    key: Array
    value: Array
    norm_key: Array
    norm_query: Array
    norm_conv: Array
    conv: Array
    row_format: RowFormat = "bf16"
    row_scale: float = 1.0
