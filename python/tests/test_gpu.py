"""The package on a CUDA device: arrays in place, streams, captured graphs, whole models."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pleiades
from conftest import TINY, TINY_LAYERS, require

torch = require("torch")
lacks_gpu = not torch.cuda.is_available() and os.environ.get("PLE_REQUIRE_GPU") != "1"
pytestmark = pytest.mark.skipif(lacks_gpu, reason="no CUDA device")

import pleiades.torch_op  # noqa: E402

GREEDY = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


@pytest.fixture(params=["resident", "cached"])
def engine(model: pleiades.Model, request: pytest.FixtureRequest) -> pleiades.Engine:
    """An engine on the GPU."""
    return pleiades.Engine(
        model, device="cuda", arena=request.param, cache_bytes=100_000, arithmetic="float32"
    )


@pytest.fixture
def step(engine: pleiades.Engine, golden: dict[str, Any]) -> pleiades.Step:
    """The first golden sequence, staged."""
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), golden["input_ids"][0])
    return step


@pytest.fixture
def highway(golden: dict[str, Any]) -> Any:
    return torch.tensor(golden["layer0.hidden_in"][0], device="cuda")


def assert_golden(added: Any, golden: dict[str, Any]) -> None:
    wanted = torch.tensor(golden["layer0.out"][0], device="cuda")
    assert (added - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_tensors_are_used_in_place(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    before, address = highway.clone(), highway.data_ptr()
    step.run(0, highway)
    assert highway.data_ptr() == address
    assert_golden(highway - before, golden)


def test_a_run_is_on_the_current_stream(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    # On any other stream it would read the zeros, or be overwritten by the copy.
    late = torch.zeros_like(highway)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(100_000_000)
        late.copy_(highway)
        step.run(0, late)
        assert_golden(late - highway, golden)


def test_ids_on_the_device(engine: Any, highway: Any, golden: dict[str, Any]) -> None:
    ids = torch.tensor(golden["input_ids"][0], device="cuda", dtype=torch.int32)
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), ids)
    added = torch.empty_like(highway)
    step.run(0, highway, added, mode="delta")
    assert_golden(added, golden)
    with pytest.raises(pleiades.InvalidArgument, match="on a GPU must be int32"):
        pleiades.Step(engine).stage(pleiades.Sequence(engine), ids.long())


def test_arrays_of_the_host_are_refused(step: Any, highway: Any) -> None:
    with pytest.raises(pleiades.InvalidArgument, match="is on cpu, but the engine runs on cuda:0"):
        step.run(0, highway.cpu())


def test_cupy_and_jax(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream():
        array = cupy.from_dlpack(highway.clone())
        step.run(0, array)
        assert_golden(torch.from_dlpack(array) - highway, golden)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    added = torch.empty_like(highway)
    step.run(0, jax.dlpack.from_dlpack(highway), added, mode="delta")
    assert_golden(added, golden)


def test_the_golden_chunks_give_the_same_bits(engine: Any, golden: dict[str, Any]) -> None:
    ids = golden["input_ids"][0]
    highways = [
        torch.tensor(golden[f"layer{layer}.hidden_in"][0], device="cuda") for layer in TINY_LAYERS
    ]
    step = pleiades.Step(engine)
    added = {}
    for chunk in (48, 1, 5, 17):
        sequence = pleiades.Sequence(engine)
        added[chunk] = [torch.empty_like(highway) for highway in highways]
        for begin in range(0, 48, chunk):
            part = slice(begin, begin + chunk)
            step.stage(sequence, ids[part])
            for layer, highway, out in zip(TINY_LAYERS, highways, added[chunk], strict=True):
                step.run(layer, highway[part], out[part], mode="delta")
            step.commit()
        for mine, whole in zip(added[chunk], added[48], strict=True):
            assert torch.equal(mine, whole)
    assert_golden(added[48][0], golden)


def decode(engine: Any, compile_options: dict[str, Any] | None) -> Any:
    """What a compiled decoder of one layer gives for 16 tokens of 4 sequences."""
    step = pleiades.Step(engine, tokens_max=4, sequences_max=4)
    number = pleiades.torch_op.register(step)

    def decoder(highway: Any) -> Any:
        return torch.ops.pleiades.delta(highway * 2, number, 0) + highway

    forward = decoder
    if compile_options is not None:
        torch._dynamo.reset()
        forward = torch.compile(decoder, fullgraph=True, **compile_options)
    sequences = [pleiades.Sequence(engine) for _ in range(4)]
    highway = torch.linspace(-1, 1, 4 * 256, device="cuda").view(4, 256)
    outputs = []
    with torch.no_grad():
        for at in range(16):
            step.stage(sequences, [(at * 37 + row * 101) % 500 for row in range(4)])
            step.prepare(torch.cuda.current_stream())
            outputs.append(forward(highway).clone())
            step.commit()
    return torch.stack(outputs)


def test_torch_compile_with_graphs_of_its_own(engine: Any) -> None:
    eager = decode(engine, None)
    assert torch.equal(decode(engine, {"mode": "reduce-overhead"}), eager)


def test_the_example_captures_its_decoder() -> None:
    example = Path(__file__).parents[2] / "examples" / "python" / "torch_decode.py"
    result = subprocess.run(
        [sys.executable, example, TINY, "cuda"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def models() -> Any:
    """Ours and transformers' own."""
    transformers = require("transformers")
    import pleiades.hf

    ours = pleiades.hf.from_pretrained(
        TINY, cache_bytes=100_000, device="cuda", dtype=torch.float32
    )
    reference = transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    return ours, reference.to("cuda")


def test_greedy_tokens_of_a_whole_model_are_golden(models: Any, golden: dict[str, Any]) -> None:
    ids = torch.tensor(golden["input_ids"][:1, :9], device="cuda")
    greedy = models[0].generate(ids, max_new_tokens=24, **GREEDY)
    assert torch.equal(greedy.cpu(), torch.tensor(golden["greedy"]))


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"prefill_chunk_size": 5}], ids=str)
def test_models_with_and_without_us(
    models: Any, golden: dict[str, Any], options: dict[str, Any]
) -> None:
    ids = torch.tensor(golden["input_ids"][:, :12], device="cuda")
    mask = torch.ones_like(ids)
    mask[0, :7] = 0
    options = {"attention_mask": mask, "max_new_tokens": 40, **GREEDY, **options}
    mine, theirs = (model.generate(ids, **options) for model in models)
    assert torch.equal(mine, theirs)


def test_assisted_decoding(models: Any, golden: dict[str, Any]) -> None:
    ours, reference = models
    ids = torch.tensor(golden["input_ids"][:1, :12], device="cuda")
    expected = reference.generate(ids, max_new_tokens=60, **GREEDY)
    drafted = ours.generate(ids, max_new_tokens=60, prompt_lookup_num_tokens=3, **GREEDY)
    assert torch.equal(drafted, expected)
