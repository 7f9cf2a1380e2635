"""drafts.py - guesses the next tokens of a sequence: those that followed the last tokens where they
occurred before (method "ngram" of --speculative-config)."""
import numpy as np


def lookup(tokens, n_guesses, longest, shortest):
    """Returns up to N_GUESSES tokens that followed the latest earlier occurrence of the longest
    possible end of TOKENS, an int32 array. The end has SHORTEST to LONGEST tokens; if it did not
    occur before, there are no guesses."""
    n = len(tokens)
    if n <= shortest or n_guesses < 1:
        return []
    # Positions of earlier tokens that equal the last one.
    at = np.flatnonzero(tokens[:n - 1] == tokens[n - 1])
    length = 1
    while len(at) and length < longest:
        longer = at[at >= length]
        longer = longer[tokens[longer - length] == tokens[n - 1 - length]]
        if len(longer) == 0:
            break
        at = longer
        length += 1
    if len(at) == 0 or length < shortest:
        return []
    # The latest occurrence that is followed by enough tokens, or else the one with the most.
    enough = at[at + n_guesses < n]
    begin = int(enough[-1] if len(enough) else at[0]) + 1
    return tokens[begin:begin + n_guesses].tolist()
