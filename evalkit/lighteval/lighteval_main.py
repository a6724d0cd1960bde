"""`evalkit lighteval …`: LightEval's own command line, with evalkit's tasks, checks and folders."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import MutableMapping, Sequence

from evalkit.errors import ConfigError, EvalkitError, MissingExtraError, advise_extra
from evalkit.runs.contract.receipts import check_receipts, receipt_place
from evalkit.runs.contract.scoring_config import (
    CONFIG_IGNORED,
    CONFIG_VARIABLE,
    Scoring,
    TaskBindings,
    asked_mode,
    config_in,
)
from evalkit.runs.processes.lighteval_command import TASKS_MODULE

_log = logging.getLogger("evalkit")
_NOT_LOOKED_AT = (
    "--reuse-answers: LightEval's cache knows a model by its name and settings; it does not look at its weights, code "
    "or commit, nor at what a server runs (LiteLLM's: nor at the server's address)"
)
_NO_METRICS = (
    "LightEval's command `eval` runs tasks in Inspect, without their metrics, so no judge of evalkit would score them; "
    "use another command, such as `evalkit lighteval endpoint litellm`, or `inspect eval` with "
    "`evalkit.inspect.judge_scorer` as the task's scorer"
)
_TAKE_TASKS = ("accelerate", "baseline", "custom", "endpoint", "sglang", "tasks", "vllm")


def launch(args: Sequence[str]) -> int:
    """Run LightEval's command line in this process.

    Parameters
    ----------
    args
        The words after ``lighteval``; ``--custom-tasks evalkit.lighteval.plugin`` is added if the command takes tasks
        and names no module. ``--reuse-answers`` is evalkit's own flag: see `patches.prepare`.

    Returns
    -------
    int
        0 done; 143 or 129 after SIGTERM or SIGHUP; 2 for anything else: wrong arguments, an invalid scoring
        config, a failed run.

    Raises
    ------
    ConfigError, MissingExtraError
        Before LightEval is loaded: for invalid variables, for the command `eval`, which computes no metric of a task,
        or if LightEval is not installed.
    """
    if args[:1] == ["eval"]:
        raise ConfigError(_NO_METRICS)
    if importlib.util.find_spec("lighteval") is None:
        raise MissingExtraError(
            f"LightEval is not installed; install torch first, on its own, then {advise_extra('lighteval')}"
        )
    settle_environment(os.environ)
    from evalkit.lighteval.patches import REUSE_ANSWERS, prepare

    reuses = REUSE_ANSWERS in args
    prepare(reuse_answers=reuses)
    from lighteval.__main__ import app

    _hear_logs()
    if reuses:
        _log.warning("%s", _NOT_LOOKED_AT)
    try:
        app(with_custom_tasks([word for word in args if word != REUSE_ANSWERS]), prog_name="evalkit lighteval")
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > 128:  # a signal ended it: calls in flight were waited for
            return end.code
        return 0 if end.code in (0, None) else 2
    except EvalkitError:
        raise
    except Exception:  # noqa: BLE001  # whatever stops LightEval; it is shown in full
        traceback.print_exc()
        sys.stderr.write("evalkit: error: the LightEval run failed, see the lines above\n")
        return 2
    return 0


def _hear_logs() -> None:
    """Enable the loggers that LightEval's logging configuration disables: its own and evalkit's."""
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in ("evalkit", "lighteval"):
            logger.disabled = False
    progress = logging.getLogger("evalkit.lighteval.progress")
    progress.handlers, progress.propagate = logging.root.handlers, False  # evalkit's own handler tells warnings alone
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else one line for every call of a judge


def settle_environment(environ: MutableMapping[str, str]) -> Scoring:
    """Check the variables for scoring, remove those without effect, and set those that LightEval needs.

    Raises
    ------
    ConfigError
        For an invalid scoring mode, config or binding, or if receipts cannot be written.
    """
    scoring = Scoring.from_environ(environ)
    bindings = TaskBindings.from_environ(environ)
    if scoring.mode == "deterministic":
        text, is_default = environ.pop(CONFIG_VARIABLE, "").strip(), asked_mode(environ) is None
        try:
            if text and is_default:
                config_in(text)
        except EvalkitError as problem:
            _log.warning("%s; it is also invalid: %s", CONFIG_IGNORED, problem)
    for said in scoring.warnings:
        _log.warning("%s", said)
    if bindings or scoring.mode != "deterministic":
        check_receipts(receipt_place(environ))
    environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else litellm fetches it at import
    environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return scoring


def with_custom_tasks(args: Sequence[str]) -> list[str]:
    """The arguments, with evalkit's tasks if the command takes tasks and names no module.

    Examples
    --------
    >>> with_custom_tasks(["custom", "m", "m.py", "safety_guardrail|0"])[-2:]
    ['--custom-tasks', 'evalkit.lighteval.plugin']
    >>> with_custom_tasks(["--help"])
    ['--help']
    """
    given = list(args)
    named = any(one == "--custom-tasks" or one.startswith("--custom-tasks=") for one in given)
    if named or not given or given[0] not in _TAKE_TASKS or "--help" in given:
        return given
    return [*given, "--custom-tasks", TASKS_MODULE]
