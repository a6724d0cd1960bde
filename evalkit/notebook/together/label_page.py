"""`LabelPage`: label items with others, see how far people agree, and decide where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.core.formatting import cut, cut_apart, figure, html_text
from evalkit.core.settings import check_choice
from evalkit.errors import InputError, counted
from evalkit.notebook.judgments.item_details import judged_inputs
from evalkit.notebook.labelling.label_log import ENOUGH_LABELS, LabelEdit
from evalkit.notebook.together.label_forms import Action, Forms, Key, PersonScreen, clean
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics.human_labels import COUNTED
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.scales import code_text, number
from evalkit.stats import reliability
from evalkit.stats.alignment.label_values import read_label, with_codes
from evalkit.stats.intervals import jackknife, jackknife_groups, ratio, unit_codes, unit_sums, wilson, without_each
from evalkit.tables.items import ItemsLike
from evalkit.tables.messages import value_text
from evalkit.tables.schemas import LABEL_KEY


class LabelPage(NotebookWidget):
    """A page on which one person labels items: all criteria of an item on one form, each level in full.

    It has no Run and no editor. The labels of other people and of judges are not sent to the screen. Any number of
    pages, of any number of processes, write to one log, and so does a tuner that is open beside.

    Parameters
    ----------
    items, rubric, item_id, inputs
        As for `judge`; `items` may also be the path of a file. Items without a required input are left out, and those
        with a recording or another file that is no image.
    annotator
        The name of the person who labels, or of the lead.
    labels
        The path of the log; by default the file that `RubricTuner` has for the same items and rubric.
    order
        ``random`` (all items, in the same random order for everyone and after a restart), ``given`` (as in the file),
        ``disputed`` (what the tuner drew last), or a table of `next_labels`, whose probabilities are kept in the log.
    view
        ``label``, or ``lead``: how far people agree, on which items they differ, and a decision on each.
    show_others
        Whether a form shows what others answered; its labels are then not blind.
    people
        Who is to label: the lead's view also lists those of them who have not begun.

    Attributes
    ----------
    path
        The log.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.
    InputError, RubricError, ConfigError, CacheError
        When the arguments are invalid, or a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from evalkit import load_example
    >>> items, _ = load_example("facts")
    >>> page = LabelPage(items, "correctness", annotator="ann", labels=f"{tempfile.mkdtemp()}/facts.labels.jsonl")
    >>> page.receive({"do": "save", "form": page.state["form"]["form"], "answers": ["2"]})
    >>> page.labels[["annotator", "label", "source", "blind"]].values.tolist()
    [['ann', '2', 'random', True]]
    """

    def __init__(
        self,
        items: ItemsLike | str | Path,
        rubric: RubricLike,
        *,
        annotator: str,
        labels: str | Path | None = None,
        order: Literal["random", "given", "disputed"] | pd.DataFrame = "random",
        view: Literal["label", "lead"] = "label",
        show_others: bool = False,
        people: Sequence[str] = (),
        item_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        check_choice("view", view, ("label", "lead"))
        who = self.annotator = annotator.strip()
        if not who or who.startswith(DECIDED):
            raise InputError(f"annotator={annotator!r} is no name of a person, as names beginning with {DECIDED!r}")
        if isinstance(people, str):
            raise InputError(f"people={people!r} is a text; pass a list of names, such as people=[{people!r}]")
        self._forms = forms = Forms(items, rubric, labels, order, item_id, inputs)
        self.path, self._message_id = forms.log.path, ""
        self._screen: LeadScreen | PersonScreen = PersonScreen(forms, who, show_others=show_others)
        if view == "lead":
            self._screen = LeadScreen(forms, who, people)
        else:
            forms.log.check_writable()
        super().__init__(new_widget("LabelWidget", "LabelPage", "a labels table can be read from a file"))
        self._draw()

    def _draw(self) -> None:
        self.widget.form = self._screen.payload() | {"answers": self._message_id}

    def _look(self) -> None:
        if self._forms.log.read():
            self._draw()

    def _do(self, action: Callable[[Any], None], message: Mapping[str, Any]) -> None:
        try:
            self._forms.log.read()  # what others did since
            action(message)
        finally:  # the screen takes no key until its last message is answered
            self._message_id = str(message.get("id", self._message_id))
            self._draw()

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        actions = super()._actions() | {"look": lambda _: self._look()}
        return actions | {name: partial(self._do, action) for name, action in self._screen.actions.items()}

    @property
    def labels(self) -> pd.DataFrame:
        """All labels of the log, as `RubricTuner.labels`; the lead's decisions have the source ``adjudicated``."""
        self._forms.log.read()
        return self._forms.log.standing

    @property
    def final_labels(self) -> pd.DataFrame:
        """Each person's labels, with the lead's decision in their place where they say what they said then."""
        labels, decisions = self.labels, self._forms.log.decided()
        decided = {key: code for key, (_, code, who) in decisions.items() if not who}
        people = labels[~labels["source"].eq("adjudicated").to_numpy()].reset_index(drop=True).drop(columns="levels")
        rows = people[[*LABEL_KEY[:2], "label"]].itertuples(index=False)
        return people.assign(label=pd.Categorical([decided.get((item, name), label) for item, name, label in rows]))

    def __repr__(self) -> str:
        form = self.widget.form
        if form["view"] == "lead":
            return " ".join(filter(None, form["sentence"]))
        done = f"{form['n_done']} of {form['n']} done, {form['n_skipped']} skipped ({self.annotator}, {self.path})"
        return " ".join(filter(None, [done, self._forms.log.not_used]))

    def _repr_html_(self) -> str:
        return html_text(repr(self))


DECIDED = "decided by "
"""How the annotator of a decision is named, before the name of the lead."""

AGREED = 0.8
"""From this agreement on, people count as agreeing."""

NEAR = 0.1
"""Numbers that differ by at most this share of their scale count as the same answer."""

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
        labels = with_codes(log.standing, forms.rubric).astype({"annotator": str, "label": object})
        labels["label"] = [self._notation(*row) for row in labels[["criterion", "label"]].itertuples(index=False)]
        is_decision, acts = labels["source"].eq("adjudicated").to_numpy(), log.decided()
        stale = {key: f"Decided as {code} before {_and(who)} changed. " for key, (_, code, who) in acts.items() if who}
        decided = {key: code for key, (_, code, _) in acts.items() if key not in stale}
        keys = pd.MultiIndex.from_tuples([key for keys in forms.questions.values() for key in keys], names=_KEY)
        in_figures = labels["source"].isin([*COUNTED, forms.source]).to_numpy()
        people, counting = (self._by_person(labels[rows], keys) for rows in (~is_decision, in_figures))
        is_apart = [not all(agree for agree, _ in self._pairs(*row)) for row in people.itertuples(name=None)]
        queue = people[[key in stale or apart for key, apart in zip(people.index, is_apart, strict=True)]]
        if self._opened not in queue.index:
            self._opened = next((key for key in queue.index if key not in decided), next(iter(queue.index), ("", "")))
        names = [str(name) for name in people.columns]
        texts = {key: stale.get(key, "") + self._text(key) for key in queue.index}
        of_items = zip(queue.index, queue.to_numpy().tolist(), strict=True)
        rows = [dict(zip(_ROW, (*key, texts[key], decided.get(key), row), strict=True)) for key, row in of_items]
        persons = [*map(self._person, people.items())]
        agreement = self._agreement(counting[counting.count(axis=1) > 1])
        differ = people[is_apart]
        sentence = self._sentence(names, agreement, differ, sum(key in decided for key in differ.index))
        again = f"{counted(len(stale), 'decision')} from before people changed their labels: decide again."
        n_chosen = people.count().sum() - counting.count().sum()
        chosen = f"{counted(n_chosen, 'label')} of items that were not drawn at random not in the agreement."
        sentence[2] = " ".join(filter(None, [sentence[2], again * bool(stale), chosen * bool(n_chosen), log.not_used]))
        n_by = Counter(acts[key][0] for key in queue.index if key in decided)
        panel, deciders = dict[str, Any](), sorted({*n_by, self.decider}, key=self.decider.__eq__)
        if (key := self._opened) in queue.index:
            answers = [[who, code, self._level(key, code)] for who, code in queue.loc[[key]].iloc[0].dropna().items()]
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
            "people": [*persons, *map(self._person, idle), *([who, n_by[who], len(rows), ""] for who in deciders)],
            "undo": ": ".join(next(log.acts(self.decider), ())),
        }  # fmt: skip

    def _by_person(self, labels: pd.DataFrame, keys: pd.MultiIndex) -> pd.DataFrame:
        """The labels with a row per question and a column per person who answered one of them."""
        people = labels.pivot(index=_KEY, columns="annotator", values="label")
        people = people.reindex(keys).dropna(axis=1, how="all").astype(object)
        return people.where(people.notna(), None)

    def _agreement(self, shared: pd.DataFrame) -> list[dict[str, Any]]:
        """Per criterion, the agreement on the items that two people or more labelled, and its course."""
        if shared.empty:
            return []
        figures, long = [], shared.reset_index().melt(_KEY, var_name="judge", value_name="label").dropna()
        for row in reliability(long, clusters=self.forms.groups, scale=self.forms.rubric).to_dict("records"):
            name, labels = row["criterion"], pd.DataFrame(shared.xs(row["criterion"], level="criterion"))
            pairs = [self._pairs(("", name), *answers) for answers in labels.to_numpy()]
            n = np.array([[sum(agree for agree, _ in of_item), len(of_item)] for of_item in pairs], dtype=np.float64)
            course = ratio(*n.cumsum(axis=0).T).tolist()
            units = unit_codes(labels.index, self.forms.groups)
            shares = ratio(*without_each(unit_sums(n, *jackknife_groups(units))).T)
            head: dict[str, Any] = {"criterion": name, "n": len(labels), "differ": int((n[:, 0] < n[:, 1]).sum())}
            value, ends = float(shares[0]), jackknife(float(shares[0]), shares[1:], transform="logit", unit=units)
            ends = ends if ends.reason is None else wilson(value, row["n_clusters"])  # all agree, or none
            head |= {"value": value, "low": ends.low, "high": ends.high}
            head |= {"alpha": None if pd.isna(row["alpha_vote"]) else row["alpha_vote"]}
            gaps = [gap for of_item in pairs for _, gap in of_item if gap is not None]
            head["gap"] = f", the numbers {np.mean(gaps):.3g} apart on average" if gaps else ""
            figures.append(head | {"course": [*course[_STEP - 1 : -1 : _STEP], course[-1]]})
        return figures

    def _pairs(self, key: Key, *labels: str | None) -> list[tuple[bool, float | None]]:
        """Per pair of labels whether they are the same answer, and on a scale of numbers how far they are apart."""
        scale, pairs = self.forms.rubric.criterion(key[1]).scale, list[tuple[bool, float | None]]()
        for code, peer in combinations(filter(None, labels), 2):
            first, second = number(code), number(peer)
            gap = None if scale.level != "interval" or first is None or second is None else abs(first - second)
            pairs.append((code == peer if gap is None else gap <= NEAR * (scale.highest - scale.lowest) + 1e-9, gap))
        return pairs

    def _sentence(self, names: list[str], agreement: list[dict[str, Any]], differ: pd.DataFrame, n: int) -> list[str]:
        """The verdict, its figure, and the reason with what to do next; `n` differences are decided."""
        who = _and(names) if len(names) < 4 else f"{len(names)} people"
        if not agreement:
            verdict = f"{who} have no item in common yet." if names[1:] else f"Only {who} has labelled so far."
            nobody = f"Nobody has labelled {'these texts ' * bool(self.forms.log.n_other_texts)}yet."
            return [verdict if names else nobody, "", "Agreement needs two labels of an item."]
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
        value = f"“{worst['criterion']}”: {figure(worst['value'], worst['low'], worst['high'])}"
        is_open = sum(row["n"] for row in agreement) < sum(map(len, self.forms.questions.values()))
        reason = "Label more items that two people read. " if unclear and not apart and is_open else ""
        at_odds = differ[differ.index.get_level_values("criterion") == worst["criterion"]]
        if len(at_odds):
            texts = [sorted({*labels} - {None}) for labels in at_odds.to_numpy()]
            pairs = Counter(pair for differing in texts for pair in combinations(differing, 2))
            pair, n_pairs = pairs.most_common(1)[0]
            levels = [self._level(at_odds.index[0], code).rstrip(".") for code in pair]
            low, high = map(cut_apart(levels, _LONGEST_LEVEL).get, levels)
            if not worst["gap"]:
                reason += f"{n_pairs} of the {counted(len(at_odds), 'difference')} are “{low}” against “{high}”. "
            reason += "Talk about these levels before more is labelled; "
            reason += "then decide the items below." if n < len(differ) else "all differences are decided."
        value += f" on {counted(worst['n'], 'item')}{worst['gap']}."
        return [f"{verdict if verdict.startswith(who) else f'{verdict[0].upper()}{verdict[1:]}'}.", value, reason]

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
        return next((text for label, text, _ in self.forms.question(key)["levels"] if label == code), code)

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
            self.forms.log.add_form(self.decider, {self._opened: edit}, self.forms.rubric)
            self._opened = str(message.get("next_item", "")), str(message.get("next_criterion", ""))

    def undo(self, _message: Mapping[str, Any]) -> None:
        """Take back the last decision."""
        if key := next(self.forms.log.acts(self.decider), None):
            self._taken_back = {key: self.forms.log.last()[*key, self.decider]}
            self.forms.log.undo(self.decider, [key])
            self._opened = key


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
