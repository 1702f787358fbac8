"""The gallery over REST: a page needs no copy of it."""

from __future__ import annotations

import json

from anabranch.gallery.gallery import all_templates
from tests.rest.conftest import Served


async def test_templates_are_listed_with_their_pictures(served: Served):
    answered = await served.ask("GET", "/v1/templates", role="viewer")

    assert answered.status == 200, answered.text
    assert [item["name"] for item in answered.json["items"]] == [template.name for template in all_templates()]
    assert all(item["picture"].startswith("<svg ") for item in answered.json["items"])


async def test_the_document_of_a_drawn_template_is_one_that_is_saved(served: Served):
    template = (await served.ask("GET", "/v1/templates/clean-customers", role="viewer")).json

    assert (template["kind"], template["code"]) == ("drawn", None)
    saved = await served.ask("POST", "/v1/workflows", json=json.loads(template["document"]))
    assert (saved.status, saved.json["name"]) == (201, template["workflow"])
    started = await served.ask("POST", f"/v1/workflows/{template['workflow']}/runs", json={"input": template["input"]})
    assert started.status == 201, started.text


async def test_a_coded_template_has_its_python_and_no_document(served: Served):
    template = (await served.ask("GET", "/v1/templates/order-saga", role="viewer")).json

    assert (template["kind"], template["document"]) == ("coded", None)
    assert "async def order_saga" in template["code"]


async def test_an_unknown_template_is_not_found(served: Served):
    answered = await served.ask("GET", "/v1/templates/common", role="viewer")

    assert (answered.status, answered.json["error"]["code"]) == (404, "NOT_FOUND")
