"""`gdnbench list`: what have I got?"""

from __future__ import annotations

from gdnbench.cli.options import Csv, Json


def list_kernels(json: Json = False, csv: Csv = False) -> None:
    """List every kernel: presets, language, params, requirements, idea.

    Kernels come from `kernels/` and from the folders in `GDNBENCH_KERNELS`.
    A folder that does not load is listed as broken, with the reason.
    """
    from gdnbench.catalog import load_catalog
    from gdnbench.report.catalog_table import catalog_documents, print_catalog
    from gdnbench.report.console import print_csv, print_json

    catalog = load_catalog()
    if json:
        print_json(catalog_documents(catalog))
    elif csv:
        print_csv(catalog_documents(catalog))
    else:
        print_catalog(catalog)
