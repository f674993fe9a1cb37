"""Why a kernel takes as long as it does: what is known of it, rules that read it, and what to try next."""
