"""The module that stands where transformers' PLE layer stood."""

import threading
from typing import Any

import torch
from torch import nn

import pleiades
from pleiades.hf.cache_state import STATE_ATTRIBUTE, CacheState
from pleiades.hf.flight import Flight, StepPool


class Tables:
    """The engine of a model and the forwards that are under way; shared by its PLE layers."""

    def __init__(self, engine: pleiades.Engine, layer_indices: list[int]) -> None:
        self.engine = engine
        self.layer_indices = layer_indices
        self._pool = StepPool(engine)
        self._thread = threading.local()  # the flight of a forward without a cache

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tables":
        raise pleiades.Unsupported(
            "a model with its tables on disk cannot be copied: open it once more by from_pretrained"
        )

    def begin(self, input_ids: torch.Tensor, cache: Any, mask: torch.Tensor | None) -> Flight:
        """Stage the batch; its rows are read while the layers before the first memory compute."""
        state = CacheState(self.engine)
        if cache is not None:
            state = CacheState.of(cache, self.engine, self.layer_indices[0])
        unfinished = self.flight(cache)
        if unfinished is not None:
            unfinished.discard()
        flight = Flight(self._pool, state, cache, self.layer_indices, input_ids, mask)
        self._holder(cache).flight = flight
        return flight

    def flight(self, cache: Any) -> Flight | None:
        """The forward under way on this cache, or on this thread without one."""
        return getattr(self._holder(cache), "flight", None)

    def _holder(self, cache: Any) -> Any:
        return self._thread if cache is None else getattr(cache, STATE_ATTRIBUTE, None)

    @torch.compiler.disable
    def begin_early(self, layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of a model's first decoder layer."""
        self.begin(kwargs["ple_input_ids"], kwargs.get("past_key_values"), kwargs.get("conv_mask"))


class _Run(torch.autograd.Function):
    """The run, for callers that have gradients switched on and do not use them."""

    @staticmethod
    def forward(ctx: Any, highway: torch.Tensor, flight: Flight, layer_index: int) -> torch.Tensor:
        return flight.run(layer_index, highway)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise pleiades.Unsupported(
            "a model with its tables on disk cannot be trained: the n-gram memory has no backward"
        )


class PleLayer(nn.Module):
    """In place of transformers' ``Qwen4ExpTextPLELayer``: no parameters, the same forward.

    Inference only. Float32 and bfloat16.
    """

    # transformers has nothing to initialise or load here.
    _is_hf_initialized = True

    def __init__(self, config: Any, layer_idx: int, ple_layer_index: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.channels = config.hidden_size * config.hc_count
        self._tables: Tables | None = None

    def extra_repr(self) -> str:
        """For ``print(model)``."""
        where = "not attached" if self._tables is None else self._tables.engine.device
        return f"layer={self.layer_idx}, channels={self.channels}, {where}"

    def bind(self, tables: Tables) -> None:
        """Use this engine."""
        self._tables = tables

    @torch.compiler.disable
    def forward(
        self,
        hidden_states: torch.Tensor,
        input_ids: torch.Tensor,
        past_key_values: Any,
        conv_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What the layer adds to hidden_states [batch, sequence, channels].

        Parameters
        ----------
        hidden_states : torch.Tensor, float32 or bfloat16, [batch, sequence, channels]
            The highway, on the engine's device.
        input_ids : torch.Tensor, [batch, sequence]
        past_key_values : transformers.Cache or None
        conv_mask : torch.Tensor or None, [batch, sequence]
            0 at padding.
        """
        tables = self._tables
        if tables is None:
            raise pleiades.WrongState("the model has no tables yet: pleiades.hf.attach(model, path)")
        flight = tables.flight(past_key_values)
        if self.layer_idx == tables.layer_indices[0]:
            if flight is None or not flight.is_of(input_ids):
                flight = tables.begin(input_ids, past_key_values, conv_mask)
        elif flight is None or flight.is_done:
            raise pleiades.WrongState(
                f"layer {self.layer_idx} was called outside a forward of the whole model"
            )
        added: torch.Tensor
        if torch.is_grad_enabled() and hidden_states.requires_grad:
            added = _Run.apply(hidden_states, flight, self.layer_idx)
        else:
            added = flight.run(self.layer_idx, hidden_states)
        return added
