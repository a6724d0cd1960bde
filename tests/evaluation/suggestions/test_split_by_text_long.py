"""Items of equal text are in one part of the labels; looks, whoever takes them, are counted once, in one log."""

from __future__ import annotations

import random
from collections import defaultdict
from hashlib import sha256
from itertools import product
from pathlib import Path

import pandas as pd
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.notebook.together.label_forms import Forms
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.stats.alignment.label_splits import ItemSet, count_look, look_key, looks_at, read_log, split_labels

RUBRIC = rubric_of("r", {0: "no", 1: "yes"}, pass_at=1, template="number@v1")
JUDGE = ek.Judge("openai", "x", name="x", base_url="http://127.0.0.1:9/v1")


def is_held_out(name: str) -> bool:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big") / 2**64 >= 0.6


def components(groups: list[str], texts: list[str]) -> list[int]:
    """The number of the connected part of each row: rows of one group, or of one text, are together."""
    part = list(range(len(groups)))
    for column in (groups, texts) * len(groups):
        rows = defaultdict(list)
        for row, value in enumerate(column):
            rows[value].append(row)
        least = {row: min(part[one] for one in of_value) for of_value in rows.values() for row in of_value}
        if (column is texts) and part == [least[row] for row in range(len(part))]:
            break
        part = [least[row] for row in range(len(part))]
    return part


def test_equal_texts_and_groups_are_in_one_part() -> None:
    rng, shares = random.Random(4), []
    for _ in range(150):
        n = rng.randrange(50, 120)
        ids = [f"i{rng.randrange(10**6)}-{at}" for at in range(n)]
        texts = [f"text {rng.randrange(rng.choice([n // 3, 2 * n]))}" for _ in range(n)]
        items = pd.DataFrame({"item_id": ids})
        own = ids
        if rng.random() < 0.5:
            own = [f"g{rng.randrange(2 * n)}" for _ in range(n)]
            items["group_id"] = own
        truth = components(own, texts)
        labels = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "a", "label": "1"})
        groups = groups_of(items, texts)
        part = dict(split_labels(labels, groups)[["item_id", "part"]].astype(str).to_numpy().tolist())
        small = {number for number in truth if truth.count(number) <= n / 10}
        assert len({(number, part[item]) for number, item in zip(truth, ids, strict=True) if number in small}) == (
            len(small)
        )
        assert len({(text, part[item]) for text, item in zip(texts, ids, strict=True)}) == len({*texts})
        alone = {item: name for item, name, number in zip(ids, own, truth, strict=True)
                 if len({one for one, other in zip(own, truth, strict=True) if other == number}) == 1}  # fmt: skip
        for item, name in alone.items():  # without a twin nothing changes
            assert part[item] == ("held-out" if is_held_out(name) else "dev")
        shares.append(len({number for number, item in zip(truth, ids, strict=True) if part[item] != "dev"})
                      / len({*truth}))  # fmt: skip
    assert 0.35 < sum(shares) / len(shares) < 0.45
    assert set(groups_of(pd.DataFrame({"item_id": ["a", "b"]}), ["x", "y"])) == {"a", "b"}


def test_a_frequent_text_or_a_chain_of_groups_leaves_a_split_near_two_fifths() -> None:
    shares = defaultdict[float, float](float)
    for seed, share in product(range(20), (0.1, 0.2, 0.3, -1)):
        rng, rows = random.Random(seed), range(200)
        items = pd.DataFrame({"item_id": [f"i{seed}-{at}" for at in rows]})
        own = items["group_id"] = [f"c{seed}-{at // 5}" for at in rows]
        texts = [f"text {at}" if rng.random() >= share else "I can't help with that." for at in rows]
        if share < 0:  # each text is in two groups, whichever
            texts = rng.sample([f"text {at // 2}" for at in rows], len(rows))
        groups = groups_of(items, texts)
        shuffled = items.assign(text=texts).sample(frac=1, random_state=seed)
        assert groups.equals(groups_of(shuffled, shuffled["text"])[items["item_id"]])
        held = [is_held_out(name) for name in groups]
        assert len({*zip(texts, held, strict=True)}) == len({*texts})
        shares[share] += sum(held) / len(held) / 20
        assert 0.05 < sum(held) / len(held) < 0.75, (seed, share)
        if share > 0:  # only the frequent items leave their groups, and they are tuned on
            assert not any(side for text, side in zip(texts, held, strict=True) if text.startswith("I"))
            rest = {(name, side) for name, side, text in zip(own, held, texts, strict=True) if text.startswith("text")}
            assert len(rest) == len({name for name, _ in rest})
    assert all(0.25 < mean < 0.48 for mean in shares.values()), shares


def session_of(folder: Path, n: int = 160) -> Session:
    """Each second item has the text of the one before."""
    ids = [f"i{at}" for at in range(n)]
    items = pd.DataFrame({"item_id": ids, "answer": [f"text {at // 2}" for at in range(n)]})
    labels = pd.DataFrame(
        {"item_id": ids, "criterion": "c", "annotator": "a", "label": [str(at // 2 % 2) for at in range(n)]}
    )
    ek.record(items, RUBRIC, JUDGE, [[str(at // 6 % 2)] for at in range(n)], overwrite=True)
    session = Session(items, RUBRIC, JUDGE, labels, recorded="use", folder=folder, samples=1, name="s")
    session.run()
    return session


def test_a_session_and_its_label_page_are_split_by_text(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    part = session.labels.log.table.set_index("item_id")["part"].astype(str)
    assert all(part[f"i{at}"] == part[f"i{at + 1}"] for at in range(0, 160, 2))
    assert "left out" not in session.look_held_out()["compared"]
    again = session_of(tmp_path)
    assert again.labels.log.table.set_index("item_id")["part"].astype(str).equals(part)
    forms = Forms(again.setup.items, RUBRIC, tmp_path / "s.labels.jsonl", "random", None, None)
    assert forms.groups[forms.groups.map(is_held_out)].index.tolist() == part.index[part == "held-out"].tolist()


def test_looks_of_all_origins_have_one_count(tmp_path: Path) -> None:
    """In any order, of several versions and rubrics: looks at labels that share items have one count."""
    rng = random.Random(5)
    for at in range(30):
        cache, seen = tmp_path / str(at), list[tuple[str, ...]]()
        sets = {"a": [f"i{one}" for one in range(50)], "b": [f"i{one}" for one in range(40, 90)], "z": ["z1", "z2"]}
        for _ in range(8):
            name, version, rubric = rng.choice("aabz"), rng.choice(["v1", "v2"]), rng.choice(["r", "other"])
            said = pd.DataFrame({"item_id": sets[name], "criterion": "c"})
            figures = {"rubric": rubric, "rubric_version": version, "criterion": "c"}
            count_look(pd.DataFrame([figures]), said, cache)
            look = (name, rubric, version)
            seen += [look] * (look not in seen)
            overlaps = [one for one in seen if (one[0] == "z") == (name == "z")]
            items = ItemSet.of("c", sets[name])
            number = looks_at(read_log(cache), "c", items)[look_key(figures | {"labels": items.key})]
            assert number == 1 + overlaps.index(look), (at, seen)
