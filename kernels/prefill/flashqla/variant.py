"""FlashQLA's TileLang kernels behind one launch for the gates, which it takes ready-made as g and beta.

Its users `pip install flash-qla`, and have nvcc. TileLang 0.1.15 wants apache-tvm-ffi below 0.1.13; to have FlashInfer
in the same environment, install apache-tvm-ffi 0.1.12. It refuses empty sequences.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="prefill-flashqla", runs_on=("cuda",), requires=(Requirement("flash_qla"),))
