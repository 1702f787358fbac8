"""An agent: a model calls tools, sees their results, and decides what comes next. A person approves what costs money.

Each request to the model and each call of a tool is a step, so a crash repeats none that was recorded. A person may take
a week to answer: the run holds no worker meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch import workflow

# The loop ends when the model calls no tool; this is the limit for one that always does.
TURNS_MAX = 20


@workflow(name="agent", deadline="30d")
async def agent(ctx: Any, input: Any) -> Any:
    """`{"task"}` → the model's answer, and all that was said on the way."""
    said: list[dict[str, Any]] = [{"role": "user", "text": input["task"]}]
    for _ in range(TURNS_MAX):
        reply = await ctx.step.run("model", ask_model, said, timeout="1m")
        said.append(reply)
        if reply["call"] is None:
            return {"answer": reply["text"], "said": said}
        said.append({"role": "tool", "text": await used(ctx, reply["call"])})
    return {"answer": None, "said": said}


async def used(ctx: Any, call: dict[str, Any]) -> str:
    """What a tool answers, once a person has allowed it where that is needed."""
    name = call["tool"]
    if name in NEEDS_APPROVAL:
        answer = await ctx.step.wait_for_event(f"approve-{name}", event="approval", match={"tool": name}, timeout="7d")
        if answer is None or not answer["approved"]:
            return f"{name} was not approved"
    text: str = await ctx.step.run(name, TOOLS[name], **call["arguments"])
    return text


def look_up_invoice(number: str) -> str:
    return f"invoice {number}: 120.00, paid twice"


def send_refund(number: str, amount: str) -> str:
    return f"refunded {amount} for invoice {number}"


def close_account(number: str) -> str:
    return "the account is closed"


TOOLS: dict[str, Callable[..., str]] = {
    "look-up-invoice": look_up_invoice,
    "send-refund": send_refund,
    "close-account": close_account,
}
NEEDS_APPROVAL = ("send-refund", "close-account")


async def ask_model(said: list[dict[str, Any]]) -> dict[str, Any]:
    """The model. A real one is a request over the network; this one follows a script, as far as it was answered."""
    answers = [each["text"] for each in said if each["role"] == "tool"]
    script = [
        ("Let me look at the invoice.", "look-up-invoice", {"number": "17"}),
        ("It was paid twice: one payment goes back.", "send-refund", {"number": "17", "amount": "120.00"}),
        ("Better to be rid of such a customer.", "close-account", {"number": "17"}),
    ]
    if len(answers) < len(script):
        text, tool, arguments = script[len(answers)]
        return {"role": "model", "text": text, "call": {"tool": tool, "arguments": arguments}}
    return {"role": "model", "text": f"Done: {answers[1]}; {answers[2]}.", "call": None}
