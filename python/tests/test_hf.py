"""Hugging Face models with and without us: the same tokens."""

import copy
import logging
from pathlib import Path
from typing import Any

import pytest

import pleiades
from conftest import TINY, require

torch = require("torch")
transformers = require("transformers")

import pleiades.hf  # noqa: E402

GREEDY = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # the tiny model is all overhead


@pytest.fixture(scope="module")
def ours() -> Any:
    return pleiades.hf.from_pretrained(TINY, cache_bytes=100_000, dtype=torch.float32)


@pytest.fixture(scope="module")
def reference() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)


@pytest.fixture(scope="module")
def ids(golden: dict[str, Any]) -> Any:
    return torch.tensor(golden["input_ids"])


def generate_both(ours: Any, reference: Any, ids: Any, **options: Any) -> None:
    """Both models give the same tokens."""
    options = GREEDY | options
    if options["do_sample"]:
        torch.manual_seed(7)
    expected = reference.generate(ids, **options)
    if options["do_sample"]:
        torch.manual_seed(7)
    assert torch.equal(ours.generate(ids, **options), expected)


def test_logits_and_greedy_tokens_are_golden(ours: Any, ids: Any, golden: dict[str, Any]) -> None:
    logits = ours(input_ids=ids, use_cache=False).logits.detach()
    wanted = torch.tensor(golden["logits"])
    assert (logits - wanted).abs().max() < 1e-4 * wanted.abs().max()
    greedy = ours.generate(ids[:1, :9], max_new_tokens=24, **GREEDY)
    assert torch.equal(greedy, torch.tensor(golden["greedy"]))


@pytest.mark.parametrize("rows", [1, 2])
def test_two_hundred_tokens(ours: Any, reference: Any, ids: Any, rows: int) -> None:
    generate_both(ours, reference, ids[:rows, :12], max_new_tokens=200)


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 4},
        {"num_beams": 3, "num_return_sequences": 3},
        {"do_sample": True, "num_return_sequences": 3},
        {"prefill_chunk_size": 5},
        {"use_cache": False, "max_new_tokens": 10},
        {"cache_implementation": "static"},
    ],
    ids=str,
)
def test_ways_of_generating(ours: Any, reference: Any, ids: Any, options: dict[str, Any]) -> None:
    generate_both(ours, reference, ids[:, :12], **{"max_new_tokens": 40, **options})


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"prefill_chunk_size": 5}], ids=str)
def test_left_padding(ours: Any, reference: Any, ids: Any, options: dict[str, Any]) -> None:
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, :7] = 0
    generate_both(ours, reference, ids[:, :12], attention_mask=mask, max_new_tokens=40, **options)
    padded = ours.generate(ids[:, :12], attention_mask=mask, max_new_tokens=40, **GREEDY)
    alone = ours.generate(ids[:1, 7:12], max_new_tokens=40, **GREEDY)
    assert torch.equal(padded[0, 7:], alone[0])


def test_a_cache_is_used_again_and_copied(ours: Any, reference: Any, ids: Any) -> None:
    outputs = []
    for model in (ours, reference):
        with torch.no_grad():
            prefix = model(input_ids=ids[:, :20], use_cache=True).past_key_values
        copies = [copy.deepcopy(prefix), prefix]
        texts = [ids[:, :24], torch.cat([ids[:, :20], ids[:, 30:34]], 1)]
        outputs.append(
            [
                model.generate(text, past_key_values=cache, max_new_tokens=20, **GREEDY)
                for text, cache in zip(texts, copies)
            ]
        )
    for mine, theirs in zip(*outputs):
        assert torch.equal(mine, theirs)


def test_interleaved_caches_do_not_mix(ours: Any, ids: Any) -> None:
    def logits_of(rows: list[int], order: list[int]) -> dict[int, list[Any]]:
        caches = {row: transformers.DynamicCache(config=ours.config) for row in rows}
        positions = dict.fromkeys(rows, 0)
        logits: dict[int, list[Any]] = {row: [] for row in rows}
        for row in order:
            part = ids[row : row + 1, positions[row] : positions[row] + 3]
            positions[row] += 3
            output = ours(input_ids=part, past_key_values=caches[row], use_cache=True)
            logits[row].append(output.logits.detach())
        return logits

    mixed = logits_of([0, 1], [0, 1, 1, 0, 1, 0])
    for row in (0, 1):
        for one, other in zip(mixed[row], logits_of([row], [row] * 3)[row]):
            assert torch.equal(one, other)


@pytest.fixture(scope="module")
def assistant(ours: Any) -> Any:
    """A model that drafts what `ours` says, but not always."""
    torch.manual_seed(11)
    model = pleiades.hf.from_pretrained(TINY, cache_bytes=100_000, dtype=torch.float32)
    for parameter in model.model.layers[0].mlp.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.02)
    return model


@pytest.mark.parametrize("drafts", [{"prompt_lookup_num_tokens": 3}, {}], ids=str)
def test_assisted_decoding(
    ours: Any, reference: Any, assistant: Any, ids: Any, drafts: dict[str, Any]
) -> None:
    expected = reference.generate(ids[:1, :12], max_new_tokens=200, **GREEDY)
    read = []
    hook = ours.model.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    drafts = drafts or {"assistant_model": assistant}
    output = ours.generate(
        ids[:1, :12], max_new_tokens=150, return_dict_in_generate=True, **drafts, **GREEDY
    )
    assert torch.equal(output.sequences, expected[:, :162])
    hook.remove()
    assert len(set(read)) > 2 and sum(read) > 161  # several lengths, and some tokens twice
    cache = output.past_key_values  # a plain one from here on
    more = ours.generate(output.sequences, past_key_values=cache, max_new_tokens=50, **GREEDY)
    assert torch.equal(more, expected)


def test_a_cropped_cache_goes_back_as_a_whole(ours: Any, ids: Any) -> None:
    def read(cache: Any, begin: int, end: int) -> Any:
        with torch.no_grad():
            part = ids[: cache_rows, begin:end]
            return ours(input_ids=part, past_key_values=cache, use_cache=True).logits

    cache_rows = 1
    cache = transformers.DynamicCache(config=ours.config)
    read(cache, 0, 10)
    cache.activate_past_recording()
    wanted = read(copy.deepcopy(cache), 10, 30)
    for begin, end, removed in [(10, 16, 4), (12, 13, 0), (13, 15, 3), (12, 20, 0), (20, 30, 20)]:
        read(cache, begin, end)
        cache.crop(-removed)
    copied = copy.deepcopy(cache)
    for one in (cache, copied):
        assert (read(one, 10, 30) - wanted).abs().max() < 1e-5 * wanted.abs().max()
    copied.crop(-21)
    for _ in range(2):
        with pytest.raises(pleiades.Unsupported, match="cropped to 9 tokens: no state is kept"):
            read(copied, 9, 12)
    cache_rows = 2
    cache = transformers.DynamicCache(config=ours.config)
    cache.activate_past_recording()
    read(cache, 0, 10)
    cache.crop(-1)
    for _ in range(2):
        with pytest.raises(pleiades.Unsupported, match="a cache of 2 rows was cropped"):
            read(cache, 9, 12)


def test_embeddings_instead_of_ids(ours: Any, reference: Any, ids: Any) -> None:
    for model in (ours, reference):
        embeddings = model.get_input_embeddings()(ids)
        logits = model(inputs_embeds=embeddings).logits.detach()
        wanted = model(input_ids=ids).logits.detach()
        assert (logits - wanted).abs().max() < 1e-5 * wanted.abs().max()


def test_the_rest_is_saved_and_loaded(ours: Any, ids: Any, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path)
    again = pleiades.hf.from_pretrained(tmp_path, tables=TINY, dtype=torch.float32)
    assert not any("ple" in name.split(".") for name in again.state_dict())
    assert torch.equal(
        again.generate(ids[:, :9], max_new_tokens=9, **GREEDY),
        ours.generate(ids[:, :9], max_new_tokens=9, **GREEDY),
    )


def test_a_loaded_model_gets_tables_on_disk(ids: Any, golden: dict[str, Any]) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    filled = model(input_ids=ids, use_cache=True).past_key_values
    assert pleiades.hf.attach(model, TINY) is model
    pleiades.hf.attach(model, TINY, cache_bytes=0)
    greedy = model.generate(ids[:1, :9], max_new_tokens=24, **GREEDY)
    assert torch.equal(greedy, torch.tensor(golden["greedy"]))
    with pytest.raises(pleiades.WrongState, match="filled before the tables were attached"):
        model(input_ids=ids[:, :1], past_key_values=filled)


def test_what_does_not_work_says_so(ours: Any, ids: Any) -> None:
    with pytest.raises(pleiades.Unsupported, match="cannot be trained"):
        ours(input_ids=ids).logits.sum().backward()
    with pytest.raises(pleiades.Unsupported, match="cannot be copied"):
        copy.deepcopy(ours)
    half = pleiades.hf.from_pretrained(TINY, dtype=torch.float16)
    with pytest.raises(pleiades.InvalidArgument, match="must be float32 or bfloat16"):
        half(input_ids=ids)
    other = pleiades.hf.from_pretrained(TINY, dtype=torch.float32)
    cache = ours(input_ids=ids, use_cache=True).past_key_values
    with pytest.raises(pleiades.WrongState, match="belongs to another model"):
        other(input_ids=ids[:, :1], past_key_values=cache)


def test_a_failed_forward_leaves_no_step_staged(ours: Any, ids: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("in between")

    hook = ours.model.layers[1].register_forward_pre_hook(fail)
    for cache in (None, transformers.DynamicCache(config=ours.config)):
        with pytest.raises(RuntimeError, match="in between"):
            ours(input_ids=ids, past_key_values=cache)
    hook.remove()
    assert ours(input_ids=ids).logits.shape == (2, 48, 512)


def test_bfloat16(ids: Any) -> None:
    ours = pleiades.hf.from_pretrained(TINY, dtype=torch.bfloat16)
    reference = transformers.AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.bfloat16)
    logits, wanted = (model(input_ids=ids).logits.detach().float() for model in (ours, reference))
    assert (logits - wanted).abs().max() < 0.05 * wanted.abs().max()


def test_the_first_line_says_how_much_is_cached(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pleiades"):
        pleiades.hf.from_pretrained(TINY, cache_bytes=100_000)
    assert "pleiades: 545 kB of n-gram tables, 99.8 kB cached" in caplog.records[0].getMessage()
    assert "(18.3 %) on cpu" in caplog.records[0].getMessage()
