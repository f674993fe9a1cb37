"""Functions of lone files, timed as kernels are: their inputs as text, what they return, and the op made of them."""
