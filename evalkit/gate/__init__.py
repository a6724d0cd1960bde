"""The gate: traces in, judge metrics, exit code out.

How the data flows; a line imports only from those above it::

    files        written whole or not at all            sources      YAML and JSON texts, and the lines in them
    configs      eval.yaml, checked                     traces       the trace file, line by line
    judgments    one verdict: recorded, checked, keyed  enrichment   judgments into a trace file
    results      what is found, frozen                  exchange     to_traces, from_traces
    precedence   flag > variable > expected > settings > profile > default, each with its place
    matching     test -> its traces (request id, else unique prompt; repeats by attempt)
    judging      what the trace lacks: cache, else live, by the engine, cache and keys of `ek.judge`
    metrics      judgment or answer -> status and reason: pure functions
    suites       bounds by intervals, the paired test against a baseline
    running      run_gate: all of it                    documents    JUnit, Markdown, JSON, text
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
