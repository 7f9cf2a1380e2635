"""Arrays of distributions over the vocabulary, as AMD PACE shapes them. They need numpy."""


def probs(rows, width, pad):
    """Returns float32 [B, V * WIDTH]: the distributions of the tokens of each row, one behind another.

    rows: [B] lists of arrays [V]. Behind the end of a row, the token PAD has probability 1."""
    import numpy

    size = len(rows[0][0])
    out = numpy.zeros((len(rows), width, size), numpy.float32)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
        if pad < size:
            out[i, len(row) :, pad] = 1
    return out.reshape(len(rows), width * size)


def logs(array):
    """Returns the logarithms of probabilities; that of 0 is the least float32 number."""
    import numpy

    out = numpy.full(array.shape, numpy.finfo(numpy.float32).min, numpy.float32)
    numpy.log(array, out=out, where=array > 0)
    return out


def _log_softmax(logits):
    import numpy

    shifted = logits - logits.max()
    return shifted - numpy.log(numpy.exp(shifted).sum())


def input_logprobs(rows, width, packed):
    """Returns float32 [B, WIDTH, V]: log-probabilities of the token behind each token of the prompts.

    rows: [B] lists of arrays [V] of logits, one for each token. Padding on the left has 0. PACKED:
    the rows follow each other without padding, [1, sum of lengths, V]."""
    import numpy

    found = [[_log_softmax(logits) for logits in row] for row in rows]
    if packed:
        return numpy.array([[row for rows in found for row in rows]], numpy.float32)
    out = numpy.zeros((len(rows), width, len(found[0][0])), numpy.float32)
    for i, row in enumerate(found):
        out[i, width - len(row) :] = row
    return out


def cut(probs, temperature, top_k, top_p, min_p):
    """Returns a distribution [V] after temperature, top-k, top-p and min-p.

    Greedy decoding does not need them, but PACE's distributions have them there, too."""
    import numpy

    with numpy.errstate(divide="ignore"):
        logits = numpy.log(probs) / temperature
    if 0 < top_k < len(logits):
        least = numpy.partition(logits, -top_k)[-top_k]
        logits = numpy.where(logits < least, -numpy.inf, logits)
    if top_p < 1:
        order = numpy.argsort(logits, kind="stable")
        below = numpy.cumsum(_softmax(logits)[order]) <= 1 - top_p
        below[-1] = False
        logits[order[below]] = -numpy.inf
    left = _softmax(logits)
    if min_p > 0:
        logits = numpy.where(left < min_p * left.max(), -numpy.inf, logits)
        left = _softmax(logits)
    return left


def _softmax(logits):
    import numpy

    exponentials = numpy.exp(logits - logits.max())
    return exponentials / exponentials.sum()
