"""Output channels: laws of a label given Gaussian fields.

- ``base``: the interface; ``label_errors``, ``field_averages``: errors of predictions and results of averages
- ``scalar``, ``link``: one field, of a named channel or of any link
- ``attention``: attention matrices of an attention-indexed model
- ``multi_index``: links of several indices, deep attention
- ``label_laws``, ``confusion``: label noise other than Gaussian
- ``row_symmetries``, ``control_variates``, ``sampled``, ``sampling_limits``: averages over sampled data points
"""
