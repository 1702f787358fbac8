"""Further small workflows of n8n that change data, and what n8n gives for them (`benchmarks/ask_n8n.py` asks it)."""

from __future__ import annotations

from typing import Any

from tests.n8n.drawn import DOCS, ORDERS, Drawn, node, set_to, test_of

IS_MORE = test_of("={{ $json.sum > 1 }}", "boolean", "equal", right=True)


def loosely(left: str, kind: str, operation: str, right: Any = "") -> dict[str, Any]:
    """Conditions of one test that converts values."""
    made = test_of(left, kind, operation, right)
    return {**made, "options": {**made["options"], "typeValidation": "loose"}}


def in_any_case(left: str, operation: str, right: str) -> dict[str, Any]:
    """Conditions of one test of texts without regard to case."""
    made = test_of(left, "string", operation, right)
    return {**made, "options": {**made["options"], "caseSensitive": False}}


ODD = {"text": "12", "none": None, "zero": 0, "object": {}, "list": [], "price": "3 kr", "rows": [{"e": "3"}]}

# In their second version n8n reads no conditions of the first.
OLD_FORM = {"string": [{"value1": "={{ $json.customer }}", "value2": "Ada", "operation": "equal"}]}

DRAWN_DATA = (
    Drawn("dates in British English", f"{DOCS}/n8n-nodes-base.code/",
          [node("Code", "code", 2, jsCode="return ['2024-03-05', 'none'].map(on =>"
                " ({json: {on: new Date(on).toLocaleDateString('en-GB')}}));")], ORDERS[:1],
          [{"on": "05/03/2024"}, {"on": "Invalid Date"}]),
    Drawn("conditions of the first version in an if of the second", f"{DOCS}/n8n-nodes-base.if/",
          [node("If", "if", 2, conditions=OLD_FORM, options={}), node("Last", "noOp", 1)], ORDERS, ORDERS),
    Drawn("conditions of the first version in a filter of the second", f"{DOCS}/n8n-nodes-base.filter/",
          [node("Filter", "filter", 2, conditions=OLD_FORM, options={}), node("Last", "noOp", 1)], ORDERS, ORDERS),
    Drawn(
        "what is empty, and numbers in texts",
        "https://docs.n8n.io/code/builtin/data-transformation-functions/",
        [set_to("Set", **{name: f"={{{{ {said} }}}}" for name, said in {
            "empty": "[$json.text, $json.none, $json.missing, $json.zero, $json.object, $json.list]"
                     ".map(v => v.isEmpty())",
            "missing": "$json.missing.isNotEmpty() ? 'there' : 'not there'",
            "number": "$json.text.slice(0, 1).toNumber() > 0 ? $json.text.slice(1).toNumber() : ''",
            "price": "$json.price.toNumber() + 1",
            "found": "$json.rows.find(row => row.e === '3')['e'].toNumber()",
            "object": "$('Begin').item.json.object.isEmpty()",
        }.items()})],
        [ODD],
        [{"empty": "[false,true,true,true,true,true]", "missing": "not there", "number": "2", "price": "4",
          "found": "3", "object": "true"}],
    ),
    Drawn(
        "a name of a field that is computed, beside the others",
        f"{DOCS}/n8n-nodes-base.set/",
        [
            set_to("Count", keeps=True, turn=0),
            node("Set", "set", 3.4, options={}, includeOtherFields=True, assignments={"assignments": [
                {"name": "={{ 'n' + $json.turn++ }}", "type": "number", "value": "="},
                {"name": "in.side", "type": "string", "value": "={{ $json.turn }}"},
            ]}),
        ],
        ORDERS[:1],
        [{**ORDERS[0], "turn": 1, "n0": 0, "in": {"side": "1"}}],
    ),
    Drawn(
        "values that cannot be converted stay, and brackets are letters",
        f"{DOCS}/n8n-nodes-base.set/",
        [
            node("Set", "set", 3.4, options={"dotNotation": False, "ignoreConversionErrors": True},
                 assignments={"assignments": [
                     {"name": "a[0].b", "type": "array", "value": "={{ $json.customer }}"},
                     {"name": "c", "type": "array", "value": ""},
                     {"name": "d", "type": "number", "value": "={{ String($json.sum) }}"},
                     {"name": "e", "type": "object", "value": '{"f": 1}'},
                 ]}),
        ],
        ORDERS[:1],
        [{"a[0].b": "Ada", "c": "", "d": 30, "e": {"f": 1}}],
    ),
    Drawn(
        "an operation that n8n does not know is false",
        f"{DOCS}/n8n-nodes-base.if/",
        [
            node("If", "if", 2.2, options={}, conditions=IS_MORE),
            set_to("No", id="={{ $json.id }}"),
        ],
        ORDERS[:1],
        [{"id": "1"}],
        [("Begin", 0, "If", 0), ("If", 1, "No", 0)],
    ),
    Drawn(
        "batches of a computed size",
        f"{DOCS}/n8n-nodes-base.splitinbatches/",
        [
            node("Loop", "splitInBatches", 3, options={},
                 batchSize="={{ Math.min($('Begin').first().json.id + 1, 9) }}"),
            node("Sum", "aggregate", 1, aggregate="aggregateAllItemData", destinationFieldName="rows", options={}),
            node("All", "aggregate", 1, aggregate="aggregateAllItemData", destinationFieldName="batches", options={}),
        ],
        ORDERS,
        [{"batches": [{"rows": ORDERS[:2]}, {"rows": ORDERS[2:]}]}],
        [("Begin", 0, "Loop", 0), ("Loop", 1, "Sum", 0), ("Sum", 0, "Loop", 0), ("Loop", 0, "All", 0)],
    ),
    Drawn(
        "a batch size that is no number ends the loop at once",
        f"{DOCS}/n8n-nodes-base.splitinbatches/",
        [
            node("Loop", "splitInBatches", 3, options={}, batchSize="={{ $('Begin').first().json.customer }}"),
            set_to("Body", never="reached"),
            set_to("Done", never="reached"),
        ],
        ORDERS,
        [],
        [("Begin", 0, "Loop", 0), ("Loop", 1, "Body", 0), ("Body", 0, "Loop", 0), ("Loop", 0, "Done", 0)],
    ),
    Drawn(
        "a random order has the same items",
        f"{DOCS}/n8n-nodes-base.sort/",
        [
            node("Shuffle", "sort", 1, type="random", options={}),
            node("Sorted", "sort", 1, options={},
                 sortFieldsUi={"sortField": [{"fieldName": "id", "order": "descending"}]}),
        ],
        ORDERS,
        ORDERS[::-1],
    ),
    Drawn(
        "a long text without expressions in it",
        f"{DOCS}/n8n-nodes-base.set/",
        [set_to("Text", a="=" + "Say {this} 'so' \\n. " * 200)],
        ORDERS[:1],
        [{"a": "Say {this} 'so' \\n. " * 200}],
    ),
    Drawn(
        "a list of a field whose name is an empty expression",
        f"{DOCS}/n8n-nodes-base.splitout/",
        [node("Split", "splitOut", 1, fieldToSplitOut="=", options={})],
        ORDERS[:1],
        [],
    ),
    Drawn(
        "conditions convert values where they are told to",
        f"{DOCS}/n8n-nodes-base.if/",
        [
            node("Code", "code", 2, jsCode="return ['abc', [1], {}, '', 0, null].map(v => ({json: {v}}));"),
            node("True", "filter", 2.2, conditions=loosely("={{ $json.v }}", "boolean", "true"), options={}),
            node("Empty", "filter", 2.2, conditions=loosely("={{ $json.v }}", "string", "notEmpty"), options={}),
            node("Brace", "filter", 2.2, options={},
                 conditions=loosely("={{ $json.v }}", "string", "notContains", "{")),
        ],
        ORDERS[:1],
        [{"v": "abc"}, {"v": [1]}],
    ),
    Drawn(
        "conditions tell what is missing from null, and stop at the first that decides",
        f"{DOCS}/n8n-nodes-base.switch/",
        [
            node("Code", "code", 2, jsCode="return [{json: {v: null}}, {json: {}}];"),
            node("Null", "filter", 2.2, conditions=test_of("={{ $json.v }}", "number", "gte", 0), options={}),
            node("Way", "switch", 3.2, options={}, rules={"values": [
                {"conditions": test_of("={{ $json.v }}", "boolean", "notEquals", right=False)},
                {"conditions": test_of("={{ $json }}", "boolean", "true")},
            ]}),
        ],
        ORDERS[:1],
        [{"v": None}],
    ),
    Drawn(
        "conditions of the first versions compare without converting",
        f"{DOCS}/n8n-nodes-base.if/",
        [
            node("If", "if", 1, conditions={"string": [{"value1": "={{ $json.id }}", "value2": "1"}]}),
            node("Fields", "noOp", 1),
        ],
        ORDERS,
        ORDERS,
        [("Begin", 0, "If", 0), ("If", 1, "Fields", 0)],
    ),
    Drawn(
        "a condition that fails does not pass where the node goes on",
        "https://docs.n8n.io/workflows/components/nodes/#node-settings",
        [
            {**node("Filter", "filter", 2.2, conditions=test_of("={{ $json.tags[0] }}", "string", "equals", "paid"),
                    options={}), "onError": "continueRegularOutput"},
            {**node("Number", "filter", 2.2, conditions=test_of("={{ $json.customer }}", "number", "gt", 1),
                    options={}), "onError": "continueRegularOutput"},
        ],
        ORDERS,
        [],
    ),
    Drawn(
        "conditions on what nothing leads to, in any case of letters, and on what a method gives",
        f"{DOCS}/n8n-nodes-base.filter/",
        [
            node("Code", "code", 2, jsCode="return [{a: null}, {a: {b: 'Paid in FULL'}}, {}, {a: 'x'}, {a: {b: 'PAID'}}"
                 "].map(json => ({json}));"),
            node("Any case", "filter", 2.2, options={}, conditions=in_any_case("={{ $json.a.b }}", "contains", "Full")),
            node("Method", "filter", 2.2, options={},
                 conditions=test_of("={{ $json.a.b.toLowerCase() }}", "string", "startsWith", "paid in")),
            node("None", "filter", 2.2, options={},
                 conditions=test_of("={{ $json.c.d.trim() }}", "string", "notEquals", "={{ $json.a.b }}")),
        ],
        ORDERS[:1],
        [{"a": {"b": "Paid in FULL"}}],
    ),
    Drawn(
        "the first rule that holds is taken before one that would fail",
        f"{DOCS}/n8n-nodes-base.switch/",
        [
            node("Way", "switch", 3.2, options={}, rules={"values": [
                {"conditions": test_of("={{ $json.tags }}", "array", "lengthLt", 1)},
                {"conditions": test_of("={{ $json.tags }}", "array", "contains", "paid")},
                {"conditions": test_of("={{ $json.tags }}", "boolean", "notEquals", right=True)},
            ]}),
            set_to("Paid", id="={{ $json.id }}"),
        ],
        ORDERS,
        [{"id": "1"}, {"id": "3"}],
        [("Begin", 0, "Way", 0), ("Way", 1, "Paid", 0)],
    ),
    Drawn(
        "orders of the first versions, of texts and of what is missing, and an operation behind an equals sign",
        f"{DOCS}/n8n-nodes-base.if/",
        [
            node("Code", "code", 2, jsCode="return ['12', 'x', null, [7], true, -1, ''].map(v => ({json: {v}}));"),
            node("Larger", "if", 1, conditions={"number": [
                {"value1": "={{ $json.v }}", "operation": "largerEqual"},
                {"value1": "={{ $json.w }}", "operation": "smaller", "value2": 1}]}),
            node("Not 0", "if", 1, conditions={"string": [
                {"value1": "={{ $json.v }}", "operation": "=notEqual", "value2": ""}]}),
        ],
        ORDERS[:1],
        [{"v": "12"}, {"v": None}, {"v": [7]}, {"v": True}],
    ),
    Drawn(
        "an expression gives nothing where a part of it fails, and goes on where JavaScript does",
        "https://docs.n8n.io/code/expressions/",
        [
            node("Code", "code", 2, jsCode="return [{a: 'x,y'}, {}, {a: []}].map(json => ({json}));"),
            set_to("Values", some="={{ $json.a.length > 0 ? 'some' : 'none' }}",
                   second="={{ $json.a?.split(',')[1] || 'none' }}", sum="={{ 'sum: ' + Number($json.b) }}",
                   chosen="={{ $if($json.a !== undefined, $ifEmpty($json.a, 'empty'), 'missing') }}"),
        ],
        ORDERS[:1],
        [
            {"some": "some", "second": "y", "sum": "sum: NaN", "chosen": "x,y"},
            {"some": None, "second": "none", "sum": "sum: NaN", "chosen": "missing"},
            {"some": "none", "second": None, "sum": "sum: NaN", "chosen": "empty"},
        ],
    ),
)  # fmt: skip
