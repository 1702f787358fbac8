"""Code of n8n before it is imported: which nodes it reads, and whether it uses what is not there.

Pure. Called by the mapping of code nodes, and for expressions that templates cannot say.
"""

# ruff: noqa: E501 - patterns
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from anabranch.n8n.js_tree import NotRead, in_brackets, is_expression
from anabranch.n8n.time_zones import UTC_NAMES, ZONES_MAX, is_zone

_NAME = re.compile(r"(?<![\w$.])\$[A-Za-z_]\w*")
_KEY = re.compile(r"(?<=[{,\s])\$\w+\s*:(?=\s)")
_KNOWN = frozenset(
    {
        "$json",
        "$input",
        "$",
        "$node",
        "$items",
        "$item",
        "$itemIndex",
        "$position",
        "$runIndex",
        "$data",
        "$execution",
        "$now",
        "$today",
        "$binary",
        "$env",
        "$vars",
        "$getWorkflowStaticData",
        "$n8n",
    }
)
_ABSENT = {
    r"\bimport\s*\(": "modules",
    r"\$jmespath|\$jmesPath": "JMESPath",
    r"\$secrets\b|(?<![\w$.])process\.": "the environment",
    r"\bhelpers\.|\$http\b|\bthis\.[a-z]+Request": "n8n's helpers",
    r"\bBuffer\b(?!\.(?:from|concat|alloc|isBuffer|byteLength)\s*\()|\.(?:read|write)(?:U?Int|Big|Float|Double)\w*\(": "Node's buffers",
    r"\bURL\s*\(|\bURLSearchParams\b": "URL objects",
    r"\bsetTimeout\b|\bsetInterval\b": "timers",
    r"\.pairedItem\s*\(": "`.pairedItem()`",
    r"\$item\s*\((?!\s*0\s*[,)])": "`$item(…)` of another item than the first",
    r"\$node\s*(?:\[[^\[\]]*\]|\.\s*\w+)\s*\??\.\s*runIndex\b": "the number of a node's run",
    r"\$\([^()]*\)\s*\??\.\s*params\b|\$input\s*\??\.\s*(?:params|context)\b": "parameters or the state of another node",
    r"\$execution\b(?!\s*\??\.\s*(?:id|mode)\b)": "addresses or data of the run",
    r"\$fromAI": "values that a language model gives",
    r"\bcrypto\.(?!createHash\(|createHmac\()": "Node's crypto",
    r"\bfetch\s*\(": "requests",
    r"\$prevNode|\$workflow\b|\$parameter|\$self|\$nodeVersion|\$nodeId|\$response|\$pageCount|\$evaluateExpression"
    r"|\$if\b|\$ifEmpty|\$min\b|\$max\b|\$mode|\$resumeWebhookUrl": "n8n's other names",
}
_MISSING = [(re.compile(pattern), what) for pattern, what in _ABSENT.items()]
# What is opened and never closed is matched, too, with an empty group `end`: each character is looked at once.
_COMMENTS = re.compile(r"(?m)^[^\S\n]*+//[^\n]*(?P<line>)|/\*(?>(?:[^*]|\*(?!/))*)(?P<end>\*/)?")
_STRINGS = re.compile(
    r"//[^\n]*(?P<line>)|/\*(?>(?:[^*]|\*(?!/))*)(?P<end>\*/)?|'(?>(?:[^'\\\n]|\\.)*)(?P<one>')?|\"(?>(?:[^\"\\\n]|\\.)*)(?P<two>\")?"
    r"|(?<=[=(,:;!&|?\[])\s*+/(?![*/])(?>(?:[^/\\\n\[]|\\.|\[(?>(?:[^\]\\\n]|\\.)*)\]?)+)(?P<pattern>/[a-z]*+)?",
    re.DOTALL,
)
_FILES = re.compile(r"\.binary\b|\$binary\b|getBinaryDataBuffer|prepareBinaryData")
_LUXON = re.compile(r"\bDateTime\b|\bluxon\b|\$now\b|\$today\b")
_ITEMS = re.compile(r"(?:\$\([^()]*\)|\$input|\$items\([^()]*\))\s*\.\s*(?:first|last|all)\(")
# What n8n's expressions have for all values, and `extensions.js` has not, or not for all kinds of values.
_EXTENSIONS = re.compile(
    r"(?<!Math)(?<!\$n8n)\.(?:isEmpty|isNotEmpty|toDateTime|toNumber|replaceSpecialChars|hash|extractEmail"
    r"|extractDomain|extractUrl|extractUrlPath|toTitleCase|isEmail|isUrl|isDomain|isBlank|isNotBlank"
    r"|randomItem|merge|smartJoin|renameKeys|removeField|keepFieldsContaining"
    r"|removeFieldsContaining|beginningOf|endOfMonth|extract|inBetween|isDst|isInLast|isWeekend|toInt|toFloat"
    r"|stripMarkdown|toDate|hasField|diffTo|diffToNow|isBetween|length|removeDuplicates)\s*\("
)
# Functions that expressions have and code has not.
_CHOOSING = re.compile(r"\$if(?:Empty)?(?=\()")
_OF_DATES = re.compile(r"\.(?:format|plus|minus|setZone)\s*\(")

_REQUIRED = re.compile(
    r"""(?:\b(?P<name>\w+)\s*=\s*|\{(?P<names>[^{}]*)\}\s*=\s*)?"""
    r"""\brequire\s*\(\s*(?P<quote>['"])(?:node:)?(?P<module>crypto|luxon|buffer)(?P=quote)\s*\)"""
)
# 20 modules that are loaded: each is looked for in all of the code.
_MODULES_MAX = 20
_HASHES = re.compile(r"""create(?:Hash|Hmac)\s*\(\s*['"](?:md5|sha1|sha256|sha512)['"]""", re.IGNORECASE)
_LUXON_ABSENT = re.compile(
    r"\bInterval\b|\bSettings\b|\bIANAZone\b|\bFixedOffsetZone\b|\.toRelative\w*|\.reconfigure\b|\.toLocaleParts\b"
    r"|\.weeksIn\w*|\.shiftTo\w*|\.toHuman\b|\.normalize\(\)|\.rescale\b|\.isInDST\b|\.hasDST\b|\.offsetName\w*"
    r"|\.fromRFC2822\b|\.fromHTTP\b|\.fromFormatExplain\b|\.fromString\b|\bDuration\.from(?:ISO|Obj)\w*\b|\.invalid\w+"
    r"|\bsetZone\s*:|\blocale\s*:|\.until\(|\.isOffsetFixed\b|\.keepLocalTime\b"
)
_LUXON_CALLS = (
    (re.compile(r"\.diff(?:Now)?\(([^()]*(?:\([^()]*\)[^()]*)*)\)"),
     re.compile(r"(?:[^,]*,)?\s*+\[?\s*+['\"](?:milli)?(?:second|minute|hour|day|week)s?['\"]\s*+\]?\s*+|[^,'\"\[]*")),
    (re.compile(r"\.setLocale\(([^()]*)\)"), re.compile(r"['\"]en(?:-US)?['\"]")),
    (re.compile(r"\.fromFormat\(([^()]*(?:\([^()]*\)[^()]*)*)\)"),
     re.compile(r"[^,]*,\s*+['\"](?>(?:yyyy|yy|y|MMMM|MMM|MM|M|dd|d|HH|H|hh|h|mm|m|ss|s|SSS|a|EEEE|EEE|ZZZ|ZZ|[^A-Za-z'\"])+)['\"]\s*+")),
)  # fmt: skip
_ZONED = re.compile(r"\.setZone\s*\(|\bzone\s*:")
_ZONE = re.compile(r"""(?:\.setZone\s*\(|\bzone\s*:)\s*(['"`])([A-Za-z][A-Za-z0-9_+/-]*)\1""")
# Days are counted on the calendar, and offsets have names: in UTC both are plain.
_UTC_ONLY = re.compile(r"ZZZZ|\.hasSame\b")
_DIFFERENCE = re.compile(r"\.diff(?:Now)?\(")
_IN_DAYS = re.compile(r"['\"](?:day|week)s?['\"]")
_READS_NODE = re.compile(
    r"""\$\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`$\\]*)`)"""
    r"""|\$node\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]"""
    r"""|\$items\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")|\$node\.(\w+)"""
)

_IN_A_LANGUAGE = re.compile(r"\.toLocale(?:String|DateString|TimeString)\s*\(([^()]*)\)")
_BRITISH_DATE = re.compile(r"\.toLocaleDateString\s*\(\s*['\"]en-GB['\"]\s*\)")
_IN_ANY_LANGUAGE = re.compile(r"\.toLocale(?:String|DateString|TimeString)\b")
_AMERICAN = re.compile(
    r"\s*+|\s*+DateTime\.(?:DATE|TIME|DATETIME)_(?:SHORT|MED|SIMPLE|WITH_SECONDS|24_SIMPLE|24_WITH_SECONDS|SHORT_WITH_SECONDS|MED_WITH_SECONDS|MED_WITH_WEEKDAY|FULL|HUGE)\s*+|\s*+(?:'en-US'|\"en-US\"|undefined|\[\])\s*+(?:,\s*+(?:\{(?P<options>[^{}]*)\}|undefined))?\s*+,?\s*+"
)
_OPTION = re.compile(
    r"\s*(?:(?:weekday|month)\s*:\s*['\"](?:long|short)['\"]|(?:year|month|day|hour|minute|second)\s*:\s*['\"](?:numeric|2-digit)['\"]"
    r"|hour12\s*:\s*(?:true|false)|(?:minimum|maximum)FractionDigits\s*:\s*\d|style\s*:\s*['\"]currency['\"]|currency\s*:\s*['\"]USD['\"]|timeZone\s*:\s*['\"](?:UTC|Etc/UTC|GMT)['\"])\s*"
)
_INTL = re.compile(r"\bIntl\b")
_IN_FORM = re.compile(r"\b(?:new\s+)?Intl\s*\.\s*NumberFormat\s*\(([^()]*)\)\s*\.\s*format\s*\(")
_OF_NUMBERS = re.compile(
    r"\s*(?:(?:minimum|maximum)FractionDigits\s*:\s*\d|style\s*:\s*['\"]currency['\"]|currency\s*:\s*['\"]USD['\"])\s*"
)
_COMPACT = re.compile(r"\s*(?:notation\s*:\s*['\"]compact['\"]|maximumFractionDigits\s*:\s*\d)\s*")


def names_of_nodes(code: str) -> list[str]:
    """The nodes of n8n that code reads by name."""
    return list(dict.fromkeys(map(_name_of_node, _READS_NODE.finditer(code))))


def _name_of_node(read: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", next(group for group in read.groups() if group is not None))


def _bare(code: str) -> str:
    """Code without what is in its texts, comments and patterns."""
    return _STRINGS.sub(lambda found: found[0] if found.lastgroup is None else "''", code)


def _without_comments(code: str) -> str:
    return _COMMENTS.sub(lambda found: found[0] if found.lastgroup is None else "", code)


_OTHER_READS = r"\s*\??\.\s*(?:first|last|all|isExecuted|params|context|itemMatching)\b"


def reads_item(code: str, name: str) -> bool:
    """Whether it may read the item of a node that belongs to the current one."""
    return any(
        _name_of_node(each) == name
        and each[0].startswith("$(")
        and not re.match(r"\s*\)" + _OTHER_READS, code[each.end() :])
        for each in _READS_NODE.finditer(code)
    )


def reads_matching(code: str, name: str) -> bool:
    """Whether it may read the item of a node that belongs to any of those that flow in."""
    return name in names_of_nodes(code) and "itemMatching" in code


_INPUTS = re.compile(r"\$input\s*\??\.\s*(?!item\b|json\b)|\$items\(\s*\)|(?<![\w$.])items\b")


def reads_inputs(code: str) -> bool:
    """Whether it reads more of what flows in than the current item."""
    return bool(_INPUTS.search(_bare(code)))


_BY_POSITION = r"\s*\)\s*\??\.\s*(?:first|last|all|itemMatching|isExecuted)\b"


def reads_by_position(code: str, name: str) -> bool:
    """Whether it reads items of a node by their positions, and not only the one that belongs to the current one."""
    return any(
        _name_of_node(each) == name and (not each[0].startswith("$(") or re.match(_BY_POSITION, code[each.end() :]))
        for each in _READS_NODE.finditer(code)
    )


def reads_unnamed_nodes(code: str) -> bool:
    """Whether it reads a node whose name it computes."""
    bare = _bare(_READS_NODE.sub("", code))
    return bool(re.search(r"\$\(|\$node\b|\$items\(\s*[^)\s]", bare))


_PAUSE = re.compile(
    r"\s*+(?P<waits>(?:const\s++\w++\s*+=\s*+)?await\s++)new\s++Promise\(\s*+\(?\s*+(?P<done>\w++)\s*+\)?\s*+=>\s*+"
    r"setTimeout\(\s*+(?P=done)\s*+,\s*+(?P<ms>\d{1,6})\s*+\)\s*+\)[^\S\n]*+(?:;|\n|$)"
)
_LATER = re.compile(
    r"\s*+return\s++new\s++Promise\(\s*+\(?\s*+(?P<done>\w++)\s*+(?:,\s*+\w++\s*+)?\)?\s*+=>\s*+\{\s*+setTimeout\(\s*+\(\)\s*+=>\s*+\{?\s*+"
    r"(?P=done)\((?P<value>.*)\)\s*+;?\s*+\}?\s*+,\s*+(?P<ms>\d{1,6})\s*+\)\s*+;?\s*+\}\s*+\)\s*+;?\s*+",
    re.DOTALL,
)


def without_pause(code: str) -> tuple[int, str]:
    """How many milliseconds code waits before it does anything else, and the rest of it."""
    if found := _LATER.fullmatch(code):
        return int(found["ms"]), f"return ({found['value'] or 'undefined'});"
    if found := _PAUSE.match(_without_comments(code)):
        return int(found["ms"]), _without_comments(code)[found.end() :]
    return 0, code


def absent_in(code: str, timezone: str) -> str | None:
    """The name that code uses and our sandbox lacks; None if none is known to be missing."""
    bare = _bare(code)
    for pattern, what in _MISSING:
        if pattern.search(bare):
            return what
    if not _has_modules(_without_comments(code)):
        return "modules"
    if _LUXON.search(bare) and not _has_dates(code, timezone):
        return "Luxon's dates"
    if not _is_american(code):
        return "texts in the language of a country"
    if unknown := sorted(set(_NAME.findall(_KEY.sub("", bare))) - _KNOWN - _declared(bare)):
        return f"the name {unknown[0]}"
    if reads_unnamed_nodes(code):
        return "a node whose name is computed"
    return None


_HELPERS = re.compile(r"\bthis\.helpers\.(?=(?:prepareBinaryData|getBinaryDataBuffer)\s*\()")
_NAMED = re.compile(
    r"""(?m)^[^\S\n]*+const\s++(?P<name>[A-Za-z_]\w*+)\s*+=\s*+(?P<text>'[^'\\\n]*'|"[^"\\\n]*")"""
    r"""[^\S\n]*+;?[^\S\n]*+(?://[^\n]*)?$"""
)
_READS_BY_NAME = re.compile(r"\$\(\s*+(?P<name>[A-Za-z_]\w*+)\s*+\)")
_DECLARED = re.compile(r"\bconst\s++([A-Za-z_]\w*+)\s*+=\s*+''")
# Not the names of properties, which bind nothing.
_WORD = re.compile(r"(?<![\w$])(?<!(?<!\.)\.)(?P<name>[A-Za-z_]\w*+)(?!\s*+:)")
_IN_A_TEMPLATE = re.compile(r"\$\{\w++\}")


def with_named_nodes(code: str) -> str:
    """Code in which nodes that it names by a constant are written out, and n8n's helpers for files are ours."""
    named = {found["name"]: found["text"] for found in _NAMED.finditer(code)}
    if named:
        code = _written_out(code, named)
    return _HELPERS.sub("fileHelpers.", code)


def _written_out(code: str, named: Mapping[str, str]) -> str:
    """Each `$(name)` with the constant's text: of constants whose names stand for nothing else anywhere in the code.

    A name that is a parameter, is bound again, or is given another value has to stand somewhere else than in
    `$(name)`: there are as many places with it as there are reads of nodes, and its one declaration.
    """
    bare = _bare(code)
    reads = Counter(found["name"] for found in _READS_BY_NAME.finditer(bare))
    words = Counter(found["name"] for found in _WORD.finditer(_IN_A_TEMPLATE.sub("", bare)))
    declared = Counter(_DECLARED.findall(bare))
    alone = {name for name in named if declared[name] == 1 and words[name] == reads[name] + 1}
    return _READS_BY_NAME.sub(lambda found: f"$({named[found['name']]})" if found["name"] in alone else found[0], code)


def reads_files(code: str) -> bool:
    """Whether it reads or makes binary data of items."""
    return bool(_FILES.search(_bare(code)))


def _has_modules(code: str) -> bool:
    """Whether of the modules that it loads all that it uses is there."""
    loaded = list(_REQUIRED.finditer(code))
    if len(loaded) > _MODULES_MAX or len(loaded) != len(re.findall(r"\brequire\s*\(", code)):
        return False
    for each in loaded:
        if each["module"] != "crypto":
            continue
        if each["name"] is None and each["names"] is None:
            return False
        used = re.findall(rf"\b{each['name']}\.(\w+)", code) if each["name"] else re.split(r"[\s,]+", each["names"])
        if not set(filter(None, used)) <= {"createHash", "createHmac"}:
            return False
    return len(_HASHES.findall(code)) == len(re.findall(r"\bcreate(?:Hash|Hmac)\s*\(", code))


def reads_dates(code: str) -> bool:
    """Whether it uses Luxon's dates."""
    return bool(_LUXON.search(_bare(code)))


def zones_of(code: str) -> list[str]:
    """The time zones that code names."""
    return sorted({found[2] for found in _ZONE.finditer(code)})


def _has_dates(code: str, timezone: str) -> bool:
    """Whether what it does with Luxon is there: in time zones that are known by name, in American English."""
    zones = [timezone, *zones_of(code)]
    if _LUXON_ABSENT.search(code) or len(_ZONE.findall(code)) != len(_ZONED.findall(code)):
        return False
    if len(zones) > ZONES_MAX or not all(map(is_zone, zones)):
        return False
    if not all(zone.lower() in UTC_NAMES for zone in zones) and (_UTC_ONLY.search(code) or _counts_days(code)):
        return False
    return all(form.fullmatch(found[1]) for calls, form in _LUXON_CALLS for found in calls.finditer(code))


def _counts_days(code: str) -> bool:
    """Whether a statement takes the days or weeks between two dates."""
    for statement in code.split(";"):
        if (found := _DIFFERENCE.search(statement)) and _IN_DAYS.search(statement, found.end()):
            return True
    return False


def _is_american(code: str) -> bool:
    """Whether all that it writes in a language is in American English, with options that are read here, or a date in
    British English."""
    bare = _bare(code)
    code = _BRITISH_DATE.sub("", code)
    if _INTL.search(bare) and not _writes_numbers(code):
        return False
    if not _IN_ANY_LANGUAGE.search(bare):
        return True
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


def _writes_numbers(code: str) -> bool:
    """Whether all that it uses of `Intl` writes numbers in American English, with options that are read here."""
    calls = list(_IN_FORM.finditer(code))
    if len(calls) != len(_INTL.findall(code)):
        return False
    for call in calls:
        form = _AMERICAN.fullmatch(call[1])
        options = [] if form is None else [each for each in (form["options"] or "").split(",") if each.strip()]
        is_compact = (
            len(options) == 2
            and len({each.split(":")[0].strip() for each in options}) == 2
            and all(map(_COMPACT.fullmatch, options))
        )
        money = sum("USD" in each or "currency'" in each or 'currency"' in each for each in options)
        if form is None or money == 1 or not (is_compact or all(map(_OF_NUMBERS.fullmatch, options))):
            return False
    return True


def _declared(code: str) -> set[str]:
    return set(re.findall(r"\b(?:const|let|var|function)\s+(\$\w+)", code)) | set(
        re.findall(r"(\$\w++)\s*+(?:=>|[,)]\s*+[\w$)]{0,200}+=>)", code)
    )


_OF_ANY_VALUE = re.compile(r"\s*+\.\s*+(isEmpty|isNotEmpty|toNumber)\s*+\(\s*+\)")


def masked(js: str) -> str:
    """Code of the same length in which its texts, comments and patterns are blank."""
    return _STRINGS.sub(lambda found: found[0][0] + "_" * (len(found[0]) - 2) + found[0][-1], js)


def with_calls_on_any_value(js: str) -> str:
    """An expression in which what n8n's own functions are called on, which may be missing, is their argument."""
    try:
        syntax = in_brackets(js)
    except NotRead:
        return js
    edits = []
    for node in syntax.nodes():
        function = node.child_by_field_name("function")
        value = function.child_by_field_name("object") if function else None
        call = _OF_ANY_VALUE.fullmatch(syntax.between(value.end_byte, node.end_byte)) if value else None
        if value and call and "?." not in syntax.code(value):
            edits += [(value.start_byte, value.start_byte, f"$n8n.{call[1]}("), (value.end_byte, node.end_byte, ")")]
    return syntax.replaced(edits)[1:-2]


def check_expression(js: str, timezone: str) -> str | None:
    """Why an expression cannot be computed by a code node; None: it can."""
    bare = _bare(js)
    if "$binary" in bare:
        return "it uses the name $binary"
    if "etWorkflowStaticData" in js:
        return "it uses data that are kept from run to run"
    if not is_expression(js):
        return "it is not an expression"
    if (absent := absent_in(_CHOOSING.sub("String", js), timezone)) is not None:
        return f"it uses {absent}"
    bare = _ITEMS.sub("$items", _bare(_IN_FORM.sub("(", js)))
    found = _EXTENSIONS.search(bare) or (None if _LUXON.search(bare) else _OF_DATES.search(bare))
    if found:
        return f"it uses n8n's own {found[0].strip('.(')}()"
    return None
