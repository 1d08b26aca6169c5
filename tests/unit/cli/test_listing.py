"""inspect, verify and rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Outcome, Quiet
from forensics.analysis.registry import all_rules
from forensics.analysis.rule import Limit, Rule
from forensics.bundle.content import Part
from forensics.bundle.tensors import from_numpy
from forensics.cli import main
from forensics.cli.rules import explained
from tests.unit.report import samples


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="msforensics")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    tensors = {name: from_numpy(name, np.zeros((3, 4), np.float16)) for name in samples.PARAMETERS}
    parts = {**samples.content(), "weights": Part({"stored": 26}, {}, tensors)}
    return samples.write(tmp_path / "b.h5", parts, planned=(*parts, "optimizer_state"))


def test_inspect_lists_header_sections_tables_tensors_and_facts(bundle: Path) -> None:
    result = run("inspect", bundle)
    assert (result.exit_code, result.stderr) == (0, "")
    for text in (
        "run       exp42-20260101-000000-4711",
        "rank      0 of 1",
        "written   2026-01-01T00:17:42Z by msforensics 0.1.0",
        '  kind: "nan-loss"',
        "  table scalars: 400 rows; step, epoch",
        "  table operators: 11 rows",
        "  tensors: 26",
        "    backbone.layers.0.attention.qkv.weight: float16, 3 × 4, 24 B",
        "    and 6 more (--all lists them)",
        "complete  no",
        "  missing optimizer_state: the recorder did not get that far",
    ):
        assert text in result.stdout


def test_inspect_judges_nothing(bundle: Path) -> None:
    assert "log-of-nonpositive" not in run("inspect", bundle).stdout


def test_inspect_all_cuts_nothing(bundle: Path) -> None:
    short, full = run("inspect", bundle).stdout, run("inspect", bundle, "--all").stdout
    assert "head.bias" not in short.split("weights\n")[-1]
    assert "head.bias: float16" in full
    assert "more (--all" not in full
    assert '"package-59": "59.0"' in full
    assert '"package-59": "59.0"' not in short


def test_inspect_says_what_is_damaged(bundle: Path) -> None:
    with h5py.File(bundle, "r+") as file:
        file["autopsy/json"].attrs["crc32"] = np.uint32(1)
        del file["weights/tensors/head.bias"].attrs["dtype"]
    result = run("inspect", bundle, "--all")
    assert result.exit_code == 0
    assert "damaged autopsy: " in result.stdout
    assert "head.bias: " in result.stdout
    assert "the attribute dtype is missing" in result.stdout


def test_inspect_lets_no_escape_through(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "b.h5", samples.hostile_content())
    for arguments in ([path], [path, "--all"]):
        shown = run("inspect", *arguments).stdout
        assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_inspect_cuts_a_table_of_many_columns(tmp_path: Path) -> None:
    table = {"step": [1.0], **{f"own{number:03}": [0.0] for number in range(60)}}
    path = samples.write(tmp_path / "b.h5", {"scalars": Part({}, {"": table})})
    assert "and 41 more" in run("inspect", path).stdout


def test_verify_finds_a_sound_bundle_sound(bundle: Path) -> None:
    result = run("verify", bundle)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("datasets, all sound")
    assert "missing optimizer_state" in result.stdout


@pytest.mark.parametrize("name", ["/scalars/loss", "/weights/tensors/head.bias", "/trigger/json"])
def test_verify_names_the_dataset_that_changed(bundle: Path, name: str) -> None:
    with h5py.File(bundle, "r+") as file:
        dataset = file[name]
        if dataset.shape:
            dataset[0] = 77.0
        else:
            dataset[()] = b'{"kind": "manual"}'
    result = run("verify", bundle)
    assert result.exit_code == 1
    assert f"{name}: " in result.stdout
    assert "checksum" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("1 of ")


def test_rules_lists_every_rule() -> None:
    result = run("rules")
    assert result.exit_code == 0
    for rule in all_rules():
        assert rule.id in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_can_be_explained(rule: object) -> None:
    name = rule.id  # type: ignore[attr-defined]
    shown = run("rules", name).stdout
    assert shown.startswith(f"{name}\n\n")
    for title in ("Symptom\n", "Why\n", "What to do\n"):
        assert title in shown
    for limit in rule.limits:  # type: ignore[attr-defined]
        assert f"Limit {limit}\n" in shown


class Plain(Rule):
    """Says nothing.

    Symptom: none.
    """

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        return Quiet(None, None)


def test_a_rule_that_needs_nothing_says_no_more_than_its_page() -> None:
    shown = explained(Plain())
    assert "Says nothing." in shown
    assert "Symptom\n  none." in shown
    assert "Needs" not in shown
    assert "May name" not in shown
