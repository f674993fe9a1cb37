"""NVIDIA's compute-sanitizer: one launch of a kernel under each of its tools, and what they say, by line."""
