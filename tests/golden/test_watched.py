"""The editor's recording of watched runs is what the server says today."""

from __future__ import annotations

from tests.golden.watched import RECORDING, lines


def test_the_recording_for_the_editor_is_fresh() -> None:
    """Record it again with `python -m tests.golden.watched`, and run the editor's tests on it."""
    assert RECORDING.read_text() == lines()
