"""Code of n8n as code of ours: the names that n8n gives its code, bound to the same values by a small prelude.

Pure. Called by the mapping of code nodes, and for expressions that templates cannot say. The prelude is ordinary code
in front of the user's, in the same sealed process: it gives no way out that code does not have anyway.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

import json
import re
from collections.abc import Mapping

from anabranch.n8n.js_tree import NotRead, tokens_of
from anabranch.n8n.refs import ItemFeed, Ref

_NAME = re.compile(r"(?<![\w$.])\$[A-Za-z_]\w*")
_KNOWN = frozenset(
    {"$json", "$input", "$", "$node", "$items", "$item", "$itemIndex", "$position", "$runIndex", "$data", "$execution"}
)
_ABSENT = {
    r"\brequire\s*\(": "modules",
    r"\bimport\s*\(": "modules",
    r"\bDateTime\b|\bluxon\b|\$now\b|\$today\b": "Luxon's dates",
    r"\bIntl\b": "texts in the language of a country",
    r"\$jmespath|\$jmesPath": "JMESPath",
    r"\.binary\b|\$binary\b|getBinaryDataBuffer": "binary data",
    r"\$env\b|\$vars\b|\$secrets\b|process\.": "the environment",
    r"getWorkflowStaticData": "data that are kept from run to run",
    r"\bhelpers\.|\$http\b|\bthis\.[a-z]+Request": "n8n's helpers",
    r"\bBuffer\b(?!\.from\s*\()|\bTextEncoder\b|\bTextDecoder\b|Uint8Array": "Node's buffers",
    r"\bURL\s*\(|\bURLSearchParams\b": "URL objects",
    r"\bsetTimeout\b|\bsetInterval\b": "timers",
    r"\$fromAI": "values that a language model gives",
    r"\bcrypto\.": "Node's crypto",
    r"\bfetch\s*\(": "requests",
    r"\$prevNode|\$workflow\b|\$parameter|\$self|\$nodeVersion|\$nodeId|\$response|\$pageCount|\$evaluateExpression"
    r"|\$getWorkflowStaticData|\$if\b|\$ifEmpty|\$min\b|\$max\b|\$mode|\$resumeWebhookUrl": "n8n's other names",
}
_MISSING = [(re.compile(pattern), what) for pattern, what in _ABSENT.items()]
_STRINGS = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
_ITEMS = re.compile(r"(?:\$\([^()]*\)|\$input|\$items\([^()]*\))\s*\.\s*(?:first|last|all)\(")
_EXTENSIONS = re.compile(
    r"(?<!Math)\.(?:isEmpty|isNotEmpty|toDateTime|format|plus|minus|toNumber|toBoolean|first|last|removeMarkdown|removeTags"
    r"|replaceSpecialChars|urlEncode|urlDecode|base64Encode|base64Decode|hash|extractEmail|extractDomain|extractUrl"
    r"|toTitleCase|toSentenceCase|toSnakeCase|quote|isEmail|isUrl|isDomain|isNumeric|unique|sum|average|chunk|pluck"
    r"|randomItem|merge|smartJoin|compact|difference|intersection|union|renameKeys|removeField|keepFieldsContaining"
    r"|removeFieldsContaining|toJsonString|parseJson|round|ceil|floor|isEven|isOdd|beginningOf|endOfMonth|extract"
    r"|inBetween|isDst|isInLast|isWeekend|toInt|toFloat|stripMarkdown|toDate|hasField|urlEncode|append|diffTo"
    r"|diffToNow|isBetween|setZone|length)\s*\("
)
_READS_NODE = re.compile(
    r"""\$\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`$\\]*)`)"""
    r"""|\$node\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]"""
    r"""|\$items\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")|\$node\.(\w+)"""
)

_BUFFER = """const Buffer = (() => {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const read = {
    utf8: text => [...unescape(encodeURIComponent(text))].map(char => char.charCodeAt(0)),
    latin1: text => [...text].map(char => char.charCodeAt(0) & 255),
    hex: text => (text.match(/[0-9a-f]{2}/gi) ?? []).map(pair => parseInt(pair, 16)),
    base64: text => {
      const bytes = []; let bits = 0, held = 0;
      for (const char of text.replace(/-/g, '+').replace(/_/g, '/').replace(/[^A-Za-z0-9+/]/g, '')) {
        held = (held << 6 | letters.indexOf(char)) & 0xffffff; bits += 6;
        if (bits >= 8) { bits -= 8; bytes.push(held >> bits & 255); }
      }
      return bytes;
    },
  };
  const binary = bytes => bytes.map(byte => String.fromCharCode(byte)).join('');
  const write = {
    utf8: bytes => { try { return decodeURIComponent(escape(binary(bytes))); } catch { return binary(bytes); } },
    latin1: binary,
    hex: bytes => bytes.map(byte => byte.toString(16).padStart(2, '0')).join(''),
    base64: bytes => {
      let text = '';
      for (let at = 0; at < bytes.length; at += 3) {
        const part = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
        for (let place = 0; place < 4; place++) text += at + place > bytes.length ? '=' : letters[part >> (18 - 6 * place) & 63];
      }
      return text;
    },
  };
  const known = name => { const form = {'utf-8': 'utf8', binary: 'latin1', ascii: 'latin1', base64url: 'base64'}[name] ?? name ?? 'utf8';
    if (!Object.hasOwn(read, form)) throw new Error(`there is no encoding ${name} here`); return form; };
  return {from: (value, form) => {
    const bytes = typeof value === 'string' ? read[known(form)](value) : [...(value.bytes ?? value)];
    return {bytes, length: bytes.length, toString: form => form === 'base64url'
      ? write.base64(bytes).replace(/=+$/, '').replaceAll('+', '-').replaceAll('/', '_') : write[known(form)](bytes)};
  }};
})();
"""
# What `toLocaleString` and its like write in American English, with the options that are read here.
_LOCALE = """const $locale = (() => {
  const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const two = (value, form) => form === '2-digit' ? String(value).padStart(2, '0').slice(-2) : String(value);
  const dateOf = (date, {weekday, year, month, day}) => {
    const named = month === 'long' || month === 'short', cut = (name, form) => form === 'short' ? name.slice(0, 3) : name;
    const parts = {weekday: weekday && cut(days[date.getDay()], weekday), year: year && two(date.getFullYear(), year),
      month: month && (named ? cut(months[date.getMonth()], month) : two(date.getMonth() + 1, month)), day: day && two(date.getDate(), day)};
    const dayOf = named ? [parts.month, parts.day].filter(Boolean).join(' ') : [parts.month, parts.day, parts.year].filter(Boolean).join('/');
    const withYear = named ? [dayOf, parts.year].filter(Boolean).join(day ? ', ' : ' ') : dayOf;
    return [parts.weekday, withYear].filter(Boolean).join(', ');
  };
  const timeOf = (date, {hour, minute, second, hour12}) => {
    const half = hour12 !== false, of = half ? date.getHours() % 12 || 12 : date.getHours();
    const parts = [hour && (half ? two(of, hour) : String(of).padStart(2, '0')), minute && String(date.getMinutes()).padStart(2, '0'),
      second && String(date.getSeconds()).padStart(2, '0')].filter(Boolean);
    return parts.join(':') + (hour && half ? (date.getHours() < 12 ? ' AM' : ' PM') : '');
  };
  const whole = {year: 'numeric', month: 'numeric', day: 'numeric'}, clock = {hour: 'numeric', minute: 'numeric', second: 'numeric'};
  const asked = (options, names) => names.some(name => options[name] !== undefined);
  const dated = (date, options, wants) => {
    if (Number.isNaN(date.getTime())) return 'Invalid Date';
    const anything = asked(options, ['weekday', 'year', 'month', 'day', 'hour', 'minute', 'second']);
    const more = {...options};
    if (wants === 'date' ? !asked(options, ['weekday', 'year', 'month', 'day']) : wants === 'both' && !anything) Object.assign(more, whole);
    if (wants === 'time' ? !asked(options, ['hour', 'minute', 'second']) : wants === 'both' && !anything) Object.assign(more, clock);
    const date_ = dateOf(date, more), time = asked(more, ['hour', 'minute', 'second']) ? timeOf(date, more) : '';
    const joint = (more.month === 'long' && more.hour) ? ' at ' : ', ';
    return date_ && time ? date_ + joint + time : date_ || time;
  };
  const counted = (value, options) => {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value < 0 ? '-∞' : '∞';
    const money = options.style === 'currency', least = options.minimumFractionDigits ?? (money ? Math.min(2, options.maximumFractionDigits ?? 2) : 0);
    const most = Math.max(least, options.maximumFractionDigits ?? (money ? 2 : 3));
    const size = Math.abs(value), scale = 10 ** most, up = Number((size + 'e').split('e')[0] + 'e' + (Number((size + 'e0').split('e')[1]) + most));
    let [integer, rest = ''] = size < 1e21 ? (Math.round(up) / scale).toFixed(most).split('.') : [String(BigInt(size)), '0'.repeat(least)];
    while (rest.length > least && rest.endsWith('0')) rest = rest.slice(0, -1);
    integer = integer.replace(/\\B(?=(\\d{3})+$)/g, ',');
    const text = (money ? '$' : '') + integer + (rest ? '.' + rest : '');
    return (value < 0 || Object.is(value, -0) ? '-' : '') + text;
  };
  return {
    text: (value, _, options = {}) => typeof value === 'number' ? counted(value, options)
      : value instanceof Date ? dated(value, options, 'both') : value.toLocaleString(),
    date: (value, _, options = {}) => dated(value, options, 'date'), time: (value, _, options = {}) => dated(value, options, 'time'),
  };
})();
Number.prototype.toLocaleString = function (...given) { return $locale.text(Number(this), ...given); };
Date.prototype.toLocaleString = function (...given) { return $locale.text(this, ...given); };
Date.prototype.toLocaleDateString = function (...given) { return $locale.date(this, ...given); };
Date.prototype.toLocaleTimeString = function (...given) { return $locale.time(this, ...given); };
"""
_IN_A_LANGUAGE = re.compile(r"\.toLocale(?:String|DateString|TimeString)\s*\(([^()]*)\)")
_IN_ANY_LANGUAGE = re.compile(r"\.toLocale(?:String|DateString|TimeString)\b")
_AMERICAN = re.compile(
    r"\s*|\s*(?:'en-US'|\"en-US\"|undefined|\[\])\s*(?:,\s*(?:\{(?P<options>[^{}]*)\}|undefined))?\s*,?\s*"
)
_OPTION = re.compile(
    r"\s*(?:(?:weekday|month)\s*:\s*['\"](?:long|short)['\"]|(?:year|month|day|hour|minute|second)\s*:\s*['\"](?:numeric|2-digit)['\"]"
    r"|hour12\s*:\s*(?:true|false)|(?:minimum|maximum)FractionDigits\s*:\s*\d|style\s*:\s*['\"]currency['\"]|currency\s*:\s*['\"]USD['\"])\s*"
)
_CLONE = "const $copy = v => v === undefined ? undefined : JSON.parse(JSON.stringify(v));"
_WRAP = "const $wrap = list => (list ?? []).map((json, item) => ({json: $copy(json), pairedItem: {item}}));"
_OR_ONE = "const $orOne = list => list?.length ? list : [{}];"


def names_of_nodes(code: str) -> list[str]:
    """The nodes of n8n that code reads by name."""
    found: dict[str, None] = {}
    for each in _READS_NODE.finditer(code):
        name = next(group for group in each.groups() if group is not None)
        found[re.sub(r"\\(.)", r"\1", name)] = None
    return list(found)


def reads_unnamed_nodes(code: str) -> bool:
    """Whether it reads a node whose name it computes."""
    bare = _STRINGS.sub("''", _READS_NODE.sub("", code))
    return bool(re.search(r"\$\(|\$node\b|\$items\(\s*[^)\s]", bare))


def absent_in(code: str) -> str | None:
    """What code uses that is not there in our sandbox; None if nothing is known to be missing."""
    bare = _STRINGS.sub("''", code)
    for pattern, what in _MISSING:
        if pattern.search(bare):
            return what
    if not _is_american(code):
        return "texts in the language of a country"
    if unknown := sorted(set(_NAME.findall(bare)) - _KNOWN - _declared(bare)):
        return f"the name {unknown[0]}"
    if reads_unnamed_nodes(code):
        return "a node whose name is computed"
    return None


def _is_american(code: str) -> bool:
    """Whether all that it writes in a language is in American English, with options that are read here."""
    calls = list(_IN_A_LANGUAGE.finditer(code))
    if len(calls) != len(_IN_ANY_LANGUAGE.findall(code)):
        return False
    for call in calls:
        form = _AMERICAN.fullmatch(call[1])
        if form is None:
            return False
        options = [each for each in (form["options"] or "").split(",") if each.strip()]
        named = " ".join(options)
        if not all(_OPTION.fullmatch(each) for each in options) or ("currency" in named and "USD" not in named):
            return False
    return True


def _declared(code: str) -> set[str]:
    return set(re.findall(r"\b(?:const|let|var|function)\s+(\$\w+)", code)) | set(
        re.findall(r"(\$\w+)\s*(?:=>|[,)]\s*(?:\w|\$|\))*=>)", code)
    )


def check_expression(js: str) -> str | None:
    """Why an expression cannot be computed by a code node; None: it can."""
    if not _is_balanced(js):
        return "its brackets do not match"
    if (absent := absent_in(js)) is not None:
        return f"it uses {absent}"
    if found := _EXTENSIONS.search(_ITEMS.sub("$items", _STRINGS.sub("''", js))):
        return f"it uses n8n's own {found[0].strip('.(')}()"
    return None


def _is_balanced(js: str) -> bool:
    """Whether every bracket closes the one that it should: only then it stays within the brackets around it."""
    open_brackets: list[str] = []
    try:
        for token in tokens_of(js):
            if token.kind == "sign" and token.value in _CLOSES.values():
                open_brackets.append(token.value)
            elif (
                token.kind == "sign"
                and token.value in _CLOSES
                and (not open_brackets or open_brackets.pop() != _CLOSES[token.value])
            ):
                return False
    except NotRead:
        return False
    return not open_brackets


_CLOSES = {")": "(", "]": "[", "}": "{"}


def value_code(
    sources: Mapping[str, str],
    item: Ref,
    names: Mapping[str, tuple[Ref, Ref | None]],
    index: Ref | None,
    items: Ref,
) -> str:
    """A code node's code for the values of expressions: an object of them, null where one fails."""
    head = _prelude(" ".join(sources.values()), item, items, names, index)
    body = ",\n".join(f"  {json.dumps(name)}: $value(() => (\n{js}\n))" for name, js in sources.items())
    return f"{head} const $value = f => {{ try {{ return f() ?? null }} catch {{ return null }} }};\nreturn {{\n{body}\n}};"


def items_code(code: str, feed: ItemFeed, names: Mapping[str, tuple[Ref, Ref | None]], *, catches: bool = False) -> str:
    """Code that runs once for all items and returns items. `catches`: one with the error, if it fails."""
    head = _prelude(code, feed.first, feed.items, names, None)
    tail = (
        "const $one = each => { if (each === null || typeof each !== 'object' || Array.isArray(each))"
        " throw new Error('an item is no object'); return each.json && typeof each.json === 'object' ? each.json : each; };"
    )
    before, after = (
        ("try {", "} catch (fault) { return [{error: fault?.message ?? String(fault)}]; }") if catches else ("", "")
    )
    return (
        f"{head} {tail}\n{before}const $result = await (async () => {{\n{code}\n}})();\n"
        f"return ($result === undefined || $result === null ? [] : Array.isArray($result) ? $result : [$result]).map($one);{after}"
    )


def item_code(code: str, item: Ref, names: Mapping[str, tuple[Ref, Ref | None]], index: Ref | None) -> str:
    """Code that runs once for each item and returns one."""
    head = _prelude(code + "$input", item, item.listed(), names, index)
    return (
        f"{head} const item = $input.item;\nconst $result = await (async () => {{\n{code}\n}})();\n"
        "const $one = Array.isArray($result) ? $result[0] : $result;\n"
        "if ($one === null || typeof $one !== 'object') throw new Error('the code returned no item');\n"
        "return $one.json && typeof $one.json === 'object' ? $one.json : $one;"
    )


def _prelude(source: str, item: Ref, items: Ref, names: Mapping[str, tuple[Ref, Ref | None]], index: Ref | None) -> str:
    """The names that the source uses."""
    known = ", ".join(
        f"{json.dumps(name)}: () => [{everything.js}, {'undefined' if one is None else one.js}]"
        for name, (everything, one) in names.items()
    )
    parts = [
        (_BUFFER, ("Buffer",)),
        (_LOCALE, (".toLocale",)),
        ("const btoa = text => Buffer.from(text, 'latin1').toString('base64');", ("btoa",)),
        ("const atob = text => Buffer.from(text, 'base64').toString('latin1');", ("atob",)),
        (_CLONE, ("$copy",)),
        (_WRAP, ("$wrap",)),
        (_OR_ONE, ("$orOne",)),
        (f"const $itemIndex = {'0' if index is None else index.js};", ("$itemIndex",)),
        ("const $position = $itemIndex;", ("$position",)),
        ("const $runIndex = 0;", ("$runIndex",)),
        (f"const items = $wrap({items.js});", ("items",)),
        (f"const $current = {{json: $copy({item.js}) ?? {{}}}};", ("$current",)),
        ("const $json = $current.json;", ("$json",)),
        ("const $data = $json;", ("$data",)),
        (
            "const $input = {all: () => items, first: () => items[0], last: () => items[items.length - 1],"
            " item: $current, json: $current.json, itemMatching: i => items[i]};",
            ("$input",),
        ),
        (f"const $known = {{{known}}};", ("$known",)),
        (
            "const $ = name => { if (!Object.hasOwn($known, name)) throw new Error(`there is no node ${name} here`);"
            " const [list, one] = $known[name](); const all = $wrap(list); return {all: () => all, first: () => all[0],"
            " last: () => all[all.length - 1], item: one === undefined ? all[0] : {json: $copy(one)},"
            " itemMatching: i => all[i], isExecuted: list !== undefined && list !== null,"
            " get json() { return this.item?.json; }, get data() { return this.item?.json; }}; };",
            ("$(",),
        ),
        ("const $node = new Proxy({}, {get: (_, name) => $(name)});", ("$node",)),
        ("const $items = name => name === undefined ? items : $(name).all();", ("$items",)),
        (
            "const $item = () => ({$node: new Proxy({}, {get: (_, name) =>"
            " ({json: $(name).first()?.json, data: $(name).first()?.json})})});",
            ("$item(",),
        ),
        ("const $execution = {id: ctx[\"run\"]?.id, mode: 'production'};", ("$execution",)),
    ]
    used = source
    lines: list[str] = []
    for line, names_in_it in reversed(parts):
        if any(name in used for name in names_in_it):
            lines.insert(0, line)
            used += line
    lines.insert(0, "// The names of n8n, bound to what this node gets.\n")
    return lines[0] + " ".join(lines[1:])
