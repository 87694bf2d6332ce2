"""Independent multi-precision evaluation of the law behind ``RectangularLaw``.

It rests on the quartic of arXiv:2410.18858 alone: ``G(z) = z w`` where ``a4 w^4 + ... + a0 = 0``. Inside the support
exactly one pair of roots is complex and the density is the imaginary part of ``G``; outside all roots are real. Edges
are zeros of the quartic's discriminant. Its complex zeros are the branch points off the real line: they decide how
finely the integrals are cut, so that Gauss-Legendre quadrature converges geometrically on every panel.
"""

import itertools
import math

import mpmath as mp
import numpy as np

PANEL_RATE = 3.0  # every panel's error falls at least like 3^(-2 nodes)
FINE, COARSE = 28, 20


def _multiply(p, q):
    product = [mp.mpf(0)] * (len(p) + len(q) - 1)
    for i, x in enumerate(p):
        for j, y in enumerate(q):
            product[i + j] += x * y
    return product


def _polynomial_sum(*terms):
    total = [mp.mpf(0)] * max(map(len, terms))
    for term in terms:
        for i, x in enumerate(term):
            total[i] += x
    return total


def _monomials(factor, *polynomials):
    product = [mp.mpf(factor)]
    for polynomial in polynomials:
        product = _multiply(product, polynomial)
    return product


class Oracle:
    """The law at ``beta >= 1``, width ratio ``rho`` and noise ``R``, computed with ``digits`` decimals."""

    def __init__(self, beta, rho, R, digits=50):
        self.digits = digits
        with mp.workdps(digits):
            self.beta, self.rho, self.R = (mp.mpf(float(x)) for x in (beta, rho, R))
            self.powers = self._quartic()
            self.branch_points = self._branch_points()
            self.bulks = self._bulks()

    def _quartic(self):
        """``a0 .. a4`` as polynomials in ``z^2``, lowest power first."""
        psi, phi, zeta = self.rho, self.rho / self.beta, mp.sqrt(self.beta)
        eta = (1 + self.R) * zeta
        a0 = [-(psi**3)]
        a1 = [psi * (zeta * (psi - phi) + psi * eta * (phi - psi)), psi**3]
        a2 = [
            -(zeta**2) * (phi - psi) ** 2 + zeta * eta * (phi - psi) ** 2,
            zeta * psi * (2 * phi - psi) - eta * psi**2 * phi,
        ]
        a3 = [
            mp.mpf(0),
            -zeta * phi * (2 * zeta * psi - 2 * zeta * phi - 2 * eta * psi + 2 * eta * phi),
            -zeta * phi * psi,
        ]
        a4 = [mp.mpf(0), mp.mpf(0), zeta * phi**2 * (eta - zeta)]
        return a0, a1, a2, a3, a4

    def _branch_points(self):
        """Zeros of the discriminant in ``z^2`` other than 0; double ones are crossings of two roots, not branches."""
        with mp.workdps(4 * self.digits):
            e, d, c, b, a = self._quartic()
            discriminant = _polynomial_sum(
                _monomials(256, a, a, a, e, e, e),
                _monomials(-192, a, a, b, d, e, e),
                _monomials(-128, a, a, c, c, e, e),
                _monomials(144, a, a, c, d, d, e),
                _monomials(-27, a, a, d, d, d, d),
                _monomials(144, a, b, b, c, e, e),
                _monomials(-6, a, b, b, d, d, e),
                _monomials(-80, a, b, c, c, d, e),
                _monomials(18, a, b, c, d, d, d),
                _monomials(16, a, c, c, c, c, e),
                _monomials(-4, a, c, c, c, d, d),
                _monomials(-27, b, b, b, b, e, e),
                _monomials(18, b, b, b, c, d, e),
                _monomials(-4, b, b, b, d, d, d),
                _monomials(-4, b, b, c, c, c, e),
                _monomials(1, b, b, c, c, d, d),
            )
            largest = max(abs(x) for x in discriminant)
            kept = [i for i, x in enumerate(discriminant) if abs(x) > largest * mp.mpf(10) ** (-3 * self.digits)]
            coefficients = discriminant[kept[0] : kept[-1] + 1]
            zeros = mp.polyroots(coefficients, maxsteps=3000, extraprec=16 * self.digits, asc=True)
            close = mp.mpf(10) ** (-self.digits // 2)
            single = [y for y in zeros if sum(abs(y - x) <= close * abs(y) for x in zeros) == 1]
        return [mp.sqrt(y) for y in single]

    def _bulks(self):
        """Intervals of singular values on which the quartic has complex roots."""
        tiny = mp.mpf(10) ** (-self.digits // 2)
        real = sorted(mp.re(x) for x in self.branch_points if abs(mp.im(x)) < tiny * abs(x))
        ends = [mp.mpf(0), *real]
        return [(a, b) for a, b in itertools.pairwise(ends) if self._is_inside((a + b) / 2)]

    def _coefficients(self, x):
        """``a0 .. a4`` at ``z = x``."""
        y = x * x
        return [a[0] + y * (a[1] + y * a[2] if len(a) == 3 else a[1] if len(a) == 2 else 0) for a in self.powers]

    def _complex_root(self, x):
        roots = mp.polyroots(self._coefficients(x), maxsteps=2000, extraprec=8 * self.digits, asc=True)
        return max(roots, key=mp.im)

    def _is_inside(self, x):
        root = self._complex_root(x)
        return mp.im(root) > abs(root) * mp.mpf(10) ** (-self.digits // 3)

    def _root_near(self, x, guess):
        """Newton's method from a neighbouring point; only one root has a positive imaginary part."""
        c0, c1, c2, c3, c4 = self._coefficients(x)
        w = guess
        for _ in range(25):
            value = (((c4 * w + c3) * w + c2) * w + c1) * w + c0
            slope = ((4 * c4 * w + 3 * c3) * w + 2 * c2) * w + c1
            step = value / slope
            w -= step
            if abs(step) < abs(w) * mp.mpf(10) ** (-(self.digits * 2) // 3):
                break
        else:
            return self._complex_root(x)
        return w if mp.im(w) > 0 else self._complex_root(x)

    def stieltjes(self, x):
        """``Re G + i pi mu`` at ``x`` inside the support."""
        with mp.workdps(self.digits):
            return complex(self._complex_root(mp.mpf(float(x))) * mp.mpf(float(x)))

    def edges(self):
        """Edges of the bulks as floats."""
        return [(float(a), float(b)) for a, b in self.bulks]

    def _panels(self, middle, half, first):
        """Cut the angle of ``x = middle - half cos(angle)``, from ``first`` to pi, away from all branch points."""
        points = [*self.branch_points, *(-x for x in self.branch_points)]
        if self.beta != 1:  # the pole of mu/x^2, an integral that beta = 1 does without
            points.append(mp.mpf(0))
        # The bulk's own edges become regular in the angle.
        images = [
            mp.acos((middle - x) / half) for x in points if abs(abs(middle - x) - half) > half * mp.mpf(10) ** -20
        ]
        shifted = [complex(s * a + 2 * mp.pi * k) for a in images for s in (1, -1) for k in (-1, 0, 1)]
        pending, done = [(float(first), math.pi)], []
        while pending:
            a, b = pending.pop()
            if all(_rate((z - (a + b) / 2) / ((b - a) / 2)) > PANEL_RATE for z in shifted):
                done.append((a, b))
            else:
                pending += [(a, (a + b) / 2), ((a + b) / 2, b)]
        return sorted(done)

    def _integrals(self, nodes):
        """Mass, integral of ``mu/x^2`` and of ``mu^3``, over both signs."""
        rule = [(mp.mpf(t), mp.mpf(w)) for t, w in _legendre(nodes, self.digits)]
        total = [mp.mpf(0)] * 3
        for low, high in self.bulks:
            symmetric = low == 0
            middle, half = (mp.mpf(0), high) if symmetric else ((low + high) / 2, (high - low) / 2)
            panels = self._panels(middle, half, mp.pi / 2 if symmetric else 0)
            # The ends of the angle are only known to double precision: put the outermost ones where they belong.
            panels[0] = (mp.pi / 2 if symmetric else mp.mpf(0), panels[0][1])
            panels[-1] = (panels[-1][0], +mp.pi)
            root = None
            for a, b in panels:
                for t, weight in rule:
                    angle = a + (b - a) * t
                    x = middle - half * mp.cos(angle)
                    root = self._complex_root(x) if root is None else self._root_near(x, root)
                    mu = x * mp.im(root) / mp.pi
                    weighted = 2 * weight * (b - a) * half * mp.sin(angle)
                    for i, integrand in enumerate((mu, mu / x**2, mu**3)):
                        total[i] += weighted * integrand
        return total

    def mmse(self):
        """``MMSE(R)``, the error of the quadrature and that of the total mass, the first two relative to the MMSE."""
        with mp.workdps(self.digits):
            results = []
            for nodes in (COARSE, FINE):
                mass, square, cube = self._integrals(nodes)
                # Where beta = 1 the factor vanishes and the integral does not exist.
                wall = (self.beta - 1) ** 2 * square if self.beta != 1 else 0
                bracket = wall + 4 * mp.pi**2 / 3 * cube
                results.append((self.R - self.R**2 / mp.sqrt(self.beta) ** 3 * bracket, mass))
            (coarse, _), (fine, mass) = results
            return float(fine), float(abs(fine - coarse) / fine), float(abs(mass - 1))


def _rate(z):
    """Parameter of the Bernstein ellipse through ``z``."""
    root = np.sqrt(z * z - 1 + 0j)
    return max(abs(z + root), abs(z - root))


def _legendre(nodes, digits):
    """Gauss-Legendre nodes and weights on (0, 1), refined to ``digits``."""
    rule = []
    for start in np.polynomial.legendre.leggauss(nodes)[0]:
        t = mp.mpf(float(start))
        for _ in range(int(math.log2(digits)) + 1):
            previous, value = _legendre_pair(nodes, t)
            slope = nodes * (t * value - previous) / (t * t - 1)
            t -= value / slope
        rule.append(((1 + t) / 2, 1 / ((1 - t * t) * slope**2)))
    return rule


def _legendre_pair(n, t):
    previous, value = mp.mpf(1), t
    for k in range(1, n):
        previous, value = value, ((2 * k + 1) * t * value - k * previous) / (k + 1)
    return previous, value
