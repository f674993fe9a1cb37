"""The C loop that launches kernels by the driver's own functions, and its build."""
