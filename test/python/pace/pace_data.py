"""Prompts and their greedy output on the demo model in float32, and a streamer that notes its calls."""

import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]

ONCE = [1, 435, 499, 262, 409]  # "Once upon a time"
STORY = [366, 286, 262, 746, 416, 311, 941, 19, 627, 471, 286, 322]
#: A question to the assistant and its whole answer, "27 + 15 = 42.", which ends with 2.
SUM = [1, 4, 342, 289, 226, 23, 28, 330, 226, 22, 26, 36, 2, 5]
ANSWER = [23, 28, 330, 226, 22, 26, 288, 226, 25, 23, 19, 2]
PAD, END = 0, 2


def left_padded(*rows):
    width = max(map(len, rows))
    ids = np.array([[PAD] * (width - len(row)) + row for row in rows])
    mask = np.array([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


class Recorder:
    """A streamer whose calls are a list."""

    def __init__(self):
        self.calls = []

    def put(self, value):
        self.calls.append(value.tolist())

    def end(self):
        self.calls.append("end")
