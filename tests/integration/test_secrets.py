"""No secret that a training has at hand gets into what the recorder writes, whichever way it could come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forensics import open_bundle
from forensics.analysis.engine import examine
from forensics.report import html, text
from forensics.report.speech import speech
from tests.unit.bundle.contents import everything

ROOT = Path(__file__).resolve().parents[2]
# Where a secret is → what it is; none occurs anywhere else.
PLANTED = {
    "environment": "Zk81qmvariable77",
    "command line": "Zk82qmoption77",
    "exception": "Zk83qmexception77",
    "cause": "Zk84qmcause77",
    "url": "Zk85qmurl77",
    "source": "Zk86qmsource77",
    "log": "Zk87qmlog77",
    "local": "Zk88qmlocal77",
    "reason": "Zk89qmreason77",
    "event": "Zk90qmevent77",
    "thread": "Zk91qmthread77",
    "token": "AKIA" + "ZK92QMTOKEN77ABC",
    "entropy": "q7Zx9LmV2pTnR4kW8sYdB3fHZk93",
    "home": "zk94somebody",
}
SCRIPT = """
import logging, os, sys, threading
import mindspore as ms
from mindspore.train import Callback
from forensics import FlightRecorder
from tests import training

class Fails(Callback):
    def on_train_step_end(self, run_context):
        step = run_context.original_args().cur_step_num
        if step == 3:
            recorder.dump("asked for by token={reason}")
        if step == 5:
            password = session_key = "{local}"
            thread = threading.Thread(target=boom)
            thread.start()
            thread.join()
            try:
                open("/home/{home}/data").read()
            except OSError as error:
                raise ValueError("api_key={cause}") from error

def boom():
    raise LookupError("secret={thread}")

print("could not log in with passwd={log}", file=sys.stderr, flush=True)
ms.set_context(mode=ms.PYNATIVE_MODE)
recorder = FlightRecorder(sys.argv[1], max_bundles=5)
made = training.model()
try:
    made.train(1, training.dataset(12), callbacks=[Fails(), recorder], dataset_sink_mode=False)
except ValueError as error:
    with recorder:
        token = "{source}"; raise RuntimeError(
            "login with password={exception} at https://me:{url}@host/x failed; key {token}; saw {entropy}") from error
"""


@pytest.mark.mindspore
def test_no_way_leads_into_the_bundle(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    filled = SCRIPT
    for name, value in PLANTED.items():
        filled = filled.replace(f"{{{name}}}", value)
    script.write_text(filled)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MS_TOKEN": PLANTED["environment"],
        "HF_HOME": f"/home/{PLANTED['home']}/hf",
        "MS_SECRET_KEY": PLANTED["environment"],
    }
    command = [sys.executable, str(script), str(tmp_path / "run"), "--api-token", PLANTED["command line"]]
    errors = tmp_path / "errors.txt"
    with errors.open("w") as stream:  # a file, as under nohup, so that its end is in the bundle
        subprocess.run(command, cwd=tmp_path, env=environment, stderr=stream, check=False, timeout=300)
    assert "RuntimeError: login with" in errors.read_text(), errors.read_text()[-2000:]
    bundles = sorted((tmp_path / "run").rglob("*.h5"))
    assert len(bundles) >= 2
    removed: dict[str, int] = {}
    seen = ""
    for path in bundles:
        with open_bundle(path) as bundle:
            assert bundle.has("environment")
            told = repr(everything(bundle)) + repr(bundle.missing)
            seen += told
            assert not [name for name, value in PLANTED.items() if value in told], path
            for kind, count in bundle.facts("environment")["redacted"].items():
                removed[kind] = max(removed.get(kind, 0), count)
        opened, diagnosis = examine(path)
        with opened:
            page = html.render(diagnosis, opened, speech("en"))
            assert not [
                name for name, value in PLANTED.items() if value in page + text.render(diagnosis, opened, speech("en"))
            ]
            assert "Secrets that were removed" in page
    # What the secrets stood in is there, so that each of the ways was really open.
    for words in (
        "login with password=",
        "api_key=",
        "secret=",
        "asked for by token=",
        "--api-token",
        "could not log in",
    ):
        assert words in seen, words
    assert all(removed[kind] >= 1 for kind in ("url", "name", "token", "entropy", "home")), removed
    # Nor into the files beside the bundles, nor into a copy's bytes.
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [name for name, value in PLANTED.items() if value.encode() in data], path
