"""Functions that people write around a client, memoized: the second call is free, in another process too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from servers import JudgeServer, judge_server

import evalkit as ek

pytest.importorskip("openai")
pytest.importorskip("anthropic")

SCRIPT = """
import asyncio, json, sys
import anthropic
import evalkit as ek
from openai import AsyncOpenAI, OpenAI

URL, KEY = sys.argv[1], sys.argv[2]
client = OpenAI(base_url=URL, api_key=KEY, max_retries=0)
aclient = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
claude = anthropic.Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY, max_retries=0)
memory = ek.memory()
rubric = ek.load_rubric("correctness")
item = {"question": "2 + 2?", "answer": "ITEM-1", "reference": "4"}
prompt = ek.build_prompt(rubric, item)
judge = ek.Judge("openai", "judge-7b", base_url=URL, api_key_env="EVALKIT_TEST_KEY")
SYSTEM = "You are a judge."

@memory.cache
def by_text(text):
    return client.chat.completions.create(
        model="judge-7b", messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    ).choices[0].message.content

@memory.cache
def by_messages(messages, model="judge-7b"):
    return client.chat.completions.create(model=model, messages=messages).choices[0].message.content

@memory.cache
def by_rubric(rubric, answer):
    shown = "\\n".join(f"{code}: {text}" for code, text in rubric.criterion().scale.items())
    reply = by_text(f"{rubric.criterion().description}\\n{shown}\\n{answer}")
    return {"score": float(len(reply)), "reply": reply}

@memory.cache(ignore=["client"])
def by_client(client, **options):
    return client.chat.completions.create(**options).model_dump(mode="json")

@memory.cache
async def awaited(text):
    reply = await aclient.chat.completions.create(model="judge-7b", messages=[{"role": "user", "content": text}])
    return reply.choices[0].message.content

@memory.cache
def judged(judge, prompt):
    return client.chat.completions.create(
        model=judge.model, messages=prompt.messages, temperature=judge.temperature, max_tokens=judge.max_tokens
    ).choices[0].message.content

@memory.cache
def by_claude(prompt):
    system = [message["content"] for message in prompt.messages if message["role"] == "system"]
    rest = [message for message in prompt.messages if message["role"] != "system"]
    reply = claude.messages.create(model="claude", max_tokens=64, system="\\n".join(system), messages=rest)
    return reply.content[0].text

async def twice():
    return await asyncio.gather(awaited("ITEM-2"), awaited("ITEM-2"))

print(json.dumps([
    by_text("ITEM-3"), by_messages([{"role": "user", "content": "ITEM-4"}]), by_messages(prompt.messages),
    by_rubric(rubric, "ITEM-5"),
    by_client(client, model="judge-7b", messages=[{"role": "user", "content": "ITEM-6"}])["choices"][0]["message"],
    asyncio.run(twice()), judged(judge, prompt), by_claude(prompt),
]))
"""


def run(folder: Path, server: JudgeServer, script: str = SCRIPT, key: str = "secret-1") -> object:
    """What the script returns in a process of its own."""
    file = folder / "judging.py"
    file.write_text(script, encoding="utf-8")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder), "EVALKIT_TEST_KEY": "none"}
    environment["EVALKIT_CACHE"] = str(folder / "cache")
    command = [sys.executable, "-W", "error:::evalkit", str(file), f"{server.url}", key]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_second_process_pays_nothing(tmp_path: Path) -> None:
    with judge_server() as server:
        first = run(tmp_path, server)
        n_paid = len(server.seen)
        assert n_paid == 8  # one each: by_rubric asks by_text, and of two tasks one asked
        assert run(tmp_path, server) == first
        assert run(tmp_path, server, key="secret-2") == first  # a client stands by its address
        # an edit of one function, of a text that it reads, and of a helper asks these again, and no other
        for old, new, n_more in [
            ('return {"score": float(len(reply))', 'return {"score": 1.0 + len(reply)', 0),  # what it asks is stored
            ("You are a judge.", "You are a strict judge.", 2),  # by_text alone, and by way of by_rubric
            (
                "    ).choices[0].message.content\n\n@memory.cache\ndef by_claude",
                "    ).choices[0].message.content  # edited\n\n@memory.cache\ndef by_claude",
                0,
            ),
        ]:
            assert SCRIPT.count(old) == 1
            before = len(server.seen)
            run(tmp_path, server, SCRIPT.replace(old, new))
            assert len(server.seen) == before + n_more, new
        # what the function got for judge's own prompt is judge's
        judge = ek.Judge("openai", "judge-7b", base_url=server.url)
        items = [{"question": "2 + 2?", "answer": "ITEM-1", "reference": "4"}]
        before = len(server.seen)
        table = ek.judge(items, "correctness", judge, samples=1, cache=tmp_path / "cache")
        assert (table["source"].tolist(), len(server.seen)) == (["cache"], before)
        # nothing of a key is in the store
        stored = b"".join(path.read_bytes() for path in (tmp_path / "cache").iterdir())
        assert b"secret" not in stored


def test_another_address_is_another_key(tmp_path: Path) -> None:
    with judge_server() as one, judge_server() as other:
        run(tmp_path, one)
        run(tmp_path, other)
        # only the reply key, by which judge asks, takes all ports of this machine for one service
        assert len(other.seen) == len(one.seen) - 1 - 1  # by_client ignores its client


ODD = """
import asyncio, dataclasses, enum, functools, os, sys, types
import evalkit as ek
from pydantic import BaseModel, Field

memory, asked, count = ek.memory(), [], {"n": 0}
MORE = os.environ.get("MORE", "")
text = os.urandom(4).hex()  # also the name of a parameter, and of a captured variable

class Verdict(BaseModel):
    score: int = Field(description=f"0 to 2 {MORE}")

@dataclasses.dataclass
class Item:
    text: str
    tags: frozenset = frozenset({"x", "y", "z"})

class Colour(enum.Enum):
    RED = "r"

class Client:
    def __init__(self, base_url, system=""):
        self.base_url, self.system, self.api_key, self.calls = base_url, system, os.urandom(4).hex(), 0
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, **options):
        self.calls += 1
        return "ok"

client = Client("http://localhost:1/v1", MORE)
lazy = None

def get_client():
    global lazy
    if lazy is None:
        lazy = Client("http://localhost:1/v1")
    return lazy

class Base:
    TONE = f"kind {MORE}"

    def tone(self):
        return "base"

class Agent(Base):
    def __init__(self):
        self.client = get_client()

    def tone(self):
        return self.TONE

    @memory.cache
    def ask(self, question):
        asked.append("agent")
        return self.tone() + question

def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)

TABLE = {"len": len, "factorial": factorial, "same": lambda n: n}

def again(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@memory.cache
def by_client(item, colour, tags=frozenset({"a", "b", "c"}), mixed={1: {2, "b"}, "a": 3}):
    asked.append("client")
    return client.chat.completions.create(text=item.text)

@memory.cache
def lazily(question):
    asked.append("lazily")
    count["n"] += 1
    return get_client().create(question=question)

@memory.cache
def captured(text):
    asked.append("captured")
    return [(lambda: text + word)() for word in "ab"]

@memory.cache
def structured(question):
    asked.append("structured")
    return Verdict(score=1).model_dump()

@memory.cache
def by_table(name):
    asked.append("table")
    return TABLE[name](3)

@memory.cache
@again
def wrapped(question):
    asked.append("wrapped")
    return question

part = memory.cache(functools.partial(lambda a, b: asked.append("part") or a + b, b="1"))

for _ in range(2):
    by_client(Item("q"), Colour.RED), lazily("q"), captured("t"), structured("q"), by_table("factorial")
    wrapped("q"), part("a"), Agent().ask("q")
import json
print(json.dumps(asked))
"""


def test_odd_functions_are_found_in_other_processes(tmp_path: Path) -> None:
    with judge_server() as server:
        first = run(tmp_path, server, ODD)
        assert first == ["client", "lazily", "captured", "structured", "table", "wrapped", "part", "agent"]
        assert run(tmp_path, server, ODD) == []  # another seed of hashes
        # what a class of one's own holds, and the texts of a client of one's own
        assert run(tmp_path, server, ODD.replace('"MORE", ""', '"MORE", "!"')) == ["client", "structured", "agent"]
        edited = ODD.replace("return self.TONE\n", 'return self.TONE + "!"\n')  # it overrides one of the base
        assert run(tmp_path, server, edited) == ["agent"]
