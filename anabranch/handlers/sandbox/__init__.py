"""The isolated processes behind javascript and python nodes."""

from anabranch.handlers.sandbox.code_jobs import (
    LANGUAGES,
    CodeJob,
    CodeProblem,
    CodeRunner,
    LogLine,
    NoSandbox,
)
from anabranch.handlers.sandbox.sandbox import Sandbox

__all__ = [
    "LANGUAGES",
    "CodeJob",
    "CodeProblem",
    "CodeRunner",
    "LogLine",
    "NoSandbox",
    "Sandbox",
]
