"""What `gdnbench inspect` prints of compiled kernels and their schedules."""
