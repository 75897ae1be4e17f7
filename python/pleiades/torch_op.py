"""The run of a step as a torch operator, for torch.compile and CUDA graphs of a torch engine.

>>> name = pleiades.torch_op.register(step)
>>> step.stage(sequences, tokens)                      # host, outside the compiled region
>>> torch.ops.pleiades.update_(highway, name, layer)   # compiled or captured
>>> step.commit()

`update_` adds into the highway in place; `delta` returns what the layer adds. Both run on the
current stream. Under replay of a captured graph call ``step.prepare(stream)`` between stage and the
launch. A step that is registered keeps its name until it goes.
"""

import itertools
import weakref

import torch

import pleiades

__all__ = ["register"]

_library = torch.library.Library("pleiades", "DEF")
_names = itertools.count(1)
_steps: "weakref.WeakValueDictionary[int, pleiades.Step]" = weakref.WeakValueDictionary()


def register(step: pleiades.Step) -> int:
    """A name for the step that fits into a graph of torch.

    The caller keeps the step alive; its name is not given to another one.
    """
    name = next(_names)
    _steps[name] = step
    return name


def _step(name: int) -> pleiades.Step:
    step = _steps.get(name)
    if step is None:
        raise pleiades.WrongState(f"no step of name {name}: it was never registered, or is gone")
    return step


def _update(highway: torch.Tensor, step: int, layer: int) -> None:
    _step(step).run(layer, highway.detach())


def _delta(highway: torch.Tensor, step: int, layer: int) -> torch.Tensor:
    added = torch.empty_like(highway, memory_format=torch.contiguous_format)
    _step(step).run(layer, highway.detach().contiguous(), added, mode="delta")
    return added


def _fake_update(highway: torch.Tensor, step: int, layer: int) -> None:
    _check(highway)


def _fake_delta(highway: torch.Tensor, step: int, layer: int) -> torch.Tensor:
    _check(highway)
    return torch.empty_like(highway, memory_format=torch.contiguous_format)


def _check(highway: torch.Tensor) -> None:
    torch._check(
        highway.dtype in (torch.float32, torch.bfloat16),
        lambda: f"the highway is {highway.dtype}, but must be float32 or bfloat16",
    )


_library.define("update_(Tensor(a!) highway, int step, int layer) -> ()")
_library.define("delta(Tensor highway, int step, int layer) -> Tensor")
for _key in ("CPU", "CUDA"):
    _library.impl("update_", _update, _key)
    _library.impl("delta", _delta, _key)
torch.library.register_fake("pleiades::update_", _fake_update, lib=_library)
torch.library.register_fake("pleiades::delta", _fake_delta, lib=_library)
