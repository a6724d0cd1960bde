"""The data that the launching and the scoring side of a run exchange: scoring config, task bindings, receipts.

It imports neither LightEval nor judging, so that both sides can import it.
"""
