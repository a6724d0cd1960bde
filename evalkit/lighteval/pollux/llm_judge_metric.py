"""The POLLUX metric for LightEval: one criterion, one judge by LightEval's arguments, evalkit's engine and parsers."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import pandas as pd

from evalkit.core.judge_field_checks import host_of, without_nulls
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.core.providers import BACKENDS, PROVIDERS
from evalkit.core.settings import Options
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers.api_keys import NO_KEY, hold_key, key_in
from evalkit.errors import ConfigError, JudgeError, MissingExtraError, advise_extra, error_at, listed
from evalkit.errors.secrets import Secret
from evalkit.lighteval.items import answer_of, question_of, repaired
from evalkit.lighteval.pollux.prompts_and_replies import (
    Pattern,
    PolluxPromptBuilder,
    ReplyReader,
    checked_pattern,
    form_of,
    written_form,
)
from evalkit.runs.contract.scoring_config import TaskBinding, asked_mode
from evalkit.tables.items import is_missing

try:
    from lighteval.metrics.metrics_sample import SampleLevelComputation
except ModuleNotFoundError as problem:
    raise MissingExtraError(f"the POLLUX metric needs lighteval ({problem}): {advise_extra('lighteval')}") from problem

from evalkit.lighteval.metric_settings import MetricSettings
from evalkit.lighteval.metrics import filled_answers, leave_receipt, receipt_of

_log = logging.getLogger("evalkit")
OnUnparsed = Literal["nan", "zero"]


class _NotAMapping(ConfigError, TypeError):
    """A ConfigError that is also a TypeError, which the public metric raises here."""


class PolluxLLMJudgeMetric(SampleLevelComputation):  # type: ignore[misc,unused-ignore]  # Any without LightEval
    """Scores answers by one POLLUX criterion with one LLM judge; LightEval's sample-level function.

    The metric uses only its arguments: no key, address, model or scoring config is taken from the environment. It
    follows ``EVALUATOR_SCORING_MODE`` if that is set: ``deterministic`` makes no calls and leaves every sample
    unscored, and ``jury`` is an error, because there is one judge. It writes a receipt if ``EVALUATOR_RECEIPT_PATH`` is
    set. It uses evalkit's reply cache (``EVALKIT_CACHE``, else the project's): cached replies need no call.

    Parameters
    ----------
    criteria_name
        The criterion: its name, with or without a description.
    rubrics
        Score -> description, two or more; keys int or text. The scale is interval: any number from the lowest to
        the highest key is a score.
    judge_model_name
        The model's name at its service.
    judge_backend
        ``openai`` (any OpenAI-compatible server), ``tgi`` (the same, with `url`), ``vllm`` (a model that evalkit
        loads, or the server at `url`), ``transformers`` (a model that evalkit loads), ``anthropic``, ``litellm``,
        ``inference-providers`` or ``fake``.
    url
        Root of the server, as in ``http://HOST:PORT/v1``.
    api_key
        The key itself. It goes to `url`, or to the back end's own service, and is neither stored nor shown; a pickle
        of the metric contains only a reference to it. Without one, no key is sent.
    max_tokens
        Maximum length of a reply in tokens; None: not sent.
    backend_options
        Further settings: ``temperature`` (default 0.0), ``max_concurrency`` and others; an unknown one is an error
        that lists them.
    hf_provider
        For ``inference-providers``: the company whose servers answer.
    response_format
        A pydantic model, or a mapping in the server's format. Without `score_pattern` the reply is then parsed
        as JSON with the score in ``score``.
    include_feedback
        Add ``pollux_feedback`` to each sample.
    score_pattern, feedback_pattern
        Regular expressions, as str or compiled. The value is the group ``score`` (``feedback``), else the first group.
        Several matches of `score_pattern` must agree; of `feedback_pattern` the last match counts.
    on_unparsed
        Score of a reply that cannot be parsed: ``nan``, or ``zero`` as in the public metric. ``pollux_error`` contains
        the reason in both cases, and failed calls and missing answers are NaN in both cases.

    Raises
    ------
    ConfigError, RubricError
        When an argument is unknown, contradictory or out of range; before any call. If `rubrics` is not a
        mapping, the error is also a TypeError.

    Examples
    --------
    >>> metric = PolluxLLMJudgeMetric("Полнота", {0: "нет", 1: "да"}, "any-model", url="http://127.0.0.1:8000/v1",
    ...                               api_key="sk-secret")
    >>> "sk-secret" in repr(metric), metric.judge_model_name
    (False, 'any-model')
    """

    is_judged = True

    def __init__(
        self,
        criteria_name: str,
        rubrics: Mapping[Any, str],
        judge_model_name: str,
        judge_backend: str = "openai",
        url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = 512,
        backend_options: Mapping[str, Any] | None = None,
        hf_provider: str | None = None,
        response_format: Any = None,
        include_feedback: bool = False,
        score_pattern: Pattern | None = None,
        feedback_pattern: Pattern | None = None,
        on_unparsed: OnUnparsed = "nan",
    ) -> None:
        # first, and under its own name: what fails below may be shown with the variables of this call
        self._api_key = api_key = Secret.of(api_key)
        self.criteria_name = criteria_name
        self.rubrics = dict(rubrics) if isinstance(rubrics, Mapping) else rubrics
        self.judge_model_name, self.judge_backend, self.url = judge_model_name, judge_backend, url
        self.max_tokens, self.backend_options = max_tokens, dict(backend_options or {})
        self.hf_provider, self.response_format = hf_provider, response_format
        self.include_feedback, self.score_pattern = include_feedback, score_pattern
        self.feedback_pattern = feedback_pattern
        self.on_unparsed: OnUnparsed = on_unparsed
        self._metric = "pollux"
        self._settle()

    @property
    def api_key(self) -> str | None:
        """The key in plain text."""
        return self._api_key.reveal() if isinstance(self._api_key, Secret) else self._api_key

    @api_key.setter
    def api_key(self, key: str | None) -> None:
        self._api_key = Secret.of(key)

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state, with a reference to the key for this process and those forked from it."""
        return vars(self) | {"_api_key": hold_key(self._api_key) if self._api_key else None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _api_key=key_in(state["_api_key"]) or None)

    def _settle(self) -> tuple[Spec, Options]:
        """Judge, rubric and options; read at each call, because LightEval sets arguments from a task's parameters."""
        if not isinstance(self.criteria_name, str) or not self.criteria_name.strip():
            raise ConfigError(f"criteria_name must be the name of a criterion, as a string; got {self.criteria_name!r}")
        if not isinstance(self.rubrics, Mapping):
            raise _NotAMapping(f"rubrics must be a mapping score->description, got {type(self.rubrics).__name__}")
        if self.on_unparsed not in get_args(OnUnparsed):
            raise ConfigError(f"unknown on_unparsed={self.on_unparsed!r}; allowed: nan, zero")
        judge, options = judge_and_options(
            self.judge_model_name, self.judge_backend, self.url, self._api_key, self.max_tokens,
            self.backend_options, self.hf_provider, self.response_format,
        )  # fmt: skip
        asks_json = self.response_format is not None and self.score_pattern is None
        form = "json" if asks_json else form_of(self.score_pattern)
        reading = None if self.feedback_pattern is None else checked_pattern("feedback_pattern", self.feedback_pattern)
        is_fake = judge.provider == "fake"
        builder = PolluxPromptBuilder.about(self.criteria_name, self.rubrics, written_form(form), embedded=is_fake)
        builder = replace(builder, reply_reader=ReplyReader(form, builder.rubric.criteria[0].scale, reading))
        return Spec(builder.rubric, (judge,), (builder,), samples=1), options

    def called(self, metric: str) -> None:
        """Set the name of the metric that this function belongs to, for the receipt (default ``pollux``)."""
        self._metric = metric

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> None:  # noqa: ARG002  # as evalkit calls it
        """Raise if the judge cannot be called; ``evalkit lighteval`` calls this before it loads a model.

        Raises
        ------
        ConfigError, RubricError, MissingExtraError
            For arguments that are unknown or contradictory, a missing package, or an unsupported scoring mode.
        JudgeError
            When the service needs a key and none was given.
        """
        from evalkit.engine.providers import check_ready

        if _mode() == "deterministic":
            return
        spec, options = self._settle()
        if options.offline:
            return
        try:
            check_ready(spec.judges[0])
        except JudgeError as problem:
            raise JudgeError(f"the POLLUX judge {self.judge_model_name!r}: {_why(spec, problem)}") from None

    def compute(self, responses: Sequence[Any], docs: Sequence[Any], **_: Any) -> list[dict[str, Any]]:  # type: ignore[override,unused-ignore]
        """Score a task's responses, with one judge call for each that is not in the cache.

        Parameters
        ----------
        responses
            Model responses; the first of `final_text` is judged.
        docs
            One per response: `instruction` and `query` are the task, ``specific["reference_answer"]`` the reference, if
            not blank.

        Returns
        -------
        list of dict
            One per document, in order: ``pollux_score`` (float; NaN: unscored), ``pollux_error`` (``""`` when scored,
            else one of evalkit's reasons) and, with `include_feedback`, ``pollux_feedback`` (str). A blank answer is
            unscored, ``empty``, without a call. In deterministic mode all are unscored, ``deterministic``.

        Raises
        ------
        ConfigError
            For a scoring mode that is unknown, or ``jury``.
        InputError
            When there are not as many responses as documents.
        CacheError
            When replies cannot be stored.
        """
        mode, task = _mode(), docs[0].task_name if docs else ""
        filled = filled_answers(", ".join(filter(None, [task, self._metric])), mode, responses, docs)
        if mode == "deterministic":
            return [self._sample("deterministic") for _ in docs]
        spec, options = self._settle()
        samples = [self._sample("empty") for _ in docs]
        table = self._judgments(spec, options, [_row(docs[at], responses[at]) for at in filled])
        for place, at in enumerate(filled):
            samples[at] = self._sample("judge_down") if table is None else self._judged_sample(table.iloc[place])
        if docs:
            n_scored = 0 if table is None else int(table["error"].isna().sum())
            origins = dict.fromkeys(("judges", "rubric", "samples", "template"), "task")
            counts = {"n_items": len(docs), "n_scored": n_scored, "n_empty": len(docs) - len(filled)}
            settings = MetricSettings(spec, origins, mode, TaskBinding())
            tables, arguments = [] if table is None else [table], self._arguments()
            leave_receipt(receipt_of(settings, task, self._metric, tables, len(filled), arguments=arguments, **counts))
        return samples

    def _arguments(self) -> dict[str, str]:
        """How replies count, for the receipt, if it is not the default; `response_format` is the judge's."""
        arguments: dict[str, str] = {} if self.on_unparsed == "nan" else {"on_unparsed": self.on_unparsed}
        form = form_of(self.score_pattern)
        if isinstance(form, re.Pattern):
            flags = re.RegexFlag(form.flags & ~re.UNICODE)
            form = f"{form.pattern} ({flags!r})" if flags else form.pattern
        return arguments if form == "number" else arguments | {"score_pattern": form}

    def _judgments(self, spec: Spec, options: Options, rows: list[dict[str, str]]) -> pd.DataFrame | None:
        """The judgments table; None if there is nothing to judge, or if the judge cannot be called."""
        if not rows:
            return None
        try:
            return judge_worklist(Worklist.of(spec, rows), options)
        except (JudgeError, MissingExtraError, ConfigError) as problem:  # a run's other figures must not be lost
            name, why = spec.judges[0].name, _why(spec, problem)
            _log.error("%s: all %d answers stay unscored (judge_down): %s", name, len(rows), why)
            return None

    def _judged_sample(self, row: pd.Series) -> dict[str, Any]:
        feedback = "" if pd.isna(row["explanation"]) else str(row["explanation"])
        if pd.isna(row["error"]):
            return self._sample("", float(row["score"]), feedback)
        is_zero = self.on_unparsed == "zero" and row["error"] not in ENGINE_REASONS
        return self._sample(str(row["error"]), 0.0 if is_zero else math.nan, feedback)

    def _sample(self, error: str, score: float = math.nan, feedback: str = "") -> dict[str, Any]:
        sample: dict[str, Any] = {"pollux_score": score, "pollux_error": error}
        return sample | {"pollux_feedback": feedback} if self.include_feedback else sample

    def __repr__(self) -> str:
        names = [name for name in vars(self) if not name.startswith("_")]
        shown = [f"{name}={_shown(getattr(self, name))}" for name in names if getattr(self, name) is not None]
        if self._api_key is not None:
            shown.append("api_key=<hidden>")
        return f"{type(self).__name__}({', '.join(shown)})"

    __str__ = __repr__  # LightEval's own shows every attribute


def _mode() -> str:
    """The scoring mode: ``judge`` unless the environment sets one."""
    mode = asked_mode() or "judge"
    if mode == "jury":
        raise ConfigError(
            "scoring mode 'jury' needs two or more judges, but PolluxLLMJudgeMetric has one; use pollux_metric, or the "
            "mode 'judge'"
        )
    return mode


def _why(spec: Spec, problem: Exception) -> str:
    if isinstance(problem, JudgeError) and spec.judges[0].api_key_env == NO_KEY:
        return "it needs a key, and this metric takes none from the environment: pass api_key=…"
    return str(problem)


def _shown(value: Any) -> str:
    if isinstance(value, re.Pattern):
        return repr(value.pattern)
    return value.__name__ if isinstance(value, type) else repr(value)


def _row(doc: Any, response: Any) -> dict[str, str]:
    row = {"question": repaired(str(question_of(doc) or "")), "answer": answer_of(response)}
    reference = (doc.specific or {}).get("reference_answer")
    return row if is_missing(reference) or not str(reference).strip() else row | {"reference": repaired(str(reference))}


_OWN_URL = "https://api.openai.com/v1"
_OWN_HOSTS = ("api.openai.com", "router.huggingface.co")
_IN_PROCESS = [name for name, provider in PROVIDERS.items() if provider.host == "local"]

_OF_JUDGE = ("temperature", "timeout_s", "price", "params")
_OF_RUN = ("retries", "requests_per_minute", "tokens_per_minute", "budget_usd", "max_calls", "offline", "refresh")
_OF_LIGHTEVAL = ("concurrent_requests", "caching", "increase_max_tokens_for_reasoning")
BACKEND_OPTIONS = (*_OF_JUDGE, "max_concurrency", *_OF_RUN, *_OF_LIGHTEVAL)
"""The keys of `backend_options`; the last three are those of LightEval's LiteLLM back end."""


def judge_and_options(
    model: str, backend: str = "openai", url: str | None = None, api_key: Secret | None = None,
    max_tokens: int | None = 512, options: Mapping[str, Any] | None = None, hf_provider: str | None = None,
    response_format: Any = None,
) -> tuple[Judge, Options]:  # fmt: skip
    """The judge and the engine's options, from the arguments of `PolluxLLMJudgeMetric`.

    Raises
    ------
    ConfigError
        When an argument is unknown, contradictory or out of range. It never shows the key.
    """
    options = without_nulls(options or {})
    provider = "openai" if backend == "tgi" or (backend == "vllm" and url) else backend
    is_local = provider in _IN_PROCESS
    if provider in PROVIDERS and PROVIDERS[provider].decides:
        raise ConfigError(f"judge_backend {backend!r}: POLLUX asks for a text, and decision models write none")
    if backend not in BACKENDS:
        allowed = [name for name in BACKENDS if name not in PROVIDERS or not PROVIDERS[name].decides]
        raise ConfigError(f"unknown judge_backend {backend!r}; allowed: {', '.join(allowed)}")
    if backend == "tgi" and not url:
        raise ConfigError("judge_backend 'tgi' needs url, the root of its OpenAI-compatible server")
    if is_local and (url or response_format is not None):
        name = "url" if url else "response_format"
        raise ConfigError(f"judge_backend {backend!r} loads the model itself and takes no {name}")
    if hf_provider is not None and backend != "inference-providers":
        raise ConfigError(f"hf_provider is for judge_backend 'inference-providers', not {backend!r}")
    if unknown := [name for name in options if name not in BACKEND_OPTIONS]:
        raise ConfigError(f"unknown backend_options {listed(unknown)}; allowed: {', '.join(BACKEND_OPTIONS)}")
    if options.get("increase_max_tokens_for_reasoning"):
        raise ConfigError(
            "backend_options: increase_max_tokens_for_reasoning is not supported, because it guesses from the model's "
            "name; set max_tokens to what the judge needs"
        )
    own = {name: options[name] for name in _OF_JUDGE if name in options}
    params = dict(own.pop("params", None) or {})
    params |= {} if hf_provider is None else {"hf_provider": hf_provider}
    params |= {} if response_format is None else {"response_format": _as_format(response_format)}
    key_name = None
    if not is_local and api_key is not None:
        key_name = hold_key(api_key)
    elif not is_local and (not url or host_of(url) in _OWN_HOSTS):
        # with None, Judge would name the variable that usually holds the key of such a service
        key_name = NO_KEY
    own = {"temperature": 0.0, **own, "params": params}  # one reply per answer: the most likely score is best
    base_url = url or (_OWN_URL if provider == "openai" else None)
    judge = Judge(provider, model, base_url=base_url, api_key_env=key_name, max_tokens=max_tokens, **own)
    _check_now(judge)
    return judge, _run_options(options)


def _run_options(options: Mapping[str, Any]) -> Options:
    both = [name for name in ("max_concurrency", "concurrent_requests") if name in options]
    if len(both) > 1:
        raise ConfigError(f"backend_options: {' and '.join(both)} set the same thing; pass only one of them")
    values = {name: options[name] for name in _OF_RUN if name in options}
    if both:
        values["concurrency"] = options[both[0]]
    if not options.get("caching", True):
        values.setdefault("refresh", True)
    with error_at("backend_options", ConfigError):
        return Options(**values)


def _check_now(judge: Judge) -> None:
    """Check what can be checked without a model, a library or a key, which may be on another machine."""
    if judge.provider == "fake":
        from evalkit.engine.providers import connect

        connect(judge)
    elif judge.params and judge.provider not in _IN_PROCESS:
        from evalkit.engine.providers.judge_checks import check_params

        check_params(judge)


def _as_format(given: Any) -> Any:
    """A response format in the server's form, from a pydantic model or unchanged."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        return {"type": "json_schema", "json_schema": {"name": given.__name__, "schema": given.model_json_schema()}}
    raise ConfigError(
        f"response_format must be a pydantic model (its class) or a mapping in the server's form, not {given!r}"
    )
