"""Freezing: what was tuned is judged again by its profile, and nothing is paid twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, EvalkitWarning, RubricError
from evalkit.evaluation import freeze_and_calibrate, promote
from evalkit.evaluation.freeze_and_calibrate import write_profile

JURY = ["fake:strict", "fake:noisy"]
ROWS = [{"question": f"What is {at}?", "answer": f"It is {at * at}."} for at in range(4)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hand(**changes: object) -> ek.Rubric:
    criteria = [
        {"name": "clear", "scale": {0: "unclear", 1: "clear"}, "pass_at": 1},
        {"name": "kind", "scale": {0: "rude", 1: "neutral", 2: "kind"}},
    ]
    return ek.Rubric(**({"id": "hand", "inputs": ["question", "answer"], "criteria": criteria} | changes))


def saved(**changes: object) -> ek.Rubric:
    return hand(**changes).save()


def replayed(profile: str, items: object = ROWS) -> ek.Evaluation:
    """By the profile's file, without a connection; a miss is an error."""
    return ek.evaluate(items, profile, offline=True, on_miss="raise")


def same_figures(one: ek.Evaluation, other: ek.Evaluation) -> None:
    for name in ("scores", "summary", "rubric_scores"):
        left, right = (getattr(each, name).drop(columns="rubric_version") for each in (one, other))
        assert left.equals(right), name


@pytest.mark.long
def test_the_profile_is_the_file_and_pays_nothing():
    judges = [Judge("fake", "strict", weight=2), Judge("fake", "noisy", template="tagged", name="n")]
    evaluation = ek.evaluate(ROWS, saved(), judges, samples=2, vote="median", aggregate="max", quorum=0.4)
    profile = ek.freeze(evaluation, "deep/support.yaml")
    assert profile == ek.load_profile("deep/support.yaml")
    assert (profile.profile, profile.rubric, profile.samples) == ("support", "hand@v1", 2)
    assert (profile.vote, profile.aggregate, profile.quorum) == ("median", "max", 0.4)
    assert profile.rubric_hash == evaluation.rubric.content_hash
    again = replayed("deep/support.yaml")
    assert again.rules == evaluation.rules
    assert again.votes["weight"].unique().tolist() == [2.0, 1.0]
    same_figures(again, evaluation)


def test_a_frozen_profile_shows_its_file_and_one_changed_since_does_not():
    evaluation = ek.evaluate([{"question": "2 + 2?", "answer": "4", "reference": "4"}], "correctness", "fake")
    for profile in (ek.freeze(evaluation, "own.yaml"), ek.freeze(evaluation, "own.yaml"), ek.load_profile("own.yaml")):
        assert f"<p class='note'>file: {Path('own.yaml').resolve()}</p>" in profile._repr_html_()
        for changed in (profile.with_judges("fake:strict"), profile.with_rubric("helpfulness")):
            assert "own.yaml" not in changed._repr_html_()


@pytest.mark.long
def test_an_unedited_rubric_is_not_written_again():
    ek.freeze(ek.evaluate(ROWS, saved(), JURY), "p.yaml")
    ek.freeze(ek.evaluate(ROWS, "relevancy", JURY), "q.yaml")
    assert sorted(map(str, Path("rubrics").rglob("*.yaml"))) == ["rubrics/hand/v1.yaml"]


@pytest.mark.long
def test_an_edited_rubric_becomes_the_next_version_with_its_replies():
    rubric = saved()
    ek.evaluate(ROWS, rubric, JURY)
    edited = rubric.edit("kind", scale={2: "kind and warm"}).edit("clear", weight=2)
    evaluation = ek.evaluate(ROWS, edited, JURY)
    profile = ek.freeze(evaluation, "p.yaml")
    assert profile.rubric == "hand@v2"
    assert ek.load_rubric("hand@v1").content_hash == rubric.content_hash
    assert ek.load_rubric("hand@v2").content_hash == edited.content_hash
    again = replayed("p.yaml")
    assert set(again.judgments["rubric_version"]) == {"v2"}
    assert set(again.judgments["criterion"]) == {"clear", "kind"}
    same_figures(again, evaluation)
    assert ReplyStore.open().stats()["n_promoted"] == len(again.judgments)


@pytest.mark.long
def test_two_freezes_of_one_edit_share_a_version():
    evaluation = ek.evaluate(ROWS, saved().edit("kind", pass_at=2), JURY)
    assert ek.freeze(evaluation, "p.yaml").rubric == ek.freeze(evaluation, "q.yaml").rubric == "hand@v2"
    assert len(list(Path("rubrics/hand").iterdir())) == 2
    same_figures(replayed("p.yaml"), replayed("q.yaml"))


@pytest.mark.long
def test_a_rubric_that_is_in_no_file_is_saved():
    evaluation = ek.evaluate(ROWS, hand(), JURY)
    assert ek.freeze(evaluation, "p.yaml").rubric == "hand@v1"
    same_figures(replayed("p.yaml"), evaluation)
    other = ek.evaluate(ROWS, hand(description="Another one of that name."), JURY)
    assert ek.freeze(other, "q.yaml").rubric == "hand@v2"
    same_figures(replayed("q.yaml"), other)
    numbered = ek.evaluate(ROWS, hand(version="v9", description="A third."), JURY)
    assert ek.freeze(numbered, "r.yaml").rubric == "hand@v9"
    same_figures(replayed("r.yaml"), numbered)


@pytest.mark.long
def test_adopted_replies_count_for_the_frozen_version():
    first = saved()
    ek.judge(ROWS, first, JURY)
    second = first.edit("kind", scale={2: "warm"}).save()
    ek.judge(ROWS, second, JURY, adopt=True)  # clear is v1's still
    third = second.edit("kind", scale={2: "warmer"})
    evaluation = ek.evaluate(ROWS, third, JURY, adopt=True)
    assert ek.freeze(evaluation, "p.yaml").rubric == "hand@v3"
    same_figures(replayed("p.yaml"), evaluation)
    unedited = ek.evaluate(ROWS, second, JURY, adopt=True)
    assert ek.freeze(unedited, "q.yaml").rubric == "hand@v2"
    same_figures(replayed("q.yaml"), unedited)


@pytest.mark.long
def test_a_pairwise_rubric_replays_under_its_new_version():
    pairs = [{"question": "q", "answer_a": f"It is {at}.", "answer_b": "No."} for at in range(3)]
    rubric = ek.load_rubric("preference")
    evaluation = ek.evaluate(pairs, rubric.edit(description="Which one?"), JURY)
    assert ek.freeze(evaluation, "p.yaml").rubric == "preference@v2"
    same_figures(replayed("p.yaml", pairs), evaluation)


def test_a_file_that_is_there_is_never_overwritten():
    evaluation = ek.evaluate(ROWS, hand(), JURY)
    Path("p.yaml").write_text("mine")
    with pytest.raises(ConfigError, match=r"p\.yaml already exists and is never overwritten"):
        ek.freeze(evaluation, "p.yaml")
    assert Path("p.yaml").read_text() == "mine"
    assert not Path("rubrics").exists()  # refused before anything was saved
    with pytest.raises(ConfigError, match=r"must end in \.yaml"):
        ek.freeze(evaluation, "p.json")


@pytest.mark.long
def test_the_same_frozen_twice_stays_as_it_is():
    """A notebook that is run again: the profile and the rubric that was saved with it stay, byte for byte."""
    edited = ek.evaluate(ROWS, saved().edit("kind", scale={2: "kind and warm"}), JURY)
    first = ek.freeze(edited, "p.yaml")
    files = sorted(Path().rglob("*.yaml"))
    before = [path.read_bytes() for path in files]
    assert ek.freeze(edited, "p.yaml") == first
    hand(description="a newer one").save()  # v3: the profile goes on naming v2
    again = ek.evaluate(ROWS, ek.load_rubric("hand@v1").edit("kind", scale={2: "kind and warm"}), JURY)
    assert ek.freeze(again, "p.yaml").rubric == "hand@v2"
    assert write_profile("p.yaml", again.rubric, JURY) == first
    assert [path.read_bytes() for path in files] == before
    assert len(list(Path("rubrics/hand").iterdir())) == 3
    for other in (
        ek.evaluate(ROWS, edited.rubric, JURY, samples=2),
        ek.evaluate(ROWS, edited.rubric.edit("kind", pass_at=2), JURY),
        ek.evaluate(ROWS, edited.rubric, JURY, aggregate="min"),
    ):
        with pytest.raises(ConfigError, match=r"never overwritten \(it contains another judge"):
            ek.freeze(other, "p.yaml")
    assert [path.read_bytes() for path in files] == before
    assert len(list(Path("rubrics/hand").iterdir())) == 3, "refused before anything was saved"


def frozen_meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, evaluation: ek.Evaluation) -> None:
    """Somebody else freezes an evaluation as p.yaml, right before the next freezing takes a step of its own."""
    do = getattr(freeze_and_calibrate, step)

    def late(*given: object) -> object:
        monkeypatch.setattr(freeze_and_calibrate, step, do)
        ek.freeze(evaluation, "p.yaml")
        return do(*given)

    monkeypatch.setattr(freeze_and_calibrate, step, late)


STEPS = pytest.mark.parametrize("step", ["_saved", "write_new"])


@STEPS
def test_the_same_frozen_at_the_same_moment_is_there_once(monkeypatch, step):
    """Two notebooks, or a notebook and a script: who comes second finds what it was about to write."""
    edited = ek.evaluate(ROWS, saved().edit("kind", scale={2: "kind and warm"}), JURY)
    frozen_meanwhile(monkeypatch, step, edited)
    assert ek.freeze(edited, "p.yaml") == ek.load_profile("p.yaml")
    assert sorted(path.name for path in Path("rubrics/hand").iterdir()) == ["v1.yaml", "v2.yaml"]
    assert [path.name for path in Path().glob("*p.yaml*")] == ["p.yaml"]


@pytest.mark.long
@STEPS
def test_another_judge_that_was_frozen_a_moment_ago_is_not_taken_for_this_one(monkeypatch, step):
    """The file appears after the look whether there is one: it is compared all the same."""
    evaluation, other = (ek.evaluate(ROWS, saved(), JURY, aggregate=rule) for rule in ("mean", "min"))
    frozen_meanwhile(monkeypatch, step, other)
    with pytest.raises(ConfigError, match=r"p\.yaml already exists with other contents"):
        ek.freeze(evaluation, "p.yaml")
    assert ek.load_profile("p.yaml").aggregate == "min"


@pytest.mark.long
def test_rubrics_saved_where_none_is_looked_up_are_warned_of(monkeypatch):
    evaluation = ek.evaluate(ROWS, hand(), JURY)
    with pytest.warns(EvalkitWarning, match="EVALKIT_RUBRICS=/.*elsewhere"):
        ek.freeze(evaluation, "p.yaml", rubrics_folder="elsewhere")
    monkeypatch.setenv("EVALKIT_RUBRICS", "elsewhere")
    same_figures(replayed("p.yaml"), evaluation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ek.freeze(evaluation, "q.yaml", rubrics_folder="elsewhere")


def test_another_cache_is_promoted_in_itself(tmp_path):
    evaluation = ek.evaluate(ROWS, saved().edit("kind", scale={2: "warm"}), JURY, cache=tmp_path / "other")
    ek.freeze(evaluation, "p.yaml", cache=tmp_path / "other")
    ek.judge(ROWS, "p.yaml", offline=True, on_miss="raise", cache=tmp_path / "other")
    assert ReplyStore.open().stats()["n_replies"] == 0


def test_a_profile_holds_no_key_and_its_server(monkeypatch):
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("MINE", secret)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    judges = [Judge("openai", "m", price=(1, 2)), Judge("openai", "n", api_key_env="MINE", params={"seed": 1})]
    profile = ek.freeze(ek.evaluate(ROWS, saved(), judges, offline=True), "p.yaml")
    text = Path("p.yaml").read_text()
    assert secret not in text + repr(profile)
    assert "MINE" in text
    monkeypatch.delenv("OPENAI_BASE_URL")  # elsewhere the same server is meant
    assert ek.load_profile("p.yaml").judges == tuple(judges)


@pytest.mark.long
def test_templates_are_pinned_and_the_judges_own_comes_first():
    judges = ["fake:strict", Judge("fake", "noisy", template="tagged")]
    evaluation = ek.evaluate(ROWS, saved(), judges, samples=1, template="number")
    profile = ek.freeze(evaluation, "p.yaml")
    assert profile.template == "number@v1"
    assert [judge.template for judge in profile.judges] == [None, "tagged@v1"]
    forms = [builder.template.form for builder in replayed("p.yaml").spec.prompt_builders]
    assert forms == ["number", "tagged"]
    # the call's template comes before the profile's, a judge's before both
    called = ek.evaluate(ROWS, "p.yaml", template="default@v1", samples=1)
    assert [builder.template.form for builder in called.spec.prompt_builders] == ["json", "tagged"]


@pytest.mark.long
def test_conservative_rules_survive_freezing():
    profile = ek.load_profile("conservative").with_rubric(saved()).with_judges(JURY)
    evaluation = ek.evaluate(ROWS, profile)
    frozen = ek.freeze(evaluation, "p.yaml")
    assert frozen.min_self_agreement == profile.min_self_agreement is not None
    same_figures(replayed("p.yaml"), evaluation)


def test_a_changed_rubric_file_is_refused():
    ek.freeze(ek.evaluate(ROWS, hand(), JURY), "p.yaml")
    path = Path("rubrics/hand/v1.yaml")
    path.write_text(path.read_text().replace("neutral", "indifferent"))
    with pytest.raises(RubricError, match="changed since profile 'p' was frozen"):
        replayed("p.yaml")


def test_no_items_can_be_frozen():
    evaluation = ek.evaluate(ek.load_example("support")[0].head(0), "faithfulness", JURY)
    assert ek.freeze(evaluation, "p.yaml") == ek.load_profile("p.yaml")


@pytest.mark.long
@pytest.mark.parametrize("target", ["p.yaml", "profiles/p.yaml"])
def test_a_profile_brings_the_rubrics_that_lie_beside_it(target, tmp_path, monkeypatch):
    evaluation = ek.evaluate(ROWS, hand(), JURY)
    ek.freeze(evaluation, target)
    home = Path.cwd()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    same_figures(replayed(str(home / target)), evaluation)
    assert "rubric: hand@v1" in str(ek.load_profile(home / target))
    (home / "rubrics" / "hand" / "v1.yaml").unlink()
    with pytest.raises(
        RubricError,
        match=r"'p' needs rubric hand@v1, which was found neither in the folder rubrics/ beside .* nor elsewhere",
    ):
        ek.load_profile(home / target).load()


def test_what_is_no_evaluation_or_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ek.errors.InputError, match="freeze needs the result of evaluate, got DataFrame"):
        ek.freeze(ek.judge(ROWS, hand(), JURY), "p.yaml")
    (tmp_path / "file").write_text("")
    with pytest.raises(RubricError, match=r"file/p\.yaml cannot be written"):
        ek.freeze(ek.evaluate(ROWS, saved(), JURY), tmp_path / "file" / "p.yaml")


class TestWriteProfile:
    def test_is_what_freeze_writes(self):
        evaluation = ek.evaluate(ROWS, saved(), JURY, samples=2, min_self_agreement=0.5)
        frozen = ek.freeze(evaluation, "a/p.yaml")
        written = write_profile("b/p.yaml", "hand", JURY, samples=2, min_self_agreement=0.5)
        assert frozen == written
        assert Path("a/p.yaml").read_text() == Path("b/p.yaml").read_text()

    def test_a_rubric_that_is_in_no_file_or_edited_is_saved(self):
        assert write_profile("p.yaml", hand(), JURY).rubric == "hand@v1"
        assert ek.load_rubric("hand@v1").content_hash == hand().content_hash
        assert write_profile("q.yaml", saved().edit("kind", pass_at=1), JURY).rubric == "hand@v2"
        assert ek.load_profile("q.yaml").load().criterion("kind").pass_at == 1

    def test_unknown_rules(self):
        with pytest.raises(ConfigError, match="unknown rule 'votes'"):
            write_profile("p.yaml", "relevancy", JURY, votes="mean")
        with pytest.raises(ConfigError, match="modal"):
            write_profile("p.yaml", "relevancy", JURY, vote="modal")


class TestPromote:
    def test_what_asks_the_same_counts_for_the_other_version(self):
        ek.judge(ROWS, saved(), JURY)
        saved().edit("kind", scale={2: "warm"}).save()
        assert promote("hand", "v1", "v2") == len(ROWS) * 2 * 3  # clear alone, by two judges three times
        assert promote("hand", "v1", "v2") == 0
        table = ek.judge(ROWS, "hand@v2", JURY, offline=True)
        assert set(table.loc[table["error"].notna(), "criterion"]) == {"kind"}

    def test_what_was_paid_under_an_edit_counts_once_the_edit_is_saved(self):
        edited = saved().edit("kind", scale={2: "warm"})
        paid = ek.judge(ROWS, edited, JURY)
        edited.save()
        assert promote("hand@v2") == len(paid)
        assert promote("hand@v2") == 0
        assert ek.judge(ROWS, "hand@v2", JURY, offline=True)["error"].isna().all()

    def test_nothing_in_common(self):
        saved()
        saved().edit(description="All is new.").save()
        with pytest.raises(
            RubricError, match="replies of hand@v1 cannot be used for hand@v2, because no criterion has the same prompt"
        ):
            promote("hand", "v1", "v2")
        with pytest.raises(RubricError, match="no version v7"):
            promote("hand", "v1", "v7")


def test_a_version_whose_file_was_changed_is_told_once_before_it_is_paid_for():
    """Two rows, two criteria, one judge, one sample: four replies, two of them to the criterion that was changed."""
    saved()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ek.judge(ROWS[:2], "hand@v1", "fake:strict", samples=1)
        ek.judge(ROWS, ek.load_rubric("hand@v1").edit("kind", scale={1: "so so"}), "fake:strict", samples=1)
        ek.judge(ROWS, "hand@v1", "fake:strict", samples=1)  # an edit that was not saved is no change of the file
    path = Path("rubrics/hand/v1.yaml")
    path.write_text(path.read_text(encoding="utf-8").replace("rude", "rude or cold"), encoding="utf-8")
    said = r"8 cached replies for hand@v1 were made with another text of this version"  # 4 to kind, 4 to its edit
    with pytest.warns(EvalkitWarning, match=said) as told:
        ek.plan(ROWS, "hand@v1", "fake:strict", samples=1)
    assert len(told) == 1
    with pytest.warns(EvalkitWarning, match=said):
        ek.judge(ROWS, "hand@v1", "fake:strict", samples=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ek.judge(ROWS, "hand@v1", "fake:strict", samples=2)  # said before; what is asked now is of this text too
        made = hand(criteria=[{"name": "clear", "scale": {0: "no", 1: "yes"}}])  # no file says so: made by hand
        ek.judge(ROWS, made, "fake:strict", samples=1)
