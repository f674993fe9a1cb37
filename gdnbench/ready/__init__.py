"""Is a kernel ready to be sent to a contest or into a library? A few checks, in order, each by what its verb does."""
