"""The rule that names the first value that was not finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forensics.analysis.engine import diagnose
from tests.builders import autopsy, bundle, statistics, tensor
from tests.rules.asking import fired, quiet, skipped

RULE = "non-finite-origin"
CALM = [2.0, 1.9, 1.8, 1.7, 1.65, 1.6, 1.55, 1.5]
BAD = np.array([1.0, math.nan])
INFINITE = np.array([1.0, math.inf])


def broken(op: str, inputs: list[Any], output: Any = BAD, *, losses: list[float] = CALM, **more: Any) -> Any:
    """A bundle whose autopsy found `op`, after a calm history."""
    facts = autopsy(op, inputs=inputs, outputs=[output], **more)
    return bundle(loss=[*losses, math.nan], learning_rate=0.01, trigger="nan-loss", autopsy=facts)


P = np.array([[0.2, 0.8], [0.0, 1.0]], np.float32)
ONES = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "cause", "status"),
    [
        ("Log", [P], INFINITE, "log-of-nonpositive", "established"),
        ("Log2", [P - 1], BAD, "log-of-nonpositive", "established"),
        ("Log1p", [P - 1], BAD, "log-of-nonpositive", "established"),
        ("Default/network/Log-op12", [P], INFINITE, "log-of-nonpositive", "established"),
        ("Xlogy", [ONES, P], INFINITE, "log-of-nonpositive", "established"),
        ("KLDiv", [ONES, P], INFINITE, "log-of-nonpositive", "established"),
        ("Logit", [P], INFINITE, "log-of-nonpositive", "established"),
        ("Div", [ONES, P], INFINITE, "division-by-zero", "established"),
        ("Divs", [ONES, P], INFINITE, "division-by-zero", "established"),
        ("RealDiv", [P - P, P], BAD, "division-by-zero", "established"),
        ("DivMod", [ONES, P], INFINITE, "division-by-zero", "established"),
        ("Reciprocal", [P], INFINITE, "division-by-zero", "established"),
        ("Rsqrt", [P], INFINITE, "division-by-zero", "established"),
        ("Addcdiv", [ONES, ONES, P], INFINITE, "division-by-zero", "established"),
        ("FloorMod", [ONES, P], BAD, "division-by-zero", "established"),
        ("Div", [ONES, ONES * 1e-38], INFINITE, "division-by-zero", "supported"),
        ("Rsqrt", [P - 1], BAD, "invalid-operation", "established"),
        ("Sqrt", [P - 1], BAD, "invalid-operation", "established"),
        ("Pow", [P - 1, ONES * 0.5], BAD, "invalid-operation", "established"),
        ("PowTensorScalar", [P], INFINITE, "exp-overflow", "established"),
        ("Pow", [P, -ONES], INFINITE, "division-by-zero", "established"),
        ("ACos", [ONES * 2], BAD, "invalid-operation", "established"),
        ("Atanh", [ONES], INFINITE, "invalid-operation", "established"),
        ("Lgamma", [P - 1], INFINITE, "invalid-operation", "established"),
        ("Cholesky", [P], BAD, "invalid-operation", "supported"),
        ("Exp", [ONES * 100], INFINITE, "exp-overflow", "established"),
        ("Expm1", [ONES * 100], INFINITE, "exp-overflow", "established"),
        ("SubExt", [ONES * math.inf, ONES * math.inf], BAD, "invalid-operation", "established"),
        ("Muls", [np.array([0.0, math.inf])], BAD, "invalid-operation", "established"),
        ("L2Normalize", [P - P], BAD, "division-by-zero", "established"),
        ("LayerNorm", [P], BAD, "division-by-zero", "supported"),
        ("ReduceMean", [np.zeros((0, 2))], BAD, "division-by-zero", "established"),
        ("Dropout", [P], BAD, "division-by-zero", "hypothesis"),
        ("Softmax", [np.full((2, 2), -math.inf)], BAD, "softmax-all-masked", "supported"),
        ("LogSumExp", [np.full((2, 2), -math.inf)], INFINITE, "softmax-all-masked", "supported"),
        ("FlashAttentionScore", [P], BAD, "softmax-all-masked", "hypothesis"),
        ("NLLLoss", [P, np.full(2, -100, np.int32)], BAD, "division-by-zero", "supported"),
        ("CrossEntropyLoss", [P, np.array([1, 2], np.int32)], INFINITE, "label-out-of-range", "established"),
        ("MaskedFill", [P], INFINITE, "invalid-operation", "hypothesis"),
        ("AdamWeightDecay", [P], BAD, "optimizer-state", "supported"),
        ("MyOwnOperator", [P], BAD, "invalid-operation", "hypothesis"),
        ("MyOwnOperator", [P], INFINITE, "exp-overflow", "hypothesis"),
    ],
)
def test_operator_families(op: str, inputs: list[Any], output: Any, cause: str, status: str) -> None:
    finding = fired(RULE, broken(op, inputs, output))
    assert (finding.cause, finding.status) == (cause, status)
    assert finding.severity == "critical"
    assert finding.remedy
    assert finding.origin is not None
    assert finding.origin.op == op
    assert "train.py:34" in str(finding.headline)


def test_headline_is_one_sentence_with_place_and_proof() -> None:
    finding = fired(RULE, broken("Log", [P], INFINITE))
    assert str(finding.headline) == "first non-finite value: output of Log in train.py:34 (input minimum 0.0)"


@pytest.mark.parametrize(
    ("op", "cause", "status"),
    [
        ("Log", "log-of-nonpositive", "supported"),
        ("Div", "division-by-zero", "supported"),
        ("Sqrt", "invalid-operation", "supported"),
        ("Pow", "invalid-operation", "supported"),
        ("Exp", "exp-overflow", "supported"),
        ("ACos", "invalid-operation", "supported"),
    ],
)
def test_inputs_that_were_not_recorded(op: str, cause: str, status: str) -> None:
    finding = fired(RULE, broken(op, []))
    assert (finding.cause, finding.status) == (cause, status)
    assert finding.confidence <= 0.6


@pytest.mark.parametrize(
    ("op", "inputs", "output", "cause"),
    [
        ("Logit", [np.array([0.5, 1.0])], INFINITE, "log-of-nonpositive"),
        ("Log", [np.array([1e-39, 1.0])], INFINITE, "log-of-nonpositive"),
        ("Log", [np.array([0.5, 1.0])], BAD, "exploding-gradients"),
        ("Log1p", [np.array([-0.5, 0.0])], BAD, "exploding-gradients"),
        ("ReduceMean", [np.ones(4)], BAD, "exploding-gradients"),
        ("LayerNorm", [np.array([1e30, 1.0])], BAD, "exploding-gradients"),
        ("Sqrt", [np.array([1.0])], BAD, "exploding-gradients"),
        ("Exp", [np.array([1.0])], BAD, "exp-overflow"),
        ("Softmax", [np.array([1.0])], BAD, "exploding-gradients"),
        ("CrossEntropyLoss", [P, np.array([0, 1], np.int32)], BAD, "exploding-gradients"),
        ("Div", [ONES, ONES], BAD, "exploding-gradients"),
    ],
)
def test_inputs_that_do_not_explain_the_output(op: str, inputs: list[Any], output: Any, cause: str) -> None:
    assert fired(RULE, broken(op, inputs, output)).cause == cause


def test_division_by_the_number_zero() -> None:
    finding = fired(RULE, broken("Div", [ONES], INFINITE, scalars=[0.0]))
    assert (finding.cause, finding.status) == ("division-by-zero", "established")


def test_rows_masked_out_entirely_are_named() -> None:
    scores = np.array([[0.5, -math.inf], [-math.inf, -math.inf]])
    finding = fired(RULE, broken("Sub", [scores, scores], masked_rows=1))
    assert (finding.cause, finding.status) == ("softmax-all-masked", "established")
    assert "1 row with" in str(finding.headline)


def test_row_sums_of_a_hand_written_softmax_are_no_ordinary_denominator() -> None:
    above, below = tensor(ONES, producer_op="Exp"), tensor(P, producer_op="ReduceSum")
    assert fired(RULE, broken("Div", [above, below])).cause == "softmax-all-masked"
    assert fired(RULE, broken("Div", [tensor(ONES, producer_op="Mul"), below])).cause == "division-by-zero"


class TestReducedPrecision:
    """A 16-bit type against its counterfactual in float32, both sides of each border."""

    half = np.array([0.0, 0.5], np.float16)

    def finite(self, **more: Any) -> dict[str, Any]:
        return {"tried": True, "finite": True, "input_min": 1e-9, "input_max": 1.0, "operators": ["Log"], **more}

    def test_a_zero_that_is_none_in_float32_underflowed(self) -> None:
        facts = self.finite(out_min=-20.5, out_max=0.0)
        finding = fired(RULE, broken("Log", [self.half], np.array([-math.inf, 0], np.float16), float32=facts))
        assert (finding.cause, finding.status) == ("fp16-underflow", "established")
        assert "float16" in str(finding.headline)
        assert "1e-09 in float32" in str(finding.headline)

    def test_a_zero_that_is_one_in_float32_too_is_a_logarithm_of_zero(self) -> None:
        facts = {"tried": True, "finite": False, "input_min": 0.0}
        finding = fired(RULE, broken("Log", [self.half], np.array([-math.inf, 0], np.float16), float32=facts))
        assert (finding.cause, finding.status) == ("log-of-nonpositive", "established")

    def test_a_magnitude_past_the_range_overflowed(self) -> None:
        facts = self.finite(out_min=0.0, out_max=90000.0)
        finding = fired(RULE, broken("MatMul", [ONES * 300], np.array([math.inf], np.float16), float32=facts))
        assert (finding.cause, finding.status) == ("fp16-overflow", "established")
        assert "90000 in float32" in str(finding.headline)

    def test_nan_inside_a_16_bit_operator_that_float32_computes(self) -> None:
        facts = self.finite(out_min=0.0, out_max=1.0)
        finding = fired(RULE, broken("LayerNorm", [self.half + 1], np.array([math.nan], np.float16), float32=facts))
        assert (finding.cause, finding.status) == ("fp16-overflow", "supported")

    def test_rounding_below_zero(self) -> None:
        facts = self.finite(out_min=0.0, out_max=1.0)
        negative = np.array([-0.01, 0.5], np.float16)
        finding = fired(RULE, broken("Sqrt", [negative], np.array([math.nan], np.float16), float32=facts))
        assert finding.cause == "fp16-underflow"

    def test_a_mask_value_past_the_range_is_no_padding_row(self) -> None:
        facts = self.finite(out_min=0.0, out_max=1.0)
        scores = np.full((2, 2), -math.inf, np.float16)
        finding = fired(RULE, broken("Sub", [scores, scores], masked_rows=2, float32=facts))
        assert finding.cause == "fp16-overflow"

    @pytest.mark.parametrize(
        ("op", "inputs", "output", "status"),
        [
            ("Cast", [np.array([1e5], np.float32)], np.array([math.inf], np.float16), "established"),
            ("Exp", [np.array([12.0], np.float16)], np.array([math.inf], np.float16), "established"),
            ("Mul", [np.array([300.0], np.float16)], np.array([math.inf], np.float16), "established"),
            ("CumProd", [np.array([300.0], np.float16)], np.array([math.inf], np.float16), "supported"),
            ("MyOwn", [np.array([300.0], np.float16)], np.array([math.inf], np.float16), "supported"),
            ("Conv2D", [np.array([300.0], np.float32)], np.array([math.inf], np.float16), "supported"),
            ("Square", [np.array([300.0], np.float16)], np.array([math.inf], np.float16), "supported"),
            ("BatchMatMul", [np.array([300.0], np.float16)], np.array([math.nan], np.float16), "established"),
        ],
    )
    def test_without_the_counterfactual(self, op: str, inputs: list[Any], output: Any, status: str) -> None:
        finding = fired(RULE, broken(op, inputs, output))
        assert (finding.cause, finding.status) == ("fp16-overflow", status)

    def test_exp_past_the_range_of_both_types_is_no_matter_of_16_bits(self) -> None:
        finding = fired(RULE, broken("Exp", [np.array([100.0], np.float16)], np.array([math.inf], np.float16)))
        assert finding.cause == "exp-overflow"

    def test_bfloat16_has_the_range_of_float32(self) -> None:
        inputs = [tensor([1e30], "bfloat16")]
        finding = fired(RULE, broken("Mul", inputs, tensor([math.inf], "bfloat16")))
        assert finding.cause != "fp16-overflow"


class TestBackward:
    """Forward finite, backward not."""

    @pytest.mark.parametrize("op", ["SqrtGrad", "NormGrad", "PowGrad", "RsqrtGrad", "Div", "Mul"])
    def test_singular_gradient(self, op: str) -> None:
        finding = fired(RULE, broken(op, [P], INFINITE, phase="backward"))
        assert (finding.cause, finding.status) == ("singular-gradient", "established")
        assert str(finding.headline).startswith("first non-finite gradient: in the gradient of")

    def test_a_gradient_that_left_the_16_bit_range_is_excepted(self) -> None:
        facts = {"tried": True, "finite": True, "out_max": 1e6}
        finding = fired(
            RULE, broken("MatMul", [ONES], np.array([math.inf], np.float16), phase="backward", float32=facts)
        )
        assert finding.cause == "fp16-overflow"

    def test_gradients_that_grew_past_float32(self) -> None:
        finding = fired(RULE, broken("MatMul", [ONES * 1e20], INFINITE, phase="backward"))
        assert (finding.cause, finding.status) == ("exploding-gradients", "supported")


class TestGrowth:
    """Sums past the range of float32: the history names the cause, not the operator."""

    growing = (8.4, 8.1, 7.4, 22.0, 121.0, 4283.0, 5.7e12)

    def run(self, rate: Any, **more: Any) -> Any:
        facts = autopsy("MatMul", inputs=[ONES * 1e30], outputs=[INFINITE])
        return bundle(loss=[*self.growing, math.inf], learning_rate=rate, trigger="inf-loss", autopsy=facts, **more)

    def test_a_learning_rate_past_common_levels(self) -> None:
        finding = fired(RULE, self.run(1.0, model={"optimizer": {"class": "Momentum", "momentum": 0.9}}))
        assert (finding.cause, finding.status) == ("learning-rate-too-high", "supported")

    def test_an_unremarkable_learning_rate(self) -> None:
        finding = fired(RULE, self.run(0.001, model={"optimizer": {"class": "SGD"}}))
        assert (finding.cause, finding.status) == ("exploding-gradients", "supported")

    def test_a_calm_history(self) -> None:
        finding = fired(RULE, broken("MatMul", [ONES * 1e30], INFINITE))
        assert (finding.cause, finding.status) == ("exploding-gradients", "hypothesis")

    def test_the_first_step(self) -> None:
        finding = fired(RULE, broken("MatMul", [ONES * 1e30], INFINITE, losses=[]))
        assert (finding.cause, finding.status) == ("bad-initialisation", "hypothesis")

    def test_a_power_after_a_calm_history(self) -> None:
        finding = fired(RULE, broken("Square", [ONES * 1e30], INFINITE))
        assert finding.cause == "exp-overflow"


def test_a_break_seen_from_outside_a_cell_is_only_supported() -> None:
    finding = fired(RULE, broken("LogSoftmax", [np.full((2, 2), -math.inf)], method="cells"))
    assert finding.status == "supported"
    assert "inside LogSoftmax" in str(finding.headline)
    own = fired(
        RULE,
        broken(
            "LabelSmoothing",
            [P],
            INFINITE,
            method="cells",
            source={"file": "a.py", "line": 3, "code": "return -ops.log(p)"},
        ),
    )
    assert (own.cause, own.status) == ("log-of-nonpositive", "supported")


def test_inputs_that_were_bad_already_make_a_hypothesis() -> None:
    finding = fired(RULE, broken("Log", [np.array([math.nan, 0.0])], BAD))
    assert finding.status == "hypothesis"
    assert finding.confidence < 0.5


def test_a_finite_loss_over_nan_is_told_as_such() -> None:
    facts = autopsy("Log", inputs=[P - 1], outputs=[BAD])
    finding = fired(RULE, bundle(loss=[*CALM, 1.386], trigger="nonfinite-gradient", autopsy=facts))
    assert "1.386, finite all the same" in str(finding.explanation)
    calm = fired(RULE, bundle(loss=[*CALM, math.nan], trigger="nan-loss", autopsy=facts))
    assert "finite all the same" not in str(calm.explanation)


class TestOperatorsTable:
    """The autopsy named no origin, but its table of operators shows one."""

    def table(self, *rows: dict[str, Any], **more: Any) -> Any:
        place = {
            "file": "/home/user/train.py",
            "line": 26,
            "function": "construct",
            "phase": "forward",
            "dtype": "float32",
        }
        lines = [{"name": "MatMul", "in_min": -1.0, "in_max": 1.0, "out_min": -2.0, "out_max": 2.0, **place}]
        lines += [{**place, "in_min": 0.0, "in_max": 1.0, **row} for row in rows]
        return bundle(loss=[*CALM, math.nan], trigger="nan-loss", operators=lines, **more)

    def test_the_first_row_that_broke_finite_inputs(self) -> None:
        finding = fired(
            RULE,
            self.table({"name": "Log", "out_neg_inf": 1, "out_nan": 1}, {"name": "Mul", "in_bad": 2, "out_nan": 2}),
        )
        assert (finding.cause, finding.status) == ("log-of-nonpositive", "supported")
        assert "output of Log in train.py:26 (input minimum 0.0)" in str(finding.headline)
        backward = fired(RULE, self.table({"name": "SqrtGrad", "out_pos_inf": 1, "phase": "backward"}))
        assert backward.cause == "singular-gradient"

    def test_a_mask_and_an_exponential(self) -> None:
        mask = {"name": "MaskedFill", "out_neg_inf": 4}
        rows = [mask, {"name": "SubExt", "in_bad": 8, "out_nan": 4}, {"name": "Exp", "in_bad": 4, "out_nan": 4}]
        finding = fired(RULE, self.table(*rows))
        assert (finding.cause, finding.status) == ("softmax-all-masked", "supported")
        other = fired(RULE, self.table(mask, {"name": "SubExt", "in_bad": 8, "out_nan": 4}))
        assert other.cause == "invalid-operation"

    def test_what_came_in_bad_is_no_operators_fault(self) -> None:
        finding = fired(RULE, self.table({"name": "Log", "in_bad": 3, "out_nan": 3}))
        assert finding.origin is not None
        assert finding.origin.op is None

    def test_nothing_broke(self) -> None:
        assert "was not seen" in str(fired(RULE, self.table({"name": "Log"})).headline)


class TestWithoutAutopsy:
    """Evidence alone: no more than supported."""

    def test_inf_first(self) -> None:
        finding = fired(RULE, bundle(loss=[*CALM, math.inf], trigger="inf-loss"))
        assert (finding.cause, finding.status) == ("log-of-nonpositive", "hypothesis")
        assert finding.origin is not None
        assert finding.origin.op is None
        assert "where it came from was not seen" in str(finding.headline)

    def test_nan_first(self) -> None:
        finding = fired(RULE, bundle(loss=[*CALM, math.nan], trigger="nan-loss"))
        assert (finding.cause, finding.status) == ("invalid-operation", "hypothesis")

    def test_float16(self) -> None:
        weights = {"fc.weight": statistics(np.ones(4, np.float16))}
        finding = fired(RULE, bundle(loss=[*CALM, math.nan], trigger="nan-loss", weights=weights))
        assert (finding.cause, finding.status) == ("fp16-overflow", "supported")

    def test_finite_loss_and_gradients_bad_up_to_a_layer(self) -> None:
        last = {"a.weight": {"nonfinite": 3}, "b.weight": {"nonfinite": 3}, "c.weight": {"nonfinite": 0}}
        finding = fired(RULE, bundle(loss=[*CALM, 1.5], trigger="nonfinite-gradient", last_gradients=last))
        assert (finding.cause, finding.status) == ("singular-gradient", "hypothesis")
        assert finding.origin is not None
        assert (finding.origin.layer, finding.origin.parameter) == ("b", "b.weight")

    def test_finite_loss_and_all_gradients_bad(self) -> None:
        norms = {"a.weight": [1.0, math.nan], "b.weight": [1.0, math.inf]}
        finding = fired(RULE, bundle(loss=[*CALM, 1.5], trigger="nonfinite-gradient", gradients=norms))
        assert (finding.cause, finding.status) == ("singular-gradient", "supported")

    def test_finite_loss_and_nothing_measured(self) -> None:
        finding = fired(RULE, bundle(loss=[*CALM, 1.5], trigger="nonfinite-weight"))
        assert (finding.cause, finding.status) == ("singular-gradient", "hypothesis")

    def test_weights_that_were_broken_before_the_step(self) -> None:
        weights = {"fc.weight": statistics(np.array([1.0, math.nan]))}
        trigger = {"kind": "nan-loss", "held_back": True}
        given: dict[str, Any] = {"trigger": trigger, "weights": weights}
        finding = fired(RULE, bundle(loss=[*CALM, math.nan], **given))
        assert (finding.cause, finding.status, finding.phase) == ("invalid-operation", "hypothesis", "weights")
        assert "fc.weight was not finite before the step" in str(finding.headline)
        norms = [*[1e20] * 8, math.nan]
        assert fired(RULE, bundle(loss=[*CALM, math.nan], grad_norm=norms, **given)).cause == "exploding-gradients"
        # Where the update was let through, broken weights are its work.
        through = {**given, "trigger": "nan-loss"}
        assert fired(RULE, bundle(loss=[*CALM, math.nan], **through)).phase == "forward"

    def test_growth(self) -> None:
        losses = [*TestGrowth.growing, math.inf]
        finding = fired(RULE, bundle(loss=losses, learning_rate=2.0, trigger="inf-loss"))
        assert (finding.cause, finding.status) == ("learning-rate-too-high", "supported")

    def test_the_first_bad_step_of_a_run_that_went_on(self) -> None:
        finding = fired(RULE, bundle(loss=[*CALM, math.nan, math.nan, math.nan], trigger="nan-loss"))
        assert finding.step == len(CALM) + 1

    def test_only_a_kind_is_known(self) -> None:
        assert fired(RULE, bundle(trigger={"kind": "nonfinite-gradient", "step": 4})).cause == "singular-gradient"


def test_nan_in_a_run_that_nobody_stopped() -> None:
    finding = fired(RULE, bundle(loss=[*CALM, math.nan], trigger="manual"))
    assert finding.step == len(CALM) + 1


def test_quiet_on_finite_values() -> None:
    answer = quiet(RULE, bundle(loss=CALM))
    assert (answer.value, answer.threshold) == (0, 1)


def test_overflow_steps_of_loss_scaling_are_ordinary() -> None:
    norms = [1.0, math.inf, 1.0, math.inf, 1.0]
    assert quiet(RULE, bundle(loss=CALM[:5], grad_norm=norms, overflow=[0, 1, 0, 1, 0])).value == 0
    assert fired(RULE, bundle(loss=CALM[:5], grad_norm=norms, overflow=[0, 1, 0, 0, 0])).step == 4


def test_losses_that_were_not_recorded_are_no_nan() -> None:
    assert quiet(RULE, bundle(loss=[math.nan] * 5, grad_norm=[1.0] * 5)).value == 0


def test_a_bad_batch_is_another_rules_business() -> None:
    batch = {"x": statistics(np.array([[1.0, math.nan]], np.float32))}
    assert quiet(RULE, bundle(loss=[*CALM, math.nan], trigger="nan-loss", batch=batch)).value == 1


def test_a_break_with_finite_inputs_is_named_whatever_the_batch_holds() -> None:
    batch = {"x": statistics(np.array([[1.0, math.nan]], np.float32))}
    facts = autopsy("Log", inputs=[P], outputs=[INFINITE])
    assert fired(RULE, bundle(loss=[*CALM, math.nan], trigger="nan-loss", batch=batch, autopsy=facts)).cause


def test_skipped_without_a_trigger() -> None:
    assert skipped(RULE, bundle(loss=CALM, trigger=None)).missing == ("trigger",)


def test_collapsed_loss_scale_stays_the_graver_finding() -> None:
    facts = autopsy("SqrtGrad", inputs=[P], outputs=[BAD], phase="backward")
    finding = fired(RULE, bundle(loss=CALM, trigger="loss-scale-collapse", autopsy=facts))
    assert finding.score < 90


@pytest.mark.parametrize(
    "origin",
    [
        {"op": 3},
        {"op": "Log", "phase": "nowhere"},
        {
            "op": "Log",
            "phase": "forward",
            "inputs": "many",
            "outputs": 7,
            "source": [],
            "scalars": {},
            "float32": "yes",
        },
        {"op": "Log", "phase": "forward", "inputs": [1, None, {"min": "x", "shape": "?", "size": -4, "zero": 1e300}]},
        {"op": "Div", "phase": "backward", "inputs": [{"shape": [None] * 100}], "masked_rows": math.inf, "layer": 3},
        {
            "op": "Softmax",
            "phase": "loss",
            "float32": {"tried": True, "finite": "no"},
            "source": {"file": "", "line": {}},
        },
    ],
)
def test_hostile_facts(origin: dict[str, Any]) -> None:
    hostile = bundle(loss=[*CALM, math.nan], trigger="nan-loss", autopsy={"method": [], "origin": origin})
    diagnosis = diagnose(hostile)
    assert not diagnosis.failed
    assert fired(RULE, hostile).cause


def test_what_is_odd_about_the_batch_of_a_division_by_zero() -> None:
    values = np.random.default_rng(3).random((6, 4)).astype(np.float32)
    values[4] = 0
    facts = autopsy("Div", inputs=[np.ones(3), np.array([0.0, 1.0, 2.0])], outputs=[np.array([math.inf, 1.0, 0.5])])
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": facts}
    said = str(fired(RULE, bundle(**given, batch_tensors={"x": values})).explanation)
    assert "Why this step: sample 4 of column x is 0 throughout." in said
    figures = {"x": statistics(values)}
    evidence = fired(RULE, bundle(**given, batch=figures, batch_tensors={"x": values})).evidence[-1]
    assert (evidence.path, evidence.value) == ("/batch/statistics/zero", 4)
    assert "Why this step" not in str(fired(RULE, bundle(**given, batch_tensors={"x": values[:4]})).explanation)
    assert "Why this step" not in str(fired(RULE, bundle(**given, batch_tensors={"x": values * 0})).explanation)
    values[2] = 3
    said = str(fired(RULE, bundle(**given, batch_tensors={"x": values})).explanation)
    assert "samples 2, 4 of column x are each one number throughout (3.0)." in said


def test_a_sample_of_nothing_but_padding() -> None:
    tokens = np.arange(1, 25, dtype=np.int32).reshape(6, 4)
    tokens[5] = 0
    facts = autopsy("Softmax", inputs=[np.full((2, 2), -math.inf)], outputs=[BAD])
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "batch_tensors": {"tokens": tokens}}
    finding = fired(RULE, bundle(**given, autopsy=facts))
    assert finding.cause == "softmax-all-masked"
    assert "sample 5 of column tokens is 0 throughout" in str(finding.explanation)
    other = autopsy("Div", inputs=[ONES, P], outputs=[INFINITE])
    assert "Why this step" not in str(fired(RULE, bundle(**given, autopsy=other)).explanation)


@pytest.mark.parametrize(
    ("factor", "losses", "said"),
    [
        (50.0, [1.0, math.nan], True),
        (9.0, [1.0, math.nan], False),
        (50.0, [math.nan, math.nan], False),
    ],
)
def test_a_batch_far_outside_of_the_usual(factor: float, losses: list[float], said: bool) -> None:
    values = (np.random.default_rng(5).standard_normal((8, 16)) * factor).astype(np.float32)
    facts = autopsy("Exp", inputs=[ONES * 100], outputs=[INFINITE])
    given: dict[str, Any] = {"loss": losses, "trigger": "nan-loss", "autopsy": facts}
    finding = fired(RULE, bundle(**given, batch={"x": statistics(values), "ids": statistics(np.array([9999]))}))
    assert ("Why this step: its batch reaches" in str(finding.explanation)) is said
    peak = max(finding.evidence, key=lambda item: item.path.startswith("/batch"))
    assert (peak.path in ("/batch/statistics/max", "/batch/statistics/min")) is said
    if said:
        assert isinstance(peak.value, float)
        assert abs(peak.value) == pytest.approx(np.abs(values).max())


def test_one_sample_far_outside_is_enough() -> None:
    values = np.random.default_rng(6).standard_normal((64, 16)).astype(np.float32)
    values[3, 2] = -150.0
    facts = autopsy("Exp", inputs=[ONES * 100], outputs=[INFINITE])
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": facts}
    finding = fired(RULE, bundle(**given, batch={"x": statistics(values)}))
    assert (finding.evidence[-1].path, finding.evidence[-1].value) == ("/batch/statistics/min", -150.0)


@pytest.mark.parametrize(
    ("op", "inputs", "scalars", "masks"),
    [
        ("Add", [np.array([300.0], np.float16), np.array([-6e4, 0.0], np.float16)], [], True),
        ("Add", [np.array([-6e4, 6e4], np.float16), np.array([6e4, -6e4], np.float16)], [], False),
        ("Select", [np.array([1.0], np.float16), np.array([-1e9], np.float32)], [], True),
        ("MaskedFill", [np.array([1.0], np.float16)], [-1e9], True),
        ("Muls", [np.array([1.0, 0.0], np.float16)], [-1e9], True),
        ("Muls", [np.array([300.0], np.float16)], [-300.0], False),
        ("Cast", [np.array([0.0, -1e9], np.float32)], [], True),
        ("Cast", [np.array([1e5, -1e5], np.float32)], [], False),
        ("MatMul", [np.array([-3e4], np.float16), np.array([3e4], np.float16)], [], False),
    ],
)
def test_masks_are_spoken_of_where_there_is_one(op: str, inputs: list[Any], scalars: list[float], masks: bool) -> None:
    output = tensor(np.array([math.inf]), "float16")
    given = {"tried": True, "finite": True, "out_max": 1e9}
    finding = fired(RULE, broken(op, inputs, output, scalars=scalars, float32=given))
    assert finding.cause == "fp16-overflow"
    assert any("In a mask" in str(step) for step in finding.remedy) is masks


def test_bfloat16_is_no_way_out_on_a_cpu() -> None:
    facts = autopsy("Mul", inputs=[np.array([300.0], np.float16)], outputs=[np.array([math.inf], np.float16)])
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": facts}
    for target, offered in (("CPU", False), ("Ascend", True), (3, True)):
        finding = fired(RULE, bundle(**given, environment={"mindspore": {"device_target": target}}))
        assert any("bfloat16" in str(step) for step in finding.remedy) is offered


def test_a_conversion_of_the_programs_own_is_named_first() -> None:
    inputs = [tensor(np.array([300.0]), "float16"), tensor(np.array([300.0]), "float16")]
    facts = autopsy("Mul", inputs=inputs, outputs=[tensor(np.array([math.inf]), "float16")])
    rows = [
        {"name": "Cast", "dtype": "float16", "file": "/home/user/train.py", "line": 30},
        {"name": "Mul", "dtype": "float16", "file": "/home/user/train.py", "line": 34},
    ]
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": facts}
    finding = fired(RULE, bundle(**given, operators=rows))
    assert finding.cause == "fp16-overflow"
    assert str(finding.remedy[0]).startswith("train.py:30 converts to float16 itself")
    # A layer that is set to float16 converts where no conversion stands; one after the break is none of it.
    origin = {**facts["origin"], "row": 1}
    for text, broke, named in (
        ("h = self.second(h)", 1, False),
        ("h = h.astype(ms.float16)", 1, True),
        ("h = ops.cast(h, half)", 1, True),
        ("h = h.astype(ms.float16)", 0, False),
    ):
        place = {**origin["source"], "file": "/home/user/train.py", "context": [[30, text], "x", [1, 2, 3]]}
        there = {**facts, "origin": {**origin, "source": place, "row": broke}}
        finding = fired(RULE, bundle(**{**given, "autopsy": there}, operators=rows))
        assert ("converts to float16 itself" in str(finding.remedy[0])) is named, text
    assert "to_float" in str(fired(RULE, bundle(**given, operators=rows[1:])).remedy[0])


@pytest.mark.parametrize(
    "column",
    [
        {"dtype": "float32", "shape": "4,4", "std": math.inf, "min": math.nan, "max": math.nan},
        {"dtype": "float32", "shape": "", "std": math.nan, "min": -1e30, "max": math.inf},
        {"dtype": "float32", "shape": "4,4", "std": -1.0, "min": 0.5, "max": 0.5},
    ],
)
def test_hostile_figures_of_the_batch(column: dict[str, Any]) -> None:
    facts = autopsy("Exp", inputs=[ONES * 100], outputs=[INFINITE])
    single = {"x": np.arange(4, dtype=np.float32).reshape(4, 1), "n": np.float32(3)}
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "batch_tensors": single}
    assert fired(RULE, bundle(**given, autopsy=facts, batch={"x": column})).cause == "exp-overflow"
    facts = autopsy("Div", inputs=[ONES, P], outputs=[INFINITE])
    assert "sample" not in str(fired(RULE, bundle(**given, autopsy=facts, batch={"x": column})).explanation)


def test_inputs_without_a_finite_element_or_a_type() -> None:
    facts = autopsy("Mul", inputs=[{"nan": 4}, tensor(ONES, "float32")], outputs=[BAD])
    notes = [
        str(item.note) for item in fired(RULE, bundle(loss=[1.0, math.nan], trigger="nan-loss", autopsy=facts)).evidence
    ]
    assert notes[0] == "input 1 of Mul: no finite element"
    assert notes[1].startswith("input 2 of Mul (float32): largest 1.0")


@pytest.mark.parametrize(("factor", "first"), [(50.0, "Check the scaling of the batch"), (1.0, "Keep the named")])
def test_a_batch_out_of_range_comes_before_its_type(factor: float, first: str) -> None:
    values = (np.random.default_rng(5).standard_normal((8, 16)) * factor).astype(np.float32)
    facts = {"tried": True, "finite": True, "out_max": 1e6}
    broke = autopsy("MatMul", inputs=[ONES], outputs=[np.array([math.inf], np.float16)], float32=facts)
    given: dict[str, Any] = {"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": broke}
    finding = fired(RULE, bundle(**given, batch={"x": statistics(values)}))
    assert finding.cause == "fp16-overflow"
    assert str(finding.remedy[0]).startswith(first)
    assert "finite there" in str(finding.explanation)
    assert "sound" not in str(finding.explanation)


@pytest.mark.parametrize(("scale", "said"), [(1024.0, True), (1.0, False)])
def test_no_word_of_a_loss_scale_that_is_not_used(scale: float, said: bool) -> None:
    given = autopsy("SqrtGrad", inputs=[P], outputs=[INFINITE], phase="backward")
    finding = fired(RULE, bundle(loss=[1.0, 1.0], loss_scale=scale, trigger="nonfinite-gradient", autopsy=given))
    assert finding.cause == "singular-gradient"
    assert "square root" in str(finding.remedy[0])
    assert any("loss scale" in str(step) for step in finding.remedy) is said


def vanished(producer: str, line: str = "log = ops.log(p)", **more: Any) -> list[str]:
    """The steps where Log met a float16 zero of that producer."""
    half = tensor(np.array([0.0, 0.5]), "float16", producer_op=producer)
    place = {"file": "/home/user/train.py", "line": 34, "code": line, "context": [[34, line]]}
    facts = {"tried": True, "finite": True, "input_min": 1e-9, "input_max": 1.0, "out_min": -20.5, "out_max": 0.0}
    broke = autopsy("Log", inputs=[half], outputs=[np.array([-math.inf, 0], np.float16)], float32=facts, source=place)
    weights = {"a.weight": statistics(ONES)}
    finding = fired(
        RULE, bundle(**{"loss": [1.0, math.nan], "trigger": "nan-loss", "autopsy": broke, "weights": weights, **more})
    )
    assert finding.cause == "fp16-underflow"
    return [str(step) for step in finding.remedy]


def test_a_zero_that_was_there_before_is_not_mended_by_a_conversion_after_it() -> None:
    steps = vanished("Softmax")
    assert "Keep Softmax in float32 as well as Log" in steps[0]
    assert "too late" in steps[0]
    assert "ops.log_softmax" in steps[1]
    rows = [
        {"name": "Cast", "dtype": "float16", "file": "/home/user/train.py", "line": 34},
        {"name": "Softmax", "dtype": "float16", "file": "/home/user/train.py", "line": 34},
    ]
    named = vanished("Softmax", "p = ops.softmax(x.astype(ms.float16))", operators=rows)
    assert named[0].startswith("train.py:34 converts to float16 itself: leave that out, or convert back to float32 bef")
    assert "before Softmax at the latest, for its result is 0" in named[0]
    assert "log_softmax" not in " ".join(vanished("Mul"))
    # Where the conversion itself lost it, or nobody is known to have, the operator's own inputs are the place.
    for producer in ("Cast", ""):
        assert vanished(producer)[0].startswith("Keep the named operator in float32")


def test_steps_that_the_bundle_rules_out_are_not_offered() -> None:
    assert not any("epsilon" in step or "amp_level" in step for step in vanished("Softmax"))
    assert any("epsilon" in step for step in vanished("Add", "log = ops.log(p + 1e-8)"))
    assert any("epsilon" in step for step in vanished("Add", "log = ops.log(p + self.eps)"))
    half = {"a.weight": statistics(ONES.astype(np.float16))}
    assert any("amp_level" in step for step in vanished("Softmax", weights=half))
    assert any("amp_level" in step for step in vanished("Softmax", weights={}))


def test_an_empty_row_is_not_mended_by_multiplying_nan() -> None:
    steps = [str(step) for step in fired(RULE, broken("Softmax", [ONES], masked_rows=2)).remedy]
    assert not any(step.startswith("Multiply") for step in steps)
    assert any("set the attention's result to 0" in step and "finite number" in step for step in steps)


def test_the_largest_of_integers_has_no_decimal_point() -> None:
    notes = [
        str(item.note) for item in fired(RULE, broken("CrossEntropyLoss", [P, np.array([1, 2], np.int32)])).evidence
    ]
    assert notes[1] == "input 2 of CrossEntropyLoss (int32): largest 2, zeros 0, negative 0"


@pytest.mark.parametrize(
    ("below", "first"), [("Sqrt", "Keep Sqrt in float32 as well as Div"), ("Cast", "Keep the named")]
)
def test_the_zero_that_divides_is_the_one_that_counts(below: str, first: str) -> None:
    above, half = tensor(np.array([0.0, 0.5]), "float16", producer_op="SubExt"), np.array([math.nan, 1], np.float16)
    facts = {"tried": True, "finite": True, "input_min": 1e-9, "input_max": 1.0, "out_min": -2.0, "out_max": 2.0}
    given = [above, tensor(np.array([0.0, 0.5]), "float16", producer_op=below)]
    finding = fired(RULE, broken("Div", given, half, float32=facts))
    assert finding.cause == "fp16-underflow"
    assert str(finding.remedy[0]).startswith(first)
