"""Makes one run of its parts, which were measured one by one, on several machines perhaps."""
