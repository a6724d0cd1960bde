"""Take the pictures of docs/runs.md in JupyterLab and Chromium: ``python docs/pictures/runs.py [FOLDER]``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "tests" / "support")]

from labs import Notebook, missing, running_browser, running_lab  # noqa: E402  # lies in the folder named above
from tuner import TALL, take  # noqa: E402

RUN_S = 240
MODEL = '''\
import time
from pathlib import Path

from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache


class Model(LightevalModel):
    """Quotes its source and adds an invented sentence to some answers."""

    tokenizer, add_special_tokens, max_length = None, False, 4096

    def __init__(self, config):
        self.config, self._cache = config, SampleCache(config)

    def tok_encode(self, text):
        return text

    def greedy_until(self, docs):
        for done in range(0, len(docs) + 1, 4):
            print(f"quoting.py: {done} of {len(docs)} prompts answered", flush=True)
        end = time.monotonic() + 120  # ends by itself if taking pictures fails
        while not Path("go").exists() and time.monotonic() < end:
            time.sleep(0.1)
        return [ModelResponse(text=[self.say(doc)], input_tokens=[1], output_tokens=[[1]]) for doc in docs]

    def say(self, doc):
        said = str(list((doc.specific or {}).get("context", [doc.query]))[0]).split(". ")[0]
        return said + ("." if len(doc.query) % 2 else ". It is free of charge for members of the club in Lisbon.")

    def loglikelihood(self, docs):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood
'''
WIZARD = f"""\
import evalkit as ek, pathlib
pathlib.Path("quoting.py").write_text({MODEL!r})
registry = ek.runs.Registry.open("registry.sqlite")
registry.apply_pack({{"pack": "support-suite", "version": 1, "primary_metric": "faithfulness",
                     "tasks": [{{"task": "grounded_qa"}}, {{"task": "tool_use", "weight": 0}}]}})
ek.notebook.RunWizard(runner=ek.runs.Runner(registry, folder="runs"))"""
VIEW = """\
import evalkit as ek
ek.notebook.RunView(ek.runs.Runner(ek.runs.Registry.open("registry.sqlite"), folder="runs").run("last"))"""


def fill(wizard: Any, *, weight: str) -> None:
    """A jury of two, by hand."""
    wizard.get_by_label("Pack").select_option("support-suite@1")
    wizard.get_by_label("Model backend").select_option("custom")
    wizard.get_by_label("Model", exact=True).first.fill("quoting=quoting.py")
    wizard.get_by_label("jury").check()
    for _ in range(2):
        wizard.get_by_role("button", name="Add a judge").click()
    wizard.locator("[data-place='judges.1.weight']").fill(weight)
    wizard.get_by_label("Report the judges' disagreement").check()


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    if why := missing():
        sys.exit(why)
    os.environ["HF_HUB_OFFLINE"] = "1"  # the tasks' data ship with evalkit
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": TALL})
        page.set_default_timeout(60_000)
        notebook = Notebook(page, lab).open(WIZARD)
        wizard = notebook.tuner
        wizard.get_by_text("choose a pack and a model").wait_for()
        take(page, wizard, folder, "wizard-empty", wide=True, light=True)
        fill(wizard, weight="much")
        wizard.get_by_text("to fix first").wait_for()
        take(page, wizard, folder, "wizard-error", wide=True)
        wizard.locator("[data-place='judges.1.weight']").fill("2")
        wizard.get_by_text("at most 156 judge calls").wait_for(timeout=RUN_S * 1000)
        take(page, wizard, folder, "wizard")
        wizard.get_by_role("button", name="Start the run").click()
        wizard.locator(".ekw-log").get_by_text("52 of 52 prompts").wait_for(timeout=RUN_S * 1000)
        take(page, wizard, folder, "run-progress", wide=True)
        (notebook.folder / "go").touch()
        wizard.locator("tr[data-number]").first.wait_for(timeout=RUN_S * 1000)
        take(page, wizard, folder, "wizard-done", wide=True, light=True)
        notebook.open(VIEW)
        view = notebook.tuner
        view.locator("tr[data-number]").first.wait_for()
        take(page, view, folder, "run", wide=True, light=True)
        view.locator("tr[data-number]").first.click()
        view.locator(".ekw-judges").wait_for()
        take(page, view, folder, "run-sample")
        notebook.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
