"""A kernel whose arguments do not fit its op: the message has the signature that was expected."""

import pytest
from refused_launches import CUDA, NUMERICS, OP, TRITON

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codegen.triton import compile_triton
from gdnbench.errors import GdnbenchError
from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import load
from gdnbench.launch.interpret import InterpretedCuda

ROWS = "grid=lambda workload, p: (workload.M,)"
CALL = "twice(x: fp32[M, N], y: fp32[M, N], M: int)"
PLAIN = CUDA % {"head": ""}
CUDA_KERNELS = {
    "one too few": (
        "None",
        PLAIN.replace(", int M", "").replace("(M)", "(4)"),
        "takes 2 parameters, and its launch gives 3",
    ),
    "one too many": ("None", PLAIN.replace("int M", "int M, int Q"), "takes 4 parameters, and its launch gives 3"),
    "a wider one": ("None", PLAIN.replace("int M", "long long M"), "8, 8, 8 bytes, and its launch gives 8, 8, 4"),
    "one that is none": ('("x", "q")', PLAIN, "twice takes q, and there is no such"),
}
TORCH_KERNELS = {
    "bind(tensors, workload)": "bind(tensors, workload) in kernel.py; expected: bind(tensors, workload, params)",
    "bind(tensors, workload, params, more)": "bind(tensors, workload, params), where tensors has (x: fp32[M, N]",
    "bind(*, tensors, workload, params)": "expected: bind(tensors, workload, params)",
}
BOUND = {
    "None": "gives a NoneType; expected: a function () that returns (y: fp32[M, N])",
    "lambda a: (a,)": "gives a function of (a); expected: a function () that returns (y: fp32[M, N])",
    "(tensors.q,)": "there is no q; expected: x, y",
}


@pytest.fixture
def told(tmp_path):

    def tell(declared, file, source, load_it=load):
        op = tmp_path / "twice"
        (op / "mine").mkdir(parents=True)
        for path, content in (("op.py", OP), ("numerics.py", NUMERICS), (f"mine/{file}", source)):
            (op / path).write_text(content)
        (op / "mine" / "variant.py").write_text(f"from gdnbench import *\nkernel = {declared}\n")
        entry = load_catalog([tmp_path]).entries["twice-mine"]
        workload = entry.op.workload({"M": 2})
        make = {"seed": 1, "device": "cpu", "scenario": "typical"}
        workspace = Workspace.make(entry.op, load_numerics(entry.op, op), workload, **make)
        with pytest.raises((GdnbenchError, AttributeError)) as caught:
            load_it(entry, entry.default, workload)(workspace)
        return str(caught.value)

    return tell


@pytest.mark.parametrize("fault", CUDA_KERNELS)
def test_a_cuda_launch_that_does_not_fit_its_function(told, fault):
    arguments, source, said = CUDA_KERNELS[fault]
    launch = f'CudaLaunch(entry="twice", arguments={arguments}, {ROWS}, block=lambda workload, p: 128)'
    kernel = f'CudaKernel(name="twice-mine", launches=({launch},))'
    message = told(kernel, "kernel.cu", source, lambda *case: InterpretedCuda(*case, "sm_90").run)
    assert said in message
    assert f"expected: {CALL}" in message


def test_a_triton_function_that_takes_what_nothing_provides(told):
    kernel = f'TritonKernel(name="twice-mine", entry="twice", {ROWS})'

    def compiled(entry, variant, workload):
        return compile_triton(entry, variant.params, workload, "sm_90")

    message = told(kernel, "kernel.py", TRITON.replace("(x, y", "(x, y, q"), compiled)
    assert "takes q, which nothing provides" in message
    assert "(x: fp32[M, N], y: fp32[M, N], N: constexpr, M: int)" in message


@pytest.mark.parametrize("head", TORCH_KERNELS)
def test_a_function_that_takes_other_parameters(told, head):
    message = told('TorchKernel(name="twice-mine")', "kernel.py", f"def {head}: ...\n")
    assert TORCH_KERNELS[head] in message


@pytest.mark.parametrize("bound", BOUND)
def test_a_function_that_gives_none_to_launch(told, bound):
    source = f"def bind(tensors, workload, params):\n    return {bound}\n"
    assert BOUND[bound] in told('TorchKernel(name="twice-mine")', "kernel.py", source)
