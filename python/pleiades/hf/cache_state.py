"""The library's sequences of one transformers cache."""

import weakref
from typing import Any

import torch

import pleiades
from pleiades.hf.row_tags import RowTag, names_of

STATE_ATTRIBUTE = "_pleiades"
# Of the three conv states that a qwen4_exp cache keeps for a layer, the reference PLE layer uses
# 1 (its window) and 2 (its token ids). Ours keeps tags in 2 and a placeholder in 1, so that
# whatever goes over all states of a layer finds them.
WINDOW_STATE = 1
TAG_STATE = 2


class CacheState:
    """Timelines by name, and the rows that stand on them.

    Lives as an attribute of the cache. `copy.deepcopy` of the cache copies the timelines.
    """

    def __init__(self, engine: pleiades.Engine) -> None:
        self.engine = engine
        self.sequences: dict[int, pleiades.Sequence] = {}
        self.next_name = 1
        self.flight: Any = None  # the forward that is under way
        # The tags as last written, so that an untouched cache is not read back from the device.
        self._tags: list[RowTag] = []
        self._written: weakref.ref[torch.Tensor] | None = None
        self._version = 0

    @staticmethod
    def of(cache: Any, engine: pleiades.Engine, layer_index: int) -> "CacheState":
        """The state of a cache; a new one when the cache is fresh."""
        state = getattr(cache, STATE_ATTRIBUTE, None)
        if state is None:
            if cache.has_previous_state(layer_index, TAG_STATE):
                raise pleiades.WrongState(
                    "past_key_values was filled before the tables were attached to the model, so it "
                    "has no sequences of ours: start with a fresh cache"
                )
            state = CacheState(engine)
            setattr(cache, STATE_ATTRIBUTE, state)
        if state.engine is not engine:
            raise pleiades.WrongState(
                "past_key_values belongs to another model: its sequences are of another engine"
            )
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> "CacheState":
        copied = CacheState(self.engine)
        copied.next_name = self.next_name
        for name, sequence in self.sequences.items():
            copied.sequences[name] = self._copy(sequence)
        return copied

    def rows(self, cache: Any, layer_index: int, row_count: int) -> list[pleiades.Sequence]:
        """A sequence for each row of the batch, standing where the cache says that the row stands."""
        layer = None if cache is None else cache.layers[layer_index]
        if layer is None or not layer.has_previous_state[TAG_STATE]:
            self.sequences.clear()
            self._tags = [self._new_row() for _ in range(row_count)]
        elif not self._is_as_written(layer.conv_states[TAG_STATE]):
            self._adopt(layer.conv_states[TAG_STATE])
        if len(self._tags) != row_count:
            raise pleiades.InvalidArgument(
                f"a batch of {row_count} rows on a cache of {len(self._tags)} rows"
            )
        return [self.sequences[tag.name] for tag in self._tags]

    def advance(
        self,
        cache: Any,
        layer_indices: list[int],
        column_count: int,
        counts: list[int],
        real: torch.Tensor | None,
        device: torch.device,
    ) -> None:
        """Write the tags of rows that took `counts` tokens each.

        `real` [rows, columns] says which tokens were not padding; None: all.
        """
        begin = self._tags
        self._tags = [
            RowTag(tag.name, tag.position + count) for tag, count in zip(begin, counts, strict=True)
        ]
        layer = cache.layers[layer_indices[0]]
        tensor = layer.conv_states[TAG_STATE]
        if not layer.record_past and real is None and self._is_as_written(tensor):
            tensor.add_(column_count)  # no copy from the host
        else:
            taken = torch.ones(len(counts), column_count, dtype=torch.int64) if real is None else real
            start = torch.tensor([tag.encode() for tag in begin])
            tags = (start[:, None] + taken.cumsum(1)).to(device)
            if not layer.record_past:
                tags = tags[:, -1:]
            cache.update_conv_state(tags, layer_indices[0], TAG_STATE, conv_kernel_size=1)
            tensor = layer.conv_states[TAG_STATE]
        self._written = weakref.ref(tensor)
        self._version = 0 if tensor.is_inference() else tensor._version
        self._fill_placeholders(cache, layer_indices, (len(counts), column_count), device)

    def _is_as_written(self, tensor: Any) -> bool:
        written = None if self._written is None else self._written()
        if written is None or tensor is not written or written.is_inference():
            return False
        return bool(written._version == self._version)

    @staticmethod
    def _fill_placeholders(
        cache: Any, layer_indices: list[int], shape: tuple[int, int], device: torch.device
    ) -> None:
        for layer_index in layer_indices:
            layer = cache.layers[layer_index]
            for state in (WINDOW_STATE, TAG_STATE):
                if (layer_index, state) == (layer_indices[0], TAG_STATE):
                    continue
                if layer.record_past or not layer.has_previous_state[state]:
                    nothing = torch.zeros(shape, dtype=torch.int64, device=device)
                    cache.update_conv_state(nothing, layer_index, state, conv_kernel_size=1)

    def _adopt(self, tensor: torch.Tensor) -> None:
        """Follow what transformers did with the rows since the last forward."""
        history = tensor.tolist()
        tags = [RowTag.decode(row[-1]) if row else self._new_row() for row in history]
        unknown = {tag.name for tag in tags} - self.sequences.keys()
        if unknown:
            raise pleiades.WrongState(
                f"the cache names sequences {sorted(unknown)} that it does not hold: its tensors "
                "were moved to another cache object, which this library cannot follow"
            )
        # Rows that share a timeline part ways: all but one get a copy. From the last position
        # backwards, because going back is all that a timeline can do.
        self._tags = list(tags)
        order = sorted(range(len(tags)), key=lambda row: tags[row], reverse=True)
        for row, following in zip(order, [*order[1:], None], strict=True):
            tag = tags[row]
            sequence = self.sequences[tag.name]
            if sequence.position != tag.position:
                self._rewind(sequence, tag.position)
            if following is not None and tags[following].name == tag.name:
                copied = self._new_row()
                self.sequences[copied.name].restore(sequence.snapshot("full"))
                self._tags[row] = RowTag(copied.name, tag.position)
        kept = {tag.name for tag in self._tags}
        kept |= names_of([value for row in history for value in row])
        self.sequences = {name: self.sequences[name] for name in kept if name in self.sequences}

    def _rewind(self, sequence: pleiades.Sequence, position: int) -> None:
        if position > sequence.position:
            raise pleiades.WrongState(
                f"the cache stands at token {position} of a row, but its sequence at "
                f"{sequence.position}: two copies of one cache were used; copy.deepcopy it instead"
            )
        sequence.rewind(position)

    def _new_row(self) -> RowTag:
        tag = RowTag(self.next_name, 0)
        self.next_name += 1
        self.sequences[tag.name] = pleiades.Sequence(self.engine)
        return tag

    def _copy(self, sequence: pleiades.Sequence) -> pleiades.Sequence:
        copied = pleiades.Sequence(self.engine)
        copied.restore(sequence.snapshot("full"))
        return copied
