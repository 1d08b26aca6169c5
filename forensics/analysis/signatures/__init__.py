"""Error signatures, as data: what an exception's text says about its cause. `forensics.analysis.signature` reads them.

An entry of a file here is one fact of a text that identifies a cause, such as an error code, an operator's name or the
shape of a message; advice ("may be caused by") is no fact, and neither is a bare "Killed".

    [[signature]]
    id = "reshape-size"                  unique
    cause = "shape-mismatch"             of the fixed vocabulary
    role = "initiating"                  or cascade (another process failed first) or teardown (a rule knows better)
    specificity = 1                      optional: 0 for what only hints, 2 and 3 for what overrules a wider entry
    type = "ValueError"                  optional: the exception's class
    pattern = '''...'''                  searched in the message's first 20,000 characters, in linear time
    remedy = ["...", "..."]              in order, no braces
    source = "..."                       documentation, run (seen by running it) or third party
    example = '''...'''                  matches
    counter_example = '''...'''          must not match
"""
