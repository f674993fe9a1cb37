"""A dispatcher of a test's own, in a folder of kernels."""

DECLARATION = '"""An idea."""\nfrom gdnbench import DispatchKernel\nkernel = DispatchKernel(name="decode-mine")\n'

H200_ROWS = """
[h200.qk4_v8]
source = "20260102-030405-h200-decode"
B1 = { kernel = "decode-v4", WARPS = 2 }
B8 = { kernel = "decode-v6" }
"""


def write_dispatcher(root, table=None, declaration=DECLARATION):
    """Puts `decode-mine` below a root of kernels, with this table if there is one; gives its folder."""
    folder = root / "decode" / "mine"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "variant.py").write_text(declaration)
    if table is not None:
        (folder / "dispatch.toml").write_text(table)
    return folder
