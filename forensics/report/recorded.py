"""Sentences that the recorder wrote into the bundle, in English, said in the reader's language.

A bundle holds text, so that its sentences are known again by their words; whatever is none of them stays as it is.
"""

from __future__ import annotations

import re
from functools import cache

from forensics.analysis.message import Message
from forensics.analysis.message import t as message
from forensics.report.speech import Speech

# Longer ones are no sentence of the recorder's.
_LONGEST = 1000
_FIELD = re.compile(r"\\\{(\w+)\\\}")
# The most exact first: of several that fit, the first is taken.
KNOWN: tuple[Message, ...] = (
    # why a bundle was written
    message("the loss is NaN"),
    message("the loss is infinite"),
    message("the loss is minus infinite"),
    message("gradients were NaN or Inf {steps} steps before"),
    message("{count} gradient elements are NaN or Inf while the loss is {loss}"),
    message("{count} gradient elements are NaN or Inf"),
    message("the weight {name} and {others} more is NaN or Inf"),
    message("the weight {name} is NaN or Inf"),
    message("the device reports an overflow (saturation mode)"),
    message("gradients overflow at a loss scale of {scale}"),
    message("gradients overflowed {count} times in a row"),
    message("the loss jumped to {loss}, from {usual}"),
    message("no step for {seconds} s"),
    message("the run finished after step {step}"),
    message("{signal} ({fault}); last heard of {doing}"),
    message("last heard of {doing}; its interpreter did not answer any more"),
    message("last heard of {doing}"),
    # what the process was doing
    message("starting"),
    message("waiting for input after step {step}"),
    message("computing step {step}"),
    message("writing a bundle at step {step}"),
    message("evaluating after step {step}"),
    message("ending, after an exception at step {step}"),
    message("doing what it did not say"),
    # why a section is not there
    message("training had not begun"),
    message("the recorder did not get that far"),
    message("the recorder failed: {error}"),
    message("the recorder failed"),
    message("nothing was read from the device, which may be what hangs"),
    message("the batch is not at hand: no step is under way, or it never passes through the host (sink mode)"),
    message("the batch is not at hand"),
    message("the forward pass is not known"),
    message("recorder.step() was called without batch="),
    message("what recorder.step() was given as batch= holds no tensor"),
    message("a loop gives its batch by recorder.step(batch=...), and this step had not come to that line"),
    message("the loop called step() but not watch(), so that the network and its optimizer are not known"),
    message("the optimizer that watch() returned was not called: no gradient is measured, no update held back"),
    message("weights were not asked for"),
    message("gradients were not asked for"),
    message("the gradient tap failed to install"),
    message("there is no train cell"),
    message("{cell} has no optimizer that the gradient tap could stand before"),
    message("{cell} gives sparse gradients, which cannot be measured in a graph"),
    message("the train cell computed no gradients where the recorder measures them"),
    message("gradients are measured where the optimizer is called, and only steps that do not overflow call it"),
    message("larger than the {bytes} bytes that a bundle leaves for it"),
    message("it was in the memory of a process that died without a word"),
    message("a run that finishes writes no bundle unless it is asked to"),
    message("the file beside the ring that tells of it is not there, or damaged"),
    message("left out of this copy by msforensics slim"),
)


def said(text: str, t: Speech) -> str:
    """A sentence of the recorder's in the reader's language; anything else as it is."""
    if t.language == "en" or len(text) > _LONGEST:
        return text
    known = _known(text)
    return text if known is None else t(known)


def _known(text: str) -> Message | None:
    """The sentence that a text is, with its values; those that are sentences themselves too."""
    for sentence, pattern in _patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            return Message(
                sentence.template,
                {
                    name: (_known(value) if name == "doing" else None) or value
                    for name, value in found.groupdict().items()
                },
            )
    return None


@cache
def _patterns() -> tuple[tuple[Message, re.Pattern[str]], ...]:
    return tuple((item, re.compile(_FIELD.sub(r"(?P<\1>.+?)", re.escape(item.template)))) for item in KNOWN)
