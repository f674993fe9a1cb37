"""Volatile and atomic accesses to shared memory in the interpreter of PTX: a race of data is one, a flag is none."""

import numpy as np
import pytest
from ptx_data import findings

ORDERS = {
    "volatile": ("volatile.shared", "volatile.shared"),
    "relaxed": ("relaxed.cta.shared", "relaxed.cta.shared"),
    "acquire and release": ("acquire.cta.shared", "release.cta.shared"),
}
HEAD = """
__device__ unsigned at(const void* p) {{ return static_cast<unsigned>(__cvta_generic_to_shared(p)); }}
__device__ int get(const int* p) {{
  int v; asm volatile("ld.{load}.b32 %0, [%1];" : "=r"(v) : "r"(at(p)) : "memory"); return v;
}}
__device__ void put(int* p, int v) {{ asm volatile("st.{store}.b32 [%0], %1;" ::"r"(at(p)), "r"(v) : "memory"); }}
extern "C" __global__ void k(const int* a, int* b) {{
  __shared__ int s[256]; __shared__ int flag, lock;
  const int i = threadIdx.x;
  s[i] = a[i]; s[i + 128] = 0;
  if (i == 0) {{ flag = 0; lock = 0; }}
  __syncthreads();
"""
RACES = {
    "a tree in one warp": """
      if (i < 32) for (int n = 16; n; n /= 2) put(&s[i], get(&s[i]) + get(&s[i + n])); b[i] = s[i];""",
    "a neighbour in another warp": "put(&s[i], i + 7); b[i] = get(&s[i ^ 32]);",
    "a neighbour in the warp": "put(&s[i], i + 7); b[i] = get(&s[i ^ 1]);",
    "overwritten while others read": "b[i] = get(&s[i ^ 32]); put(&s[i], i + 7);",
    "all write to one place": "put(&s[0], i); __syncthreads(); b[i] = s[0];",
    "a plain store that a strong load reads": "s[i] = i + 7; b[i] = get(&s[i ^ 32]);",
    "a strong store that a plain load reads": "put(&s[i], i + 7); b[i] = s[i ^ 32];",
    "a flag, and no fence before what it tells of": """
      if (i == 32) {{ put(&s[128], 5); put(&flag, 1); }}
      if (i == 0) {{ while (get(&flag) == 0) {{}} b[0] = get(&s[128]); }}""",
    "a warp's barrier between warps": "put(&s[i], i + 7); __syncwarp(); b[i] = get(&s[i ^ 32]);",
}  # fmt: skip
FLAGS = {
    "a tree with barriers": """
      for (int n = 32; n; n /= 2) {{ if (i < n) put(&s[i], get(&s[i]) + get(&s[i + n])); __syncthreads(); }}
      b[i] = s[i];""",
    "a tree with barriers of the warp": """
      if (i < 32) for (int n = 16; n; n /= 2) {{
        const int v = get(&s[i]) + get(&s[i + n]); __syncwarp(); put(&s[i], v); __syncwarp(); }}
      __syncthreads(); b[i] = s[i];""",
    "its own element": "put(&s[i], get(&s[i]) + 1); b[i] = get(&s[i]);",
    "a flag that is waited for, with fences": """
      if (i == 32) {{ s[128] = 5; __threadfence_block(); put(&flag, 1); }}
      if (i == 0) {{ while (get(&flag) == 0) {{}} __threadfence_block(); b[0] = s[128]; }}""",
    "a flag in the loop that does the work": """
      for (int n = 0; n < 50; ++n) {{ if (get(&flag)) break; b[i] += a[i]; if (i == 40 && n == 9) put(&flag, 1); }}""",
    "a lock": """
      if (i % 32 == 0) {{
        while (atomicCAS(&lock, 0, 1)) {{}} __threadfence_block();
        put(&s[128], get(&s[128]) + 1);
        __threadfence_block(); atomicExch(&lock, 0); }}
      __syncthreads(); b[i] = s[128];""",
    "a look before an atomic": "if (get(&flag) < i) atomicMax(&flag, i); __syncthreads(); b[i] = flag;",
    "a count of atomics that is waited for": """
      if (i % 32 == 0) {{ s[128 + i / 32] = i; __threadfence_block(); atomicAdd(&flag, 1); }}
      if (i == 0) {{ while (get(&flag) != 2) {{}} __threadfence_block(); b[0] = s[128] + s[129]; }}""",
    "a flag that is set anew after a barrier": """
      for (int n = 0; n < 3; ++n) {{
        if (i == 32) put(&flag, 1);
        if (i == 0) while (get(&flag) == 0) {{}}
        __syncthreads(); if (i == 0) put(&flag, 0); __syncthreads(); }}""",
}  # fmt: skip
A_LOOK = "if (i == 40) put(&flag, 1); if (get(&flag)) b[i] = a[i];"
QUALIFIED = {
    "a tree": ("for (int n = 16; n; n /= 2) if (i < 32) v[i] = v[i] + v[i + n]; b[i] = v[i];", {"RACE"}),
    "the larger": ("if (v[i] < v[i ^ 1]) v[i] = v[i ^ 1]; b[i] = v[i];", {"RACE"}),
    "a tree with barriers": (
        """for (int n = 16; n; n /= 2) {{ int t = i < n ? v[i + n] : 0; __syncthreads();
        if (i < n) v[i] = v[i] + t; __syncthreads(); }} b[i] = v[i];""",
        set(),
    ),
    "a flag": ("if (i == 32) *f = 1; if (i == 0) while (*f == 0) {{}}", set()),
    "a flag that is looked at four times a turn": (
        "if (i == 32) *f = 1; if (i == 0) do {{ if (*f) break; if (*f) break; if (*f) break; }} while (!*f);",
        set(),
    ),
}  # fmt: skip


def found_in(body, order):
    load, store = ORDERS[order]
    a, b = np.arange(64, dtype=np.int32), np.zeros(64, dtype=np.int32)
    return findings(HEAD.format(load=load, store=store) + body.format() + "\n}", a, b, threads=64)


@pytest.mark.parametrize("order", ["volatile", "relaxed"])
@pytest.mark.parametrize("name", RACES)
def test_data_that_nothing_orders_race(name, order):
    found = found_in(RACES[name], order)
    assert {fault for fault, *_ in found} == {"RACE"}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FLAGS)
def test_flags_and_what_they_order_do_not(name, order):
    assert found_in(FLAGS[name], order) == []


@pytest.mark.parametrize("order", ["relaxed", "acquire and release"])
def test_an_atomic_load_may_decide_without_a_loop(order):
    assert found_in(A_LOOK, order) == []


@pytest.mark.parametrize("name", QUALIFIED)
def test_what_is_declared_volatile_is_watched_likewise(name):
    body, faults = QUALIFIED[name]
    found = found_in(f"volatile int *v = s, *f = &flag; {body}", "volatile")
    assert {fault for fault, *_ in found} == faults


def test_a_race_is_told_with_both_of_its_lines():
    source = HEAD.format(load="volatile.shared", store="volatile.shared") + "put(&s[i], i);\nb[i] = get(&s[i ^ 32]);\n}"
    a, b = np.arange(64, dtype=np.int32), np.zeros(64, dtype=np.int32)
    ((fault, line, text),) = findings(source, a, b, threads=64)
    assert (fault, line) == ("RACE", 14)
    assert (
        "thread 0 of block 0 reads shared memory where thread 32 writes at kernel.cu:6, inlined at kernel.cu:13" in text
    )
