"""Brings an NLI checkpoint from the Hugging Face hub to this machine, once. Knows the names of its files only."""

from __future__ import annotations

import os
from pathlib import Path

import aiohttp

from convmem.core import Fatal
from convmem.model import cache_directory

PATIENCE = 5.0
"""Seconds without a byte after which the hub counts as unreachable."""
_CHUNK = 1 << 20
_FILES = (("config.json",), ("tokenizer.json",), ("onnx/model.onnx", "model.onnx"))
"""What a checkpoint needs; of several names the first that the hub has."""


async def fetch(name: str) -> Path:
    """The folder of the checkpoint ``owner/name``, perhaps ``owner/name@revision``, downloaded where it is not here.

    ``HF_ENDPOINT`` names another hub. Raises Fatal where it can't be had.
    """
    folder = cache_directory() / "nli" / name.replace("/", "--")
    repository, _, revision = name.partition("@")
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    limits = aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE, sock_read=PATIENCE)
    try:
        async with aiohttp.ClientSession(timeout=limits, trust_env=True) as session:
            for names in _FILES:
                if not any((folder / file).is_file() for file in names):
                    await _download(session, f"{hub}/{repository}/resolve/{revision or 'main'}", names, folder)
    except (aiohttp.ClientError, TimeoutError) as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise Fatal(
            f"The NLI model {name} can't be had from {hub} ({said}); give --verifier nli:FOLDER with a downloaded one."
        ) from error
    except OSError as error:
        raise Fatal(f"The NLI model can't be stored in {folder} ({error}); CONVMEM_CACHE_DIR moves it.") from error
    return folder


async def _download(session: aiohttp.ClientSession, url: str, names: tuple[str, ...], folder: Path) -> None:
    """The first of ``names`` that there is, whole or not at all. Raises ClientResponseError where there is none."""
    for file in names:
        async with session.get(f"{url}/{file}") as response:
            if response.status == 404 and file != names[-1]:
                continue
            response.raise_for_status()
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            try:
                with partial.open("wb") as out:
                    async for chunk in response.content.iter_chunked(_CHUNK):
                        out.write(chunk)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
            return
