"""The gate: traces in, judge metrics, exit code out.

The modules in the order of the data. Each imports only from those above it::

    traces                reading the trace file, line by line
    config                settings, tests and suite bounds       config_files       reading them, with file and line
    verdict_keys          the key of a verdict                    judgment           the judgment of one answer
    judgments_in_traces   checking the judgments in traces        trace_enriching    judgments into a trace file
    results               statuses and reasons                    items_and_traces   to_traces, from_traces
    precedence            flag > variable > expected > settings > profile > default, and the source of each value
    trace_lookup          the traces of each test, by request id or unique prompt
    missing_judgments     judgments that the traces lack, from the cache or by live calls
    metrics               judgment or answer -> status and reason (pure functions)
    suite_bounds          bounds on the whole suite, and the comparison with a baseline
    runner                `run_gate`                              reports            JUnit, Markdown, JSON, text
    pytest_plugin         the fixture `verdict`
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
