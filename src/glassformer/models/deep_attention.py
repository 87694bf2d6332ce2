r"""Deep attention networks with weights of a few directions, as sequence multi-index models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.multi_index.attention_network import Architecture, attention_link
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.channels.sampling_limits import require_noise, require_sampling
from glassformer.core.accuracy import USUAL, Accuracy
from glassformer.core.checks import real_numbers, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid, parse_integers, parse_number, parse_text
from glassformer.core.resources import farthest_from_default, require_resources
from glassformer.core.settings import boolean, check_settings, one_of, positive_integer, unit_interval
from glassformer.designs.projection import projection_design
from glassformer.models.base import FiniteSize, SampledModel
from glassformer.models.token_correlation import Root, correlation_record, correlation_root
from glassformer.priors.base import Prior
from glassformer.priors.laws import NAMES
from glassformer.priors.resolve import named, rows_prior

ACTIVATIONS, OUTPUTS = ("softmax", "linear"), ("attention", "sequence")


@dataclass(frozen=True)
class DeepAttention(SampledModel):
    r"""Layers of attention with key and query weights of a few directions, learned from ``n = alpha d`` sequences.

    Equation :eq:`model-deep-attention` of the documentation.

    .. math::
       X_l = \Bigl[c_l I + \sum_h r_{lh}\,\sigma\bigl((X_{l-1}k_{lh})(X_{l-1}q_{lh})^T/d\bigr)\Bigr]X_{l-1},
       \qquad y = \sum_h r_{Ph}\,\sigma\bigl((X_{P-1}k_{Ph})(X_{P-1}q_{Ph})^T/d\bigr).

    Tokens and weights have standard normal entries. Labels are functions of the projections ``Z`` of the tokens on the
    weights. The overlap matrix runs over the rows of ``Z``, ordered by family (keys, queries), layer and head. Heads
    act on disjoint coordinates of the tokens.

    Weights of rank ``r`` have ``r`` directions, and scores are the sum
    :math:`\sum_{k\le r}(X_{l-1}k_{lhk})(X_{l-1}q_{lhk})^T/d`, not the mean: they grow like ``r`` for tied weights and
    like :math:`\sqrt r` for untied ones. Labels are invariant under a rotation of the directions of every layer and
    head (keys and queries together), and overlaps are measured after the best rotation of each block.

    Args:
        depth: layers ``P >= 1``.
        tokens: ``L``, at least 2 for softmax.
        skip: skip strength ``c`` of every layer, or a sequence with one per layer.
        activation: ``"softmax"`` of rows, or ``"linear"``.
        untied: independent weights of keys and queries; by default keys equal queries.
        heads: ``H >= 1``.
        output: ``"attention"``, the last attention matrix, or ``"sequence"``, the mixing of the input tokens.
        noise: variance of independent Gaussian noise on every entry of the label.
        head_weights: :math:`r_{lh}`, shape (P, H); ones by default.
        side_information: strength :math:`\lambda` in [0, 1) of side information on the weights.
        limit: None; ``"large-skip"``, where :math:`P^2/c^2` vanishes and the earlier layers act as a committee,
            :math:`v_P = (I + \frac1c\sum_{k<P}\sigma(z_kz_k^T))z_P`, inside the softmax of the last layer;
            ``"linear-committee"``, the same with a linear last layer, :math:`y = v_Pv_P^T`; or ``"large-depth"``, where
            depth and skip are large at the ratio ``depth/skip``, the earlier layers cannot be learned, and the only
            row is that of the last layer.
        token_correlation: correlation of the tokens of one sequence, a number ``c`` for :math:`C_{lm} = c^{|l-m|}` or
            the matrix ``C``. Labels are those of correlated tokens; data contain independent tokens: multiply
            correlated tokens by :math:`C^{-1/2}`.
        rank: number of directions ``r`` of every layer, or a sequence with one number per layer.
        prior: law of the weights, as for :class:`~glassformer.models.smi.SequenceMultiIndex`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: arguments that exclude each other.

    Source: Troiani, Cui, Dandi, Krzakala, Zdeborova, arXiv:2502.00901.

    Example:
        >>> model = DeepAttention(depth=2, tokens=2)
        >>> model.row_names
        ('layer 1', 'layer 2')
    """

    depth: int = parameter("attention layers P", 2, check=positive_integer)
    tokens: int = parameter("tokens L per sequence", 2, check=positive_integer)
    skip: float | Sequence[float] = parameter(
        "skip strength c, or a comma list, one per layer", 1.0, read=parse_grid, usual=(0.0, 4.0)
    )
    activation: str = parameter("softmax or linear", "softmax", among=ACTIVATIONS, check=one_of(*ACTIVATIONS))
    untied: bool = parameter("independent weights of keys and queries", False, check=boolean)
    heads: int = parameter("heads H on disjoint coordinates", 1, check=positive_integer)
    output: str = parameter("attention or sequence", "attention", among=OUTPUTS, check=one_of(*OUTPUTS))
    noise: float = parameter("label noise variance Delta", 0.0, usual=(0.0, 1.0))
    head_weights: Sequence[Sequence[float]] | None = None
    side_information: float = parameter(
        "strength lambda in [0, 1) of the side information", 0.0, usual=(0.0, 0.9), check=unit_interval
    )
    limit: str | None = parameter(
        "large-skip, linear-committee, or large-depth at the ratio depth/skip",
        None,
        check=one_of("large-skip", "linear-committee", "large-depth"),
    )
    token_correlation: float | Any = parameter("correlation of neighbouring tokens in (-1, 1)", 0.0, read=parse_number)
    prior: Any = parameter(f"law of the weights: {', '.join(NAMES)}", None, read=parse_text)
    rank: int | Sequence[int] = parameter("directions of the weights, or one number per layer", 1, read=parse_integers)
    _accuracy: Accuracy = field(default=USUAL, kw_only=True, repr=False)

    name = "attention"

    def __post_init__(self) -> None:
        check_settings(self)
        require_noise(self.noise)
        if self.activation == "softmax" and self.tokens < 2:
            raise ParameterError("tokens", self.tokens, ">= 2 for softmax: the softmax of a single token is one")
        self._check_limit()
        self._check_size()
        prior = rows_prior(self.prior, self.network.rows, self.network.heads, float(self.side_information))
        self._check_rotations(prior)
        set_fields(self, prior=prior)
        if self.head_weights is not None:
            # An immutable copy of the weights.
            set_fields(self, head_weights=self.network.head_weights)

    def _check_limit(self) -> None:
        """Raise unless the model has the limit that it is given."""
        if not self.limit:
            return
        if self.untied or self.heads > 1 or self.output != "attention" or self.noise > 0:
            raise IncompatibleError(f"limit = {self.limit} needs tied weights, one head, attention output and no noise")
        if np.any(real_numbers("skip", self.skip) <= 0):
            raise ParameterError("skip", self.skip, "> 0 in the limits of large depth and skip")
        if self._root:
            raise IncompatibleError(f"limit = {self.limit} and token_correlation exclude each other: give one of them")

    def _check_size(self) -> None:
        """Raise if labels of so many layers, tokens or heads take too much memory or time."""
        ranks = self._ranks
        layers = sum(ranks)
        fields = layers * self.heads * self.tokens * (2 if self.untied else 1)
        blamed, value = farthest_from_default(self, "depth", "tokens", "heads", "points")
        if max(ranks) > 1:
            blamed, value = "rank", self.rank
        require_sampling(blamed, value, fields, 2.0 ** min(layers - 1, 500), self.points)
        weights = 200.0 * self.depth * self.heads
        require_resources(blamed, value, weights, "use fewer layers or heads", what="head weights")

    def _check_rotations(self, prior: Prior) -> None:
        """Raise if layers have several directions and their rotations are not free, or noiseless labels show more."""
        network = self.network
        if max(network.directions) == 1:
            return
        shown = network.tied and network.shows_last_matrix and network.head_weights[-1][0] != 0
        if self.noise == 0 and not shown:
            raise IncompatibleError(
                f"noise = 0 and rank = {self.rank} exclude each other unless weights are tied, of one head, and labels "
                "show the last attention matrix: give noise > 0"
            )
        if not prior.rotational:
            raise IncompatibleError(
                f"rank = {self.rank} and prior = {self.prior} exclude each other: directions of one layer are known up "
                "to a rotation, which only normal weights allow"
            )

    @cached_property
    def _ranks(self) -> tuple[int, ...]:
        """Directions of every layer whose rows are learned."""
        given = self.rank if isinstance(self.rank, Sequence | np.ndarray) else [self.rank]
        for rank in given:
            require_integer("rank", rank)
        if len(given) not in (1, self.depth):
            raise ParameterError("rank", self.rank, f"a whole number >= 1, or {self.depth} of them")
        if self.limit and max(given) > 1:
            raise IncompatibleError(f"limit = {self.limit} and rank = {self.rank} exclude each other: give one of them")
        layers = 1 if self.limit == "large-depth" else int(self.depth)
        return tuple(int(rank) for rank in given) if len(given) == layers else (int(given[0]),) * layers

    @cached_property
    def _root(self) -> Root:
        return correlation_root(self.token_correlation, int(self.tokens))

    @cached_property
    def network(self) -> Architecture:
        """The architecture whose labels are learned."""
        skip = real_numbers("skip", self.skip).ravel()
        if len(skip) not in (1, self.depth):
            raise ParameterError("skip", self.skip, f"a finite number, or {self.depth} of them")
        given = np.ones((self.depth, self.heads)) if self.head_weights is None else self.head_weights
        weights = real_numbers("head_weights", given)
        if weights.shape != (self.depth, self.heads):
            raise ParameterError(
                "head_weights", self.head_weights, f"finite numbers of shape {(self.depth, self.heads)}"
            )
        if not np.all(weights.any(axis=1)):
            allowed = "in every layer at least one weight that is not zero"
            raise ParameterError("head_weights", self.head_weights, allowed, "leave out layers without attention")
        return Architecture(
            depth=int(self.depth),
            tokens=int(self.tokens),
            skip=tuple(float(c) for c in np.broadcast_to(skip, self.depth)),
            activation=self.activation,
            tied=not self.untied,
            heads=int(self.heads),
            output=self.output,
            head_weights=tuple(tuple(float(r) for r in row) for row in weights),
            limit=self.limit or "",
            root=self._root,
            ranks=self._ranks,
        )

    @cached_property
    def channel(self) -> Channel:
        """The channel, by exact inversion if the label and all other heads determine one head; else that of a link."""
        network = self.network
        if self.noise == 0 and np.all(np.array(network.head_weights) != 0):
            from glassformer.channels.multi_index.importance_sampling import Effort
            from glassformer.channels.multi_index.inverted_attention import InvertedAttentionChannel, inverts

            # Posteriors of up to two latent variables are easy; on curved surfaces more points are needed. More
            # than 64 do not make errors smaller for tied weights and at most four earlier fields, nor for two untied
            # layers: data points decide. Sixteenths of so few points show no bias, fourths do (by trial).
            easy, several, hard = Effort(32, 4, 8), Effort(64, 8, 8, (4,)), Effort(256, 16, 12)
            if network.tied and max(network.directions) == 1 and (network.rows - 1) * network.tokens <= 4:
                hard = several
            if network.shows_last_matrix and network.tied:
                from glassformer.channels.multi_index.tied_attention import TiedAttentionChannel

                alone = network.directions[-1] == 1 and (network.rows - 1) * network.tokens <= 2
                middle = network.rows == network.directions[-1]
                effort = easy if alone else Effort(32, 8, 8) if middle else hard
                points = self.points if max(network.directions) == 1 else max(32, self.points // 2)
                return TiedAttentionChannel(network, effort=effort, points=points)
            if network.shows_last_matrix and max(network.directions) == 1:
                from glassformer.channels.multi_index.untied_attention import UntiedAttentionChannel

                # Eight starts find the modes of two layers as well as sixteen (by trial).
                effort = {1: Effort(64, 8, 10), 2: Effort(64, 8, 12, (4,))}.get(network.depth, hard)
                return UntiedAttentionChannel(network, effort=effort, points=self.points)
            if inverts(network):
                # Saturated layers need more work on each data point, and fewer data points are used.
                simple = network.depth == 1 and network.rows == 2
                effort, points = (Effort(64, 16, 8), self.points) if simple else (Effort(256, 32, 10), self.points // 4)
                return InvertedAttentionChannel(network, effort=effort, points=max(32, points))
        from glassformer.channels.multi_index.link_channel import LabelSettings, link_channel

        rotations = RowSymmetries.of_rotations(network.groups) if max(network.directions) > 1 else None
        settings = LabelSettings(self.noise, "continuous")
        return link_channel(attention_link(network), network.rows, network.tokens, settings, self.points, rotations)

    @property
    def row_names(self) -> tuple[str, ...]:
        if self.limit == "large-depth":
            return ("last layer",)
        directions = self.network.directions
        return tuple(
            f"{name}{'' if directions[layer] == 1 else f', direction {k + 1}'}{head}"
            for name, layer, k, head in self._rows()
        )

    @property
    def learned_rows(self) -> str:
        if self.limit == "large-depth" and self.depth > 1:
            return "the last layer alone, as earlier ones cannot be learned in this limit"
        return super().learned_rows

    def _rows(self) -> Iterator[tuple[str, int, int, str]]:
        """Yield name and number of the layer, number of the direction, and name of the head, for every row."""
        families = ("key of ", "query of ") if self.untied else ("",)
        heads = [""] if self.heads == 1 else [f", head {h + 1}" for h in range(self.heads)]
        for family in families:
            for layer, rank in enumerate(self.network.directions):
                for k in range(rank):
                    for head in heads:
                        yield f"{family}layer {layer + 1}", layer, k, head

    @property
    def row_groups(self) -> dict[str, tuple[int, ...]]:
        groups: dict[str, tuple[int, ...]] = {}
        for row, (name, _, _, head) in enumerate(self._rows()):
            groups[f"{name}{head}"] = (*groups.get(f"{name}{head}", ()), row)
        for rows in self.network.exchangeable:
            members = [name for name, own in groups.items() if own[0] in rows]
            for name in members:
                del groups[name]
            groups[f"committee of {', '.join(members)}"] = rows
        return groups if self.limit != "large-depth" else super().row_groups

    @property
    def last_layer(self) -> Array | None:
        if self.depth == 1 or self.prior.rows == 1:
            return None
        return np.array([float(layer == self.depth - 1) for _, layer, _, _ in self._rows()])

    @property
    def parameters(self) -> dict[str, Any]:
        network = self.network
        return {
            "depth": network.depth,
            "tokens": network.tokens,
            "skip": network.skip[0] if len(set(network.skip)) == 1 else list(network.skip),
            "activation": network.activation,
            "untied": not network.tied,
            "heads": network.heads,
            "output": network.output,
            **({} if self.head_weights is None else {"head_weights": [list(row) for row in network.head_weights]}),
            "noise": float(self.noise),
            "side_information": float(self.side_information),
            **({"limit": self.limit} if self.limit else {}),
            **({} if max(network.directions) == 1 else {"rank": list(network.directions)}),
            **correlation_record(self.token_correlation, network.root),
            **named(self.prior),
            "points": int(self.points),
            "alpha": "n/d",
        }

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.heads > 1:
            raise IncompatibleError(f"trains networks of one head, and this model has heads = {self.heads}")
        return self.channel.traceable_label

    def at_size(self, d: int) -> FiniteSize:
        """Return the model itself; ``d`` must be a multiple of the number of heads."""
        if d % self.heads:
            raise IncompatibleError(f"d = {d} and heads = {self.heads}: make d a multiple of heads")
        return FiniteSize(self, projection_design(self.heads), (int(self.tokens), d), float(d))
