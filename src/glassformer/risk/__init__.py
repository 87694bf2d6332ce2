"""Regularised risk in the limit of large sizes: the error of the minimiser of a loss and a penalty.

======================  =====================================================================================
loss_base, losses       interface of a loss with its proximal map; square, logistic, hinges, Huber; table of names
custom_loss             a loss given as a function
cross_entropy           cross-entropy of attention and its proximal map
penalties               nuclear norm, ridge, trace; order parameters of the penalised estimate
label_averages          conjugate parameters of losses of one field
attention_averages      conjugate parameters of cross-entropy
problem                 a problem (model, loss, penalty) and one step of its state evolution; incompatibilities
fixed_points            the fixed-point equations and their solution
tuning                  the best strength
limits, nuclear_norm    errors at sample ratios, as a table and as numbers
thresholds              weak recovery, interpolation, perfect recovery
trajectory              errors after each step of proximal message passing
======================  =====================================================================================
"""
