"""Expressions of n8n as expressions of our templates, where both always have the same value.

Pure. Called by `texts`. What cannot be said exactly raises Untranslatable with the reason; the caller then makes a code
node of it. An n8n expression that fails has no value, which is what `default(none)` and `otherwise(none)` say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.engine.rules.templates.text import EXPRESSION_LENGTH_MAX
from anabranch.n8n.dates import DATE_PARTS, strftime_of, unit_of
from anabranch.n8n.js_tree import (
    ArrayLiteral,
    Arrow,
    Binary,
    Call,
    ConditionalExpression,
    JsMember,
    JsPattern,
    JsTemplate,
    Literal,
    Name,
    NewExpression,
    NotJavaScript,
    NotRead,
    ObjectLiteral,
    Spread,
    Tree,
    Unary,
    read_expression,
)
from anabranch.n8n.phrases import CONSTANT, FALSY, InvalidExpression, NameScope, Phrase, Untranslatable, constant_kind
from anabranch.n8n.refs import Ref, literal, quoted, step


def translate(source: str, scope: NameScope) -> Phrase:
    """Translate the text between `{{` and `}}` into our templates. Raises Untranslatable."""
    try:
        tree = read_expression(source)
        phrase = _Translator(scope).phrase(tree)
    except NotJavaScript as refusal:
        raise InvalidExpression(f"`{source[:60]}`: {refusal}") from None
    except NotRead as refusal:
        raise Untranslatable(str(refusal)) from None
    if phrase.throws and not isinstance(tree, (Call, JsMember)) and _is_optional(tree):
        raise Untranslatable("it goes on where `?.` finds nothing")
    if phrase.is_path and phrase.throws:
        return Phrase(f"({phrase.text} | otherwise(none))", throws=True)
    return phrase


class _Translator:
    def __init__(self, scope: NameScope) -> None:
        self._scope = scope
        self._throws = self._is_odd = False
        """Of what was said so far of the expression that is being said."""

    def phrase(self, tree: Tree) -> Phrase:
        """The same expression in the language of templates. Raises Untranslatable."""
        around = self._throws, self._is_odd
        self._throws = self._is_odd = False
        phrase = self._phrase(tree)
        if len(phrase.text) > EXPRESSION_LENGTH_MAX:  # the left side of `||` stands in it twice
            raise Untranslatable("it is longer than an expression of ours may be")
        throws, is_odd = self._throws or phrase.throws, (self._is_odd and phrase.kind != "boolean") or phrase.is_odd
        self._throws, self._is_odd = around[0] or throws, around[1] or is_odd
        return replace(phrase, throws=throws, is_odd=is_odd)

    def _value(self, phrase: Phrase) -> str:
        """As an operand of what would go on where it fails: a missing path is null."""
        _refuse_element(phrase)
        if phrase.is_odd or (phrase.is_path and phrase.throws):
            raise Untranslatable("it goes on with what a part of it gives where that fails")
        return phrase.value

    def _result(self, phrase: Phrase) -> str:
        """As the value of the whole, which fails where a part of it does."""
        _refuse_element(phrase)
        return phrase.atom if phrase.is_path and phrase.throws else phrase.value

    def _truth(self, phrase: Phrase) -> str:
        """As a condition."""
        return (
            phrase.truth
            if phrase.kind == "boolean" and not phrase.is_odd
            else f"({self._value(phrase)} not in {FALSY})"
        )

    def _text(self, phrase: Phrase) -> str:
        """As an operand that is joined to a text."""
        _refuse_element(phrase)
        if phrase.is_odd or (phrase.throws and (phrase.is_path or phrase.kind not in ("text", "number", "boolean"))):
            raise Untranslatable("it goes on with what a part of it gives where that fails")
        if phrase.throws and phrase.kind == "number":
            return f"({phrase.value} | string)"
        return phrase.atom if phrase.kind == "boolean" else phrase.as_text()

    def _phrase(self, tree: Tree) -> Phrase:
        match tree:
            case Literal(value):
                is_atom = not isinstance(value, (int, float)) or value >= 0
                return Phrase(literal(value), constant_kind(value), is_atom, is_whole=isinstance(value, int))
            case JsTemplate(parts):
                texts = [quoted(part) if isinstance(part, str) else self._text(self.phrase(part)) for part in parts]
                return Phrase(" ~ ".join(["''", *texts] if len(texts) < 2 else texts), "text", is_atom=False)
            case Name("undefined"):
                return Phrase("none", "null")
            case Name() | JsMember():
                return self._path(tree)
            case Call(callee, arguments):
                return self._call(callee, arguments)
            case NewExpression(Name("Date"), ()):
                return Phrase("now", "jsdate")
            case NewExpression(Name("Date"), (only,)):
                return Phrase(f"({self.phrase(only).atom} | date_add(0, 'days'))", "jsdate")
            case Unary(sign, operand):
                return self._unary(sign, operand)
            case Binary(sign, left, right):
                return self._binary(sign, left, right)
            case ConditionalExpression(test, chosen, other):
                yes, no = self.phrase(chosen), self.phrase(other)
                kind = yes.kind if yes.kind == no.kind else "any"
                phrase = f"{self._result(yes)} if {self._truth(self.phrase(test))} else {self._result(no)}"
                return Phrase(phrase, kind, is_atom=False, is_odd=_may_lack(yes) or _may_lack(no))
            case ArrayLiteral(items):
                return Phrase("[" + ", ".join(self._element(item) for item in items) + "]", "list")
            case ObjectLiteral(pairs):
                return self._object(pairs)
        raise Untranslatable("it has a form that templates do not have")

    def _element(self, tree: Tree) -> str:
        if isinstance(tree, Spread):
            raise Untranslatable("`...` has no counterpart")
        return self._value(self.phrase(tree))

    def _object(self, pairs: tuple[tuple[Tree | None, Tree], ...]) -> Phrase:
        made = []
        for key, value in pairs:
            if not isinstance(key, Literal):
                raise Untranslatable("an object has computed keys or `...`")
            made.append(f"{quoted(str(key.value))}: {self._value(self.phrase(value))}")
        return Phrase("{" + ", ".join(made) + "}", "object")

    # -- paths ----------------------------------------------------------------------------

    def _path(self, tree: Name | JsMember) -> Phrase:
        known = self._known(tree)
        if known is not None:
            return known
        if isinstance(tree, Name):
            raise Untranslatable(f"`{tree.name}` is not known here")
        _refuse_parts_of_address(tree)
        return self._member(self.phrase(tree.base), tree)

    def _member(self, base: Phrase, tree: JsMember) -> Phrase:
        key = tree.key
        if isinstance(key, Literal) and key.value == "length" and base.kind in ("any", "text", "list"):
            _refuse_element(base)
            return Phrase(f"({base.atom} | js_length)", "number", throws=True, is_odd=True, is_whole=True)
        if isinstance(key, Literal) and base.kind in ("date", "jsdate") and isinstance(key.value, str):
            return self._date_part(base, key.value)
        if base.kind in ("text", "number", "boolean", "null"):
            raise Untranslatable("a member of a text, number or boolean")
        if isinstance(key, Literal) and isinstance(key.value, str):
            if key.value.isdigit():  # of a list as well as of an object
                text = f"({base.atom}[{quoted(key.value)}] | default({base.atom}[{int(key.value)}]))"
                return Phrase(text, is_path=True, is_element=base.kind == "any")
            return Phrase(base.atom + step(key.value), is_path=True)
        if isinstance(key, Literal) and isinstance(key.value, int):
            if key.value < 0:
                raise Untranslatable("a negative number of an item")
            return Phrase(f"{base.atom}[{key.value}]", is_path=True, is_element=base.kind == "any")
        return Phrase(f"{base.atom}[{self.phrase(key).atom}]", is_path=True)

    def _known(self, tree: Tree) -> Phrase | None:
        """The names of n8n: `$json`, `$('X').item.json` and so on; None if it is none of these alone."""
        scope = self._scope
        match tree:
            case Name("$json") | JsMember(JsMember(Name("$input"), Literal("item")), Literal("json")):
                return _ref(scope.json())
            case JsMember(Name("$input"), Literal("json")):
                return _ref(scope.json())
            case JsMember(JsMember(Name("$node"), Literal(str(name))), Literal("json" | "data")):
                return _ref(scope.node(name, "index"))
            case JsMember(JsMember(JsMember(Name("$node"), Literal(str(name))), Literal("first")), Literal("json")):
                return _ref(scope.node(name, "first"))
            case JsMember(base, Literal("json")):
                return self._item_of(base)
            case JsMember(JsMember(Name("$node"), Literal(str(name))), Literal("parameter")):
                return Phrase(literal(_plain(scope.parameters(name))), "object")
            case JsMember(Call(Name("$"), (Literal(str(name)),)), Literal("params")):
                return Phrase(literal(_plain(scope.parameters(name))), "object")
            case JsMember(JsMember(Name("$binary"), _), Literal("id")):
                raise Untranslatable("files have no ids here")
            case Name("$binary"):
                return _ref(scope.files())
            case Name("$data"):
                return _ref(scope.json())
            case Name("$now"):
                return Phrase("now", "date")
            case Name("$today"):
                return Phrase(f"(now | date_start('day', {quoted(scope.timezone)}))", "date")
            case JsMember(Name("$env" | "$vars"), Literal(str(name))):
                return _ref(scope.variable(name))
            case Name("$itemIndex" | "$position"):
                return Phrase(scope.item_index().template, "number", is_whole=True)
            case JsMember(Name("$execution"), Literal("id")) | Name("$executionId"):
                return Phrase("ctx.run.id", "text")
            case JsMember(Name("$workflow"), Literal("name")):
                return Phrase(quoted(scope.title), "text")
            case JsMember(Name("$workflow"), Literal("active")):
                return Phrase("true", "boolean")
            case JsMember(Name("$execution"), Literal("mode")):
                return Phrase("'production'", "text")
            case JsMember(Name("$execution"), Literal("resumeUrl")):
                return Phrase(scope.resume_address(), "text")
            case JsMember(Name("$response"), _):  # known in the pages of a request only, where nothing is translated
                return Phrase("none", "null")
            case JsMember(JsMember(base, Literal("all")), Literal("length")):
                return None
        return None

    def _item_of(self, base: Tree) -> Phrase | None:
        scope = self._scope
        match base:
            case JsMember(Call(Name("$"), (Literal(str(name)),)), Literal("item")):
                return _ref(scope.node(name, "item"))
            case Call(JsMember(Call(Name("$"), (Literal(str(name)),)), Literal("itemMatching")), (Literal(0),)):
                raise Untranslatable("an item that belongs to another one than the current")
            case Call(JsMember(Call(Name("$"), (Literal(str(name)), *_)), Literal("first" | "last" as which)), ()):
                return _ref(scope.node(name, which))
            case Call(
                JsMember(Call(Name("$"), (Literal(str(name)),)), Literal("first" | "last" as which)), (Literal(0),)
            ):
                return _ref(scope.node(name, which))
            case Call(JsMember(Name("$input"), Literal("first" | "last" as which)), ()):
                return _ref(scope.inputs(which))
            case JsMember(JsMember(Name("$input"), Literal("first" | "last" as which)), _):
                raise Untranslatable(f"`$input.{which}` without a call")
            case JsMember(Call(Name("$items"), (Literal(str(name)), *_)), Literal(int(number))):
                return Phrase(f"{_grouped(scope.node(name, 'all').template)}[{number}]", is_path=True)
            case JsMember(
                Call(JsMember(Call(Name("$"), (Literal(str(name)),)), Literal("all")), ()), Literal(int(number))
            ):
                return Phrase(f"{_grouped(scope.node(name, 'all').template)}[{number}]", is_path=True)
            case JsMember(Call(JsMember(Name("$input"), Literal("all")), ()), Literal(int(number))):
                return Phrase(f"{_grouped(scope.inputs('all').template)}[{number}]", is_path=True)
            case JsMember(JsMember(Call(Name("$item"), (Literal(index), *_)), Literal("$node")), Literal(str(name))):
                if str(index) != "0":
                    raise Untranslatable("`$item(n)` of another item than the first")
                return _ref(scope.node(name, "first"))
            case JsMember(JsMember(Call(Name("$item"), _), Literal("$node")), _):
                raise Untranslatable("`$item(…)` of a computed item")
        return None

    # -- operators ------------------------------------------------------------------------

    def _unary(self, sign: str, operand: Tree) -> Phrase:
        inner = self.phrase(operand)
        if sign == "!":
            return Phrase(f"not {self._truth(inner)}", "boolean", is_atom=False)
        if sign in "+-":
            text = f"0 - {inner.as_number()}" if sign == "-" else inner.as_number()
            is_odd = inner.kind != "number"
            return Phrase(text, "number", is_atom=sign == "+", is_odd=is_odd, is_whole=inner.is_whole)
        raise Untranslatable(f"`{sign}` has no counterpart")

    def _binary(self, sign: str, left: Tree, right: Tree) -> Phrase:
        if sign in ("||", "&&", "??"):
            return self._logic(sign, self.phrase(left), self.phrase(right))
        if sign in ("===", "!==") and Name("undefined") in (left, right):
            raise Untranslatable("templates do not tell what is missing from null")
        if sign in ("===", "!==", "==", "!="):
            return self._equality(sign, self.phrase(left), self.phrase(right))
        if sign in ("<", "<=", ">", ">="):
            return self._order(sign, self.phrase(left), self.phrase(right))
        if sign == "+":
            return self._plus(self.phrase(left), self.phrase(right))
        if sign in ("-", "*", "/"):
            first, second = self.phrase(left), self.phrase(right)
            is_odd = not first.kind == second.kind == "number"
            divides = sign == "/" and not (second.kind == "number" and second.text.strip("0."))  # by 0 it goes on
            text = f"{first.as_number()} {sign} {second.as_number()}"
            is_whole = sign != "/" and first.is_whole and second.is_whole
            return Phrase(text, "number", is_atom=False, is_odd=is_odd or divides, throws=divides, is_whole=is_whole)
        if sign == "%" and isinstance(right, Literal) and isinstance(right.value, int):
            raise Untranslatable("`%` has another sign for negative numbers")
        raise Untranslatable(f"`{sign}` has no counterpart")

    def _logic(self, sign: str, left: Phrase, right: Phrase) -> Phrase:
        if left.kind == right.kind == "boolean" and sign != "??":
            return Phrase(f"{left.atom} {'or' if sign == '||' else 'and'} {right.atom}", "boolean", is_atom=False)
        kind = left.kind if left.kind == right.kind else "any"
        first, second = self._value(left), self._result(right)
        if sign == "&&":
            first, second = second, first
        test = f"{self._value(left)} != none" if sign == "??" else self._truth(left)
        return Phrase(f"{first} if {test} else {second}", kind, is_atom=False, is_odd=_may_lack(right))

    def _equality(self, sign: str, left: Phrase, right: Phrase) -> Phrase:
        ours = "==" if sign[0] == "=" else "!="
        first, second = self._value(left), self._value(right)
        if "null" in (left.kind, right.kind):
            if len(sign) == 3:  # what is missing is not null
                first, second = _never_missing(left, first), _never_missing(right, second)
            return Phrase(f"{first} {ours} {second}", "boolean", is_atom=False)
        if "boolean" in (left.kind, right.kind):
            return self._equal_booleans(sign, ours, left, right)
        if len(sign) == 2 and left.kind != right.kind:
            return self._loosely_equal(ours, left, right)
        if left.kind == right.kind == "any":
            raise Untranslatable("lists and objects equal themselves only, and true is not 1")
        if right.kind == "number" and _may_equal_a_boolean(left, right):
            first = f"({left.text} | must_be('number') | otherwise(none))"
        if left.kind == "number" and _may_equal_a_boolean(right, left):
            second = f"({right.text} | must_be('number') | otherwise(none))"
        return Phrase(f"{first} {ours} {second}", "boolean", is_atom=False)

    def _equal_booleans(self, sign: str, ours: str, left: Phrase, right: Phrase) -> Phrase:
        if left.kind == right.kind:
            return Phrase(f"{left.atom} {ours} {right.atom}", "boolean", is_atom=False)
        if len(sign) == 2:
            raise Untranslatable("`==` with a boolean converts the other side")
        # 1 equals true in our templates, but its text is another
        return Phrase(
            f"({self._value(left)} | tojson) {ours} ({self._value(right)} | tojson)", "boolean", is_atom=False
        )

    def _loosely_equal(self, ours: str, left: Phrase, right: Phrase) -> Phrase:
        constant, other = (right, left) if right.kind == "text" else (left, right)
        if constant.kind == "text" and constant.text == "''":
            listed = "['', 0, false, []]"
            return Phrase(
                f"{self._value(other)} {'in' if ours == '==' else 'not in'} {listed}", "boolean", is_atom=False
            )
        if constant.kind == "text" and CONSTANT.fullmatch(constant.text) and not _looks_numeric(constant.text):
            return Phrase(f"{self._text(left)} {ours} {self._text(right)}", "boolean", is_atom=False)
        if "number" in (left.kind, right.kind):
            if left.throws or right.throws:
                raise Untranslatable("it goes on with what a part of it gives where that fails")
            number, other = (right, left) if right.kind == "number" else (left, right)
            if not re.fullmatch(r"[0-9.]+", number.text):
                raise Untranslatable("`==` converts values of kinds that are not known here")
            text = f"({other.as_number()} == {number.text})"
            if not number.text.strip("0."):  # null equals no number
                text = f"({self._value(other)} != none and {text})"
            text = f"({text} | otherwise(false))"
            return Phrase(text if ours == "==" else f"not {text}", "boolean", is_atom=False)
        raise Untranslatable("`==` converts values of kinds that are not known here")

    def _order(self, sign: str, left: Phrase, right: Phrase) -> Phrase:
        if left.kind in ("date", "jsdate") and right.kind in ("date", "jsdate"):
            return Phrase(f"({left.atom} | timestamp) {sign} ({right.atom} | timestamp)", "boolean", is_atom=False)
        if left.throws or right.throws:
            raise Untranslatable("it goes on with what a part of it gives where that fails")
        if "number" in (left.kind, right.kind):
            text = f"(({left.as_number()} {sign} {right.as_number()}) | otherwise(false))"
            return Phrase(text, "boolean")
        raise Untranslatable("it is not known whether numbers or texts are compared")

    def _plus(self, left: Phrase, right: Phrase) -> Phrase:
        if "text" in (left.kind, right.kind):
            return Phrase(f"{self._text(left)} ~ {self._text(right)}", "text", is_atom=False)
        if left.kind == right.kind == "number":
            is_whole = left.is_whole and right.is_whole
            return Phrase(f"{left.atom} + {right.atom}", "number", is_atom=False, is_whole=is_whole)
        raise Untranslatable("it is not known whether `+` adds numbers or joins texts")

    # -- calls ----------------------------------------------------------------------------

    def _call(self, callee: Tree, arguments: tuple[Tree, ...]) -> Phrase:
        if isinstance(callee, Name):
            return self._function(callee.name, arguments)
        if not isinstance(callee, JsMember) or not isinstance(callee.key, Literal):
            raise Untranslatable("it calls what is computed")
        _refuse_parts_of_address(callee)
        name = str(callee.key.value)
        if isinstance(callee.base, Name) and (special := _STATIC.get(f"{callee.base.name}.{name}")):
            return special(self, arguments)
        listed = self._list_of_items(callee.base, name)
        if listed is not None:
            raise Untranslatable("it has items with their wrapping as a value")
        base = self.phrase(callee.base)
        if base.kind in ("date", "jsdate"):
            return self._date_method(base, name, arguments)
        if name not in _OF_LISTS:
            _refuse_element(base)
        if name in _OF_NULL and base.kind == "any" and _is_chain_optional(callee):
            return self._of_null(callee, base, name)
        if name == "parseJson":
            self._throws = False  # it fails the node where a text is not JSON, which nothing may catch
            is_field = isinstance(callee.base, JsMember) and self._known(callee.base.base) is not None
            return Phrase(f"({base.value if is_field else base.atom} | fromjson)", is_path=True)
        if name == "length" and not arguments:
            return Phrase(
                f"({base.atom} | js_length)", "number", is_whole=True
            )  # for other values than texts it fails the node
        method = _METHODS.get(name)
        if method is None:
            raise Untranslatable(f"`.{name}()` has no counterpart")
        return replace(method(self, base, arguments), throws=base.kind == "any")

    def _of_null(self, callee: JsMember, base: Phrase, name: str) -> Phrase:
        """What is called behind `?.` of a value that may be missing: then it is not called."""
        if not callee.optional or name not in ("isEmpty", "isNotEmpty"):
            raise Untranslatable("it is not called where `?.` finds nothing")
        value = self._value(base)
        called = _METHODS[name](self, base, ())
        return Phrase(f"{called.text} if {value} != none else none", is_atom=False)

    def _list_of_items(self, base: Tree, name: str) -> Tree | None:
        match base:
            case Call(Name("$"), _) | Name("$input"):
                return base
        return None

    def _function(self, name: str, arguments: tuple[Tree, ...]) -> Phrase:
        match name, arguments:
            case "Number", (only,):
                return Phrase(f"({self.phrase(only).atom} | js_number)", "number", is_odd=True)
            case "String", (only,):
                return Phrase(self._text(self.phrase(only)), "text")
            case "Boolean", (only,):
                return Phrase(self._truth(self.phrase(only)), "boolean")
            case "parseInt", (only, *_):
                whole = _leading_number(self.phrase(only), r"^\s*[+-]?[0-9]+", "int(none)")
                return Phrase(whole, "number", is_odd=True, is_whole=True)
            case "parseFloat", (only,):
                pattern = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
                return Phrase(_leading_number(self.phrase(only), pattern, "js_type('number')"), "number", is_odd=True)
            case "encodeURIComponent", (only,):
                return Phrase(f"({self._text(self.phrase(only))} | urlencode)", "text")
            case "$if", (test, chosen, other):
                return self.phrase(ConditionalExpression(test, chosen, other))
            case "$ifEmpty", (value, other):
                second = self.phrase(other)
                first = self._value(self.phrase(value))
                return Phrase(f"{first} if {first} not in ['', none, [], {{}}] else {self._result(second)}",
                            is_atom=False, is_odd=_may_lack(second))  # fmt: skip
            case "Date", ():
                raise Untranslatable("`Date()` is a text in the form of the machine")
        raise Untranslatable(f"`{name}(…)` has no counterpart")

    # -- dates ----------------------------------------------------------------------------

    def _date_part(self, base: Phrase, part: str) -> Phrase:
        code = DATE_PARTS.get(part)
        if code is None or base.kind == "jsdate":
            raise Untranslatable(f"`.{part}` of a date has no counterpart")
        text = f"({base.atom} | date_format({quoted(code)}, {quoted(self._scope.timezone)}))"
        is_name = code in ("%A", "%B", "%a", "%b")
        return Phrase(text, "text") if is_name else Phrase(f"({text} | int)", "number", is_whole=True)

    def _date_method(self, base: Phrase, name: str, arguments: tuple[Tree, ...]) -> Phrase:
        zone = quoted(self._scope.timezone)
        values = [each.value for each in arguments if isinstance(each, Literal)]
        match name, arguments:
            case "toISOString", ():
                return Phrase(base.text, "text", base.is_atom)
            case "toISO" | "toJSON" | "toString", () if base.kind == "date" and self._scope.timezone == "UTC":
                return Phrase(base.text, "text", base.is_atom)
            case "getTime" | "toMillis" | "valueOf", ():
                return Phrase(f"({base.atom} | timestamp)", "number", is_whole=True)
            case "toSeconds", () if base.kind == "date":
                return Phrase(f"({base.atom} | timestamp) / 1000", "number", is_atom=False)
            case "toUnixInteger", ():
                return Phrase(f"({base.atom} | date_format('%s') | int)", "number", is_whole=True)
            case "toISODate", ():
                return Phrase(f"({base.atom} | date_format('%Y-%m-%d', {zone}))", "text")
            case "format" | "toFormat", (Literal(str(form)),):
                return Phrase(f"({base.atom} | date_format({quoted(strftime_of(form))}, {zone}))", "text")
            case "startOf", (Literal(str(unit)),):
                return Phrase(f"({base.atom} | date_start({quoted(unit_of(unit))}, {zone}))", "date")
            case "toUTC" | "toLocal", () if self._scope.timezone == "UTC":
                return base
            case "plus" | "minus", _ if base.kind == "date":
                return self._moved(base, 1 if name == "plus" else -1, arguments)
        raise Untranslatable(f"`.{name}({', '.join(map(str, values))})` of a date has no counterpart")

    def _moved(self, base: Phrase, sign: int, arguments: tuple[Tree, ...]) -> Phrase:
        match arguments:
            case (ObjectLiteral(pairs),):
                steps = [(key.value, amount) for key, amount in pairs if isinstance(key, Literal)]
            case (amount, Literal(str(unit))):
                steps = [(unit, amount)]
            case (Literal(int(amount)),):
                steps = [("milliseconds", Literal(amount))]
            case _:
                raise Untranslatable("a date is moved by what is computed")
        if len(steps) != 1:
            raise Untranslatable("a date is moved by several units at once")
        unit, amount = steps[0]
        by = self.phrase(amount)
        how_much = by.atom if by.kind == "number" and by.text.isdigit() else f"({by.as_number()} | int)"
        moved = how_much if sign > 0 else f"0 - {how_much}"
        return Phrase(
            f"({base.atom} | date_add({moved}, {quoted(unit_of(unit))}, {quoted(self._scope.timezone)}))", "date"
        )


# -- methods of values ------------------------------------------------------------------------


def _texts(arguments: tuple[Tree, ...], count: int) -> list[str]:
    values = [each.value for each in arguments if isinstance(each, Literal) and isinstance(each.value, str)]
    if len(values) != len(arguments) or len(values) != count:
        raise Untranslatable("it takes what is computed")
    return values


def _through(template_filter: str, kind: str) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        if arguments:
            raise Untranslatable("it has arguments that have no counterpart")
        return Phrase(f"({base.atom} | {template_filter})", kind)

    return method


def _replace(everywhere: bool) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:  # noqa: FBT001 - of a table
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        """Replace a text by a text. Raises Untranslatable for patterns and texts that are computed."""
        if len(arguments) != 2 or not isinstance(arguments[1], Literal) or not isinstance(arguments[1].value, str):
            raise Untranslatable("`.replace()` with what is computed")
        old, new, times = arguments[0], arguments[1].value, everywhere
        if isinstance(old, JsPattern):
            times = "g" in old.flags
            old = Literal(_plain_pattern(old))
        if not isinstance(old, Literal) or not isinstance(old.value, str) or "$" in new or not old.value:
            raise Untranslatable("`.replace()` with what is computed")
        count = "" if times else ", 1"
        return Phrase(f"({base.atom} | replace({quoted(old.value)}, {quoted(new)}{count}))", "text")

    return method


def _plain_pattern(pattern: JsPattern) -> str:
    """The text that a pattern without special characters finds. Raises Untranslatable."""
    source = pattern.source
    text = re.sub(r"\\([nrt/\\.\-\"'()\[\]{}*+?|^$&<>#@!%:;,=_ ])",
                  lambda found: {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1]), source)  # fmt: skip
    bare = re.sub(r"\\.", "", source)
    if re.search(r"[.*+?^${}()|\[\]\\]", bare) or set(pattern.flags) - {"g", "u"} or re.search(r"\\[a-zA-Z0-9]",
            re.sub(r"\\[nrt\\]", "", source)):  # fmt: skip
        raise Untranslatable("a pattern is replaced")
    return text


def _split(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    match arguments:
        case (Literal(str(separator)),) if separator:
            return Phrase(f"({base.atom} | split({quoted(separator)}))", "list")
        case (Literal(str(separator)), Literal(int(count))) if separator and count >= 0:
            return Phrase(f"({base.atom} | split({quoted(separator)}) | slice(0, {count}))", "list")
        case (JsPattern() as pattern,):
            return Phrase(f"({base.atom} | split({quoted(_plain_pattern(pattern))}))", "list")
    raise Untranslatable("`.split()` at what is computed")


def _join(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    separator = _texts(arguments, 1)[0] if arguments else ","
    return Phrase(f"({base.atom} | js_join({quoted(separator)}))", "text")


def _with_one(template_filter: str) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        if len(arguments) != 1 or isinstance(arguments[0], (Arrow, JsPattern, Spread)):
            raise Untranslatable("it takes one value")
        return Phrase(f"({base.atom} | {template_filter}({self._value(self.phrase(arguments[0]))}))", "boolean")

    return method


def _slice(kind: str) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        """The part between two places that are written out. Raises Untranslatable for others."""
        numbers = [_whole(each) for each in arguments]
        if not 1 <= len(numbers) <= 2 or (kind != "slice" and min(numbers) < 0):
            raise Untranslatable(f"`.{kind}()` from where is computed")
        if kind == "substr" and len(numbers) == 2:
            numbers[1] += numbers[0]
        if kind == "substring":
            numbers.sort()
        written = ", ".join(map(str, numbers))
        if kind == "slice" or base.kind == "text":
            return Phrase(f"({base.atom} | slice({written}))", base.kind if base.kind in ("text", "list") else "any")
        return Phrase(f"({base.atom} | must_be('string') | slice({written}))", "text")

    return method


def _whole(tree: Tree) -> int:
    match tree:
        case Literal(int(value)) if not isinstance(value, bool):
            return value
        case Unary("-", Literal(int(value))):
            return -value
    raise Untranslatable("a number is computed")


def _map(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    match arguments:
        case (Arrow((name, *_), body),) if (path := _path_from(body, name)) is not None:
            return Phrase(f"({base.atom} | map({quoted(path)}, none))", "list")
    raise Untranslatable("`.map()` computes something of each item")


def _filter(which: str) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        """The items with an equal or unequal value at a path. Raises Untranslatable for other tests."""
        match arguments:
            case (Arrow((name,), Binary("===" | "!==" as sign, left, right)),) if (
                path := _path_from(left, name)
            ) is not None and not _mentions(right, name):
                other = self.phrase(right)
                if other.kind == "boolean" or (other.kind == "number" and _may_equal_a_boolean(Phrase(""), other)):
                    raise Untranslatable("1 equals true in our templates")
                ours = "==" if sign == "===" else "!="
                found = f"({base.atom} | where({quoted(path)}, {self._value(other)}, {quoted(ours)}))"
                if which == "find":
                    return Phrase(f"({found} | first)", is_path=True)
                return Phrase(found, "list") if which == "filter" else Phrase(f"(({found} | length) > 0)", "boolean")
        raise Untranslatable(f"`.{which}()` computes something of each item")

    return method


def _path_from(tree: Tree, name: str) -> str | None:
    """`x.a.b` of a parameter x as `a.b`."""
    keys: list[str] = []
    while isinstance(tree, JsMember) and isinstance(tree.key, Literal) and isinstance(tree.key.value, str):
        if not re.fullmatch(r"[A-Za-z_]\w*", tree.key.value) or tree.key.value == "length":
            return None
        keys.insert(0, tree.key.value)
        tree = tree.base
    return ".".join(keys) if keys and tree == Name(name) else None


def _mentions(tree: Any, name: str) -> bool:
    return tree == Name(name) or any(_mentions(each, name) for each in _parts(tree))


def _refuse_parts_of_address(tree: JsMember) -> None:
    """The address of a run that waits is another one here than in n8n: only the whole of it has the same meaning."""
    match tree.base:
        case JsMember(Name("$execution"), Literal("resumeUrl")):
            raise Untranslatable("it takes the address of the run apart")


def _is_optional(tree: Any) -> bool:
    """It has `?.` in it."""
    is_so = isinstance(tree, JsMember) and tree.optional
    return is_so or any(map(_is_optional, _parts(tree)))


def _is_chain_optional(tree: Tree) -> bool:
    """It is undefined where one of its `?.` finds nothing."""
    while isinstance(tree, (JsMember, Call)):
        if isinstance(tree, JsMember) and tree.optional:
            return True
        tree = tree.base if isinstance(tree, JsMember) else tree.callee
    return False


def _parts(tree: Any) -> Sequence[Any]:
    return tree if isinstance(tree, tuple) else [getattr(tree, slot) for slot in getattr(tree, "__slots__", ())]


def _to_string(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    if arguments:
        raise Untranslatable("`.toString()` in another base")
    if base.kind == "list":
        return Phrase(f"({base.atom} | js_join)", "text")
    if base.kind not in ("text", "number", "boolean"):
        raise Untranslatable("`.toString()` of null fails")
    return Phrase(self._text(base), "text")


def _is_empty(*, empty: bool) -> Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]:
    def method(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
        listed = "['', 0, false, none, [], {}]"
        return Phrase(f"({self._value(base)} {'in' if empty else 'not in'} {listed})", "boolean")

    return method


def _has_field(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    return Phrase(f"({base.atom} | keys | contains({quoted(_texts(arguments, 1)[0])}))", "boolean")


def _to_date(self: _Translator, base: Phrase, arguments: tuple[Tree, ...]) -> Phrase:
    return Phrase(f"({base.atom} | date_add(0, 'days'))", "date")


_METHODS: Mapping[str, Callable[[_Translator, Phrase, tuple[Tree, ...]], Phrase]] = {
    "toLowerCase": _through("lower", "text"),
    "toUpperCase": _through("upper", "text"),
    "trim": _through("trim", "text"),
    "replace": _replace(False),
    "replaceAll": _replace(True),
    "split": _split,
    "join": _join,
    "includes": _with_one("js_includes"),
    "startsWith": _with_one("startswith"),
    "endsWith": _with_one("endswith"),
    "slice": _slice("slice"),
    "substring": _slice("substring"),
    "substr": _slice("substr"),
    "toString": _to_string,
    "toJsonString": _through("tojson", "text"),
    "urlEncode": _through("urlencode", "text"),
    "first": _through("first", "any"),
    "last": _through("last", "any"),
    "hasField": _has_field,
    "keys": _through("keys", "list"),
    "values": _through("values", "list"),
    "isEmpty": _is_empty(empty=True),
    "isNotEmpty": _is_empty(empty=False),
    "map": _map,
    "filter": _filter("filter"),
    "find": _filter("find"),
    "some": _filter("some"),
    "toDateTime": _to_date,
    "toDate": _to_date,
}


# Of a character of a text there is none of these.
_OF_LISTS = frozenset({"map", "filter", "find", "some", "join"})

# What gives a value for null, too, or fails the node.
_OF_NULL = frozenset({"isEmpty", "isNotEmpty", "toJsonString", "urlEncode", "parseJson"})


def _json_text(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    if len(arguments) != 1:
        raise Untranslatable("it has arguments that have no counterpart")
    phrase = self.phrase(arguments[0])
    if "{'" in phrase.text and "default(none)" in phrase.text:
        raise Untranslatable("what is missing in an object is not in its text")
    value = phrase.value if phrase.kind == "number" else phrase.atom
    return Phrase(f"({value} | tojson)", "text", is_odd=phrase.is_path)


def _json_value(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    if len(arguments) != 1:
        raise Untranslatable("it has arguments that have no counterpart")
    return Phrase(f"({self.phrase(arguments[0]).as_text()} | fromjson)", throws=True)


def _parts_of(template_filter: str) -> Callable[[_Translator, tuple[Tree, ...]], Phrase]:
    def function(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
        match arguments:
            case (Name("$json" | "$binary") as item,):
                return Phrase(f"({self.phrase(item).atom} | {template_filter})", "list")
        raise Untranslatable("lists and texts have keys, too")

    return function


def _date_of(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    if len(arguments) != 1:
        raise Untranslatable("it has arguments that have no counterpart")
    return Phrase(f"({self.phrase(arguments[0]).atom} | date_add(0, 'days'))", "date")


def _rounded(method: str) -> Callable[[_Translator, tuple[Tree, ...]], Phrase]:
    def function(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
        if len(arguments) != 1:
            raise Untranslatable("it takes one number")
        phrase = self.phrase(arguments[0])
        number = phrase.as_number()
        number = f"({number} + 0.5)" if method == "round" else number  # JavaScript rounds halves up
        way = "floor" if method == "round" else method
        text = f"({number} | round(0, {quoted(way)}) | int)"
        return Phrase(text, "number", is_odd=phrase.kind != "number", is_whole=True)

    return function


def _extreme(name: str) -> Callable[[_Translator, tuple[Tree, ...]], Phrase]:
    def function(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
        if len(arguments) < 2 or any(isinstance(each, Spread) for each in arguments):
            raise Untranslatable("it takes several numbers")
        phrase = [self.phrase(each) for each in arguments]
        is_odd = any(each.kind != "number" for each in phrase)
        listed = ", ".join(each.value if each.kind == "number" else each.as_number() for each in phrase)
        return Phrase(f"([{listed}] | {name})", "number", is_odd=is_odd)

    return function


def _is_array(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    only = self.phrase(arguments[0])
    return Phrase(f"(({self._value(only)} | tojson | slice(0, 1)) == '[')", "boolean")


def _now(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    return Phrase("now", "date")


def _millis(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    return Phrase("(now | timestamp)", "number", is_whole=True)


def _from_seconds(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    return Phrase(f"(({self.phrase(arguments[0]).as_number()} * 1000) | date_add(0, 'days'))", "date")


def _from_format(self: _Translator, arguments: tuple[Tree, ...]) -> Phrase:
    match arguments:
        case (text, Literal(str(form))):
            zone = quoted(self._scope.timezone)
            return Phrase(f"({self.phrase(text).atom} | date_parse({quoted(strftime_of(form))}, {zone}))", "date")
    raise Untranslatable("a date is read in a form that is computed")


_STATIC: Mapping[str, Callable[[_Translator, tuple[Tree, ...]], Phrase]] = {
    "JSON.stringify": _json_text,
    "JSON.parse": _json_value,
    "Object.keys": _parts_of("keys"),
    "Object.values": _parts_of("values"),
    "Math.floor": _rounded("floor"),
    "Math.ceil": _rounded("ceil"),
    "Math.round": _rounded("round"),
    "Math.min": _extreme("min"),
    "Math.max": _extreme("max"),
    "Array.isArray": _is_array,
    "DateTime.now": _now,
    "DateTime.local": _now,
    "DateTime.utc": _now,
    "Date.now": _millis,
    "DateTime.fromISO": _date_of,
    "DateTime.fromMillis": _date_of,
    "DateTime.fromSeconds": _from_seconds,
    "DateTime.fromFormat": _from_format,
}


def _refuse_element(phrase: Phrase) -> None:
    """Raises Untranslatable for what is not found in a text here, where the expression goes on with it."""
    if phrase.is_element:
        raise Untranslatable("it goes on with what may be a character of a text")


def _may_lack(phrase: Phrase) -> bool:
    """It fails where JavaScript finds nothing and goes on."""
    return phrase.is_path and phrase.throws


def _may_equal_a_boolean(value: Phrase, number: Phrase) -> bool:
    """In templates 1 equals true, and 0 equals false."""
    return value.kind == "any" and (number.text in ("0", "1") or not CONSTANT.fullmatch(number.text))


def _never_missing(phrase: Phrase, value: str) -> str:
    return f"({phrase.text} | default(''))" if phrase.is_path else value


def _leading_number(base: Phrase, pattern: str, convert: str) -> str:
    return f"({base.atom} | js_text | regex_find({quoted(pattern)}) | {convert})"


def _looks_numeric(text: str) -> bool:
    try:
        float(text.strip("'"))
    except ValueError:
        return False
    return True


def _ref(ref: Ref) -> Phrase:
    return Phrase(ref.template, is_path=True)


def _grouped(text: str) -> str:
    return text if text.startswith(("(", "[", "ctx.")) and " " not in text else f"({text})"


def _plain(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters without expressions. Raises Untranslatable for others."""
    if _has_expressions(parameters):
        raise Untranslatable("it reads parameters of another node that are computed")
    return parameters


def _has_expressions(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith("=")
    if isinstance(value, dict):
        return any(map(_has_expressions, value.values()))
    return isinstance(value, list) and any(map(_has_expressions, value))
