"""torch tensors without copies, and the run as an operator."""

from typing import Any

import pytest

import pleiades
from conftest import require

torch = require("torch")

import pleiades.torch_op  # noqa: E402


@pytest.fixture
def highway(golden: dict[str, Any]) -> Any:
    return torch.tensor(golden["layer0.hidden_in"][0])


@pytest.fixture
def step(engine: pleiades.Engine, golden: dict[str, Any]) -> Any:
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), torch.tensor(golden["input_ids"][0]))
    return step


def assert_golden(added: Any, golden: dict[str, Any]) -> None:
    wanted = torch.tensor(golden["layer0.out"][0])
    assert (added - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_tensors_are_used_in_place(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    before = highway.clone()
    address = highway.data_ptr()
    step.run(0, highway)
    assert highway.data_ptr() == address
    assert_golden(highway - before, golden)


def test_bfloat16_tensors(step: Any, highway: Any) -> None:
    half = highway.bfloat16()
    added, exact = torch.empty_like(half), torch.empty_like(highway)
    step.run(0, half, added, mode="delta")
    step.run(0, half.float(), exact, mode="delta")
    assert torch.equal(added, exact.bfloat16())


def test_tensors_that_are_not_plain(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    added = torch.empty_like(highway)
    step.run(0, torch.nn.Parameter(highway, requires_grad=False), added, mode="delta")
    assert_golden(added, golden)
    with pytest.raises(pleiades.InvalidArgument, match=r"shape \[48, 256\] is not contiguous"):
        step.run(0, torch.zeros(256, 48).T)
    with pytest.raises(pleiades.InvalidArgument, match="must be float32 or bfloat16"):
        step.run(0, highway.double())
    with pytest.raises(pleiades.InvalidArgument, match="input cannot be used in place: Cannot access"):
        step.run(0, highway.to_sparse())
    with pytest.raises(pleiades.InvalidArgument, match="output requires gradients: give its detach"):
        step.run(0, highway, torch.nn.Parameter(added))


def test_arrays_without_the_exchange_table(
    step: Any, highway: Any, golden: dict[str, Any]
) -> None:
    class Other:
        """An array of another library."""

        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    added = torch.empty_like(highway)
    step.run(0, Other(highway), Other(added), mode="delta")
    assert_golden(added, golden)


def test_operators_run_eagerly_and_compiled(step: Any, highway: Any, golden: dict[str, Any]) -> None:
    name = pleiades.torch_op.register(step)
    assert_golden(torch.ops.pleiades.delta(highway, name, 0), golden)

    def layer(stream: Any) -> Any:
        scaled = stream * 1.0
        torch.ops.pleiades.update_(scaled, name, 0)
        return scaled - stream, torch.ops.pleiades.delta(stream, name, 0)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for added in compiled(highway):
        assert_golden(added, golden)


def test_operators_are_well_behaved(step: Any, highway: Any) -> None:
    name = pleiades.torch_op.register(step)
    for operator in (torch.ops.pleiades.delta, torch.ops.pleiades.update_):
        torch.library.opcheck(
            operator.default,
            (highway, name, 0),
            test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static"),
        )


def test_a_step_that_went_is_named(engine: pleiades.Engine, highway: Any) -> None:
    name = pleiades.torch_op.register(pleiades.Step(engine))
    with pytest.raises(pleiades.WrongState, match=f"no step of name {name}"):
        torch.ops.pleiades.delta(highway, name, 0)
