"""The entry point of `python -m gdnbench` and of the program `gdnbench`."""

import gc
import sys

_ALLOCATIONS = 100_000
"""Allocations between two collections of garbage, 700 by default: imports and stored runs leave little garbage."""


def main() -> int:
    """Runs the command line; returns exit code 70, which nothing else has, if it does not load."""
    gc.set_threshold(_ALLOCATIONS, 50, 100)  # a tenth of a second of `history` over 5,000 runs
    try:
        from gdnbench.verbs.app import main as run
    except KeyboardInterrupt:  # `run_to_exit_code`, which says the same, may not be imported yet
        exec("")
        return 130
    except Exception:  # such as a truncated compiled module: Python's own exit code, 1, would mean a regression
        import traceback

        traceback.print_exc()
        print("error: gdnbench does not load; install it anew, or remove its __pycache__ folders", file=sys.stderr)
        return 70
    return run()


if __name__ == "__main__":
    sys.exit(main())
