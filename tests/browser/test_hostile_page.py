"""The page of a hostile bundle in a real browser: no script of its runs, nothing is loaded, and its text is text."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from forensics.analysis.engine import examine
from forensics.bundle.content import Header, Part
from forensics.bundle.writer import BundleWriter
from forensics.report import html
from forensics.report.speech import speech
from tests.browser.test_report_page import browse, pytestmark  # noqa: F401 - skipped where there is no browser
from tests.unit.report import samples

PLACES = ("message", "parameter", "log", "source", "column", "variable", "layer", "file", "event", "run")


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A server that answers nothing and remembers what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}", asked
        served.shutdown()


def attack(place: str, address: str) -> str:
    """Text that runs a script and loads something, wherever it gets out of its place; it says which place that is."""
    run = f"document.documentElement.dataset.owned='{place}'"
    return (
        f"{place}</script></style></title></textarea></svg>-->]]>\"'"
        f"<script>{run}</script><img src={address}/{place} onerror={run}><svg/onload={run}>"
        f"<link rel=stylesheet href={address}/{place}.css><iframe src='javascript:{run}'></iframe>"
        f"<style>@import '{address}/{place}.css'</style>{{{{7*7}}}}<!--"
    )


def hostile(path: Path, address: str) -> Path:
    """A bundle with such a text in every place that a report shows."""
    text = {place: attack(place, address) for place in PLACES}
    frame = {"file": text["file"], "line": 2, "function": text["source"], "code": text["source"], "own": True}
    frame |= {"context": [[1, text["source"]], [2, text["source"]]], "locals": {text["variable"]: text["variable"]}}
    steps = np.arange(1.0, 41)
    names = [f"{text['parameter']}{at}" for at in range(4)]
    content = {
        "trigger": Part({"kind": "exception", "step": 40, "message": text["message"], "time": "2026-01-01T00:00:00Z"}),
        "scalars": Part({}, {"": {"step": steps, "loss": np.linspace(2, 1, 40), text["column"]: steps}}),
        "gradients": Part({}, {"": {"step": steps, "parameter": names, "norm": np.ones((40, 4), np.float32)}}),
        "statistics": Part({}, {"weights": samples.statistics(*((name, "float32", "3") for name in names))}),
        "exception": Part({"chain": [{"type": text["message"], "message": text["message"], "frames": [frame] * 3}]}),
        "environment": Part(
            {
                "versions": {"mindspore": text["variable"]},
                "variables": {text["variable"]: text["variable"]},
                "log_tail": [{"file": text["log"], "text": f"{text['log']}\n" * 3}],
                "source": [frame],
            }
        ),
        "model": Part({"class": text["layer"], "cells": [{"path": text["layer"], "class": text["layer"]}]}),
        "events": Part({}, {"": {"time": [1.0], "step": [1], "kind": ["start"], "message": [text["event"]]}}),
    }
    header = Header(run=text["run"], created="2026-01-01T00:00:00Z", writer=text["run"])
    return BundleWriter(path, header, content).write(content)


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_script_runs_nothing_is_loaded_and_text_is_text(
    tmp_path: Path, server: tuple[str, list[str]], language: str
) -> None:
    address, asked = server
    bundle, diagnosis = examine(hostile(tmp_path / "b.h5", address))
    with bundle:
        page = tmp_path / "page.html"
        page.write_text(html.render(diagnosis, bundle, speech(language)), "utf-8")
    assert not diagnosis.failed
    dom = browse(tmp_path, page, "--virtual-time-budget=5000", "--dump-dom")
    assert "data-owned" not in re.sub(r"(?s)<body.*", "", dom)
    assert asked == []
    found = Tags()
    found.feed(dom)
    used = {tag for tag, _ in found.tags}
    assert not used & {"img", "iframe", "link", "object", "embed", "base", "form", "audio", "video", "foreignobject"}
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("src", "href", "xlink:href", "action", "style"):
            value = attributes.get(name) or ""
            assert address not in value
            assert not value.strip().lower().startswith(("javascript:", "data:text", "vbscript:")), value
    text = "".join(found.words)
    for place in PLACES:
        assert f"{place}</script>" in text, f"what stands in {place} is not shown as it is"
    assert "{{7*7}}" in text


def test_the_attack_works_where_nothing_keeps_it_off(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><html><body>{attack('body', address)}</body></html>", "utf-8")
    dom = browse(tmp_path, page, "--virtual-time-budget=5000", "--dump-dom")
    assert 'data-owned="body"' in dom
    assert asked
