"""Where compiled kernels are kept: a change of one that others use must not leave their old code in use."""

from __future__ import annotations

from pathlib import Path

from pubsub_cluster.workers.kernels import _jit


def test_rivals_kernels_have_a_folder_by_all_their_sources(tmp_path: Path) -> None:
    assert _jit._folder_of(Path(_jit.__file__).parent / "match.py") == _jit._FOLDER
    root = tmp_path / "algorithms"
    (root / "paper").mkdir(parents=True)
    (root / "used.py").write_text("@leaf\ndef one(): ...\n")
    (root / "paper" / "user.py").write_text("@kernel\ndef other(): ...\n")
    before = _jit._folder_of(root / "paper" / "user.py")
    assert before.parent == _jit._FOLDER and before == _jit._folder_of(root / "used.py")
    (root / "plain.py").write_text("def third(): ...\n")
    _jit._folder_of_rivals.cache_clear()
    assert _jit._folder_of(root / "used.py") == before
    (root / "used.py").write_text("@leaf\ndef one(): 1\n")
    _jit._folder_of_rivals.cache_clear()
    after = _jit._folder_of(root / "paper" / "user.py")
    assert after != before
    for folder in (before, after):
        folder.rmdir()
