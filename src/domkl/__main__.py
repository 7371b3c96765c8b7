"""`python -m domkl` is the command `domkl`."""

import sys

from .cli import main

sys.exit(main())
