from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner, Result

from forensics.cli import main
from tests.unit.report import samples


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)])


def test_a_figure_goes_into_a_file_and_over_an_earlier_one_of_the_same_bundle(tmp_path: Path) -> None:
    bundle, target = samples.write(tmp_path / "b.h5"), tmp_path / "loss.svg"
    for _ in range(2):
        result = run(bundle, "--figure", "last-steps", "-o", target)
        assert result.exit_code == 0, result.output
    assert ElementTree.parse(target).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    other = samples.write(tmp_path / "c.h5", {**samples.content(), "trigger": samples.content(climbs=False)["events"]})
    assert run(other, "--figure", "last-steps", "-o", target).exit_code == 1
    assert "no earlier report" in run(other, "--figure", "last-steps", "-o", target).output


def test_a_figure_goes_to_stdout(tmp_path: Path) -> None:
    result = run(samples.write(tmp_path / "b.h5"), "--figure", "gradients")
    assert result.exit_code == 0
    assert result.stdout.startswith("<svg ")
    assert "Gradient norms of 40 parameters" in result.stdout or "parameters from step" in result.stdout


def test_a_figure_that_is_none_is_an_error_of_one_line(tmp_path: Path) -> None:
    bundle = samples.write(tmp_path / "b.h5")
    for name, says in (("loss", "there is no figure 'loss' (there are: last-steps"), ("ranks", "nothing to draw")):
        result = run(bundle, "--figure", name)
        assert result.exit_code == 2 or result.exit_code == 1
        assert says in result.output
        assert len(result.output.splitlines()) == 1
