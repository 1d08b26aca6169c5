"""What graph mode cannot compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from tests.messages.faults_of_networks import ones, run
from tests.messages.provoke import collector

CASES, provokes = collector()
GRAPH = ("graph",)


@provokes("graph-compile-error", "user-code-error", modes=GRAPH)
def undefined_name(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x + nope  # noqa: F821 # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def dtypes_of_branches(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            if x.sum() > 0:  # here
                y = x  # here
            else:
                y = x.astype(ms.float16)  # here
            return y  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def without_self(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(this, x):  # noqa: N805 # here
            return x  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def generator_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            yield x  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def import_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            import math  # here

            return x * math.pi

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def deletion_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            y = x + 1
            del y  # here
            return x

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def try_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            try:  # here
                y = x + 1
            except ValueError:
                y = x
            return y

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def class_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            class Inner:  # here
                pass

            return x

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def set_in_construct(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x + len({1, 2})  # here

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error", modes=GRAPH)
def index_of_a_list(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            sizes = [1, 2]
            return x + sizes[5]  # here

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error", modes=GRAPH)
def key_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            table = {"a": 1}
            return x + table["b"]  # here

    run(Net(), ones(3))


@provokes("user-code-error", modes=GRAPH)
def division_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return x * (1 // 0)  # here

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error", modes=GRAPH)
def raised_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            if x.shape[0] != 4:
                raise ValueError(f"expected 4 samples, got {x.shape[0]}")  # here
            return x

    run(Net(), ones(3))


@provokes("user-code-error", "graph-compile-error", modes=GRAPH)
def asserted_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            assert x.shape[0] == 4, "expected 4 samples"  # here
            return x

    run(Net(), ones(3))


@provokes("graph-compile-error", "user-code-error", modes=GRAPH)
def number_of_arguments_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def helper(self, a, b):
            return a + b

        def construct(self, x):
            return self.helper(x)  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", "user-code-error", modes=GRAPH)
def keyword_in_a_graph(folder: Path) -> None:
    class Net(nn.Cell):
        def helper(self, a):
            return a

        def construct(self, x):
            return self.helper(b=x)  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", "user-code-error", modes=GRAPH)
def attribute_that_is_not_there(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            return self.missing(x)  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def recursion_in_a_graph(folder: Path) -> None:
    def deeper(x):
        return deeper(x + 1)  # here

    class Net(nn.Cell):
        def construct(self, x):
            return deeper(x)  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", "out-of-memory-host", modes=GRAPH)
def growing_in_a_loop(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x, n):
            while n < 3:  # here
                x = ops.cat((x, x))  # here
                n = n + 1
            return x

    run(Net(), ones(3), Tensor(0, ms.int32))


@provokes("graph-compile-error", modes=GRAPH)
def lambda_in_value_and_grad(folder: Path) -> None:
    net = nn.Dense(3, 2)

    @ms.jit
    def step(x):
        return ms.value_and_grad(lambda y: net(y).sum(), None, net.trainable_params())(x)  # here

    step(ones(2, 3))


@provokes("graph-compile-error", "dtype-mismatch", modes=GRAPH)
def foreign_object(folder: Path) -> None:
    class Thing:
        pass

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.thing = Thing()

        def construct(self, x):
            return x + self.thing  # here

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def list_of_cells(folder: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = {"a": nn.Dense(3, 3)}

        def construct(self, x):
            return self.layers[x.sum()](x)  # here

    run(Net(), ones(2, 3))


@provokes("graph-compile-error", "shape-mismatch", modes=GRAPH)
def truth_of_many(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            if x > 0:  # here
                return x
            return -x

    run(Net(), ones(3))


@provokes("graph-compile-error", modes=GRAPH)
def loop_over_a_number(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            y = x
            for item in 5:  # here
                y = y + item
            return y

    run(Net(), ones(3))


@provokes("shape-mismatch", modes=GRAPH)
def mismatch_below_a_jit(folder: Path) -> None:
    def helper(a: Any, b: Any) -> Any:
        return ops.matmul(a, b)  # here

    @ms.jit
    def step(a, b):
        return helper(a, b)

    step(ones(2, 3), ones(4, 5))


@provokes("graph-compile-error", "dtype-mismatch", modes=GRAPH)
def method_of_a_string(folder: Path) -> None:
    class Net(nn.Cell):
        def construct(self, x):
            names = ["a", "b"]  # here
            return x + names  # here

    run(Net(), ones(3))
