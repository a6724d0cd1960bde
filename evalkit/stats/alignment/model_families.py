"""Which judges share a model family, or judge answers of their own: such mistakes do not average out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.tables.items import ItemsLike, as_items

# Token of a model's name -> family: those of one house, trained on much the same.
_FAMILIES = dict.fromkeys(["gpt", "chatgpt", "davinci", "o"], "gpt")
_FAMILIES |= dict.fromkeys(["gemini", "gemma", "palm", "bard"], "gemini")
_FAMILIES |= dict.fromkeys(["llama", "codellama", "vicuna", "alpaca"], "llama")
_FAMILIES |= dict.fromkeys(["mistral", "mixtral", "ministral", "codestral", "magistral", "pixtral"], "mistral")
_FAMILIES |= dict.fromkeys(["qwen", "qwq", "qvq"], "qwen")
_FAMILIES |= {"aya": "command"}
_FAMILIES |= {name: name for name in ["claude", "command", "deepseek", "falcon", "gigachat", "glm", "granite", "grok"]}
_FAMILIES |= {name: name for name in ["kimi", "minimax", "nemotron", "nova", "olmo", "phi", "yandexgpt", "yi"]}


def family(model: str) -> str:
    """The family of a model by a known part of its name; of an unknown one the name itself.

    Examples
    --------
    >>> family("gpt-4o-mini"), family("o3"), family("meta-llama/Llama-3.1-8B-Instruct"), family("ours-7B")
    ('gpt', 'gpt', 'llama', 'ours-7b')
    """
    name = model.rsplit("/", 1)[-1].casefold()
    return next((_FAMILIES[word] for word in re.findall(r"[a-z]+", name) if word in _FAMILIES), name)


def models_of(judges: list[str], models: Mapping[str, str] | pd.DataFrame | None) -> dict[str, str]:
    """The model of each judge: passed, from a judgments table, or from its name ``provider:model``.

    The personas of the provider ``fake`` are one model.
    """
    model_of = {name: "fake" if name.startswith("fake:") else name.split(":", 1)[-1] for name in judges}
    if isinstance(models, pd.DataFrame):
        if not {"judge", "model"} <= set(models.columns):
            fact = "models= must be a mapping from judge to model"
            advice = "or a judgments table with the columns judge and model"
            raise InputError(f"{fact}, {advice}; the table has {listed(models.columns)}")
        served = models[["judge", "model"]].dropna().drop_duplicates("judge").astype("str")
        models = dict(zip(served["judge"], served["model"], strict=True))
    return model_of | {name: str(model) for name, model in (models or {}).items() if name in model_of}


@dataclass(frozen=True, slots=True)
class JuryFamilies:
    """Judges of a jury that share a model family, and judges that judged answers of their own family.

    Attributes
    ----------
    families
        Family -> its judges, of those with two or more.
    own
        Judge -> number of items that a system of its own family answered, if there are any.
    """

    families: dict[str, list[str]]
    own: dict[str, int]

    def sentences(self) -> list[str]:
        """The same in words."""
        shared = [f"{listed(names)} share the model family {name}" for name, names in self.families.items()]
        return shared + [self.own_sentence(judge) for judge in self.own]

    def own_sentence(self, judge: str) -> str:
        """How many answers of its own family a judge judged."""
        return f"{judge!r} judged {counted(self.own[judge], 'answer')} of its own model family"


def jury_families(models: Mapping[str, str], asked: pd.DataFrame, items: ItemsLike | None = None) -> JuryFamilies:
    """The model families of a jury, and the answers of its judges' own families among the items.

    Parameters
    ----------
    models
        Judge -> model.
    asked
        `judge` and `item_id`, one row per vote.
    items
        Items with `system_id`, the model that wrote the answer; optional.

    Raises
    ------
    InputError
        When the items have no `system_id`.
    """
    by_family: dict[str, list[str]] = {}
    for judge, model in models.items():
        by_family.setdefault(family(model), []).append(judge)
    families = {name: judges for name, judges in by_family.items() if len(judges) > 1}
    if items is None:
        return JuryFamilies(families, {})
    frame = as_items(items)
    if "system_id" not in frame.columns:
        raise InputError(f"items has no column 'system_id' (the model that wrote the answer), only {listed(frame)}")
    with_system = frame.loc[frame["system_id"].notna()]
    names = [family(str(system).split(":", 1)[-1]) for system in with_system["system_id"]]
    systems = dict(zip(with_system["item_id"].astype("str"), names, strict=True))
    counts = {}
    for judge, model in models.items():
        item_ids = asked.loc[(asked["judge"] == judge).to_numpy(), "item_id"].astype("str")
        if n_own := sum(systems.get(item) == family(model) for item in item_ids):
            counts[judge] = n_own
    return JuryFamilies(families, counts)
