"""Limits of the user's own: from the command line, from a file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.analysis import limits
from forensics.analysis.engine import analyze
from forensics.analysis.registry import all_rules
from forensics.analysis.rule import score
from forensics.errors import LimitRefused

FIXTURE = Path(__file__).parents[3] / "fixtures" / "v1" / "healthy.h5"


@pytest.mark.parametrize(
    ("text", "expected"), [("loss-spike.rise=2", ("loss-spike.rise", 2.0)), ("a.b = 1e-3", ("a.b", 1e-3))]
)
def test_one_of_a_command_line(text: str, expected: tuple[str, float]) -> None:
    assert limits.parse(text) == expected


@pytest.mark.parametrize("text", ["loss-spike.rise", "a.b=", "a.b=x", "a.b=nan", "a.b=inf", "=", ""])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(LimitRefused, match=r"RULE\.LIMIT=VALUE"):
        limits.parse(text)


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("[loss-spike]\ndeviations = 20\nrise = 1.5\n\n[divergence]\nratio = 3\n", "utf-8")
    assert limits.read(file) == {"loss-spike.deviations": 20.0, "loss-spike.rise": 1.5, "divergence.ratio": 3.0}
    told = analyze(FIXTURE, limits=limits.read(file)).limits
    assert [item.name for item in told] == ["divergence.ratio", "loss-spike.deviations", "loss-spike.rise"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[loss-spike]\ndeviations = 'many'\n", r"\[loss-spike\] deviations must be a number, not 'many'"),
        (b"[loss-spike]\ndeviations = true\n", "must be a number, not True"),
        (b"[loss-spike]\ndeviations = nan\n", "must be a number, not nan"),
        (b"[loss-spike]\ndeviations = [1]\n", r"must be a number, not \[1\]"),
        (b"deviations = 20\n", r"deviations stands outside of a \[rule\]"),
        (b"[loss-spike\n", "is no TOML"),
        (b"a = " + b"[" * 100_000, "is no TOML"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"#" * 2**21, "too large"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "limits.toml"
    file.write_bytes(content)
    with pytest.raises(LimitRefused, match=said) as caught:
        limits.read(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert str(caught.value).isprintable()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LimitRefused, match="cannot be read: No such file"):
        limits.read(tmp_path / "none.toml")
    with pytest.raises(LimitRefused, match="cannot be read"):
        limits.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("loss-spikes.rise", 1.0, "did you mean loss-spike or loss-plateau?"),
        ("qqqq.rise", 1.0, "msforensics rules lists them"),
        ("loss-spike.risk", 1.0, "there are: loss-spike.deviations, loss-spike.rise"),
        ("loss-spike", 1.0, "there are: loss-spike.deviations"),
        ("loss-spike.rise", 0.0, "must be above 0"),
        ("loss-spike.rise", -1.0, "must be above 0"),
    ],
)
def test_what_no_rule_has(name: str, value: float, said: str) -> None:
    with pytest.raises(LimitRefused) as caught:
        limits.thresholds(all_rules(), {name: value})
    assert said in str(caught.value)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_limit_of_every_rule_can_be_set(rule: object) -> None:
    """Half and double: the note limit moves along, and the score still goes from 25 to 75."""
    for name, limit in rule.limits.items():  # type: ignore[attr-defined]
        for factor in (0.5, 2.0):
            full = f"{rule.id}.{name}"  # type: ignore[attr-defined]
            own = limits.thresholds([rule], {full: limit.warning * factor})  # type: ignore[list-item]
            found = own[rule.id][name]  # type: ignore[attr-defined]
            assert found.info == pytest.approx(limit.info * factor)
            assert score(found.warning, found) == pytest.approx(75)
            if found.info:
                assert score(found.info, found) == pytest.approx(25, abs=1e-6)
            assert analyze(FIXTURE, limits={full: found.warning}, rules=[rule]).failed == ()  # type: ignore[list-item]
