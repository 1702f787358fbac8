"""`anabranch import n8n`: a file or a folder becomes drafts."""

from __future__ import annotations

from tests.cli.conftest import Command, Write
from tests.n8n.drawn import DRAWN


def test_a_file_becomes_a_draft_and_the_report_is_shown(anabranch: Command, write: Write) -> None:
    file = write("export.json", DRAWN[0].export())
    answer = anabranch("import", "n8n", file, "--report")
    assert answer.code == 0, answer.err
    assert "exact          Fields (n8n-nodes-base.set)" in answer.out
    assert "draft " in answer.out

    shown = anabranch("import", "n8n", file, "--dry-run", "--json").document
    assert [each["draftID"] for each in shown["items"]] == [None]


def test_a_folder_is_imported_whole_but_for_what_is_no_export(anabranch: Command, write: Write, tmp_path) -> None:
    write("one.json", DRAWN[0].export())
    write("two.json", DRAWN[1].export())
    write("other.json", {"name": "x"})
    answer = anabranch("import", "n8n", str(tmp_path))
    assert answer.code == 0, answer.err
    assert answer.out.count("  draft ") == 2
    assert "other.json is left out: it is not an export of n8n" in answer.out
