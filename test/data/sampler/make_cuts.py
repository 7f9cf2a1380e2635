#!/usr/bin/env python3
"""Writes cuts.json beside itself: what DRY, top_n_sigma, typical_p and xtc make of small rows of logits.

An oracle that shares no code with src/engine/sampling: full sorts and a quadratic search for repetitions, in double
precision, without libraries. The form of the cases is that of make_cases.py. Cases in which a cut lies within rounding
of a token's value are thrown away, so that any correct program agrees.
usage: make_cuts.py [SEED [CASES [FILE]]]
"""
import json
import math
import os
import random
import struct
import sys

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 11
wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 80
path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cuts.json')
rnd = random.Random(seed)


def row(n):
    kind = rnd.choice(['normal', 'flat', 'peaked', 'steps', 'holes'])
    spread = {'normal': 4, 'flat': 0.3, 'peaked': 9, 'steps': 2, 'holes': 3}[kind]
    x = [round(rnd.gauss(0, spread) * 256) / 256 for _ in range(n)]
    if kind == 'steps':
        x = [float(round(v)) for v in x]
    if kind == 'holes':
        x = [-math.inf if rnd.random() < .2 else v for v in x]
        x[rnd.randrange(n)] = 3.0
    return x


def parameters():
    p = {'temperature': rnd.choice([0.5, 1.0, 1.5])}
    for chance, field, values in ((.3, 'top_k', [2, 5, 20]), (.3, 'top_p', [0.5, 0.95]), (.2, 'min_p', [0.01, 0.1]),
                                  (.5, 'top_n_sigma', [-1, 0, 0.5, 1, 2]), (.6, 'typical_p', [0.05, 0.5, 0.9, 0.999, 1]),
                                  (.5, 'xtc_probability', [0, 1]), (.6, 'xtc_threshold', [0, 0.02, 0.1, 0.3, 0.6, 1]),
                                  (.6, 'dry_multiplier', [0, 0.8, 3]), (.5, 'dry_base', [1, 1.2, 2.5]),
                                  (.5, 'dry_allowed_length', [0, 1, 3, 1024]), (.3, 'dry_penalty_last_n', [-1, 0, 1, 9, 30])):
        if rnd.random() < chance:
            p[field] = rnd.choice(values)
    return p


def dry(x, tokens, p):
    """For each place in the text: how many tokens before it equal those at the end."""
    last_n = p.get('dry_penalty_last_n', -1)
    text = tokens if last_n < 0 else tokens[max(0, len(tokens) - last_n):]
    allowed, longest = p.get('dry_allowed_length', 2), {}
    if p.get('dry_multiplier', 0) == 0 or last_n == 0 or len(text) <= allowed:
        return x
    for place in range(1, len(text)):
        n = 0
        while n < place and text[place - 1 - n] == text[len(text) - 1 - n]:
            n += 1
        if n >= allowed:
            longest[text[place]] = max(n, longest.get(text[place], 0))
    for t, n in longest.items():
        x[t] -= p['dry_multiplier'] * p.get('dry_base', 1.75) ** (n - allowed)
    return x


def shares(x):
    top = max(x.values())
    e = {i: math.exp(v - top) for i, v in x.items()}
    return {i: v / sum(e.values()) for i, v in e.items()}


def until(order, q, mass):
    kept, total = set(), 0.0
    for i in order:
        if total >= mass:
            break
        kept.add(i)
        total += q[i]
    return kept


def reference(logits, tokens, p, nudge):
    x = dry(list(logits), tokens, p)
    x = {i: v for i, v in enumerate(x) if v > -math.inf}
    finite = [v for v in logits if v > -math.inf]
    if p.get('top_n_sigma', 0) > 0:
        mean = math.fsum(finite) / len(finite)
        sigma = math.sqrt(math.fsum((v - mean) ** 2 for v in finite) / len(finite))
        least = max(x.values()) - p['top_n_sigma'] * sigma * (1 + nudge) + (nudge if sigma == 0 else 0)
        x = {i: v for i, v in x.items() if v >= least}
    x = {i: v / p['temperature'] for i, v in x.items()}
    if 'top_k' in p:
        kth = sorted(x.values(), reverse=True)[min(p['top_k'], len(x)) - 1]
        x = {i: v for i, v in x.items() if v >= kth}
    if 'top_p' in p:
        q = shares(x)
        x = {i: x[i] for i in until(sorted(x, key=lambda i: (-x[i], i)), q, p['top_p'] * (1 + nudge))}
    if 'min_p' in p:
        least = max(x.values()) + math.log(p['min_p'] * (1 + nudge))
        x = {i: v for i, v in x.items() if v >= least}
    if p.get('typical_p', 1) < 1:
        q = shares(x)
        entropy = -sum(v * math.log(v) for v in q.values() if v > 0)
        off = {i: abs(-math.log(v) - entropy) if v > 0 else math.inf for i, v in q.items()}
        kept = until(sorted(x, key=lambda i: (off[i], i)), q, p['typical_p'] * (1 + nudge))
        most = max(off[i] for i in kept) + 1e-9
        x = {i: v for i, v in x.items() if off[i] <= most}
    if p.get('xtc_probability', 0) > 0:
        q = shares(x)
        likely = [i for i in x if q[i] >= p.get('xtc_threshold', 0.1) * (1 + nudge)]
        likely.sort(key=lambda i: (x[i], i))
        x = {i: v for i, v in x.items() if i not in likely[1:]}
    return shares(x)


def is_clear(p, logits, q, others):
    """No cut is near a value, and none had to choose among equal logits."""
    kept, gone = {logits[i] for i in q}, {v for i, v in enumerate(logits) if i not in q}
    equal_cut = ('top_p' in p or p.get('xtc_probability', 0) > 0) and kept & gone
    return all(o.keys() == q.keys() for o in others) and not equal_cut and not any(0 < v < 1e-30 for v in q.values())


cases, kinds = [], {}
while len(cases) < wanted:
    n = rnd.choice([2, 12, 40, 130, 300])
    logits, p = row(n), parameters()
    few = rnd.randrange(1, min(n, 4) + 1)  # few different tokens, so that they repeat
    tokens = [rnd.randrange(few) for _ in range(rnd.choice([0, 1, 2, 3, 12, 40]))]
    cut = rnd.randrange(len(tokens) + 1)
    q, *others = (reference(logits, tokens, p, d) for d in (0, 1e-5, -1e-5))
    if not is_clear(p, logits, q, others):
        continue
    cases.append({'logits': [None if v == -math.inf else v for v in logits], 'prompt_ids': tokens[:cut],
                  'output_ids': tokens[cut:], 'params': p,
                  'probs': [[i, float('%.9g' % q[i])] for i in sorted(q) if struct.unpack('f', struct.pack('f', q[i]))[0] > 0]})
with open(path, 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(c, separators=(',', ':')) for c in cases) + '\n]\n')
