"""`dpw export`: what it says, and what it refuses."""

from dpw.serving import export
from tests.helpers.command_line import dpw


def test_a_model_is_written(capsys, saved, tmp_path, monkeypatch):
    # What is written is tested in tests/serving/test_export.py; tracing takes seconds.
    monkeypatch.setattr(export, "_content", lambda *_, **__: b"graph" * 1000)
    code, out, _ = dpw(capsys, "export", saved[1], tmp_path / "model.pt2")
    assert code == 0
    assert out == f"{tmp_path / 'model.pt2'}: 2 tasks, 5 classes, 0.0 MB\n"
    assert (tmp_path / "model.pt2").stat().st_size == 5000


def test_bad_input_is_one_sentence(capsys, toy, saved, tmp_path):
    for words, told in [
        ([toy / "clip", tmp_path / "m.onnx"], "is not a model folder"),
        ([tmp_path / "nowhere", tmp_path / "m.onnx"], "is not a model folder"),
        ([saved[1], tmp_path / "m.tflite"], "give .onnx or .pt2"),
    ]:
        code, _, err = dpw(capsys, "export", *words)
        assert code == 2
        assert told in err
        assert len(err.strip().splitlines()) == 1
