"""Verbs: every question is a verb of a model, sample ratios and a learner."""
