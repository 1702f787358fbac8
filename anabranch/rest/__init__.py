"""The REST door: a table of routes on aiohttp, its OpenAPI document, and its metrics."""

from anabranch.rest.application import METRICS, build_application, build_health_application
from anabranch.rest.neighbours import Neighbours
from anabranch.rest.openapi import openapi_document

__all__ = ["METRICS", "Neighbours", "build_application", "build_health_application", "openapi_document"]
