"""Profiles: a frozen judge comes back from its file as it was, and holds to the rubric it was frozen with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.core.judges import Judge
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES
from evalkit.errors import ConfigError, RubricError
from evalkit.rubrics import Profile, Rubric, load_profile, load_rubric
from evalkit.rubrics.files import dump_yaml

SECRET = "sk-live-0123456789"


def written(profile: Profile, path: Path) -> Profile:
    path.write_text(dump_yaml(profile.to_dict()), encoding="utf-8")
    return load_profile(path)


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Rubric:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    return Rubric(id="mine", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}]).save()


class TestRoundTrip:
    def test_smallest(self, tmp_path):
        made = Profile(profile="p")
        assert written(made, tmp_path / "p.yaml") == made
        assert made.to_dict() == {
            "profile": "p", "version": "1", "samples": 3, "vote": "mean", "aggregate": "mean", "quorum": 0.5,
        }  # fmt: skip

    @pytest.mark.long
    @given(
        st.sampled_from(tuple(VOTE_RULES)),
        st.sampled_from(tuple(AGGREGATE_RULES)),
        st.sampled_from(["na", "low", "mean"]),
        st.integers(1, 9),
        st.floats(0, 1),
        st.one_of(st.none(), st.floats(0, 1)),
        st.lists(st.sampled_from(["fake:strict", "fake:noisy", "openai:gpt-x"]), unique=True, max_size=3),
    )
    def test_rules(self, tmp_path_factory, vote, aggregate, ties, samples, quorum, agreement, judges):
        made = Profile(
            profile="p", description="a: b # c", vote=vote, aggregate=aggregate, ties=ties, samples=samples,
            quorum=quorum, min_self_agreement=agreement, judges=judges, template="tagged@v1",
        )  # fmt: skip
        assert written(made, tmp_path_factory.mktemp("p") / "p.yaml") == made

    @pytest.mark.parametrize(
        "judge",
        [
            Judge.of("fake"),
            Judge("openai", "m", temperature=None, max_tokens=None),
            Judge("openai", "m", base_url="http://localhost:8000/v1", api_key_env="OWN_KEY", name="mine", weight=0.5),
            Judge("openai", "m", base_url="http://h/v1", service="pool", price=(0.1, 2.0), timeout_s=5),
            Judge("openai", "m", template="tagged@v1", params={"top_p": 0.9, "stop": ["a"], "deep": {"x": None}}),
        ],
    )
    def test_judges(self, tmp_path, judge):
        back = written(Profile(profile="p", judges=[judge]), tmp_path / "p.yaml").judges[0]
        assert back == judge
        assert back.identity == judge.identity

    def test_the_contract_example(self, tmp_path):
        path = tmp_path / "support-strict.yaml"
        path.write_text(
            'profile: support-strict\nversion: "1"\nrubric: faithfulness@v1\n'
            "judges: [{provider: openai, model: gpt-4o-mini, temperature: 1.0, weight: 1}]\n"
            "template: default@v1\nsamples: 3\nvote: mean\naggregate: mean\nquorum: 0.5\n"
        )
        made = load_profile(path)
        assert made.judges == (Judge.of("openai:gpt-4o-mini"),)
        assert made.load() == load_rubric("faithfulness@v1")

    def test_version_may_be_a_number(self):
        assert Profile(profile="p", version=2).version == "2"

    def test_a_copy_by_pydantic_is_checked_and_keeps_its_rubric(self):
        made = Profile(profile="p").with_rubric(load_rubric("faithfulness"))
        assert made.model_copy(update={"judges": "fake:strict"}).judges == (Judge.of("fake:strict"),)
        assert made.model_copy(update={"samples": 5}).load() is made.load()
        with pytest.raises(ConfigError, match="samples"):
            made.model_copy(update={"samples": 0})


class TestJudges:
    def test_from_texts_mappings_and_judges(self):
        given_ = ["fake:strict", {"provider": "fake", "model": "noisy"}, Judge.of("fake:lenient")]
        assert [judge.name for judge in Profile(profile="p", judges=given_).judges] == [
            "fake:strict", "fake:noisy", "fake:lenient",
        ]  # fmt: skip
        for one in ("fake", {"provider": "fake", "model": "strict"}, Judge.of("fake")):
            assert Profile(profile="p", judges=one).judges == (Judge.of("fake"),)
            assert Profile(profile="p").with_judges(one).judges == (Judge.of("fake"),)

    @pytest.mark.parametrize(
        ("judges", "message"),
        [
            (["gtp:x"], "profile 'p': judges: unknown judge provider 'gtp'"),
            ([{"provider": "fake", "model": "strict", "temp": 1}], "judge: unknown key 'temp'"),
            (5, "judges"),
            ([None], "expected a Judge, a string"),
        ],
    )
    def test_faults(self, judges, message):
        with pytest.raises(ConfigError, match=message):
            Profile(profile="p", judges=judges)

    def test_a_key_never_gets_in_or_out(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        made = Profile(profile="p", judges=["openai:m"])
        assert SECRET not in str(made.to_dict()) + repr(made)
        for fields in ({"api_key": SECRET}, {"api_key_env": SECRET}, {"params": {"api_key": SECRET}}):
            with pytest.raises(ConfigError) as caught:
                Profile(profile="p", judges=[{"provider": "openai", "model": "m", **fields}])
            assert SECRET not in str(caught.value)


class TestFaults:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"sample": 3}, r"profile 'p': unknown key 'sample'.* \(allowed: profile, version, description, rubric"),
            ({"samples": 0}, "samples: must be greater than or equal to 1"),
            ({"vote": "max"}, "vote: must be 'mean', 'median' or 'majority'"),
            ({"aggregate": "avg"}, "aggregate"),
            ({"quorum": 1.5}, "quorum"),
            ({"ties": "high"}, "ties"),
            ({"min_self_agreement": -1}, "min_self_agreement"),
        ],
    )
    def test_values(self, fields, message):
        with pytest.raises(ConfigError, match=message):
            Profile(profile="p", **fields)

    def test_no_name(self):
        with pytest.raises(ConfigError, match="the key 'profile' is missing"):
            Profile()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("profile: p\nsample: 3\n", r"p\.yaml: profile 'p': unknown key 'sample'"),
            ("profile: p\nprofile: q\n", r"p\.yaml, line 2: .*duplicate key"),
            ("- p\n", r"p\.yaml: expected a mapping with profile"),
            ("", r"p\.yaml: expected a mapping with profile"),
        ],
    )
    def test_files(self, tmp_path, text, message):
        (tmp_path / "p.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_profile(tmp_path / "p.yaml")

    def test_missing(self, tmp_path):
        with pytest.raises(ConfigError, match="profile 'lenient' not found; available: 'conservative', 'strict'"):
            load_profile("lenient")
        with pytest.raises(ConfigError, match=r"nothing\.yaml cannot be read"):
            load_profile(tmp_path / "nothing.yaml")


class TestRubric:
    def test_none_named(self):
        with pytest.raises(RubricError, match=r"profile 'strict' has no rubric; add one with profile.with_rubric"):
            load_profile("strict").load()

    def test_given_by_name_or_object(self, mine):
        rules = load_profile("conservative")
        assert rules.with_rubric("mine").load() == rules.with_rubric(mine).load() == mine
        assert rules.with_rubric(mine).rubric == "mine@v1"
        assert rules.rubric is None
        edited = mine.edit("c", pass_at=1)
        assert rules.with_rubric(edited).load() is edited

    def test_hash_is_checked_when_it_is_loaded(self, mine, tmp_path):
        frozen = written(load_profile("strict").with_rubric(mine).with_judges("fake"), tmp_path / "p.yaml")
        assert frozen.load() == mine
        file = tmp_path / "rubrics" / "mine" / "v1.yaml"
        file.write_text(file.read_text().replace("1: yes", "1: perhaps"))
        with pytest.raises(RubricError, match=r"rubric mine@v1 changed since profile 'strict' was frozen"):
            frozen.load()

    def test_a_pass_rule_is_part_of_what_was_frozen(self, mine, tmp_path):
        frozen = written(load_profile("strict").with_rubric(mine), tmp_path / "p.yaml")
        file = tmp_path / "rubrics" / "mine" / "v1.yaml"
        file.write_text(file.read_text() + "    pass_at: 1\n")
        with pytest.raises(RubricError, match="restore the rubric's file, or freeze again"):
            frozen.load()

    def test_newer_versions_do_not_matter(self, mine, tmp_path):
        frozen = written(load_profile("strict").with_rubric(mine), tmp_path / "p.yaml")
        mine.edit("c", pass_at=1).save()
        assert frozen.load() == mine


def test_unknown_fields_of_a_profile_cannot_be_set() -> None:
    made: Any = Profile(profile="p")
    with pytest.raises(ValueError, match="frozen"):
        made.samples = 5


@pytest.mark.parametrize(
    "fields",
    [{"samples": True}, {"samples": "3"}, {"quorum": False}, {"quorum": "0.5"}, {"min_self_agreement": False}],
    ids=str,
)
def test_true_and_texts_are_no_numbers_in_a_profile(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(fields))}: must be a valid"):
        Profile(profile="p", **fields)


@pytest.mark.parametrize("where", ["pass_at", "weight"])
def test_true_and_texts_are_no_numbers_in_a_rubric(where: str) -> None:
    """`pass_at: false` would be 0, which everything passes."""
    for value in (False, True, "1"):
        criterion = {"name": "a", "scale": {0: "x", 1: "y"}, "pass_at": 1}
        criterion |= {"weight": value} if where == "weight" else {}
        own = {"pass_at": value} if where == "pass_at" else {}
        with pytest.raises(RubricError, match=f"{where}: must be (a valid number|0, or a number)"):
            Rubric(id="r", description="x", inputs=["answer"], criteria=[criterion], **own)
