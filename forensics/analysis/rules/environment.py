"""The rule that reads the environment for combinations known to go wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from forensics.analysis.evidence import Case, mapping
from forensics.analysis.finding import Evidence, Finding, Outcome, Quiet
from forensics.analysis.message import Message, t
from forensics.analysis.rule import Limit, Rule


class Environment(Rule):
    """The installation and its settings, held against combinations that are known to go wrong.

    Symptom:
        Things fail on one machine and not on another.
    Why:
        MindSpore up to 2.10 calls NumPy in a way that NumPy 2 refuses; a framework and its device's toolkit must
        agree in version; on Ascend, MindSpore and CANN must agree on whether an overflow saturates or becomes Inf;
        mixed precision on a CPU only costs. These are remarks: none of them is the verdict while anything better
        explains the failure.
    What to do:
        Bring the named pair in line, then compare the report's environment with that of a good run.
    """

    inputs = ("environment",)
    causes = ("environment-mismatch",)
    limits: ClassVar[Mapping[str, Limit]] = {"remarks": Limit(0, 1, "1", "own: one is worth mentioning")}

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        remarks = [item for item in (_numpy(case), _python(case), _overflow_mode(case), _mixed_precision(case)) if item]
        if not remarks:
            return Quiet(0, limits["remarks"].warning, t("combinations known to go wrong"))
        return Finding(
            cause="environment-mismatch",
            severity="info",
            # Below the info limit: a remark, not an explanation.
            score=20.0,
            confidence=0.5,
            role="initiating",
            status="supported",
            headline=t("remark on the environment: {what}", what=remarks[0]),
            summary=t("Remarks on the environment: {count}.", count=len(remarks)),
            explanation=remarks[0],
            remedy=(
                t("Bring the named pair in line, as the release notes of MindSpore say."),
                t("To confirm, compare with the environment of a good run: the report of its bundle lists it."),
            ),
            evidence=tuple(
                Evidence("/environment/json", None, str(remark)[:300], None, t("remark")) for remark in remarks
            ),
        )


def _numpy(case: Case) -> Message | None:
    numpy, mindspore = _version(case, "numpy"), _version(case, "mindspore")
    if numpy and mindspore and numpy >= (2,) and mindspore < (2, 11):
        return t(
            "NumPy {numpy} with MindSpore {mindspore}: its data sets fail on NumPy 2",
            numpy=_shown(numpy),
            mindspore=_shown(mindspore),
        )
    return None


def _python(case: Case) -> Message | None:
    python, mindspore = _version(case, "python"), _version(case, "mindspore")
    if python and mindspore and not (3, 8) <= python[:2] <= (3, 12):
        return t(
            "Python {python} is outside of what MindSpore {mindspore} supports",
            python=_shown(python),
            mindspore=_shown(mindspore),
        )
    return None


def _overflow_mode(case: Case) -> Message | None:
    facts = case.bundle.facts("environment")
    mode = str(mapping(facts.get("variables")).get("MS_ASCEND_CHECK_OVERFLOW_MODE") or "")
    if mode.upper() == "SATURATION_MODE" and _target(facts) == "ASCEND":
        return t(
            "MS_ASCEND_CHECK_OVERFLOW_MODE is SATURATION_MODE: overflow shows as the largest number and never as Inf"
        )
    return None


def _mixed_precision(case: Case) -> Message | None:
    level = str(case.bundle.facts("model").get("amp_level") or "").upper()
    if level in ("O2", "O3", "AUTO") and _target(case.bundle.facts("environment")) == "CPU":
        return t("mixed precision ({level}) on a CPU costs accuracy and gains nothing", level=level)
    return None


def _target(facts: Mapping[str, Any]) -> str:
    return str(mapping(facts.get("mindspore")).get("device_target") or "").upper()


def _version(case: Case, name: str) -> tuple[int, ...]:
    text = mapping(case.bundle.facts("environment").get("versions")).get(name)
    found = re.match(r"(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?", text) if isinstance(text, str) else None
    return tuple(int(part) for part in found.groups() if part is not None) if found else ()


def _shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
