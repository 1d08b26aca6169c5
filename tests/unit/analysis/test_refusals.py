"""What an operator refused, in the framework's words and in ours."""

from __future__ import annotations

import pytest

from forensics.analysis.refusals import operator, refusal, shape, wrong_kind_of_input


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "For 'MatMul' the input dimensions must be equal, but got 'x1_col': 20 and 'x2_row': 16.",
            "MatMul cannot multiply 20 columns by 16 rows",
        ),
        (
            "For 'MatMulExt' op, shape1[-1] must be equal to shape2[-2], but got 20 and 16.",
            "MatMul cannot multiply 20 columns by 16 rows",
        ),
        (
            "For 'AddExt', input.shape and other.shape need to broadcast. The value of input.shape[2] or "
            "other.shape[2] must "
            "be 1 or -1 when they are not the same, but got input.shape = [3, 4] and other.shape = [5, 4]",
            "Add cannot broadcast (3, 4) with (5, 4)",
        ),
        (
            "For BatchMatMul, inputs shape cannot be broadcast on CPU/GPU, with x shape [const vector]{2, 3, 4}, y "
            "shape "
            "[const vector]{3, 4, 5}",
            "BatchMatMul cannot broadcast (2, 3, 4) with (3, 4, 5)",
        ),
        (
            "For 'BroadcastTo', in order to broadcast, each dimension pair must be equal or input dimension is 1 or "
            "target "
            "dimension is -1. But got x_shape: [const vector]{2, 5}, target shape: [const vector]{4, 5}.",
            "BroadcastTo cannot widen (2, 5) to (4, 5)",
        ),
        (
            "proposed_shape '[const vector]{16, 32}' is invalid for input of size 192",
            "Reshape cannot make (16, 32) out of 192 elements",
        ),
        (
            "For primitive[Reshape], the accumulate of x_shape must be equal to out_shape, but got x_shape: [const "
            "vector]"
            "{6, 32}, and out_shape: [const vector]{16, 32}",
            "Reshape cannot make (16, 32) out of (6, 32)",
        ),
        ("cannot reshape array of size 12 into shape (5,)", "NumPy's reshape cannot make (5,) out of 12 elements"),
        (
            "All input shape must be the same! [const vector]{3, 5} And [const vector]{3, 4}",
            "tensors of shapes (3, 5) and (3, 4) cannot be stacked",
        ),
        (
            "For primitive[BinaryCrossEntropy], the input_shape: [4,3,] must be equal to [5,3,]",
            "BinaryCrossEntropy needs equal shapes, and received (4, 3) and (5, 3)",
        ),
        (
            "For BatchNorm, scale.shape[0] should be equal to input_x's channel dimension: 3, bug got "
            "scale.shape[0]: 5.",
            "BatchNorm received 3 channels and expects 5",
        ),
        (
            "For GroupNorm, shape of weight and bias should be equal to input_x's channel dimension: 6, bug got shape: "
            "[const vector]{8}.",
            "GroupNorm received 6 channels and expects 8",
        ),
        (
            "For 'LayerNorm', gamma or beta shape must match input shape, but got input shape: [const vector]{2, 3}, "
            "gamma "
            "shape: [const vector]{5}, beta shape: [const vector]{5}.",
            "LayerNorm received (2, 3) and normalizes over (5,)",
        ),
        (
            "For primitive[Conv2D], the x shape size must be equal to 4, but got 3.",
            "Conv2D received 3 dimensions and expects 4",
        ),
        (
            "For primitive[LSTM], the x_shape[2] must be equal to 10, but got 8.",
            "LSTM received size 8 along axis 2 and expects 10",
        ),
        (
            "For primitive[Softmax], the axis must be in [-2,2), but got 5.",
            "Softmax was given axis 5 for a tensor of 2 dimensions",
        ),
        (
            "For 'Transpose', size of perm should equal to rank of x, but got 3 and 2!",
            "Transpose was given 3 axes for a tensor of 2 dimensions",
        ),
        (
            "operands could not be broadcast together with shapes (3,4) (5,4) ",
            "NumPy cannot broadcast (3, 4) with (5, 4)",
        ),
        (
            "For 'GatherD', the value of 'index' must be in [-3, 3), but got: 7",
            "GatherD was given index 7 and takes -3 to 2",
        ),
        (
            "For 'StridedSlice', the 'strides[0]' cannot be negative number and 'begin[0]' must be in [-3, 3) when "
            "'shrink_axis_mask' is greater than 0, but got 'strides[0]': 1, 'begin[0]': 5.",
            "index 5 is outside of -3 to 2, along axis 0",
        ),
        ("label[index] = 9, got error label, label should be in [0, 4)", "label 9 is outside of 0 to 3"),
        (
            "For 'MatMulExt', the type of 'x2' should be same as 'x1', but got 'x1' with type Tensor[Float32] and "
            "'x2' with "
            "type Tensor[Float16].",
            "MatMul received Float32 and Float16, which must be of one dtype",
        ),
        (
            "For primitive[Conv2D], the input type must be "
            "same.\nname:[w]:Ref[Tensor[Float32]].\nname:[x]:Tensor[Float16].",
            "Conv2D received Float16 and Float32, which must be of one dtype",
        ),
        (
            "For primitive[OneHot], the input argument[indices] must be a type of {Tensor[Int32], Tensor[Int64]}, "
            "but got "
            "Tensor[Float32].",
            "OneHot takes no Float32; it takes Int32, Int64",
        ),
        (
            "For 'CrossEntropyLoss', the 'labels' should be Int32, but got 'mindspore.int64'.",
            "CrossEntropyLoss takes labels or indices of Int32, and received int64",
        ),
        ("Unsupported op [FloatStatus] on CPU, Please confirm", "FloatStatus does not exist on the CPU"),
        ("The kernel FlashAttentionScore unregistered.", "FlashAttentionScore does not exist on this device"),
        (
            'Failed calling Add with "Add()(input=Tensor, other=string)".',
            "Add does not take these arguments: input=Tensor, other=string",
        ),
        ('Failed calling ReLU with "input=External".', "ReLU does not take these arguments: input=External"),
    ],
)
def test_figures_are_read_out_of_the_message(text: str, sentence: str) -> None:
    assert str(refusal(text)) == sentence


@pytest.mark.parametrize("text", ["", "mystery", "For 'MatMul', something else entirely", "shapes (3, 4) and (5, 4)"])
def test_nothing_is_said_of_other_texts(text: str) -> None:
    assert refusal(text) is None


def test_names() -> None:
    assert [operator(name) for name in ("AddExt", "MatMul", "Ext", "GatherDGradV2")] == [
        "Add",
        "MatMul",
        "Ext",
        "GatherDGrad",
    ]
    assert (shape("2, 3"), shape("[5,]"), shape("")) == ("(2, 3)", "(5,)", "()")


@pytest.mark.parametrize(
    "text", ["For '" * 20_000, "For '" + "A" * 100_000, "got x_shape: {" * 10_000, "[" * 100_000, "1, " * 30_000]
)
def test_hostile_texts(text: str) -> None:
    assert refusal(text) is None


def test_braces_of_a_message_are_no_fields() -> None:
    assert str(refusal('Failed calling Add with "Add()(input={x}, other={0})".')).endswith("input={x}, other={0}")


KERNEL = (
    "Select CPU operator[{op}] fail! Unsupported data type!\nThe supported data types are {known}; , but get "
    "input[{given} ] and output[Float32 ]\nnode: @x"
)


@pytest.mark.parametrize(
    ("op", "known", "given", "sentence"),
    [
        (
            "Gather",
            "input[Float16 Int32 Int64], output[Float16]; input[Float32 Int64 Int64], output[Float32]",
            "Float32 Float32 Int64",
            "Gather takes no Float32 as input 2; it takes Int32, Int64",
        ),
        (
            "Log",
            "input[Float32], output[Float32]; input[Complex64], output[Complex64]",
            "Bool",
            "Log takes no Bool as input 1; it takes Complex64, Float32",
        ),
        (
            "Conv2D",
            "input[Float32 Float32], output[Float32]",
            "BFloat16 BFloat16",
            "Conv2D does not exist on the CPU for (BFloat16, BFloat16)",
        ),
        (
            "Conv2D",
            "input[Float32 Float32], output[Float32]",
            "Float16",
            "Conv2D does not exist on the CPU for (Float16)",
        ),
    ],
)
def test_an_input_of_another_kind_is_told_from_a_kernel_that_is_lacking(
    op: str, known: str, given: str, sentence: str
) -> None:
    text = KERNEL.format(op=op, known=known, given=given)
    assert str(refusal(text)) == sentence
    assert wrong_kind_of_input(text) is ("takes no" in sentence)


def test_no_kernel_is_spoken_of() -> None:
    assert not wrong_kind_of_input("For 'MatMul' the input dimensions must be equal")
