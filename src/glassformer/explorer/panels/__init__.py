"""Panels of the page: each asks one public function of the package and draws what it says."""
