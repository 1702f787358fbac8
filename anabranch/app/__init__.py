"""The composition root: creates all services of a process and connects them."""

from __future__ import annotations

from anabranch.app.composition import App, build
from anabranch.app.run_services import tune_interpreter

__all__ = ["App", "build", "tune_interpreter"]
