"""Faults that were written after the signatures, to see how those do on what they were not made for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.dataset import text, transforms, vision

from tests.messages.faults_of_data import Samples, drain, source, train
from tests.messages.faults_of_networks import ones, run
from tests.messages.provoke import collector

CASES, provokes = collector()
ONCE = ("pynative",)


@provokes("shape-mismatch")
def residual_of_another_width(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(3, 8, 3, stride=2, pad_mode="same")
            self.b = nn.Conv2d(3, 8, 3, pad_mode="same")

        def construct(self, x):
            return self.a(x) + self.b(x)  # here

    run(Net(), ones(2, 3, 8, 8))


@provokes("shape-mismatch")
def flatten_before_a_dense_layer(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 6, 5, pad_mode="valid")
            self.flat = nn.Flatten()
            self.head = nn.Dense(100, 10)

        def construct(self, x):
            return self.head(self.flat(self.conv(x)))  # here

    run(Net(), ones(2, 1, 12, 12))


@provokes("shape-mismatch")
def attention_mask(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, scores, mask):
            return ops.softmax(scores + mask, axis=-1)  # here

    run(Net(), ones(2, 4, 6, 6), ones(2, 1, 5, 5))


@provokes("shape-mismatch")
def transposed_convolution(folder: Path) -> None:
    run(nn.Conv2dTranspose(4, 8, 3), ones(2, 3, 8, 8))


@provokes("shape-mismatch")
def one_dimensional_convolution(folder: Path) -> None:
    run(nn.Conv1d(4, 8, 3), ones(2, 3, 8))


@provokes("shape-mismatch")
def negative_log_likelihood(folder: Path) -> None:
    run(nn.NLLLoss(), ones(4, 3), ones(5, dtype=np.int32))


@provokes("shape-mismatch")
def smooth_loss_shapes(folder: Path) -> None:
    run(nn.SmoothL1Loss(), ones(4, 3), ones(4, 2))


@provokes("shape-mismatch")
def logits_of_a_binary_loss(folder: Path) -> None:
    run(nn.BCEWithLogitsLoss(), ones(4, 1), ones(5, 2))


@provokes("shape-mismatch")
def cosine_of_other_widths(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.cosine_similarity(a, b)  # here

    run(Net(), ones(2, 3), ones(2, 4))


@provokes("shape-mismatch")
def gathered_along_a_missing_axis(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, at):
            return ops.gather(x, at, 3)  # here

    run(Net(), ones(2, 3), Tensor([0], ms.int32))


@provokes("shape-mismatch")
def sum_over_a_missing_axis(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x.sum(axis=4)  # here

    run(Net(), ones(2, 3))


@provokes("shape-mismatch")
def unsqueezed_too_far(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.expand_dims(x, 7)  # here

    run(Net(), ones(2, 3))


@provokes("shape-mismatch", "graph-compile-error", "unknown")
def tiled_too_little(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.tile(x, (2, -1))  # here

    run(Net(), ones(2, 3))


@provokes("configuration-error", "shape-mismatch")
def padded_by_an_odd_list(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.pad(x, (1, 2, 3))  # here

    run(Net(), ones(2, 3))


@provokes("shape-mismatch")
def one_state_too_narrow(folder: Path) -> None:
    run(nn.GRUCell(10, 16), ones(3, 10), ones(3, 8))


@provokes("shape-mismatch")
def scattered_rows(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, at, rows):
            return ops.tensor_scatter_elements(x, at, rows, 0)  # here

    run(Net(), ones(4, 3), Tensor([[0, 1]], ms.int32), ones(1, 3))


@provokes("shape-mismatch", "configuration-error")
def split_into_uneven_pieces(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.Split(0, 4)(x)  # here

    run(Net(), ones(6, 2))


@provokes("shape-mismatch")
def mean_over_channels_of_a_vector(folder: Path) -> None:
    run(nn.AdaptiveAvgPool2d(1), ones(8))


@provokes("shape-mismatch")
def positions_longer_than_the_table(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.positions = Parameter(ones(16, 8), name="positions")

        def construct(self, x):
            return x + self.positions[: x.shape[1]]  # here

    run(Net(), ones(2, 24, 8))


@provokes("dtype-mismatch")
def loss_of_integers(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(4, 3, dtype=np.int32), ones(4, dtype=np.int32))


@provokes("dtype-mismatch")
def embedding_by_doubles(folder: Path) -> None:
    run(nn.Embedding(20, 4), ones(2, 3, dtype=np.float64))


@provokes("dtype-mismatch", "unsupported-operator")
def joined_dtypes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.Concat()((a, b))  # here

    run(Net(), ones(2, 3), ones(2, 3, dtype=np.int32))


@provokes("dtype-mismatch", "unsupported-operator")
def layer_norm_of_integers(folder: Path) -> None:
    run(nn.LayerNorm((3,)), ones(2, 3, dtype=np.int32))


@provokes("dtype-mismatch", "unsupported-operator")
def logarithm_of_bool(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):  # here
            return ops.log(x)  # here

    run(Net(), ones(3, dtype=np.bool_))


@provokes("configuration-error", "dtype-mismatch")
def tensor_from_a_dict(folder: Path) -> None:
    Tensor({"a": 1})  # here


@provokes("dtype-mismatch", "shape-mismatch")
def tensor_from_ragged_rows(folder: Path) -> None:
    Tensor([[1, 2], [3]], ms.float32)  # here


@provokes("label-out-of-range")
def token_of_a_word_table(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = Parameter(ones(10, 4), name="table")

        def construct(self, ids):
            return ops.gather(self.table, ids, 0)  # here

    run(Net(), Tensor([[1, 99]], ms.int32))


@provokes("label-out-of-range")
def label_of_a_likelihood(folder: Path) -> None:
    run(nn.NLLLoss(), ones(2, 3), Tensor([0, 7], ms.int32))


@provokes("out-of-memory-host")
def zeros_without_end(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.zeros((1_000_000, 1_000_000), ms.float32) + x  # here

    run(Net(), ones(1))


@provokes("configuration-error")
def groups_of_a_convolution(folder: Path) -> None:
    nn.Conv2d(3, 8, 3, group=2)  # here


@provokes("configuration-error")
def momentum_above_one(folder: Path) -> None:
    nn.Momentum(nn.Dense(2, 2).trainable_params(), 0.1, -0.9)  # here


@provokes("configuration-error")
def betas_of_adam(folder: Path) -> None:
    nn.Adam(nn.Dense(2, 2).trainable_params(), 0.1, beta1=1.5)  # here


@provokes("configuration-error")
def initialiser_that_is_not_there(folder: Path) -> None:
    nn.Dense(2, 2, weight_init="foo")  # here


@provokes("configuration-error")
def activation_that_is_not_there(folder: Path) -> None:
    nn.Dense(2, 2, activation="foo")  # here


@provokes("configuration-error")
def decay_steps_of_nothing(folder: Path) -> None:
    nn.cosine_decay_lr(0.0, 0.1, 0, 10, 1)  # here


@provokes("configuration-error")
def parameters_that_are_a_list_of_text(folder: Path) -> None:
    nn.Adam(["weight"], 0.1)  # here


@provokes("user-code-error", "unknown", modes=("graph",))
def raise_behind_a_tensor(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            if x.sum() > 0:
                raise RuntimeError("the sum is positive")  # here
            return x

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=("graph",))
def keyword_only_lambda(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            pieces = sorted([3, 1], key=lambda v, /: -v)  # here
            return x + pieces[0]

    run(Net(), ones(3))


@provokes("graph-compile-error", "user-code-error", modes=("graph",))
def method_without_a_name(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return self.layer.forward(x)  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", "user-code-error", "shape-mismatch", modes=("graph",))
def unpacked_too_few(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            a, b, c = x.shape  # here
            return x.reshape(a, b * c)

    run(Net(), ones(2, 3))


@provokes("graph-compile-error", "unknown", modes=("graph",))
def with_statement(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            with open("/tmp/x") as file:  # here
                return x + len(file.read())

    run(Net(), ones(2, 3))


@provokes("graph-compile-error", modes=("graph",))
def nonlocal_name(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            count = 0

            def more(y):
                nonlocal count  # here
                count += 1
                return y

            return more(x)

    run(Net(), ones(2, 3))


@provokes("dataset-error", modes=ONCE)
def image_of_the_wrong_kind(folder: Path) -> None:
    images = {"image": np.ones((4, 8, 8), np.float64)}
    drain(ds.NumpySlicesDataset(images).map(vision.Decode(), ["image"]))  # here


@provokes("dataset-error", modes=ONCE)
def flip_of_a_vector(folder: Path) -> None:
    drain(source().map(vision.RandomHorizontalFlip(1.0), ["data"]))  # here


@provokes("dataset-error", modes=ONCE)
def cast_of_text(folder: Path) -> None:
    drain(ds.NumpySlicesDataset({"t": ["a", "b"]}).map(transforms.TypeCast(ms.float32), ["t"]))  # here


@provokes("dataset-error", "configuration-error", modes=ONCE)
def words_without_a_vocabulary(folder: Path) -> None:
    vocabulary = text.Vocab.from_list(["a", "b"])
    drain(ds.NumpySlicesDataset({"t": ["zebra"]}).map(text.Lookup(vocabulary), ["t"]))  # here


@provokes("dataset-error", modes=ONCE)
def filter_raises(folder: Path) -> None:
    def chosen(x: Any) -> Any:
        return x["a"] > 1  # here

    drain(source().filter(chosen, ["data"]))


@provokes("dataset-error", modes=ONCE)
def filter_keeps_nothing(folder: Path) -> None:
    train(source().filter(lambda x: False, ["data"]).batch(4))  # here


@provokes("dataset-error", modes=ONCE)
def sample_of_one_value(folder: Path) -> None:
    def bad() -> Any:
        return np.ones(4, np.float32)

    drain(source(bad))


@provokes("dataset-error", "missing-file", modes=ONCE)
def picture_that_is_not_there(folder: Path) -> None:
    def opened(x: Any) -> Any:
        from PIL import Image

        return np.asarray(Image.open("/home/user/images/9.jpg"))  # here

    drain(source().map(opened, ["data"]))


@provokes("dataset-error", modes=ONCE)
def length_that_lies(folder: Path) -> None:
    class Liar(Samples):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> Any:
            return [(np.ones(4, np.float32), np.int32(0))][index]  # here

    drain(ds.GeneratorDataset(Liar(), ["data", "label"], shuffle=False))


@provokes("configuration-error", modes=ONCE)
def workers_without_end(folder: Path) -> None:
    ds.GeneratorDataset(Samples(), ["data", "label"], num_parallel_workers=5000)  # here


@provokes("configuration-error", modes=ONCE)
def shuffle_by_nothing(folder: Path) -> None:
    source().shuffle(0)  # here


@provokes("configuration-error", "dataset-error", modes=ONCE)
def repeat_below_zero(folder: Path) -> None:
    source().repeat(-5)  # here


@provokes("missing-file", modes=ONCE)
def coco_annotations_missing(folder: Path) -> None:
    drain(ds.CocoDataset(str(folder), str(folder / "none.json"), task="Detection"))  # here


@provokes("missing-file", modes=ONCE)
def vocabulary_missing(folder: Path) -> None:
    text.Vocab.from_file(str(folder / "vocab.txt"))  # here


@provokes("checkpoint-corrupt", "configuration-error", modes=ONCE)
def checkpoint_that_is_a_folder(folder: Path) -> None:
    (folder / "m.ckpt").mkdir()
    ms.load_checkpoint(str(folder / "m.ckpt"))  # here


@provokes("missing-file", "permission-denied", modes=ONCE)
def checkpoint_below_a_file(folder: Path) -> None:
    (folder / "out").write_text("x")
    ms.save_checkpoint(nn.Dense(2, 2), str(folder / "out" / "m.ckpt"))  # here


@provokes("configuration-error", "dtype-mismatch", modes=ONCE)
def checkpoint_of_nothing(folder: Path) -> None:
    ms.save_checkpoint(None, str(folder / "m.ckpt"))  # here


@provokes("user-code-error", modes=ONCE)
def environment_that_is_not_set(folder: Path) -> None:
    os.environ["DATA_ROOT_OF_NOWHERE"]  # here
