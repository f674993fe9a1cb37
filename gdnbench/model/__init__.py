"""What the rest of gdnbench speaks of: frozen dataclasses, and nothing that runs."""
