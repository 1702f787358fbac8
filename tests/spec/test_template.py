"""Templates: what they see, what they give, and how they say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.template import (
    Template,
    compile_config,
    compile_template,
    config_problems,
    config_templates,
)
from anabranch.engine.rules.templates.text import EXPRESSION_LENGTH_MAX, EXPRESSIONS_MAX, TEMPLATE_LENGTH_MAX
from anabranch.errors import SecretNotAllowed, TemplateError, TemplatePathMissing

CONTEXT: Mapping[str, Any] = {
    "n": 3,
    "yes": True,
    "nothing": None,
    "text": "hé",
    "order": {"id": 7, "items": ["a", "b"], "a key": {"x": 1}, "keys": "data"},
    "rows": [{"q": 2}, {"q": 5}],
}


def resolve(text: str, ctx: Mapping[str, Any] = CONTEXT) -> Any:
    return compile_template(text).resolve(ctx)


# -- paths ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ctx.n}}", 3),
        ("{{ ctx.order }}", CONTEXT["order"]),
        ("{{ctx.order.items[0]}}", "a"),
        ("{{ctx.order.items[-1]}}", "b"),
        ("{{ctx.order.items.1}}", "b"),
        ("{{ctx['order']['a key'].x}}", 1),
        ("{{ctx.order.items[ctx.n - 2]}}", "b"),
        ("{{ctx[ctx.order.keys | replace('data', 'n')]}}", 3),
        ("{{ [4, 5][1] }}", 5),
        ("{{ {'a': {'b': 6}}.a.b }}", 6),
        ("{{ ctx }}", dict(CONTEXT)),
    ],
)
def test_one_expression_alone_keeps_the_type_of_what_it_finds(text: str, value: Any) -> None:
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


def test_a_key_named_like_a_method_gives_the_data() -> None:
    assert resolve("{{ctx.order.items}}") == ["a", "b"]
    assert resolve("{{ctx.order.keys}}") == "data"


def test_a_value_is_shared_with_the_context_and_not_copied() -> None:
    assert resolve("{{ctx.order}}") is CONTEXT["order"]


@pytest.mark.parametrize(
    ("text", "path", "gap"),
    [
        ("{{ctx.absent}}", "ctx.absent", ""),
        ("{{ctx.absent.a.b}}", "ctx.absent.a.b", "ctx.absent"),
        ("{{ctx.order.x.y}}", "ctx.order.x.y", "ctx.order.x"),
        ("{{ctx.order.items[2]}}", "ctx.order.items[2]", ""),
        ("{{ctx.order.items.first}}", "ctx.order.items.first", ""),
        ("{{ctx.order['no key']}}", "ctx.order['no key']", ""),
        ("{{ctx.nothing.a}}", "ctx.nothing.a", ""),
        ("{{ctx.text.upper}}", "ctx.text.upper", ""),
        ("{{ctx.text[0]}}", "ctx.text[0]", ""),
        ("{{ctx.order.items[true]}}", "ctx.order.items[…]", ""),
        ("{{ctx.order.items[ctx.n]}}", "ctx.order.items[…]", ""),
        ("prefix {{ctx.absent}}", "ctx.absent", ""),
    ],
)
def test_a_missing_path_is_named(text: str, path: str, gap: str) -> None:
    with pytest.raises(TemplatePathMissing) as missing:
        resolve(text)
    assert missing.value.code == "TEMPLATE_PATH_MISSING"
    assert f"`{path}` is missing" in missing.value.message
    assert not gap or f"there is no `{gap}`" in missing.value.message


def test_a_default_is_the_way_out_also_for_missing_parents() -> None:
    assert resolve("{{ctx.absent.a[0].b | default(5)}}") == 5
    assert resolve("{{ctx.absent | upper | default('x')}}") == "x"
    assert resolve("{{ctx.absent | default(ctx.also_absent) | default([])}}") == []
    assert resolve("{{ctx.absent | default}}") == ""


def test_a_default_leaves_what_is_there_even_if_it_is_null_or_empty() -> None:
    assert resolve("{{ctx.nothing | default(5)}}") is None
    assert resolve("{{ctx.nothing | default(5, true)}}") == 5
    assert resolve("{{'' | default('x', boolean=true)}}") == "x"


def test_a_default_is_not_a_way_out_of_other_errors() -> None:
    with pytest.raises(TemplateError, match="by zero"):
        resolve("{{ 1 / 0 | default(5) }}")


# -- text -----------------------------------------------------------------------------------


def test_in_longer_text_a_value_becomes_text_and_is_json_unless_it_is_text() -> None:
    assert resolve("a {{ctx.text}} b") == "a hé b"
    assert resolve("{{ctx.n}}{{ctx.yes}}{{ctx.nothing}}{{1.0}}") == "3truenull1.0"
    assert resolve("is {{ctx.order.items}} {{ctx.rows}}") == 'is ["a","b"] [{"q":2},{"q":5}]'
    assert resolve(" {{ctx.n}}") == " 3"


def test_text_outside_of_expressions_is_kept_as_it_is() -> None:
    assert resolve("a\r\n}} { } {{1}} }}\n") == "a\r\n}} { } 1 }}\n"
    assert resolve("") == ""


def test_literal_braces_are_written_in_quotes() -> None:
    assert resolve("{{ '{{' }}") == "{{"
    assert resolve("{{ '{%' }}x{{ '}}' }}") == "{%x}}"


def test_a_result_is_not_resolved_a_second_time() -> None:
    assert resolve("{{ctx.t}}", {"t": "{{ctx.u}}"}) == "{{ctx.u}}"
    assert resolve("{{ '{' ~ '{ctx.n}}' }} {{ctx.n}}") == "{{ctx.n}} 3"


def test_minus_signs_at_the_braces_take_away_blanks_as_in_jinja() -> None:
    assert resolve("a  {{- 1 -}}  \n b") == "a1b"
    with pytest.raises(TemplateError, match="blank"):
        resolve("{{-1}}")
    assert resolve("{{ -1 }}") == -1


# -- expressions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("-7 % 3", 2),
        ("[1] + ctx.order.items", [1, "a", "b"]),
        ("'n' ~ ctx.n ~ true ~ none ~ [1]", "n3truenull[1]"),
        ("1 < 2 < 3", True),
        ("3 > ctx.n", False),
        ("'a' <= 'b'", True),
        ("[1, 2] < [1, 3]", True),
        ("ctx.order.items == ['a', 'b']", True),
        ("1 != 'x'", True),
        ("'h' in ctx.text", True),
        ("2 in [1, 2]", True),
        ("'id' in ctx.order", True),
        ("'absent' not in ctx", True),
        ("1 in ctx.text", False),
        ("[] in ctx.order", False),
        ("not ctx.yes", False),
        ("ctx.nothing or 'else'", "else"),
        ("0 and ctx.absent", 0),
        ("'a' if ctx.yes else ctx.absent", "a"),
        ("'a' if ctx.nothing", None),
        ("{'a': [1, none], 'b' ~ 1: ctx.n}", {"a": [1, None], "b1": 3}),
        ("[null, none, ctx.n == null]", [None, None, False]),
        ("'one' ' text'", "one text"),
        ("true", True),
        ("1e3", 1000.0),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_expressions_compute_as_jinja_does(expression: str, value: Any) -> None:
    found = resolve("{{ " + expression + " }}")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("'a' + 'b'", "`~` joins text"),
        ("ctx.yes + 1", "a boolean and a number"),
        ("-ctx.yes", "a boolean"),
        ("[1] + 1", "two lists"),
        ("'a' * 3", "`\\*` takes two numbers"),
        ("[1] * 3", "`\\*` takes two numbers"),
        ("'%d' % 3", "`%` takes two numbers"),
        ("1 % 0", "by zero"),
        ("1 // 0", "by zero"),
        ("9223372036854775807 * 9", "64 bit"),
        ("1e308 * 10", "not finite"),
        ("1e308 * 10 - 1e308 * 10", "not finite"),
        ("1 < 'a'", "a number and text"),
        ("ctx.nothing < 1", "null and a number"),
        ("[1] < ['a']", "no order"),
        ("1 in 5", "`in` looks into"),
        ("{1: 2}", "keys of an object are text"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_kind_and_never_by_value(expression: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says) as refusal:
        resolve("{{ " + expression + " }}")
    assert refusal.value.code == "TEMPLATE_ERROR"
    assert expression in refusal.value.message, "the error names its expression"


def test_errors_do_not_tell_values() -> None:
    secret = {"n": "s3cret", "l": ["s3cret"], "o": {"s3cret": 1}}
    refused = ("ctx.n + 1", "ctx.l | sum", "ctx.n | fromjson", "ctx.o | upper", "ctx.l < [1]", "ctx.o.x")
    for expression in (*refused, "ctx.l | sum(attribute='x')"):
        with pytest.raises(TemplateError) as refusal:
            resolve("{{" + expression + "}}", secret)
        assert "s3cret" not in refusal.value.message


# -- what is refused when it is compiled ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{% if ctx.n %}", "statement or comment"),
        ("a {# b #}", "statement or comment"),
        ("{{ ctx.n", "not closed"),
        ("{{ 'a }}", "no closing quote"),
        ("{{ }}", "cannot be read"),
        ("{{ ctx.n ctx.n }}", "continues after its end"),
        ("{{ ctx.f() }}", "nothing can be called"),
        ("{{ ctx.n is defined }}", "default"),
        ("{{ 2 ** 3 }}", "not available"),
        ("{{ ctx.l[1:] }}", "slices"),
        ("{{ (1, 2) }}", "list in brackets"),
        ("{{ order.id }}", "write `ctx.order`"),
        ("{{ secret.key }}", "secrets are not available here"),
        ("{{ ctx.n | format }}", "no filter `format`"),
        ("{{ ctx.n | upper(1) }}", "`upper\\(\\)`"),
        ("{{ ctx.n | replace('a') }}", "replace\\(old, new, count\\)"),
        ("{{ ctx.n | join(d=1, d=2) }}", "each once"),
        ("{{ ctx.n | default(1, 2, 3) }}", "default"),
        ("{{ ctx.n | upper(*ctx.l) }}", "plain arguments"),
        ("{{ ctx[0] }}", "names in ctx are text"),
        ("{{ 18446744073709551616 }}", "64 bit"),
        ("{{ 1e999 }}", "not finite"),
        ("{{ " + "1 + " * 30 + "1 }}", "24 levels"),
        ("{{ " + "'a'" + " " * EXPRESSION_LENGTH_MAX + "}}", str(EXPRESSION_LENGTH_MAX)),
        ("{{1}}" * (EXPRESSIONS_MAX + 1), str(EXPRESSIONS_MAX)),
        ("{{1}}" + "x" * TEMPLATE_LENGTH_MAX, str(TEMPLATE_LENGTH_MAX)),
    ],
)
def test_what_is_no_template_is_refused_when_it_is_compiled(text: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says):
        compile_template(text)


def test_text_without_expressions_may_be_as_long_as_it_likes() -> None:
    assert len(resolve("x" * 1_000_000)) == 1_000_000


@given(st.text(alphabet="{}%#'\"\\ctx.ab[]()|~+-*/<>=!,:0129 \n_if\u2028é", max_size=60))
def test_any_text_compiles_or_is_refused_with_a_template_error(text: str) -> None:
    for candidate in (text, "{{" + text + "}}"):
        try:
            Template(candidate).resolve({"a": [1, {"b": "x"}], "c": 2})
        except Exception as refusal:  # noqa: BLE001 -- any other is the defect
            assert isinstance(refusal, TemplateError), f"{candidate!r} raised {refusal!r}"


# -- what the validator asks ----------------------------------------------------------------


def test_a_template_knows_what_it_needs_and_whether_it_is_one_expression() -> None:
    template = compile_template("{{ ctx.a.b[0].c ~ ctx['d e'].f | default(ctx.g) }}")
    assert template.needs == {("a", "b"), ("g",)}
    assert template.is_expression
    assert not template.is_constant
    assert compile_template("x {{ctx[ctx.name]}}").needs == {("name",)}
    assert not compile_template("x {{1}}").is_expression
    assert compile_template("x {{1}}").is_constant
    assert not compile_template("{{ ctx | length }}").is_constant
    assert not compile_template("plain").has_expressions


# -- configs --------------------------------------------------------------------------------


def test_a_config_is_resolved_leaf_by_leaf_and_its_keys_are_not() -> None:
    config = {"url": "http://h/{{ctx.order.id}}", "{{ctx.n}}": [1, "{{ctx.order}}", {"deep": ["{{ctx.n}}"]}], "z": None}
    resolved = compile_config(config).resolve(CONTEXT)
    assert resolved == {"url": "http://h/7", "{{ctx.n}}": [1, CONTEXT["order"], {"deep": [3]}], "z": None}
    assert list(resolved) == list(config), "key order is kept"


def test_a_config_without_templates_is_given_back_itself() -> None:
    config = {"a": [1, {"b": "text"}]}
    compiled = compile_config(config)
    assert compiled.is_constant
    assert compiled.resolve(CONTEXT) is config


def test_fields_that_are_evaluated_in_their_own_time_stay_as_written() -> None:
    compiled = compile_config({"while": "{{ctx.absent}}", "source": "{{ctx.n}}"}, unresolved=frozenset({"while"}))
    assert compiled.resolve(CONTEXT) == {"while": "{{ctx.absent}}", "source": 3}


def test_an_error_in_a_config_names_its_place() -> None:
    with pytest.raises(TemplatePathMissing, match=r"`ctx.absent` is missing \(config/a~1b/1\)") as missing:
        compile_config({"a/b": ["x", "{{ctx.absent}}"]}).resolve(CONTEXT)
    assert missing.value.details == {"pointer": "/a~1b/1"}
    with pytest.raises(TemplateError, match=r"\(config/x\)"):
        compile_config({"x": "{{"})


def test_the_templates_and_the_problems_of_a_config_are_listed_with_their_pointers() -> None:
    config = {"a": ["plain", "{{ctx.n}}"], "b": {"c": "{{"}, "d": "{% x %}", "e": 1}
    assert [(pointer, template.text) for pointer, template in config_templates(config)] == [("/a/1", "{{ctx.n}}")]
    assert [pointer for pointer, _ in config_problems(config)] == ["/b/c", "/d"]


def test_a_config_nested_without_measure_is_refused_and_not_walked_to_its_end() -> None:
    config: Any = "{{ctx.n}}"
    for _ in range(5_000):
        config = [config]
    with pytest.raises(TemplateError, match="levels deep"):
        compile_config(config)
    assert list(config_templates(config)) == []


class _LazyContext(Mapping[str, Any]):
    """A context that tells which names it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.asked.append(name)
        return CONTEXT[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CONTEXT)

    def __len__(self) -> int:
        return len(CONTEXT)


def test_the_context_is_a_view_of_which_only_the_named_values_are_read() -> None:
    context = _LazyContext()
    assert resolve("{{ctx.order.id}} {{ctx | length}} {{ctx | keys | first}}", context) == "7 6 n"
    assert context.asked == ["order"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ secret.A }}", "aaa"),
        ("Bearer {{secret['A']}}", "Bearer aaa"),
        ("{{ 'x-' ~ secret.A ~ ctx.n }}", "x-aaa1"),
        ("{{ secret.A if ctx.n else secret.B }}", "aaa"),
    ],
)
def test_a_secret_is_inserted_where_secrets_are_given(text: str, value: str) -> None:
    template = compile_template(text, secrets=True)
    assert template.resolve({"n": 1}, TemplateBudget({"A": "aaa", "B": "bbb"})) == value
    assert template.secret_names >= {"A"} and not template.is_constant
    with pytest.raises(SecretNotAllowed, match="not available here"):
        compile_template(text)


@pytest.mark.parametrize(
    "text",
    ["{{ secret }}", "{{ secret.A.b }}", "{{ secret[ctx.n] }}", "{{ secret.A | upper }}", "{{ secret.A == 'a' }}",
     "{{ 'a' in secret.A }}", "{{ [secret.A] }}", "{{ ctx[secret.A] }}", "{{ ('a' ~ secret.A) | length }}",
     "{{ 1 if secret.A else 2 }}", "{{ not secret.A }}", "{{ secret.A or 'x' }}", "{{ secret.A | default('x') }}",
     "{{ {'a': secret.A} }}", "{{ 'a' | replace('a', secret.A) }}"],
)  # fmt: skip
def test_a_secret_is_only_inserted(text: str) -> None:
    with pytest.raises(SecretNotAllowed):
        compile_template(text, secrets=True)


def test_secrets_are_no_part_of_the_context() -> None:
    work = TemplateBudget({"A": "aaa"})
    assert compile_template("{{ ctx }}", secrets=True).resolve({"n": 1}, work) == {"n": 1}
    with pytest.raises(TemplatePathMissing):
        compile_template("{{ ctx.secret.A }}", secrets=True).resolve({}, work)
