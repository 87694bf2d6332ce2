"""Channels of several rows of fields: links of several projections, and attention networks.

- ``link_channel``: from a user's function of the projections to one of the channels below
- ``link_symmetries``: signed permutations of the rows that leave a link as it is, found by trial
- ``link_rows``: links with Gaussian noise or a law of labels, by importance sampling
- ``line_channel``: links with one number, or a discrete label, without noise, integrated along lines
- ``line_integrals``, ``line_crossings``: the compiled integrals; where lines cross a level set
- ``mislabelled_rows``: discrete labels that are exchanged for one another
- ``noiseless_labels``: continuous labels of several entries without noise
- ``single_index``: links of one index and one token, by the quadratures of scalar channels
- ``attention_network``: deep attention networks as functions of the projections of their tokens
- ``tied_attention``, ``untied_attention``, ``inverted_attention``: networks whose last layer, or one head, is solved
  for exactly; ``attention_channel`` is their base
- ``importance_sampling``: posterior moments of latent normal variables; ``posterior_modes`` finds the modes,
  ``weighted_moments`` removes the bias of ratios, ``latent_posterior`` defines the functions of a posterior
- ``latent_channel``, ``sampled_channel``: bases of channels with sampled posteriors and averages
"""
