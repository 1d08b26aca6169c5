"""Shapes, dtypes, labels, memory and arguments: what operators and layers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from tests.messages.provoke import collector

CASES, provokes = collector()


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


def run(net: nn.Cell, *inputs: Any) -> None:
    """Call a network, and wait for what it gives."""
    result = net(*inputs)  # read
    for item in result if isinstance(result, tuple) else (result,):
        if isinstance(item, Tensor):
            item.asnumpy()  # read


@provokes("shape-mismatch")
def dense_width(folder: Path) -> None:
    class Classifier(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Dense(784, 512)
            self.head = nn.Dense(512, 10)

        def construct(self, x):
            return self.head(ops.relu(self.hidden(x)))  # here

    run(Classifier(), ones(64, 32))


class Product(nn.Cell):
    def construct(self, a, b):
        return ops.matmul(a, b)


@provokes("shape-mismatch")
def matmul_inner_size(folder: Path) -> None:
    run(Product(), ones(2, 20), ones(16, 4))


@provokes("dtype-mismatch")
def matmul_dtypes(folder: Path) -> None:
    run(Product(), ones(2, 4), ones(4, 4, dtype=np.float16))


@provokes("shape-mismatch")
def batch_matmul(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.bmm(a, b)  # here

    run(Net(), ones(2, 3, 4), ones(3, 4, 5))


@provokes("shape-mismatch")
def add_shapes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return a + b  # here

    run(Net(), ones(3, 4), ones(5, 4))


@provokes("shape-mismatch")
def reshape_last_batch(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x.reshape((16, 32))  # here

    run(Net(), ones(6, 32))


@provokes("shape-mismatch")
def concat_sizes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.cat((a, b), axis=0)  # here

    run(Net(), ones(3, 4), ones(3, 5))


@provokes("shape-mismatch")
def stack_sizes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.stack((a, b))  # here

    run(Net(), ones(3, 4), ones(3, 5))


@provokes("shape-mismatch")
def convolution_channels(folder: Path) -> None:
    run(nn.Conv2d(3, 8, 3), ones(2, 4, 8, 8))


@provokes("shape-mismatch")
def convolution_rank(folder: Path) -> None:
    run(nn.Conv2d(3, 8, 3), ones(3, 8, 8))


@provokes("shape-mismatch")
def convolution_kernel_too_large(folder: Path) -> None:
    run(nn.Conv2d(3, 8, 9, pad_mode="valid"), ones(2, 3, 4, 4))


@provokes("shape-mismatch")
def batch_norm_channels(folder: Path) -> None:
    run(nn.BatchNorm2d(5).set_train(), ones(2, 3, 4, 4))


@provokes("shape-mismatch")
def layer_norm_width(folder: Path) -> None:
    run(nn.LayerNorm((5,)), ones(2, 3))


@provokes("shape-mismatch")
def group_norm_channels(folder: Path) -> None:
    run(nn.GroupNorm(2, 8), ones(2, 6, 4, 4))


@provokes("shape-mismatch")
def cross_entropy_batch(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(4, 3), ones(5, dtype=np.int32))


@provokes("dtype-mismatch")
def cross_entropy_labels_of_int64(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(4, 3), ones(4, dtype=np.int64))


@provokes("dtype-mismatch")
def cross_entropy_labels_of_float(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(4, 3), ones(4))


@provokes("shape-mismatch")
def mean_squares_shapes(folder: Path) -> None:
    run(nn.MSELoss(), ones(4, 3), ones(5, 3))


@provokes("shape-mismatch")
def binary_cross_entropy_shapes(folder: Path) -> None:
    run(nn.BCELoss(), ones(4, 3), ones(5, 3))


@provokes("shape-mismatch")
def softmax_axis(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.softmax(x, axis=5)  # here

    run(Net(), ones(2, 3))


@provokes("shape-mismatch")
def transpose_axes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.transpose(x, (0, 2, 1))  # here

    run(Net(), ones(2, 3))


@provokes("shape-mismatch")
def broadcast_to(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.broadcast_to(x, (4, 5))  # here

    run(Net(), ones(2, 5))


@provokes("shape-mismatch", "user-code-error")
def tensor_index(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x[5]  # here

    run(Net(), ones(3, 2))


@provokes("shape-mismatch", "user-code-error")
def too_many_indices(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x[:, :, 0]  # here

    run(Net(), ones(3, 2))


@provokes("shape-mismatch")
def slice_assignment(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, y):
            x[0:2] = y  # here
            return x

    run(Net(), ones(3, 2), ones(3, 3))


@provokes("shape-mismatch", "configuration-error")
def split_sizes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.split(x, [2, 2], axis=0)  # here

    run(Net(), ones(5, 2))


@provokes("unknown", "shape-mismatch")
def einsum_sizes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, a, b):
            return ops.einsum("ij,jk->ik", a, b)  # here

    run(Net(), ones(3, 4), ones(5, 6))


@provokes("shape-mismatch")
def masked_fill_shapes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, mask):
            return ops.masked_fill(x, mask, -1e9)  # here

    run(Net(), ones(2, 3), ones(2, 4, dtype=np.bool_))


@provokes("shape-mismatch")
def where_shapes(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, mask, a, b):
            return ops.where(mask, a, b)  # here

    run(Net(), ones(2, 4, dtype=np.bool_), ones(2, 3), ones(2, 3))


@provokes("shape-mismatch")
def lstm_input_size(folder: Path) -> None:
    run(nn.LSTM(10, 16, 1, batch_first=True), ones(3, 5, 8))


@provokes("shape-mismatch")
def attention_width(folder: Path) -> None:
    run(nn.MultiheadAttention(16, 4), ones(5, 2, 12), ones(5, 2, 12), ones(5, 2, 12))


@provokes("shape-mismatch", "configuration-error")
def attention_heads(folder: Path) -> None:
    nn.MultiheadAttention(16, 3)


@provokes("dtype-mismatch", "unsupported-operator")
def gather_by_float(folder: Path) -> None:
    run(nn.Embedding(20, 4), ones(2, 3))


@provokes("dtype-mismatch")
def dense_of_integers(folder: Path) -> None:
    run(nn.Dense(4, 2), ones(3, 4, dtype=np.int32))


@provokes("dtype-mismatch")
def dense_of_double(folder: Path) -> None:
    run(nn.Dense(4, 2), ones(3, 4, dtype=np.float64))


@provokes("dtype-mismatch")
def convolution_of_half(folder: Path) -> None:
    run(nn.Conv2d(3, 8, 3), ones(2, 3, 8, 8, dtype=np.float16))


@provokes("dtype-mismatch", "unsupported-operator")
def softmax_of_integers(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.softmax(x)  # here

    run(Net(), ones(3, 4, dtype=np.int32))


@provokes("dtype-mismatch")
def operand_of_text(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.add(x, "a")  # here

    run(Net(), ones(3))


@provokes("dtype-mismatch", "configuration-error")
def numpy_array_to_an_operator(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.relu(x)  # here

    run(Net(), np.ones((2, 3), np.float32))


@provokes("dtype-mismatch")
def list_to_a_layer(folder: Path) -> None:
    run(nn.Dense(3, 2), [1.0, 2.0, 3.0])


@provokes("dtype-mismatch")
def parameter_of_half_assigned(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(np.ones(3, np.float16)), name="w")

        def construct(self, x):
            return ops.assign_add(self.w, x)  # here

    run(Net(), ones(3))


@provokes("dtype-mismatch", "unsupported-operator")
def one_hot_of_floats(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.one_hot(x, 4, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))  # here

    run(Net(), ones(3))


@provokes("unsupported-operator")
def convolution_of_bfloat16(folder: Path) -> None:
    net = nn.Conv2d(3, 8, 3).to_float(ms.bfloat16)
    run(net, ones(2, 3, 8, 8))


@provokes("unsupported-operator")
def float_status_on_cpu(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):  # here
            return ops.FloatStatus()(x)  # here

    run(Net(), ones(3))


@provokes("unsupported-operator")
def flash_attention_on_cpu(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, q):  # here
            return ops.flash_attention_score(q, q, q, 2, input_layout="BSH")  # here

    run(Net(), ones(2, 4, 8, dtype=np.float16))


@provokes("dtype-mismatch", "unsupported-operator")
def decomposition_of_half(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.svd(x)  # here

    run(Net(), ones(3, 3, dtype=np.float16))


@provokes("label-out-of-range")
def embedding_id(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 4)

        def construct(self, ids):
            return self.words(ids)  # here

    run(Net(), Tensor([[3, 23]], ms.int32))


@provokes("label-out-of-range")
def gathered_column(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, at):
            return ops.gather_elements(x, 1, at)  # here

    run(Net(), ones(2, 3), Tensor([[7], [0]], ms.int32))


@provokes("label-out-of-range")
def label_of_cross_entropy(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(4, 3), Tensor([0, 1, 2, 3], ms.int32))


@provokes("out-of-memory-host")
def outer_product_of_everything(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return ops.matmul(x, x.T)  # here

    run(Net(), ones(400_000, 1))


@provokes("out-of-memory-host", modes=("pynative",))
def enormous_array(folder: Path) -> None:
    np.ones((1 << 25, 1 << 25))  # here


@provokes("configuration-error")
def padding_mode(folder: Path) -> None:
    nn.Conv2d(3, 8, 3, pad_mode="foo")  # here


@provokes("configuration-error")
def layer_of_text(folder: Path) -> None:
    nn.Dense("4", 2)  # here


@provokes("configuration-error")
def dropout_probability(folder: Path) -> None:
    nn.Dropout(p=2.0)  # here


@provokes("configuration-error")
def negative_learning_rate(folder: Path) -> None:
    nn.SGD(nn.Dense(2, 2).trainable_params(), learning_rate=-0.1)  # here


@provokes("configuration-error")
def optimizer_without_parameters(folder: Path) -> None:
    nn.Adam([], 0.1)  # here


@provokes("configuration-error")
def amp_level(folder: Path) -> None:
    ms.amp.auto_mixed_precision(nn.Dense(2, 2), "O9")  # here


@provokes("configuration-error")
def mode_of_context(folder: Path) -> None:
    ms.set_context(mode=7)  # here


@provokes("environment-mismatch")
def device_target(folder: Path) -> None:
    ms.set_context(device_target="Ascend")  # here


@provokes("environment-mismatch", "user-code-error")
def name_of_another_version(folder: Path) -> None:
    ops.safe_logarithm(ones(3))  # here


@provokes("configuration-error", "user-code-error")
def argument_count(folder: Path) -> None:
    run(nn.Dense(4, 2), ones(3, 4), ones(3, 4))  # here


@provokes("configuration-error", "user-code-error")
def missing_argument(folder: Path) -> None:
    run(nn.CrossEntropyLoss(), ones(3, 4))  # here


@provokes("configuration-error", "user-code-error")
def unknown_keyword(folder: Path) -> None:
    nn.Dense(4, 2, biased=True)  # here


@provokes("configuration-error", "label-out-of-range")
def schedule_too_short(folder: Path) -> None:
    net = nn.Dense(4, 2)
    optimizer = nn.Momentum(net.trainable_params(), [0.1, 0.2], 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train()
    for _ in range(4):
        run(step, ones(3, 4), ones(3, 2))  # here


@provokes("configuration-error")
def initialisation_without_launcher(folder: Path) -> None:
    from mindspore.communication import init

    init()  # here


@provokes("user-code-error", "dtype-mismatch")
def operand_of_a_dict(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x + {"a": 1}  # here

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error")
def attribute_of_a_tensor(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x.nosuch()  # here

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error")
def nothing_is_called(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.act = None

        def construct(self, x):
            return self.act(x)  # here

    run(Net(), ones(3))


@provokes("user-code-error", modes=("pynative",))
def key_of_a_dict(folder: Path) -> None:
    {"learning_rate": 0.1}["lr"]  # here


@provokes("user-code-error", modes=("pynative",))
def own_assertion(folder: Path) -> None:
    batch = ones(3, 4)
    assert batch.shape[0] == 4, f"expected 4 samples, got {batch.shape[0]}"  # here


@provokes("shape-mismatch", modes=("pynative",))
def numpy_broadcast(folder: Path) -> None:
    np.ones((3, 4)) + np.ones((5, 4))  # here


@provokes("shape-mismatch", modes=("pynative",))
def numpy_ragged(folder: Path) -> None:
    np.array([[1, 2], [3]], np.float32)  # here


@provokes("numpy-incompatibility", modes=("pynative",))
def numpy_alias(folder: Path) -> None:
    np.zeros(3, np.bool)  # here


@provokes("dtype-mismatch", "user-code-error", "configuration-error")
def gradient_of_a_vector(folder: Path) -> None:
    def forward(x):
        return x * 2

    ms.grad(forward, grad_position="zero")(ones(3))  # here


@provokes("user-code-error", "shape-mismatch", "configuration-error")
def item_of_many(folder: Path) -> None:
    float(ones(3))  # here
