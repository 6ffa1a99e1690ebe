"""A model file is known by what it holds, wherever it is, without being loaded."""

from convmem.model import Embedded


def test_a_file_is_identified_without_loading_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVMEM_GGUF", raising=False)
    files = [tmp_path / name for name in ("one.gguf", "copy.gguf", "other.gguf")]
    for file, content in zip(files, (b"weights", b"weights", b"others"), strict=True):
        file.write_bytes(content)
    models = [Embedded(file) for file in files]
    for model in models:
        model.identify()
    one, copy, other = (model.identity for model in models)
    assert one == copy != other and one.startswith("sha256:")
    missing = Embedded()
    missing.identify()
    assert missing.identity == "local"
