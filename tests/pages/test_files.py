"""The files of the pages: all of them are served, nothing else is, and they need nothing from elsewhere."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from anabranch import pages

OUR_FILES = {
    path.name: path.read_text("utf-8") for path in resources.files("anabranch.pages").joinpath("static").iterdir()
}
PAGES = {name: text for name, text in OUR_FILES.items() if name.endswith(".html")}


def text_of(path: str) -> str:
    """The file behind a path."""
    found = pages.find(path)
    assert found is not None, f"{path} is not on the list"
    return found.body.decode()


def test_every_file_of_ours_has_a_path() -> None:
    assert set(OUR_FILES.values()) <= {text_of(path) for path in pages.PATHS if "swagger" not in path}


@pytest.mark.parametrize("page", ["/", "/docs"])
def test_all_that_a_page_loads_is_served(page: str) -> None:
    for path in re.findall(r'(?:src|href)="(/[^"#]+)"', text_of(page)):
        if path not in ("/openapi.json", "/"):
            text_of(path)


@pytest.mark.parametrize("name", [name for name in OUR_FILES if name.endswith(".js")])
def test_all_that_a_script_imports_is_served(name: str) -> None:
    for path in re.findall(r'from "([^"]+)"', OUR_FILES[name]):
        text_of(path.replace("./", "/static/", 1))


@pytest.mark.parametrize(
    "path",
    ["", "/index.html", "/static/", "/static/../__init__.py", "/static/docs.js", "/docs/", "//", "/static/app.js/"],
)
def test_what_is_not_on_the_list_does_not_exist(path: str) -> None:
    assert pages.find(path) is None


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_no_script_and_no_style(name: str) -> None:
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", PAGES[name])


@pytest.mark.parametrize("name", OUR_FILES)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    assert "://" not in OUR_FILES[name].replace('xmlns="http://www.w3.org/2000/svg"', "")


@pytest.mark.parametrize("name", [name for name in OUR_FILES if name.endswith(".js")])
def test_text_never_becomes_markup(name: str) -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", OUR_FILES[name]
    )


def test_each_answer_says_what_its_page_may_do() -> None:
    root, docs = pages.find("/"), pages.find("/docs")
    assert root is not None
    assert docs is not None

    assert "unsafe" not in root.csp
    assert "default-src 'self'" in root.csp
    assert "connect-src 'self';" in root.csp  # no other server, whatever the scheme
    assert "frame-ancestors 'none'" in docs.csp
    assert "script-src" not in docs.csp  # as strict as for the rest


def test_the_mark_changes_with_the_bytes() -> None:
    marks = [file.etag for path in ("/", "/docs", "/static/app.js") if (file := pages.find(path))]

    assert len(set(marks)) == 3
    assert all(re.fullmatch(r'"[0-9a-f]{32}"', mark) for mark in marks)
