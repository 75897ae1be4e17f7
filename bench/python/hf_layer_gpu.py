"""Our PLE layer against transformers' eager one on a GPU, table in its memory for both.

usage: hf_layer_gpu.py [--profile] [TOKENS ...]

One layer at the released width with a table of 64 K rows; a Hugging Face cache holds the state of
both. Prints microseconds per step, how much of ours the host took for staging and for launching, and
how far the outputs are apart; with --profile also where a step of ours goes, by torch's profiler."""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import DynamicCache
from transformers.models.qwen4_exp import modeling_qwen4_exp as reference
from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig

import pleiades
from pleiades.hf.ple_layer import PleLayer, Tables

REPEATS = 50


def configuration() -> Any:
    """The released layer, with small tables and a small model around it."""
    return Qwen4ExpTextConfig(
        vocab_size=248320,
        hidden_size=2560,
        num_hidden_layers=4,
        ple_layer_ids=[1],
        ple_embed_dim=2560,
        ngram_vocab_size_base=4001,
        split_ngram_parts=4,
        eos_token_id=248046,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
    )


def write_checkpoint(folder: Path, config: Any, layer: torch.nn.Module) -> None:
    """The layer's weights as a checkpoint that we open."""
    prefix = "model.layers.0.ple."
    tensors = {f"{prefix}{name}": value.cpu() for name, value in layer.state_dict().items()}
    table = tensors.pop(f"{prefix}ple_embedding.ngram_embedding.weight")
    for number, shard in enumerate(table.chunk(config.split_ngram_parts)):
        name = f"{prefix}ple_embedding.ngram_embedding.shard_{number}.weight"
        tensors[name] = shard.contiguous()
    save_file(tensors, folder / "model.safetensors")
    settings = config.to_dict() | {"architectures": ["Qwen4ExpForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(settings))


def time_steps(
    layer: Any, config: Any, tokens: int, *, profile: bool = False
) -> tuple[float, torch.Tensor]:
    """Median microseconds of a step of that many tokens behind a short prompt; the last output."""
    random = torch.Generator("cuda").manual_seed(5)
    cache = DynamicCache(config=config)
    channels = config.hidden_size * config.hc_count

    def step(count: int) -> torch.Tensor:
        ids = torch.randint(0, 248000, (1, count), device="cuda", generator=random)
        highway = torch.randn(
            1, count, channels, device="cuda", dtype=torch.bfloat16, generator=random
        )
        torch.cuda.synchronize()
        begin.record()
        output = highway + layer(highway, ids, cache)
        end.record()
        torch.cuda.synchronize()
        return output

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    step(16)
    times = []
    for _ in range(REPEATS):
        output = step(tokens)
        times.append(begin.elapsed_time(end) * 1e3)
    if profile:
        with torch.profiler.profile() as profiler:
            step(tokens)
        for key in ("self_cuda_time_total", "self_cpu_time_total"):
            print(profiler.key_averages().table(sort_by=key, row_limit=12, max_name_column_width=70))
    return statistics.median(times), output


@torch.no_grad()
def main() -> None:
    """Prints one line for each number of tokens."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("tokens", nargs="*", type=int, default=[1, 64, 1024, 8192])
    options = parser.parse_args()
    config = configuration()
    torch.manual_seed(3)
    theirs = reference.Qwen4ExpTextPLELayer(config, 0, 0)
    for parameter in theirs.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.05)
    theirs = theirs.to("cuda", torch.bfloat16).eval()
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), config, theirs)
        model = pleiades.Model.open(folder)
        for tokens in options.tokens:
            engine = pleiades.Engine(model, device="cuda", arena="resident")
            ours = PleLayer(config, 0, 0)
            ours.bind(Tables(engine, [0]))
            their_us, wanted = time_steps(theirs, config, tokens)
            our_us, got = time_steps(ours, config, tokens, profile=options.profile)
            apart = (got - wanted).float().norm() / wanted.float().norm()
            metrics = engine.metrics
            print(
                f"{tokens} tokens: transformers {their_us:.0f} us, pleiades {our_us:.0f} us, "
                f"{their_us / our_us:.1f} times (staging {metrics.stage.p50_us:.0f} us, launching "
                f"{metrics.run.p50_us:.0f} us); outputs {apart:.1e} apart",
                flush=True,
            )


if __name__ == "__main__":
    main()
