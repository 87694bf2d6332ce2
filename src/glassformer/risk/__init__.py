"""Regularised risk in the limit of large sizes: the error of the minimiser of a loss and a penalty.

=======================  =====================================================================================
loss_base, losses        interface of a loss with its proximal map; square, logistic, hinges, Huber; table of names
custom_loss              a loss given as a function
cross_entropy            cross-entropy of attention and its proximal map
penalty_base, penalties  interface of a penalty with its proximal map; elastic net and norms; table of names
penalised_matrix         order parameters of the penalised estimate of a matrix
order_parameters         order parameters of an estimate, and their conjugates
label_averages           conjugate parameters of losses of one field
attention_averages       conjugate parameters of cross-entropy
problem                  a problem (model, loss, penalty) and one step of its state evolution; incompatibilities
fixed_points             the fixed-point equations and their solution
tuning                   the best strength
limits, nuclear_norm     errors at sample ratios, as a table and as numbers
thresholds               weak recovery, interpolation, perfect recovery
trajectory               errors after each step of proximal message passing
=======================  =====================================================================================
"""
