"""Read the pages that an index names, all at once; a busy server is asked again, a missing page is noted.

A page that was read is not read again, whatever happens to the worker meanwhile: what a step returned is in the log.
"""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urljoin

from anabranch import NonRetryable, StepError, workflow

# Five tries: 100 ms, 200 ms, 400 ms, 800 ms after the one before.
PATIENT = {"maxAttempts": 5, "backoff": {"kind": "exp", "base": "100ms", "max": "10s"}}


@workflow(name="scrape")
async def scrape(ctx: Any, input: Any) -> Any:
    """`{"url"}` of an index → titles and numbers of words of its pages, and those that are not there."""
    index = await ctx.step.run("index", read, input["url"], retry=PATIENT)

    async def page(number: int, url: str) -> dict[str, Any]:
        try:
            return {"url": url, **await ctx.step.run(f"page-{number}", read, url, retry=PATIENT, timeout="5s")}
        except StepError as failure:
            return {"url": url, "missing": failure.message}

    pages = await asyncio.gather(*(page(number, url) for number, url in enumerate(index["links"], start=1)))
    return {
        "pages": [{"title": each["title"], "words": each["words"]} for each in pages if "missing" not in each],
        "missing": [each["missing"] for each in pages if "missing" in each],
    }


def read(url: str) -> dict[str, Any]:
    """What is in a page. Not async: it runs in a thread, and may wait for the network as long as it likes."""
    try:
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as refusal:
        if refusal.code < 500:
            raise NonRetryable(f"{url.rpartition('/')[2]} answers {refusal.code}") from None
        raise
    title = re.search("<title>(.*?)</title>", text)
    links = [urljoin(url, link) for link in re.findall('href="(.*?)"', text)]
    words = re.sub("<.*?>", " ", text).split()
    return {"title": title[1] if title else url, "links": links, "words": len(words)}
