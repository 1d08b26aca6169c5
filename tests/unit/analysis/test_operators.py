"""Every spelling of an operator has its family."""

from __future__ import annotations

import pytest

from forensics.analysis.operators import base_name, family, is_gradient


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        *[
            (op, "log")
            for op in [
                "Log",
                "Log1p",
                "Log2",
                "Log10",
                "InplaceLog",
                "Xlogy",
                "XLogYScalarOther",
                "Logit",
                "LogitGrad",
                "KLDiv",
            ]
        ],
        *[
            (op, "division")
            for op in [
                "Div",
                "Divs",
                "DivMod",
                "DivMods",
                "RealDiv",
                "InplaceDiv",
                "InplaceDivs",
                "Reciprocal",
                "ReciprocalGrad",
                "Inv",
                "Rsqrt",
                "RsqrtGrad",
                "FloorDiv",
                "FloorDivScalar",
                "FmodTensor",
                "RemainderTensorScalar",
                "Xdivy",
                "AddcdivExt",
                "TruncateMod",
            ]
        ],
        *[(op, "power") for op in ["Pow", "PowTensorScalar", "PowScalarTensor", "Square"]],
        *[(op, "root") for op in ["Sqrt", "SqrtGrad"]],
        *[
            (op, "exponential")
            for op in ["Exp", "Expm1", "Exp2", "InplaceExp", "Sinh", "Cosh", "SoftplusExt", "LogSumExp", "LogAddExp"]
        ],
        *[(op, "softmax") for op in ["Softmax", "LogSoftmax", "LogSoftmaxExt", "LogSoftmaxGrad", "SoftmaxBackward"]],
        *[(op, "difference") for op in ["Sub", "SubExt", "SubScalar", "Add", "AddExt", "AddScalar", "InplaceSubExt"]],
        *[
            (op, "product")
            for op in [
                "Mul",
                "Muls",
                "MatMul",
                "MatMulExt",
                "BatchMatMul",
                "BatchMatMulExt",
                "Dense",
                "Conv2D",
                "Conv2DExt",
            ]
        ],
        *[
            (op, "sum")
            for op in ["ReduceSum", "SumExt", "Norm", "LpNorm", "LpNormV2", "LinalgVectorNorm", "CumsumExt", "BiasAdd"]
        ],
        *[
            (op, "normalization")
            for op in ["LayerNorm", "LayerNormExt", "LayerNormGradV3", "BatchNorm", "L2Normalize", "RmsNorm"]
        ],
        *[
            (op, "domain")
            for op in ["ACos", "AcosExt", "AcosGrad", "Asin", "ACosh", "Acosh", "Atanh", "Erfinv", "Lgamma", "Digamma"]
        ],
        *[
            (op, "label")
            for op in ["SparseSoftmaxCrossEntropyWithLogits", "NLLLoss", "GatherD", "GatherDGradV2", "OneHotExt"]
        ],
        *[(op, "cast") for op in ["Cast", "ToDtype"]],
        *[
            (op, "fill")
            for op in ["MaskedFill", "MaskedFillScalar", "FillTensor", "FullLike", "Select", "SelectExtView"]
        ],
        *[(op, "optimizer") for op in ["ApplyMomentum", "AdamWeightDecay", "ApplyAdamW"]],
        *[(op, "linear-algebra") for op in ["Cholesky", "MatrixInverse", "LogMatrixDeterminant", "Svd"]],
        *[(op, "attention") for op in ["FlashAttentionScore", "PromptFlashAttention"]],
        *[(op, "unknown") for op in ["ReLU", "Reshape", "GeLU", "Transpose", "TotallyOwn"]],
    ],
)
def test_families(op: str, expected: str) -> None:
    assert family(op) == expected
    assert family(f"Default/network-TrainOneStepCell/{op}-op123") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("lp = ops.log(p)", "log"),
        ("z = x / y", "division"),
        ("open('a//b')", "unknown"),
        ("s = ops.softmax(log_scores)", "softmax"),
        ("r = mint.sqrt(v)", "root"),
        ("q = x ** 0.5", "power"),
        ("a = ops.arccos(c)", "domain"),
        ("e = mint.exp(x)", "exponential"),
        ("self.logger(x)", "unknown"),
    ],
)
def test_a_cell_of_the_users_own_is_read_by_its_code(code: str, expected: str) -> None:
    assert family("LabelSmoothing", code) == expected
    # A name that says it all needs no code.
    assert family("MatMul", code) == "product"


def test_names() -> None:
    assert base_name("Default/net/PrimFunc_Div-op3") == "div"
    assert base_name("") == ""
    assert family("") == "unknown"
    assert is_gradient("Default/SqrtGrad-op1")
    assert is_gradient("SoftmaxBackward")
    assert is_gradient("GeluGradExt")
    assert not is_gradient("Sqrt")
