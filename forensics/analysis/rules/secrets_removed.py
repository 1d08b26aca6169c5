"""The rule that tells what was taken out of the recording for its own good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case, as_step, mapping
from forensics.analysis.finding import Evidence, Outcome, Quiet
from forensics.analysis.message import t
from forensics.analysis.remark import remark
from forensics.analysis.rule import Limit, Rule

# A user's home folder in a path is no secret that anybody could use.
_HARMLESS = ("home",)


class SecretsRemoved(Rule):
    """Something that looked like a password, a key or a token was found in the environment and removed.

    Symptom:
        None. The bundle can be shared; the machine that it came from still holds the secret.
    Why:
        Environment variables, command lines and messages of exceptions carry credentials. The recorder replaces what
        has the name or the shape of one before anything is written, and counts it by class. A secret on a command
        line can be read by everybody on that machine, and by every other tool that reports errors.
    What to do:
        Move it into a file that only the job can read; renew it if logs or dumps of the run were shared before.
    """

    inputs = ("environment",)
    causes = ("insufficient-data",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "count": Limit(0, 1, "1", "own: a single one is worth a note"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        counts = mapping(case.bundle.facts("environment").get("redacted"))
        found = {
            str(kind)[:40]: number
            for kind, value in list(counts.items())[:50]
            if kind not in _HARMLESS and (number := as_step(value) or 0) > 0
        }
        total = sum(found.values())
        if total < limits["count"].warning:
            return Quiet(total, limits["count"].warning, t("secrets that were removed"))
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(found.items()))
        return remark(
            "insufficient-data",
            20.0,
            t("the recorder removed what looked like secrets: {listed}", listed=listed),
            t("The bundle does not hold them; what it was taken from does."),
            (
                t("Keep credentials out of command lines and environment variables: a file with mode 600, or a vault."),
                t("To confirm that nothing is left, search the bundle's report for the value itself."),
            ),
            (Evidence("/environment/json", None, total, limits["count"].warning, t("secrets that were removed")),),
            role="teardown",
            status="established",
            confidence=1.0,
        )
