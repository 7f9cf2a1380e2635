"""The forms of prompts that generate() takes and refuses."""

import collections

import pytest

from gallop.pace.llm import inputs

np = pytest.importorskip("numpy")

PAD = 0


class BatchEncoding(collections.UserDict):
    """Like transformers' class: a UserDict whose members are attributes, too."""

    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


def tokenize(text):
    return [ord(c) for c in text]


def read(prompt):
    batch = inputs.read(prompt, PAD, tokenize)
    return batch.padded, batch.lengths


ids = np.array([[5, 6, 7]])
ACCEPTED = [
    ("int64 array", ids, [[5, 6, 7]], [3]),
    ("int32 array", ids.astype(np.int32), [[5, 6, 7]], [3]),
    ("BatchEncoding", BatchEncoding(input_ids=ids), [[5, 6, 7]], [3]),
    ("dict", {"input_ids": ids}, [[5, 6, 7]], [3]),
    ("lists in a BatchEncoding", BatchEncoding(input_ids=[[5, 6]]), [[5, 6]], [2]),
    ("nested lists", [[5, 6], [7, 8]], [[5, 6], [7, 8]], [2, 2]),
    ("ragged lists", [[5, 6, 7], [8]], [[5, 6, 7], [0, 0, 8]], [3, 1]),
    ("one list", [5, 6], [[5, 6]], [2]),
    ("text", "ab", [[97, 98]], [2]),
    ("texts", ["ab", "c"], [[97, 98], [0, 99]], [2, 1]),
    ("leading pads", np.array([[0, 0, 5], [6, 7, 8]]), [[0, 0, 5], [6, 7, 8]], [1, 3]),
    ("pads at the end are content", np.array([[5, 0]]), [[5, 0]], [2]),
    ("pads inside are content", np.array([[5, 0, 6]]), [[5, 0, 6]], [3]),
    (
        "mask",
        BatchEncoding(
            input_ids=np.array([[0, 5], [6, 7]]), attention_mask=np.array([[0, 1], [1, 1]])
        ),
        [[0, 5], [6, 7]],
        [1, 2],
    ),
    (
        "mask with a hole: only the sum counts",
        BatchEncoding(input_ids=np.array([[5, 6, 7]]), attention_mask=np.array([[1, 0, 1]])),
        [[5, 6, 7]],
        [2],
    ),
    (
        "mask decides over pad tokens",
        {"input_ids": np.array([[0, 5]]), "attention_mask": np.array([[1, 1]])},
        [[0, 5]],
        [2],
    ),
]


@pytest.mark.parametrize("form, prompt, padded, lengths", ACCEPTED, ids=[a[0] for a in ACCEPTED])
def test_accepted(form, prompt, padded, lengths):
    assert read(prompt) == (padded, lengths)


REFUSED = [
    ("None", None, NotImplementedError),
    ("number", 5, NotImplementedError),
    ("bytes", b"ab", NotImplementedError),
    ("dict without input_ids", {"ids": ids}, NotImplementedError),
    ("array of 1 dimension", np.array([5, 6]), ValueError),
    ("array of 3 dimensions", np.zeros((1, 1, 1), int), ValueError),
    ("floats", np.array([[0.5]]), ValueError),
    ("empty row", np.zeros((1, 0), int), ValueError),
    ("empty batch", np.zeros((0, 3), int), ValueError),
    ("empty list", [], ValueError),
    ("list with an empty list", [[]], ValueError),
    ("empty text", "", ValueError),
    ("row of pads", np.array([[0, 0], [0, 5]]), ValueError),
    (
        "mask of another shape",
        {"input_ids": ids, "attention_mask": np.ones((1, 2), int)},
        ValueError,
    ),
    ("ragged BatchEncoding", BatchEncoding(input_ids=[[5], [6, 7]]), ValueError),
    (
        "padding on the right",
        {"input_ids": np.array([[5, 0]]), "attention_mask": np.array([[1, 0]])},
        AssertionError,
    ),
]


@pytest.mark.parametrize("kind", [int, bool, float, np.float32, np.bool_, np.int8])
def test_masks_of_every_type_of_number(kind):
    ids, mask = [[9, 9, 5], [9, 6, 7]], np.array([[0, 0, 1], [0, 1, 1]], kind)
    assert read({"input_ids": np.array(ids), "attention_mask": mask}) == (ids, [1, 2])
    lists = np.array([[0, 1, 1]], kind).tolist()
    assert read({"input_ids": [[9, 6, 7]], "attention_mask": lists})[1] == [2]


@pytest.mark.parametrize("value", [2, 0.5, -1, float("-inf"), float("nan"), "1"])
def test_masks_of_other_values_are_refused(value):
    with pytest.raises(ValueError, match="attention_mask: "):
        read({"input_ids": [[9, 6]], "attention_mask": [[value, 1]]})


def test_ids_of_bool_or_float_are_refused():
    for kind in (bool, float):
        with pytest.raises(ValueError, match="input_ids: expected integers"):
            read({"input_ids": np.array([[1, 0]], kind)})


@pytest.mark.parametrize("form, prompt, error", REFUSED, ids=[r[0] for r in REFUSED])
def test_refused(form, prompt, error):
    with pytest.raises(error):
        read(prompt)


def test_texts_of_refusals():
    with pytest.raises(NotImplementedError) as e:
        read(5)
    assert str(e.value) == (
        "Only input types of torch.Tensor or BatchEncoding is allowed for now, got <class 'int'>"
    )
    with pytest.raises(AssertionError) as e:
        read({"input_ids": [[5, 0]], "attention_mask": [[1, 0]]})
    assert str(e.value) == (
        "Right-padded inputs are not supported. Set tokenizer.padding_side = 'left'."
    )


def test_wrong_prompt_is_both_of_paces_errors():
    with pytest.raises(IndexError):
        read(np.array([5]))
