"""Operators by what can go wrong in them. MindSpore spells one operator in many ways (Div, Divs, RealDiv, InplaceDiv,
DivMod): all spellings of a family are here and nowhere else."""

from __future__ import annotations

import re
from typing import Literal

Family = Literal[
    "log",
    "division",
    "normalization",
    "root",
    "power",
    "exponential",
    "softmax",
    "attention",
    "domain",
    "linear-algebra",
    "difference",
    "product",
    "sum",
    "cast",
    "fill",
    "label",
    "optimizer",
    "unknown",
]

# Without the endings that only tell how an operator is called; see `base_name`.
_FAMILIES: dict[Family, str] = {
    "log": "log log2 log10 log1p xlogy logit kldiv kldivloss binarycrossentropy bceloss",
    "division": "div divmod realdiv xdivy floordiv floordivide floormod mod fmod remainder truncatediv truncatemod "
    "addcdiv scatterdiv tensorscatterdiv scatternddiv reciprocal inv rsqrt fusedaddtopkdiv",
    "normalization": "l2normalize layernorm batchnorm batchnormelemt batchnorm1d batchnorm2d batchnorm3d groupnorm "
    "instancenorm instancenorm1d instancenorm2d instancenorm3d rmsnorm addrmsnorm addlayernorm cosinesimilarity "
    "cosineembeddingloss std stdmean reducestd var varmean renorm mean reducemean lrn dropout dropout2d dropout3d "
    "syncbatchnorm",
    "root": "sqrt",
    "power": "pow powtensor square cube",
    "exponential": "exp exp2 expm1 sinh cosh softplus logsumexp matrixexp logaddexp logaddexp2 cumulativelogsumexp "
    "besseli0 besseli1",
    "softmax": "softmax logsoftmax softmaxcrossentropywithlogits moegatingtopksoftmax",
    "attention": "flashattentionscore promptflashattention increflashattention fusedinferattentionscore "
    "pagedattention speedfusionattention ringattentionupdate sparseflashattention scaleddotproductattention "
    "multiheadattention",
    "domain": "acos asin acosh atanh erfinv lgamma digamma polygamma mvlgamma igamma igammac zeta tan betainc "
    "besselk0 besselk1 bessely0 bessely1",
    "linear-algebra": "cholesky choleskyinverse choleskysolve matrixinverse matrixdeterminant logmatrixdeterminant "
    "svd eig eigh selfadjointeig qr linalgqr geqrf lu lusolve matrixsolve matrixsolvels matrixtriangularsolve "
    "solvetriangular triangularsolve lstsq matrixlogarithm matrixpower tridiagonalsolve",
    "difference": "sub add bias_add neg inplacesub inplaceadd",
    "product": "mul matmul batchmatmul mm mv bmm dot vdot outer ger addmm addmv addbmm baddbmm dense conv1d conv2d "
    "conv3d convolution convolutionstr convtranspose2d conv1dtranspose conv2dtranspose conv3dtranspose "
    "conv2dbackpropinput conv2dbackpropfilter prod reduceprod cumprod lerp addcmul einsum gmm groupedmatmul "
    "weightquantbatchmatmul scattermul cross lstm gru rnn lstmcell grucell rnncell dynamicrnn dynamicgru "
    "embeddingdensebackward",
    "sum": "reducesum sum cumsum addn accumulatenv2 biasadd biasaddgrad norm lpnorm linalgvectornorm euclideannorm "
    "nuclearnorm l2loss squaresumall squareddifference mseloss mselossext l1loss smoothl1loss avgpool avgpool2d cdist "
    "pdist hypot trace nansum unsortedsegmentsum segmentsum allreduce distcommallreduce innercommallreduce",
    "cast": "cast todtype todevice",
    "fill": "fill fills full fulllike maskedfill masked_fill select where maskedscatter constantpadnd",
    "label": "sparsesoftmaxcrossentropywithlogits crossentropyloss nllloss nllloss2d gather gatherd gathernd "
    "embedding embeddinglookup onehot ctcloss multimarginloss multilabelmarginloss",
    "optimizer": "adam adamw adamweightdecay applymomentum applyadamw sgd applyadagrad applyrmsprop "
    "applycenteredrmsprop applyftrl applyadadelta applyadamax applygradientdescent larsupdate fusedadam",
}
_FAMILY_OF: dict[str, Family] = {name: family for family, names in _FAMILIES.items() for name in names.split()}

# "Default/network/Log-op3" is the Log of a graph; "PrimFunc_Log" and "_inner_log" are further wrappers' names.
_SCOPE = re.compile(r"^.*/|-op\d+$|^(?:primfunc|prim|inner|inplace|_+)_?", re.IGNORECASE)
_ENDING = re.compile(r"(?:ext|view|scalar|scalars|tensor|tensors|scalarother|scalarself|grad|backward|v\d|d|s)$")

# What a line of code does, for an operator that no family holds (a cell of the user's own, seen from outside only).
_CODE: tuple[tuple[Family, re.Pattern[str]], ...] = (
    ("softmax", re.compile(r"softmax\(", re.IGNORECASE)),
    ("log", re.compile(r"\blog(?:2|10|1p)?\(")),
    ("root", re.compile(r"sqrt\(")),
    ("exponential", re.compile(r"\bexp(?:m1|2)?\(")),
    ("power", re.compile(r"\*\*|\bpow\(")),
    ("domain", re.compile(r"\ba(?:rc)?(?:cos|sin|cosh|tanh)h?\(")),
    ("division", re.compile(r"[\w)\]] ?/ ?[\w(]|\bdiv\(|rsqrt\(|reciprocal\(")),
)


def base_name(op: str) -> str:
    """An operator's name without scope and wrappers, in lower case: "Default/net/Div-op3" → "div"."""
    name = op
    for _ in range(3):
        name = _SCOPE.sub("", name)
    return name.lower()


def is_gradient(op: str) -> bool:
    """Whether the operator computes a derivative by its name, such as SqrtGrad."""
    return bool(re.search(r"(?:grad(?:ext|v\d)?|backward(?:ext)?)$", base_name(op)))


def family(op: str, code: str = "") -> Family:
    """The family of an operator or of a library's cell; by the line of code where the name says nothing."""
    name = base_name(op)
    while name:
        if name in _FAMILY_OF:
            return _FAMILY_OF[name]
        shorter = _ENDING.sub("", name)
        if shorter == name:
            break
        name = shorter
    for kind, pattern in _CODE:
        if pattern.search(code):
            return kind
    return "unknown"
