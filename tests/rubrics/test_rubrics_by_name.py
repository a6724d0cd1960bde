"""Rubrics on disk: found by name, saved as the next version, never changed, and read back as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evalkit.core.judges import Judge
from evalkit.engine.providers.fake import FakeClient
from evalkit.errors import EvalkitError, RubricError
from evalkit.rubrics import Rubric, list_rubrics, load_profile, load_rubric
from evalkit.rubrics.files import dump_yaml, read_yaml, rubric_folders, shipped_folder, write_new
from evalkit.rubrics.prompt_builder import load_template

# what YAML readers like to take for something else, and what breaks naive writers
ODD = ["1", "0", "no", "yes", "null", "~", "1e3", "1_000", "0x1F", "0o7", "true", ".5", ".inf", "2024-01-01",
       "12:30:45", "<<", "=", "-", "- a", "? a", "a: b", "a #b", "#", "'", '"', "''", "[a]", "{a}", "&a", "*a", "!a",
       "|", ">", "%a", "@a", "`a`", "a\\n", "да", "😀", "\u00a0x", "end "]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from([*ODD, "a\x85b", "a\x07b", "a\r\nb", "a\rb", "\ufeffa", "\t", "\x7f", "a\u2028b"]),
    st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=30),
    st.lists(st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=12), max_size=4).map("\n".join),
)
CODES = st.lists(
    st.one_of(st.sampled_from(ODD), st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=8))
    .map(str.strip)
    .filter(bool),
    min_size=2,
    max_size=4,
    unique_by=str.casefold,
)


def rubric(**fields: Any) -> Rubric:
    given_ = {"id": "mine", "inputs": ["answer"], "criteria": [{"name": "c", "scale": {0: "no", 1: "yes"}}]}
    return Rubric(**(given_ | fields))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, and no project around."""
    folder = tmp_path / "rubrics"
    monkeypatch.setenv("EVALKIT_RUBRICS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


GOOD = "id: mine\nversion: v1\ninputs: [answer]\ncriteria:\n  - name: c\n    scale: {0: no, 1: yes}\n"


class TestRoundTrip:
    @pytest.mark.long
    @given(TEXTS, TEXTS, CODES, st.lists(TEXTS, max_size=2), st.booleans())
    @example("a\x85b", "\u2028", ["1", "0"], ["a\u2029b", "\x85"], False)
    @example("a: 'b' \"c\" # d\n\n  indented\n\ttab\n", "  ", ["1", "no", "null", "1e3"], ["", "x\n"], True)
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
    def test_load_of_saved_is_equal(self, tmp_path_factory, description, text, codes, steps, passes):
        folder = tmp_path_factory.mktemp("rubrics")
        try:
            made = rubric(
                description=description,
                criteria=[
                    {"name": "numbers", "description": text, "steps": steps,
                     "scale": {0: text, 0.5: "", 1e-7: description}, "pass_at": 0.5 if passes else None,
                     "weight": 0.1, "critical": passes},
                    {"name": "words", "level": "nominal", "scale": dict.fromkeys(codes, text),
                     "pass_if": codes[:1] if passes else None},
                ],
            )  # fmt: skip
        except RubricError as problem:
            if "duplicate code" not in str(problem):  # two codes may be one after normalising
                raise
            return
        saved = made.save(folder)
        back = load_rubric(folder / "mine" / "v1.yaml")
        assert back == saved == made
        assert back.criterion("words").scale.codes == made.criterion("words").scale.codes
        assert (back.content_hash, back.label) == (made.content_hash, "v1")

    def test_all_fields(self, home):
        made = Rubric(
            id="pair", mode="pairwise", inputs=["answer_a", "answer_b", "question?"], template="pairwise@v1",
            layout="item_first", pass_at=0.5, description="d",
            criteria=[{"name": "Что лучше: «A» или «B»?", "level": "nominal", "scale": {"A": "", "B": "", "tie": ""}}],
        )  # fmt: skip
        made.save()
        assert load_rubric("pair") == made
        # written to be read and edited by people
        assert "Что лучше: «A» или «B»?" in (home / "pair" / "v1.yaml").read_text(encoding="utf-8")

    def test_shipped_rubrics(self, tmp_path):
        for name in list_rubrics()["id"].unique():
            made = load_rubric(name)
            assert made.edit(id=f"copy-{name}").save(tmp_path).content_hash == made.content_hash
            assert load_rubric(tmp_path / f"copy-{name}" / "v1.yaml").criteria == made.criteria


class TestSave:
    def test_writes_the_next_version_and_never_changes_one(self, home):
        first = rubric().save()
        before = (home / "mine" / "v1.yaml").read_bytes()
        second = first.edit("c", scale={1: "fully"}).save()
        assert (first.version, second.version, second.label) == ("v1", "v2", "v2")
        assert (home / "mine" / "v1.yaml").read_bytes() == before
        assert load_rubric("mine").criteria[0].scale[1] == "fully"
        assert load_rubric("mine@v1").criteria[0].scale[1] == "yes"
        assert sorted(path.name for path in (home / "mine").iterdir()) == ["v1.yaml", "v2.yaml"]

    def test_unchanged_content_writes_nothing(self, home):
        saved = rubric().save()
        assert saved.save().version == rubric(version="v9").save().version == "v1"
        assert saved.edit("c", pass_at=1).edit("c", pass_at=None).save().version == "v1"
        assert len(list((home / "mine").iterdir())) == 1

    def test_back_to_an_older_content_is_a_new_version(self, home):
        one = rubric().save()
        one.edit("c", pass_at=1).save()
        assert one.save().version == "v3"

    def test_numbers_count_on_after_shipped_versions(self, home):
        edited = load_rubric("faithfulness").edit("faithfulness", weight=2)
        saved = edited.save()
        number = int(load_rubric("faithfulness").version[1:])
        assert saved.version == f"v{number}"
        assert (home / "faithfulness" / f"v{number}.yaml").is_file()
        assert not (shipped_folder("rubrics") / "faithfulness" / f"v{number}.yaml").exists()

    def test_ten_follows_nine(self, home):
        for number in range(11):
            rubric(description=str(number)).save()
        assert load_rubric("mine").version == "v11"

    def test_into_the_working_folder_without_a_project(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rubric().save()
        assert (tmp_path / "rubrics" / "mine" / "v1.yaml").is_file()

    def test_beside_the_nearest_project_file(self, tmp_path, monkeypatch):
        (tmp_path / "pyproject.toml").write_text("")
        (tmp_path / "deep" / "er").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "deep" / "er")
        rubric().save()
        assert (tmp_path / "rubrics" / "mine" / "v1.yaml").is_file()
        assert load_rubric("mine").version == "v1"

    @pytest.mark.long
    def test_two_processes_at_once(self, home):
        # both wait for one line, then save: equal content is one version, other content two
        code = (
            "import sys; from evalkit.rubrics import Rubric\n"
            "made = Rubric(id='mine', inputs=['answer'], description=sys.argv[1], "
            "criteria=[{'name': 'c', 'scale': {0: 'no', 1: 'yes'}}])\n"
            "print('ready', flush=True); sys.stdin.readline(); print(made.save().version)"
        )
        for texts, versions in ((["x", "x"], ["v1", "v1"]), (["y", "z"], ["v2", "v3"])):
            running = [
                subprocess.Popen([sys.executable, "-c", code, text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
                for text in texts
            ]  # fmt: skip
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in running:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            assert sorted(process.communicate(timeout=300)[0].strip() for process in running) == versions
        assert sorted(path.name for path in (home / "mine").iterdir()) == ["v1.yaml", "v2.yaml", "v3.yaml"]

    @pytest.mark.long
    def test_many_threads_at_once(self, home):
        # over and over, each time where no folder is yet: two that make it meet seldom
        for turn in range(15):
            barrier = threading.Barrier(8)

            def work(number: int, turn=turn, barrier=barrier) -> str:
                barrier.wait(timeout=300)
                return rubric(id=f"mine{turn}", description=str(number)).save().version

            with ThreadPoolExecutor(8) as threads:
                found = sorted(threads.map(work, range(8)))
            assert found == [f"v{number}" for number in range(1, 9)]
            assert sorted(path.stem for path in (home / f"mine{turn}").iterdir()) == found

    def test_write_new_never_overwrites(self, tmp_path):
        write_new(tmp_path / "a" / "x.yaml", "one")
        with pytest.raises(FileExistsError):
            write_new(tmp_path / "a" / "x.yaml", "two")
        assert [path.read_text() for path in (tmp_path / "a").iterdir()] == ["one"]


class TestLookUp:
    def test_folders_in_order(self, home, tmp_path, monkeypatch):
        other = tmp_path / "other"
        monkeypatch.setenv("EVALKIT_RUBRICS", f"{home}:{other}")
        put(home, "mine/v1.yaml", GOOD + "description: first\n")
        put(other, "mine/v1.yaml", GOOD + "description: second\n")
        put(other, "mine/v2.yaml", GOOD.replace("v1", "v2"))
        assert load_rubric("mine@v1").description == "first"
        assert load_rubric("mine").version == "v2"
        assert rubric_folders() == [home.resolve(), other.resolve(), shipped_folder("rubrics").resolve()]

    def test_by_path(self, tmp_path):
        path = put(tmp_path, "any name.yaml", GOOD)
        assert load_rubric(path) == load_rubric(str(path))
        with pytest.raises(RubricError, match=r"rubric file not found: .*nothing\.yaml"):
            load_rubric(tmp_path / "nothing.yaml")

    def test_both_endings_of_a_yaml_file_are_looked_up(self, home):
        for number, ending in enumerate(("yaml", "yml", "yaml", "yml"), 1):
            put(home, f"mine/v{number}.{ending}", GOOD.replace("v1", f"v{number}"))
            assert load_rubric("mine").version == f"v{number}"
        put(home, "mine/v4.yaml", GOOD.replace("v1", "v4") + "description: first\n")
        assert load_rubric("mine@v4").description == "first"
        assert load_rubric("mine").edit("c", description="x").save(home).version == "v5"

    def test_an_edited_file_of_the_same_time_and_size_is_read_again(self, home):
        for word in ("c", "d"):
            path = put(home, "mine/v1.yaml", GOOD.replace("name: c", f"name: {word}"))
            os.utime(path, ns=(10**18, 10**18))  # as of two writings within a tick of the clock
            assert load_rubric("mine").names == (word,)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("nothing", r"rubric 'nothing' not found; available: .*'faithfulness'.*with EVALKIT_RUBRICS"),
            ("faithfulness@v99", "'faithfulness' has no version v99; available: v1"),
            ("Faithfulness", "invalid rubric name 'Faithfulness': expected an id, id@version"),
            ("faithfulness@1", "invalid rubric name"), ("../faithfulness", "invalid rubric name"),
            ("templates", "rubric 'templates' not found"), ("", "invalid rubric name"),
            (None, "invalid rubric name None"), (7, "invalid rubric name 7"),
        ],
    )  # fmt: skip
    def test_bad_names(self, name, message):
        with pytest.raises(RubricError, match=message):
            load_rubric(name)

    def test_a_file_in_the_place_of_another(self, home):
        put(home, "mine/v2.yaml", GOOD)
        with pytest.raises(
            RubricError, match=r"v2\.yaml contains rubric mine@v1, but a file at this path must contain mine@v2"
        ):
            load_rubric("mine")

    def test_list(self, home):
        put(home, "mine/v1.yaml", GOOD)
        put(home, "mine/v10.yaml", GOOD.replace("v1", "v10"))
        put(home, "mine/v2.yaml", "id: [")
        put(home, "mine/notes.yaml", "x")
        put(home, "Not A Rubric/v1.yaml", GOOD)
        found = list_rubrics()
        mine = found[found["id"] == "mine"]
        assert mine["version"].tolist() == ["v1", "v2", "v10"]
        assert mine["description"].tolist()[1].startswith("broken: ")
        assert mine["criteria"].tolist()[0] == "c"
        assert "Not A Rubric" not in set(found["id"])
        assert {"faithfulness", "preference", "pollux", "geval"} <= set(found["id"])


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                GOOD.replace("inputs", "input"),
                r"v1\.yaml: rubric 'mine': .*unknown key 'input'.* \(allowed: id, version",
            ),
            (
                GOOD.replace("    scale", "    skale"),
                r"criterion 'c': unknown key 'skale'; did you mean 'scale'\? .*\); the key 'scale' is missing",
            ),
            # what follows from a misspelt key is not told as a fault of the codes
            (
                GOOD.replace("    scale", "    levle: nominal\n    scale").replace("1: yes", "'yes': yes"),
                r"criterion 'c': unknown key 'levle'; did you mean 'level'\? \(allowed: name, .*\)$",
            ),
            (GOOD + "id: mine\n", r'v1\.yaml, line 7: invalid YAML \(found duplicate key "id"'),
            (GOOD.replace("1: yes", "0: yes"), "line 6: invalid YAML .*duplicate key"),
            (GOOD + "    pass_at: 7\n", "criterion 'c': pass_at 7 is not on the scale; allowed: 0, 1"),
            (GOOD.replace("{0: no, 1: yes}", "{}"), "the scale is empty"),
            (
                GOOD.replace("{0: no, 1: yes}", "{true: a, false: b}") + "    level: nominal\n",
                "put it in quotes in YAML",
            ),
            (GOOD + "  bad indent\n", "line .*: invalid YAML"),
            ("id: !!python/object/apply:os.system ['true']\n", "invalid YAML"),
            ("- a\n- b\n", "expected a mapping with id, version, inputs and criteria"),
            ("", "expected a mapping"),
            ("[" * 3000, "nested too deeply|invalid YAML"),
            ("a: 1\n---\nb: 2\n", "invalid YAML"),
            ("\x07", "invalid YAML"),
        ],
    )
    @pytest.mark.long
    def test_names_the_file(self, home, text, message):
        put(home, "mine/v1.yaml", text)
        with pytest.raises(RubricError, match=message) as caught:
            load_rubric("mine")
        assert "v1.yaml" in str(caught.value)

    def test_no_text(self, tmp_path):
        (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(RubricError, match=r"x\.yaml is not UTF-8 text"):
            read_yaml(tmp_path / "x.yaml")
        (tmp_path / "folder.yaml").mkdir()
        with pytest.raises(RubricError, match=r"folder\.yaml cannot be read"):
            read_yaml(tmp_path / "folder.yaml")

    def test_windows_line_ends_change_nothing(self, tmp_path):
        text = GOOD + "description: |\n  two\n  lines\n"
        one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
        one.write_bytes(text.encode())
        two.write_bytes(text.replace("\n", "\r\n").encode())
        assert load_rubric(one) == load_rubric(two)

    def test_a_byte_order_mark_changes_nothing(self, home):
        source = "{#- evalkit\nform: number\n-#}\n{% block user -%}\n{{ fence('answer') }}\n{%- endblock %}\n"
        put(home, "templates/plain/v1.jinja", source)
        put(home, "templates/marked/v1.jinja", f"\ufeff{source}")
        assert load_template("marked@v1").hash == load_template("plain@v1").hash

    def test_yaml_words_are_texts(self, home):
        put(home, "mine/v1.yaml", GOOD.replace("{0: no, 1: yes}", "{yes: Yes, no: No}") + "    level: nominal\n")
        assert dict(load_rubric("mine").criteria[0].scale) == {"yes": "Yes", "no": "No"}


def test_dump_keeps_the_order_and_long_lines():
    text = dump_yaml({"b": "x " * 200 + "end", "a": ["one", "two"]})
    assert text.splitlines() == ["b: " + "x " * 200 + "end", "a:", "  - one", "  - two"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: load_rubric("faithfulnes"),
            "rubric 'faithfulnes' not found; did you mean 'faithfulness'\\? available: '",
        ),
        (lambda: load_rubric("nothing-like-it"), "rubric 'nothing-like-it' not found; available:"),
        (lambda: load_rubric("faithfulness").criterion("faithfullness"), "did you mean 'faithfulness'\\? available:"),
        (lambda: load_profile("strickt"), "profile 'strickt' not found; did you mean 'strict'\\? available:"),
        (lambda: load_template("defualt"), "template 'defualt' not found; did you mean 'default"),
        (lambda: Judge.of("fakee:strict"), "provider 'fakee'; did you mean 'fake'\\? allowed: openai"),
        (lambda: FakeClient(Judge.of("fake:lenent")), "persona 'lenent' of the fake judge; did you mean 'lenient'\\?"),
    ],
    ids=["rubric", "no guess", "criterion", "profile", "template", "provider", "persona"],
)
def test_a_misspelt_name_is_guessed(call, message):
    with pytest.raises(EvalkitError, match=message):
        call()
