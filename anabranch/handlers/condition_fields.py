"""Fields that hold a condition: exactly one `{{ … }}`, evaluated when the node asks for it.

Used by the models of `condition` and `loop`.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError

from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import TemplateError


def expect_expression(value: Any, *, or_boolean: bool) -> Any:
    """The value, if it is one `{{ … }}` (or, where allowed, a JSON boolean); else EXPRESSION_EXPECTED."""
    if isinstance(value, bool) and or_boolean:
        return value
    if isinstance(value, str) and _is_expression(value):
        return value
    allowed = "one {{ … }} with nothing around it" + (", or true or false" if or_boolean else "")
    raise PydanticCustomError("EXPRESSION_EXPECTED", "an expression is {allowed}", {"allowed": allowed})


def _is_expression(text: str) -> bool:
    try:
        return compile_template(text).is_expression
    except TemplateError:
        return True  # meant as one; that it does not compile is reported as such
