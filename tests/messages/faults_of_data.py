"""What goes wrong in the input pipeline, and between it and the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.dataset import transforms, vision
from mindspore.train import Model

from tests.messages.provoke import collector

CASES, provokes = collector()
ONCE = ("pynative",)


def drain(dataset: Any) -> None:
    for _ in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True):  # read
        pass


class Samples:
    """Sixteen samples of which the tenth may be bad."""

    def __init__(self, bad: Any = None, width: int = 4) -> None:
        self.bad = bad
        self.width = width

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        if index == 9 and self.bad is not None:
            return self.bad()
        return np.ones(self.width, np.float32), np.int32(index % 2)


def source(bad: Any = None, **more: Any) -> Any:
    return ds.GeneratorDataset(Samples(bad), ["data", "label"], shuffle=False, **more)


def train(dataset: Any, loss: Any = None, **more: Any) -> None:
    net = nn.Dense(4, 2)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    Model(net, loss or nn.CrossEntropyLoss(), optimizer, **more).train(2, dataset, dataset_sink_mode=False)  # read


@provokes("dataset-error", modes=ONCE)
def getitem_raises(folder: Path) -> None:
    def bad() -> Any:
        return {"a": 1}["b"]  # here

    drain(source(bad).batch(4))


@provokes("dataset-error", modes=("graph", "pynative"))
def getitem_raises_in_training(folder: Path) -> None:
    def bad() -> Any:
        raise ValueError("sample 9 has no label")  # here

    train(source(bad).batch(4))


@provokes("dataset-error", modes=ONCE)
def generator_raises(folder: Path) -> None:
    def rows() -> Iterator[Any]:
        for index in range(16):
            yield np.ones(4, np.float32) / (9 - index if index < 9 else int("nine"))  # here

    drain(ds.GeneratorDataset(rows, ["data"]))


@provokes("dataset-error", modes=ONCE)
def map_raises(folder: Path) -> None:
    def scaled(x: Any) -> Any:
        return x / np.array([1, 2, 3], np.float32)  # here

    drain(source().map(scaled, ["data"]))


@provokes("dataset-error", modes=ONCE)
def map_raises_in_a_process(folder: Path) -> None:
    def scaled(x: Any) -> Any:
        return x[10]  # here

    drain(source().map(scaled, ["data"], num_parallel_workers=2, python_multiprocessing=True))


@provokes("dataset-error", modes=ONCE)
def map_returns_nothing(folder: Path) -> None:
    def scaled(x: Any) -> Any:
        x * 2

    drain(source().map(scaled, ["data"]))


@provokes("dataset-error", modes=ONCE)
def map_takes_too_few(folder: Path) -> None:
    def scaled(x: Any) -> Any:
        return x

    drain(source().map(scaled, ["data", "label"]))


@provokes("dataset-error", "missing-file", modes=ONCE)
def file_missing_in_getitem(folder: Path) -> None:
    def bad() -> Any:
        return np.load("/home/user/img_0009.npy"), np.int32(0)  # here

    drain(source(bad))


@provokes("dataset-error", modes=ONCE)
def image_that_is_none(folder: Path) -> None:
    def bad() -> Any:
        return None, np.int32(0)  # here

    drain(source(bad))


@provokes("dataset-error", modes=ONCE)
def getitem_returns_nothing(folder: Path) -> None:
    def bad() -> Any:
        return None

    drain(source(bad))


@provokes("dataset-error", modes=ONCE)
def getitem_returns_a_dict(folder: Path) -> None:
    def bad() -> Any:
        return {"data": 1}

    drain(source(bad))


@provokes("dataset-error", modes=ONCE)
def ragged_batch(folder: Path) -> None:
    def bad() -> Any:
        return np.ones(5, np.float32), np.int32(0)

    drain(source(bad).batch(4))


@provokes("dataset-error", modes=ONCE)
def mixed_dtypes_in_a_batch(folder: Path) -> None:
    def bad() -> Any:
        return np.ones(4, np.float64), np.int32(0)

    drain(source(bad).batch(4))


@provokes("dataset-error", "configuration-error", modes=ONCE)
def column_that_is_not_there(folder: Path) -> None:
    drain(source().map(lambda x: x, ["image"]))  # here


@provokes("dataset-error", "configuration-error", modes=ONCE)
def projected_column_that_is_not_there(folder: Path) -> None:
    drain(source().project(["image"]))  # here


@provokes("dataset-error", "configuration-error", modes=ONCE)
def number_of_columns(folder: Path) -> None:
    drain(ds.GeneratorDataset(Samples(), ["data", "label", "weight"]))  # here


@provokes("dataset-error", "configuration-error", modes=ONCE)
def renamed_columns(folder: Path) -> None:
    drain(source().rename(["data"], ["label"]))  # here


@provokes("dataset-error", modes=ONCE)
def fewer_samples_than_a_batch(folder: Path) -> None:
    train(source().batch(64, drop_remainder=True))  # here


@provokes("configuration-error", modes=ONCE)
def batch_of_nothing(folder: Path) -> None:
    source().batch(0)  # here


@provokes("configuration-error", modes=ONCE)
def three_columns_for_model(folder: Path) -> None:
    rows = {"a": np.ones((8, 4), np.float32), "b": np.zeros(8, np.int32), "c": np.zeros(8, np.int32)}
    train(ds.NumpySlicesDataset(rows).batch(4))  # here


@provokes("configuration-error", modes=ONCE)
def one_column_for_model(folder: Path) -> None:
    train(ds.NumpySlicesDataset({"a": np.ones((8, 4), np.float32)}).batch(4))  # here


@provokes("configuration-error", modes=ONCE)
def dataset_of_another_model(folder: Path) -> None:
    dataset = source().batch(4)
    train(dataset)
    train(dataset)  # here


@provokes("configuration-error", modes=ONCE)
def epochs_of_nothing(folder: Path) -> None:
    Model(nn.Dense(4, 2), nn.MSELoss(), nn.SGD(nn.Dense(4, 2).trainable_params())).train(0, source().batch(4))  # here


@provokes("configuration-error", modes=ONCE)
def metric_that_is_not_there(folder: Path) -> None:
    Model(nn.Dense(4, 2), nn.MSELoss(), metrics={"foo"})  # here


@provokes("configuration-error", modes=ONCE)
def evaluation_without_metrics(folder: Path) -> None:
    Model(nn.Dense(4, 2), nn.CrossEntropyLoss()).eval(source().batch(4), dataset_sink_mode=False)  # here


@provokes("configuration-error", modes=ONCE)
def loss_scale_on_cpu(folder: Path) -> None:
    train(source().batch(4), loss_scale_manager=ms.amp.DynamicLossScaleManager())  # here


@provokes("configuration-error", modes=ONCE)
def callback_that_is_none(folder: Path) -> None:
    net = nn.Dense(4, 2)
    model = Model(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params()))
    model.train(1, source().batch(4), callbacks=["loss"], dataset_sink_mode=False)  # here


@provokes("user-code-error", modes=("graph", "pynative"))
def callback_raises(folder: Path) -> None:
    class Logger(ms.train.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            params = run_context.original_args()
            self.line = f"loss {params.net_outputs:.3g} at {params.learning_rate}"  # here

    net = nn.Dense(4, 2)
    model = Model(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params()))
    model.train(1, source().batch(4), callbacks=[Logger()], dataset_sink_mode=False)


@provokes("shape-mismatch", modes=("graph", "pynative"))
def one_hot_labels_for_indices(folder: Path) -> None:
    train(source().batch(4), nn.MSELoss())  # here


@provokes("shape-mismatch", modes=("graph", "pynative"))
def width_of_the_data(folder: Path) -> None:
    dataset = ds.GeneratorDataset(Samples(width=7), ["data", "label"], shuffle=False)
    train(dataset.batch(4))  # here


@provokes("dtype-mismatch", modes=("graph", "pynative"))
def data_of_double(folder: Path) -> None:
    train(source().map(lambda x: x.astype(np.float64), ["data"]).batch(4))  # here


@provokes("dtype-mismatch", "dataset-error", "configuration-error", modes=("graph",))
def text_in_the_batch(folder: Path) -> None:
    dataset = ds.NumpySlicesDataset({"data": ["a", "b"], "label": [0, 1]}).batch(2)
    train(dataset)  # here


@provokes("label-out-of-range", modes=("graph",))
def label_out_of_range_in_training(folder: Path) -> None:
    train(source().map(lambda y: np.int32(y + 5), ["label"]).batch(4))  # here


@provokes("missing-file", modes=ONCE)
def folder_of_images_missing(folder: Path) -> None:
    drain(ds.ImageFolderDataset(str(folder / "nothing")))  # here


@provokes("missing-file", "dataset-error", modes=ONCE)
def mnist_in_an_empty_folder(folder: Path) -> None:
    drain(ds.MnistDataset(str(folder)))  # here


@provokes("missing-file", "dataset-error", modes=ONCE)
def cifar_in_an_empty_folder(folder: Path) -> None:
    drain(ds.Cifar10Dataset(str(folder)))  # here


@provokes("missing-file", modes=ONCE)
def records_missing(folder: Path) -> None:
    drain(ds.TFRecordDataset([str(folder / "a.tfrecord")]))  # here


@provokes("dataset-error", modes=ONCE)
def records_damaged(folder: Path) -> None:
    (folder / "a.tfrecord").write_bytes(os.urandom(4096))
    drain(ds.TFRecordDataset([str(folder / "a.tfrecord")]))  # here


@provokes("missing-file", modes=ONCE)
def mindrecord_missing(folder: Path) -> None:
    drain(ds.MindDataset(str(folder / "a.mindrecord")))  # here


@provokes("dataset-error", modes=ONCE)
def mindrecord_damaged(folder: Path) -> None:
    (folder / "a.mindrecord").write_bytes(os.urandom(4096))
    (folder / "a.mindrecord.db").write_bytes(os.urandom(4096))
    drain(ds.MindDataset(str(folder / "a.mindrecord")))  # here


@provokes("dataset-error", modes=ONCE)
def csv_damaged(folder: Path) -> None:
    (folder / "a.csv").write_text("1,2,3\n4,5\n")
    drain(ds.CSVDataset([str(folder / "a.csv")], column_defaults=[1, 2, 3], column_names=["a", "b", "c"]))  # here


@provokes("dataset-error", modes=ONCE)
def image_damaged(folder: Path) -> None:
    (folder / "class").mkdir()
    (folder / "class" / "a.jpg").write_bytes(b"\xff\xd8\xff\xe0" + os.urandom(500))
    drain(ds.ImageFolderDataset(str(folder), decode=True))  # here


@provokes("dataset-error", modes=ONCE)
def image_of_one_dimension(folder: Path) -> None:
    drain(source().map(vision.Resize((2, 2)), ["data"]))  # here


@provokes("dataset-error", modes=ONCE)
def crop_larger_than_the_image(folder: Path) -> None:
    images = {"image": np.ones((4, 8, 8, 3), np.uint8)}
    drain(ds.NumpySlicesDataset(images).map(vision.RandomCrop(32), ["image"]))  # here


@provokes("dataset-error", "configuration-error", modes=ONCE)
def normalisation_of_grey_images(folder: Path) -> None:
    images = {"image": np.ones((4, 8, 8, 1), np.uint8)}
    drain(ds.NumpySlicesDataset(images).map(vision.Normalize([0.5] * 3, [0.5] * 3), ["image"]))  # here


@provokes("dataset-error", modes=ONCE)
def one_hot_of_a_label_too_large(folder: Path) -> None:
    drain(source().map(lambda y: y + 5, ["label"]).map(transforms.OneHot(2), ["label"]))  # here


@provokes("configuration-error", "dataset-error", modes=ONCE)
def sampler_out_of_range(folder: Path) -> None:
    drain(ds.GeneratorDataset(Samples(), ["data", "label"], sampler=[1, 2, 99]))  # here


@provokes("configuration-error", modes=ONCE)
def more_shards_than_allowed(folder: Path) -> None:
    ds.GeneratorDataset(Samples(), ["data", "label"], num_shards=2, shard_id=5)  # here


@provokes("dataset-error", modes=ONCE)
def zipped_with_the_same_names(folder: Path) -> None:
    drain(ds.zip((source(), source())))  # here


@provokes("dataset-error", modes=ONCE)
def joined_with_other_columns(folder: Path) -> None:
    drain(source() + ds.NumpySlicesDataset({"data": np.ones((2, 9), np.float32)}))  # here


@provokes("dataset-error", modes=ONCE)
def batch_function_raises(folder: Path) -> None:
    def padded(data: Any, info: Any) -> Any:
        return (np.stack(data)[:, 9],)  # here

    drain(source().batch(4, per_batch_map=padded, input_columns=["data"]))


@provokes("worker-process-died", modes=ONCE)
def worker_that_exits(folder: Path) -> None:
    def dying(x: Any) -> Any:
        os._exit(3)

    drain(source().map(dying, ["data"], num_parallel_workers=2, python_multiprocessing=True))


@provokes("dataset-error", modes=ONCE)
def values_of_objects(folder: Path) -> None:
    def bad() -> Any:
        return np.array([object()]), np.int32(0)

    drain(source(bad))


@provokes("dataset-error", modes=ONCE)
def own_exception_class(folder: Path) -> None:
    class CorruptSample(Exception):
        pass

    def bad() -> Any:
        raise CorruptSample("sample 9 is corrupt")  # here

    drain(source(bad))
