"""Error signatures, as data: what an exception's text says about its cause. `forensics.analysis.signature` reads them.

An entry of a file here is one fact of a text that identifies a cause, such as an error code, an operator's name or the
shape of a message; advice ("may be caused by") is no fact, and neither is a bare "Killed".

    [[signature]]
    id = "reshape-size"                  unique
    cause = "shape-mismatch"             of the fixed vocabulary
    role = "initiating"                  or cascade (another process failed first) or teardown (a rule knows better)
    specificity = 1                      optional: 0 for what only hints, 2 and 3 for what overrules a wider entry
    type = "ValueError"                  optional: the exception's class
    through = '''...'''                  optional: searched in the names of the source files that it passed
    pattern = '''...'''                  searched in the message's first 20,000 characters, in linear time; in it,
                                         <code> is what precedes an error code ("error code is ", "ret=")
    remedy = ["...", "..."]              in order, no braces
    source = "..."                       documentation, run (seen by running it) or third party
    example = '''...'''                  matches, with the optional example_files where there is a `through`
    counter_example = '''...'''          must not match
"""
