"""Is this machine fit to measure on? Every rule is a function of plain data; only `run` looks around."""
