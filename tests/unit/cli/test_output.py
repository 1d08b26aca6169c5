from __future__ import annotations

import os
from pathlib import Path

import pytest

from forensics.cli import output
from forensics.errors import OutputNotWritten
from forensics.report import json as json_report
from forensics.report.view import identity
from tests.remains import dead
from tests.unit.report import samples

ID = "0123456789abcdef"
OURS = f"<!-- {output.mark(ID)} -->\ntext"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    output.write(OURS, tmp_path / "r.md", ID)
    assert (tmp_path / "r.md").read_text("utf-8") == OURS
    assert names(tmp_path) == ["r.md"]


def test_our_own_report_is_replaced(tmp_path: Path) -> None:
    output.write(OURS, tmp_path / "r.md", ID)
    output.write(f"{OURS} again", tmp_path / "r.md", ID)
    assert (tmp_path / "r.md").read_text("utf-8").endswith("again")


def test_what_a_killed_writer_left_goes_and_no_other_file(tmp_path: Path) -> None:
    half = f".r.md.{dead()}.7.part"
    others = [f".other.md.{dead()}.7.part", f".r.md.{os.getpid()}.7.part", ".r.md.part"]
    for name in (half, *others):
        (tmp_path / name).touch()
    output.write(OURS, tmp_path / "r.md", ID)
    assert names(tmp_path) == sorted([*others, "r.md"])


@pytest.mark.parametrize("content", ["", "text", OURS.replace(ID, "another"), '{"format": "x"}', "{broken", "{\xff"])
def test_anything_else_is_not(tmp_path: Path, content: str) -> None:
    file = tmp_path / "r.md"
    file.write_text(content, "latin-1")
    with pytest.raises(OutputNotWritten, match="no earlier report"):
        output.write(OURS, file, ID)
    assert file.read_text("latin-1") == content
    assert names(tmp_path) == ["r.md"]


def test_reports_are_known_by_their_beginning_or_their_end(tmp_path: Path) -> None:
    file = tmp_path / "r"
    for text in (f"{output.mark(ID)}\n" + "x" * 50_000, "x" * 50_000 + f"\n{output.mark(ID)}\n"):
        file.write_text(text)
        assert output.is_ours(file, ID)
    file.write_text("x" * 50_000 + output.mark(ID) + "x" * 50_000)
    assert not output.is_ours(file, ID)


def test_json_is_known_by_the_bundle_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json_report.render(samples.diagnosis()))
    assert output.is_ours(file, identity(samples.diagnosis()))
    assert not output.is_ours(file, ID)
    file.write_text('{"format": "msforensics-diagnosis", "bundle": 5}')
    assert not output.is_ours(file, ID)


def test_a_folder_is_no_report(tmp_path: Path) -> None:
    assert not output.is_ours(tmp_path, ID)
    with pytest.raises(OutputNotWritten):
        output.write(OURS, tmp_path, ID)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "r.md"
    victim.write_text("mine")
    link.symlink_to(victim)
    with pytest.raises(OutputNotWritten):
        output.write(OURS, link, ID)
    assert victim.read_text() == "mine"
    victim.write_text(OURS)
    output.write(f"{OURS} new", link, ID)  # a link to our own report: the link is replaced, what it led to stays
    assert victim.read_text() == OURS
    assert not link.is_symlink()


def test_a_dangling_link_is_something_else(tmp_path: Path) -> None:
    link = tmp_path / "r.md"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputNotWritten):
        output.write(OURS, link, ID)


def test_beside_takes_the_next_free_name(tmp_path: Path) -> None:
    wanted = tmp_path / "b.html"
    wanted.write_text("theirs")
    assert output.write_beside(OURS, wanted, ID) == tmp_path / "b.1.html"
    assert output.write_beside(f"{OURS}2", wanted, ID) == tmp_path / "b.1.html"
    assert names(tmp_path) == ["b.1.html", "b.html"]


def test_names_run_out_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_ATTEMPTS", 2)
    for name in ("b.html", "b.1.html"):
        (tmp_path / name).write_text("theirs")
    with pytest.raises(OutputNotWritten):
        output.write_beside(OURS, tmp_path / "b.html", ID)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputNotWritten, match="cannot be written: No such file"):
        output.write(OURS, tmp_path / "none" / "r.md", ID)


def test_a_name_with_a_nul_is_an_error_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(OutputNotWritten):
        output.write(OURS, tmp_path / "a\0b", ID)


def test_a_failed_write_leaves_no_file_and_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output.write(OURS, tmp_path / "r.md", ID)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputNotWritten, match="No space left on device"):
        output.write("new", tmp_path / "r.md", ID)
    assert names(tmp_path) == ["r.md"]
    assert (tmp_path / "r.md").read_text("utf-8") == OURS


def test_what_appears_at_the_last_moment_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(source: object, target: Path) -> None:
        Path(target).write_text("theirs")
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(OutputNotWritten, match="File exists"):
        output.write(OURS, tmp_path / "r.md", ID)
    assert (tmp_path / "r.md").read_text() == "theirs"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    output.write(OURS, tmp_path / "r.md", ID)
    assert names(tmp_path) == ["r.md"]


def test_an_unreadable_file_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.md").write_text(OURS)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert not output.is_ours(tmp_path / "r.md", ID)
