"""Analysis of people's own data, with two entrances; the third, ``forecast``, is in :mod:`glassformer.sklearn`.

===============  =======================================================================
diagnosis        ``diagnose``: which theory can be trusted on these inputs and labels
estimated_model  ``estimate_model``: width of the signal and noise of the labels
signals          families of signals of unknown width
targets          labels and the parameters of their channel
width            posterior of the width
===============  =======================================================================
"""
