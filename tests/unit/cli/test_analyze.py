from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forensics.analysis import engine
from forensics.bundle import strict_json
from forensics.bundle.content import Part
from forensics.cli import main
from tests import remains
from tests.unit.report import samples


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)], prog_name="msforensics")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "rank_0" / "step-1042.h5", samples.content(climbs=False))


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    table = {name: values[:200] for name, values in samples.scalars().items()}
    parts = {"trigger": Part({"kind": "manual", "step": 842}), "scalars": Part({}, {"": table})}
    return samples.write(tmp_path / "healthy.h5", parts)


def test_html_goes_beside_the_bundle_and_its_path_after_the_verdict(bundle: Path) -> None:
    result = run(bundle)
    report = bundle.with_suffix(".html")
    assert result.exit_code == 0
    assert "Log" in result.stdout
    assert "What to do" in result.stdout
    assert result.stdout.splitlines()[-1] == str(report)
    page = report.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "train.py:30" in page
    assert page.count("<svg") > 5


def test_the_same_bundle_gives_the_same_report_in_another_process(bundle: Path) -> None:
    run(bundle)
    first = bundle.with_suffix(".html").read_bytes()
    command = [sys.executable, "-m", "forensics.cli", "analyze", str(bundle)]
    again = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert bundle.with_suffix(".html").read_bytes() == first
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["step-1042.h5", "step-1042.html"]


def test_a_foreign_file_of_that_name_is_left_alone(bundle: Path) -> None:
    mine = bundle.with_suffix(".html")
    mine.write_text("my own notes")
    result = run(bundle)
    assert result.exit_code == 0
    assert mine.read_text() == "my own notes"
    assert result.stdout.splitlines()[-1] == str(bundle.with_name("step-1042.1.html"))


@pytest.mark.parametrize("kind", ["json", "markdown", "text"])
def test_other_formats_go_to_stdout_and_write_nothing(bundle: Path, kind: str) -> None:
    result = run(bundle, "--format", kind)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "fp16-underflow" in result.stdout
    assert [path.name for path in bundle.parent.iterdir()] == ["step-1042.h5"]


def test_json_is_the_contracts(bundle: Path) -> None:
    found = json.loads(run(bundle, "--format", "json").stdout)
    assert found["format"] == "msforensics-diagnosis"
    assert found["bundle"]["trigger"]["step"] == samples.FATAL
    assert found["origin"]["source"]["line"] == 30


@pytest.mark.parametrize("kind", ["html", "json", "markdown", "text"])
def test_o_names_the_report_which_may_be_written_again(bundle: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "report.out"
    first, second = run(bundle, "-o", target, "--format", kind), run(bundle, "-o", target, "--format", kind)
    assert (first.exit_code, second.exit_code) == (0, 0), second.stderr
    assert str(target) in first.output
    assert target.stat().st_size > 500
    assert {path.name for path in tmp_path.iterdir()} == {"rank_0", "report.out"}


@pytest.mark.parametrize("kind", ["html", "json", "markdown", "text"])
def test_o_does_not_touch_what_is_not_ours(bundle: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "thesis.tex"
    target.write_text("years of work")
    result = run(bundle, "-o", target, "--format", kind)
    assert result.exit_code == 1
    assert "is no earlier report of this bundle" in result.stderr
    assert target.read_text() == "years of work"


def test_o_does_not_overwrite_the_bundle_itself(bundle: Path) -> None:
    before = bundle.read_bytes()
    assert run(bundle, "-o", bundle).exit_code == 1
    assert bundle.read_bytes() == before


def test_o_takes_a_folder(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    assert run(bundle, "-o", folder).stdout.splitlines()[-1] == str(folder / "step-1042.html")
    run(bundle, "-o", folder, "--format", "json")
    assert sorted(path.name for path in folder.iterdir()) == ["step-1042.html", "step-1042.json"]


def test_a_dash_is_stdout(bundle: Path) -> None:
    result = run(bundle, "-o", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.rstrip().endswith("</html>")
    assert not bundle.with_suffix(".html").exists()


def test_a_folder_is_a_job(bundle: Path) -> None:
    for folder in (bundle.parent, bundle.parent.parent):
        found = json.loads(run(folder, "--format", "json").stdout)
        assert found["bundle"]["path"] == str(bundle)
        assert len(found["ranks"]) == 1
    assert run(bundle.parent.parent).stdout.splitlines()[-1] == str(bundle.with_suffix(".html"))


def test_a_job_names_the_ranks(bundle: Path, tmp_path: Path) -> None:
    header = replace(samples.HEADER, rank=1, world_size=3)
    parts = {"trigger": Part({"kind": "manual", "step": samples.FATAL})}
    samples.write(tmp_path / "rank_1" / "b.h5", parts, header)
    assert run(tmp_path).exit_code == 0
    page = bundle.with_suffix(".html").read_text("utf-8")
    assert "The ranks of the job" in page
    assert "no bundle" in page


def test_a_rank_that_was_recovered_without_a_file_is_reported_beside_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0"
    folder.mkdir()
    remains.leave(folder, steps=30, loss=2.0)
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "killed" in result.stdout
    assert result.stdout.splitlines()[-1] == str(tmp_path / "report.html")
    # The bundle is in memory only, and the page is drawn from it all the same.
    assert "<svg" in (tmp_path / "report.html").read_text("utf-8")


def test_several_paths_one_of_them_bad(bundle: Path, healthy: Path, tmp_path: Path) -> None:
    result = run(bundle, tmp_path / "none.h5", healthy)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "none.h5: no such file" in result.stderr
    assert bundle.with_suffix(".html").exists()
    assert healthy.with_suffix(".html").exists()


def test_several_paths_and_one_file_is_wrong_usage(bundle: Path, healthy: Path, tmp_path: Path) -> None:
    result = run(bundle, healthy, "-o", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "-o takes a folder" in result.stderr
    assert run(bundle, healthy, "-o", "-", "--format", "json").stdout.count('"msforensics-diagnosis"') == 2


@pytest.mark.parametrize(("severity", "code"), [("info", 3), ("warning", 3), ("critical", 3)])
def test_fail_on_is_reached_by_a_grave_finding(bundle: Path, severity: str, code: int) -> None:
    assert run(bundle, "--format", "json", "--fail-on", severity).exit_code == code


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_fail_on_is_not_reached_by_a_healthy_run(healthy: Path, severity: str) -> None:
    result = run(healthy, "--format", "json", "--fail-on", severity)
    assert json.loads(result.stdout)["verdict"]["cause"] == "healthy"
    assert result.exit_code == 0


def test_a_bad_path_outweighs_fail_on(bundle: Path, tmp_path: Path) -> None:
    assert run(bundle, tmp_path / "none.h5", "--format", "json", "--fail-on", "info").exit_code == 1


@pytest.fixture(autouse=True)
def locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests expect English, whatever the machine speaks."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_the_report_is_chinese_when_asked_for(bundle: Path) -> None:
    result = run(bundle, "--lang", "zh")
    assert result.exit_code == 0
    assert "怎么办" in result.stdout
    assert '<html lang="zh">' in bundle.with_suffix(".html").read_text("utf-8")


def test_the_report_speaks_the_language_of_the_locale(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "怎么办" in run(bundle, "--format", "text").stdout
    assert "What to do" in run(bundle, "--format", "text", "--lang", "en").stdout


def test_json_is_english_in_every_language(bundle: Path) -> None:
    assert run(bundle, "--format", "json", "--lang", "zh").stdout == run(bundle, "--format", "json").stdout


@pytest.mark.parametrize("limit", ["nonsense", "a.b=x", "a.b=nan", "a.b=inf"])
def test_a_limit_of_the_wrong_form_is_wrong_usage(bundle: Path, limit: str) -> None:
    result = run(bundle, "--limit", limit)
    assert result.exit_code == 2
    assert "RULE.LIMIT=VALUE" in result.stderr


def test_a_limit_reaches_the_rules(healthy: Path) -> None:
    found = json.loads(run(healthy, "--format", "json", "--limit", "healthy.steps=100000").stdout)
    assert found["verdict"]["cause"] == "insufficient-data"
    assert run(healthy, "--limit", "no-rule.steps=3").exit_code == 2


def test_hostile_content_is_analyzed_without_a_word_on_stderr(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "hostile.h5", samples.hostile_content())
    result = run(path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    page = path.with_suffix(".html").read_text("utf-8")
    assert page.count("<script") == 1
    assert len(page) < 2_000_000


def test_a_fault_while_judging_closes_the_bundle(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(engine, "diagnose", broken)
    result = run(bundle)
    assert result.exit_code == 1
    assert result.stderr == "msforensics: RuntimeError: inside (unexpected; --debug shows where it happened)\n"


class TestSeveralPaths:
    def test_json_is_one_array_in_the_order_of_the_paths(self, bundle: Path, healthy: Path) -> None:
        result = run(healthy, bundle, "--format", "json")
        found = strict_json.loads(result.stdout)
        assert [item["bundle"]["path"] for item in found] == [str(healthy), str(bundle)]
        assert found[1] == strict_json.loads(run(bundle, "--format", "json").stdout)
        assert strict_json.loads(run(healthy, bundle, "--format", "json", "-o", "-").stdout) == found

    def test_what_cannot_be_read_is_left_out_of_the_array(self, bundle: Path, tmp_path: Path) -> None:
        result = run(tmp_path / "no.h5", bundle, "--format", "json")
        assert [item["bundle"]["path"] for item in strict_json.loads(result.stdout)] == [str(bundle)]
        assert result.exit_code == 1
        assert "no.h5: no such file" in result.stderr
        assert strict_json.loads(run(tmp_path / "a", tmp_path / "b", "--format", "json").stdout) == []

    @pytest.mark.parametrize(("kind", "head"), [("markdown", "# {}"), ("text", "{}"), ("html", "{}")])
    def test_each_of_several_reports_has_a_heading(self, bundle: Path, healthy: Path, kind: str, head: str) -> None:
        lines = run(healthy, bundle, "--format", kind).stdout.splitlines()
        assert lines.index(head.format(healthy)) < lines.index(head.format(bundle))
        assert head.format(bundle) not in run(bundle, "--format", kind).stdout.splitlines()

    def test_o_is_a_folder_that_is_there(self, bundle: Path, healthy: Path, tmp_path: Path) -> None:
        folder = tmp_path / "reports"
        refused = run(healthy, bundle, "-o", folder)
        assert refused.exit_code == 2
        assert "-o takes a folder" in refused.output
        folder.mkdir()
        run(healthy, bundle, "-o", folder, "--format", "json")
        assert sorted(path.name for path in folder.iterdir()) == ["healthy.json", "step-1042.json"]

    def test_two_pages_do_not_go_into_one_stream(self, bundle: Path, healthy: Path) -> None:
        assert run(healthy, bundle, "-o", "-").exit_code == 2

    def test_the_gravest_decides(self, bundle: Path, healthy: Path) -> None:
        assert run(bundle, healthy, "--format", "json", "--fail-on", "critical").exit_code == 3

    def test_a_folder_of_several_jobs_is_one_line_and_1(self, bundle: Path, healthy: Path, tmp_path: Path) -> None:
        for job in ("a", "b"):
            (tmp_path / "runs" / job / "rank_0").mkdir(parents=True)
            (tmp_path / "runs" / job / "rank_0" / "x.h5").write_bytes(bundle.read_bytes())
        result = run(tmp_path / "runs")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "it holds 2 jobs" in result.stderr
        assert len(result.stderr.splitlines()) == 1
