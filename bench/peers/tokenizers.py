#!/usr/bin/env python3
"""Encoding speed on one core: Gallop, tiktoken and Hugging Face tokenizers in one interleaved
run.

usage: tokenizers.py [--reps N] [--build DIR] TOKENIZER.json[.gz] TEXT...

TOKENIZER is a byte-level BPE file whose ids are merge ranks (Llama 3, Qwen, gpt-oss ...), so
that tiktoken can be built from it. The three take turns, so that what else the machine does hits
all alike; the best time of each counts. Before that the ids of all three are compared. Needs the
PyPI packages tiktoken and tokenizers, and build/release/libgallop.a.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.pop(0)  # this file has the name of the package it measures
os.environ['TOKENIZERS_PARALLELISM'] = 'false'
os.environ['RAYON_NUM_THREADS'] = '1'
import tiktoken  # noqa: E402
import tokenizers  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')
DEPS = ['jansson', 'libpcre2-8', 'libutf8proc', 'libxxhash', 'hwloc']


def compile_ours(build, folder):
    out = os.path.join(folder, 'tokenize')
    libs = subprocess.run(['pkg-config', '--libs', *DEPS], capture_output=True, text=True,
                          check=True).stdout.split()
    subprocess.run(['cc', '-std=c17', '-D_GNU_SOURCE', '-O2', '-I' + os.path.join(ROOT, 'src'),
                    '-o', out, os.path.join(HERE, 'tokenize.c'), os.path.join(build, 'libgallop.a'),
                    *libs, '-lpthread', '-lm'], check=True)
    return out


def as_tiktoken(config):
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letter = {chr(b): b for b in own} | {chr(256 + i): b for i,
                                         b in enumerate(b for b in range(256) if b not in own)}
    ranks = {bytes(letter[c] for c in piece): i for piece,
             i in config['model']['vocab'].items() if all(c in letter for c in piece)}
    pre = config['pre_tokenizer']
    steps = pre.get('pretokenizers', [pre])
    pattern = next((s['pattern']['Regex'] for s in steps if s['type'] == 'Split'),
                   r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    return tiktoken.Encoding('peer', pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


class Ours:
    def __init__(self, program, model, path):
        self.p = subprocess.Popen([program, model, path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.load = float(self.p.stdout.readline())

    def ask(self, line):
        self.p.stdin.write(line + '\n')
        self.p.stdin.flush()
        return self.p.stdout.readline().split()


def measure(program, model, tik, hf, path, reps):
    with open(path, encoding='utf-8', newline='') as f:
        text = f.read()
    size = len(text.encode())
    small = text[:200000]  # the slowest of the three gets a part
    ours = Ours(program, model, path)
    ids = tik.encode_ordinary(text)
    same = [int(x) for x in ours.ask('ids')] == ids
    same_hf = hf.encode(small, add_special_tokens=False).ids == tik.encode_ordinary(small)
    best = [1e9] * 3
    for _ in range(reps):
        best[0] = min(best[0], float(ours.ask('time')[0]))
        for k, run in ((1, lambda: tik.encode_ordinary(text)),
                       (2, lambda: hf.encode(small, add_special_tokens=False))):
            begin = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - begin)
    speed = [size / best[0] / 1e6, size / best[1] / 1e6, len(small.encode()) / best[2] / 1e6]
    print(json.dumps(
        {'tokenizer': model, 'text': path, 'bytes': size,
         'ids': len(ids), 'gallop_mb_s': round(speed[0], 2), 'tiktoken_mb_s': round(speed[1], 2),
         'tokenizers_mb_s': round(speed[2], 2), 'times_tiktoken': round(speed[0] / speed[1], 2),
         'times_tokenizers': round(speed[0] / speed[2], 2), 'load_ms': round(ours.load * 1e3, 1),
         'same_ids': same, 'tokenizers_same_ids': same_hf}), flush=True)
    ours.p.stdin.close()
    ours.p.wait()
    return same


def main():
    ap = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ap.add_argument('tokenizer')
    ap.add_argument('text', nargs='+')
    ap.add_argument('--reps', type=int, default=5)
    ap.add_argument('--build', default=os.path.join(ROOT, 'build', 'release'))
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as d:
        model = os.path.join(d, 'tokenizer.json')
        with open(model, 'wb') as f:
            f.write((gzip.open(a.tokenizer) if a.tokenizer.endswith('.gz')
                     else open(a.tokenizer, 'rb')).read())
        with open(model, encoding='utf-8') as f:
            tik = as_tiktoken(json.load(f))
        program, hf = compile_ours(a.build, d), tokenizers.Tokenizer.from_file(model)
        hf.encode_special_tokens = True  # as encode_ordinary() reads them
        if not all([measure(program, model, tik, hf, t, a.reps) for t in a.text]):
            sys.exit('the ids differ')


main()
