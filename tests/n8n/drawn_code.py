"""Workflows whose code and expressions use more than JavaScript and Python have by themselves, as `drawn` has others.

Used by `test_workflows_of_n8n` and by the script that asks a real n8n.
"""

from __future__ import annotations

from tests.n8n.drawn import DOCS, ORDERS, Drawn, node, set_to

_FUNCTIONS = "https://docs.n8n.io/code/builtin/data-transformation-functions"

DRAWN_CODE = (
    Drawn(
        "n8n's own functions of texts, numbers and lists",
        f"{_FUNCTIONS}/strings/",
        [
            set_to(
                "Fields",
                round="={{ ($json.sum / 7).round(2) - 1 }}",
                numeric="={{ [$json.customer.isNumeric(), String($json.sum).isNumeric(), '1 0'.isNumeric()].join() }}",
                sentence="={{ 'what NOW? go ON. well'.toSentenceCase() }}",
                snake="={{ 'Two-Words and, more'.toSnakeCase() }}",
                base64="={{ 'Zürich'.base64Encode() + '|' + 'WsO8cmljaA=='.base64Decode() }}",
                tags="={{ '<b>bold</b>, <a>link</a>'.removeTags() }}",
                quoted="={{ 'say \\\\'.quote() + $json.customer.quote(\"'\") }}",
                sum="={{ [1, 2.5, 4].sum() + [1, 2, 3].last() }}",
                chunks="={{ JSON.stringify([1, 2, 3].chunk(2)) + [0, null, '', 1].compact().length }}",
                even="={{ [(4).isEven(), (3).isOdd(), (2.6).floor()].join() }}",
            )
        ],
        ORDERS[:1],
        [
            {
                "round": "3.29",
                "numeric": "false,true,false",
                "sentence": "What now? Go on. Well",
                "snake": "two_words_and_more",
                "base64": "WsO8cmljaA==|Zürich",
                "tags": "bold, link",
                "quoted": "\"say \\\\\"'Ada'",
                "sum": "10.5",
                "chunks": "[[1,2],[3]]2",
                "even": "true,true,2",
            }
        ],
    ),
    Drawn(
        "dates of Luxon in code",
        "https://docs.n8n.io/code/cookbook/luxon/",
        [
            node(
                "Code",
                "code",
                2,
                jsCode="const {DateTime: Dates} = require('luxon');\n"
                "const day = DateTime.fromISO('2026-01-31T15:07:09.123+01:00');\n"
                "return [{json: {iso: day.toISO(), mail: day.toRFC2822(), next: day.plus({months: 1}).toISODate(),\n"
                "week: day.startOf('week').toFormat(\"kkkk-'W'WW cccc\"), end: day.endOf('quarter').toMillis(),\n"
                "days: day.diff(DateTime.fromISO('2026-01-01'), 'days').days.toFixed(3), same: Dates.now().isValid,\n"
                "read: Dates.fromFormat('3/2/2026 07:05 PM', 'd/M/yyyy hh:mm a'), seconds: day.toSeconds(),\n"
                "text: `${day.setZone('utc').weekdayLong} ${day.toLocaleString(DateTime.DATE_FULL)}`,\n"
                "later: day < $now, known: $today.hour, wrong: DateTime.fromISO('x').toISO()}}];",
            )
        ],
        ORDERS[:1],
        [
            {
                "iso": "2026-01-31T14:07:09.123Z",
                "mail": "Sat, 31 Jan 2026 14:07:09 +0000",
                "next": "2026-02-28",
                "week": "2026-W05 Monday",
                "end": 1775001599999,
                "days": "30.588",
                "same": True,
                "read": "2026-02-03T19:05:00.000Z",
                "seconds": 1769868429.123,
                "text": "Saturday January 31, 2026",
                "later": True,
                "known": 0,
                "wrong": None,
            }
        ],
    ),
    Drawn(
        "hashes and bytes in code",
        f"{DOCS}/n8n-nodes-base.code/",
        [
            node(
                "Code",
                "code",
                2,
                jsCode="const crypto = require('crypto');\n"
                "const hex = (hash, text) => hash.update(text).digest('hex');\n"
                "const bytes = Buffer.concat([Buffer.from('Zü', 'utf8'), Buffer.from('ff00', 'hex')]);\n"
                "return [{json: {md5: hex(crypto.createHash('md5'), 'a'),\n"
                "sha1: hex(crypto.createHash('sha1'), ''),\n"
                "sha256: hex(crypto.createHash('sha256'), 'abc'),\n"
                "sha512: hex(crypto.createHash('sha512'), 'Zürich').slice(0, 32),\n"
                "bytes: bytes.toString('base64'), size: bytes.length,\n"
                "hmac: crypto.createHmac('sha256', 'key').update('a').update('b').digest('base64'),\n"
                "back: Buffer.from(bytes.toString('base64url'), 'base64url').subarray(0, 3).toString(),\n"
                "is: Buffer.isBuffer(bytes), list: [...bytes]}}];",
            )
        ],
        ORDERS[:1],
        [
            {
                "md5": "0cc175b9c0f1b6a831c399e269772661",
                "sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "sha512": "41274f5c699280c1f2bda94bf169c8b5",
                "bytes": "WsO8/wA=",
                "size": 5,
                "hmac": "XBwMlIy+9a19GR5G5ZAfoDlfhfaU+kYz9mWhpjcBe2U=",
                "back": "Zü",
                "is": True,
                "list": [90, 195, 188, 255, 0],
            }
        ],
    ),
    Drawn(
        "Python that reads attributes of items, and another node",
        f"{DOCS}/n8n-nodes-base.code/",
        [
            set_to("Name", who="={{ $json.customer }}"),
            node(
                "Python",
                "code",
                2,
                language="python",
                pythonCode="first = _('Begin').first()['json']\nname = _input.item.json.who\n"
                "return [{'json': {'name': name, 'sum': first['sum'], 'all': len(_('Begin').all())}}]",
            ),
        ],
        ORDERS,
        [{"name": "Ada", "sum": 30, "all": 3}],
    ),
    Drawn(
        "XML to JSON, and JSON to XML",
        f"{DOCS}/n8n-nodes-base.xml/",
        [
            set_to(
                "Page",
                data="<Shop open='yes'><item id='1'>A &amp; B</item><item id='2'/><note> <![CDATA[<x>]]></note></Shop>",
            ),
            node("Read", "xml", 1, options={"normalizeTags": True}),
            node("Write", "xml", 1, mode="jsonToxml", dataPropertyName="xml", options={"headless": True}),
        ],
        ORDERS[:1],
        [
            {
                "xml": "<shop>\n  <open>yes</open>\n  <item>\n    A &amp; B\n    <id>1</id>\n  </item>\n  <item>\n"
                "    <id>2</id>\n  </item>\n  <note> &lt;x&gt;</note>\n</shop>"
            }
        ],
    ),
    Drawn(
        "XML whose attributes have a key of their own",
        f"{DOCS}/n8n-nodes-base.xml/",
        [
            set_to("Page", data="<a>\n <b c='1'> two </b>\n</a>"),
            node("Read", "xml", 1, options={"mergeAttrs": False, "explicitArray": True, "trim": True}),
        ],
        ORDERS[:2],
        [{"a": {"b": [{"_": "two", "$": {"c": "1"}}]}}] * 2,
    ),
    Drawn(
        "XML with names that every object has",
        f"{DOCS}/n8n-nodes-base.xml/",
        [
            set_to("Page", data="<a toString='1'><constructor>x</constructor><valueOf>y</valueOf></a>"),
            node("Read", "xml", 1, options={}),
        ],
        ORDERS[:1],
        [{"a": {"toString": [None, "1"], "sanitized_constructor": "x", "valueOf": [None, "y"]}}],
    ),
    Drawn(
        "a pattern that each item brings",
        f"{DOCS}/n8n-nodes-base.filter/",
        [
            node(
                "Filter",
                "filter",
                1,
                conditions={
                    "string": [
                        {
                            "value1": "={{ $json.customer }}",
                            "operation": "regex",
                            "value2": "={{ $json.tags[1] ? '/^a/i' : '^x' }}",
                        }
                    ]
                },
            )
        ],
        ORDERS,
        ORDERS[:1],
    ),
    Drawn(
        "static data that code nodes of a run share, and fail with",
        "https://docs.n8n.io/code/cookbook/builtin/get-workflow-static-data/",
        [
            node(
                "Count",
                "code",
                2,
                jsCode="const kept = $getWorkflowStaticData('global');\n"
                "kept.ids = kept.ids ?? [];\nfor (const item of $input.all()) kept.ids.push(item.json.id);\n"
                "$getWorkflowStaticData('node').own = 1;\nreturn [{json: {count: kept.ids.length}}, {json: {n: 2}}];",
            ),
            node(
                "Each",
                "code",
                2,
                mode="runOnceForEachItem",
                jsCode="const kept = $getWorkflowStaticData('global');\n"
                "kept.ids.push(`item ${$itemIndex}`);\nreturn {seen: kept.ids.length, n: $json.n ?? null};",
            ),
            {
                **node(
                    "Fails",
                    "code",
                    2,
                    jsCode="const kept = $getWorkflowStaticData(\"global\");\nkept.ids.push('failed');\n"
                    "delete kept.ids[0];\nthrow new Error('on purpose');",
                ),
                "onError": "continueRegularOutput",
            },
            node(
                "Read",
                "function",
                1,
                functionCode="const kept = getWorkflowStaticData('global');\n"
                "const own = this.getWorkflowStaticData('node');\n"
                "const error = items[0].json.error.split(' [')[0];\n"
                "return [{json: {ids: kept.ids.slice(1), own: own.own ?? null, error}}];",
            ),
        ],
        ORDERS[:2],
        [{"ids": [2, "item 0", "item 1", "failed"], "own": None, "error": "on purpose"}],
    ),
    Drawn(
        "variables that nobody has set, in expressions and in code",
        "https://docs.n8n.io/code/variables/",
        [
            set_to(
                "Set",
                region="={{ $vars.REGION ?? 'none' }}",
                zone="={{ $env['NO_SUCH_ZONE'] || 'UTC' }}",
                path="={{ 'https://' + ($env.NO_SUCH_HOST ?? 'a.example') + '/x' }}",
            ),
            node(
                "Code",
                "code",
                2,
                jsCode="return [{json: {...$json, kind: typeof $env.NO_SUCH_ZONE, also: $vars['REGION'] ?? null}}];",
            ),
        ],
        ORDERS[:1],
        [{"region": "none", "zone": "UTC", "path": "https://a.example/x", "kind": "undefined", "also": None}],
    ),
    Drawn(
        "more of n8n's own functions",
        f"{_FUNCTIONS}/arrays/",
        [
            set_to(
                "Lists",
                plain="={{ '# Title\\n**bold** [a](https://a.example) `x`\\n- one'.removeMarkdown() }}",
                ids="={{ [{ip: 'a'}, {ip: 'b', n: 1}, {ip: 'a'}, {}].pluck('ip').unique().toJsonString() }}",
                sets="={{ [[1, 2].union([2, {a: 1}, {a: 1}]), [1, 2, 2].difference([1]),"
                " [1, 2].intersection([2, 3])].toJsonString() }}",
                most="={{ [1, 5, 3].max() + [4, 2].min() + [1, 2].average() }}",
            ),
            set_to(
                "Numbers",
                keeps=True,
                views="={{ Intl.NumberFormat('en-US', {notation: 'compact', maximumFractionDigits: 2})"
                ".format('1234567') }}",
                price="={{ new Intl.NumberFormat('en-US', {style: 'currency', currency: 'USD'}).format(-1234.5) }}",
                day="={{ new Date('2026-03-05T07:08:09Z').toLocaleString('en-US', {timeZone: 'UTC'}) }}",
            ),
        ],
        ORDERS[:1],
        [
            {
                "plain": "Title\nbold a x\none",
                "ids": '["a","b"]',
                "sets": '[[1,2,{"a":1}],[2],[2]]',
                "most": "8.5",
                "views": "1.23M",
                "price": "-$1,234.50",
                "day": "3/5/2026, 7:08:09 AM",
            }
        ],
    ),
    Drawn(
        "the names of a workflow, and of answers where there are none",
        "https://docs.n8n.io/code/builtin/n8n-metadata/",
        [
            set_to(
                "Set",
                title="={{ $workflow.name }}",
                status="={{ $response.statusCode }}",
                code="={{ $response?.statusCode ?? 'none' }}",
            ),
            node(
                "If",
                "if",
                1,
                conditions={
                    "number": [{"value1": "={{ $response.statusCode }}", "value2": 299, "operation": "smallerEqual"}]
                },
            ),
        ],
        ORDERS[:1],
        [{"title": "the names of a workflow, and of answers where there are none", "status": None, "code": "none"}],
    ),
    Drawn(
        "dates of Luxon in time zones",
        "https://docs.n8n.io/code/cookbook/luxon/",
        [
            set_to(
                "Set",
                end="={{ DateTime.fromISO('2026-03-05T09:30:00', {zone: 'Asia/Kolkata'}).set({hour: 18, minute: 0})"
                ".format(\"yyyy-MM-dd'T'HH:mm:ssZZ\") }}",
                day="={{ DateTime.fromISO('2026-03-29T12:00:00Z').setZone('Europe/Berlin').minus(11 * 3600, 'seconds')"
                ".startOf('day').toISO() }}",
                clock="={{ DateTime.fromISO('2026-03-05T09:30:00').minus(90, 'minutes').format('HH:mm:ii') }}",
            ),
            node(
                "Code",
                "code",
                2,
                jsCode="const day = DateTime.fromISO('2026-03-28T02:30', {zone: 'Europe/Berlin'});\n"
                "const late = DateTime.fromISO('2026-10-25T02:00+02:00', {zone: 'Europe/Berlin'});\n"
                "return [{json: {...$json, next: day.plus({days: 1}).toISO(), hours: day.plus({hours: 24}).toISO(),\n"
                "last: day.plus({days: 1}).endOf('day').toUTC().toISO(), named: day.zoneName, offset: day.offset,\n"
                "later: late.plus({hours: 2}).toFormat('HH:mm Z'), york: day.setZone('America/New_York').toSQL()}}];",
            ),
        ],
        ORDERS[:1],
        [
            {
                "end": "2026-03-05T18:00:00+05:30",
                "day": "2026-03-29T00:00:00.000+01:00",
                "clock": "08:00:26",
                "next": "2026-03-29T03:30:00.000+02:00",
                "hours": "2026-03-29T03:30:00.000+02:00",
                "last": "2026-03-29T21:59:59.999Z",
                "named": "Europe/Berlin",
                "offset": 60,
                "later": "03:00 +1",
                "york": "2026-03-27 21:30:00.000 -04:00",
            }
        ],
    ),
    Drawn(
        "items that came before, in this run or in earlier ones",
        f"{DOCS}/n8n-nodes-base.removeduplicates/",
        [
            node(
                "First",
                "removeDuplicates",
                2,
                operation="removeItemsSeenInPreviousExecutions",
                dedupeValue="={{ $json.customer }}",
                options={"scope": "workflow"},
            ),
            node(
                "Add",
                "code",
                2,
                jsCode="return [...$input.all(), {json: {id: 9, customer: 7}},"
                " {json: {id: 10, customer: 5}}, {json: {id: 11, customer: 7}}, {json: {id: 12}}];",
            ),
            node(
                "Second",
                "removeDuplicates",
                2,
                operation="removeItemsSeenInPreviousExecutions",
                dedupeValue="={{ $json.customer }}",
                options={"scope": "workflow", "historySize": 20},
            ),
        ],
        ORDERS,
        [{"id": 10, "customer": 5}, {"id": 9, "customer": 7}, {"id": 11, "customer": 7}, {"id": 12}],
    ),
)
