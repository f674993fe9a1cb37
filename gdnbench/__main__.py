"""`python -m gdnbench`, and the program `gdnbench`."""

import sys


def main() -> int:
    """Runs the command line; if that does not even load, says so with an exit code that means nothing else."""
    try:
        from gdnbench.cli.app import main as run
    except KeyboardInterrupt:  # as `exit_code_of` has it, which is not there yet
        exec("")
        return 130
    except Exception:  # as of a compiled module that was cut off: Python's own exit code would be that of a regression
        import traceback

        traceback.print_exc()
        print("error: gdnbench does not load; install it anew, or remove its __pycache__ folders", file=sys.stderr)
        return 70
    return run()


if __name__ == "__main__":
    sys.exit(main())
