"""Hugging Face models with their n-gram tables left on disk.

>>> model = pleiades.hf.from_pretrained("checkpoint", cache_bytes=8 << 30, dtype="bfloat16")
>>> model.generate(**tokenizer("Hello", return_tensors="pt"))

The model is transformers' own; only its PLE layers are replaced, and they keep their state with the
cache object (``past_key_values``), as transformers' layers do. What follows from that works: greedy
decoding, sampling, beams, left padding, chunked prefill, a cache used again or copied with
``copy.deepcopy``, assisted decoding, and ``save_pretrained`` of everything but the PLE layers. What
does not says so: training (backward) and float16.
"""

from pleiades.hf.attaching import attach, from_pretrained
from pleiades.hf.ple_layer import PleLayer

__all__ = ["PleLayer", "attach", "from_pretrained"]
