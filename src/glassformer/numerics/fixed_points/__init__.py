"""The solver of fixed points, and its methods: one module each."""
