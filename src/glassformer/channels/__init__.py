"""Output channels: laws of a label given Gaussian fields.

- ``base``: the interface; ``labels``, ``fields``: facts that a channel declares; ``parameters``
- ``labelling``, ``regression``, ``label_errors``, ``field_averages``: labels of fields, moments, errors, averages
- ``scalar``, ``link``: one field, of a named channel or of any link
- ``attention``: attention matrices of an attention-indexed model
- ``multi_index``: links of several indices, deep attention
- ``label_laws``, ``confusion``: label noise other than Gaussian
- ``row_symmetries``, ``control_variates``, ``sampled``, ``sampling_limits``: averages over sampled data points
"""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "AbsoluteChannel": "channels.scalar.absolute",
    "Channel": "channels.base",
    "Confusion": "channels.confusion",
    "GaussianChannel": "channels.scalar.gaussian",
    "LabelLaw": "channels.label_laws",
    "Labels": "channels.labels",
    "LinkChannel": "channels.link.channel",
    "ScalarChannel": "channels.scalar.base",
    "SignChannel": "channels.scalar.sign",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
