"""Judges that see images: what they are sent, once for equal bytes, and what is not sent."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from decision_server import decider
from pictures import jpeg, png, url_of
from servers import JudgeServer, judge_server

import evalkit as ek
from evalkit.engine.providers.prices import most_image_tokens
from evalkit.errors import ConfigError, EvalkitWarning, InputError, RubricError
from evalkit.notebook.judgments.item_details import images_of, item_texts
from evalkit.tables.messages import image_urls

SCALE = [{"name": "c", "scale": {0: "no", 1: "yes"}, "pass_at": 1}]
PICTURE = ek.Rubric(id="picture", inputs=["image", "question"], criteria=SCALE)
TALK = ek.Rubric(id="talk", inputs=["conversation"], criteria=SCALE)
LAST = ek.Rubric(id="talk", inputs=["conversation"], criteria=SCALE, images="last 1")
GOOD = '{"explanation": "a", "score": 1}'


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with judge_server(always={"content": GOOD}) as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def seeing(server: JudgeServer, provider: str = "openai", **fields: Any) -> ek.Judge:
    return ek.Judge(provider, "m", base_url=server.url, **({"images": True, "price": (1, 8)} | fields))


def judged(items: Any, rubric: ek.Rubric, judges: Any, **options: Any) -> pd.DataFrame:
    return ek.judge(items, rubric, judges, samples=1, progress=False, **options)


def log(*addresses: str, **fields: Any) -> list[dict[str, Any]]:
    """A conversation with a screenshot after each step."""
    parts = [{"type": "image_url", "image_url": {"url": address, **fields}} for address in addresses]
    calls = [{"id": str(n), "type": "function", "function": {"name": "click", "arguments": "{}"}} for n in range(9)]
    steps = [
        message
        for call, part in zip(calls, parts, strict=False)
        for message in (
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": "done"}, part]},
        )
    ]
    return [{"role": "user", "content": "Book it."}, *steps, {"role": "assistant", "content": "Booked."}]


def hashes_sent(body: dict[str, Any]) -> list[str]:
    """The sha256 of the images in a body of any of the three wires."""
    text = json.dumps(body)
    datas = [piece.partition('"')[0] for piece in text.split(";base64,")[1:]]
    datas += [piece.partition('"')[0] for piece in text.split('"data": "')[1:]]
    return [hashlib.sha256(base64.b64decode(data)).hexdigest() for data in datas]


def test_equal_bytes_are_asked_once_and_a_changed_pixel_again(server: JudgeServer, cache: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png())
    pillow = {"bytes": png(), "path": "c.png"}
    cells: list[Any] = [tmp_path / "a.png", tmp_path / "b.png", png(), url_of(png()), pillow, [png()], png(red=1)]
    items = [{"item_id": str(n), "image": cell, "question": "Red?"} for n, cell in enumerate(cells)]
    table = judged(items, PICTURE, seeing(server), cache=cache)
    assert table["score"].tolist() == [1] * 7
    assert table["key"].nunique() == 2
    assert sorted(hashes_sent(seen.body) for seen in server.seen) == sorted(
        [hashlib.sha256(data).hexdigest()] for data in (png(), png(red=1))
    )
    judged(items, PICTURE, seeing(server), cache=cache)
    assert len(server.seen) == 2
    judged(items[:1], PICTURE.edit("c", description="Is it red?"), seeing(server), cache=cache)
    assert len(server.seen) == 3


def test_a_run_that_was_stopped_pays_only_for_the_rest(server: JudgeServer, cache: str) -> None:
    items = [{"item_id": str(n), "image": png(red=n), "question": "Red?"} for n in range(6)]
    first = judged(items, PICTURE, seeing(server), cache=cache, max_calls=2)
    assert first["error"].value_counts().to_dict() == {"budget": 4}
    assert len(server.seen) == 2
    assert judged(items, PICTURE, seeing(server), cache=cache)["score"].notna().all()
    assert len(server.seen) == 6
    assert len({tuple(hashes_sent(seen.body)) for seen in server.seen}) == 6


def test_each_wire_gets_the_images_below_the_text(server: JudgeServer, cache: str) -> None:
    pytest.importorskip("anthropic", reason="needs the extra anthropic")
    first, second = png(), jpeg(9, 9)
    items = [{"conversation": log(url_of(first), url_of(second, "image/png"))}]
    closely = [{"conversation": log(url_of(first), url_of(second, "image/png"), detail="low")}]
    table = pd.concat(
        [
            judged(closely, TALK, seeing(server), cache=cache),
            judged(items, TALK, seeing(server, "anthropic"), cache=cache),
        ]
    )
    assert table["score"].tolist() == [1, 1]
    assert len(server.seen) == 2
    native, chat = sorted((seen.body for seen in server.seen), key=lambda body: "response_format" in body)
    for body in (native, chat):
        (content,) = (message["content"] for message in body["messages"] if message["role"] == "user")
        text, *parts = content
        assert "tool: result of call 1, click: image 1 (" in text["text"]
        assert "base64" not in text["text"]
        assert [part.get("text") for part in parts] == ["image 1:", None, "image 2:", None]
    content = native["messages"][0]["content"]
    data = {"type": "base64", "media_type": "image/jpeg", "data": base64.b64encode(second).decode()}
    assert content[4] == {"type": "image", "source": data}  # by its bytes, not by what the log calls it
    content = chat["messages"][1]["content"]
    assert content[2] == {"type": "image_url", "image_url": {"url": url_of(first), "detail": "low"}}


def test_the_detail_of_an_image_is_refused_where_it_would_be_left_out(server: JudgeServer, cache: str) -> None:
    pytest.importorskip("anthropic", reason="needs the extra anthropic")
    items = [{"conversation": log(url_of(png()), detail=detail)} for detail in ("auto", "high")]
    with pytest.raises(
        InputError, match="names the detail of an image, which the provider 'anthropic' does not know; take"
    ):
        judged(items, TALK, [seeing(server), seeing(server, "anthropic")], cache=cache)
    with pytest.raises(InputError, match="item '1' names the detail of an image, which the provider 'system"):
        judged(items, TALK, seeing(server, "systemone", price=(1, 0)), cache=cache)
    assert not server.seen
    assert judged(items[:1], TALK, seeing(server, "anthropic"), cache=cache)["score"].tolist() == [1]
    assert judged(items, LAST, seeing(server), cache=cache)["score"].tolist() == [1, 1]


def test_both_wires_of_decision_models_get_the_same_images(cache: str) -> None:
    first, second = png(), jpeg(9, 9)
    cells = {"column": [first, second], "again": [url_of(first), second], "other": [png(red=1), second]}
    items = [{"item_id": name, "image": cell, "question": "Red?"} for name, cell in cells.items()]
    talk = [{"item_id": "talk", "conversation": log(url_of(first), url_of(second, "image/png"))}]
    with decider() as (running, model):
        for provider in ("decisions", "systemone"):
            judge = seeing(running, provider, price=(1, 0))
            table = judged(items, PICTURE, judge, cache=cache)
            assert table["score"].tolist() == [0.0] * 3  # the stand-in is sure of no
            assert table["key"].tolist()[0] == table["key"].tolist()[1] != table["key"].tolist()[2]
            judged(talk, TALK, judge, cache=cache)
            judged([*items[:1]], PICTURE, judge, cache=cache)
            judged(talk, TALK, judge, cache=cache)
    assert len(model.asked) == 2 * (2 + 1)  # equal bytes are asked once for each wire
    by_wire = {path: [seen.body for seen in running.seen if seen.path == f"/v1/{path}"] for path in
               ("decisions", "systemone")}  # fmt: skip
    for one, two in zip(by_wire["decisions"], by_wire["systemone"], strict=True):
        (message,) = one["input"]
        text, *parts = message["content"]
        assert text == {"type": "input_text", "text": two["state"]}  # the same content
        assert "image 1" in two["state"]
        assert "base64" not in two["state"]
        assert [part for part in parts if part["type"] == "input_text"] == [
            {"type": "input_text", "text": "image 1:"}, {"type": "input_text", "text": "image 2:"}
        ]  # fmt: skip
        images = [part["image_url"] for part in parts if part["type"] == "input_image"]
        assert images == two["images"]
        assert images[1] == url_of(second, "image/jpeg")  # by its bytes, not by what the log calls it
        assert "image" not in json.dumps([one["questions"], two["questions"]])


def test_decision_models_are_not_asked_about_images_that_they_cannot_be_shown(cache: str) -> None:
    address = [{"item_id": "a", "conversation": log("https://example.org/a.png")}]
    many = [{"item_id": "m", "image": [png()] * 129, "question": "Red?"}]
    with decider() as (running, model):
        for provider in ("decisions", "systemone"):
            judge = seeing(running, provider, price=(1, 0))
            with pytest.warns(EvalkitWarning, match="evalkit fetches no address"):
                assert judged(address, TALK, judge, cache=cache)["error"].tolist() == ["unseen_image"]
            with pytest.warns(EvalkitWarning, match="images=True"):
                table = judged(many, PICTURE, judge.replace(images=None), cache=cache)
            assert table["error"].tolist() == ["unseen_image"]
        decisions = seeing(running, "decisions", price=(1, 0))
        with pytest.raises(ConfigError, match="item 'm' has more than 128 images, the most of a request to judge 'dec"):
            judged(many, PICTURE, [seeing(running), decisions], cache=cache)
        assert running.seen == []
        last = ek.Rubric(id="picture", inputs=["image", "question"], criteria=SCALE, images="last 128")
        with pytest.warns(EvalkitWarning, match="1 image not shown"):
            judged(many, last, decisions, cache=cache)
        assert len(hashes_sent(running.seen[0].body)) == 128
        # how many images a server of the second form takes, it says itself
        judged(many, PICTURE, seeing(running, "systemone", price=(1, 0)), cache=cache)
        assert len(running.seen[1].body["images"]) == 129
    assert len(model.asked) == 2
    names = {"decisions:gpt-6-luna": True, "systemone:jev-1.13.0": False}
    assert {name: ek.Judge.of(name).sees_images for name in names} == names


def test_the_price_of_images_bounds_the_bill(server: JudgeServer, cache: str) -> None:
    item = {"image": png(280, 140), "question": "Red?"}
    judge = seeing(server)
    tokens = most_image_tokens(judge, ek.build_prompt(PICTURE, item).images[0])
    assert tokens == 4096  # 20 x 10 squares of 14 pixels are fewer
    usage = {"prompt_tokens": 900 + tokens, "completion_tokens": 11, "total_tokens": 911 + tokens}
    server.always["tells"] = {"usage": usage}
    costs = ek.plan([item], PICTURE, judge, samples=1, cache=cache, repair=False)
    table = judged([item], PICTURE, judge, cache=cache)
    bill = (usage["prompt_tokens"] * 1 + 11 * 8) / 1e6
    assert table["cost_usd"].sum() == pytest.approx(bill)
    assert costs.usd_at_most >= bill
    short = judged([item | {"question": "Blue?"}], PICTURE, judge, cache=cache, budget_usd=tokens / 1e6)
    assert short["error"].tolist() == ["budget"]
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("openai:gpt-4o", (2048, 4096), 20_153),  # ⌈2.46 x 64 x 128⌉
        ("openai:gpt-4o", (32, 32), 1445),  # 85 + 8 x 170
        ("openai:gpt-4o-mini", (32, 32), 48_169),  # 2833 + 8 x 5667
        ("anthropic:claude-haiku-4-5", (270, 270), 100),
        ("anthropic:claude-haiku-4-5", (9000, 9000), 4784),
    ],
)
def test_prices_by_size(model: str, size: tuple[int, int], tokens: int) -> None:
    judge = ek.Judge.of(model)
    image = ek.build_prompt(PICTURE, {"image": jpeg(*size), "question": "?"}).images[0]
    assert judge.sees_images
    assert most_image_tokens(judge, image) == tokens


def test_a_judge_that_sees_none_is_not_asked(server: JudgeServer, cache: str) -> None:
    items = [{"item_id": "a", "image": png(), "question": "Red?"}, {"item_id": "b", "question": "Blue?"}]
    optional = ek.Rubric(id="picture", inputs=["image?", "question"], criteria=SCALE)
    judges = [seeing(server), ek.Judge("openai", "blind", base_url=server.url)]
    with pytest.warns(EvalkitWarning, match="'a'.*unscored for 'openai:blind'.*images=True"):
        table = judged(items, optional, judges, cache=cache)
    errors = table.set_index(["item_id", "judge"])["error"].dropna().to_dict()
    assert errors == {("a", "openai:blind"): "unseen_image"}
    assert len(server.seen) == 3
    with pytest.warns(EvalkitWarning, match="an image or a file.*images=True"):
        table = judged(items[:1], PICTURE, "fake", cache=cache)
    assert table["error"].tolist() == ["unseen_image"]
    with pytest.raises(ConfigError, match="cannot be shown images; providers that can: 'openai', 'anthropic'"):
        ek.Judge("transformers", "m", images=True)
    names = {
        "openai:gpt-4o": True,
        "openai:gpt-3.5-turbo": False,
        "openai:o3-mini": False,
        "openai:gpt-4o-2024-08-06": True,
    }
    assert {name: ek.Judge.of(name).sees_images for name in names} == names


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://example.org/a.png", "fetches no address"), ("shots/a.png", "fetches no address"),
        (url_of(png()[:-9]), "truncated"), (url_of(b"<svg xmlns='a'>" + b" " * 90, "image/svg+xml"), "save it as PNG"),
        (url_of(png(animated=True)), "animated"),
    ],
)  # fmt: skip
def test_an_image_that_cannot_be_shown_leaves_its_item_unscored(
    server: JudgeServer, cache: str, address: str, why: str
) -> None:
    items = [{"item_id": "a", "conversation": log(address)}, {"item_id": "b", "conversation": log(url_of(png()))}]
    with pytest.warns(EvalkitWarning, match=f"'a'.*unscored.*{why}"):
        table = judged(items, TALK, seeing(server), cache=cache)
    assert table["error"].astype(object).fillna("").tolist() == ["unseen_image", ""]
    assert len(server.seen) == 1


def test_the_last_images_alone_are_shown(server: JudgeServer, cache: str) -> None:
    talk = [{"conversation": log("https://example.org/old.png", url_of(png()), url_of(png(red=9)))}]
    with pytest.warns(EvalkitWarning, match="2 images not shown, as the rubric has images: last 1"):
        table = judged(talk, LAST, seeing(server), cache=cache)
    assert table["score"].tolist() == [1]
    assert hashes_sent(server.seen[0].body) == [hashlib.sha256(png(red=9)).hexdigest()]
    text = server.seen[0].body["messages"][1]["content"][0]["text"]
    assert text.count("image, not shown") == 2
    assert "https://example.org/old.png" in text
    assert ": image 1 (" in text
    assert LAST.prompt_hashes != TALK.prompt_hashes
    with pytest.raises(ek.errors.RubricError, match="images"):
        ek.Rubric(id="talk", inputs=["conversation"], criteria=SCALE, images="first 1")


def test_names_of_files_are_read_below_the_named_folder_alone(server: JudgeServer, cache: str, tmp_path: Path) -> None:
    folder = tmp_path / "shots"
    folder.mkdir()
    (folder / "a.png").write_bytes(png())
    (tmp_path / "secret.png").write_bytes(png(red=7))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    rows = [{"item_id": "1", "image": "a.png", "question": "Red?", "conversation": log("a.png", detail="high")}]
    items = ek.load_items(rows, images=folder)
    judged(items, PICTURE, seeing(server), cache=cache)
    judged(items, TALK, seeing(server), cache=cache)
    assert [hashes_sent(seen.body) for seen in server.seen] == [[hashlib.sha256(png()).hexdigest()]] * 2
    for name in ("../secret.png", "link.png", str(tmp_path / "secret.png"), "b.png", "a\0.png", "a" * 5000):
        with pytest.raises(InputError, match="is not a file in the folder"):
            ek.load_items([{"image": name}], images=folder)
    with pytest.raises(ConfigError, match="images is 3; expected the path of a folder"):
        ek.load_items(rows, images=cast("Any", 3))
    for cell in ("a.png", str(folder / "a.png"), "https://example.org/a.png"):
        with pytest.raises(InputError, match=r"expected an image: .*fetches no address"):
            judged([{"image": cell, "question": "Red?"}], PICTURE, seeing(server), cache=cache)


def test_batches_refuse_images(server: JudgeServer, cache: str) -> None:
    with pytest.raises(InputError, match=r"items with images \(item '0'\) are not sent in batches; call ek.judge"):
        ek.submit([{"image": png(), "question": "Red?"}], PICTURE, seeing(server), cache=cache, to=cache)
    judged([{"image": png(), "question": "Red?"}], PICTURE, seeing(server), cache=cache)
    ticket = ek.submit(
        [{"image": png(), "question": "Red?"}], PICTURE, seeing(server), cache=cache, samples=1, to=cache
    )
    assert not ticket.id  # all replies are in the cache


def test_examples_with_images_are_refused() -> None:
    item = {"item_id": "a", "question": "Red?", "image": png()}
    frame = pd.DataFrame([item | {"criterion": PICTURE.names[0], "label": 1}])
    loaded = ek.load_items([item]).assign(criterion=PICTURE.names[0], label=1)
    for examples in (frame, loaded):
        with pytest.raises(RubricError, match=r"holds a file \(image\).*choose examples without files"):
            PICTURE.with_examples(examples)
    with pytest.raises(RubricError, match=r"holds a file \(image\)"):
        PICTURE.edit(PICTURE.names[0], examples=[{"inputs": {"question": "Red?", "image": png()}, "label": 1}])


def test_an_image_that_is_gone_costs_nothing(server: JudgeServer, cache: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png())
    items = ek.load_items(
        [{"image": "a.png", "question": "Red?"}, {"image": "a.png", "question": "Wide?"}], images=tmp_path
    )
    path.write_bytes(png(red=3))
    with pytest.raises(ek.errors.JudgeError, match="was changed since it was read"):
        judged(items, PICTURE, seeing(server), cache=cache)
    assert server.seen == []


def test_images_are_not_copied_into_tables() -> None:
    text = url_of(png())
    items = ek.load_items([{"image": png(), "answer": [text]}, {"image": text, "answer": [text]}])
    rubric = ek.Rubric(id="r", inputs=["image", "answer"], criteria=SCALE)
    first, second = (ek.build_prompt(rubric, row).images for _, row in items.iterrows())
    assert first[0].source is items.at[0, "image"].source
    assert first[1].source.text is second[1].source.text is items.at[1, "image"][0].source.text is text


def test_people_see_the_images_that_the_judge_saw(server: JudgeServer, cache: str, tmp_path: Path) -> None:
    path, gone = tmp_path / "a.png", tmp_path / "gone.png"
    for file in (path, gone):
        file.write_bytes(png())
    rows = [{"item_id": "a", "image": path, "question": "<b>Red?"}, {"item_id": "b", "image": gone, "question": "Red?"}]
    server.always["content"] = GOOD.replace("1", "0")  # a report shows the lowest scores
    ev = ek.evaluate(rows, PICTURE, seeing(server), samples=1, cache=cache, progress=False)
    gone.unlink()
    columns = {"image": "image", "question": "question"}
    shown = [item_texts(ev.items, columns, item, PICTURE, "c")["forms"]["image"]["images"] for item in ("a", "b")]
    assert shown == [[url_of(png())], []]
    talk = log(url_of(png()), url_of(jpeg(4, 4), "image/jpeg"))
    assert images_of(talk)[0] == url_of(png())
    assert len(image_urls(talk, 10_000)) == 2
    assert image_urls(talk, 10) == []
    pytest.importorskip("matplotlib", reason="needs the extra notebook")
    page = ek.report(ev, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<img src='{url_of(png())}' alt='image 1 of image'" in page
    assert "<b>Red?" not in page


def test_clients_that_are_called_themselves_send_images(server: JudgeServer, cache: str) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra openai")
    anthropic = pytest.importorskip("anthropic", reason="needs the extra anthropic")
    root = server.url.removesuffix("/v1")
    chat = openai.OpenAI(api_key="k", base_url=server.url, http_client=openai.DefaultHttpxClient())
    native = anthropic.Anthropic(api_key="k", base_url=root, http_client=anthropic.DefaultHttpxClient())
    judges = [ek.Judge.client(client, "m", images=True, name=str(n)) for n, client in enumerate((chat, native))]
    items = [{"image": png(), "question": "Red?"}]
    assert judged(items, PICTURE, judges, cache=cache)["score"].tolist() == [1, 1]
    assert [hashes_sent(seen.body) for seen in server.seen] == [[hashlib.sha256(png()).hexdigest()]] * 2
    assert {seen.path for seen in server.seen} == {"/v1/chat/completions", "/v1/messages"}
