#!/usr/bin/env python3
"""Writes cases.json beside itself: what the logits processors of transformers make of small rows of logits.

An oracle that shares no code with src/engine/sample.c. Needs torch and transformers. Each case holds its logits as exact
float32 values, parameters in our names, prompt_ids, output_ids, and the surviving tokens with their probabilities.
Cases in which a cut lies within rounding of a token's value are thrown away, so that any correct program agrees.
usage: make_cases.py [SEED [CASES [FILE]]]
"""
import json
import os
import random
import sys

import torch
from transformers.generation import logits_process as hf

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 7
wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 60
path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cases.json')
rnd = random.Random(seed)
torch.manual_seed(seed)


def row(n):
    kind = rnd.choice(['normal', 'flat', 'peaked', 'steps', 'holes'])
    x = torch.randn(n) * {'normal': 4, 'flat': 0.3, 'peaked': 12, 'steps': 3, 'holes': 5}[kind]
    if kind == 'steps':
        x = torch.round(x)
    x = torch.round(x * 256) / 256  # short decimals in the file, exact in float32
    if kind == 'holes':
        x[torch.rand(n) < 0.2] = -float('inf')
        x[rnd.randrange(n)] = 3.0
    return x


def parameters(n):
    p = {}
    ids = lambda k: sorted(rnd.sample(range(n), k))
    if rnd.random() < .3:
        p['min_new_tokens'] = rnd.choice([2, 30])
        p['eos_token_id'] = ids(2)
    if rnd.random() < .4:
        p['repetition_penalty'] = rnd.choice([0.7, 1.1, 1.5, 2.0])
    if rnd.random() < .3:
        p['frequency_penalty'] = rnd.choice([-0.5, 0.25, 1.5])
    if rnd.random() < .3:
        p['presence_penalty'] = rnd.choice([-1.0, 0.5, 2.0])
    if rnd.random() < .3:
        p['logit_bias'] = {str(i): rnd.choice([-8.0, -0.5, 1.5, 5.0]) for i in ids(4)}
    if rnd.random() < .6:
        p['temperature'] = rnd.choice([0.3, 0.7, 1.0, 1.5, 3.0])
    if rnd.random() < .5:
        p['top_k'] = rnd.choice([1, 2, 5, 20, n - 1, n, n + 5])
    if rnd.random() < .5:
        p['top_p'] = rnd.choice([0.1, 0.5, 0.9, 0.99])
    if rnd.random() < .4:
        p['min_p'] = rnd.choice([0.01, 0.1, 0.6])
    return p


def reference(x, prompt, output, p, nudge=0.0):
    """Computes the chain in float64. NUDGE moves every cut slightly."""
    x = x.double()[None]
    ids = torch.tensor([prompt + output])
    for t, v in p.get('logit_bias', {}).items():  # as SequenceBiasLogitsProcessor, the first processor of generate()
        x[0, int(t)] += v
    if len(output) < p.get('min_new_tokens', 0):
        x[0, p['eos_token_id']] = -float('inf')
    if 'repetition_penalty' in p:
        x = hf.RepetitionPenaltyLogitsProcessor(p['repetition_penalty'])(ids, x)
    for t in set(output):
        x[0, t] -= p.get('frequency_penalty', 0) * output.count(t) + p.get('presence_penalty', 0)
    x = hf.TemperatureLogitsWarper(p.get('temperature', 1.0))(ids, x) if p.get('temperature', 1.0) != 1 else x
    if 'top_k' in p:
        x = hf.TopKLogitsWarper(p['top_k'])(ids, x)
    if 'top_p' in p:
        x = hf.TopPLogitsWarper(min(1.0, p['top_p'] * (1 + nudge)))(ids, x)
    if 'min_p' in p:
        x = hf.MinPLogitsWarper(p['min_p'] * (1 + nudge))(ids, x)
    q = x.softmax(-1)[0]
    return {i: q[i].item() for i in range(len(q)) if x[0, i] > -float('inf')}


cases = []
while len(cases) < wanted:
    n = rnd.choice([5, 40, 130, 300])
    x, p = row(n), parameters(n)
    prompt = [rnd.randrange(n) for _ in range(rnd.choice([0, 1, 12]))]
    output = [rnd.randrange(n) for _ in range(rnd.choice([0, 1, 9]))]
    if not prompt + output:
        p.pop('repetition_penalty', None)
    a, b, c = (reference(x.clone(), prompt, output, p, d) for d in (0, 1e-5, -1e-5))
    if a.keys() != b.keys() or a.keys() != c.keys() or any(0 < v < 1e-30 for v in a.values()):
        continue
    # The number of equal logits that top_p keeps is defined, but not which of them.
    v = x.tolist()
    kept, gone = {v[i] for i in a}, {v[i] for i in range(n) if i not in a}
    if 'top_p' in p and kept & gone:
        continue
    cases.append({'logits': [None if t == -float('inf') else t for t in v], 'prompt_ids': prompt, 'output_ids': output,
                  'params': p, 'probs': [[i, float('%.9g' % q)] for i, q in a.items() if q > 0]})
with open(path, 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c, separators=(',', ':')) for c in cases) + '\n]\n')
