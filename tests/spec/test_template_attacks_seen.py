"""Attacks on templates, each first seen to do harm where templates are rendered by plain Jinja2, then here.

`test_template_attacks` has the forms and the limits; this page shows that the classes are real: a
value gives a road to a Python object, to a file, to a command, to a change of shared data, or to a
process that runs out of memory or time. What would hurt us runs in a process with limits of its own.
"""

from __future__ import annotations

import copy
import json
import re
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from anabranch.engine.rules.templates.template import Template
from anabranch.errors import TemplateError

CONTEXT: Mapping[str, Any] = {
    "s": "text",
    "small": [1, 2, 3],
    "o": {"a": 1, "b": {"c": [1]}},
    "many": list(range(1_000)),
}

# 512 MB and 1 second of processor time: enough for an interpreter, not for an attack.
MEMORY_BYTES_MAX = 512 * 1_048_576
CPU_S_MAX = 1

_OBJECT = re.compile(r"<(class|function|bound method|built-in|module|slot wrapper|method|frame|generator|.* object at)")

OBJECTS = [
    "{{ ctx.__class__ }}",
    "{{ ctx['__class__'] }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__']['__base__'] }}",
    "{{ ctx.small.append }}",
    "{{ ctx.o.items }}",
    "{{ ctx.s.format }}",
    "{{ ctx | attr('__class__') }}",
    "{{ ctx | attr('__cla' ~ 'ss__') }}",
    "{{ ctx['__cl' ~ 'ass__'] }}",
    "{{ ctx[['__class__'] | first] }}",
    "{{ ctx.small | map(attribute='__class__') | list }}",
    "{{ [ctx.small] | map(attribute='append') | list }}",
    "{{ '{0.__class__}'.format(ctx) }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ self.__init__ }}",
    "{{ lipsum.__globals__.os }}",
    "{{ cycler.__init__ }}",
    "{{ joiner.__init__ }}",
    "{{ namespace.__init__ }}",
    "{{ range }}",
    "{{ dict.mro() }}",
    "{{ ''.__class__.__base__.__subclasses__() }}",
    "{{ ctx.small.__iter__ }}",
    "{{ (1).__class__ }}",
    "{{ ctx.__init_subclass__ }}",
    "{{ ctx['__CLASS__' | lower] }}",
    "{{ ctx['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ ctx['\\137\\137class\\137\\137'] }}",
    "{% set x = ctx.__class__ %}{{ x }}",
    "{% for x in [ctx] %}{{ x.__class__ }}{% endfor %}",
    "{% with x = ctx %}{{ x.__class__ }}{% endwith %}",
    "{% macro m() %}{% endmacro %}{{ m.__class__ }}",
    "{%- if ctx.__class__ -%}{{ ctx.__class__ }}{%- endif -%}",
]


@pytest.mark.parametrize("text", OBJECTS)
def test_a_road_to_a_python_object_is_none_here(text: str) -> None:
    assert _OBJECT.search(Environment().from_string(text).render(ctx=CONTEXT)), "it harms nobody"
    _assert_refused(text)


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file that nobody should read."""
    path = tmp_path / "treasure.txt"
    path.write_text("gold")
    return path


FILES = [
    "{% include 'treasure.txt' %}",
    "{% include ['nothing', 'treasure.txt'] %}",
    "{% extends 'treasure.txt' %}",
    "{{ lipsum.__globals__.__builtins__.open('PATH').read() }}",
    "{{ cycler.__init__.__globals__.__builtins__.open('PATH').read() }}",
    "{{ ''.__class__.__base__.__subclasses__() | selectattr('__name__', 'equalto', 'FileLoader') | list and"
    " joiner.__init__.__globals__.__builtins__['open']('PATH').read() }}",
    "{{ self._TemplateReference__context.environment.loader.get_source(self._TemplateReference__context.environment,"
    " 'treasure.txt') }}",
]


@pytest.mark.parametrize("text", FILES)
def test_no_file_is_read(text: str, treasure: Path) -> None:
    text = text.replace("PATH", str(treasure))
    naive = Environment(loader=FileSystemLoader(treasure.parent))
    assert "gold" in naive.from_string(text).render(ctx=CONTEXT), "it harms nobody"
    _assert_refused(text)


COMMANDS = [
    "{{ lipsum.__globals__.os.popen('echo go''ld').read() }}",
    "{{ cycler.__init__.__globals__.os.popen('echo go''ld').read() }}",
    "{{ lipsum.__globals__['__builtins__']['__import__']('os').popen('echo go''ld').read() }}",
    '{{ lipsum.__globals__.__builtins__.eval(\'"go" + "ld"\') }}',
    "{{ self.__init__.__globals__.__builtins__.__import__('subprocess').getoutput('echo go''ld') }}",
]


@pytest.mark.parametrize("text", COMMANDS)
def test_no_command_is_run(text: str) -> None:
    assert "gold" in Environment().from_string(text).render(ctx=CONTEXT), "it harms nobody"
    _assert_refused(text)


CHANGES = [
    "{{ ctx.small.append(9) }}",
    "{{ ctx.small.clear() }}",
    "{{ ctx.small.pop() }}",
    "{{ ctx.small.reverse() }}",
    "{{ ctx.o.update({'a': 2}) }}",
    "{{ ctx.o.__setitem__('a', 2) }}",
    "{{ ctx.o.pop('a') }}",
    "{{ ctx.o.setdefault('z', 1) }}",
    "{{ ctx.o.b.c.extend([1, 2]) }}",
    "{% do ctx.o.clear() %}",
    "{% set _ = ctx.small.insert(0, 9) %}",
]


@pytest.mark.parametrize("text", CHANGES)
def test_shared_data_is_not_changed(text: str) -> None:
    harmed, ours = copy.deepcopy(CONTEXT), copy.deepcopy(CONTEXT)
    Environment(extensions=["jinja2.ext.do"]).from_string(text).render(ctx=harmed)
    assert harmed != CONTEXT, "it harms nobody"
    _assert_refused(text, ours)
    assert ours == CONTEXT


MEMORY = [
    "{{ 'a' * 10000000000 }}",
    "{{ [1] * 10000000000 }}",
    "{{ 'a' | center(10000000000) }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ range(10000000000) | list }}",
    "{{ (['a' * 1000000] * 100000) | join }}",
    "{{ ('a' * 100000) | replace('', 'b' * 100000) }}",
    "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "{{ (['a'] * 100000) | join('b' * 100000) }}",
    "{{ 'a' | indent(10000000000) | wordwrap(1) }}{{ ' ' * 10000000000 }}",
    "{{ [0] | batch(10000000000, 'x') | list }}",
    "{% set x = namespace(s='a' * 1000) %}{% for i in range(40) %}{% set x.s = x.s ~ x.s %}{% endfor %}",
]

TIME = [
    "{{ 9 ** (9 ** 9) }}",
    "{{ 3 ** 99999999 > 1 }}",
    "{{ range(10000000000) | sum }}",
    "{{ range(10000000000) | max }}",
    "{{ range(100000000) | map('string') | select('equalto', 'x') | first | default }}",
    "{{ -1 in range(1000000000) | map('abs') }}",
    "{{ lipsum(9999999) }}",
    "{% for a in ctx.many %}{% for b in ctx.many %}{% for c in ctx.many %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(10000000000) %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "{% for a in ctx.many recursive %}{{ loop([1, 2]) if loop.depth0 < 40 }}{% endfor %}",
    "{{ ('a' * 30000 ~ '!') | urlize | striptags | wordcount }}{% for i in range(10 ** 9) %}{% endfor %}",
]

_NAIVE = """
import json, resource, sys
from jinja2 import Environment
text, context, memory, cpu = json.load(sys.stdin)
# Before it is compiled: Jinja2 computes constants then.
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
Environment().from_string(text).render(ctx=context)
"""


@pytest.mark.parametrize("text", [*MEMORY, *TIME])
def test_memory_and_time_are_not_exhausted(text: str) -> None:
    assert _naive_process_ends_badly(text), "it harms nobody"
    used = resource.getrusage(resource.RUSAGE_SELF)
    _assert_refused(text)
    since = resource.getrusage(resource.RUSAGE_SELF)
    assert since.ru_utime - used.ru_utime < 0.5 and since.ru_maxrss - used.ru_maxrss < 50_000


BENIGN: Sequence[tuple[str, Any]] = [
    ("{{ ctx.o }}", {"a": 1, "b": {"c": [1]}}),
    ("{{ ctx.o.b.c[0] + 1 }}", 2),
    ("{{ ctx['o']['a'] }}", 1),
    ("{{ ctx.small | sum }}", 6),
    ("{{ ctx.s | upper }}!", "TEXT!"),
    ("{{ ctx.missing | default('x') }}", "x"),
    ("{{ 'a' if ctx.small else 'b' }}", "a"),
    ("{{ ctx.items | default('a key like any other') }}", "a key like any other"),
    ("{{ ctx.many | length > 999 }}", True),
    ("{{ '{{' }} {{ '{%' }}", "{{ {%"),
    ("{{ ctx.o.keys | default(3) }}", 3),
    ("{{ '%s' ~ ctx.s }}", "%stext"),
]


@pytest.mark.parametrize(("text", "value"), BENIGN)
def test_honest_templates_are_resolved(text: str, value: Any) -> None:
    assert Template(text).resolve(CONTEXT) == value


@pytest.mark.parametrize("text", ["{{ ctx.__class__ }}", "{{ 7 * 7 }}", "{% include 'x' %}", "{{ secret.TOKEN }}"])
def test_data_that_looks_like_a_template_is_never_resolved(text: str) -> None:
    context = {"a": text, "b": {"c": [text]}}
    assert Environment().from_string("{{ ctx.a }}").render(ctx=context) == text, "it would take a second rendering"
    assert Template("{{ ctx.a }}").resolve(context) == text
    assert Template("x {{ ctx.b.c[0] }}").resolve(context) == f"x {text}"


def _assert_refused(text: str, context: Mapping[str, Any] = CONTEXT) -> None:
    with pytest.raises(TemplateError):
        Template(text, secrets=True).resolve(context)


def _naive_process_ends_badly(text: str) -> bool:
    job = json.dumps([text, CONTEXT, MEMORY_BYTES_MAX, CPU_S_MAX])
    ended = subprocess.run([sys.executable, "-c", _NAIVE], input=job, text=True, capture_output=True, check=False)
    return ended.returncode < 0 or any(word in ended.stderr for word in ("MemoryError", "OverflowError"))
