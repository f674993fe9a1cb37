"""Files of functions as a user has them: right ones, wrong ones and cheats, with a module beside that they import."""

from textwrap import dedent

FILES = {
    "mine.py": """
        import torch
        from beside import gain

        calls = []

        def slow(x, w, eps=1e-6):
            y = x.float()
            return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * w.float() * gain).to(x.dtype)

        def fast(x, w, eps=1e-6):
            return torch.nn.functional.rms_norm(x, w.shape, w, eps)

        def wrong(x, w):
            return x * w

        def zeros(x, w):
            return torch.zeros_like(x)

        def short(x, w):
            return slow(x, w)[:1]

        def in_place(x, w):
            return x.copy_(slow(x, w))

        def once(x, w):  # right at first
            calls.append(1)
            return slow(x, w) if len(calls) < 5 else torch.zeros_like(x)

        def parts(x, w):
            return x[:, :2], x.float().sum(1), (x > 0).any()

        def raises(x, w):
            return x[:, :, :, 0]

        def infinite(x, w):
            return x / 0

        def text(x, w):
            return "x"

        def nothing(x, w):
            return ()

        def gathered(table, rows):
            return table[rows]

        class Ops:
            @staticmethod
            def doubled(x):
                return 2 * x
    """,
    "beside.py": "gain = 1.0",
    "json.py": "raise RuntimeError('gdnbench imported what lies beside the functions')",
    "package/__init__.py": "",
    "package/constants.py": "two = 2",
    "package/ops.py": """
        from .constants import two

        def doubled(x):
            return two * x
    """,
    "exits.py": "raise SystemExit(3)",
    "dies.py": "import os; os._exit(3)",
    "broken.py": "\n\ndef f(x) return x",
    "measures.py": """
        import gdnbench

        def f(x):
            return x

        gdnbench.bench(f, {"x": "fp32[4]"})
    """,
    "mine.cu": """
        #include "types.cuh"

        // A block a row.
        extern "C" __global__ void __launch_bounds__(128) scaled(const real* x, const real* w, real* y, int K) {
            for (int i = threadIdx.x; i < K; i += blockDim.x)
                y[blockIdx.x * K + i] = x[blockIdx.x * K + i] * w[i];
        }

        __global__ void constant(const real* x, real* y, float eps) { y[0] = x[0] + eps; }
        __global__ void silent(const real* x, const real* w) {}
    """,
    "types.cuh": "typedef float real;",
}


def write_files(folder):
    """Writes the files into a folder, and returns it."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder
