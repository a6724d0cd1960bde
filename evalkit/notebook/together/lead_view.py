"""The lead's view: how far people agree, who has done how much, and a decision on each item on which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from evalkit.core.formatting import cut, figure
from evalkit.errors import counted
from evalkit.notebook.judgments.item_details import judged_inputs
from evalkit.notebook.labelling.label_log import ENOUGH_LABELS, LabelEdit
from evalkit.notebook.together.label_forms import Action, Forms, Key, clean
from evalkit.rubrics.scales import code_text
from evalkit.stats import reliability
from evalkit.stats.alignment.label_values import read_label, with_codes
from evalkit.stats.intervals import wilson
from evalkit.tables.messages import value_text

DECIDED = "decided by "
"""How the annotator of a decision is named, before the name of the lead."""

AGREED = 0.8
"""From this agreement on, people count as agreeing."""

_KEY, _ROW = ["item_id", "criterion"], ("item", "criterion", "text", "decision", "labels")
_STEP, _LONGEST_TEXT, _LONGEST_LEVEL, _MOST_REASONS = 10, 400, 48, 3


class LeadScreen:
    """What the lead sees and decides.

    Attributes
    ----------
    decider
        The annotator of the decisions.
    """

    def __init__(self, forms: Forms, lead: str, expected: Sequence[str]) -> None:
        self.forms, self.decider, self._expected = forms, f"{DECIDED}{lead}", expected
        self._opened: Key = ("", "")
        self._taken_back: dict[Key, LabelEdit] = {}
        self.actions: dict[str, Action] = {"open": self.open, "decide": self.decide, "undo": self.undo}

    def payload(self) -> dict[str, Any]:
        """The whole view."""
        forms, log, last = self.forms, self.forms.log, self.forms.log.last()
        labels = with_codes(log.table, forms.rubric).astype({"annotator": str, "label": object})
        labels["label"] = [self._notation(*row) for row in labels[["criterion", "label"]].itertuples(index=False)]
        is_decision, decided = labels["source"].eq("adjudicated").to_numpy(), log.decisions()
        keys = pd.MultiIndex.from_tuples([key for keys in forms.questions.values() for key in keys], names=_KEY)
        people = labels[~is_decision].pivot(index=_KEY, columns="annotator", values="label")
        people = people.reindex(keys).dropna(axis=1, how="all").astype(object)
        people = people.where(people.notna(), None)
        differ = people[[len({*labels} - {None}) > 1 for labels in people.to_numpy()]]
        if self._opened not in differ.index:
            self._opened = next((key for key in differ.index if key not in decided), next(iter(differ.index), ("", "")))
        names = [str(name) for name in people.columns]
        of_items = zip(differ.index, differ.to_numpy().tolist(), strict=True)
        rows = [dict(zip(_ROW, (*key, self._text(key), decided.get(key), row), strict=True)) for key, row in of_items]
        n_decided = sum(row["decision"] is not None for row in rows)
        agreement = self._agreement(people[people.count(axis=1) > 1])
        sentence = self._sentence(names, agreement, differ, n_decided)
        sentence[2] = " ".join(filter(None, [sentence[2], forms.other_texts()]))
        panel: dict[str, Any] = {}
        if (key := self._opened) in differ.index:
            answers = [[who, code, self._level(key, code)] for who, code in differ.loc[[key]].iloc[0].dropna().items()]
            # a comment is written beside the first question of a form
            notes = {who: edit.comment for (item, _, who), edit in last.items() if item == key[0] and edit.comment}
            edit = last.get((*key, self.decider)) or self._taken_back.get(key, LabelEdit(None))
            panel = forms.texts(key) | {"item": key[0], "criterion": key[1], "question": forms.question(key)}
            panel |= {"said": [[*words, notes.get(words[0], "")] for words in answers]}
            panel |= {"decision": edit.label, "comment": edit.comment}
        everybody = dict.fromkeys(who for who in (*self._expected, *log.times) if not who.startswith(DECIDED))
        idle = [(who, pd.Series(dtype=object)) for who in everybody if who not in names]
        return {
            "view": "lead", "title": forms.rubric.id, "decider": self.decider, "names": names, "rows": rows,
            "sentence": sentence, "agreement": agreement, "panel": panel,
            "people": [*map(self._person, [*people.items(), *idle]), [self.decider, n_decided, len(rows), ""]],
            "undo": ": ".join(next(log.acts(self.decider), ())),
        }  # fmt: skip

    def _agreement(self, shared: pd.DataFrame) -> list[dict[str, Any]]:
        """Per criterion, the agreement on the items that two people or more labelled, and its course."""
        if shared.empty:
            return []
        figures, long = [], shared.reset_index().melt(_KEY, var_name="judge", value_name="label").dropna()
        for row in reliability(long, clusters=self.forms.groups, scale=self.forms.rubric).to_dict("records"):
            labels = pd.DataFrame(shared.xs(row["criterion"], level="criterion"))
            pairs = [(labels[name], labels[second]) for name, second in combinations(labels, 2)]
            n_both = pd.concat([first.notna() & second.notna() for first, second in pairs], axis=1).sum(axis=1)
            n_same = pd.concat([first.notna() & first.eq(second) for first, second in pairs], axis=1).sum(axis=1)
            n_people = labels.count(axis=1)  # the weights of `percent_agreement`
            course = ((n_same / n_both * n_people).cumsum() / n_people.cumsum()).tolist()
            alpha = None if pd.isna(row["alpha_vote"]) else row["alpha_vote"]
            by_alpha = alpha is not None and self._is_measured(row["criterion"])  # two people seldom choose one number
            name = "alpha_vote" if by_alpha else "percent_agreement"
            value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
            if pd.isna(low):  # all agree, or none; alpha has no interval on few items
                interval = wilson(value, row["n_clusters"]) if not by_alpha else None
                low, high = (interval.low, interval.high) if interval else (min(value, 0.0), 1.0)
            course = [value] if by_alpha else course
            head = {"criterion": row["criterion"], "n": len(labels), "differ": int((n_same < n_both).sum())}
            head |= {"value": value, "low": low, "high": high, "alpha": alpha, "by_alpha": by_alpha}
            figures.append(head | {"course": [*course[_STEP - 1 : -1 : _STEP], course[-1]]})
        return figures

    def _is_measured(self, criterion: str) -> bool:
        return self.forms.rubric.criterion(criterion).scale.level == "interval"

    def _sentence(self, names: list[str], agreement: list[dict[str, Any]], differ: pd.DataFrame, n: int) -> list[str]:
        """The verdict, its figure, and the reason with what to do next; `n` differences are decided."""
        who = _and(names) if len(names) < 4 else f"{len(names)} people"
        if not agreement:
            verdict = f"{who} have no item in common yet." if names[1:] else f"Only {who} has labelled so far."
            return [verdict if names else "Nobody has labelled yet.", "", "Agreement needs two labels of an item."]
        kinds: dict[str, list[str]] = {"agree": [], "apart": [], "unclear": []}
        for row in agreement:
            is_unclear = row["n"] < ENOUGH_LABELS or row["low"] < AGREED <= row["high"]
            kind = "unclear" if is_unclear else "agree" if row["low"] >= AGREED else "apart"
            kinds[kind].append(f"“{row['criterion']}”")
        agree, apart, unclear = map(_and, kinds.values())
        parts = [f"{who} agree on {agree}"] * bool(agree)
        parts += [f"on {apart} they do not yet" if agree else f"{who} do not agree yet on {apart}"] * bool(apart)
        cannot = "it cannot be told yet" if parts else f"it cannot be told yet whether {who} agree"
        verdict = "; ".join([*parts, *[f"on {unclear} {cannot}"] * bool(unclear)])
        worst = min(agreement, key=lambda row: row["value"])
        value = "alpha " * worst["by_alpha"] + figure(worst["value"], worst["low"], worst["high"])
        value = f"“{worst['criterion']}”: {value}"
        n_all = sum(name == worst["criterion"] for keys in self.forms.questions.values() for _, name in keys)
        more = "Label more items that two people read. " if worst["n"] < n_all else "Only further items could tell. "
        reason = more if unclear and not apart else ""
        at_odds = differ[differ.index.get_level_values("criterion") == worst["criterion"]]
        if len(at_odds) and not self._is_measured(worst["criterion"]):
            texts = [sorted({*labels} - {None}) for labels in at_odds.to_numpy()]
            pairs = Counter(pair for differing in texts for pair in combinations(differing, 2))
            pair, n_pairs = pairs.most_common(1)[0]
            low, high = (cut(self._level(at_odds.index[0], code).rstrip("."), _LONGEST_LEVEL) for code in pair)
            reason += f"{n_pairs} of the {counted(len(at_odds), 'difference')} are “{low}” against “{high}”. "
            reason += "Talk about these levels before more is labelled; "
            reason += "then decide the items below." if n < len(differ) else "all differences are decided."
        return [f"{verdict[0].upper()}{verdict[1:]}.", f"{value} on {counted(worst['n'], 'item')}.", reason]

    def _person(self, given: tuple[Any, pd.Series]) -> list[Any]:
        """Name, number of forms done and of all, and what else is known of a person's work."""
        forms, who, done = self.forms, str(given[0]), {*given[1].dropna().index}
        reasons = Counter(forms.why_skipped(name, who) for name in forms.questions if not forms.is_done(name, done))
        del reasons[None]
        common = "; ".join(f"{n} × {cut(why or '', _LONGEST_LEVEL)}" for why, n in reasons.most_common(_MOST_REASONS))
        pace, times = forms.log.seconds_per_label(who), forms.log.times.get(who, [])
        notes = [f"{reasons.total()} skipped ({common})"] * bool(reasons) + ([f"{pace:.0f} s per item"] if pace else [])
        notes += [f"last answer {time:%d %b %H:%M} UTC" for time in times[-1:]]
        return [who, sum(forms.is_done(name, done) for name in forms.questions), len(forms.questions), ", ".join(notes)]

    def _notation(self, criterion: str, code: str) -> str:
        """A label in the one way in which its level is written, as `reliability` compares it."""
        scale = self.forms.rubric.criterion(criterion).scale
        reading = read_label(code, scale)
        level = None if reading is None else reading.label or scale.by_value(reading.score)
        return code if level is None else code_text(level)

    def _level(self, key: Key, code: str) -> str:
        return next((text for label, text in self.forms.question(key)["levels"] if label == code), code)

    def _text(self, key: Key) -> str:
        forms, item = self.forms, self.forms.row_of[key[0]]
        names = judged_inputs(forms.rubric, key[1], list(forms.columns))
        texts = [forms.question(key)["title"]] * forms.is_exploded
        texts += [value_text(item[forms.columns[name]], name)[: 2 * _LONGEST_TEXT] for name in names]
        return " ".join(" · ".join(texts).split())[:_LONGEST_TEXT]

    def open(self, message: Mapping[str, Any]) -> None:
        """Show an item on which people differ."""
        self._opened = str(message.get("item")), str(message.get("criterion"))

    def decide(self, message: Mapping[str, Any]) -> None:
        """Label the item on screen as decided, and show the next one."""
        if self._opened == (message.get("item"), message.get("criterion")):
            answer = self.forms.answer(self._opened, message.get("label"))
            edit = LabelEdit(answer, "adjudicated", comment=clean(message.get("comment")))
            self.forms.log.add_form(self.decider, {self._opened: edit})
            self._opened = str(message.get("next_item", "")), str(message.get("next_criterion", ""))

    def undo(self, _message: Mapping[str, Any]) -> None:
        """Take back the last decision."""
        if key := next(self.forms.log.acts(self.decider), None):
            self._taken_back = {key: self.forms.log.last()[*key, self.decider]}
            self.forms.log.undo(self.decider, [key])
            self._opened = key


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
