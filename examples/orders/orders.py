"""Fulfil an order: set the goods aside, wait to be paid, send them; and undo what was done where that fails.

The warehouse, the bank and the courier are functions. Each may be called again after a crash, with the same
order: setting aside twice what is set aside already changes nothing.
"""

from __future__ import annotations

from typing import Any

from anabranch import NonRetryable, StepError, workflow

stock = {"tea": 5, "coffee": 1, "piano": 1}
reserved: dict[str, list[str]] = {}
refunds: dict[str, int] = {}


@workflow(name="fulfil-order")
async def fulfil(ctx: Any, order: Any) -> Any:
    """Reserve, wait for the payment, ship. Unpaid in time: release. Cannot be shipped: refund and release."""
    number = order["number"]
    await ctx.step.run("reserve", reserve, number, order["goods"])
    payment = await ctx.step.wait_for_event("payment", match={"order": number}, timeout=order["patience"])
    if payment is None:
        await ctx.step.run("release", release, number)
        return {"order": number, "outcome": "not paid in time"}
    try:
        parcel = await ctx.step.run("ship", ship, number, order["goods"])
    except StepError as failure:
        await ctx.step.run("refund", refund, number, payment["cents"])
        await ctx.step.run("release", release, number)
        return {"order": number, "outcome": f"refunded: {failure.message}"}
    return {"order": number, "outcome": "shipped", "parcel": parcel}


def reserve(order: str, goods: list[str]) -> None:
    if order in reserved:
        return
    for each in goods:
        stock[each] -= 1
    reserved[order] = goods


def release(order: str) -> None:
    for each in reserved.pop(order, []):
        stock[each] += 1


def ship(order: str, goods: list[str]) -> str:
    if "piano" in goods:
        raise NonRetryable("no courier carries a piano")
    return f"parcel-{order}"


def refund(order: str, cents: int) -> None:
    refunds[order] = cents
