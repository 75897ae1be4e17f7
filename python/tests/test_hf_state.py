"""Whatever is done to the rows of a cache, ours follow: random operations against transformers."""

import copy
import random
from typing import Any

import pytest

from conftest import TINY, TINY_LAYERS, require

torch = require("torch")
transformers = require("transformers")

import pleiades.hf  # noqa: E402


class Side:
    """The PLE layers of one model, driven without the layers between."""

    def __init__(self, model: Any) -> None:
        self.layers = [model.model.layers[index].ple for index in TINY_LAYERS]
        self.config = model.config
        self.cache: Any = None

    def start(self) -> None:
        self.cache = transformers.DynamicCache(config=self.config)

    def forward(self, ids: Any, highway: Any, mask: Any) -> Any:
        if mask is not None:
            ids = torch.where(mask.bool(), ids, self.config.eos_token_id)
        # The state of linear attention, which is not part of this: cropping expects one.
        for index in TINY_LAYERS:
            dummy = torch.zeros(ids.shape[0], 1, ids.shape[1])
            self.cache.update_conv_state(dummy, index, 0, conv_kernel_size=1)
        with torch.no_grad():
            added = [layer(highway, ids, self.cache, conv_mask=mask) for layer in self.layers]
        added = torch.stack(added)
        return added if mask is None else added * mask[None, :, :, None]

    def apply(self, method: str, *arguments: Any) -> None:
        for index in TINY_LAYERS:
            getattr(self.cache.layers[index], method)(*arguments)


@pytest.fixture(scope="module")
def sides() -> tuple[Side, Side]:
    ours = pleiades.hf.from_pretrained(TINY, cache_bytes=100_000, dtype=torch.float32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    torch.set_num_threads(1)
    return Side(ours), Side(theirs)


class Game:
    """Random operations on both sides, and what must stay equal."""

    def __init__(self, sides: tuple[Side, Side], chance: random.Random) -> None:
        self.sides = sides
        self.chance = chance
        self.random = torch.Generator().manual_seed(chance.randrange(1 << 30))
        self.rows = chance.randint(1, 4)
        self.fresh = 0  # tokens since rows were last copied: that many can be taken back
        self.recording = chance.random() < 0.5
        for side in sides:
            side.start()
            if self.recording:
                side.cache.activate_past_recording()

    def forward(self, padded: bool = False) -> None:
        count = self.chance.randint(1, 14)
        ids = torch.randint(0, 512, (self.rows, count), generator=self.random)
        highway = torch.randn(self.rows, count, 256, generator=self.random)
        mask = None
        if padded:
            pads = torch.randint(0, count, (self.rows, 1), generator=self.random)
            mask = (torch.arange(count) >= pads).long()
        ours, theirs = (side.forward(ids, highway, mask) for side in self.sides)
        assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()
        self.fresh = count if padded else self.fresh + count
        if padded:
            self.fresh = 0

    def reorder(self) -> None:
        rows = torch.randint(0, self.rows, (self.rows,), generator=self.random)
        for side in self.sides:
            side.apply("reorder_cache", rows)
        self.fresh = 0

    def crop(self) -> None:
        removed = self.chance.randint(0, min(self.fresh, 7))
        for side in self.sides:
            side.apply("crop", -removed)
        self.fresh = 0

    def copy(self) -> None:
        for side in self.sides:
            kept = side.cache
            side.cache = copy.deepcopy(kept)
            if self.chance.random() < 0.5 and side is self.sides[0]:
                del kept
        self.fresh = 0

    def reset(self) -> None:
        for side in self.sides:
            side.apply("reset")
        self.fresh = 0

    def play(self, rounds: int) -> None:
        self.forward(padded=self.chance.random() < 0.5)
        for _ in range(rounds):
            moves = [self.forward, self.forward, self.reorder, self.copy]
            if self.recording:
                moves = [self.forward, self.crop, self.crop, self.reorder]
            elif self.chance.random() < 0.1:
                moves = [self.reset]
            self.chance.choice(moves)()
            self.forward()


def test_rows_go_where_transformers_moves_them(
    sides: tuple[Side, Side], randomness: random.Random
) -> None:
    for _ in range(20):
        Game(sides, randomness).play(15)
