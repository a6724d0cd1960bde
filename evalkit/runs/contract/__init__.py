"""What those who launch runs and those who score them agree on: scoring config, task bindings, receipts.

Neither LightEval nor judging is imported here, so that both sides may.
"""

from evalkit.runs.contract.receipts import (
    RECEIPT_VARIABLE,
    RECEIPTS_FILE,
    JudgeUsed,
    Receipt,
    Scorer,
    check_receipts,
    read_receipts,
    read_scorers,
    receipt_place,
    write_receipt,
    write_scorers,
)
from evalkit.runs.contract.scoring_config import (
    CONFIG_VARIABLE,
    MODE_VARIABLE,
    JudgeConfig,
    Scoring,
    ScoringConfig,
    asked_mode,
)
from evalkit.runs.contract.task_bindings import BINDINGS_VARIABLE, TaskBinding, TaskBindings, TemplateText

__all__ = [
    "BINDINGS_VARIABLE",
    "CONFIG_VARIABLE",
    "MODE_VARIABLE",
    "RECEIPTS_FILE",
    "RECEIPT_VARIABLE",
    "JudgeConfig",
    "JudgeUsed",
    "Receipt",
    "Scorer",
    "Scoring",
    "ScoringConfig",
    "TaskBinding",
    "TaskBindings",
    "TemplateText",
    "asked_mode",
    "check_receipts",
    "read_receipts",
    "read_scorers",
    "receipt_place",
    "write_receipt",
    "write_scorers",
]
