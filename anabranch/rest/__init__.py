"""The REST API: a table of routes on aiohttp, its OpenAPI document, and its metrics."""

from anabranch.rest.allowed_hosts import AllowedHosts
from anabranch.rest.application import AUTHENTICATED, METRICS, build_application, build_health_application
from anabranch.rest.failures import fault_response, response_of
from anabranch.rest.openapi import openapi_document

__all__ = [
    "AUTHENTICATED",
    "METRICS",
    "AllowedHosts",
    "build_application",
    "build_health_application",
    "fault_response",
    "openapi_document",
    "response_of",
]
