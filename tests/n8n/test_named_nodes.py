"""Constants that name nodes in code: written out where the name stands for nothing else."""

from __future__ import annotations

import pytest

from anabranch.n8n.js_reading import with_named_nodes


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("const name = 'A';\nreturn $(name).all()", "$('A').all()"),
        ('const name = "A" // the first\nreturn [row.name, `${name}`, {name: 1}, $( name ).all()]', '$("A").all()'),
        ("const name = 'A';\n// $(name)\nreturn $(name).first()", "return $('A').first()"),
    ],
)
def test_a_node_that_a_constant_names_is_read_by_its_name(code: str, read: str) -> None:
    assert read in with_named_nodes(code)


@pytest.mark.parametrize(
    "code",
    [
        "const name = 'A';\nconst get = (name) => $(name).first();\nreturn get('B')",
        "const name = 'A';\nconst get = name => $(name).first();\nreturn get('B')",
        "const name = 'A';\nconst get = ({name}) => $(name).first();\nreturn get({name: 'B'})",
        "const name = 'A';\nconst get = (...name) => $(name).first();\nreturn get('B')",
        "const name = 'A';\nfor (const name of names) $(name)",
        "const name = 'A';\n{ const name = 'B';\n$(name) }",
        "/*\nconst name = 'A';\n*/\nconst get = name => $(name)",
        "// $(name)\nconst name = 'A';\nconst get = name => $(name)",
    ],
)
def test_a_name_that_is_bound_elsewhere_too_is_left(code: str) -> None:
    assert with_named_nodes(code) == code
