"""Opening a checkpoint without its tables, and giving a model that has them ours."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.qwen4_exp import modeling_qwen4_exp as reference
from transformers.utils import cached_file

import pleiades
from pleiades._numbers import bytes_text
from pleiades.hf.ple_layer import PleLayer, Tables
from pleiades.hf.rollback import before_forward

_logger = logging.getLogger("pleiades")
_patching = threading.Lock()  # the replaced class is of the whole process


def from_pretrained(
    path: str | PathLike[str],
    *,
    cache_bytes: int = 1 << 30,
    device: str | torch.device | None = None,
    tables: str | PathLike[str] | None = None,
    engine_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Load a qwen4_exp model; its n-gram tables stay on disk.

    Parameters
    ----------
    path : str or path
        A checkpoint directory, or a name that transformers resolves.
    cache_bytes : int
        Memory for rows of the tables: on the device, for all layers together.
    device : str or torch.device, optional
        Where the model runs; by default where transformers puts it.
    tables : str or path, optional
        The checkpoint that has the tables and the other PLE weights, if it is not `path`.
    engine_options : mapping, optional
        Further arguments of `pleiades.Engine`.
    **kwargs
        For transformers' ``from_pretrained``: ``dtype``, ``device_map``, ...

    Returns
    -------
    transformers.PreTrainedModel
        The ordinary model of the checkpoint's architecture, in eval mode. At no time is there
        memory for the tables.

    Raises
    ------
    pleiades.Unsupported
        A model of another family, or a device that this build has no backend for.
    pleiades.Error
        What opening the tables refuses.
    """
    config = kwargs.pop("config", None) or transformers.AutoConfig.from_pretrained(fspath(path))
    _check_family(config)
    names = getattr(config, "architectures", None) or [""]
    model_class = getattr(transformers, names[0], transformers.AutoModelForCausalLM)
    with _without_ple_layers():
        model = model_class.from_pretrained(fspath(path), config=config, **kwargs)
    if device is not None:
        model = model.to(device)
    return attach(
        model,
        _local_directory(path if tables is None else tables),
        cache_bytes=cache_bytes,
        engine_options=engine_options,
    )


def attach(
    model: Any,
    path: str | PathLike[str],
    *,
    cache_bytes: int = 1 << 30,
    engine_options: Mapping[str, Any] | None = None,
) -> Any:
    """Give a loaded qwen4_exp model tables on disk; the memory of its own is free afterwards.

    Caches that the model filled before are refused afterwards.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    path : str or path
        The checkpoint directory of the tables and the other PLE weights.
    cache_bytes : int
        Memory for rows of the tables, for all layers together.
    engine_options : mapping, optional
        Further arguments of `pleiades.Engine`.

    Returns
    -------
    transformers.PreTrainedModel
        The same object.
    """
    _check_family(model.config)
    decoder = _decoder_of(model)
    config = model.config.get_text_config()
    layer_indices = [layer_id - 1 for layer_id in config.ple_layer_ids]
    parameter = next(decoder.layers[layer_indices[0]].parameters())
    options = {
        "device": _device_name(parameter.device),
        "arithmetic": "float32" if parameter.dtype == torch.float32 else "auto",
        "cache_bytes": cache_bytes,
        **(engine_options or {}),
    }
    source = pleiades.Model.open(path)
    found = [layer.layer_index for layer in source.layers]
    if found != layer_indices:
        raise pleiades.InvalidArgument(
            f"{path}: n-gram memories at layers {found}, but the model has them at {layer_indices}"
        )
    tables = Tables(pleiades.Engine(source, **options), layer_indices)
    for ple_layer_index, layer_index in enumerate(layer_indices):
        layer = decoder.layers[layer_index]
        if not isinstance(layer.ple, PleLayer):
            layer.ple = PleLayer(config, layer_index, ple_layer_index).eval()
        layer.ple.bind(tables)
    _hook(decoder.layers[0], tables.begin_early)
    _hook(decoder, before_forward)
    model._is_stateful = False  # so that transformers tries assisted decoding: before_forward
    _announce(source, tables.engine)
    return model


def _check_family(config: Any) -> None:
    text = config.get_text_config()
    if text.model_type != "qwen4_exp_text" or not text.ple_layer_ids:
        raise pleiades.Unsupported(
            f"a model of type '{text.model_type}' without PLE layers of qwen4_exp: pleiades.hf "
            "replaces these alone"
        )


@contextmanager
def _without_ple_layers() -> Iterator[None]:
    """Models that are built meanwhile have PleLayer and do not miss the weights that it lacks."""
    base = reference.Qwen4ExpPreTrainedModel
    with _patching:
        ignored = base._keys_to_ignore_on_load_unexpected
        base._keys_to_ignore_on_load_unexpected = [*(ignored or []), r"\.ple\."]
        replaced = reference.Qwen4ExpTextPLELayer
        reference.Qwen4ExpTextPLELayer = PleLayer
        try:
            yield
        finally:
            reference.Qwen4ExpTextPLELayer = replaced
            base._keys_to_ignore_on_load_unexpected = ignored


def _local_directory(path: str | PathLike[str]) -> Path:
    if Path(path).is_dir():
        return Path(path)
    return Path(cached_file(fspath(path), "config.json")).parent


def _decoder_of(model: nn.Module) -> Any:
    for module in model.modules():
        if isinstance(module, reference.Qwen4ExpTextModel):
            return module
    raise pleiades.Unsupported(f"{type(model).__name__} contains no Qwen4ExpTextModel")


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda:{device.index or 0}"
    return device.type


def _hook(module: Any, before: Callable[..., None]) -> None:
    """Call `before` each forward of the module, and nothing that was hooked earlier."""
    previous = getattr(module, "_pleiades_hook", None)
    if previous is not None:
        previous.remove()
    module._pleiades_hook = module.register_forward_pre_hook(before, with_kwargs=True)


def _announce(source: pleiades.Model, engine: pleiades.Engine) -> None:
    """Log how much of the tables is in memory; on stderr when nobody configured logging."""
    if not _logger.hasHandlers():
        _logger.addHandler(logging.StreamHandler())
        _logger.setLevel(logging.INFO)
    table_bytes, info = source.info.table_bytes, engine.info
    _logger.info(
        "pleiades: %s of n-gram tables, %s cached (%.1f %%) on %s, the rest on disk (%s%s)",
        bytes_text(table_bytes),
        bytes_text(info.arena_bytes),
        100 * min(1, info.arena_bytes / table_bytes),
        engine.device,
        info.io,
        ", past the page cache" if info.direct_io else "",
    )
