// Marks that tell `gdnbench proton` where inside a kernel time goes. Without -DGDNBENCH_PHASES every macro is empty, and
// the kernel is compiled as if it had none.
//
//   GDNBENCH_PHASE_NAMES(load, update, store);            at file scope: the phases, in the order of the report
//   GDNBENCH_PHASES_BEGIN();                              first in the kernel: each warp's clock starts
//   GDNBENCH_PHASE_USING(load, x, y);                     ends a phase once the values x and y have arrived
//   GDNBENCH_PHASE(store);                                ends a phase once what stands before has been issued
//
// The time since the last mark belongs to the phase that a mark names; passed again, as in a loop, it adds up. A load
// returns at once and is waited for where its value is first used: only PHASE_USING sees the wait. A vector or struct
// has arrived with its first four bytes; an array has with the first four of every element.
//
// Marks bend what they measure. Nothing that touches memory crosses one, so marks between loads make the loads wait for
// each other: put them after the last load. Arithmetic may still cross, unless PHASE_USING names its result.
#pragma once

#ifndef GDNBENCH_PHASES

#define GDNBENCH_PHASE_NAMES(...)
#define GDNBENCH_PHASES_BEGIN()
#define GDNBENCH_PHASE(name)
#define GDNBENCH_PHASE_USING(name, ...)

#else

// Where warps write, a record each in the order of their numbers in the grid; the host sets it before a launch.
// A record is 4 words: begin and end in ns, low words of the global timer; the SM; the warp's cycles from begin to end.
// Behind them stand, where GDNBENCH_PHASES is 1, each phase's cycles; where it is 2, the number of passes.
extern "C" {
__device__ unsigned* gdnbench_phase_records = nullptr;
#if GDNBENCH_PHASES == 2
// Where warps write each pass through a mark: the phase in the upper 6 bits of a word, below them the warp's cycles from
// its begin to the mark. Each has ROOM words.
__device__ unsigned* gdnbench_phase_passes = nullptr;
#endif
}

namespace gdnbench {

__device__ __forceinline__ unsigned read_global_ns() {
  unsigned ns;
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(ns)::"memory");
  return ns;
}

// 32 bits are enough for differences within a kernel, and take half the registers of clock64.
__device__ __forceinline__ unsigned read_cycles() {
  unsigned cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

// The clock, read behind a branch that needs `arrived`: no compiler may read it before that value is there. A select
// would not do, for then both sides are computed first. One value in 2^32 takes the branch, and sleeps for no time.
__device__ __forceinline__ unsigned read_cycles_after(unsigned arrived) {
  asm volatile(
      "{ .reg .pred never;\n"
      "  setp.eq.u32 never, %0, 0x7fedcba9;\n"
      "  @never nanosleep.u32 0; }" ::"r"(arrived)
      : "memory");
  return read_cycles();
}

template <class T>
__device__ __forceinline__ unsigned bits(const T& value) {
  unsigned word = 0;
  // A C cast, for only that takes __restrict__ from a pointer.
  memcpy(&word, (const void*)&value, sizeof(T) < sizeof(word) ? sizeof(T) : sizeof(word));
  return word;
}

template <class T, int N>
__device__ __forceinline__ unsigned bits(const T (&values)[N]) {
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) word ^= bits(values[i]);
  return word;
}

template <class... T>
__device__ __forceinline__ unsigned all_bits(const T&... values) {
  return (0u ^ ... ^ bits(values));
}

__device__ __forceinline__ unsigned warp_of_grid() {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  return block * ((blockDim.x + 31) / 32) + threadIdx.x / 32;
}

// Lane 0 writes the first words of a record, and returns where the next ones go; null for other lanes.
__device__ __forceinline__ unsigned* write_record(unsigned begin_ns, unsigned end_ns, unsigned cycles, unsigned words) {
  if (gdnbench_phase_records == nullptr || threadIdx.x % 32 != 0) return nullptr;
  unsigned* record = gdnbench_phase_records + static_cast<size_t>(warp_of_grid()) * (4 + words);
  asm volatile("mov.u32 %0, %%smid;" : "=r"(record[2]));
  record[0] = begin_ns, record[1] = end_ns, record[3] = cycles;
  return record + 4;
}

#if GDNBENCH_PHASES == 2

constexpr unsigned ROOM = 1024;

// A warp's clock; lane 0 writes each pass as it comes to the mark, as long as there is room, and how many there were.
template <int PHASES>
class PhaseClock {
 public:
  __device__ __forceinline__ PhaseClock() : begin_ns_(read_global_ns()) {
    if (threadIdx.x % 32 == 0) passes_ = gdnbench_phase_passes + static_cast<size_t>(warp_of_grid()) * ROOM;
    begin_ = read_cycles();
  }

  __device__ __forceinline__ void mark(int phase) { pass(phase, read_cycles()); }

  __device__ __forceinline__ void mark_after(int phase, unsigned arrived) { pass(phase, read_cycles_after(arrived)); }

  __device__ __forceinline__ ~PhaseClock() {
    const unsigned end_ns = read_global_ns(), end = read_cycles();
    if (unsigned* next = write_record(begin_ns_, end_ns, end - begin_, 1)) *next = count_;
  }

 private:
  static_assert(PHASES < 64, "6 bits of a word tell the phase");
  unsigned begin_ns_, begin_, count_ = 0;
  unsigned* passes_ = nullptr;

  __device__ __forceinline__ void pass(unsigned phase, unsigned now) {
    if (passes_ != nullptr && count_ < ROOM) passes_[count_] = phase << 26 | (now - begin_);
    ++count_;
  }
};

#else

// A warp's clock, in registers; lane 0 writes its record where the scope ends, by whatever return.
template <int PHASES>
class PhaseClock {
 public:
  __device__ __forceinline__ PhaseClock() : begin_ns_(read_global_ns()), begin_(read_cycles()), last_(begin_) {}

  __device__ __forceinline__ void mark(int phase) { pass(phase, read_cycles()); }

  __device__ __forceinline__ void mark_after(int phase, unsigned arrived) { pass(phase, read_cycles_after(arrived)); }

  __device__ __forceinline__ ~PhaseClock() {
    const unsigned end_ns = read_global_ns(), end = read_cycles();
    unsigned* next = write_record(begin_ns_, end_ns, end - begin_, PHASES);
    if (next == nullptr) return;
    for (int phase = 0; phase < PHASES; ++phase) next[phase] = cycles_[phase];
  }

 private:
  unsigned begin_ns_, begin_, last_;
  unsigned cycles_[PHASES] = {};

  __device__ __forceinline__ void pass(int phase, unsigned now) {
    cycles_[phase] += now - last_;
    last_ = now;
  }
};

#endif

}  // namespace gdnbench

#define GDNBENCH_PHASE_NAMES(...)                                  \
  namespace gdnbench {                                             \
  enum class Phase : int { __VA_ARGS__, gdnbench_count };          \
  }                                                                \
  extern "C" {                                                     \
  __device__ char gdnbench_phase_names[] = #__VA_ARGS__;           \
  }
#define GDNBENCH_PHASES_BEGIN() \
  gdnbench::PhaseClock<static_cast<int>(gdnbench::Phase::gdnbench_count)> gdnbench_clock
#define GDNBENCH_PHASE(name) gdnbench_clock.mark(static_cast<int>(gdnbench::Phase::name))
#define GDNBENCH_PHASE_USING(name, ...) \
  gdnbench_clock.mark_after(static_cast<int>(gdnbench::Phase::name), gdnbench::all_bits(__VA_ARGS__))

#endif
