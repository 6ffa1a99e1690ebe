"""ConvMem: convolutional memory for long-context reasoning, as published and lean.

`config` has every number and decision, `method` the workflow of section 2.4, `estimate` what it would cost.
"""

from convmem.methods.convmem.config import Config
from convmem.methods.convmem.method import ConvMem

__all__ = ["Config", "ConvMem"]
