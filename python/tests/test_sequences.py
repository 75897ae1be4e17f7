"""Timelines: snapshots, drafts, going back, steps in flight."""

import random
from typing import Any

import numpy
import pytest

import pleiades


class Track:
    """A sequence's tokens and highway, and what one step over all of it adds at layer 0."""

    def __init__(self, engine: pleiades.Engine, golden: dict[str, Any]) -> None:
        self.ids = golden["input_ids"][0]
        self.highway = golden["layer0.hidden_in"][0]
        self.step = pleiades.Step(engine)
        self.added = self.advance(pleiades.Sequence(engine), len(self.ids))

    def advance(self, sequence: pleiades.Sequence, count: int) -> Any:
        begin = sequence.position
        added = numpy.empty((count, self.highway.shape[1]), numpy.float32)
        self.step.stage(sequence, self.ids[begin : begin + count])
        self.step.run(0, self.highway[begin : begin + count], added, mode="delta")
        self.step.commit()
        return added


@pytest.fixture
def track(engine: pleiades.Engine, golden: dict[str, Any]) -> Track:
    return Track(engine, golden)


@pytest.mark.parametrize("kind", ["compact", "full"])
def test_a_snapshot_goes_on_as_if_never_stopped(
    engine: pleiades.Engine, track: Track, kind: Any
) -> None:
    sequence = pleiades.Sequence(engine)
    track.advance(sequence, 21)
    blob = sequence.snapshot(kind)
    restored = pleiades.Sequence(engine)
    restored.restore(blob)
    assert restored.position == 21
    assert restored.snapshot(kind) == blob
    numpy.testing.assert_array_equal(track.advance(restored, 27), track.added[21:])


def test_a_damaged_snapshot_is_refused_and_changes_nothing(
    engine: pleiades.Engine, track: Track
) -> None:
    sequence = pleiades.Sequence(engine)
    track.advance(sequence, 12)
    blob = sequence.snapshot()
    for damaged in (b"", blob[:-1], blob + b"x", bytes([blob[0] ^ 1]) + blob[1:]):
        with pytest.raises(pleiades.Error):
            sequence.restore(damaged)
    assert sequence.snapshot() == blob


def test_rejected_drafts_leave_no_trace(
    engine: pleiades.Engine, track: Track, randomness: random.Random
) -> None:
    sequence = pleiades.Sequence(engine)
    while sequence.position < 40:
        begin = sequence.position
        kept, wrong = randomness.randint(1, 4), randomness.randint(0, 4)
        drafts = [*track.ids[begin : begin + kept], *([5] * wrong)]
        highway = numpy.resize(track.highway[begin : begin + kept], (len(drafts), 256))
        added = numpy.empty_like(highway)
        track.step.stage(sequence, [int(token) for token in drafts])
        track.step.run(0, highway, added, mode="delta")
        track.step.commit([kept])
        numpy.testing.assert_array_equal(added[:kept], track.added[begin : begin + kept])


def test_a_rewound_sequence_repeats_itself(engine: pleiades.Engine, track: Track) -> None:
    sequence = pleiades.Sequence(engine)
    track.advance(sequence, 30)
    sequence.rewind(25)
    numpy.testing.assert_array_equal(track.advance(sequence, 10), track.added[25:35])
    with pytest.raises(pleiades.Error):
        sequence.rewind(3)
    sequence.rewind(0)
    numpy.testing.assert_array_equal(track.advance(sequence, 5), track.added[:5])


def test_two_steps_in_flight(engine: pleiades.Engine, track: Track) -> None:
    sequence = pleiades.Sequence(engine)
    steps = [pleiades.Step(engine), pleiades.Step(engine)]
    steps[0].stage(sequence, track.ids[:12])
    for i in range(4):
        begin = 12 * i
        if i < 3:
            steps[1 - i % 2].stage(sequence, track.ids[begin + 12 : begin + 24])
        added = numpy.empty((12, 256), numpy.float32)
        steps[i % 2].run(0, track.highway[begin : begin + 12], added, mode="delta")
        steps[i % 2].commit()
        numpy.testing.assert_array_equal(added, track.added[begin : begin + 12])


def test_announced_tokens_change_no_bit(engine: pleiades.Engine, track: Track) -> None:
    sequence = pleiades.Sequence(engine)
    sequence.announce(track.ids)
    numpy.testing.assert_array_equal(track.advance(sequence, 9), track.added[:9])


def test_discard_leaves_the_sequence_where_it_was(engine: pleiades.Engine, track: Track) -> None:
    sequence = pleiades.Sequence(engine)
    track.advance(sequence, 4)
    track.step.stage(sequence, [9, 9, 9])
    track.step.discard()
    track.step.discard()
    assert sequence.position == 4
    numpy.testing.assert_array_equal(track.advance(sequence, 4), track.added[4:8])
