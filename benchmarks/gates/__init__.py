"""Do the gates of the decode step pass every honest kernel, and no other?

`python -m benchmarks.gates` draws inputs as `gdnbench verify` does and asks it of both, on the CPU: of fp32 in every
way that kernels here and libraries take (`honest.py`), and of steps with something wrong (`mistakes.py`). What it
printed is in `honest.csv` and `mistakes.csv`; docs/verifying.md says what follows.
"""
