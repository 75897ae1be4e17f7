"""What is refused, and by which sentence; lifetimes; threads."""

import gc
import sys
import threading
import weakref
from typing import Any

import numpy
import pytest

import pleiades
from conftest import TINY


def test_every_class_of_error_is_an_error() -> None:
    for name in pleiades.errors.__all__:
        assert issubclass(getattr(pleiades, name), pleiades.Error)


def test_sentences_name_the_object_and_the_numbers(model: pleiades.Model) -> None:
    with pytest.raises(pleiades.NotFound, match="'nowhere': No such file"):
        pleiades.Model.open("nowhere")
    with pytest.raises(pleiades.InvalidArgument, match="arena is 'huge', but must be one of 'auto'"):
        pleiades.Engine(model, arena="huge")  # type: ignore[arg-type]
    with pytest.raises(pleiades.Error, match="layer 7"):
        model.row_ids(7, [1])
    with pytest.raises(ValueError, match="token 512 at index 1"):
        model.row_ids(0, [1, 512])


def test_steps_refuse_what_does_not_fit(engine: pleiades.Engine) -> None:
    sequence, step = pleiades.Sequence(engine), pleiades.Step(engine, tokens_max=8)
    row = numpy.zeros((2, 256), numpy.float32)
    with pytest.raises(pleiades.WrongState, match="not staged"):
        step.commit()
    with pytest.raises(pleiades.InvalidArgument, match="holds something that is not an integer"):
        step.stage(sequence, [1, 2.5])  # type: ignore[list-item]
    with pytest.raises(pleiades.InvalidArgument, match="3 tokens do not divide evenly over 2"):
        step.stage([sequence, pleiades.Sequence(engine)], [1, 2, 3])
    with pytest.raises(pleiades.InvalidArgument, match="adds up to 3, but there are 2"):
        step.stage(sequence, [1, 2], [3])
    with pytest.raises(pleiades.Error, match="9"):
        step.stage(sequence, list(range(9)))
    with pytest.raises(pleiades.Error, match="position"):
        step.stage(sequence, [1], positions=[3])
    step.stage(sequence, [1, 2])
    with pytest.raises(pleiades.InvalidArgument, match="has 256 elements.*needs 512"):
        step.run(0, row[:1])
    with pytest.raises(pleiades.InvalidArgument, match="must be float32 or bfloat16"):
        step.run(0, row.astype(numpy.float64))
    with pytest.raises(pleiades.InvalidArgument, match="is not contiguous"):
        step.run(0, numpy.zeros((2, 512), numpy.float32)[:, ::2])
    read_only = row.copy()
    read_only.flags.writeable = False
    with pytest.raises(pleiades.InvalidArgument, match="cannot be written"):
        step.run(0, read_only)
    step.run(0, read_only, row)
    with pytest.raises(pleiades.InvalidArgument, match="one of 'update', 'delta'"):
        step.run(0, row, mode="add")  # type: ignore[arg-type]
    # A stage that is refused leaves the staged batch, also to what counts its sequences.
    with pytest.raises(pleiades.WrongState, match="staged already"):
        step.stage([sequence, pleiades.Sequence(engine)], [1, 2])
    with pytest.raises(pleiades.InvalidArgument, match="accepted has 2 entries for 1 sequences"):
        step.commit([2, 2])
    step.commit([2])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint16"])
def test_tokens_of_every_integer_type(model: pleiades.Model, dtype: str) -> None:
    tokens = [5, 7, 7, 500, 0]
    numpy.testing.assert_array_equal(
        model.row_ids(0, numpy.array(tokens, dtype)), model.row_ids(0, tokens)
    )


def test_released_objects_say_so(model: pleiades.Model) -> None:
    engine = pleiades.Engine(model)
    sequence = pleiades.Sequence(engine)
    with pleiades.Step(engine) as step:
        step.stage(sequence, [1])
    with pytest.raises(pleiades.WrongState, match="the step was released"):
        step.stage(sequence, [1])
    sequence.release()
    sequence.release()
    with pytest.raises(pleiades.WrongState, match="the sequence was released"):
        sequence.snapshot()


def test_any_order_of_going_is_right(model: pleiades.Model) -> None:
    engine = pleiades.Engine(model)
    sequence, step = pleiades.Sequence(engine), pleiades.Step(engine)
    del engine
    gc.collect()
    step.stage(sequence, [1, 2])
    step.run(0, numpy.zeros((2, 256), numpy.float32))
    del sequence
    step.commit()


def test_a_log_callable_that_holds_its_engine_is_collected(model: pleiades.Model) -> None:
    lines: list[str] = []

    class Holder:
        def log(self, level: int, line: str) -> None:
            lines.append(line)

    holder = Holder()
    holder.step = pleiades.Step(pleiades.Engine(model, log=holder.log))  # type: ignore[attr-defined]
    assert lines
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None


def test_a_failing_log_callable_fails_no_step(
    model: pleiades.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: ignored.append(raised.exc_value))

    def log(level: int, line: str) -> None:
        raise RuntimeError("sink is full")

    engine = pleiades.Engine(model, log=log)
    assert engine.info.thread_count > 0
    assert {str(error) for error in ignored} == {"sink is full"}


def test_an_info_outlives_its_engine(model: pleiades.Model) -> None:
    with pleiades.Engine(model) as engine:
        info = engine.info
        text = repr(info)
    for _ in range(100):
        assert repr(info) == text


def test_threads_have_steps_of_their_own(model: pleiades.Model) -> None:
    engine = pleiades.Engine(model, cache_bytes=50_000, arena="cached", thread_count=1)
    results: dict[int, Any] = {}

    def work(name: int) -> None:
        sequence, step = pleiades.Sequence(engine), pleiades.Step(engine)
        outputs = []
        for token in range(50):
            highway = numpy.full((1, 256), 0.5, numpy.float32)
            step.stage(sequence, token)
            step.run(0, highway)
            step.commit()
            outputs.append(highway)
        results[name] = numpy.concatenate(outputs)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(1, 4):
        numpy.testing.assert_array_equal(results[name], results[0])


def test_verify_reports_progress_and_can_be_stopped(model: pleiades.Model) -> None:
    calls: list[tuple[int, int]] = []
    report = model.verify(lambda done, total: calls.append((done, total)))
    assert report.rows_checked == sum(layer.row_count for layer in model.layers)
    assert report.rows_not_finite == 0 and calls
    with pytest.raises(pleiades.WrongState):
        model.verify(lambda done, total: False)

    def fail(done: int, total: int) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.verify(fail)


def test_rows_through_the_cache_are_the_files_rows(
    model: pleiades.Model, engine: pleiades.Engine
) -> None:
    rows = numpy.array([0, 1, 33_023, 17], numpy.uint32)
    direct = engine.read_rows(0, rows, direct=True)
    numpy.testing.assert_array_equal(engine.read_rows(0, rows), direct)
    values = model.decode_rows(0, direct)
    assert values.shape == (4, 4)
    numpy.testing.assert_array_equal(
        values.view(numpy.uint32) >> 16, direct.view(numpy.uint16).reshape(4, 4)
    )


def test_records_print_their_fields(model: pleiades.Model, engine: pleiades.Engine) -> None:
    assert "family='qwen4_exp', layer_count=2" in repr(model.info)
    assert engine.info.arena == "cached" and engine.device == "cpu"
    assert "pleiades_" in engine.metrics_text()
    assert sum(shard.row_count for shard in model.shards(0)) == model.layers[0].row_count
    assert all(str(TINY) in shard.file for shard in model.shards(0))
    assert len(model.constants(0)["column_sizes"]) == 16
