"""The Bayes-optimal error of bilinear sequence regression, computed the plain way.

A direct transcription of arXiv:2410.18858: the roots of the quartic at every quadrature point, adaptive quadrature for
the two integrals, and one scalar root search per sample ratio. It serves as a yardstick for speed and as a check.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq


def quartic(z: float, beta: float, rho: float, R: float) -> list[float]:
    """Coefficients ``a4 .. a0`` of the quartic in ``w``, where ``G(z) = z w``."""
    psi, phi, zeta, eta = rho, rho / beta, np.sqrt(beta), (1 + R) * np.sqrt(beta)
    y = z * z
    a0 = -(psi**3)
    a1 = psi * (zeta * (psi - phi) + psi * (eta * (phi - psi) + psi * y))
    a2 = -(zeta**2) * (phi - psi) ** 2
    a2 += zeta * (eta * (phi - psi) ** 2 + psi * y * (2 * phi - psi)) - eta * psi**2 * y * phi
    a3 = -zeta * y * phi * (2 * zeta * psi - 2 * zeta * phi - 2 * eta * psi + 2 * eta * phi + psi * y)
    a4 = zeta * y**2 * phi**2 * (eta - zeta)
    return [a4, a3, a2, a1, a0]


def density(x: float, beta: float, rho: float, R: float) -> float:
    """Density of the symmetrised singular values at ``x > 0``."""
    return x * np.max(np.roots(quartic(x, beta, rho, R)).imag) / np.pi


def bulks(beta: float, rho: float, R: float) -> list[tuple[float, float]]:
    """Intervals that carry the singular values.

    The quartic gives ``z^2`` as a rational function of the signal's moment; its stationary values are the edges.
    """
    moment = np.poly1d([1.0, 0.0])
    width = np.poly1d([1 / rho, 1.0])
    top = ((moment + 1) * width + R * moment) * ((moment / beta + 1) * width + R / beta * moment)
    bottom = moment * width
    stationary = (top.deriv() * bottom - top * bottom.deriv()).roots
    real = stationary[np.abs(stationary.imag) < 1e-9 * np.abs(stationary)].real
    squares = np.sqrt(beta) * top(real) / bottom(real)
    edges = np.sqrt(np.sort(squares[squares > 1e-12 * squares.max()]))
    if beta == 1:
        edges = np.append(0.0, edges)
    return [(a, b) for a, b in itertools.pairwise(edges) if density(0.5 * (a + b), beta, rho, R) > 1e-6 / (b - a)]


def mmse(beta: float, rho: float, R: float) -> float:
    """``MMSE(R)`` by the published formula."""

    def over_bulk(f, low: float, high: float) -> float:
        # The square-root edges are regular in the angle.
        middle, half = 0.5 * (low + high), 0.5 * (high - low)

        def integrand(angle: float) -> float:
            x = middle - half * np.cos(angle)
            return f(x, density(x, beta, rho, R)) * half * np.sin(angle)

        return quad(integrand, 0.0, np.pi, epsabs=1e-12, epsrel=1e-10, limit=200)[0]

    support = bulks(beta, rho, R)
    bracket = 4 * np.pi**2 / 3 * 2 * sum(over_bulk(lambda x, mu: mu**3, *bulk) for bulk in support)
    if beta != 1:
        bracket += (beta - 1) ** 2 * 2 * sum(over_bulk(lambda x, mu: mu / x**2, *bulk) for bulk in support)
    return R - R**2 / beta**1.5 * bracket


def bayes_optimal_error(alpha: float, beta: float, rho: float, noise: float = 0.0) -> float:
    """Error at the fixed point ``alpha R - noise = MMSE(R)``, for ``beta >= 1``."""
    if alpha == 0:
        return 1.0
    recovery = rho * (1 + beta - rho) / beta if rho < min(1.0, beta) else 1.0
    if noise == 0 and alpha >= recovery:
        return 0.0
    low, high = max(noise, 1e-9) / alpha, (1 + noise) / alpha
    R = brentq(lambda R: alpha * R - noise - mmse(beta, rho, R), low, high, rtol=1e-10)
    return alpha * R - noise
