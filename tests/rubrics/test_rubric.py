"""Rubrics and criteria: their rules, their hashes, what an edit changes, and their versions compared in words."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from evalkit.core.lists_of_choices import BETTER, LEVELS
from evalkit.errors import RubricError
from evalkit.rubrics import Criterion, Rubric, Scale, build_prompt, load_rubric

SCALE = {0: "no", 1: "partly", 2: "yes"}


def rubric(**fields: Any) -> Rubric:
    criteria = [
        {"name": "one", "scale": SCALE, "pass_at": 2},
        {"name": "two", "level": "nominal", "scale": {"a": "A", "b": "B"}, "pass_if": ["a"]},
    ]
    return Rubric(**({"id": "r", "inputs": ["question?", "answer"], "criteria": criteria} | fields))


def criterion(**fields: Any) -> Criterion:
    return Criterion(**({"name": "c", "scale": SCALE} | fields))


class TestCriterionRules:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"desciption": "x"}, r"criterion 'c': unknown key 'desciption'.* \(allowed: name, description, level"),
            ({"scale": {}}, "the scale is empty"),
            ({"scale": None}, "the scale is empty"),
            ({"pass_at": 5}, "pass_at 5 is not on the scale; allowed: 0, 1, 2"),
            ({"level": "nominal", "pass_at": 1}, "use pass_if"),
            ({"level": "cardinal"}, "invalid level: 'cardinal'; allowed: "),
            ({"weight": -1}, "weight: must be 0, or a number from 1e-9 to 1e9, got -1"),
            ({"weight": float("nan")}, "weight"),
            ({"critical": True}, "critical and therefore needs a pass rule"),
            ({"name": ""}, "one line of 1 to 200 characters"),
            ({"name": "a\nb"}, "one line"),
            ({"name": "x" * 201}, "one line"),
            ({"name": 5}, "name: must be a valid string"),
            ({"steps": "one"}, "steps"),
            ({"description": 7}, "description"),
        ],
    )
    def test_faults(self, fields, message):
        with pytest.raises(RubricError, match=message):
            criterion(**fields)

    @pytest.mark.parametrize("level", [None, *LEVELS])
    @pytest.mark.parametrize("better", BETTER)
    @pytest.mark.parametrize(
        "scale",
        [(0, 10), "0-10", "1 to 5", (0.5, 1), [1, 2, 3], [0, 10], "bad, ok, good", [False, True], Scale.of((0, 3))],
    )
    def test_a_scale_of_any_spelling_is_the_same_after_an_edit_and_in_a_file(self, scale, better, level, tmp_path):
        made = criterion(scale=scale, better=better, **({"level": level} if level else {}))
        edited = made.edit(description="d")
        saved = rubric(criteria=[made]).save(tmp_path)
        for one in (made, edited, saved.criteria[0], load_rubric(tmp_path / "r" / "v1.yaml").criteria[0]):
            assert one.scale == made.scale
            prompt = str(build_prompt(rubric(criteria=[one]), {"answer": "x"}))
            assert all(label in prompt.split("Allowed values")[1] for label in made.scale.labels)
            assert (one.level, one.better, one.pass_at, one.pass_if) == (
                one.scale.level, better, one.scale.pass_at, one.scale.pass_if,
            )  # fmt: skip
        assert level in (None, made.level)
        assert saved.content_hash == rubric(criteria=[edited.edit(description="")]).content_hash
        if scale == [False, True] and level != "nominal":
            assert made.scale.passed(1) is (better == "high")

    def test_a_scale_that_is_made_already_brings_its_level_and_its_rule(self):
        made = criterion(scale=Scale.of((0, 100), better="low", pass_at=60))
        assert (made.level, made.better, made.pass_at, made.scale.code(37)) == ("interval", "low", 60, 37)
        assert criterion(scale=made.scale, pass_if=[0]).pass_at is None
        assert made.edit(scale=(0, 10), pass_at=6).scale == Scale.of(
            {0: "", 10: ""}, level="interval", better="low", pass_at=6
        )

    def test_missing_scale(self):
        with pytest.raises(RubricError, match="criterion 'c': the key 'scale' is missing"):
            Criterion(name="c")

    def test_names_in_any_script(self):
        assert criterion(name="  Полнота ответа (1) ").name == "Полнота ответа (1)"

    def test_from_pollux(self):
        made = Criterion.from_pollux("Критерий", {"2": "да", "0": "нет", "1": "частично"})
        assert (made.level, made.scale.codes, made.pass_at) == ("interval", (0, 1, 2), None)
        two = Criterion.from_pollux("Критерий", {0: "нет", 1: "да"})
        assert (two.pass_at, two.scale.code("0,5")) == (1, 0.5)
        with pytest.raises(RubricError, match="must be a number"):
            Criterion.from_pollux("x", {"good": "", "bad": ""})


class TestRubricRules:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"critera": []}, r"rubric 'r': unknown key 'critera'.* \(allowed: id, version, description"),
            ({"criteria": []}, "criteria"),
            ({"criteria": {"one": {}}}, "criteria: expected a list, got a mapping"),
            ({"criteria": ["one"]}, "expected a mapping, got 'one'"),
            (
                {"criteria": [{"name": "x", "scale": {0: "", 1: ""}, "wieght": 1}]},
                "criterion 'x': unknown key 'wieght'",
            ),
            (
                {"criteria": [{"name": "x", "scale": SCALE}, {"name": "x ", "scale": SCALE}]},
                "two criteria have the same name",
            ),
            ({"id": "My Rubric"}, "'My Rubric' must consist of lower-case letters"),
            ({"id": "../up"}, "must consist of"),
            ({"id": "templates"}, "'templates' is reserved for a folder beside the rubrics"),
            ({"version": "1"}, "'1' must consist of 'v' and a number"),
            ({"version": 1}, "version: must be a valid string"),
            ({"template": "default@1"}, "must consist of name and version, such as default@v1"),
            ({"inputs": []}, "inputs is empty; list the item columns"),
            ({"inputs": "answer"}, "inputs"),
            ({"inputs": ["answer", "answer?"]}, "duplicate column in inputs"),
            ({"inputs": ["the answer"]}, "'the answer' cannot be the name of an input"),
            ({"inputs": ["fence"]}, "'fence' cannot be the name of an input"),
            ({"layout": "last"}, "layout"),
            ({"mode": "listwise"}, "mode"),
            ({"mode": "pairwise"}, "needs the inputs answer_a and answer_b; add 'answer_a', 'answer_b'"),
            (
                {"mode": "pairwise", "inputs": ["answer_a", "answer_b"]},
                "must have level='nominal' and the codes A, B and, optionally, tie",
            ),
            ({"pass_at": 2}, "pass_at: must be less than or equal to 1"),
        ],
    )
    def test_faults(self, fields, message):
        with pytest.raises(RubricError, match=message):
            rubric(**fields)

    def test_all_faults_at_once(self):
        with pytest.raises(RubricError, match=r"unknown key 'x' .*; pass_at: ") as caught:
            rubric(x=1, pass_at=2)
        assert "\n" not in str(caught.value)

    def test_names_and_inputs(self):
        made = rubric()
        assert (made.names, made.input_names, made.required_inputs) == (
            ("one", "two"),
            ("question", "answer"),
            ("answer",),
        )

    def test_cannot_be_changed_and_can_be_copied(self):
        made = rubric()
        with pytest.raises(ValueError, match="frozen"):
            made.description = "x"  # type: ignore[misc]
        edited = made.edit("one", weight=2)
        for one in (made, edited):
            for back in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), Rubric(**one.to_dict())):
                assert (back.to_dict(), back.content_hash) == (one.to_dict(), one.content_hash)
        assert pickle.loads(pickle.dumps(edited)).label == edited.label
        assert hash(made) == hash(rubric())


CRITERION_EDITS: list[tuple[dict[str, Any], bool]] = [
    # change, and whether it reaches the prompt
    ({"description": "new"}, True),
    ({"steps": ["look"]}, True),
    ({"scale": {1: "other"}}, True),
    ({"scale": {3: "more"}}, True),
    ({"scale": {1: None}}, True),
    ({"level": "interval"}, True),
    ({"name": "uno"}, True),
    ({"pass_at": 1}, False),
    ({"pass_at": None}, False),
    ({"pass_if": [0, 2]}, False),
    ({"weight": 3}, False),
    ({"critical": True}, False),
    ({"better": "low"}, False),
]
RUBRIC_EDITS: list[tuple[dict[str, Any], bool]] = [
    ({"description": "new"}, True),
    ({"inputs": ["answer"]}, True),
    ({"inputs": ["answer", "question?"]}, True),
    ({"layout": "item_first"}, True),
    ({"pass_at": 0.5}, False),
    ({"version": "v7"}, False),
    ({"id": "other"}, False),
    ({"template": "tagged@v1"}, False),  # the template has a hash of its own in the key
]


class TestHashes:
    @pytest.mark.parametrize(("changes", "reaches"), CRITERION_EDITS)
    def test_an_edit_to_one_criterion(self, changes, reaches):
        before = rubric()
        after = before.edit("one", **changes)
        one, two = after.names
        assert (after.prompt_hashes[one] != before.prompt_hashes[before.names[0]]) is reaches
        assert after.prompt_hashes[two] == before.prompt_hashes[two]
        assert after.content_hash != before.content_hash

    @pytest.mark.parametrize(("changes", "reaches"), RUBRIC_EDITS)
    def test_an_edit_to_the_rubric(self, changes, reaches):
        before = rubric()
        after = before.edit(**changes)
        for old, new in zip(before.names, after.names, strict=True):
            assert (after.prompt_hashes[new] != before.prompt_hashes[old]) is reaches
        moved = set(changes) & {"id", "version"}
        assert (after.content_hash != before.content_hash) is not bool(moved)

    @pytest.mark.parametrize(("changes", "_"), RUBRIC_EDITS)
    def test_a_copy_by_pydantic_has_hashes_of_its_own(self, changes, _):
        before, edited = rubric(), rubric().edit(**changes)
        names = ("prompt_hashes", "content_hash", "label", "names", "input_names", "required_inputs")
        assert all(getattr(before, name) for name in names)  # kept in the object
        after = before.model_copy(update=changes)
        for own in names:
            assert getattr(after, own) == getattr(edited, own)

    def test_a_copy_by_pydantic_with_other_criteria(self):
        before = rubric()
        assert len(before.prompt_hashes) == len(before.names)
        one, two = before.criteria
        after = before.model_copy(update={"criteria": [two, one.model_copy(update={"description": "new"})]})
        assert after.names == (two.name, one.name)
        assert after.prompt_hashes[two.name] == before.prompt_hashes[two.name]
        assert after.prompt_hashes[one.name] != before.prompt_hashes[one.name]
        assert after.label == f"v1+{after.content_hash[:8]}"
        assert before.model_copy() == before.model_copy(deep=True) == before
        assert (before.model_copy().label, before.model_copy(deep=True).label) == ("v1", "v1")

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"pass_at": 7}, "pass_at 7 is not on the scale"),
            ({"scale": {1: "only"}}, "only one level"),
            ({"descripton": "new"}, "did you mean 'description'"),
        ],
    )
    def test_a_copy_by_pydantic_is_checked(self, changes, problem):
        with pytest.raises(RubricError, match=problem):
            rubric().criteria[0].model_copy(update=changes)

    def test_one_content_has_one_hash_however_it_is_written(self):
        other = rubric(
            criteria=[
                {"name": "one", "scale": {"2": "yes", 0.0: "no", 1: "partly"}, "pass_at": 2.0, "weight": 1},
                Criterion(name="two", level="nominal", scale={"a": "A", "b": "B"}, pass_if={"a"}),
            ]
        )
        assert other.content_hash == rubric().content_hash
        assert other == rubric()

    def test_kinds_of_codes_are_told_apart(self):
        numbers = rubric(criteria=[criterion(scale={0: "x", 1: "y"})])
        texts = rubric(criteria=[criterion(scale={"0": "x", "1": "y"}, level="nominal")])
        assert list(numbers.prompt_hashes.values()) != list(texts.prompt_hashes.values())


class TestLabel:
    def test_made_edited_and_back(self):
        made = rubric()
        edited = made.edit("one", pass_at=1)
        assert (made.edited, made.label) == (False, "v1")
        assert (edited.edited, edited.label) == (True, f"v1+{edited.content_hash[:8]}")
        assert edited.edit("one", pass_at=2).label == "v1"
        assert edited.edit("one", weight=2).edited

    def test_another_version_or_id_starts_afresh(self):
        assert rubric().edit(version="v2", description="x").label == "v2"
        assert not rubric().edit(id="s", description="x").edited

    def test_no_change_is_no_edit(self):
        made = load_rubric("faithfulness")
        text = made.criteria[0].scale[1]
        assert not made.edit("faithfulness", scale={1: text}).edited
        assert not made.edit().edited


class TestEdit:
    def test_leaves_the_original(self):
        made = rubric()
        before = made.to_dict()
        made.edit("one", scale={1: "x", 2: None}, pass_at=1, steps=["s"])
        assert made.to_dict() == before

    def test_scale_names_only_what_changes(self):
        edited = rubric().edit("one", scale={"1": "half", 3: "more", 0: None}, pass_at=3)
        assert dict(edited.criterion("one").scale) == {1: "half", 2: "yes", 3: "more"}
        assert dict(rubric().edit("two", scale={"A": "new", "c": "C"}).criterion("two").scale) == {
            "a": "new", "b": "B", "c": "C",
        }  # fmt: skip

    def test_one_pass_rule_replaces_the_other(self):
        edited = rubric().edit("one", pass_if=[1, 2])
        assert (edited.criteria[0].pass_at, edited.criteria[0].pass_if) == (None, (1, 2))
        assert edited.edit("one", pass_at=1).criteria[0].pass_if is None
        assert not rubric().edit("one", pass_at=None).criteria[0].scale.has_rule

    @pytest.mark.parametrize(
        ("name", "changes", "message"),
        [
            ("one", {"wieght": 1}, "unknown key 'wieght'; did you mean 'weight'.* .allowed: name, description"),
            ("three", {"weight": 1}, "no criterion 'three'; available: 'one', 'two'"),
            (None, {"scale": {1: "x"}}, r"unknown rubric key 'scale'.*pass its name first: rubric.edit\('criterion'"),
            ("one", {"scale": {2: None}}, "pass_at 2 is not on the scale"),
            ("one", {"scale": {"x": "y"}}, "code 'x' must be a number, because level is 'ordinal'"),
            ("one", {"name": "two"}, "two criteria have the same name"),
        ],
    )
    def test_faults(self, name, changes, message):
        with pytest.raises(RubricError, match=message):
            rubric().edit(name, **changes)


class TestReview:
    def messages(self, made: Rubric) -> str:
        return "\n".join(": ".join(row) for row in made.lint().itertuples(index=False))

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"scale": {0: "no", 1: ""}}, "warning: r/c: level 1 has no text"),
            ({"scale": {0: "The answer is fine.", 1: "the answer, is: fine"}}, "levels 0 and 1 read almost alike"),
            ({"scale": SCALE}, "no pass rule"),
            ({"scale": {n: f"level{n}" for n in range(8)}}, "8 levels: people and judges can distinguish about five"),
            ({"scale": SCALE, "weight": 0}, "all weights are 0"),
            *[
                (
                    {"scale": SCALE, "pass_at": at, "better": side},
                    "every level passes: the pass rule tells nothing apart",
                )
                for at, side in ((min(SCALE), "high"), (max(SCALE), "low"))
            ],
            ({"scale": {"a": "x", "b": "y"}, "level": "nominal", "pass_if": ["a", "b"]}, "every level passes"),
        ],
    )
    def test_findings(self, fields, message):
        assert message in self.messages(rubric(criteria=[{"name": "c", **fields}]))

    def test_no_description(self):
        assert "no description" in self.messages(rubric())
        assert "no description" not in self.messages(rubric(description="d"))


class TestDiff:
    def test_nothing(self):
        assert rubric().diff(rubric(version="v2")) == ""

    def test_everything_in_words(self):
        old = rubric(description="old")
        new = Rubric(
            id="r",
            inputs=["answer"],
            description="",
            layout="item_first",
            pass_at=0,
            criteria=[
                {
                    "name": "one",
                    "scale": {0: "no", 1: "half", 3: "more"},
                    "weight": 0.5,
                    "pass_if": [1, 3],
                    "steps": ["s"],
                },
                {"name": "three", "scale": SCALE, "critical": True, "pass_at": 1},
            ],
        )
        assert old.diff(new).splitlines() == [
            "description is nothing instead of 'old'", "inputs is answer instead of question?, answer",
            "layout is 'item_first' instead of 'rubric_first'", "pass_at is 0.0 instead of nothing",
            "criterion 'two' is gone", "criterion 'three' is new", "one: steps is s instead of nothing",
            "one: level 2 is gone", "one: level 1 reads 'half' instead of 'partly'", "one: level 3 is new: 'more'",
            "one: pass_at is nothing instead of 2 (verdicts change, replies stay valid)",
            "one: pass_if is 1, 3 instead of nothing (verdicts change, replies stay valid)",
            "one: weight is 0.5 instead of 1.0 (verdicts change, replies stay valid)",
        ]  # fmt: skip
