"""No content of a bundle may make a rule raise, or the diagnosis leave its schema."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.analysis.engine import diagnose
from forensics.bundle import schema
from forensics.bundle.content import Header, Part
from forensics.bundle.reader import in_memory
from tests.builders import check_json

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(["nan", "inf", "-inf", 0, 1, -1, 1e308, 5e-324]),
)
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["Log", "Div", "Softmax", "float16", "int32", "forward", "backward", "Momentum", "{x}", "x" * 5000]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
# Keys that rules look for, so that junk gets past the first check.
KEYS = {
    "trigger": "kind step epoch time message held_back exception_also",
    "scalars": "capacity dropped_before user",
    "gradients": "source capacity",
    "batch": "reason bad_samples",
    "exception": "chain",
    "environment": "versions mindspore device memory variables seeds packages log_tail redacted",
    "model": "class loss optimizer cells parameters amp_level train_cell",
    "dataset": "class batch_size batches_per_epoch columns sink_mode",
    "recorder": "options overhead failures gradients mode",
    "autopsy": "method reproduced origin chain loss reason",
}
ORIGIN = "phase kind layer op row source inputs outputs scalars masked_rows float32"
OPERAND = "dtype shape size min max nan pos_inf neg_inf zero negative producer producer_op"


def record(names: str, value: st.SearchStrategy[Any] = JUNK) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names.split(), value))


OPERANDS = st.lists(record(OPERAND, SCALARS), max_size=3)
LIKELY_ORIGIN = st.fixed_dictionaries(
    {"op": WORDS, "phase": st.sampled_from(schema.PHASES)},
    optional={name: JUNK for name in ORIGIN.split() if name not in ("op", "phase", "inputs", "outputs")}
    | {"inputs": OPERANDS, "outputs": OPERANDS},
)
FRAME = record("file line function code own", SCALARS)
CHAIN = st.lists(
    st.one_of(JUNK, record("type message"), st.builds(lambda f: {"type": "E", "frames": f}, st.lists(FRAME))),
    max_size=3,
)


@st.composite
def tables(draw: st.DrawFn, section: schema.Section) -> dict[str, Any]:
    """Tables as a reader lets them through: columns of the right kind and of one length, some of them missing."""
    found: dict[str, Any] = {}
    sizes = {letter: draw(st.integers(0, 5)) for letter in "NSPF"}
    for below, columns in section.tables:
        if not draw(st.booleans()):
            continue
        table: dict[str, Any] = {}
        for column in columns:
            if draw(st.integers(0, 9)) == 0:
                continue
            shape = [int(part) if part.isdigit() else sizes[part] for part in column.shape.split(" × ")]
            count = int(np.prod(shape))
            if column.dtype == "text":
                table[column.name] = np.array(draw(st.lists(WORDS, min_size=count, max_size=count)), dtype=np.str_)
                continue
            if column.dtype == "int64":
                cell: Any = st.integers(-(2**62), 2**62)
            else:
                cell = st.floats(width=32) if column.dtype == "float32" else st.floats()
            table[column.name] = np.array(
                draw(st.lists(cell, min_size=count, max_size=count)), dtype=column.dtype
            ).reshape(shape)
        found[below] = table
    return found


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Part]:
    content: dict[str, Part] = {}
    for section in schema.SECTIONS:
        if draw(st.integers(0, 3)) == 0:
            continue
        facts = draw(record(KEYS.get(section.name, "stored")))
        if section.name == "autopsy" and draw(st.booleans()):
            facts["origin"] = draw(LIKELY_ORIGIN)
        if section.name == "exception":
            facts["chain"] = draw(CHAIN)
        if section.name == "trigger" and draw(st.booleans()):
            facts["kind"] = draw(st.sampled_from(schema.TRIGGER_KINDS))
        content[section.name] = Part(facts, draw(tables(section)))
    return content


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(contents())
def test_no_rule_raises_and_the_json_keeps_its_schema(content: dict[str, Part]) -> None:
    diagnosis = diagnose(in_memory(content, Header(created="2026-01-01T00:00:00Z")))
    assert diagnosis.failed == ()
    check_json(diagnosis)
