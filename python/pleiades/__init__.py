"""Pleiades: the n-gram memory layers of large language models, at inference.

>>> model = pleiades.Model.open("checkpoint")
>>> engine = pleiades.Engine(model, cache_bytes=8 << 30)
>>> sequence = pleiades.Sequence(engine)
>>> step = pleiades.Step(engine, tokens_max=512)
>>> step.stage(sequence, tokens)   # row ids; reads begin
>>> step.run(1, highway)           # decoder layer 1 adds into the highway, in place
>>> step.commit()                  # the sequence moves forward

`pleiades.hf` runs Hugging Face models with their tables left on disk, `pleiades.torch_op` is the
run as a torch operator, and ``python -m pleiades`` is the command line tool.
"""

from pleiades._native import (
    Engine,
    EngineInfo,
    LayerInfo,
    Metrics,
    Model,
    ModelInfo,
    PackHead,
    PackReport,
    Quantiles,
    Sequence,
    ShardInfo,
    Step,
    VerifyReport,
    pack,
)
from pleiades._native import version as __version__
from pleiades.description import Geometry, LayerWeights, Shard
from pleiades.errors import (
    Corrupt,
    DeadlineExceeded,
    DeviceError,
    Error,
    InternalError,
    InvalidArgument,
    IoError,
    NotFound,
    OutOfMemory,
    Unsupported,
    WrongState,
)

__all__ = [
    "Corrupt",
    "DeadlineExceeded",
    "DeviceError",
    "Engine",
    "EngineInfo",
    "Error",
    "Geometry",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "LayerInfo",
    "LayerWeights",
    "Metrics",
    "Model",
    "ModelInfo",
    "NotFound",
    "OutOfMemory",
    "PackHead",
    "PackReport",
    "Quantiles",
    "Sequence",
    "Shard",
    "ShardInfo",
    "Step",
    "Unsupported",
    "VerifyReport",
    "WrongState",
    "__version__",
    "pack",
]
