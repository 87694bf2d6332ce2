r"""Sequence multi-index models: any function of a few projections of the tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.label_laws import NAMES as LABEL_LAWS
from glassformer.channels.label_laws import noise_label
from glassformer.channels.sampling_limits import require_sampling
from glassformer.core.accuracy import USUAL, Accuracy
from glassformer.core.errors import IncompatibleError
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid, parse_number, parse_text
from glassformer.core.resources import farthest_from_default
from glassformer.core.settings import check_settings, positive_integer, unit_interval
from glassformer.designs.projection import projection_design
from glassformer.inputs.drawn_fields import DrawnFields
from glassformer.inputs.hidden_states import HiddenStates
from glassformer.inputs.named import NAMES as INPUTS
from glassformer.inputs.named import inputs_of
from glassformer.models.base import FiniteSize, SampledModel
from glassformer.models.state_link import StateLink, takes_state, token_orders
from glassformer.models.token_correlation import CorrelatedTokensLink, Root, correlation_record, correlation_root
from glassformer.priors.laws import NAMES
from glassformer.priors.resolve import named, rows_prior


@dataclass(frozen=True)
class SequenceMultiIndex(SampledModel):
    r"""Labels :math:`y = g(Z) + \sqrt\Delta\,` noise with :math:`Z = WX^T/\sqrt d`, learned from ``n = alpha d``.

    Equation :eq:`model-smi` of the documentation.

    ``Z`` has shape (P, L); tokens ``X``, shape (L, d), and weights ``W``, shape (P, d), have standard normal
    entries. Overlaps are matrices :math:`Q = \hat W W^T/d`, errors their complement :math:`I - Q`.

    Args:
        link: ``g``, a function from the fields ``Z`` of one sample to a number or an array, which JAX can trace; with
            one index and one token it may use NumPy (see :class:`~glassformer.channels.link.contract.Link`). With
            ``inputs`` a function of two arguments gets the number of the hidden state as well: the place of the token,
            or the class. None for labels that are the hidden state.
        indices: ``P``, number of rows.
        tokens: ``L``, tokens per sequence.
        noise: :math:`\Delta\ge 0`, the variance of Gaussian noise on every entry of the label.
        label_type: ``"discrete"``, ``"continuous"``, or ``"auto"`` to decide from sampled labels.
        side_information: strength :math:`\lambda` in [0, 1) of side information on the weights.
        noise_law: law of labels given the link, instead of ``noise``: ``"laplace:SCALE"``, ``"logistic"`` (labels
            :math:`\pm1`, the link is their log-odds), ``"poisson"`` (counts, the link is the logarithm of their rate),
            or a user-defined :class:`~glassformer.channels.label_laws.LabelLaw`, given by its log-likelihood. For
            discrete labels ``"flip:PROBABILITY"``, ``"neighbour:PROBABILITY"`` (ordinal labels), or a confusion matrix,
            :class:`~glassformer.channels.confusion.Confusion`.
        token_correlation: correlation of the tokens of one sequence, a number ``c`` for :math:`C_{lm} = c^{|l-m|}` or
            the matrix ``C``. Labels are those of correlated tokens; data contain independent tokens: multiply
            correlated tokens by :math:`C^{-1/2}`.
        feature_spectrum: eigenvalues of the covariance :math:`\Sigma` of the features, of equal multiplicity and mean
            one; overlaps and errors are those of :math:`W\Sigma^{1/2}`, on which labels depend.
        inputs: law of the inputs along the rows of the teacher, from :mod:`glassformer.inputs`: a
            :class:`~glassformer.inputs.hidden_token.HiddenToken`, a :class:`~glassformer.inputs.mixture.Mixture`, or
            another :class:`~glassformer.inputs.law.FieldLaw`, also one that is given by a sampler of the fields,
            :class:`~glassformer.inputs.field_sampler.FieldSampler`; by name ``"hidden-token:SIGNAL"``. Standard normal
            by default. With correlated tokens shifts are those of their fields.
        prior: law of the weights: ``"gaussian"``, ``"rademacher"``, ``"gauss-bernoulli:SPARSITY"``, or any
            :class:`~glassformer.priors.law.Law` of mean zero and variance one; standard normal by default.
            As an attribute: the prior of the rows.

    Raises:
        ParameterError: an argument is out of range.
        LinkError: the link fails, is random, not finite, or not traceable.
        IncompatibleError: discrete labels with noise, a prior that is incompatible with the model, or inputs that
            exclude another parameter.

    Source: Troiani, Cui, Dandi, Krzakala, Zdeborova, arXiv:2502.00901; with hidden tokens Duranthon et al.,
    arXiv:2509.21936; mixtures Mignacco, Krzakala, Lu, Zdeborova, arXiv:2002.11544.

    Example:
        >>> from glassformer import limits
        >>> model = SequenceMultiIndex(lambda z: z[0, 0], indices=1, tokens=1)  # noiseless linear: q = alpha
        >>> limits(model, [0.5])["overlap"].round(6).tolist()
        [[[0.5]]]
        >>> from glassformer.inputs import Mixture
        >>> classes = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0]))  # the label is the class
        >>> limits(classes, [1.0])["label_error"].round(6)
        array([0.23975])
    """

    link: Callable[..., Any] | None = parameter(
        "function of one sample, from fields Z of shape (P, L), and with inputs the hidden state, to a label; NumPy or "
        "jax.numpy. Its file is run. The word class: the label is the hidden state",
        metavar="FILE.py:FUNCTION",
        opens_file=True,
    )
    indices: int = parameter("directions P of the weights", 1, required=True, check=positive_integer)
    tokens: int = parameter("tokens L per sequence", 1, check=positive_integer)
    noise: float = parameter("label noise variance Delta", 0.0, usual=(0.0, 1.0), begin=0.1)
    label_type: str = parameter("auto, discrete or continuous", "auto", among=("auto", "discrete", "continuous"))
    side_information: float = parameter("strength lambda in [0, 1) of the side information", 0.0, check=unit_interval)
    noise_law: Any = parameter(
        f"law of labels around the link, instead of noise: {', '.join(LABEL_LAWS)} (poisson: link is the log rate)",
        None,
        read=parse_text,
    )
    token_correlation: float | Any = parameter("correlation of neighbouring tokens in (-1, 1)", 0.0, read=parse_number)
    feature_spectrum: Any = parameter(
        "eigenvalues of the covariance of the features, of mean one, as a comma list", None, read=parse_grid
    )
    prior: Any = parameter(f"law of the weights: {', '.join(NAMES)}", None, read=parse_text)
    inputs: Any = parameter(
        f"law of the inputs along the teacher's rows: {', '.join(INPUTS)}, or FILE.py:OBJECT",
        None,
        read=parse_text,
        opens_file=True,
        named=INPUTS,
    )

    _accuracy: Accuracy = field(default=USUAL, kw_only=True, repr=False)

    has_user_link = True
    name = "smi"

    def __post_init__(self) -> None:
        check_settings(self)
        set_fields(self, inputs=inputs_of(self.inputs))
        self._require_compatible_inputs()
        images = 2.0 ** min(self.indices, 10)
        require_sampling(
            *farthest_from_default(self, "indices", "tokens", "points"), self.indices * self.tokens, images, self.points
        )
        # Constructing the channel raises an error for invalid links now, not at the first computation.
        _ = self.channel
        shape = (int(self.indices), 1, float(self.side_information))
        set_fields(self, prior=rows_prior(self.prior, *shape, self.feature_spectrum))

    def _require_compatible_inputs(self) -> None:
        """Raise if the law of the inputs excludes other parameters."""
        if self.inputs is None:
            if self.link is None or takes_state(self.link):
                what = "None" if self.link is None else "a link of two arguments"
                raise IncompatibleError(
                    f"link = {what} needs a hidden state: give inputs, for instance HiddenToken(2.0)"
                )
            return
        if self._drawn is not None and (self.link is None or takes_state(self.link)):
            raise IncompatibleError(
                f"inputs = {self.inputs.label} draw fields and have no hidden state: give a link of the fields alone, "
                "or inputs with hidden states, such as Mixture"
            )
        excluded = {"feature_spectrum": self.feature_spectrum is not None}
        if self._drawn is not None:
            excluded["token_correlation"] = bool(self._root)
        if self.link is None:
            excluded |= {"noise": bool(self.noise), "noise_law": self.noise_law is not None}
        for name, given in excluded.items():
            if given:
                both = f"inputs = {self.inputs.label} and {name} = {getattr(self, name)!r}"
                raise IncompatibleError(f"{both} exclude each other: leave one out")

    @cached_property
    def channel(self) -> Channel:
        """The channel for the type of the labels."""
        from glassformer.channels.drawn_fields import DrawnFieldsChannel
        from glassformer.channels.multi_index.link_channel import link_channel

        states = self._hidden_states
        if states is not None:
            return self._tilted_channel(states)
        link = self._of_independent_tokens(cast("Callable[[Any], Any]", self.link))
        channel = link_channel(link, self.indices, self.tokens, self._label_settings, self.points)
        return channel if self._drawn is None else DrawnFieldsChannel(channel, self._drawn, self.points)

    @cached_property
    def _drawn(self) -> DrawnFields | None:
        """Fields along the rows that a sampler draws; None for other laws."""
        return None if self.inputs is None else self.inputs.drawn(int(self.indices), int(self.tokens))

    @property
    def _label_settings(self) -> Any:
        from glassformer.channels.multi_index.link_channel import LabelSettings

        return LabelSettings(self.noise, self.label_type, self.noise_law)

    @cached_property
    def _hidden_states(self) -> HiddenStates | None:
        """Hidden states of the samples; None if they have no effect on fields or labels."""
        if self.inputs is None or self._drawn is not None:
            return None
        states = self.inputs.states(int(self.indices), int(self.tokens))
        if self._root:
            # Shifts are those of correlated tokens, and data contain independent ones.
            states = replace(states, shifts=states.shifts @ np.linalg.inv(np.array(self._root)))
        depends = self.link is None or takes_state(self.link)
        return states if depends or np.any(states.shifts) else None

    @cached_property
    def _root(self) -> Root:
        """Symmetric root of the correlation matrix of the tokens; empty for independent tokens."""
        return correlation_root(self.token_correlation, int(self.tokens))

    def _tilted_channel(self, states: HiddenStates) -> Channel:
        from glassformer.channels.class_label import ClassChannel
        from glassformer.channels.tilted import TiltedChannel

        if self.link is None:
            return ClassChannel(states)
        own = [StateLink(self.link, k) for k in range(states.count)] if takes_state(self.link) else [self.link]
        links = [self._of_independent_tokens(one) for one in own]
        orders = token_orders(links, int(self.indices), int(self.tokens))
        return TiltedChannel(states, tuple(map(self._given_state, links[: 1 if orders else None])), orders, self.points)

    def _of_independent_tokens(self, link: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a link of the fields of correlated tokens as a function of those of independent tokens."""
        return CorrelatedTokensLink(link, self._root) if self._root else link

    def _given_state(self, link: Callable[[Any], Any]) -> Channel:
        """Return the channel of the labels given a hidden state."""
        from glassformer.channels.multi_index.linear_rows import linear_channel
        from glassformer.channels.multi_index.link_channel import link_channel

        # All checks of links and settings are those of the general channel.
        channel = link_channel(link, self.indices, self.tokens, self._label_settings, self.points)
        if self.noise_law is not None or channel.labels.discrete:
            return channel
        return linear_channel(link, self.indices, self.tokens, self.noise, self.points) or channel

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "link": "class" if self.link is None else getattr(self.link, "__name__", repr(self.link)),
            "indices": int(self.indices),
            "tokens": int(self.tokens),
            "noise": float(self.noise),
            **({} if self.noise_law is None else {"noise_law": noise_label(self.noise_law)}),
            "label_type": self.label_type,
            "side_information": float(self.side_information),
            **correlation_record(self.token_correlation, self._root),
            **({} if self.feature_spectrum is None else {"feature_spectrum": list(self.prior.spectrum)}),
            **named(self.prior),
            **({} if self.inputs is None else {"inputs": self.inputs.label}),
            "points": int(self.points),
            "alpha": "n/d",
        }

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        return self.channel.traceable_label

    def at_size(self, d: int) -> FiniteSize:
        """Return the model itself."""
        return FiniteSize(self, projection_design(1), (int(self.tokens), d), float(d))
