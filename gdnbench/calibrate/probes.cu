// What a trip to memory, a barrier and a byte cost on this GPU: the kernels of `gdnbench doctor --latency`.
//
// Each probe writes what its loop took, in cycles of the SM's clock and in ns, so that their ratio is the clock, and on
// which SM it ran. `out` has four numbers: cycles, ns, the SM, and a result that keeps the loop from being left out.

typedef unsigned long long Address;

__device__ __forceinline__ long long cycles_now() {
  long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

__device__ __forceinline__ long long ns_now() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ __forceinline__ unsigned this_sm() {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

struct Stopwatch {
  long long cycles, ns;

  __device__ __forceinline__ Stopwatch() : cycles(0), ns(ns_now()) { cycles = cycles_now(); }

  __device__ __forceinline__ void write(Address* out, Address result) {
    const long long end = cycles_now(), end_ns = ns_now();
    out[0] = end - cycles;
    out[1] = end_ns - ns;
    out[2] = this_sm();
    out[3] = result;
  }
};

// Each place that is visited holds the address of the next one, so a load cannot begin before the one before has ended.
// Addresses are read as they are: what is computed between two loads would be part of the trip.
__device__ __forceinline__ Address next_by_l1(Address at) {
  Address next;
  asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(at) : "memory");
  return next;
}

__device__ __forceinline__ Address next_by_l2(Address at) {
  Address next;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(at) : "memory");
  return next;
}

__device__ __forceinline__ unsigned next_in_shared(unsigned at) {
  unsigned next;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(at) : "memory");
  return next;
}

// A store waits for the value that it stores: a clock that is read after it is read when the last load has ended.
__device__ __forceinline__ void wait_for(Address value) {
  __shared__ volatile Address arrived;
  arrived = value;
}

template <Address (*next)(Address)>
__device__ __forceinline__ void chase(Address before, int untimed, Address first, int steps, Address* out) {
  for (int i = 0; i < untimed; ++i) before = next(before);
  wait_for(before);
  Address at = first;
  Stopwatch watch;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) at = next(at);
  wait_for(at);
  watch.write(out, at);
}

// One thread: `untimed` trips from `before`, which fill caches and translations, then `steps` timed ones from `first`.
extern "C" __global__ void gdnbench_chase_l1(Address before, int untimed, Address first, int steps, Address* out) {
  chase<next_by_l1>(before, untimed, first, steps, out);
}

extern "C" __global__ void gdnbench_chase_l2(Address before, int untimed, Address first, int steps, Address* out) {
  chase<next_by_l2>(before, untimed, first, steps, out);
}

enum { SHARED_WORDS = 1024, SHARED_STRIDE = 33 };

extern "C" __global__ void gdnbench_chase_shared(int steps, Address* out) {
  __shared__ unsigned ring[SHARED_WORDS];
  const unsigned base = (unsigned)__cvta_generic_to_shared(ring);
  for (int i = 0; i < SHARED_WORDS; ++i) ring[i] = base + 4 * ((i + SHARED_STRIDE) % SHARED_WORDS);
  unsigned at = base;
  Stopwatch watch;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) at = next_in_shared(at);
  wait_for(at);
  watch.write(out, (at - base) / 4);
}

// The parts of an L2 are not equally near to an SM. Each line, `stride` bytes after the one before, holds its own
// address; cycles[line] is the shortest of `TRIES` trips to it when it is in the L2.
enum { TRIES = 8 };

extern "C" __global__ void gdnbench_line_cycles(Address first, int stride, int lines, int* cycles, Address* out) {
  for (int line = 0; line < lines; ++line) {
    Address at = next_by_l2(first + (Address)line * stride);
    wait_for(at);
    int shortest = 1 << 30;
    for (int i = 0; i < TRIES; ++i) {
      const long long begin = cycles_now();
      at = next_by_l2(at);
      wait_for(at);
      shortest = min(shortest, (int)(cycles_now() - begin));
    }
    cycles[line] = shortest;
  }
  out[2] = this_sm();
}

extern "C" __global__ void gdnbench_block_barrier(int steps, Address* out) {
  __syncthreads();
  Stopwatch watch;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) asm volatile("bar.sync 0;" ::: "memory");
  if (threadIdx.x == 0) watch.write(out, steps);
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_barrier(int steps, Address* out) {
  meet_cluster();
  Stopwatch watch;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) meet_cluster();
  if (blockIdx.x == 0 && threadIdx.x == 0) watch.write(out, steps);
}

extern "C" __global__ void __cluster_dims__(2) gdnbench_cluster_barrier_2(int steps, Address* out) {
  cluster_barrier(steps, out);
}

extern "C" __global__ void __cluster_dims__(4) gdnbench_cluster_barrier_4(int steps, Address* out) {
  cluster_barrier(steps, out);
}

extern "C" __global__ void __cluster_dims__(8) gdnbench_cluster_barrier_8(int steps, Address* out) {
  cluster_barrier(steps, out);
}
#endif

// All blocks are on the GPU at once. `arrived` counts up from 0; the wait ends by itself after `limit_ns`, and then the
// result is not `steps`: a block that never starts must not keep the GPU.
extern "C" __global__ void gdnbench_grid_barrier(int steps, unsigned* arrived, long long limit_ns, Address* out) {
  Stopwatch watch;
  int met = 0;
  for (int i = 0; i <= steps; ++i) {
    if (i == 1) watch = Stopwatch();  // the first meeting waits for the last block to start
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned count;
      asm volatile("atom.add.release.gpu.global.u32 %0, [%1], 1;" : "=r"(count) : "l"(arrived) : "memory");
      const long long end_ns = ns_now() + limit_ns;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(arrived) : "memory");
      } while (count < (i + 1) * gridDim.x && ns_now() < end_ns);
      met += count >= (i + 1) * gridDim.x;
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) watch.write(out, met - 1);
}

// Each block reads `words` words of a type, a multiple of LOADS * THREADS, from a part of the memory of its own.
enum { LOADS = 8, THREADS = 1024 };  // independent loads of a thread in flight, threads of a block

template <typename Word>
__device__ __forceinline__ unsigned bits_of(Word word) {
  return word;
}

template <>
__device__ __forceinline__ unsigned bits_of(uint2 word) {
  return word.x ^ word.y;
}

template <>
__device__ __forceinline__ unsigned bits_of(uint4 word) {
  return word.x ^ word.y ^ word.z ^ word.w;
}

template <typename Word>
__device__ __forceinline__ void read_all(const Word* memory, long long words, unsigned* sums, Address* out) {
  const Word* mine = memory + blockIdx.x * words;
  unsigned sum = 0;
  Stopwatch watch;
#pragma unroll 1
  for (long long at = threadIdx.x; at < words; at += LOADS * THREADS) {
    Word loaded[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) loaded[i] = mine[at + i * THREADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) sum ^= bits_of(loaded[i]);
  }
  sums[blockIdx.x * THREADS + threadIdx.x] = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) watch.write(out, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) gdnbench_read_2(
    const unsigned short* memory, long long words, unsigned* sums, Address* out) {
  read_all(memory, words, sums, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) gdnbench_read_4(
    const unsigned* memory, long long words, unsigned* sums, Address* out) {
  read_all(memory, words, sums, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) gdnbench_read_8(
    const uint2* memory, long long words, unsigned* sums, Address* out) {
  read_all(memory, words, sums, out);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) gdnbench_read_16(
    const uint4* memory, long long words, unsigned* sums, Address* out) {
  read_all(memory, words, sums, out);
}

// Chains of operations of which each waits for the one before, enough of them for a scheduler to issue one each cycle. With
// a factor and an addend of 1 a chain counts its steps.
enum { CHAINS = 8 };

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gdnbench_multiply_add(int steps, float factor, float addend, Address* out) {
  float chains[CHAINS];  // that begin with different numbers, for equal ones would be worked out once
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) chains[i] = threadIdx.x + i;
  Stopwatch watch;
#pragma unroll 32
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) chains[i] = __fmaf_rn(chains[i], factor, addend);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += chains[i];
  if (sum < 0.0f || (blockIdx.x == 0 && threadIdx.x == 0)) watch.write(out, sum);
}

// Notes the clock of the SM and the ns, two numbers at the SM's place: the ratio of what passes until the next note is the
// clock at which that SM ran, whatever it ran.
extern "C" __global__ void gdnbench_note_clocks(long long* noted) {
  noted += 2 * this_sm();
  noted[0] = cycles_now();
  noted[1] = ns_now();
}
