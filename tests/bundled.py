"""The bundled ops and kernels, loaded once for all tests that only read them."""

from gdnbench.catalog.catalog import default_roots, load_catalog

CATALOG = load_catalog(default_roots()[:1])
