"""NVIDIA's compute-sanitizer: runs one launch of a kernel under each of its tools, and reads their findings by line."""
