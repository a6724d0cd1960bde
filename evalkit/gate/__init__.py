"""The gate: traces in, judge metrics, exit code out.

The modules in the order of the data; each imports only from those above it::

    traces               the trace file, read line by line
    config               settings, tests and suite bounds        config_files        reading them, with file and line
    judgments            the judgment of one answer               verdict_keys        the key of a verdict
    recorded_judgments   judgments in traces, checked             enrichment          judgments into a trace file
    results              statuses and reasons                     trace_conversion    to_traces, from_traces
    precedence           flag > variable > expected > settings > profile > default, with the source of each value
    matching             test -> its traces (request id, else unique prompt; repeats by attempt)
    judging              judgments that the trace lacks: from the cache, else live, by the engine of `ek.judge`
    metrics              judgment or answer -> status and reason: pure functions
    suites               bounds by intervals, and the comparison with a baseline
    runner               `run_gate`: all of it                    reports             JUnit, Markdown, JSON, text
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
