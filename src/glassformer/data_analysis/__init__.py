"""Analysis of the user's own data. ``forecast``, which needs scikit-learn, is in :mod:`glassformer.sklearn`.

===============  =======================================================================
diagnosis        ``diagnose``: properties of inputs and labels, and the theories that apply to them
estimated_model  ``estimate_model``: width of the signal and noise of the labels
signals          families of signals of unknown width
targets          labels and the parameters of their channel
width            posterior of the width
===============  =======================================================================
"""
