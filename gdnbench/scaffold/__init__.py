"""Makes a new kernel's folder from another kernel's; imports no torch."""
