"""Going back in a cache that was cropped, which assisted decoding does with every draft that fails.

`Cache.crop` of transformers takes back keys, values and the windows of convolutions, but not the
recurrent state of linear attention, nor the positions that the sparse attention keeps. So caches
that record their past (``activate_past_recording``, which assisted decoding calls) keep the state
that they had before each of the last forwards, and what these read. When the next forward finds its
cache cropped, the state is put back and the tokens behind it that were not taken back are read once
more.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import pleiades
from pleiades.hf.cache_state import STATE_ATTRIBUTE

HISTORY_ATTRIBUTE = "_pleiades_history"
# Forwards are forgotten that began further back; the last one is kept whatever its length. An
# assistant reads its drafts one by one.
TOKENS_KEPT = 64
# Arguments of the decoder with a column for each token that is read.
COLUMNS = ("input_ids", "inputs_embeds", "position_ids", "ple_input_ids")


@dataclass
class _Forward:
    """What a forward read, and the state before it."""

    rows: int
    begin: int  # tokens in the cache
    end: int
    inputs: dict[str, torch.Tensor]
    layers: list[dict[str, Any] | None]  # the states of linear attention
    timelines: Any  # CacheState

    def first(self, count: int) -> dict[str, torch.Tensor]:
        """The inputs of its first `count` tokens."""
        inputs = {}
        for name, value in self.inputs.items():
            dim = 1 if name != "position_ids" else -1
            inputs[name] = value.narrow(dim, 0, count if name in COLUMNS else self.begin + count)
        return inputs


@torch.compiler.disable
def before_forward(decoder: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
    """Forward pre-hook of a model's decoder."""
    cache = kwargs.get("past_key_values")
    if cache is None or not any(getattr(layer, "record_past", False) for layer in cache.layers):
        return
    history = cache.__dict__.setdefault(HISTORY_ATTRIBUTE, [])
    inputs = {
        name: kwargs[name].detach()
        for name in (*COLUMNS, "attention_mask")
        if torch.is_tensor(kwargs.get(name))
    }
    ids = inputs.get("input_ids", inputs.get("inputs_embeds"))
    if ids is None:
        return  # the decoder refuses it
    rows, columns = ids.shape[:2]
    _take_back(decoder, cache, history, rows)
    begin = cache.get_seq_length()
    history.append(
        _Forward(
            rows=rows,
            begin=begin,
            end=begin + columns,
            inputs=inputs,
            layers=[_state(layer) for layer in cache.layers],
            timelines=copy.deepcopy(getattr(cache, STATE_ATTRIBUTE, None)),
        )
    )
    while len(history) > 1 and history[1].begin <= begin - TOKENS_KEPT:
        del history[0]


def _take_back(decoder: nn.Module, cache: Any, history: list[_Forward], rows: int) -> None:
    """Bring the whole state of a cropped cache to the length of its keys."""
    length = cache.get_seq_length()
    if not history or length >= history[-1].end:
        return
    reached = [forward for forward in history if forward.begin <= length]
    if not reached:
        raise pleiades.Unsupported(
            f"the cache was cropped to {length} tokens: no state is kept from so far back"
        )
    forward = reached.pop()
    if {rows, forward.rows} != {1}:
        raise pleiades.Unsupported(
            f"a cache of {forward.rows} rows was cropped: only one row can go back, because several "
            "may have been reordered meanwhile"
        )
    history[:] = reached
    for layer, state in zip(cache.layers, forward.layers, strict=True):
        if state is None:
            layer.crop(forward.begin - length)
        else:
            vars(layer).update(state)
    cache.position_ids = cache.position_ids[..., : forward.begin]
    setattr(cache, STATE_ATTRIBUTE, forward.timelines)
    if forward.begin < length:
        with torch.no_grad():
            decoder(**forward.first(length - forward.begin), past_key_values=cache)


def _state(layer: Any) -> dict[str, Any] | None:
    """Of a layer of linear attention, to be put back into its attributes; None: another layer."""
    if not hasattr(layer, "recurrent_states"):
        return None
    for index, window in layer.conv_states.items():
        if window is None:  # `crop` slices also those that the layer does not use
            layer.conv_states[index] = torch.empty(0)
            layer.conv_kernel_size[index] = 1
    state = {name: dict(value) for name, value in vars(layer).items() if isinstance(value, dict)}
    state["recurrent_states"] = {  # written in place; windows are not
        index: None if tensor is None else tensor.clone()
        for index, tensor in layer.recurrent_states.items()
    }
    return state
