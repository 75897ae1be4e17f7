"""One forward of a model through the library: staged once, run at each layer, committed at the end."""

import threading
from typing import Any

import torch

import pleiades
from pleiades.hf.cache_state import CacheState


class StepPool:
    """Steps that are not in use, so that their memory is taken once."""

    def __init__(self, engine: pleiades.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._free: list[tuple[int, int, pleiades.Step]] = []

    def take(self, token_count: int, sequence_count: int) -> tuple[int, int, pleiades.Step]:
        """A step of at least this size: the smallest free one, or a new one."""
        with self._lock:
            fitting = [
                entry
                for entry in self._free
                if entry[0] >= token_count and entry[1] >= sequence_count
            ]
            if fitting:
                entry = min(fitting, key=lambda entry: entry[:2])
                self._free.remove(entry)
                return entry
            self._free.clear()  # too small: their memory is needed for the larger one
        tokens_max = 1 << max(token_count - 1, 31).bit_length()
        sequences_max = 1 << max(sequence_count - 1, 7).bit_length()
        step = pleiades.Step(self._engine, tokens_max=tokens_max, sequences_max=sequences_max)
        return tokens_max, sequences_max, step

    def put(self, entry: tuple[int, int, pleiades.Step]) -> None:
        """Take a step back."""
        with self._lock:
            self._free.append(entry)


class Flight:
    """A staged batch of a [rows, columns] forward, without its padding."""

    def __init__(
        self,
        pool: StepPool,
        state: CacheState,
        cache: Any,
        layer_indices: list[int],
        input_ids: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> None:
        self.input_ids = input_ids
        self._pool = pool
        self._state = state
        self._cache = cache
        self._layer_indices = layer_indices
        self._left = list(layer_indices)
        # The only copy from the device: padding is marked -1 on the way.
        ids = input_ids if mask is None else torch.where(mask.bool(), input_ids, -1)
        host = ids.cpu()
        self._real = None if mask is None else host >= 0
        self._column_count = host.shape[1]
        self._counts = [host.shape[1]] * host.shape[0]
        self._kept: torch.Tensor | None = None  # flat indices of the tokens that are not padding
        tokens = host.reshape(-1)
        if self._real is not None:
            self._counts = self._real.sum(1).tolist()
            self._kept = self._real.reshape(-1).nonzero().squeeze(1)
            tokens = tokens[self._kept]
        sequences = state.rows(cache, layer_indices[0], host.shape[0])
        self._entry = pool.take(tokens.numel(), host.shape[0])
        self._step.stage(sequences, tokens.contiguous().numpy(), self._counts)

    def is_of(self, input_ids: torch.Tensor) -> bool:
        """Whether it was begun for these ids and no layer ran yet."""
        return self.input_ids is input_ids and self._left == self._layer_indices

    @property
    def is_done(self) -> bool:
        """Whether every layer ran."""
        return not self._left

    @property
    def _step(self) -> pleiades.Step:
        return self._entry[2]

    def run(self, layer_index: int, highway: torch.Tensor) -> torch.Tensor:
        """What the layer adds to highway [rows, columns, channels]; 0 at padding."""
        if layer_index not in self._left:
            raise pleiades.WrongState(
                f"layer {layer_index} runs a second time in one forward of the model"
            )
        flat = highway.detach().reshape(-1, highway.shape[-1])
        if self._kept is None:
            added = torch.empty_like(flat)
            self._step.run(layer_index, flat.contiguous(), added, mode="delta")
        else:
            kept = self._kept.to(highway.device)
            packed = flat.index_select(0, kept)
            packed_added = torch.empty_like(packed)
            self._step.run(layer_index, packed, packed_added, mode="delta")
            added = torch.zeros_like(flat).index_copy_(0, kept, packed_added)
        self._left.remove(layer_index)
        if not self._left:
            self._finish(highway.device)
        return added.view(highway.shape)

    def _finish(self, device: torch.device) -> None:
        self._step.commit()
        if self._cache is not None:
            self._state.advance(
                self._cache, self._layer_indices, self._column_count, self._counts, self._real, device
            )
        self._pool.put(self._entry)

    def discard(self) -> None:
        """Forget a forward that did not come to its end."""
        if self._left:
            self._left.clear()
            self._step.discard()
            self._pool.put(self._entry)
