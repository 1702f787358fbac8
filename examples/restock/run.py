"""Run the example: a database, suppliers and a buyer of its own, and the commands that a person would type."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).resolve().parent
TOKEN = "only-for-suppliers"

TABLES = """
    CREATE TABLE products (name text PRIMARY KEY, stock integer, capacity integer, limit_cents integer);
    INSERT INTO products VALUES ('tea', 3, 40, 500), ('coffee', 1, 60, 900), ('cocoa', 2, 20, 100),
        ('saffron', 0, 5, 9000), ('sugar', 90, 100, 100);
    CREATE TABLE orders (product text PRIMARY KEY, amount integer, supplier text, cents integer, approved_by text);
"""
LOW_STOCK = """
    SELECT name, capacity - stock AS wanted, limit_cents FROM products
    WHERE stock < capacity * :share ORDER BY name
"""
BOOK_ORDERS = """
    INSERT INTO orders
    SELECT value ->> 'product', value ->> 'amount', value ->> 'supplier', value ->> 'cents', :approved
    FROM json_each(:orders) WHERE true
    ON CONFLICT (product) DO NOTHING
"""

OFFERS = {
    "tea": [{"supplier": "Leaf & Co", "cents": 410, "stock": 500}, {"supplier": "Steep", "cents": 390, "stock": 10}],
    "coffee": [{"supplier": "Bean Bros", "cents": 880, "stock": 80}],
    "cocoa": [{"supplier": "Bean Bros", "cents": 350, "stock": 80}],
}


class World(ThreadingHTTPServer):
    """The suppliers, and the buyer's inbox."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.note: str | None = None
        self.noted = threading.Event()
        self.was_busy = False
        self.keys: set[str] = set()


class Answers(BaseHTTPRequestHandler):
    """What the world answers."""

    server: World

    def do_GET(self) -> None:
        product = parse_qs(urlsplit(self.path).query).get("product", [""])[0]
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "who are you?"})
        elif product == "coffee" and not self.server.was_busy:
            self.server.was_busy = True
            self._answer(503, {"error": "busy"}, {"Retry-After": "1"})
        elif product in OFFERS:
            self._answer(200, OFFERS[product])
        else:
            self._answer(404, {"error": f"nobody sells {product}"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Idempotency-Key"])
        self.server.note = body["note"]
        self.server.noted.set()
        self._answer(202, {"accepted": True})

    def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Not on the screen: the commands are what there is to see."""


class Shell:
    """Types commands in one directory, and shows them."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        # The suppliers of the example live on this machine: an address that has to be allowed.
        self._environment = {**os.environ, "ANABRANCH_EGRESS_ALLOW": urlsplit(world.url).netloc}

    def start(self, *arguments: str, shown: bool = True) -> subprocess.Popen[str]:
        """Begin a command that goes on while others are typed; what it prints is on the screen."""
        print(f"$ anabranch {shlex.join(arguments)}", flush=True)
        return subprocess.Popen(
            [sys.executable, "-m", "anabranch", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=None if shown else subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, typed: str | None = None) -> str:
        """What a command prints. Ends the script if it fails."""
        command = self.start(*arguments, shown=False)
        printed, _ = command.communicate(typed)
        if command.returncode != 0:
            sys.exit(f"{printed}\nthe command ended with {command.returncode}")
        return printed


def prepare(shell: Shell, folder: Path) -> None:
    """The database, the secret, the source, the queries, the two workflows."""
    with sqlite3.connect(folder / "shop.db") as connection:
        connection.executescript(TABLES)
    shell("secrets", "set", "SUPPLIER_TOKEN", typed=TOKEN)
    shell("sources", "add", "shop", "sqlite:///shop.db")
    shell("queries", "add", "low-stock", "--source", "shop", "--sql", LOW_STOCK, "--params", '{"share": "float"}')
    types = '{"orders": "json", "approved": "string"}'
    shell("queries", "add", "book-orders", "--source", "shop", "--sql", BOOK_ORDERS, "--params", types, "--writes")
    shell("workflows", "import", str(HERE / "note.json"))
    shell("workflows", "import", str(HERE / "workflow.json"))


def play(shell: Shell, world: World, folder: Path) -> None:
    """Run it, approve as the buyer, and look at what came of it."""
    given = json.dumps({"share": 0.2, "suppliers": world.url})
    running = shell.start("run", "restock", "--input", given, "--watch")
    if not world.noted.wait(timeout=60):
        running.kill()
        sys.exit("nobody told the buyer within a minute")
    runs = json.loads(shell("runs", "list", "--json"))["items"]
    run_id = next(run["instanceID"] for run in runs if run["name"] == "restock")
    shell("runs", "signal", run_id, "approve", "--payload", '{"by": "Ada"}')
    running.wait(timeout=60)
    outcome = json.loads(shell("runs", "show", run_id, "--json"))
    with sqlite3.connect(folder / "shop.db") as connection:
        booked = connection.execute("SELECT product, amount, supplier, cents, approved_by FROM orders ORDER BY 1").fetchall()
    assert outcome["status"] == "COMPLETED", outcome
    assert booked == [("coffee", 59, "Bean Bros", 51920, "Ada"), ("tea", 37, "Leaf & Co", 15170, "Ada")], booked
    assert outcome["output"]["total"] == 51920 + 15170, outcome
    assert world.was_busy and len(world.keys) == 1
    assert TOKEN not in shell("runs", "log", run_id, "--json"), "a secret is in the log"
    print("booked:", booked)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--keep", action="store_true", help="leave the directory of the run")
    keep = arguments.parse_args().keep
    folder = Path(tempfile.mkdtemp(prefix="anabranch-restock-"))
    world = World()
    threading.Thread(target=world.serve_forever, daemon=True).start()
    try:
        shell = Shell(folder, world)
        prepare(shell, folder)
        play(shell, world, folder)
    finally:
        world.shutdown()
        world.server_close()
        if keep:
            print(f"everything is in {folder}")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
