// fp8-gemm-pos-v3 as it is, but for what its gate refuses.
#define COLUMNS 192
#define BLOCKS 132
#define CLUSTER 1
#define GROUPS 2
#define STAGGER 0
#define STAGED 0
#define EARLY 0
#define PERSIST 0
#define STREAM 0
#define PENDING 1
#define UNROLL 0
#define DESCRIPTORS 0
#define BANDED 0
#include "v3/kernel.cu"
