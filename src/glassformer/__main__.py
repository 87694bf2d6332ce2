"""``python -m glassformer`` is the command line."""

from glassformer.interface.cli import main

raise SystemExit(main())
