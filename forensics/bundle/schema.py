"""What a bundle holds: the contract between the recorder, which writes it, and the analyzer, which reads it.

A bundle is one HDF5 file. A section is a group at its top; a section holds any of
  * facts: one UTF-8 JSON text (strict, no NaN token), in the scalar dataset `json`;
  * tables: datasets of one length, a column each;
  * tensors: one dataset for each, in the group `tensors`; bfloat16 as its bits, in uint16.
Text is UTF-8 of fixed length, padded with NUL. Large columns are cut into chunks, shuffled and deflated; all else is
contiguous. Every dataset carries the attributes of DATASET_ATTRIBUTES. `docs/schema.md` is generated from this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FORMAT = "msforensics-bundle"
SCHEMA_VERSION = 1
# One line for each version that a released writer ever wrote.
SCHEMA_HISTORY = {1: "The first version."}

# A death while a bundle is being written leaves the stages before it whole.
Stage = Literal["evidence", "statistics", "autopsy", "weights"]
STAGES: tuple[Stage, ...] = ("evidence", "statistics", "autopsy", "weights")

TRIGGER_KINDS = (
    "nan-loss",
    "inf-loss",
    "nonfinite-gradient",
    "nonfinite-weight",
    "float-status",
    "loss-scale-collapse",
    "loss-spike",
    "exception",
    "hang",
    "signal",
    "killed",
    "manual",
)
PHASES = ("input", "forward", "loss", "backward", "optimizer", "weights")


@dataclass(frozen=True)
class Column:
    """One dataset of a table. `shape` is written with the table's own letters, e.g. "S" or "S × P"."""

    name: str
    dtype: str
    unit: str
    description: str
    shape: str = "N"


@dataclass(frozen=True)
class Section:
    """One group of the file. `tables` maps the path below the section ("" for the section itself) to its columns."""

    name: str
    stage: Stage
    description: str
    facts: str = ""
    tables: tuple[tuple[str, tuple[Column, ...]], ...] = ()
    tensors: str = ""

    def table(self, below: str = "") -> tuple[Column, ...]:
        """The columns of one table of this section. Raises KeyError when there is no such table."""
        return dict(self.tables)[below]


ROOT_ATTRIBUTES = (
    ("format", "text", f'always "{FORMAT}"'),
    ("schema_version", "int", "version of this schema"),
    ("writer", "text", "name and version of the package that wrote the file"),
    ("run", "text", "name of the run: the recorder's folder, the start time and the process"),
    ("rank", "int", "rank of the process in the job, 0 when it is alone"),
    ("world_size", "int", "number of processes in the job"),
    ("created", "text", "UTC time of writing, ISO 8601"),
    ("complete", "int", "1 when every planned section is there"),
    ("missing", "text", "JSON object: name of each planned section that is not there → why"),
)

DATASET_ATTRIBUTES = (
    ("name", "text", "name of the column, or of the tensor in the network; the link's name is made from it"),
    ("dtype", "text", "dtype of the elements, of a tensor in the training process"),
    ("shape", "text", "dimensions, comma separated; empty for a scalar"),
    ("unit", "text", '"1" for a plain number, empty for text'),
    ("description", "text", "what the column holds; empty for a tensor"),
    ("crc32", "int", "CRC-32 of the elements' bytes in C order"),
)

SCALARS = (
    Column("step", "float64", "step", "step number, from 1, cumulative over epochs"),
    Column("epoch", "float64", "epoch", "epoch number, from 1"),
    Column("time", "float64", "s", "wall clock at the end of the step, seconds since 1970 (UTC)"),
    Column("monotonic", "float64", "s", "monotonic clock at the end of the step"),
    Column(
        "loss", "float64", "1", "loss; the mean where the network returns more than one number; NaN and Inf as they are"
    ),
    Column(
        "learning_rate", "float64", "1", "learning rate that this step used; of the first group where there are several"
    ),
    Column("loss_scale", "float64", "1", "loss scale, NaN where none is used"),
    Column("overflow", "float64", "bool", "1 when the gradients overflowed, NaN where the train cell does not say"),
    Column("grad_norm", "float64", "1", "L2 norm of all gradients together, NaN where gradients are not measured"),
    Column("step_time", "float64", "s", "from the beginning to the end of the step"),
    Column("input_wait", "float64", "s", "from the end of the step before to the beginning of this one"),
    Column("host_rss", "float64", "byte", "resident memory of the process"),
    Column("device_memory", "float64", "byte", "device memory in use, NaN where the device does not report it"),
)

STATISTICS = (
    Column("name", "text", "", "name of the tensor"),
    Column("dtype", "text", "", "dtype in the training process"),
    Column("shape", "text", "", "dimensions, comma separated; empty for a scalar"),
    Column("size", "int64", "1", "number of elements"),
    Column("l2", "float64", "1", "L2 norm over the finite elements"),
    Column("mean", "float64", "1", "mean of the finite elements"),
    Column("std", "float64", "1", "standard deviation of the finite elements"),
    Column("min", "float64", "1", "smallest finite element, NaN where there is none"),
    Column("max", "float64", "1", "largest finite element, NaN where there is none"),
    Column("nan", "int64", "1", "number of NaN elements"),
    Column("pos_inf", "int64", "1", "number of +Inf elements"),
    Column("neg_inf", "int64", "1", "number of −Inf elements"),
    Column("zero", "int64", "1", "number of exact zeros"),
    Column("crc32", "int64", "", "CRC-32 of the elements' bytes, to tell equal tensors from unequal ones"),
)

HISTOGRAM = (
    Column("name", "text", "", "name of the tensor", "P"),
    Column("counts", "int64", "1", "elements with |x| in [2^(k−64), 2^(k−63)), k = 0 … 127; ends are open", "P × 128"),
    Column("special", "int64", "1", "numbers of negative, zero, positive, −Inf, +Inf and NaN elements", "P × 6"),
)

START = (
    HISTOGRAM[0],
    Column("size", "int64", "1", "number of elements of the tensor; those of a sample of them are counted", "P"),
    *HISTOGRAM[1:],
)

OPERATORS = (
    Column("index", "int64", "1", "order of execution, from 0"),
    Column("phase", "text", "", "forward, loss or backward"),
    Column("name", "text", "", "operator, e.g. Log"),
    Column("layer", "text", "", "path of the cell it ran in, e.g. blocks.0.attention"),
    Column("file", "text", "", "file of the user's own innermost frame"),
    Column("line", "int64", "1", "line in that file, 0 where unknown"),
    Column("function", "text", "", "function of that frame"),
    Column("dtype", "text", "", "dtype of the first output"),
    Column("shape", "text", "", "dimensions of the first output, comma separated"),
    Column("in_min", "float64", "1", "smallest finite input element"),
    Column("in_max", "float64", "1", "largest finite input element"),
    Column("in_bad", "int64", "1", "number of non-finite input elements"),
    Column("out_min", "float64", "1", "smallest finite output element"),
    Column("out_max", "float64", "1", "largest finite output element"),
    Column("out_nan", "int64", "1", "number of NaN output elements"),
    Column("out_pos_inf", "int64", "1", "number of +Inf output elements"),
    Column("out_neg_inf", "int64", "1", "number of −Inf output elements"),
    Column("headroom", "float64", "bit", "log2 of the dtype's largest number over the output's largest magnitude"),
)

SECTIONS: tuple[Section, ...] = (
    Section(
        "trigger",
        "evidence",
        "Why the bundle was written.",
        facts="kind, step, epoch, time (ISO 8601, UTC), message, held_back (whether the update was kept from the "
        "weights), exception_also (whether an exception accompanied a numerical trigger), state (what the process was "
        "doing, or when it was last heard of: starting, waiting-for-input, computing, evaluating, finished, failed); "
        "of a signal, goes_on (whether the process went on) and interrupt_possible (whether Ctrl-C would have come as "
        "this signal); of a crash in native code, signal",
    ),
    Section(
        "scalars",
        "evidence",
        "The ring of scalar history, oldest step first; S is the number of steps kept.",
        facts="capacity, dropped_before (first step number kept, when older ones were overwritten), user (names of "
        "the user's own columns)",
        tables=(("", SCALARS),),
    ),
    Section(
        "gradients",
        "evidence",
        "The ring of gradient norms, measured on the device before the optimizer; P is the number of parameters, F "
        "that of steps measured in full.",
        facts="source (where gradients were measured), capacity, every and full_every (steps from one with norms, and "
        "with full figures, to the next, as it was last), rebuilt (true when they were worked out from the optimizer's "
        "moments), skipped_steps (numbers of steps that overflowed and whose update the train cell skipped: their "
        "figures were taken where the gradients came out, and carry the loss scale), unseen_overflows (steps whose "
        "gradients overflowed and never came to a tap, since the train cell called its optimizer for sound steps only)",
        tables=(
            (
                "",
                (
                    Column("step", "float64", "step", "step number, as in scalars", "S"),
                    Column("parameter", "text", "", "name of the parameter", "P"),
                    Column("norm", "float32", "1", "L2 norm of the gradient; non-finite where an element is", "S × P"),
                ),
            ),
            (
                "last",
                (
                    Column("parameter", "text", "", "name of the parameter", "P"),
                    Column("largest", "float64", "1", "largest finite magnitude at the fatal step", "P"),
                    Column("nonfinite", "int64", "1", "number of non-finite elements at the fatal step", "P"),
                    Column("zero_share", "float64", "1", "share of exact zeros at the fatal step", "P"),
                ),
            ),
            (
                "full",
                (
                    Column("step", "float64", "step", "step number, as in scalars; the fatal one is the last", "F"),
                    Column("parameter", "text", "", "name of the parameter", "P"),
                    Column("norm", "float64", "1", "L2 norm of the gradient's finite elements", "F × P"),
                    Column("largest", "float64", "1", "largest finite magnitude", "F × P"),
                    Column("nonfinite", "int64", "1", "number of non-finite elements", "F × P"),
                    Column("zero_share", "float64", "1", "share of exact zeros", "F × P"),
                ),
            ),
        ),
    ),
    Section(
        "batch",
        "evidence",
        "The batch of the fatal step: statistics always, the elements when they fit the budget.",
        facts="reason where the elements are not stored, bad_samples (per column, indices of samples with NaN or Inf)",
        tables=(("statistics", STATISTICS),),
        tensors="the batch's columns, named as in the dataset",
    ),
    Section(
        "exception",
        "evidence",
        "The exception that ended the run, when one did.",
        facts="chain: list of {type, message, frames: [{file, line, function, code, own (not a library), context: "
        "[[line number, text]], locals: {name: type, shape and dtype only}}]}, outermost exception first; threads (of "
        "a hang, or of a crash in native code): list of {name, frames}, innermost frame last; analyze_fail: the end of "
        "the file that a failed compilation left, {file, size, text}; callback: {class, hook} of the callback that "
        "raised; asynchronous (whether operators ran asynchronously, so that an error may name a later line than the "
        "one at fault); stands (of a hang): {thread, file, line, function, code, context}, the user's own frame to "
        "look at. An exception of the chain may have inner: {file, line, function, code, context}, the user's "
        "innermost frame in a traceback that is part of its message",
    ),
    Section(
        "environment",
        "evidence",
        "Where the run ran. Secrets are removed; what was removed is counted by class under `redacted`.",
        facts="versions, mindspore (context and parallel settings), device, cpu, memory, variables, command, git, "
        "packages, seeds, source (what an exception's text names: file, line, function, code, context), redacted",
    ),
    Section(
        "model",
        "evidence",
        "The network and its optimizer.",
        facts="class, loss, optimizer (class, hyper-parameters), cells (list of {path, class}), parameters, "
        "trainable_parameters, elements, train_cell, amp_level",
        tables=(
            (
                "parameters",
                (
                    Column("name", "text", "", "name of the parameter"),
                    Column("shape", "text", "", "dimensions, comma separated"),
                    Column("dtype", "text", "", "dtype"),
                    Column("trainable", "int64", "bool", "1 when the optimizer may change it"),
                ),
            ),
        ),
    ),
    Section(
        "dataset",
        "evidence",
        "The input pipeline, as far as it can be asked without running it.",
        facts="class, batch_size, batches_per_epoch, columns, repeat, shuffled, sampler (class of the source's), "
        "sink_mode, sink_size, epochs",
    ),
    Section(
        "random_state",
        "evidence",
        "The states of the global random generators (MindSpore's, NumPy's, Python's) when training began, and when "
        "the bundle was written.",
        facts="begin and now: of each generator (mindspore, numpy, python) its numbers, e.g. bit_generator, pos, gauss",
        tensors="begin/… and now/…: mindspore (as get_rng_state gives it), numpy (the key), python (its 625 words)",
    ),
    Section(
        "start",
        "evidence",
        "The weights when training began, to be held against those of the statistics stage: histograms of a sample, "
        "taken at even distances from each parameter.",
        facts="step (number of steps done before), parameters and of_parameters (how many are here, and how many there "
        "were), elements and of_elements (how many were counted, and how many there were), share (of them), seconds "
        "(what it took)",
        tables=(("weights", START),),
    ),
    Section(
        "events",
        "evidence",
        "What happened besides steps, oldest first.",
        tables=(
            (
                "",
                (
                    Column("time", "float64", "s", "wall clock, seconds since 1970 (UTC)"),
                    Column("step", "int64", "step", "step number"),
                    Column("kind", "text", "", "start, end, trip, skip, learning-rate, evaluation, recorder-failure …"),
                    Column("message", "text", "", "what happened"),
                ),
            ),
        ),
    ),
    Section(
        "recorder",
        "evidence",
        "The recorder's own cost and its own failures.",
        facts="options, overhead (ns per step: mean, p99; share of step time; bytes held), failures, gradients "
        "(where they are measured, or why not), mode; recovered (of a bundle made afterwards: ring, time, state, "
        "records); slimmed (of a copy for a ticket: what went, how large the bundle was, its verdict)",
    ),
    Section(
        "statistics",
        "statistics",
        "A line of figures for every tensor of the network and of the optimizer's state.",
        tables=(("weights", STATISTICS), ("optimizer_state", STATISTICS)),
    ),
    Section(
        "histograms",
        "statistics",
        "Histograms of log-magnitude, on fixed bins of one power of two.",
        tables=(("weights", HISTOGRAM), ("optimizer_state", HISTOGRAM)),
    ),
    Section(
        "autopsy",
        "autopsy",
        "The fatal step, run once more in PyNative mode under watch, after the evidence above was safe on disk.",
        facts="method, reproduced, seconds, operators_seen, origin {phase, layer, op, operator, source, inputs, "
        "outputs, chain, float32 (what the same step gives in float32), row}, loss, reason where it could not be done",
        tables=(
            ("operators", OPERATORS),
            ("gradients", STATISTICS),
            ("gradient_histograms", HISTOGRAM),
            ("activations", HISTOGRAM),
        ),
    ),
    Section(
        "weights",
        "weights",
        "The network's parameters, from before the fatal update where it was held back.",
        facts="stored, left_out (names without a tensor, most suspicious stored first), budget (byte)",
        tensors="parameters by name",
    ),
    Section(
        "optimizer_state",
        "weights",
        "The optimizer's own parameters: moments, counters, learning rate.",
        facts="stored, left_out, budget (byte)",
        tensors="state by name",
    ),
)


def section(name: str) -> Section:
    """One section by name. Raises KeyError."""
    return _BY_NAME[name]


_BY_NAME = {item.name: item for item in SECTIONS}
