"""The files of the pages: all of them are served, nothing else is, and they need nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import pages

BUILT = {
    "index.html": '<head><meta property="csp-nonce" nonce="ANABRANCH_NONCE">'
    '<script type="module" src="/assets/index-1a2b.js" nonce="ANABRANCH_NONCE"></script></head>',
    "assets/index-1a2b.js": "export const page = 1;\n" * 40,
    "assets/index-3c4d.css": "body { margin: 0 }",
}


def found_at(path: str) -> pages.StaticFile:
    """The file behind a path."""
    found = pages.find(path)
    assert found is not None, f"{path} is not on the list"
    return found


def forget_the_bundle() -> None:
    """What was read of a bundle is read again."""
    for cached in (pages._bundled, pages._asset, pages._read_asset):
        cached.cache_clear()


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in the place of the built pages, empty."""
    monkeypatch.setattr(pages, "_bundle", lambda: tmp_path)
    forget_the_bundle()
    yield tmp_path
    forget_the_bundle()


@pytest.fixture
def built(bundle: Path) -> Path:
    """The same with a small application in it."""
    for name, text in BUILT.items():
        (bundle / name).parent.mkdir(exist_ok=True)
        (bundle / name).write_text(text)
    (bundle / "manifest.json").write_text(json.dumps({"source": "1", "files": [*BUILT]}))
    return bundle


def test_every_file_of_the_manifest_is_served_and_nothing_else(built: Path) -> None:
    (built / "assets" / "unlisted.js").write_text("no")

    assert {path for path in pages.paths() if path.startswith("/assets/")} == {f"/{name}" for name in [*BUILT][1:]}
    assert found_at("/assets/index-3c4d.css").body == BUILT["assets/index-3c4d.css"].encode()
    for path in ("/assets/unlisted.js", "/index.html", "/manifest.json", "/assets/", "/assets/../__init__.py"):
        assert pages.find(path) is None


def test_the_page_has_another_nonce_in_each_answer_and_is_never_stored(built: Path) -> None:
    first, second = found_at("/"), found_at("/")
    nonces = [re.findall(r'nonce="([^"]+)"', page.body.decode()) for page in (first, second)]

    assert nonces[0][0] != nonces[1][0]
    assert set(nonces[0]) == {nonces[0][0]}
    assert f"script-src 'self' 'nonce-{nonces[0][0]}'" in first.csp
    assert f"style-src 'self' 'nonce-{nonces[0][0]}'" in first.csp
    assert "unsafe" not in first.csp
    assert first.cache_control == "no-store"
    assert first.etag is None


def test_assets_are_kept_for_good_and_sent_packed(built: Path) -> None:
    script = found_at("/assets/index-1a2b.js")

    assert "immutable" in script.cache_control
    assert script.gzipped is not None
    assert len(script.gzipped) < len(script.body)


def test_without_a_bundle_the_root_says_how_to_get_one(bundle: Path) -> None:
    page = found_at("/")

    assert b"make pages" in page.body
    assert not any(path.startswith("/assets/") for path in pages.paths())


@pytest.mark.parametrize("page", ["/", "/docs"])
def test_all_that_a_page_loads_is_served(page: str) -> None:
    for path in re.findall(r'(?:src|href)="(/[^"#]+)"', found_at(page).body.decode()):
        if path not in ("/openapi.json", "/"):
            assert found_at(path).body, path


@pytest.mark.parametrize("path", ["", "/static/", "/static/app.js", "/docs/", "//", "/docs/not_built.html"])
def test_what_is_not_on_the_list_does_not_exist(path: str) -> None:
    assert pages.find(path) is None


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js", "/docs/docs.css", "/favicon.svg"])
def test_nothing_comes_from_elsewhere(path: str) -> None:
    text = found_at(path).body.decode().replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert "://" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_each_answer_says_what_its_page_may_do(path: str) -> None:
    policy = found_at(path).csp

    assert "default-src 'self'" in policy
    assert "connect-src 'self';" in policy  # no other server, whatever the scheme
    assert "frame-ancestors 'none'" in policy


def test_the_mark_changes_with_the_bytes() -> None:
    marks = [found_at(path).etag for path in ("/docs", "/docs/docs.js", "/favicon.svg")]

    assert len(set(marks)) == 3
    assert all(mark is not None and re.fullmatch(r'"[0-9a-f]{32}"', mark) for mark in marks)
