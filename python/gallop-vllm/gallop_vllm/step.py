"""step.py - computes a step of vLLM's scheduler: the rows of all sequences in one run of the
executor (several if a scored prompt needs more logits than a run returns, or if the executor mixes
no prompts with other sequences), and the tokens that follow them. Nothing here depends on vLLM or
torch.
"""
import numpy as np

from gallop_vllm.drafts import lookup
from gallop_vllm.executor import TOP
from gallop_vllm.sequences import divide


class Scores:
    """The log-probabilities of a prompt's tokens from the second on: the K likeliest and the token
    itself, in vLLM's form (the token first)."""

    def __init__(self, n_prompt, k):
        shape = (max(n_prompt - 1, 0), k + 1)
        self.k = k
        self.ids = np.zeros(shape, np.int32)
        self.logprobs = np.full(shape, -np.inf, np.float32)
        self.ranks = np.zeros(shape[0], np.int32)


class Result:
    """What a step has produced, in the order of `ids`, the requests of the step. `tokens` has a
    list for each. `logprobs` is None or (ids, logprobs, ranks, first row of each request): arrays
    with a row for each token, or, without drafts, for each request. `prompts` maps requests whose
    prompt is now scored to their Scores."""

    __slots__ = ("ids", "tokens", "logprobs", "prompts")


class _Piece:
    """The rows of a part that one run computes."""

    __slots__ = ("part", "sequence", "pos", "n", "n_wanted")

    def __init__(self, part, begin, n, n_wanted):
        self.part, self.sequence = part, part.sequence
        self.pos, self.n, self.n_wanted = part.pos + begin, n, n_wanted


class Stepper:
    """Computes steps. MAKE_RULES(sequence) returns the Rules of a new sequence; N_DRAFTS > 0: after
    each step tokens are guessed by matches of LONGEST to SHORTEST tokens."""

    def __init__(self, executor, sequences, make_rules, n_drafts=0, longest=0, shortest=0):
        self.executor, self.sequences, self.make_rules = executor, sequences, make_rules
        self.n_drafts, self.longest, self.shortest = n_drafts, longest, shortest
        self.parts, self.prompts, self.drafts = [], {}, ([], [])

    # ---- rows ----

    def execute(self, output):
        """Computes the rows of a SchedulerOutput. sample() must follow, unless it has none."""
        for sequence in self.sequences.apply(output):
            if sequence.rules is None:
                sequence.rules = self.make_rules(sequence)
                if sequence.rules.prompt_logprobs >= 0 and sequence.n_output == 0:
                    sequence.scores = Scores(sequence.n_prompt, sequence.rules.prompt_logprobs)
            if self.executor.n_slots:  # The slot may hold rows of a finished sequence.
                self.executor.truncate(sequence.slot, 0)
        self.prompts = {}
        scored, others = [], []
        for part in self.sequences.parts(output):
            scores = part.sequence.scores
            if scores is not None and part.pos < part.sequence.n_prompt - 1:
                part.n_wanted = part.n
                scored.append(part)
            else:
                others.append(part)
        # Other sequences may read blocks that a scored prompt writes in this step, but a scored
        # prompt reads no block of others, so if there are several runs, scored prompts come first.
        self.parts = scored + others
        n_wanted = sum(part.n_wanted for part in self.parts)
        if not self.parts:
            return
        if n_wanted <= self.executor.max_wanted and self.executor.mixes:
            runs = [[(part, 0, part.n, part.n_wanted) for part in self.parts]]
        else:
            runs = list(divide(self.parts, self.executor.max_wanted, self.executor.mixes))
        for i, run in enumerate(runs):
            self._run([_Piece(*piece) for piece in run], i + 1 == len(runs))

    def _run(self, pieces, is_last):
        self.executor.run(pieces)
        logits, begin = self.executor.logits, 0
        base = logits.ctypes.data
        for piece in pieces:
            part, end = piece.part, begin + piece.n_wanted
            if part.sequence.scores is not None and piece.n_wanted == piece.n:
                self._score(piece, base, begin)
            if part.sampled and piece.pos + piece.n == part.pos + part.n:
                first = end - 1 - len(part.drafts)
                part.logits = logits[first:end]
                part.address = base + first * logits.strides[0]
                if not is_last:
                    part.logits = part.logits.copy()
                    part.address = part.logits.ctypes.data
            begin = end

    def _score(self, piece, base, begin):
        """Computes the log-probabilities of the prompt's tokens that follow the rows of PIECE,
        whose logits begin at row BEGIN."""
        sequence, scores = piece.sequence, piece.sequence.scores
        n = min(piece.n, sequence.n_prompt - 1 - piece.pos)
        if n <= 0:
            return
        choices = self.executor.choices(n)
        top = np.zeros((n, max(scores.k, 1)), TOP)
        choices["logits"] = base + (begin + np.arange(n)) * self.executor.logits.strides[0]
        choices["id"] = sequence.tokens[piece.pos + 1:piece.pos + 1 + n]
        choices["logprobs"] = scores.k
        choices["top"] = top.ctypes.data + np.arange(n) * top.strides[0]
        self.executor.choose(choices)
        at = slice(piece.pos, piece.pos + n)
        scores.ids[at, 0] = choices["id"]
        scores.logprobs[at, 0] = choices["logprob"]
        scores.ranks[at] = choices["rank"]
        scores.ids[at, 1:] = top["id"][:, :scores.k]
        scores.logprobs[at, 1:] = top["logprob"][:, :scores.k]

    # ---- tokens ----

    def sample(self, grammar=None):
        """Chooses the tokens that follow the rows of the last execute(). GRAMMAR maps requests to
        rows of vLLM's bit mask, one for each row that is sampled. Returns a Result."""
        rows = [(part, i) for part in self.parts if part.sampled
                for i in range(len(part.drafts) + 1)]
        choices = self.executor.choices(len(rows))
        k = max((part.sequence.rules.logprobs for part, _ in rows), default=-1)
        top = np.zeros((len(rows), max(k, 1)), TOP) if k >= 0 else None
        alive, biased = [], []
        self._fill(rows, choices, grammar or {}, top, alive, biased)
        if rows:
            self.executor.choose(choices)
        chosen = choices["id"].tolist()
        for j in (j for j, id in enumerate(chosen) if id < 0):
            part, i = rows[j]
            chosen[j] = int(np.nan_to_num(part.logits[i], nan=-np.inf).argmax())
        result = Result()
        result.ids = [part.sequence.id for part in self.parts]
        result.tokens, kept = self._accept(chosen)
        result.logprobs = None
        if k >= 0:
            scored = choices[["id", "logprob", "rank"]].copy()
            scored["id"] = chosen
            self._score_biased(biased, rows, chosen, scored, top)
            result.logprobs = self._logprobs(scored, top, k, kept)
        result.prompts = {}
        for part in self.parts:
            sequence = part.sequence
            if part.sampled and sequence.scores is not None:
                result.prompts[sequence.id] = sequence.scores
                sequence.scores = None
        self._guess()
        return result

    def _fill(self, rows, choices, grammar, top, alive, biased):
        """Fills in CHOICES for ROWS. Arrays that they read are added to ALIVE, and rows with a
        logit bias to BIASED."""
        columns = {name: [] for name in ("logits", "sampling", "n_tokens", "n_prompt", "tokens",
                                         "logprobs", "allowed")}
        stride, V = self.executor.vocab_size * 4, self.executor.vocab_size
        for j, (part, i) in enumerate(rows):
            sequence = part.sequence
            rules = sequence.rules
            n_tokens = part.pos + part.n - len(part.drafts) + i
            address, allowed, logprobs = part.address + i * stride, 0, rules.logprobs
            if not rules.is_plain:
                masks = grammar.get(sequence.id)
                mask = rules.masked(sequence, n_tokens, V, None if masks is None else masks[i])
                if mask is not None:
                    alive.append(mask)
                    allowed = mask.ctypes.data
                if rules.bias is not None:
                    ids, values = rules.bias
                    row = part.logits[i].copy()
                    row[ids] += values
                    alive.append(row)
                    address = row.ctypes.data
                    if logprobs >= 0:
                        biased.append(j)
                        logprobs = -1
            columns["logits"].append(address)
            columns["sampling"].append(rules.sampling.address)
            columns["n_tokens"].append(n_tokens)
            columns["n_prompt"].append(sequence.n_prompt)
            columns["tokens"].append(sequence.tokens_address)
            columns["logprobs"].append(logprobs)
            columns["allowed"].append(allowed)
        for name, values in columns.items():
            choices[name] = values
        if top is not None:
            choices["top"] = top.ctypes.data + np.arange(len(rows)) * top.strides[0]

    def _accept(self, chosen):
        """Adds chosen tokens to their sequences: those after drafts that were right, and one more.
        Returns the tokens of each part, and the rows that they came from."""
        tokens, kept, at = [], [], 0
        for part in self.parts:
            if not part.sampled:
                tokens.append([])
                kept.append((0, 0))
                continue
            right = 0
            while right < len(part.drafts) and part.drafts[right] == chosen[at + right]:
                right += 1
            new = chosen[at:at + right + 1]
            sequence = part.sequence
            sequence.n_tokens = part.pos + part.n - len(part.drafts)
            for token in new:
                sequence.add_token(token)
            tokens.append(new)
            kept.append((at, at + right + 1))
            at += len(part.drafts) + 1
        return tokens, kept

    def _score_biased(self, biased, rows, chosen, scored, top):
        """Scores the tokens of rows with a logit bias by their logits without it."""
        if not biased:
            return
        choices = self.executor.choices(len(biased))
        for c, j in enumerate(biased):
            part, i = rows[j]
            choices[c]["logits"] = part.address + i * self.executor.vocab_size * 4
            choices[c]["id"] = chosen[j]
            choices[c]["logprobs"] = part.sequence.rules.logprobs
            choices[c]["top"] = top.ctypes.data + j * top.strides[0]
        self.executor.choose(choices)
        scored[biased] = choices[["id", "logprob", "rank"]]

    def _logprobs(self, scored, top, k, kept):
        """Returns the log-probabilities in the form of Result."""
        n = sum(max(end - begin, 1) for begin, end in kept)
        ids = np.zeros((n, k + 1), np.int32)
        logprobs = np.full((n, k + 1), -np.inf, np.float32)
        ranks = np.zeros(n, np.int32)
        first, at = [0], 0
        for begin, end in kept:
            m = end - begin
            ids[at:at + m, 0] = scored["id"][begin:end]
            logprobs[at:at + m, 0] = scored["logprob"][begin:end]
            ranks[at:at + m] = scored["rank"][begin:end]
            ids[at:at + m, 1:] = top["id"][begin:end, :k]
            logprobs[at:at + m, 1:] = top["logprob"][begin:end, :k]
            at += max(m, 1)
            first.append(at)
        return ids, logprobs, ranks, first

    # ---- drafts ----

    def _guess(self):
        """Guesses the next tokens of the sequences that were sampled."""
        if not self.n_drafts:
            return
        ids, guesses = [], []
        for part in self.parts:
            if part.sampled:
                sequence = part.sequence
                ids.append(sequence.id)
                guesses.append(lookup(sequence.tokens[:sequence.n_tokens], self.n_drafts,
                                      self.longest, self.shortest))
        self.drafts = ids, guesses
