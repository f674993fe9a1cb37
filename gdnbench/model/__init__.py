"""The data types that the rest of gdnbench works on: frozen dataclasses without side effects."""
