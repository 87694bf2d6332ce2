"""Estimators that fit and predict, for scikit-learn: ``pip install 'glassformer[sklearn]'``."""

from __future__ import annotations

try:
    import sklearn as _  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("the estimators need scikit-learn: pip install 'glassformer[sklearn]'") from error

from glassformer.sklearn.attention import AttentionClassifier, AttentionRegressor
from glassformer.sklearn.bilinear import BilinearClassifier, BilinearRegressor
from glassformer.sklearn.forecasts import Forecast, forecast

__all__ = [
    "AttentionClassifier",
    "AttentionRegressor",
    "BilinearClassifier",
    "BilinearRegressor",
    "Forecast",
    "forecast",
]
