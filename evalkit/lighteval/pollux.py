"""The POLLUX metric for LightEval: one criterion, one judge, evalkit's engine, cache and parsers."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import orjson

from evalkit.caching import ReplyStore
from evalkit.errors import ConfigError, InputError, JudgeError, MissingExtraError, advise_extra, counted
from evalkit.judging import Options, Spec, Work
from evalkit.judging.runs import judge_work
from evalkit.lighteval.items import answer_of
from evalkit.lighteval.pollux_judges import PolluxJudge
from evalkit.lighteval.pollux_parsers import Pattern, ReplyReader, checked_pattern, form_of, written_form
from evalkit.lighteval.pollux_prompts import PolluxAsking
from evalkit.lighteval.texts import mended
from evalkit.providers.secrets import NO_KEY
from evalkit.records import ENGINE_REASONS, Reply
from evalkit.tables import is_missing

try:
    from lighteval.metrics.metrics_sample import SampleLevelComputation
except ModuleNotFoundError as problem:
    raise MissingExtraError(f"the POLLUX metric needs lighteval ({problem}): {advise_extra('lighteval')}") from problem

__all__ = ["PolluxLLMJudgeMetric"]

_log = logging.getLogger("evalkit")
OnUnparsed = Literal["nan", "zero"]


class PolluxLLMJudgeMetric(SampleLevelComputation):  # type: ignore[misc,unused-ignore]  # Any without LightEval
    """Scores answers by one POLLUX criterion with one LLM judge; LightEval's sample-level function.

    It follows its arguments alone: no key, address or model is taken from the environment. The reply cache is that
    of evalkit (``EVALKIT_CACHE``, else the project's), and a reply that is in it is not asked for again.

    Parameters
    ----------
    criteria_name
        The criterion: its name, with or without a description.
    rubrics
        Score -> description, two or more; keys int or text. The scale is interval: any number from the lowest to
        the highest key is a score.
    judge_model_name
        The model as its service knows it: any name.
    judge_backend
        ``openai`` (any OpenAI-compatible server), ``tgi`` (the same, with `url`), ``vllm`` (in this process, or the
        server at `url`), ``litellm``, ``inference-providers``, ``transformers`` (in this process) or ``fake``.
    url
        Root of the server, as in ``http://HOST:PORT/v1``.
    api_key
        The key itself. It goes to `url`, or to the back end's own service, and is neither stored nor shown; a pickle
        of the metric holds it. Without one, no key is sent.
    max_tokens
        Longest reply in tokens, or None: not sent.
    backend_options
        Further settings: ``temperature`` (default 0.0), ``max_concurrency`` and others; an unknown one is an error
        that lists them.
    hf_provider
        Whose servers answer, for ``inference-providers``.
    response_format
        A pydantic model, or a mapping as the server's API takes it. Without `score_pattern` the reply is then read
        as JSON with the score in ``score``.
    include_feedback
        Add ``pollux_feedback`` to each sample.
    score_pattern, feedback_pattern
        How replies are read: a regular expression, text or compiled; the group ``score`` (``feedback``), else the
        first, of the last match counts.
    on_unparsed
        Score of a reply that cannot be read: ``nan``, or ``zero``, as the public metric has it. The reason stands in
        ``pollux_error`` all the same. Calls that brought no reply are NaN in both cases.

    Raises
    ------
    ConfigError, RubricError
        When an argument is unknown, contradictory or out of range; nothing was asked yet.

    Examples
    --------
    >>> metric = PolluxLLMJudgeMetric("Полнота", {0: "нет", 1: "да"}, "any-model", url="http://127.0.0.1:8000/v1",
    ...                               api_key="sk-secret")
    >>> "sk-secret" in repr(metric), metric.judge_model_name
    (False, 'any-model')
    """

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
        self.criteria_name = criteria_name
        self.rubrics = dict(rubrics) if isinstance(rubrics, Mapping) else rubrics
        self.judge_model_name = judge_model_name
        self.judge_backend = judge_backend
        self.url = url
        self.api_key = api_key
        self.max_tokens = max_tokens
        self.backend_options = dict(backend_options or {})
        self.hf_provider = hf_provider
        self.response_format = response_format
        self.include_feedback = include_feedback
        self.score_pattern = score_pattern
        self.feedback_pattern = feedback_pattern
        self.on_unparsed: OnUnparsed = on_unparsed
        self._settle()

    @property
    def api_key(self) -> str | None:
        """The key, as it was given."""
        return self._api_key.value

    @api_key.setter
    def api_key(self, key: str | None) -> None:
        self._api_key = _Secret(key)

    def _settle(self) -> tuple[Spec, Options, ReplyReader]:
        """What the arguments mean. They are read at each call, since LightEval sets them from a task's parameters."""
        if not isinstance(self.criteria_name, str) or not self.criteria_name.strip():
            raise ConfigError(f"criteria_name {self.criteria_name!r} is no criterion; give its name as text")
        if not isinstance(self.rubrics, Mapping):
            raise ConfigError(f"rubrics must be a mapping from score to description, not {type(self.rubrics).__name__}")
        if self.on_unparsed not in get_args(OnUnparsed):
            raise ConfigError(f"on_unparsed {self.on_unparsed!r} is unknown; allowed are nan, zero")
        judge, options = PolluxJudge(
            self.judge_model_name, self.judge_backend, self.url, self.api_key, self.max_tokens,
            self.backend_options, self.hf_provider, self.response_format,
        ).resolve()  # fmt: skip
        asks_json = self.response_format is not None and self.score_pattern is None
        form = "json" if asks_json else form_of(self.score_pattern)
        feedback = self.feedback_pattern
        reading = None if feedback is None else checked_pattern("feedback_pattern", feedback)
        asking = PolluxAsking.about(
            self.criteria_name, self.rubrics, written_form(form), embedded=judge.provider == "fake"
        )
        spec = Spec(asking.rubric, (judge,), (asking,), samples=1)
        return spec, options, ReplyReader(form, asking.rubric.criteria[0].scale, reading)

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> None:  # noqa: ARG002  # as evalkit calls it
        """Say what stands against asking the judge, before a model is loaded; ``evalkit lighteval`` calls it.

        Raises
        ------
        ConfigError, RubricError, MissingExtraError
            What is unknown, contradictory or not installed.
        JudgeError
            When the service needs a key and none was given.
        """
        from evalkit.providers import check_ready

        spec, options, _ = self._settle()
        if options.offline:
            return
        try:
            check_ready(spec.judges[0])
        except JudgeError as problem:
            raise JudgeError(f"the POLLUX judge {self.judge_model_name!r}: {self._why(problem)}") from None

    def compute(self, responses: Sequence[Any], docs: Sequence[Any], **_: Any) -> list[dict[str, Any]]:  # type: ignore[override,unused-ignore]
        """Score a task's responses; one call of the judge for each that is not in the cache.

        Parameters
        ----------
        responses
            Model responses; the first of `final_text` is judged.
        docs
            As many documents: `query` is the task, ``specific["reference_answer"]`` the reference, if not blank.

        Returns
        -------
        list of dict
            One a document, in order: ``pollux_score`` (float; NaN: unscored), ``pollux_error`` (``""`` when scored,
            else one of evalkit's reasons) and, if asked for, ``pollux_feedback`` (text). A blank answer is
            unscored, ``empty``, without a call.

        Raises
        ------
        InputError
            When there are not as many responses as documents.
        CacheError
            When replies cannot be stored.
        """
        if len(responses) != len(docs):
            raise InputError(
                f"{counted(len(responses), 'response')} for {counted(len(docs), 'document')}; give one each"
            )
        spec, options, reader = self._settle()
        rows = [_row(doc, response) for doc, response in zip(docs, responses, strict=True)]
        asked = [at for at, row in enumerate(rows) if row["answer"].strip()]
        readings: list[tuple[float, str, str]] = [(math.nan, "", "empty")] * len(rows)
        if asked:
            for at, reading in zip(
                asked, self._readings(spec, options, reader, [rows[at] for at in asked]), strict=True
            ):
                readings[at] = reading
        self._tell(readings, len(rows) - len(asked))
        return [self._sample(*reading) for reading in readings]

    def _readings(
        self, spec: Spec, options: Options, reader: ReplyReader, rows: list[dict[str, str]]
    ) -> list[tuple[float, str, str]]:
        work = Work.of(spec, rows)
        try:
            table = judge_work(work, options)
        except (JudgeError, MissingExtraError, ConfigError) as problem:  # a run's other figures must not be lost
            _log.error(
                "%s: all %d answers stay unscored (judge_down): %s", spec.judges[0].name, len(rows), self._why(problem)
            )
            return [(math.nan, "", "judge_down")] * len(rows)
        keys = [bytes.fromhex(key) for key in table["key"]]
        stored = ReplyStore.open().get_many(set(keys), recorded=options.takes_recorded)
        readings = []
        for key, reason, inputs in zip(keys, table["error"].astype(object), work.inputs, strict=True):
            if reason in ENGINE_REASONS:
                readings.append((math.nan, "", str(reason)))
            else:
                readings.append(reader.read(Reply.from_dict(orjson.loads(stored[key])), list(inputs.values())))
        return readings

    def _why(self, problem: Exception) -> str:
        if NO_KEY in str(problem):
            return "it needs a key, and this metric takes none from the environment: pass api_key=…"
        return str(problem)

    def _tell(self, readings: Iterable[tuple[float, str, str]], n_blank: int) -> None:
        reasons = Counter(error for _, _, error in readings if error)
        if reasons:
            said = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
            blank = f"; {counted(n_blank, 'answer was', 'answers were')} empty and not judged" if n_blank else ""
            _log.warning("pollux, %s: %d unscored (%s)%s", self.judge_model_name, reasons.total(), said, blank)

    def _sample(self, score: float, feedback: str, error: str) -> dict[str, Any]:
        if error and self.on_unparsed == "zero" and error not in ENGINE_REASONS:
            score = 0.0
        sample: dict[str, Any] = {"pollux_score": score, "pollux_error": error}
        return sample | {"pollux_feedback": feedback} if self.include_feedback else sample

    def __repr__(self) -> str:
        names = [name for name in vars(self) if not name.startswith("_")]
        shown = [f"{name}={_shown(getattr(self, name))}" for name in names if getattr(self, name) is not None]
        if self.api_key is not None:
            shown.append("api_key=<hidden>")
        return f"{type(self).__name__}({', '.join(shown)})"

    __str__ = __repr__  # LightEval's own shows every attribute


class _Secret:
    """Holds a key where every view of an object's attributes shows none."""

    __slots__ = ("value",)

    def __init__(self, value: str | None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<hidden>"


def _shown(value: Any) -> str:
    if isinstance(value, re.Pattern):
        return repr(value.pattern)
    return value.__name__ if isinstance(value, type) else repr(value)


def _row(doc: Any, response: Any) -> dict[str, str]:
    row = {"question": "" if doc.query is None else mended(str(doc.query)), "answer": answer_of(response)}
    reference = (doc.specific or {}).get("reference_answer")
    return row if is_missing(reference) or not str(reference).strip() else row | {"reference": mended(str(reference))}
