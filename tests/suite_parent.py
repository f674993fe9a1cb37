"""The process that forks the tests' workers: it has imported what all workers do, torch and modules of gdnbench.

A user's forks import gdnbench anew, since their parent may be older than its sources; this one is of the same test run.
A module that tells a verifying worker from a timing one is not among them: kernels that cheat look for those.
"""

import os
import sys

from gdnbench.process import warm_parent

OF_WORKERS = ("cuda.core", "gdnbench.verify.rotation")
OF_INTERPRETERS = ("gdnbench.launch.interpret",)

if __name__ == "__main__":
    warm_parent.IMPORTED += OF_WORKERS + (OF_INTERPRETERS if os.environ.get("TRITON_INTERPRET") else ())
    warm_parent.forget_own_modules = lambda: None
    sys.exit(warm_parent.main(sys.argv[1:]))
