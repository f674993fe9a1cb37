"""The process that forks the tests' workers: besides torch it has imported what they import, gdnbench's modules, too.

A user's forks import gdnbench anew, since their parent may be older than its sources; this one is of the same test run.
"""

import sys

from gdnbench.process import warm_parent

OF_WORKERS = (
    "cuda.core",
    "gdnbench.functions.make",
    "gdnbench.measure.worker.cpu",
    "gdnbench.verify.examine",
    "gdnbench.verify.interpret",
)

if __name__ == "__main__":
    warm_parent.IMPORTED += OF_WORKERS
    warm_parent.forget_own_modules = lambda: None
    sys.exit(warm_parent.main(sys.argv[1:]))
