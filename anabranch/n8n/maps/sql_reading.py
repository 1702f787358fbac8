"""SQL of n8n with expressions in it: where they stand, and what may be bound as a value there.

Pure. Called by the mapping of database nodes. n8n writes what an expression gives into the SQL. The same comes of a
bound value only where it is a text within quotes, or an operand that has to be a value; everywhere else the SQL itself
is computed. Each character is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.n8n.job import NotMapped
from anabranch.n8n.js_tree import NotRead, texts_of
from anabranch.n8n.phrases import Phrase
from anabranch.n8n.refs import literal
from anabranch.n8n.texts import Source, expression, split

_BEGIN, _END = "\ue000", "\ue001"
_TOKEN = re.compile(
    r"(?P<blank>\s++)|(?P<comment>--[^\n]*|/\*(?>(?:[^*]|\*(?!/))*)(?:\*/)?)|(?P<string>'(?>(?:[^']|'')*)'?)"
    r'|(?P<name>"(?>(?:[^"]|"")*)"?|`[^`]*+`?)|(?P<dollar>\$(?:[A-Za-z_]\w*+)?\$)|(?P<hole>\ue000(?P<number>\d+)\ue001)'
    r"|(?P<word>[^\W\d]\w*+)|(?P<digits>\d[\w.]*+)|(?P<mark>::|<>|!=|<=|>=|.)",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d]")
_HOLE = re.compile(f"{_BEGIN}(\\d+){_END}")
_CHANGES = frozenset({"insert", "update", "delete", "merge", "replace", "into", "truncate", "call"})
_VERBS = frozenset({"select", "with", "values", "table", "insert", "update", "delete", "replace", "merge"})
_COMPARES = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
# Behind these a text within quotes is a value. Behind others it may belong to what is written out, as `INTERVAL`.
_BEFORE_TEXTS = frozenset(
    {"like", "ilike", "to", "and", "or", "not", "then", "else", "when", "case", "between", "select", "limit", "offset",
     "in", "where", "on", "regexp", "rlike", "returning", "distinct", "from"}
)  # fmt: skip
_BEHIND_OPERANDS = frozenset(
    {"and", "or", "order", "limit", "offset", "group", "having", "returning", "where", "on", "union", "for", "then",
     "else", "end", "desc", "asc", "between"}
)  # fmt: skip
# Words that brackets follow although they are not functions.
_NO_FUNCTIONS = frozenset({*_BEFORE_TEXTS, "values", "any", "all", "exists", "as", "set"})
# Functions of PostgreSQL and its modules of which each form has types of its own for what it is given. Only what takes
# any type has to know the type of a parameter, where it takes a text within quotes for a text.
OF_KNOWN_TYPES = frozenset(
    {"lower", "upper", "initcap", "trim", "btrim", "ltrim", "rtrim", "length", "char_length", "character_length",
     "octet_length", "left", "right", "substr", "substring", "replace", "translate", "split_part", "strpos", "position",
     "starts_with", "reverse", "repeat", "lpad", "rpad", "ascii", "md5", "encode", "decode", "regexp_replace",
     "regexp_match", "regexp_matches", "regexp_split_to_array", "string_to_array", "to_date", "to_timestamp",
     "to_number", "to_tsvector", "to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery", "crypt",
     "gen_salt", "digest", "hmac", "similarity", "word_similarity", "unaccent", "soundex", "levenshtein"}
)  # fmt: skip

COMPUTED = "its SQL is computed"
OPERAND = "an expression outside of quotes is a number: of anything else n8n makes SQL"
ARGUMENT = "a text that is given to a function is of the type that the function demands, or fails"


@dataclass(slots=True)
class BoundSql:
    """SQL with parameters in place of its expressions."""

    sql: str = ""
    args: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _SqlToken:
    kind: str
    text: str


def bound(written: str, translate: Callable[[str], Phrase], *, empty: bool, is_mysql: bool) -> BoundSql:
    """SQL whose expressions are bound. `empty`: what is missing or null is not a text, nor `undefined` or `null`.

    Raises NotMapped where the SQL itself is computed.
    """
    sources: list[Source] = []
    marked = ""
    if _BEGIN in written or _END in written:
        raise NotMapped(COMPUTED)
    for piece in split(written):
        if isinstance(piece, Source):
            marked += f"{_BEGIN}{len(sources)}{_END}"
            sources.append(piece)
        else:
            marked += piece
    tokens = _tokens(marked)
    if any(token.kind == "dollar" for token in tokens) or (is_mysql and "\\" in marked):
        raise NotMapped(COMPUTED)
    for source in sources:
        _check_quotes(source.js)
    return _SqlBinding(tokens, [source.js for source in sources], translate, empty, is_mysql).run()


def writes(sql: str) -> bool:
    """Whether a statement changes anything. Raises NotMapped for what is not a saved query."""
    tokens = [token for token in _tokens(sql) if token.kind not in ("blank", "comment")]
    first = next((token.text.lower() for token in tokens if token.text != "("), "")
    if first not in _VERBS:
        raise NotMapped("saved queries read and change rows, nothing else")
    if any(token.text == ";" and token.kind == "mark" for token in tokens[:-1]):
        raise NotMapped("it has several statements, and a saved query has one")
    return any(
        token.kind == "word" and token.text.lower() in _CHANGES and (number == 0 or following != "(")
        for number, (token, following) in enumerate(zip(tokens, [*(each.text for each in tokens[1:]), ""], strict=True))
    )


def has_in_quotes(sql: str, pattern: re.Pattern[str]) -> bool:
    """Whether something stands within quotes or comments."""
    return any(token.kind in ("string", "name", "comment") and pattern.search(token.text) for token in _tokens(sql))


def _tokens(sql: str) -> list[_SqlToken]:
    return [_SqlToken(str(found.lastgroup if found["hole"] is None else "hole"), found[0])
            for found in _TOKEN.finditer(sql)]  # fmt: skip


def _check_quotes(js: str) -> None:
    """Expressions with quotes in their texts write SQL, or escape it by hand."""
    try:
        texts = texts_of(js)
    except NotRead:
        raise NotMapped("one of its expressions is not read") from None
    if any("'" in each or '"' in each for each in texts):
        raise NotMapped("one of its expressions writes quotes into the SQL")


@dataclass(slots=True)
class _SqlBinding:
    tokens: list[_SqlToken]
    sources: list[str]
    translate: Callable[[str], Phrase]
    empty: bool
    is_mysql: bool
    made: BoundSql = field(default_factory=BoundSql)
    before: str = ""
    open: list[str] = field(default_factory=list)
    """What each bracket that is open belongs to."""
    closed: str = ""
    owner: str = ""
    """A dot, if the last token is a name behind one: of a schema of its own."""

    def run(self) -> BoundSql:
        """All of it."""
        for number, token in enumerate(self.tokens):
            if token.kind == "hole":
                self._operand(number)
            elif _BEGIN in token.text:
                self._text(number)
            else:
                self.made.sql += token.text
            if token.kind not in ("blank", "comment"):
                self._pass(token)
        return self.made

    def _pass(self, token: _SqlToken) -> None:
        if token.text == "(":
            follows_rows = self.before == "," and self.closed == "values"
            self.open.append("values" if follows_rows else f"{self.owner}{self.before}")
        elif token.text == ")" and self.open:
            self.closed = self.open.pop()
        elif token.text != ",":
            self.closed = ""
        self.owner = "." if self.before == "." and token.kind == "word" else ""
        self.before = token.text.lower() if token.kind in ("word", "mark") else token.kind

    def _behind(self, number: int) -> _SqlToken:
        """The text behind a token, blank or not."""
        return self.tokens[number + 1] if number + 1 < len(self.tokens) else _SqlToken("mark", ";")

    def _next(self, number: int) -> _SqlToken:
        rest = self.tokens[number + 1 :][:3]
        return next((each for each in rest if each.kind not in ("blank", "comment")), _SqlToken("mark", ";"))

    def _operand(self, number: int) -> None:
        """An expression outside of quotes."""
        in_values = bool(self.open) and self.open[-1] == "values" and self.before in ("(", ",")
        follows = self._next(number)
        ends = follows.text in (")", ",", ";", "::") or follows.text.lower() in _BEHIND_OPERANDS
        is_whole = ends and self._behind(number).kind in ("blank", "comment", "mark")
        if not is_whole or not (in_values or self.before in _COMPARES or self.before in ("limit", "offset")):
            raise NotMapped(COMPUTED)
        phrase = self.translate(self.sources[self._source(self.tokens[number].text)])
        if phrase.kind != "number":
            self._differs(OPERAND)
        self._bind(expression(phrase.whole()))

    def _text(self, number: int) -> None:
        """A text within quotes, with expressions in it."""
        token = self.tokens[number]
        quote = token.text[0]
        is_text = token.kind == "string" or (self.is_mysql and quote == '"')
        is_named = _WORD.match(self.before) or self.before in (".", "", "@")
        is_value = self.before in _BEFORE_TEXTS or not (is_named or self._is_escaped(number))
        if not is_text or not is_value or len(token.text) < 2 or token.text[-1] != quote:
            raise NotMapped(COMPUTED)
        function = self.open[-1] if self.open else ""
        is_function = function.rpartition(".")[2].isidentifier() and function not in _NO_FUNCTIONS
        if is_function and not self.is_mysql and function not in OF_KNOWN_TYPES:
            self._differs(ARGUMENT)
        parts: list[str] = []
        for index, piece in enumerate(_HOLE.split(token.text[1:-1].replace(quote * 2, quote))):
            if index % 2:
                parts.append(self._as_text(self.translate(self.sources[int(piece)])))
            elif piece:
                parts.append(literal(piece))
        self._bind(expression(" ~ ".join(parts)))

    def _is_escaped(self, number: int) -> bool:
        """Whether it is `U&'…'`, in which backslashes stand for characters."""
        return number > 1 and self.tokens[number - 1].text == "&" and self.tokens[number - 2].text.lower() == "u"

    def _as_text(self, phrase: Phrase) -> str:
        return f"({phrase.embedded()})" if self.empty else phrase.as_text()

    def _source(self, hole: str) -> int:
        return int(hole[1:-1])

    def _bind(self, value: str) -> None:
        name = f"p{len(self.made.args) + 1}"
        self.made.args[name] = value
        self.made.sql += f":{name}"

    def _differs(self, why: str) -> None:
        if why not in self.made.differences:
            self.made.differences.append(why)
