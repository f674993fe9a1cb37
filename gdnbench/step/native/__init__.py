"""The C loop that launches kernels by the driver's own functions, and how it is built."""
