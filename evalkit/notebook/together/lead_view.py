"""The lead's view: how far people agree, who has done how much, and a decision on each item on which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pandas as pd

from evalkit.core.formatting import cut, figure
from evalkit.errors import counted
from evalkit.notebook.judgments.item_details import judged_inputs
from evalkit.notebook.judgments.item_table import PAGE
from evalkit.notebook.labelling.label_log import ENOUGH_LABELS, LabelEdit
from evalkit.notebook.together.label_forms import Forms, Key, clean
from evalkit.stats import reliability
from evalkit.stats.alignment.label_values import read_label
from evalkit.stats.intervals import wilson
from evalkit.tables.messages import value_text

DECIDED = "decided by "
"""How the annotator of a decision is named, before the name of the lead."""

AGREED = 0.8
"""Above this agreement people count as agreeing."""

_STEP, _LONGEST_TEXT, _LONGEST_LEVEL = 10, 400, 48
_AGO = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


class LeadScreen:
    """What the lead sees and decides.

    Attributes
    ----------
    decider
        The annotator of the decisions.
    """

    def __init__(self, forms: Forms, lead: str) -> None:
        self.forms, self.decider = forms, f"{DECIDED}{lead}"
        self._filter, self._page, self._computed = {"criterion": "", "open": False}, 0, (-1, dict[str, Any]())
        self._selected: Key | None = None
        self.actions: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "look": lambda _: None, "filter": self._set_filter, "turn": self._turn, "step": self._step,
            "open": self._open, "decide": self._decide, "undo": self._undo,
        }  # fmt: skip

    # -- what people said
    def _labels(self) -> tuple[dict[Key, dict[str, LabelEdit]], dict[Key, LabelEdit]]:
        """Question -> annotator -> label, as a code of the scale; and question -> decision."""
        keys = dict.fromkeys(key for keys in self.forms.questions.values() for key in keys)
        people: dict[Key, dict[str, LabelEdit]] = {key: {} for key in keys}
        decisions = {}
        for (item, criterion, who), edit in self.forms.log.last_edits().items():
            if (item, criterion) not in keys:
                continue
            if edit.source == "adjudicated":
                decisions[item, criterion] = edit
            elif edit.label is not None:
                people[item, criterion][who] = edit
        return people, decisions

    def _code(self, key: Key, edit: LabelEdit) -> str:
        label = str(edit.label)
        reading = read_label(label, self.forms.rubric.criterion(key[1]).scale)
        return label if reading is None or reading.label is None else reading.label

    def _level(self, key: Key, code: str) -> str:
        scale = self.forms.rubric.criterion(key[1]).scale
        return dict(zip(scale.labels, scale.values(), strict=True)).get(code) or code

    def payload(self) -> dict[str, Any]:
        """The whole view."""
        log = self.forms.log
        if self._computed[0] != log.n_edits:
            self._computed = log.n_edits, self._compute()
        known: dict[str, Any] = self._computed[1]
        differ, decisions, codes = known["differ"], known["decisions"], known["codes"]
        rows = self._rows()
        if self._selected not in rows:
            self._selected = next((key for key in rows if key not in decisions), next(iter(rows), None))
        place = rows.index(self._selected) if self._selected in rows else -1
        self._page = max(0, min(self._page, (len(rows) - 1) // PAGE))
        names = known["names"]
        table = [
            {"item": key[0], "criterion": key[1], "text": self._text(key), "on": key == self._selected}
            | {"labels": [codes[key].get(n) for n in names], "decision": self._decision(decisions, key)}
            for key in rows[self._page * PAGE : (self._page + 1) * PAGE]
        ]
        counts = Counter(key[1] for key in differ)
        filters = [["", len(differ)], *([name, counts[name]] for name in self.forms.rubric.names if counts[name])]
        undo = next(log.acts(self.decider), None)
        return {
            "view": "lead", "title": self.forms.rubric.id, "decider": self.decider, "names": names, "rows": table,
            "sentence": known["sentence"], "agreement": known["agreement"], "people": self._people(names, known),
            "filters": filters, "filter": self._filter, "n_open": sum(key not in decisions for key in differ),
            "n": len(rows), "page": self._page, "n_pages": -(-len(rows) // PAGE), "place": place,
            "undo": "" if undo is None else f"{undo[0]}: {undo[1]}", "panel": self._panel(decisions),
        }  # fmt: skip

    def _compute(self) -> dict[str, Any]:
        """All that follows from the labels alone."""
        people, decisions = self._labels()
        codes = {key: {who: self._code(key, edit) for who, edit in edits.items()} for key, edits in people.items()}
        names = [*dict.fromkeys(who for edits in people.values() for who in edits)]
        differ = [key for key, labels in codes.items() if len({*labels.values()}) > 1]
        agreement = self._agreement(codes)
        chosen = sum(edit.source in ("disputed", "picked") for edits in people.values() for edit in edits.values())
        sentence = self._sentence(names, agreement, codes, differ, chosen)
        values = {"names": names, "differ": differ, "decisions": decisions, "codes": codes, "people": people}
        return values | {"agreement": agreement, "sentence": sentence}

    def _agreement(self, codes: Mapping[Key, Mapping[str, str]]) -> list[dict[str, Any]]:
        rows = [
            {"item_id": item, "criterion": criterion, "judge": who, "label": label}
            for (item, criterion), labels in codes.items()
            for who, label in labels.items()
            if len(labels) > 1
        ]
        if not rows:
            return []
        made = []
        groups = self.forms.groups
        for row in reliability(pd.DataFrame(rows), clusters=groups, scale=self.forms.rubric).to_dict("records"):
            pairs = [
                [one == other for one, other in combinations(labels.values(), 2)]
                for (_, criterion), labels in codes.items()
                if criterion == row["criterion"] and len(labels) > 1
            ]
            value, low, high = (row[f"percent_agreement{end}"] for end in ("", "_low", "_high"))
            if pd.isna(low):  # all agree, or none
                low, high = wilson(value, row["n_clusters"]).low, wilson(value, row["n_clusters"]).high
            ends = [*range(_STEP, len(pairs), _STEP), len(pairs)]
            course = [sum(map(sum, pairs[:end])) / sum(map(len, pairs[:end])) for end in ends]
            alpha = None if pd.isna(row["alpha_vote"]) else float(row["alpha_vote"])
            figures = {"criterion": row["criterion"], "n": len(pairs), "value": value, "low": low, "high": high}
            made.append(figures | {"alpha": alpha, "differ": sum(not all(p) for p in pairs), "course": course})
        return made

    def _sentence(
        self,
        names: list[str],
        agreement: list[dict[str, Any]],
        codes: Mapping[Key, Mapping[str, str]],
        differ: list[Key],
        chosen: int,
    ) -> dict[str, str]:
        """The verdict, its figure, and the reason with what to do next."""
        who = " and ".join([", ".join(names[:-1]), names[-1]]) if 1 < len(names) < 4 else f"{len(names)} people"
        if len(names) < 2:
            verdict = f"Only {names[0]} has labelled so far." if names else "Nobody has labelled yet."
            return {"verdict": verdict, "figure": "", "reason": "Agreement needs items that two people labelled."}
        if not agreement:
            reason = "In the random order, both get the same items first."
            return {"verdict": f"{who} have no item in common yet.", "figure": "", "reason": reason}
        groups: dict[str, list[str]] = {"agree": [], "apart": [], "open": []}
        for row in agreement:
            few = row["n"] < ENOUGH_LABELS
            kind = "open" if few or row["low"] < AGREED <= row["high"] else "agree" if row["low"] >= AGREED else "apart"
            groups[kind].append(f"“{row['criterion']}”")
        agree, apart, unclear = (_and(groups[kind]) for kind in ("agree", "apart", "open"))
        parts = [f"{who} agree on {agree}"] * bool(agree)
        parts += [f"on {apart} they do not yet" if agree else f"{who} do not agree yet on {apart}"] * bool(apart)
        cannot = "it cannot be told yet" if parts else f"it cannot be told yet whether {who} agree"
        parts += [f"on {unclear} {cannot}"] * bool(unclear)
        worst = min(agreement, key=lambda row: row["value"])
        value = figure(worst["value"], worst["low"], worst["high"])
        shown = f"“{worst['criterion']}”: {value} of {counted(worst['n'], 'item')}."
        reason = self._reason(worst["criterion"], codes, differ)
        if unclear and not apart:
            reason = f"Label more items that two people read. {reason}"
        if chosen:
            reason += f" {counted(chosen, 'label')} of disputed or picked items are among these: such items are harder."
        verdict = "; ".join(parts) + "."
        return {"verdict": verdict[0].upper() + verdict[1:], "figure": shown, "reason": reason.strip()}

    def _reason(self, criterion: str, codes: Mapping[Key, Mapping[str, str]], differ: list[Key]) -> str:
        keys = [key for key in differ if key[1] == criterion]
        pairs = Counter(tuple(sorted({*codes[key].values()}, key=str)[:2]) for key in keys)
        if not pairs:
            return ""
        (low, high), n_pairs = pairs.most_common(1)[0]
        low, high = (cut(self._level(keys[0], code), _LONGEST_LEVEL) for code in (low, high))
        if n_pairs < 2:
            return f"Decide the {counted(len(differ), 'item')} below."
        difference = f"{n_pairs} of the {counted(len(keys), 'difference')} are “{low}” against “{high}”."
        return f"{difference} Talk about these levels before more is labelled; then decide the items below."

    def _people(self, names: list[str], known: Mapping[str, Any]) -> list[dict[str, Any]]:
        forms, rows = self.forms, []
        for who in names:
            own = {key for key, labels in known["people"].items() if who in labels}
            n_done = sum(forms.is_done(name, dict.fromkeys(own)) for name in forms.questions)
            n_skipped = sum(forms.is_skipped(name, who) for name in forms.questions)
            pace, times = forms.log.seconds_per_label(who), forms.log.times.get(who, [])
            notes = [f"{n_skipped} skipped"] * bool(n_skipped) + [f"last answer {_ago(times[-1])}"] * bool(times)
            notes += [f"{pace:.0f} s per item"] if pace else []
            rows.append({"name": who, "n": len(forms.questions), "n_done": n_done, "note": ", ".join(notes)})
        n_decided = sum(key in known["decisions"] for key in known["differ"])
        return [*rows, {"name": self.decider, "n": len(known["differ"]), "n_done": n_decided, "note": ""}]

    # -- where they differ
    def _rows(self) -> list[Key]:
        known = self._computed[1]
        return [
            key
            for key in known["differ"]
            if self._filter["criterion"] in ("", key[1]) and not (self._filter["open"] and key in known["decisions"])
        ]

    def _text(self, key: Key) -> str:
        forms, item = self.forms, self.forms.items[self.forms.items["item_id"] == key[0]].iloc[0]
        names = judged_inputs(forms.rubric, key[1], list(forms.columns))
        texts = [value_text(item[forms.columns[name]], name)[: _LONGEST_TEXT * 2] for name in names]
        title = [forms.question(key)["title"]] if forms.is_exploded else []
        return " ".join(" · ".join([*title, *texts]).split())[:_LONGEST_TEXT]

    @staticmethod
    def _decision(decisions: Mapping[Key, LabelEdit], key: Key) -> str | None:
        return None if key not in decisions else decisions[key].label or "open"

    def _panel(self, decisions: Mapping[Key, LabelEdit]) -> dict[str, Any]:
        key, known = self._selected, self._computed[1]
        if key is None:
            return {}
        said = [
            [who, known["codes"][key][who], self._level(key, known["codes"][key][who]), edit.comment]
            for who, edit in known["people"][key].items()
        ]
        decision = decisions.get(key)
        return self.forms.texts(key) | {
            "item": key[0], "criterion": key[1], "question": self.forms.question(key), "said": said,
            "decision": self._decision(decisions, key), "comment": "" if decision is None else decision.comment,
        }  # fmt: skip

    # -- actions
    def _set_filter(self, message: Mapping[str, Any]) -> None:
        self._filter = {"criterion": str(message["criterion"]), "open": bool(message["open"])}
        self._page, self._selected = 0, None

    def _turn(self, message: Mapping[str, Any]) -> None:
        self._page += int(message["step"])

    def _select(self, key: Key | None) -> None:
        rows = self._rows()
        if key in rows:
            self._selected, self._page = key, rows.index(key) // PAGE

    def _step(self, message: Mapping[str, Any]) -> None:
        rows = self._rows()
        if self._selected in rows:
            self._select(rows[max(0, min(len(rows) - 1, rows.index(self._selected) + int(message["step"])))])

    def _open(self, message: Mapping[str, Any]) -> None:
        self._select((message["item"], message["criterion"]))

    def _decide(self, message: Mapping[str, Any]) -> None:
        """Label the item on screen as decided; without a label, it cannot be decided."""
        key = self._selected
        if key is None or key != (message["item"], message["criterion"]):
            return
        rows, label = self._rows(), message["label"]
        later = [*rows[rows.index(key) + 1 :], *rows[: rows.index(key)]]
        edit = LabelEdit(None if label is None else str(label), "adjudicated", comment=clean(message.get("comment")))
        self.forms.log.add(*key, self.decider, edit)
        decisions = self._labels()[1]
        self._select(next((row for row in later if row not in decisions), next(iter(later), None)))

    def _undo(self, _message: Mapping[str, Any]) -> None:
        if key := next(self.forms.log.acts(self.decider), None):
            self.forms.log.undo(self.decider, [key])
            self._select(key)


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _ago(time: datetime) -> str:
    seconds = max(0.0, (datetime.now(UTC) - (time if time.tzinfo else time.replace(tzinfo=UTC))).total_seconds())
    for size, unit in _AGO:
        if seconds >= size:
            return f"{counted(seconds // size, unit)} ago"
    return "just now"
