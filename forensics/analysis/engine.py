"""From a bundle, or a job's directory, to a diagnosis. Every rule gets its say; one that breaks costs no report."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forensics.analysis import held, ranks
from forensics.analysis import limits as own_limits
from forensics.analysis.clipping import with_norm
from forensics.analysis.combination import (
    chain_of,
    order_findings,
    origin_of,
    primary,
    verdict_of,
)
from forensics.analysis.evidence import Case, as_step
from forensics.analysis.finding import NOTHING_WRONG, Diagnosis, Failed, Finding, Quiet, Skipped, Subject
from forensics.analysis.fingerprint import fingerprint
from forensics.analysis.lead_time import lead_time, with_setting
from forensics.analysis.message import t
from forensics.analysis.rank_steps import rank_steps
from forensics.analysis.registry import all_rules
from forensics.analysis.rule import Limit, Rule
from forensics.bundle.reader import Bundle, open_bundle
from forensics.errors import printable

MAX_ERROR_LENGTH = 300
# Ranks whose figures are compared with those of the one that is judged.
MAX_PEERS = 64


def analyze(
    path: str | Path, *, limits: Mapping[str, float] | None = None, rules: Sequence[Rule] | None = None
) -> Diagnosis:
    """Diagnose a bundle, a rank's folder, or a job's directory. MindSpore is not needed.

    Args:
        path: a .h5 file, or a folder that holds some, at any depth that a recorder writes.
        limits: "rule.limit" → value, in place of the rule's own warning limit (its info limit moves along); a file's
            come from `forensics.analysis.limits.read`.
        rules: the rules to ask; all by default.

    Raises a ForensicsError with one line that says what to do: BundleMissing, NotABundle, BundleDamaged, BundleTooNew,
    or LimitRefused for a limit that no rule has.
    """
    bundle, diagnosis = examine(path, limits=limits, rules=rules)
    bundle.close()
    return diagnosis


def examine(
    path: str | Path, *, limits: Mapping[str, float] | None = None, rules: Sequence[Rule] | None = None
) -> tuple[Bundle, Diagnosis]:
    """As `analyze`, with the open bundle that the diagnosis is about (of a job's directory, the first rank to fail)."""
    if not Path(path).is_dir():
        bundle = open_bundle(path)
        try:
            return bundle, diagnose(bundle, limits=limits, rules=rules)
        except BaseException:
            bundle.close()
            raise
    job = ranks.gather(Path(path))
    first: Bundle | None = None
    try:
        candidates = [(bundle, diagnose(bundle, limits=limits, rules=rules)) for bundle in job.suspects()]
        first, diagnosis = ranks.first_to_fail(candidates)
        peers = [bundle for bundle in job.bundles if bundle is not first][:MAX_PEERS]
        if peers:
            diagnosis = diagnose(first, limits=limits, rules=rules, peers=peers)
        others = tuple(_subject(bundle) for bundle in job.bundles)
        together = rank_steps(job.bundles)
        return first, replace(diagnosis, ranks=others, ranks_missing=job.missing, rank_steps=together)
    finally:
        job.close(but=first)


def diagnose(
    bundle: Bundle,
    *,
    limits: Mapping[str, float] | None = None,
    rules: Sequence[Rule] | None = None,
    peers: Sequence[Bundle] = (),
) -> Diagnosis:
    """Diagnose one open bundle, beside the open bundles of the job's other ranks where there are any.

    Raises LimitRefused for a limit that no rule has.
    """
    asked = tuple(all_rules() if rules is None else rules)
    thresholds = own_limits.thresholds(asked, limits or {})
    case = Case(bundle, peers)
    found: list[Finding] = []
    quiet: list[Quiet] = []
    skipped: list[Skipped] = []
    failed: list[Failed] = []
    for rule in asked:
        match _ask(rule, case, thresholds[rule.id]):
            case Finding() as finding:
                found.append(held.fitted(finding, case))
            case Quiet() as answer:
                quiet.append(answer)
            case Skipped() as answer:
                skipped.append(answer)
            case answer:
                failed.append(answer)
    if any(item.severity != "info" and item.cause not in NOTHING_WRONG for item in found):
        grave = next(item for item in found if item.severity != "info" and item.cause not in NOTHING_WRONG)
        quiet += [_withdrawn(item, grave) for item in found if item.cause in NOTHING_WRONG]
        found = [item for item in found if item.cause not in NOTHING_WRONG]
    findings = order_findings(found)
    sound = any(item.cause == "healthy" for item in found)
    chosen = primary(findings, wrong=not case.asked_for and not sound)
    origin = origin_of(findings, chosen)
    verdict = verdict_of(case, chosen)
    lead = lead_time(case, [rule for rule in asked if rule.online], thresholds, findings)
    told = with_norm(with_setting(findings, lead), case, math.inf if lead is None else lead.step)
    # A link of the chain is one of the findings, with all that was observed of it.
    links = dict(zip(map(id, findings), told, strict=True))
    return Diagnosis(
        subject=_subject(bundle),
        verdict=verdict,
        origin=origin,
        findings=told,
        quiet=tuple(quiet),
        skipped=tuple(skipped),
        failed=tuple(failed),
        lead_time=lead,
        fingerprint=fingerprint(case, verdict, origin, chosen),
        chain=tuple(links.get(id(item), item) for item in chain_of(findings, chosen)),
        limits=own_limits.changed(asked, thresholds),
    )


def _ask(rule: Rule, case: Case, limits: Mapping[str, Limit]) -> Finding | Quiet | Skipped | Failed:
    try:
        missing = tuple(name for name in rule.inputs if not case.has(name))
        if missing:
            return Skipped(rule.id, missing)
        # Numbers near the end of float64 overflow in a mean; what comes of it compares as infinite, which is right.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            outcome = rule.check(case, limits)
        return replace(outcome, rule=rule.id)
    except Exception as error:
        # Whatever a hostile bundle made it do: the reader learns that this rule did not look, and gets the rest.
        return Failed(rule.id, printable(f"{type(error).__name__}: {error}")[:MAX_ERROR_LENGTH])


def _withdrawn(healthy: Finding, grave: Finding) -> Quiet:
    return Quiet(None, None, t("not said: {rule} found something wrong", rule=grave.rule), healthy.rule)


def _subject(bundle: Bundle) -> Subject:
    case = Case(bundle)
    trigger: dict[str, Any] = {
        "kind": case.trigger_kind,
        "step": case.fatal_step,
        "epoch": as_step(case.trigger.get("epoch")),
        "time": _text(case.trigger.get("time")) or bundle.header.created or None,
        "message": _text(case.trigger.get("message")),
    }
    # What was found damaged while it was read is as good as missing.
    missing = tuple(dict.fromkeys([*bundle.missing, *bundle.damaged]))
    header = bundle.header
    path = "" if bundle.path is None else str(bundle.path)
    return Subject(path, header.run, header.rank, header.world_size, bundle.complete, missing, trigger)


def _text(value: Any) -> str:
    return value[:2000] if isinstance(value, str) else ""
