"""An explorer in the browser: the public functions of the package behind controls, no theory of its own."""
