"""BibTeX of the papers of models and learners."""

from __future__ import annotations

from collections.abc import Iterable

from glassformer.core.errors import ParameterError
from glassformer.learners.registry import LEARNERS, learner_type
from glassformer.models.registry import MODELS

_ZDEBOROVA = "Zdeborov{\\'a}, Lenka"
_PAPERS = {
    "erba2025bilinear": {
        "author": f"Erba, Vittorio and Troiani, Emanuele and Biggio, Luca and Maillard, Antoine and {_ZDEBOROVA}",
        "title": "Bilinear sequence regression: A model for learning from long sequences of high-dimensional tokens",
        "journal": "Physical Review X",
        "year": "2025",
        "eprint": "2410.18858",
    },
    "boncoraglio2025bayes": {
        "author": f"Boncoraglio, Fabrizio and Troiani, Emanuele and Erba, Vittorio and {_ZDEBOROVA}",
        "title": "Bayes optimal learning of attention-indexed models",
        "year": "2025",
        "eprint": "2506.01582",
    },
    "maillard2024bayes": {
        "author": "Maillard, Antoine and Troiani, Emanuele and Martin, Simon and Krzakala, Florent and " + _ZDEBOROVA,
        "title": "Bayes-optimal learning of an extensive-width neural network from quadratically many samples",
        "year": "2024",
        "eprint": "2408.03733",
    },
    "troiani2025fundamental": {
        "author": "Troiani, Emanuele and Cui, Hugo and Dandi, Yatin and Krzakala, Florent and " + _ZDEBOROVA,
        "title": "Fundamental limits of learning in sequence multi-index models and deep attention networks",
        "year": "2025",
        "eprint": "2502.00901",
    },
    "lu2025asymptotic": {
        "author": "Lu, Yue M. and Letey, Mary I. and Zavatone-Veth, Jacob A. and Maiti, Anindita and Pehlevan, Cengiz",
        "title": "Asymptotic theory of in-context learning by linear attention",
        "journal": "Proceedings of the National Academy of Sciences",
        "year": "2025",
        "eprint": "2405.11751",
    },
    "donoho2013phase": {
        "author": "Donoho, David L. and Gavish, Matan and Montanari, Andrea",
        "title": "The phase transition of matrix recovery from {G}aussian measurements matches the minimax {MSE} of "
        "matrix denoising",
        "journal": "Proceedings of the National Academy of Sciences",
        "year": "2013",
    },
    "erba2025nuclear": {
        "author": "Erba, Vittorio and Troiani, Emanuele and Krzakala, Florent and " + _ZDEBOROVA,
        "title": "The nuclear route: sharp asymptotics of {ERM} in overparameterized quadratic networks",
        "year": "2025",
        "eprint": "2505.17958",
    },
    "salehi2019impact": {
        "author": "Salehi, Fariborz and Abbasi, Ehsan and Hassibi, Babak",
        "title": "The impact of regularization on high-dimensional logistic regression",
        "year": "2019",
        "eprint": "1906.03761",
    },
    "sur2019modern": {
        "author": "Sur, Pragya and Cand{\\`e}s, Emmanuel J.",
        "title": "A modern maximum-likelihood theory for high-dimensional logistic regression",
        "journal": "Proceedings of the National Academy of Sciences",
        "year": "2019",
        "eprint": "1803.06964",
    },
    "mignacco2020dynamical": {
        "author": "Mignacco, Francesca and Krzakala, Florent and Urbani, Pierfrancesco and " + _ZDEBOROVA,
        "title": "Dynamical mean-field theory for stochastic gradient descent in {G}aussian mixture classification",
        "year": "2020",
        "eprint": "2006.06098",
    },
    "celentano2021high": {
        "author": "Celentano, Michael and Cheng, Chen and Montanari, Andrea",
        "title": "The high-dimensional asymptotics of first order methods with random data",
        "year": "2021",
        "eprint": "2112.07572",
    },
    "gerbelot2022rigorous": {
        "author": "Gerbelot, C{\\'e}dric and Troiani, Emanuele and Mignacco, Francesca and Krzakala, Florent and "
        + _ZDEBOROVA,
        "title": "Rigorous dynamical mean field theory for stochastic gradient descent methods",
        "year": "2022",
        "eprint": "2210.06591",
    },
    "aubin2020generalization": {
        "author": "Aubin, Benjamin and Krzakala, Florent and Lu, Yue M. and " + _ZDEBOROVA,
        "title": "Generalization error in high-dimensional perceptrons: Approaching {B}ayes error with convex "
        "optimization",
        "year": "2020",
        "eprint": "2006.06560",
    },
    "thrampoulidis2018precise": {
        "author": "Thrampoulidis, Christos and Abbasi, Ehsan and Hassibi, Babak",
        "title": "Precise error analysis of regularized {M}-estimators in high dimensions",
        "journal": "IEEE Transactions on Information Theory",
        "year": "2018",
        "eprint": "1601.06233",
    },
    "donoho2005neighborliness": {
        "author": "Donoho, David L. and Tanner, Jared",
        "title": "Neighborliness of randomly projected simplices in high dimensions",
        "journal": "Proceedings of the National Academy of Sciences",
        "year": "2005",
    },
    "loureiro2021learning": {
        "author": "Loureiro, Bruno and Gerbelot, C{\\'e}dric and Cui, Hugo and Goldt, Sebastian and "
        "Krzakala, Florent and M{\\'e}zard, Marc and " + _ZDEBOROVA,
        "title": "Learning curves of generic features maps for realistic datasets with a teacher-student model",
        "year": "2021",
        "eprint": "2102.08127",
    },
    "cornacchia2023learning": {
        "author": "Cornacchia, Elisabetta and Mignacco, Francesca and Veiga, Rodrigo and Gerbelot, C{\\'e}dric and "
        "Loureiro, Bruno and " + _ZDEBOROVA,
        "title": "Learning curves for the multi-class teacher-student perceptron",
        "year": "2023",
        "eprint": "2203.12094",
    },
    "cui2024phase": {
        "author": "Cui, Hugo and Behrens, Freya and Krzakala, Florent and " + _ZDEBOROVA,
        "title": "A phase transition between positional and semantic learning in a solvable model of dot-product "
        "attention",
        "year": "2024",
        "eprint": "2402.03902",
    },
    "saad1995on": {
        "author": "Saad, David and Solla, Sara A.",
        "title": "On-line learning in soft committee machines",
        "journal": "Physical Review E",
        "year": "1995",
    },
    "li2002learning": {
        "author": "Li, Xin and Roth, Dan",
        "title": "Learning question classifiers",
        "booktitle": "Proceedings of the 19th International Conference on Computational Linguistics",
        "year": "2002",
    },
}
# Uses that are neither models nor learners.
_FURTHER = {"text": ("troiani2025fundamental", "li2002learning")}


def _papers() -> dict[str, tuple[str, ...]]:
    """Keys of the papers of every model, learner and further use, by its name."""
    models = {name: entry.papers for name, entry in MODELS.items()}
    package = tuple(dict.fromkeys(key for papers in models.values() for key in papers))
    learners = {name: learner_type(name).info.papers or package for name in LEARNERS}
    return {**models, **learners, **_FURTHER}


def used() -> tuple[str, ...]:
    """Names of everything with papers to cite."""
    return tuple(_papers())


def bibtex(used: Iterable[str] = ()) -> str:
    """Return BibTeX entries of the papers to cite for what was used, each once.

    Args:
        used: models, learners (one without papers of its own stands for the papers of all models), ``text``; everything
            if empty.

    Raises:
        ParameterError: an unknown name.

    Example:
        >>> print(bibtex(["aim"]).splitlines()[0])
        @misc{boncoraglio2025bayes,
    """
    known = _papers()
    names = list(used) or list(known)
    for name in names:
        if name not in known:
            raise ParameterError("used", name, f"one of {', '.join(known)}")
    entries = []
    for key in dict.fromkeys(key for name in names for key in known[name]):
        fields = _fields(key)
        kind = "article" if "journal" in fields else "inproceedings" if "booktitle" in fields else "misc"
        archive = {"archiveprefix": "arXiv"} if "eprint" in fields else {}
        lines = [f"  {name} = {{{value}}}," for name, value in {**fields, **archive}.items()]
        entries.append("\n".join([f"@{kind}{{{key.replace(':', '')},", *lines, "}"]))
    return "\n\n".join(entries)


def arxiv(name: str) -> str:
    """Return the arXiv number of the first paper of a model or a learner.

    Example:
        >>> arxiv("bsr")
        '2410.18858'
    """
    return eprint(_papers()[name][0])


def eprint(key: str) -> str:
    """Return the arXiv number of a paper by its key.

    Example:
        >>> eprint("cui2024phase")
        '2402.03902'
    """
    return _fields(key)["eprint"]


def _fields(key: str) -> dict[str, str]:
    """BibTeX fields of a paper, or only its arXiv number if that is given in place of a key."""
    return _PAPERS.get(key, {"eprint": key.removeprefix("arXiv:")})
