"""Take the pictures of docs/tutorial.md while carrying it out: ``python docs/pictures/tutorial.py [FOLDER]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "tests" / "support")]

from labs import Notebook, missing, running_browser, running_lab  # noqa: E402  # lies in a folder named above
from tuner import photograph  # noqa: E402  # lies beside this file
from tutorial_walk import walk  # noqa: E402

HEIGHTS = {"card": 456, "first": 746, "item": 560, "keep": 640}  # pixels; of the others, all


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    from PIL import Image
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    if why := missing():
        sys.exit(why)
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 2600})
        page.set_default_timeout(60_000)
        notebook = Notebook(page, lab)

        def take(name: str) -> None:
            path = folder / f"tutorial-{name}.png"
            photograph(page, notebook.tuner, path)
            with Image.open(path) as picture:
                picture.crop((0, 0, picture.width, HEIGHTS.get(name, picture.height))).save(path, optimize=True)

        walk(notebook, take)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
