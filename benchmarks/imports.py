"""Imports, `--help` and the imports of the first live call, each in a fresh process, median of interleaved runs.

The first live call is one `ek.judge` with provider `openai` against a server on loopback: the time that its imports
take beyond `import evalkit; evalkit.judge` is what counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, fresh, interleaved, told

CODE = "import time,json;t=time.perf_counter();{};print(json.dumps({{'s':time.perf_counter()-t}}))"


FIRST_CALL = """
import builtins, importlib, json, sys, threading, time
import evalkit as ek
ek.judge
local, spent = threading.local(), []

def counted(load):
    def loading(*args, **options):
        depth, local.depth = getattr(local, "depth", 0), getattr(local, "depth", 0) + 1
        started = time.perf_counter()
        try:
            return load(*args, **options)
        finally:
            local.depth = depth
            if not depth:
                spent.append(time.perf_counter() - started)
    return loading

builtins.__import__, importlib.import_module = counted(builtins.__import__), counted(importlib.import_module)
items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
judge = ek.Judge("openai", "m", base_url="BASE", temperature=0.0)
table = ek.judge(items, "correctness", judge, samples=1, cache="FOLDER", progress=False)
assert table["score"].notna().all(), table["error"].tolist()
print(json.dumps({"s": sum(spent)}))
"""


FLOOR = "import pandas, joblib, orjson, sqlite3, pydantic; pydantic.create_model('M', n=int)"
"""What evalkit builds on: the least that importing it can take."""


class Stub(BaseHTTPRequestHandler):
    """Answers every chat completion with the same verdict."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One chat completion."""
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": '{"explanation": "equal", "score": 2}'}
        body = json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def first_call() -> float:
    """Seconds that the first live call of a process spends on imports."""
    with tempfile.TemporaryDirectory() as folder:
        base = f"http://127.0.0.1:{server.server_port}/v1"
        return fresh(FIRST_CALL.replace("BASE", base).replace("FOLDER", folder))["s"]


def timed(statement: str) -> float:
    """Seconds that a statement takes in a fresh interpreter."""
    return fresh(CODE.format(statement))["s"]


def command() -> float:
    """Seconds of `evalkit --help`, start of the interpreter included."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "evalkit", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else evalkit alone is compiled anew in each process
server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
threading.Thread(target=server.serve_forever, daemon=True).start()
seen = interleaved(
    {
        "import pandas": lambda: timed("import pandas"),
        "import pandas, joblib, and pydantic with a model": lambda: timed(FLOOR),
        "import evalkit; evalkit.judge": lambda: timed("import evalkit; evalkit.judge"),
        "import evalkit": lambda: timed("import evalkit"),
        "imports of the first live call": first_call,
    },
    runs=9,
)
helps = interleaved({"evalkit --help": command}, runs=5)
for name, values in (seen | helps).items():
    print(told(name, values))
ratio = statistics.median(seen["import evalkit; evalkit.judge"]) / statistics.median(seen["import pandas"])
floor = statistics.median(seen["import pandas, joblib, and pydantic with a model"])
print(f"  of which pandas, joblib and pydantic: {floor / statistics.median(seen['import pandas']):.2f} × import pandas")
met = bar("import evalkit; evalkit.judge, as a multiple of import pandas", ratio, 1.3)
met &= bar("imports of the first live call", statistics.median(seen["imports of the first live call"]), 0.3, " s")
met &= bar("evalkit --help", statistics.median(helps["evalkit --help"]), 0.3, " s")
sys.exit(not met)
