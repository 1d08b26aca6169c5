"""What to do about each numerical cause: concrete, in order, with MindSpore's own names, and how to confirm."""

from __future__ import annotations

from forensics.analysis.message import Message, t

CONFIRM = t(
    "To confirm, run the fatal step again with the change: the bundle holds its batch (/batch/tensors) and the weights "
    "from before it (/weights/tensors), and h5py opens them."
)
PADDING = t("Leave out or repair samples that are nothing but padding: look for them in the batch of the bundle.")
CLIP = t("Clip the gradients: ops.clip_by_global_norm(grads, 1.0) between the gradients and the optimizer.")
LOWER_RATE = t("To confirm, go on from the checkpoint before with the lower rate: the loss stays on its level.")
WARM_UP = t(
    "Warm it up over the first few hundred steps: nn.warmup_lr or nn.WarmUpLR; after a resume, continue the schedule "
    "where it was instead of at its peak."
)
RESUME = t(
    "Nothing failed inside: the scheduler or an operator asked the process to end. Resume from the last checkpoint or "
    "from the bundle's weights."
)
EPSILON_16 = t("Use an epsilon that float16 can hold: 1e-4 rather than 1e-8, which is 0 there.")
WEIGHTS_16 = t(
    "Keep the weights in float32 (amp_level O1 or O2 does, O3 does not) and use dynamic loss scaling for the gradients "
    "(mindspore.amp.DynamicLossScaler)."
)
_BFLOAT16 = t("On devices that support it, train in bfloat16, which has float32's range.")
SCALING = t(
    "Check the scaling of the batch: it is far out of the range of standardised inputs. Standardise them to mean 0 and "
    "deviation 1, and compare with a batch of the steps before."
)
_MASK = t("In a mask, use -1e4 in place of -1e9: the latter is −inf in float16.")

_BRANCH = t(
    "With ops.where, bound the input and not the result: the gradient of the branch that is not chosen is multiplied "
    "by 0, and 0 × inf is NaN."
)
_NO_CLIPPING = t("Gradient clipping does not help: the gradient is infinite or NaN whatever it is multiplied by.")
_NO_SCALE = t("A lower loss scale or gradient clipping does not help: the gradient is infinite or NaN at any scale.")
_IN_HALF = t("In float16 use 1e-4 in such a bound, for 1e-12 is 0 there.")
# By a part of the operator's name, in lower case; what is more telling first.
_AWAY: dict[str, Message] = {
    "norm": t(
        "The derivative of a norm is infinite or NaN at 0: write it as ops.sqrt((x * x).sum(-1) + 1e-12), and look for "
        "rows that are zero throughout."
    ),
    "sqrt": t("The derivative of a square root is infinite at 0: move its argument away, ops.sqrt(x + 1e-12)."),
    "pow": t(
        "The derivative of a power below one is infinite at 0: bound its base, ops.pow(ops.clamp(x, min=1e-6), p)."
    ),
}

REMEDIES: dict[str, tuple[Message, ...]] = {
    "log-of-nonpositive": (
        t(
            "Take the logarithm and what feeds it in one operator: ops.log_softmax or nn.CrossEntropyLoss on logits "
            "in place of log(softmax(x)), nn.BCEWithLogitsLoss in place of log(sigmoid(x))."
        ),
        t(
            "Elsewhere bound the argument before the logarithm: ops.log(ops.clamp(x, min=1e-7)); in float16 the "
            "bound must be 1e-4 or more, for 1e-8 is 0 there."
        ),
        t(
            "If the argument must not become zero or negative at all, find out why it does: an unnormalised "
            "probability, a product that underflows, a subtraction."
        ),
        CONFIRM,
    ),
    "division-by-zero": (
        t(
            "Add a small number inside the denominator, not outside of it: x / (y + 1e-6), or ops.rsqrt(variance + "
            "1e-6)."
        ),
        t(
            "Where the denominator is a count (a mask's sum, the number of valid labels) divide by "
            "ops.maximum(count, 1)."
        ),
        t(
            "Where it is a deviation or a norm, look for constant or all-zero samples in the batch, and give "
            "nn.LayerNorm or ops.L2Normalize their epsilon."
        ),
        CONFIRM,
    ),
    "invalid-operation": (
        t(
            "Bound the argument to where the function is defined: ops.clamp(x, min=0) before a root, ops.clamp(x, -1 "
            "+ 1e-6, 1 - 1e-6) before acos or atanh."
        ),
        t(
            "For inf − inf or 0 × inf, replace the infinity that the program puts in by a large finite number, such "
            "as -1e4 in a float16 mask."
        ),
        t(
            "Do not choose the good branch with ops.where after the fact: bound the input first, for the gradient of "
            "the bad branch is NaN all the same."
        ),
        CONFIRM,
    ),
    "exp-overflow": (
        t(
            "Subtract the largest entry before the exponential, or use the operator that does: ops.softmax, "
            "ops.log_softmax, ops.logsumexp."
        ),
        t("Bound the argument: ops.exp(ops.clamp(x, max=80.0)) in float32, max=10.0 in float16."),
        t(
            "For a variance or a scale that the network predicts as a logarithm, bound that logarithm, for example "
            "to [-10, 10]."
        ),
        CONFIRM,
    ),
    "softmax-all-masked": (
        t(
            "Mask with a large finite number in place of −inf: -1e9 in float32, -1e4 in float16; a row that is "
            "masked out entirely then gives equal weights."
        ),
        PADDING,
        t(
            "If an empty row is to contribute nothing, set the attention's result to 0 there, with ops.where or "
            "ops.masked_fill, on top of the finite number above. Multiplying by the mask does not help, for 0 × NaN is "
            "NaN; nor does ops.where alone, for the gradient stays NaN."
        ),
        CONFIRM,
    ),
    "singular-gradient": (
        t(
            "Move the argument away from the singular point before the operator: ops.sqrt(x + 1e-12), a norm as "
            "ops.sqrt((x * x).sum(-1) + 1e-12), ops.pow(ops.clamp(x, min=1e-6), p); in float16 with 1e-4, for 1e-12 "
            "is 0 there."
        ),
        _BRANCH,
        _NO_CLIPPING,
        CONFIRM,
    ),
    "fp16-overflow": (
        t(
            "Keep the named operator, and the layer around it, in float32: cell.to_float(mindspore.float32), or "
            "amp.custom_mixed_precision with that cell in the black list."
        ),
        t(
            "Bring the magnitudes down before it: normalise (nn.LayerNorm), or scale the logits or the attention "
            "scores before they are multiplied or summed."
        ),
        _BFLOAT16,
        _MASK,
        CONFIRM,
    ),
    "fp16-underflow": (
        t(
            "Keep the named operator in float32: cast its input with ops.cast(x, mindspore.float32), or "
            "cell.to_float(mindspore.float32)."
        ),
        EPSILON_16,
        WEIGHTS_16,
        CONFIRM,
    ),
    "learning-rate-too-high": (
        t(
            "Lower the learning rate by a factor of ten and train the same steps again; if the loss then falls, "
            "halve the distance."
        ),
        WARM_UP,
        CLIP,
        LOWER_RATE,
    ),
    "exploding-gradients": (
        CLIP,
        t(
            "Look at the parameter that leads the growth: normalise in front of it (nn.LayerNorm), or start it "
            "smaller; for recurrent layers, shorten the sequences or start the recurrent weights orthogonal."
        ),
        t("Look at the batches of the last steps for a sample unlike the others."),
        t("To confirm, train the same steps with clipping on: the loss stays on its level."),
    ),
    "bad-initialisation": (
        t(
            "Start weights by their fan-in: HeNormal before ReLU, XavierUniform before tanh "
            "(mindspore.common.initializer)."
        ),
        t("Look at the input's scale as well: standardise it to mean 0 and deviation 1."),
        t("To confirm, look at the loss of the first step: for C classes it should be near ln(C)."),
    ),
    "optimizer-state": (
        t(
            "After a resume, load the optimizer's state along with the weights: "
            "mindspore.load_param_into_net(optimizer, parameters), and look at the names that it returns as not "
            "loaded."
        ),
        t("Keep the moments in float32 and the epsilon at what their type can hold (1e-8 is 0 in float16)."),
        t("If the state is lost, warm the learning rate up again: fresh moments make the first steps too large."),
        t(
            "To confirm, resume once with the state and once without: only without it do the first steps raise the "
            "loss."
        ),
    ),
    "label-out-of-range": (
        t(
            "Compare the labels' or ids' range with the model's: num_classes of the last layer, vocab_size of the "
            "embedding. Labels start at 0."
        ),
        t(
            "Look for 1-based labels, for padding or ignore values that the loss does not know, and for a tokenizer "
            "with added tokens."
        ),
        t(
            "To find the samples, check `labels.max()` over the dataset before training; on the CPU some operators "
            "accept wrong indices silently."
        ),
        t("To confirm, run the step again with these samples left out."),
    ),
}


def fitting(cause: str, *, device: str, mask: bool) -> tuple[Message, ...]:
    """The steps for a cause, without those that cannot apply.

    Args:
        device: MindSpore's device_target, "" where it is not known; bfloat16 is no way out on a CPU.
        mask: whether a large negative constant took part, as in an attention mask. Then its step comes first.
    """
    steps = REMEDIES.get(cause, ())
    kept = tuple(step for step in steps if step is not _MASK and not (step is _BFLOAT16 and device.upper() == "CPU"))
    return (_MASK, *kept) if mask and _MASK in steps else kept


def at_singular_point(op: str, *, half: bool, scaled: bool) -> tuple[Message, ...]:
    """The steps for a derivative that is infinite, fitted to the operator.

    Args:
        op: the operator's name; "" where it is not known.
        half: whether the network computes in float16.
        scaled: whether a loss scale other than 1 is used.
    """
    general, *others = REMEDIES["singular-gradient"]
    first = next((step for part, step in _AWAY.items() if part in op.lower()), None)
    ways = (general,) if first is None else (first, _IN_HALF) if half else (first,)
    return (*ways, *(_NO_SCALE if scaled and step is _NO_CLIPPING else step for step in others))
