"""How often other ways of timing reach a right verdict on a microsecond kernel, next to gdnbench.

A trial is what a user of a tool does once: measure kernel A and kernel B at the tool's defaults, and decide in the way
that the tool's users decide. What is true of A and B is known: B is A under another name, or A with a chain of
dependent additions planted in it, as `gdnbench doctor --calibrate` plants them. `README.md` says how to run it and
how to read its table.

What a verdict on B is worth:

- **right**: it names the slower kernel; of equal kernels, it says that they are the same.
- **wrong**: it names the wrong one, or claims a difference of equal kernels; or it says "same" of a slowdown above the
  margin that the tool states.
- **undecided**: the tool says that it cannot tell; or it says "same" of a slowdown within the margin that it states:
  "less than 0.5 % apart" is true of kernels 0.3 % apart, and does not find that one of them is slower.

A tool that cannot decline is so never undecided, and one that always declines is never wrong: read the three together.
"""
