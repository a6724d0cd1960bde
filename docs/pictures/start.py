"""Take the pictures of the start card in JupyterLab and Chromium: ``python docs/pictures/start.py [FOLDER]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "tests" / "support")]

from labs import Notebook, missing, running_browser, running_lab  # noqa: E402  # lies in a folder named above
from tuner import THEMES, photograph  # noqa: E402  # lies beside this file

CELL = """\
import evalkit as ek, pandas as pd
asked = ["May I return order {}?", "When does order {} arrive?", "Can I change the address of order {}?"]
answers = ["Yes, you may return order {} within 30 days.", "Order {} arrives on Friday.", "I do not know, sorry."]
def chat(at):
    texts = asked[at % 3].format(at), answers[at * 7 % 3].format(at)
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant"), texts)]
table = pd.DataFrame({
    "ConvUUID": [f"9f-{at:03}" for at in range(60)],
    "log": [chat(at) for at in range(60)],
    "system_id": ["small-v1", "large-v2"] * 30,
    "lang": ["en", "de", "fr"] * 20,
    "Human Score": [at * 7 % 5 + 1 if at % 4 else None for at in range(60)],
    "n_turns": [2] * 60,
})
ek.start(table, cache="cache")"""


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    if why := missing():
        sys.exit(why)
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 1600})
        page.set_default_timeout(60_000)
        card = Notebook(page, lab).open(CELL).tuner
        card.get_by_text("Prompt for").first.click()
        card.get_by_text("60 items").wait_for()
        for theme, chosen in THEMES.items():
            photograph(page, card, folder / f"start{theme}.png", chosen)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
