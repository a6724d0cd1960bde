"""The registry on SQLite and on a real PostgreSQL server: the same tests; packs, templates, plugins, faults."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cache_setup import ran
from commandline import evalkit
from hypothesis import given, settings
from hypothesis import strategies as st
from registry_processes import apply_pack

import evalkit as ek
from evalkit.errors import ConfigError, RegistryError, RubricError

pytest.importorskip("sqlalchemy")

from sqlalchemy import create_engine, inspect, text

from evalkit.runs.registry import Registry
from evalkit.runs.registry.database import SCHEMA, Database
from evalkit.runs.registry.database_tables import Base
from evalkit.runs.registry.pack_files import pack_yaml, read_pack
from evalkit.runs.registry.plugin_sources import locate

PACK: dict[str, Any] = {
    "pack": "support",
    "version": 1,
    "description": "what a support bot must do",
    "primary_metric": "faithfulness",
    "tasks": [
        {"task": "grounded_qa", "weight": 2, "overrides": {"judge_profile": "strict"}},
        {"task": "tool_use", "fewshot": 3},
    ],
}
TEMPLATE = "{# evalkit\nform: number #}\nRate {{ fence('answer') }} for {{ criterion.name }}."


def test_a_pack_comes_back_as_it_was_applied(registry: Registry, tmp_path: Path) -> None:
    pack = registry.apply_pack(PACK)
    assert pack.label == "support@1"
    assert [task.spec for task in pack.tasks] == ["grounded_qa|0", "tool_use|3"]
    assert pack.tasks[0].overrides.values == {"judge_profile": "strict"}
    path = tmp_path / "pack.yaml"
    path.write_text(registry.pack_yaml("support"), encoding="utf-8")
    assert registry.apply_pack(path) == pack, "what was exported is the same pack, and nothing was added"
    assert registry.packs()["n_tasks"].tolist() == [2]
    assert registry.pack("support", "1") == pack


def test_nothing_is_overwritten(registry: Registry) -> None:
    first = registry.apply_pack(PACK)
    with pytest.raises(
        ConfigError, match=r"support@1 already exists in packs with another content_hash; .* new version"
    ):
        registry.apply_pack(PACK | {"tasks": PACK["tasks"][:1]})
    assert registry.pack("support") == first
    second = registry.apply_pack(PACK | {"version": "2", "tasks": PACK["tasks"][:1]})
    assert registry.pack("support") == second, "without a version the one applied last"
    assert registry.pack("support", "1") == first
    # the description changes no score: the pack is the same one, as it was
    assert registry.apply_pack(PACK | {"description": "other words"}) == first


def test_what_is_not_there_is_named_with_what_is(registry: Registry) -> None:
    with pytest.raises(RegistryError, match=r"pack 'support' not found; available: none"):
        registry.pack("support")
    registry.apply_pack(PACK)
    with pytest.raises(RegistryError, match=r"pack support@9 not found; available versions: 1"):
        registry.pack("support", "9")
    with pytest.raises(RegistryError, match=r"pack 'suport' not found; available: 'support'"):
        registry.pack("suport")


def test_templates_are_those_of_rubrics_and_the_highest_version_counts(registry: Registry) -> None:
    for version in ("v9", "v10", "v2"):
        registry.add_template("plain", version, f"{TEMPLATE} ({version})")
    assert registry.template("plain").version == "v10"
    made = registry.template("plain", "v2")
    assert made.prompt_template == f"{TEMPLATE} (v2)"
    assert len(made.content_hash) == 64
    assert registry.add_template("plain", "v2", f"{TEMPLATE} (v2)") == made
    with pytest.raises(ConfigError, match="versions are never overwritten"):
        registry.add_template("plain", "v2", TEMPLATE)
    with pytest.raises(RubricError, match="plain@v3"):
        registry.add_template("plain", "v3", "no header")
    with pytest.raises(RubricError, match="plain@v3, line 2"):
        registry.add_template("plain", "v3", "{# evalkit\nform: number #}{{ answer")
    with pytest.raises(ConfigError, match="invalid template version '3': expected v1, v2 and so on"):
        registry.add_template("plain", "3", TEMPLATE)
    for name in ("Plain", "plain@v1", "a b", ""):
        with pytest.raises(ConfigError, match="invalid template name"):
            registry.add_template(name, "v1", TEMPLATE)
    with pytest.raises(ConfigError, match="of type object"):
        registry.add_template("plain", "v4", TEMPLATE, {"type": "array"})
    assert registry.templates()["version"].tolist() == ["v9", "v10", "v2"]


def test_a_plugin_is_registered_with_the_hash_of_its_files(registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "my_plugin"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").write_text("TASKS_TABLE = []\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = ["evalkit>=0.1", "regex"]\n')
    made = registry.register_plugin("mine", "1.0", str(folder), "bundle")
    assert made.requirements == ("evalkit>=0.1", "regex")
    assert made.storage_uri == str(folder)
    (folder / "__pycache__" / "x.pyc").write_bytes(b"anything")
    assert registry.register_plugin("mine", "1.0", str(folder), "bundle") == made
    (folder / "__init__.py").write_text("TASKS_TABLE = [1]\n")
    with pytest.raises(ConfigError, match=r"mine@1.0 already exists in plugins with another content_hash"):
        registry.register_plugin("mine", "1.0", str(folder), "bundle")
    assert registry.plugin("mine") == made
    registry.register_plugin("mine", "1.1", str(folder), "bundle")
    assert registry.plugin("mine").version == "1.1"
    with pytest.raises(ConfigError, match="unknown plugin type 'tasks'; allowed: task, metric, bundle"):
        registry.register_plugin("mine", "2", str(folder), "tasks")
    with pytest.raises(ConfigError, match="invalid plugin name"):
        registry.register_plugin("../mine", "2", str(folder))
    with pytest.raises(ConfigError, match=r"no plugin at 'no\.such\.package'"):
        registry.register_plugin("mine", "2", "no.such.package")


def test_a_package_is_found_by_its_dotted_path_without_being_imported(tmp_path: Path, monkeypatch: Any) -> None:
    package = tmp_path / "loud" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "tasks.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert locate("loud.inner").path == package
    assert locate("loud.inner.tasks").path == package / "tasks.py"
    assert not any(name.startswith("loud") for name in sys.modules)


def test_a_connection_that_was_lost_is_made_again(postgres_url: str) -> None:
    registry = Registry.open(postgres_url)
    registry.packs()
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename"
        assert connection.execute(text(f"{others} = current_user")).all(), "there was one to lose"
    engine.dispose()
    assert registry.packs().empty
    registry.close()


WRONG = [
    ({"pack": "p", "version": 1}, "the key 'tasks' is missing"),
    ({"pack": "p", "version": 1, "tasks": []}, "tasks: "),
    ({"pack": "a b", "version": 1, "tasks": [{"task": "t"}]}, "pack: "),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t|0"}]}, "fewshot"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t"}, {"task": "t"}]}, "'t' listed more than once"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t", "weight": 0}]}, "all weights are 0"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t", "weight": -1}]}, "weight"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t", "wieght": 1}]}, "allowed: task, fewshot, weight, overrides"),
    (
        {"pack": "p", "version": 1, "tasks": [{"task": "t", "overrides": {"profile": "x"}}]},
        "allowed: judge_plugin_name, judge_plugin_version, judge_profile, judge_template_id",
    ),
    (
        {"pack": "p", "version": 1, "tasks": [{"task": "t", "overrides": {"judge_plugin_version": "1"}}]},
        "judge_plugin_version needs judge_plugin_name",
    ),
    ({"pack": "p", "version": 1.10, "tasks": [{"task": "t"}]}, 'put the version in quotes, as in "1.1"'),
    (
        {
            "pack": "p",
            "version": 1,
            "tasks": [{"task": "t", "overrides": {"judge_plugin_name": "x", "judge_plugin_version": 0.10}}],
        },
        "put the version in quotes",
    ),
    ({"pack": "p", "version": 1, "tasks": []}, "tasks: a pack needs at least one"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "t", "fewshot": 10**30}]}, "tasks[0].fewshot"),
    ({"pack": "p", "version": 1, "primary_metric": "m" * 300, "tasks": [{"task": "t"}]}, "primary_metric"),
    ({"pack": "p", "version": 1, "tasks": [{"task": f"{n:050}"} for n in range(2000)]}, "split the pack"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "--push-to-hub"}]}, "it begins with a dash"),
    ({"pack": "p", "version": 1, "tasks": [{"task": "a\x1b[2J"}]}, "non-printable characters"),
    ({"pack": "p", "version": 1, "task_aggregation": "avg", "tasks": [{"task": "t"}]}, "task_aggregation"),
]


@pytest.mark.parametrize(("content", "said"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_pack_is_one_clear_error(content: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_pack(content)
    assert said in str(caught.value)
    assert "after validation" not in str(caught.value), "one fault is one finding"


def test_each_unknown_key_is_listed_with_the_keys_of_its_place() -> None:
    task = {"task": "t", "weigth": 2, "overrides": {"judge_profil": "x"}}
    with pytest.raises(ConfigError) as caught:
        read_pack({"pack": "p", "version": 1, "discription": "", "tasks": [task]})
    said = str(caught.value).split("; unknown key ")
    in_task = "did you mean 'weight'? (allowed: task, fewshot, weight, overrides)"
    in_overrides = "did you mean 'judge_profile'? (allowed: judge_plugin_name, judge_plugin_version, judge_profile, "
    assert any(part.startswith(f"'tasks[0].weigth'; {in_task}") for part in said), said
    assert any(f"'tasks[0].overrides.judge_profil'; {in_overrides}" in part for part in said), said
    assert any("'discription'; did you mean 'description'? (allowed: pack, version, " in part for part in said), said


def test_task_spec_is_taken_for_task() -> None:
    named = read_pack({"pack": "p", "version": 1, "tasks": [{"task_spec": "t", "fewshot": 2}]})
    assert named == read_pack({"pack": "p", "version": 1, "tasks": [{"task": "t", "fewshot": 2}]})
    with pytest.raises(ConfigError, match=r"unknown key 'tasks\[0\].task_spec'"):
        read_pack({"pack": "p", "version": 1, "tasks": [{"task": "t", "task_spec": "t"}]})


def test_a_wrong_pack_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("pack: p\nversion: [1\n")
    with pytest.raises(ConfigError, match=r"p\.yaml, line"):
        read_pack(path)
    path.write_text("- a\n")
    with pytest.raises(ConfigError, match="expected a mapping"):
        read_pack(path)
    path.write_text("pack: p\nversion: 1\ntasks: [{task: t, nosuch: 1}]\n")
    with pytest.raises(ConfigError, match=r"p\.yaml: pack 'p': unknown key 'tasks\[0\].nosuch'"):
        read_pack(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_pack(tmp_path / "none.yaml")


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TASKS = st.from_regex(r"[a-zа-я_:0-9]{1,30}", fullmatch=True)


@settings(max_examples=25)
@given(
    NAMES,
    NAMES,
    st.text(max_size=60),
    st.lists(
        st.tuples(TASKS, st.integers(0, 9), st.floats(0.125, 8)), min_size=1, max_size=5, unique_by=lambda t: t[0]
    ),
)
def test_any_pack_survives_yaml(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    version: str,
    description: str,
    tasks: list[tuple[str, int, float]],
) -> None:
    folder = tmp_path_factory.mktemp("any")
    registry = Registry.open(folder / "r.sqlite")
    entries = [{"task": task, "fewshot": shots, "weight": weight} for task, shots, weight in tasks]
    content = {"pack": name, "version": version, "description": description, "tasks": entries}
    pack = registry.apply_pack(content)
    path = folder / "p.yaml"
    path.write_text(pack_yaml(pack), encoding="utf-8", newline="\n")
    assert registry.apply_pack(path) == pack
    registry.close()


def test_the_tables_are_those_that_the_code_knows(database_url: str) -> None:
    database = Database(database_url)
    engine = database._opened()
    found = inspect(engine)
    assert set(found.get_table_names()) == {*Base.metadata.tables, "alembic_version"}
    for name, table in Base.metadata.tables.items():
        columns = {
            one["name"]: (one["type"].compile(engine.dialect), one["nullable"]) for one in found.get_columns(name)
        }
        assert columns == {one.name: (one.type.compile(engine.dialect), one.nullable) for one in table.columns}, name
        keys = {one["name"] for one in found.get_foreign_keys(name)}
        assert keys == {one.name for one in table.foreign_key_constraints}, name
        uniques = {one["name"] for one in found.get_unique_constraints(name)}
        checks = {one["name"] for one in found.get_check_constraints(name)}
        others = {one.name for one in table.constraints if not one.name.startswith(("pk_", "fk_"))}
        assert uniques | checks == others, name
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == SCHEMA
    database.close()


def test_a_database_of_somebody_else_or_of_a_newer_evalkit_is_left_alone(database_url: str) -> None:
    database = Database(database_url)
    with database.session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(RegistryError, match="has the schema '9999', which this evalkit does not know"):
        Registry.open(database_url).packs()


def test_foreign_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(RegistryError, match="contains tables of another program"):
        Registry.open(path).packs()
    assert path.read_bytes() == before
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(RegistryError, match="not a database"):
        Registry.open(path).packs()


def test_processes_open_a_new_registry_at_the_same_time(database_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        made = pool.starmap(
            apply_pack, [(database_url, PACK | {"version": number % 4}) for number in range(8)], chunksize=1
        )
    assert sorted(set(made)) == ["support@0", "support@1", "support@2", "support@3"]
    registry = Registry.open(database_url)
    assert len(registry.packs()) == 4, "no row was lost or doubled"
    registry.close()


THREADS = """
import sys, threading
from evalkit.runs.registry import Registry
start = threading.Barrier(4)
def work(number):
    registry = Registry.open(f"{sys.argv[1]}/{number}.sqlite")
    start.wait(300)
    registry.apply_pack({"pack": "smoke", "version": number, "tasks": [{"task": "tool_use"}]})
    made[number] = registry.packs()["version"].tolist()
    registry.close()
for turn in range(2):
    made = {}
    numbers = range(4 * turn, 4 * turn + 4)
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert made == {number: [str(number)] for number in numbers}, made
"""


def test_threads_open_new_registries_at_the_same_time(tmp_path: Path) -> None:
    """In a process of its own: registries that are made in one connection end Python itself."""
    ran(THREADS, tmp_path)


def test_threads_share_one_registry_that_is_new(tmp_path: Path) -> None:
    registry = Registry.open(tmp_path / "registry.sqlite")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: registry.apply_pack(PACK | {"version": number % 2}).label, range(4)))
    assert made == ["support@0", "support@1"] * 2
    assert registry.packs()["version"].sort_values().tolist() == ["0", "1"]
    registry.close()


def test_a_database_that_is_not_there_is_one_message_without_the_password() -> None:
    with pytest.raises(RegistryError) as caught:
        Registry.open("postgresql://somebody:secret@127.0.0.1:9/nowhere").packs()
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Registry.open("postgresql://somebody:secret@127.0.0.1:9/nowhere"))
    # libpq takes these, too
    asked = Registry.open("postgresql://somebody@127.0.0.1:9/nowhere?password=secret&sslpassword=secret")
    assert "secret" not in repr(asked)
    assert asked.database.url.count("secret") == 2, "what opens it has them still"
    with pytest.raises(RegistryError) as caught:
        asked.packs()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["mysql://host/db", "sqlite://", "sqlite:///:memory:", "postgresql://host:port/db"])
def test_other_databases_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError):
        Registry.open(wrong)


def test_the_place_is_that_of_the_environment_or_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    assert str(tmp_path / "registry.sqlite") in repr(Registry.open())
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "elsewhere.db"))
    assert "elsewhere.db" in repr(Registry.open())
    assert ek.runs.Registry is Registry


_READING = """
import os, shutil, sys
from evalkit.cli import main

pack, registry, spare = sys.argv[1:]

def each(registry):
    for words in (["run", "list"], ["run", "show", "last"], ["pack", "list"], ["run", "leaderboard", "smoke"],
                  ["pack", "apply", pack], ["run", "start", "smoke", "--model", "m"]):
        yield main([*words, "--registry", registry])

shutil.copy(registry, spare)
print(*each(spare))  # who runs Python may be the only one that can read its modules: all are imported by now
if os.geteuid() == 0:
    os.setuid(65534)
print("codes", *each(registry))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs permissions of files")
@pytest.mark.parametrize("folder_too", [False, True], ids=["file", "folder"])
def test_a_registry_that_can_only_be_read_is_read(tmp_path: Path, folder_too: bool) -> None:
    """A process that is not root, in a folder that others may enter."""
    from evalkit.runs import Runner

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "kept")
        folder.mkdir()
        Path(place).chmod(0o755)
        folder.chmod(0o777)
        path = folder / "registry.sqlite"
        opened = Registry.open(path)
        opened.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
        run = Runner(opened, folder=tmp_path, command=["echo"]).start("smoke", "gpt2")
        opened.close()
        file = folder / "pack.yaml"
        file.write_text("pack: other\nversion: 1\ntasks: [{task: tool_use}]\n")
        path.chmod(0o444)
        folder.chmod(0o555 if folder_too else 0o777)
        words = ["-c", _READING, str(file), str(path), str(tmp_path / "spare.sqlite")]
        done = evalkit(*words, folder=Path(place), lighteval=["echo"], EVALKIT_CACHE=str(folder / "cache"))
        folder.chmod(0o777)
    assert done.stdout.endswith("codes 0 0 0 0 2 2\n"), done.stdout + done.stderr
    assert done.stdout.count(f"run {run.id}: smoke@1") == 2, "of the copy and of the one that can only be read"
    assert done.stderr.count("it is read-only here; use another one") == 2, done.stderr
