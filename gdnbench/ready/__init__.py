"""Checks in order whether a kernel is ready for a contest or a library, each as its verb does."""
