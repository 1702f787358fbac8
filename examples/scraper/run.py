"""Scrape a small site that this script serves itself: one of its pages is busy twice, one is not there."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scraper import scrape

from anabranch import Client, Worker

RIVERS = {"rhine": "flows to the north sea", "rhone": "flows to the south", "inn": "joins the danube"}

# How often the page of a busy river is refused before it is shown.
BUSY = {"rhone": 2}

asked: Counter[str] = Counter()


class Site(BaseHTTPRequestHandler):
    """An index of four rivers, of which there are three."""

    def do_GET(self) -> None:
        river = self.path.strip("/")
        asked[river] += 1
        if not river:
            self._answer(200, "".join(f'<a href="/{each}">{each}</a>' for each in [*RIVERS, "styx"]))
        elif asked[river] <= BUSY.get(river, 0):
            self._answer(503, "busy")
        elif river in RIVERS:
            self._answer(200, f"<title>{river}</title><p>The {river} {RIVERS[river]}.</p>")
        else:
            self._answer(404, "no such river")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Not on the screen."""


async def main(url: str, site: str) -> None:
    async with Worker(url, workflows=[scrape]), Client(url) as client:
        handle = await client.start("scrape", {"url": site})
        found = await handle.result(timeout=60)
    for page in found["pages"]:
        print(f"{page['title']}: {page['words']} words")
    print("missing:", found["missing"])
    print("asked:", dict(sorted(asked.items())))


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/scraper.db", f"http://127.0.0.1:{server.server_port}/"))
    server.shutdown()
