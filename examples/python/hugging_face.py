"""A Hugging Face model with its tables on disk. usage: hugging_face.py CHECKPOINT"""

import sys

import torch

import pleiades.hf

model = pleiades.hf.from_pretrained(sys.argv[1], cache_bytes=1 << 30, dtype=torch.float32)
ids = torch.arange(3, 21)[None]

# The ordinary object: generate, caches, beams.
greedy = model.generate(ids, max_new_tokens=16, do_sample=False, pad_token_id=0)
beams = model.generate(ids, max_new_tokens=16, num_beams=4, do_sample=False, pad_token_id=0)
print(greedy[0, 18:].tolist())
print(beams[0, 18:].tolist())

# A prefix that is computed once.
with torch.no_grad():
    prefix = model(input_ids=ids[:, :12], use_cache=True).past_key_values
again = model.generate(
    ids, past_key_values=prefix, max_new_tokens=16, do_sample=False, pad_token_id=0
)
assert torch.equal(again, greedy)
