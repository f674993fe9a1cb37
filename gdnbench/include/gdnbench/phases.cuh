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
// Behind them stand, where GDNBENCH_PHASES is 1, each phase's cycles; where it is 2, the number of passes. All words are ~0
// before a launch. Behind all records is a word for each warp, the SM's clock at its begin.
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

// The clock, in lane 0, whose record it is; `before` in the others. 32 bits are enough for differences within a kernel, and
// take half the registers of clock64. Were it read by all lanes, ptxas could read it once more, and later, where a value
// is used: what must not change in other lanes cannot be read again.
__device__ __forceinline__ unsigned read_cycles(unsigned before) {
  asm volatile(
      "{ .reg .pred first;\n"
      "  setp.eq.u32 first, %1, 0;\n"
      "  @first mov.u32 %0, %%clock; }"
      : "+r"(before)
      : "r"(threadIdx.x % 32)
      : "memory");
  return before;
}

// The clock, read behind a branch that needs `arrived`: no compiler may read it before that value is there. A select
// would not do, for then both sides are computed first. One value in 2^32 takes the branch, and sleeps for no time.
__device__ __forceinline__ unsigned read_cycles_after(unsigned before, unsigned arrived) {
  asm volatile(
      "{ .reg .pred never;\n"
      "  setp.eq.u32 never, %0, 0x7fedcba9;\n"
      "  @never nanosleep.u32 0; }" ::"r"(arrived)
      : "memory");
  return read_cycles(before);
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

// By lane 0: a warp's record, and whether an earlier clock of the warp has written to it in this launch. A warp whose block
// takes turns may have a clock in each: they go on in one record, as of one clock from the first begin to the last end.
class PhaseRecord {
 public:
  __device__ __forceinline__ PhaseRecord(unsigned words) {
    if (gdnbench_phase_records == nullptr || threadIdx.x % 32 != 0) return;
    const size_t warps = size_t(gridDim.x) * gridDim.y * gridDim.z * ((blockDim.x + 31) / 32);
    record_ = gdnbench_phase_records + warp_of_grid() * size_t(4 + words);
    begun_ = gdnbench_phase_records + warps * (4 + words) + warp_of_grid();
    goes_on_ = record_[2] != ~0u;
  }

  __device__ __forceinline__ bool is_there() const { return record_ != nullptr; }
  __device__ __forceinline__ bool goes_on() const { return goes_on_; }
  __device__ __forceinline__ unsigned* words() const { return record_ + 4; }
  __device__ __forceinline__ unsigned first_begin() const { return *begun_; }

  __device__ __forceinline__ void write(unsigned begin_ns, unsigned begin, unsigned end_ns, unsigned end) {
    if (!goes_on_) {
      asm volatile("mov.u32 %0, %%smid;" : "=r"(record_[2]));
      record_[0] = begin_ns, *begun_ = begin;
    }
    record_[1] = end_ns, record_[3] = end - *begun_;
  }

 private:
  unsigned *record_ = nullptr, *begun_ = nullptr;
  bool goes_on_ = false;
};

#if GDNBENCH_PHASES == 2

constexpr unsigned ROOM = 1024, BETWEEN = 63;

// A warp's clock; lane 0 writes each pass as it comes to the mark, as long as there is room, and how many there were. A
// pass of BETWEEN ends what lies between two clocks.
template <int PHASES>
class PhaseClock {
 public:
  __device__ __forceinline__ PhaseClock() {
    const PhaseRecord record(1);
    if (threadIdx.x % 32 == 0) passes_ = gdnbench_phase_passes + static_cast<size_t>(warp_of_grid()) * ROOM;
    if (record.goes_on()) count_ = *record.words(), begin_ = record.first_begin();
    const unsigned now = read_cycles_after(0, record.goes_on());
    begin_ns_ = read_global_ns();
    if (record.goes_on())
      pass(BETWEEN, now);
    else
      begin_ = now;
  }

  __device__ __forceinline__ void mark(int phase) { pass(phase, read_cycles(begin_)); }

  __device__ __forceinline__ void mark_after(int phase, unsigned arrived) {
    pass(phase, read_cycles_after(begin_, arrived));
  }

  __device__ __forceinline__ ~PhaseClock() {
    const unsigned end_ns = read_global_ns(), end = read_cycles(begin_);
    PhaseRecord record(1);
    if (!record.is_there()) return;
    record.write(begin_ns_, begin_, end_ns, end);
    *record.words() = count_;
  }

 private:
  static_assert(PHASES < BETWEEN, "6 bits of a word tell the phase");
  unsigned begin_ns_, begin_, count_ = 0;
  unsigned* passes_ = nullptr;

  __device__ __forceinline__ void pass(unsigned phase, unsigned now) {
    if (passes_ != nullptr && count_ < ROOM) passes_[count_] = phase << 26 | (now - begin_);
    ++count_;
  }
};

#else

// A warp's clock, in registers; lane 0 adds to its record where the scope ends, by whatever return.
template <int PHASES>
class PhaseClock {
 public:
  __device__ __forceinline__ PhaseClock() : begin_ns_(read_global_ns()), begin_(read_cycles(0)), last_(begin_) {}

  __device__ __forceinline__ void mark(int phase) { pass(phase, read_cycles(last_)); }

  __device__ __forceinline__ void mark_after(int phase, unsigned arrived) {
    pass(phase, read_cycles_after(last_, arrived));
  }

  __device__ __forceinline__ ~PhaseClock() {
    const unsigned end_ns = read_global_ns(), end = read_cycles(last_);
    PhaseRecord record(PHASES);
    if (!record.is_there()) return;
    record.write(begin_ns_, begin_, end_ns, end);
    for (int phase = 0; phase < PHASES; ++phase)
      record.words()[phase] = cycles_[phase] + (record.goes_on() ? record.words()[phase] : 0);
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
