"""What the name of a column says of its values: a person's ratings, a machine's, or facts about ratings."""

from __future__ import annotations

import re

_RATING = re.compile(
    r"(?:^|_)(?:label|score|rating|rated?$|human|gold|ann(?:ot|_|\d|$)|winner|prefer|verdict|grade|judg|thumb|vote|quality)"
    r"|(?:^|_)(?:mark|call|opinion|decision|assessment)s?(?:_\d+|$)"
    r"|(?:^|_)(?:оценк|балл)|(?:^|_)correct|(?:score|rating|label)s?_?\d*$"
    # one column per person: 2nd_reviewer_kim, rater_1, reviewer_a, coder_b; also annas_label, tom_s_view
    r"|(?:^|_)(?:annotator|reviewer|rater|labell?er|coder|marker|grader|judge|expert|assessor)_?(?:\d+|[a-z]|\w*_\w+)$"
    r"|^(?:\d+(?:st|nd|rd|th)|first|second|third|fourth)_(?:annotator|reviewer|rater|labell?er|coder|marker|grader|judge|expert)"
    r"|_s_(?:view|take|say|review|answer|response|choice|pick)s?$|^(?:says|labell?ed|rated|marked|reviewed|judged|graded)_by_"
)
# Facts about ratings: who, when, how many, how sure.
_ABOUT_WORDS = """
id ids uuid uid guid hash key idx index count counts num number n total totals sum len length size time times
timestamp ts date day hour at on duration seconds secs ms lead created updated started finished rank order position
turn turns step steps seed fold split batch round version source url link path file email type kind status state
reason reasons comment comments note notes text explanation rationale feedback metadata meta min max range scale
threshold weight weights std stddev sd var variance agreement disagreement kappa alpha entropy certainty uncertainty
confidence token tokens cost price age gender country language lang locale control cancelled retries retry year
month attempt attempts page queue hint guideline guidelines role required requires needed ratio schema category
categories identifier class distribution set for normalized normalised statement strength
"""
_ABOUT = frozenset(_ABOUT_WORDS.split())
_ABOUT_FIRST = ("n", "num", "number", "count", "total", "max", "min", "confidence", "cancelled", "was")
# A model, a metric or a program gave it.
_MACHINE_WORDS = """
ai auto automated automatic machine model models llm llms lm slm gpt chatgpt openai davinci turbo claude anthropic
sonnet opus haiku gemini gemma bard palm llama vicuna alpaca mistral mixtral qwen deepseek phi grok cohere command
prometheus judgelm pandalm autoj predicted prediction predictions predict pred preds proba prob probability logit
logits logprob logprobs suggestion suggestions suggested suggest proposal proposed reward rm bleu rouge rougel
bertscore bleurt comet chrf meteor moverscore bartscore unieval geval ragas deepeval trulens metric similarity
cosine embedding embeddings perplexity ppl loss nli entailment classifier clf detector toxicity perspective elo
heuristic rule regex baseline o1 o3 o4 prelabel preannotation silver weak pseudo synthetic bot judge f1 em
autolabel autorater bert copilot kimi glm chatglm ernie nova minimax doubao hunyuan granite olmo модель модели
exact match bm25 retrieval reranker ranker readability vader flesch z ndcg mrr recall precision textstat spacy
"""
_MACHINE = frozenset(_MACHINE_WORDS.split())
_MACHINE_START = re.compile(r"(?:gpt|claude|gemini|llama|qwen|mistral|rouge|bleu|deepseek|phi|o[134])\d")
_PERSON_WORDS = """
human humans people person expert experts crowd crowdworker crowdworkers turker turkers worker user users customer
customers annotator reviewer rater labeler labeller gold manual manually author student teacher sme
"""
_PERSON = frozenset(_PERSON_WORDS.split())
_TEXTS = ("answer", "response", "reference", "summary", "output", "completion", "translation")
_PEOPLE = _PERSON - {"gold", "manual", "manually", "human", "humans", "people"}
_PEOPLE |= {"annotateur", "anotador", "grader", "coder", "marker", "assessor"}  # whose names may be those of models


def words_of(name: str) -> str:
    """The words of a name, in lower case, with ``_`` between them.

    Examples
    --------
    >>> words_of("Human Score"), words_of("quality.suggestion"), words_of("2nd reviewer (Kim)"), words_of("gptRating")
    ('human_score', 'quality_suggestion', '2nd_reviewer_kim', 'gpt_rating')
    """
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).casefold()).strip("_")


def is_rating(words: str) -> bool:
    """Whether a column of this name holds ratings of a person.

    Examples
    --------
    >>> [is_rating(words_of(name)) for name in ("human_rating", "Anna's call", "2nd reviewer (Kim)", "rater_1")]
    [True, True, True, True]
    >>> [is_rating(words_of(name)) for name in ("gpt4_rating", "label_count", "annotator_id", "quality.suggestion")]
    [False, False, False, False]
    """
    return bool(_RATING.search(words)) and not (is_machine(words) or is_about(words))


def is_machine(words: str) -> bool:
    """Whether the name is that of a machine's score: of a model, a metric or a suggestion."""
    parts = words.split("_")
    if parts[0] in _PERSON:
        return False
    names_person = not _PERSON.isdisjoint(parts)
    for number, word in enumerate(parts, start=1):
        if word == "judge":  # judge_1, judge_a, 2nd_judge: one of several people
            if number < len(parts) and len(parts[number]) > 2 and not names_person:
                return True
        elif word in ("model", "models"):
            if not names_person:
                return True
        elif word in _MACHINE or _MACHINE_START.match(word):
            return True
    return False


def is_about(words: str) -> bool:
    """Whether the name is that of facts about ratings: who gave them, when, how many, how sure."""
    parts = words.split("_")
    if parts[-1] in _ABOUT or parts[0] in _ABOUT_FIRST:
        return True
    if len(parts) > 2 and not _ABOUT.isdisjoint(parts[1:-1]) and parts[-1] not in ("rating", "label", "score", "grade"):
        return True
    if parts[0] in ("gold", "human", "expert") and parts[-1] in _TEXTS:
        return True
    # who rated, not what was said: annotator, reviewer_name, rated_by
    is_name = parts[-1] in ("name", "names") or words.endswith(("_by", "_users", "annotators", "raters", "reviewers"))
    return is_name or words in _PEOPLE
