"""A signed webhook starts a run, a `respond` node answers it, and a click on a link ends it: `python run.py`.

Starts a server of its own in a temporary folder, plays the claimant and the person who approves, and prints what each
of them sees.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
SECRET = b"32 bytes that only two of us know"


def ask(url: str, *, method: str = "GET", data: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
    """One request: status, headers and text."""
    with urlopen(Request(url, data=data, method=method, headers=headers)) as answer:  # noqa: S310 -- our own server
        return answer.status, dict(answer.headers), answer.read().decode()


def signed(body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks for a body."""
    message, now = f"msg_{secrets.token_hex(8)}", int(time.time())
    mac = hmac.digest(SECRET, f"{message}.{now}.".encode() + body, hashlib.sha256)
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": message, "webhook-timestamp": str(now), "webhook-signature": signature}


def play(server: str, key: str) -> None:
    """Claim, approve, and look at the run."""
    body = json.dumps({"amount": 120, "for": "train tickets"}).encode()
    headers = {**signed(body), "content-type": "application/json"}
    claim = f"{server}/hooks/default/expenses/claim"
    status, _, text = ask(claim, method="POST", data=body, **headers)
    run = json.loads(text)["claim"]
    print("the claimant is answered:", status, json.loads(text)["state"])
    again = ask(claim, method="POST", data=body, **headers)
    print("the same request again starts nothing:", json.loads(again[2])["claim"] == run)

    def read(path: str) -> dict:
        return json.loads(ask(f"{server}/v1/runs/{run}{path}", authorization=f"Bearer {key}")[2])

    while read("")["status"] != "WAITING":  # the mail is being written
        time.sleep(0.05)
    mail = read("/steps?nodeID=mail")["items"][0]["output"]
    print("the mail asks:", mail["subject"])
    _, _, page = ask(mail["yes"], accept="text/html")
    print("a preview of the link approves nothing:", "Please confirm" in page, read("")["status"])
    _, _, page = ask(mail["yes"], method="POST", data=b"", accept="text/html")
    print("a click on Confirm does:", "Thank you" in page)
    ended = read("?wait=30s")
    print("the run:", ended["status"], json.dumps(ended["output"], sort_keys=True))


def main(folder: str) -> None:
    """A server, and what happens on it."""
    key = secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "anabranch", "dev", "--port", "0", "--no-open"]
    command += ["--workflow", str(HERE / "workflow.json")]
    environment = {**os.environ, "ANABRANCH_API_KEY": key}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = urlsplit(server.stdout.readline())  # its first line: where it is
            address = f"{url.scheme}://{url.netloc}"
            secret = {"name": "EXPENSES", "value": "whsec_" + base64.b64encode(SECRET).decode()}
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            ask(f"{address}/v1/secrets", method="POST", data=json.dumps(secret).encode(), **headers)
            play(address, key)
        finally:
            server.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
