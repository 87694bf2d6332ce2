"""Estimators for scikit-learn: ``pip install 'glassformer[sklearn]'``.

========================  ==================================================================
regressor, classifier     the estimators
base                      their base class: checked inputs, scaling, fitted attributes
sequences, scaling        inputs; centring and scaling
parameters, fit_task      parameters of the estimators; what is learned
solvers                   regularised risk, message passing, choice of the strength
assumed_model             the model of the labels that theory needs
predictive_distributions  errors of predictions, class probabilities
forecasts                 ``forecast``: error with more samples
learning_curves           by theory, measured on held-out samples, and by power laws
========================  ==================================================================
"""

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
