"""One exception of a bundle, with what its frames, its text and the settings of the run say about it together."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from forensics.analysis import frames
from forensics.analysis.evidence import Case, mapping, mappings, rows
from forensics.analysis.finding import Phase, Source
from forensics.analysis.framework_text import is_compilation, is_native, is_operator, is_pipeline
from forensics.analysis.message import Message, t
from forensics.analysis.mishaps import mishap
from forensics.analysis.refusals import refusal, shape, wrong_kind_of_input

MAX_VARIABLES = 6
MAX_WEIGHTS = 3
_INPUT = ("dataset-error", "worker-process-died", "numpy-incompatibility")
_SHAPED = re.compile(r"[\[(][\d, ]*[\])]$")
_DENSE = "/nn/layer/basic.py"
_INNER_SIZES = "{op} cannot multiply {left} columns by {right} rows"
_RUNS_GRAPHS = re.compile(r"[\\/](?:nn[\\/]cell|graph[\\/]api|common[\\/]api|train[\\/]model)\.py$")
# Parts of the framework that a step passes in one phase only, by their files.
_PLACES: tuple[tuple[str, Phase], ...] = (
    ("/nn/optim/", "optimizer"),
    ("/experimental/optim/", "optimizer"),
    ("/mint/optim/", "optimizer"),
    ("/nn/loss/", "loss"),
    ("/nn/layer/", "forward"),
)


class Raised:
    """An exception and its circumstances.

    Attributes:
        exception: its facts.
        source: the user's own innermost line in the whole chain; None where nothing tells.
        step: the step at which it was noticed.
    """

    def __init__(self, case: Case, exception: dict[str, Any]) -> None:
        self.exception = exception
        self.source: Source | None = frames.own_source(case)
        self.step = case.fatal_step
        self._case = case
        self._text = frames.message_of(exception)

    @cached_property
    def late(self) -> bool:
        """Whether the line may be one after the operator's: in PyNative mode, an operator raised it later."""
        if not is_operator(self._text) or is_compilation(self._text):
            return False
        settings = self._case.framework
        if settings.get("pynative_synchronize") is True or settings.get("launch_blocking") is True:
            return False
        told = self._case.bundle.facts("exception").get("asynchronous")
        return told if isinstance(told, bool) else _is_pynative(settings.get("mode"))

    @property
    def of_a_graph(self) -> bool:
        """Whether the line is where a compiled graph was called, since native code raised it and quotes no line."""
        if self.late or not is_native(self._text) or is_pipeline(self._text):
            return False
        if frames.quoted_source(self.exception) is not None:
            return False
        ran = any(_RUNS_GRAPHS.search(file) for file in frames.files_of(self.exception))
        return ran and self._case.framework.get("mode") in ("graph", 0)

    @property
    def only_asked_for(self) -> bool:
        """Whether the line is where a batch was asked for, since the data engine does not quote the program."""
        return is_pipeline(self._text) and frames.quoted_source(self.exception) is None

    @cached_property
    def sentence(self) -> Message | None:
        """What is wrong, in words of our own; None when the text is not of a known kind."""
        found = refusal(self._text)
        if found is not None:
            return self._by_layer(found)
        inner = frames.quoted_source(self.exception)
        found = mishap(frames.type_of(self.exception), self._text, inner.function if inner else "")
        return None if found is None else self._by_column(found)

    def _by_column(self, found: Message) -> Message:
        """A column by its name, where the data set's names are known."""
        names = self._case.bundle.facts("dataset").get("columns")
        number = str(found.values.get("column", ""))
        if not number.isdigit() or not isinstance(names, list) or len(names) <= int(number[:4]):
            return found
        return Message(found.template, {**found.values, "column": str(names[int(number[:4])])[:100]})

    @property
    def while_fetching(self) -> Message | None:
        """Between which steps the data engine raised it, where the recorder knows."""
        step = self.step
        if not is_pipeline(self._text) or step is None or self._case.trigger.get("state") != "waiting-for-input":
            return None
        return t(
            "Step {step} was complete and the next batch was asked for; the pipeline reads ahead, so that the sample "
            "at fault may belong to a later one.",
            step=step,
        )

    def _by_layer(self, found: Message) -> Message:
        """A product inside nn.Dense is the layer's: its sizes are the layer's features. Not where the line is late."""
        if found.template != _INNER_SIZES or self.late:
            return found
        layers = [file for file in frames.files_of(self.exception) if "/nn/layer/" in file]
        if not layers or not layers[-1].endswith(_DENSE):
            return found
        got, wanted = found.values["left"], found.values["right"]
        return t("{op} received {got} features and expects {wanted}", op="Dense", got=got, wanted=wanted)

    def phase(self, cause: str) -> Phase | None:
        """The part of the step that raised it; None where nothing tells."""
        if cause in _INPUT or is_pipeline(self._text):
            return "input"
        if self.callback is not None:
            return None
        files = "\n".join(self._constructs()).replace("\\", "/")
        found = next((phase for part, phase in _PLACES if part in files), None)
        if found is None and self.source is not None and self.source.function == "construct":
            return "forward"
        return found

    def _constructs(self) -> list[str]:
        """The files whose `construct` it passed: what else of them ran, such as __init__, is no part of a step."""
        ran = mappings(self.exception.get("frames"))
        entered = [str(frame.get("file"))[:1000] for frame in ran if frame.get("function") == "construct"]
        return entered + frames.files_of({**self.exception, "frames": []})

    @cached_property
    def callback(self) -> Message | None:
        """Which of the user's callbacks raised it, where the recorder saw one do so."""
        facts = mapping(self._case.bundle.facts("exception").get("callback"))
        name, hook = facts.get("class"), facts.get("hook")
        if not isinstance(name, str) or not name:
            return None
        name = name.rsplit(".", 1)[-1][:100]
        if isinstance(hook, str) and hook:
            return t("The callback {name} raised it, in {hook}.", name=name, hook=hook[:100])
        return t("The callback {name} raised it.", name=name)

    @property
    def wrong_kind_of_input(self) -> bool:
        """Whether an operator has no kernel since an input is of another kind than it takes there."""
        return wrong_kind_of_input(self._text)

    @property
    def index_is_the_step(self) -> bool:
        """Whether an index was refused that is one past the end and counts the steps, from 0."""
        found, step = refusal(self._text), self._case.fatal_step
        if found is None or step is None or found.values.get("low") != "0" or "index" not in found.values:
            return False
        past = str(found.values["index"])
        # The step that is under way, or the last one that was complete.
        return past in (str(step), str(step - 1)) and past == str(int(str(found.values["high"])) + 1)

    @property
    def learning_rates_are_a_list(self) -> bool:
        """Whether the optimizer takes its learning rates from a list."""
        optimizer = mapping(self._case.bundle.facts("model").get("optimizer"))
        return optimizer.get("learning_rate_schedule") == "_IteratorLearningRate"

    @property
    def variables(self) -> list[str]:
        """The tensors and arrays at the user's own innermost frame, as "x: Tensor float32 [32, 10]"."""
        local = mapping(frames.own_frame(self.exception).get("locals"))
        found = [f"{name[:60]}: {kind[:100]}" for name, kind in local.items() if isinstance(kind, str)]
        return [text for text in found if _SHAPED.search(text)][:MAX_VARIABLES]

    @property
    def weights(self) -> list[str]:
        """The matrices of the network with the size that a product wants, as "head.weight (10, 512)"."""
        found = refusal(self._text)
        if found is None or found.template != _INNER_SIZES:
            return []
        wanted = str(found.values["right"])
        table = self._case.bundle.table("model", "parameters")
        sizes = [(str(row.get("name")), str(row.get("shape")).replace(" ", "").split(",")) for row in rows(table)]
        fitting = [(name, size) for name, size in sizes if len(size) == 2 and wanted in size]
        return [f"{name[:100]} {shape(','.join(size))}" for name, size in fitting[:MAX_WEIGHTS]]


def _is_pynative(mode: Any) -> bool:
    if isinstance(mode, str):
        return "pynative" in mode.lower()
    return mode == 1 and mode is not True
