"""Regularised risk of models of rows: any student on any sequence multi-index model."""
