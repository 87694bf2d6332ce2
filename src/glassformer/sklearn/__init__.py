"""Estimators that fit and predict, for scikit-learn: ``pip install 'glassformer[sklearn]'``."""

from __future__ import annotations

try:
    import sklearn as _  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("the estimators need scikit-learn: pip install 'glassformer[sklearn]'") from error

from glassformer.sklearn.classifier import AttentionClassifier, BilinearClassifier
from glassformer.sklearn.forecasts import Forecast, forecast
from glassformer.sklearn.regressor import AttentionRegressor, BilinearRegressor

__all__ = [
    "AttentionClassifier",
    "AttentionRegressor",
    "BilinearClassifier",
    "BilinearRegressor",
    "Forecast",
    "forecast",
]
