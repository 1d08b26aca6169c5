"""The rule that compares the weights of data-parallel ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from forensics.analysis.evidence import Case, as_step, mapping, rows
from forensics.analysis.finding import Evidence, Finding, Origin, Outcome, Quiet
from forensics.analysis.message import t
from forensics.analysis.rule import Limit, Rule
from forensics.analysis.without_autopsy import layer_of
from forensics.bundle.reader import Bundle


class ReplicaDivergence(Rule):
    """Ranks that should hold equal weights do not.

    Symptom:
        Losses of the ranks drift apart; a checkpoint of one rank evaluates differently from that of another.
    Why:
        In data parallelism each rank applies the same reduced gradient to the same weights, so that they stay equal
        to the last bit. They part when a rank starts from other weights (no broadcast, another seed), when a
        parameter is left out of the reduction, when updates are skipped on one rank only, or when memory is damaged.
    What to do:
        Broadcast the weights at the start, and look at the named parameter: is it in the optimizer and in the
        reduction?
    """

    inputs = ("weights", "other-ranks")
    causes = ("replica-divergence",)
    limits: ClassVar[Mapping[str, Limit]] = {
        "parameters": Limit(0, 1, "1", "MindSpore's data parallelism keeps weights equal bit for bit"),
    }

    def check(self, case: Case, limits: Mapping[str, Limit]) -> Outcome:
        own = _checksums(case.bundle)
        alike = [peer for peer in case.peers if _comparable(case.bundle, peer)]
        if not _data_parallel(case.bundle) or not own or not alike:
            return Quiet(
                None, limits["parameters"].warning, t("no other rank's weights of the same step to compare with")
            )
        unequal: dict[str, list[int]] = {}
        for peer in alike:
            theirs = _checksums(peer)
            for name, checksum in own.items():
                if theirs.get(name, checksum) != checksum:
                    unequal.setdefault(name, []).append(peer.header.rank)
        if not unequal:
            return Quiet(
                0, limits["parameters"].warning, t("parameters that differ from {count} other ranks", count=len(alike))
            )
        name, others = next(iter(unequal.items()))
        step = case.fatal_step
        return Finding(
            cause="replica-divergence",
            severity="critical",
            score=93.0,
            confidence=0.9,
            role="initiating",
            status="established",
            step=step,
            phase="weights",
            origin=Origin("weights", step, layer_of(name) or None, None, name),
            headline=t(
                "{count} of {all} parameters differ between ranks, {name} first (rank {rank} and rank {other})",
                count=len(unequal),
                all=len(own),
                name=name,
                rank=case.bundle.header.rank,
                other=others[0],
            ),
            summary=t("Data-parallel ranks no longer hold equal weights."),
            explanation=t("Checksums of the weights at one and the same step were compared, bit for bit."),
            remedy=(
                t(
                    "Broadcast the weights at the start: "
                    "mindspore.set_auto_parallel_context(parameter_broadcast=True), or one seed for all ranks."
                ),
                t(
                    "Check that the named parameter is trained by the optimizer on every rank, and that nothing else "
                    "writes it (running statistics of nn.BatchNorm2d differ by nature: use nn.SyncBatchNorm)."
                ),
                t("If it happens in the middle of a run on one rank only, have that rank's memory tested."),
                t("To confirm, compare the figures of that parameter in the reports of two ranks."),
            ),
            evidence=(
                Evidence(
                    "/statistics/weights/crc32",
                    step,
                    len(unequal),
                    0,
                    t("parameters that differ, of {all}", all=len(own)),
                ),
                Evidence("/statistics/weights/name", step, ", ".join(list(unequal)[:8])[:300], None, t("which ones")),
            ),
        )


def _comparable(one: Bundle, other: Bundle) -> bool:
    """Whether both are of one step, both from before or both from after its update."""
    first, second = one.facts("trigger"), other.facts("trigger")
    step = as_step(first.get("step"))
    same = step is not None and step == as_step(second.get("step"))
    return same and first.get("held_back") is second.get("held_back") and _data_parallel(other)


def _data_parallel(bundle: Bundle) -> bool:
    settings = mapping(mapping(bundle.facts("environment").get("mindspore")).get("parallel"))
    sharded = settings.get("enable_parallel_optimizer") is True or (as_step(settings.get("pipeline_stages")) or 1) > 1
    return settings.get("parallel_mode") == "data_parallel" and not sharded


def _checksums(bundle: Bundle) -> dict[str, int]:
    """Checksum of each trained weight; running statistics of a normalisation are each rank's own."""
    trained = {str(row.get("name")) for row in rows(bundle.table("model", "parameters")) if row.get("trainable")}
    found = {str(row.get("name")): row.get("crc32") for row in rows(bundle.table("statistics", "weights"))}
    return {name: value for name, value in found.items() if isinstance(value, int) and (not trained or name in trained)}
