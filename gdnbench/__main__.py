"""`python -m gdnbench`."""

import sys

from gdnbench.cli.app import main

sys.exit(main())
