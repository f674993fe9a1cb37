"""Runs a PTX kernel for all threads of many blocks at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import numpy as np

from gdnbench.ptx.barriers import BlockBarriers, Groups, Mbarrier
from gdnbench.ptx.memory import Memory
from gdnbench.ptx.numbers import BITS, DTYPES, Array, IntArray, Mask, holder_of, read_number, view_as
from gdnbench.ptx.ordering import EarlierLaunches, Ordering
from gdnbench.ptx.program import WARP, WIDTHS, Fault, FaultLog, LaunchGrid, Operand, Program, PtxInstruction, unknown
from gdnbench.ptx.registers import special
from gdnbench.ptx.segments import PEER_BITS, SHARED_WINDOW, MemorySegment, PendingRead, SectorCounts
from gdnbench.ptx.tensor_memory import Commits, TensorMemory
from gdnbench.ptx.wgmma_registers import Flights

INSTRUCTIONS_A_TURN = 2_000
"""Instructions that one group of lanes runs in a row while others could: it may loop until they go on."""


APART = -1
"""Returned by a handler if the running lanes diverge, wait or end: each has a pc of its own."""

Execute = Callable[["Machine"], int]
"""Executes the current instruction for the running lanes; returns the next pc, or `APART`."""

Handler = Callable[["Machine", PtxInstruction], int | None]
"""Executes one kind of instruction; returns the next pc, None for that of the next instruction, or `APART`."""


class LaneState(IntEnum):
    """Whether a lane runs, has ended, or waits, and at what."""

    RUNS = 0
    AT_BARRIER = 1
    AT_WARP = 2  # waits for other lanes of its warp
    AT_MBARRIER = 3
    ENDED = 4
    AT_WARPGROUP = 5
    AT_CLUSTER = 6


class Machine:
    """Some blocks of a launch, with all of their threads side by side as lanes."""

    program: Program
    grid: LaunchGrid
    memory: Memory
    ordering: Ordering
    # block, thread, lane, warp: shape (lanes,), numbers of each lane's block and warp from 0 in this part of the grid,
    # of its thread in the block and of its lane in the warp
    block: IntArray
    thread: IntArray
    lane: IntArray
    lanes: IntArray  # shape (n,), the lanes that run the current instruction; every array of operands has this length

    def __init__(
        self,
        program: Program,
        grid: LaunchGrid,
        parameters: Mapping[str, bytes],
        tensors: Sequence[MemorySegment],
        variables: Mapping[str, int],
        blocks: range,
        findings: FaultLog,
        granule: int,
        polls: frozenset[int],
        sectors: SectorCounts | None,
    ) -> None:
        """Sets up the lanes of `blocks`, which are numbers in the grid; with these a cluster begins.

        Bytes of parameters and addresses of the module's variables go by name; `tensors` is global memory, `granule`
        the bytes of the smallest access to shared memory, and `polls` the numbers of the loads of flags.
        No traffic is counted without `sectors`.
        """
        self.program, self.grid, self.findings, self._parameters = program, grid, findings, parameters
        count = len(blocks) * grid.threads
        every = np.arange(count, dtype=np.int64)
        self.blocks, self.first_block = len(blocks), blocks.start
        self.block, self.thread = every // grid.threads, every % grid.threads
        warps = -(-grid.threads // WARP)
        self.warp, self.lane = self.block * warps + self.thread // WARP, self.thread % WARP
        self.state, self.pc = np.zeros(count, dtype=np.uint8), np.zeros(count, dtype=np.int64)
        self._every, self.lanes, self.is_whole = every, every, True
        self.step = 0
        self.ordering = Ordering(blocks.start * grid.threads, count, grid.threads, program.cluster)
        self.barriers = BlockBarriers(self.block, grid.threads)
        self._mbarriers: dict[int, Mbarrier] = {}
        self._has_mbarriers = any(each.name == "mbarrier" for each in program.instructions)
        self.launches = EarlierLaunches(self.ordering, self.warp, warps * program.cluster)
        self.memory = Memory(self, tensors, variables, granule, polls, sectors)
        self._registers: dict[str, Array] = {}
        self.handlers: dict[int, Handler] = {}  # by the number of the instruction, once looked up
        # Shape (lanes,), number of the last barrier instruction of a lane
        self.came_to = np.zeros(count, dtype=np.int64)
        # has_met: shape (lanes,), whether that barrier is complete
        # votes: shape (lanes,), the predicate that a lane brought to `bar.red`
        self.has_met, self.votes = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self._has_woken = False
        self.flights = Flights(self)
        self.pending_reads: list[PendingRead] = []  # of shared memory, by asynchronous products and bulk stores
        # copies, stores, products: groups of asynchronous copies, of bulk stores and of products of sm_100
        self.copies, self.stores, self.products = Groups(count), Groups(count), Groups(count)
        self.tensor_memory, self.commits = TensorMemory(self.blocks), Commits(self.ordering, self.block)
        self.committed: list[PendingRead] = []  # of products of sm_100, until a thread knows them to be complete

    # Operands

    def read(self, operand: Operand, kind: str) -> Array:
        """Returns an operand's value as a type: shape (n,), or () if all lanes have the same."""
        declared = self.program.registers.get(operand.text)
        if declared is None:
            return self._read_constant(operand, kind)
        held = self._registers.get(operand.text)
        if held is None:
            held = np.zeros(len(self._every), dtype=holder_of(declared))
        values = held if self.is_whole else held[self.lanes]
        if kind == "pred":
            return ~values if operand.is_negated else values
        return view_as(values, kind)

    def spread(self, operand: Operand, kind: str) -> Array:
        """Returns an operand's value in each running lane, shape (n,)."""
        return np.broadcast_to(self.read(operand, kind), self.lanes.shape)

    def integers(self, operand: Operand, kind: str = "u32") -> IntArray:
        """Returns an operand's value in each running lane as a wide integer, shape (n,)."""
        return self.spread(operand, kind).astype(np.int64)

    def shared_addresses(self, operand: Operand) -> IntArray:
        """Returns the addresses in shared memory that an operand in brackets names, generic or not, shape (n,)."""
        return self.addresses(operand) & ~np.int64(SHARED_WINDOW)

    def fault(self, fault: Fault, bad: Mask, text: str) -> None:
        """Reports a fault of the current instruction in the lanes that `bad` marks, if any."""
        if bad.any():
            self.findings.add(fault, self.instruction.at, text, count=int(np.count_nonzero(bad)))

    def take_in(self, state: LaneState) -> None:
        """Adds the lanes that wait at the current instruction in this state to the running ones."""
        waiting = np.flatnonzero((self.state == state) & (self.pc == self.step))
        if len(waiting):
            self.state[waiting] = LaneState.RUNS
            self.select(np.union1d(self.lanes, waiting))

    def go_on(self) -> int:
        """Lets the running lanes go on at the next instruction without those that wait; returns `APART`."""
        self.pc[self.lanes] = self.step + 1
        self.progressed()
        return APART

    def note(self, fault: Fault, instruction: PtxInstruction, lanes: IntArray, text: str) -> None:
        """Reports a fault of lanes, described for the first of them."""
        who = f"thread {self.thread[lanes[0]]} of block {self.block[lanes[0]] + self.first_block}"
        self.findings.add(fault, instruction.at, f"{who} {text}", count=len(lanes))

    def wait(self, lanes: IntArray, state: LaneState) -> None:
        """Makes lanes wait at the current instruction, to execute it again."""
        self.state[lanes], self.pc[lanes] = state, self.step

    def _read_constant(self, operand: Operand, kind: str) -> Array:
        if operand.text.startswith("%"):
            value = special(self, operand.text)
            if value is None:
                raise unknown(self.instruction)
            return view_as(value, kind)
        address = self.memory.address_of(operand.text)
        if address is not None:
            return np.asarray(address + operand.offset, dtype=np.uint64).astype(BITS[WIDTHS[kind]]).view(DTYPES[kind])
        bits = read_number(operand.text, kind)
        if bits is None:
            raise unknown(self.instruction)
        if kind == "pred":
            return np.asarray(bool(bits))
        width = WIDTHS[kind]
        return np.asarray(bits % (1 << 8 * width), dtype=BITS[width]).view(DTYPES[kind])

    def write(self, operand: Operand, values: Array, kind: str) -> None:
        """Sets a register in the running lanes."""
        if operand.text == "_":
            return
        declared = self.program.registers.get(operand.text)
        if declared is None:
            raise unknown(self.instruction)
        holder = holder_of(declared)
        values = np.asarray(values)
        if kind != "pred":
            signed = kind.startswith("s") and holder.itemsize > values.dtype.itemsize
            bits = values if signed else np.ascontiguousarray(values).view(BITS[values.dtype.itemsize])
            values = bits.astype(holder)
        if self.is_whole:
            self._registers[operand.text] = np.array(np.broadcast_to(values, self.lanes.shape), dtype=holder)
            return
        held = self._registers.setdefault(operand.text, np.zeros(len(self._every), dtype=holder))
        held[self.lanes] = values

    def addresses(self, operand: Operand) -> Array:
        """Returns the addresses that an operand in brackets names; shape (n,), bytes."""
        kind = self.program.registers.get(operand.text, "b64")
        base = self.read(Operand(operand.text), kind if WIDTHS[kind] >= 4 else "b32").astype(np.int64)
        places = np.broadcast_to(base + operand.offset, self.lanes.shape)
        if self.program.cluster == 1:
            return places
        above = (places & ~np.int64(SHARED_WINDOW)) >> PEER_BITS << PEER_BITS
        return np.where(above == self.own_ranks(), places - above, places)

    def own_ranks(self) -> IntArray:
        """Returns what a cluster's running lanes find above the bits of shared addresses of their own blocks."""
        ranks = self.ranks(self.lanes)
        return np.where(ranks > 0, ranks + 1 << PEER_BITS, 0)

    def parameter(self, operand: Operand, nbytes: int) -> bytes:
        """Returns `nbytes` bytes of a kernel's parameter."""
        held = self._parameters.get(operand.text)
        if held is None or operand.offset + nbytes > len(held):
            raise unknown(self.instruction)
        return held[operand.offset : operand.offset + nbytes]

    # Running

    @property
    def instruction(self) -> PtxInstruction:
        """The current instruction."""
        return self.program.instructions[self.step]

    def run(self, execute: Execute, limit: int) -> None:
        """Runs all lanes to their end; after `limit` instructions, counted once for a group, it counts as endless."""
        turn = 0
        while True:
            running = self.state == LaneState.RUNS
            if not running.any():
                if self._release():
                    continue
                for pending in self.pending_reads:
                    self.memory.end_reads(pending, np.ones(len(pending.lanes), dtype=bool))
                for pending in self.committed:
                    self.memory.check_unchanged(pending)
                break
            places = np.unique(self.pc[running])
            # The lowest pc first, so that lanes that branched ahead are joined where the paths meet.
            which = turn % len(places)
            chosen, later = places[which], places[which + 1 :]
            self.select(np.flatnonzero(running & (self.pc == chosen)))
            stop = int(later[0]) if len(later) else len(self.program.instructions)
            count = INSTRUCTIONS_A_TURN if len(places) > 1 else limit
            turn = turn + 1 if self._run_group(execute, int(chosen), stop, count) else 0
            if turn:
                self._release_met()  # they may be whom a loop waits for
            if self.ordering.now > limit:
                self.findings.add(Fault.ENDLESS, self.instruction.at, f"still runs after {limit:,} instructions")
                return

    def select(self, lanes: IntArray) -> None:
        """Makes `lanes` the running ones."""
        self.is_whole = len(lanes) == len(self._every)
        self.lanes = self._every if self.is_whole else lanes

    def _run_group(self, execute: Execute, first: int, stop: int, count: int) -> bool:
        """Runs lanes until they diverge, wait, reach `stop`, or load a flag; returns if others should have a turn."""
        self.step = first
        for _ in range(count):
            if self.step >= len(self.program.instructions):
                self.state[self.lanes] = LaneState.ENDED
                return False
            if self.step >= stop and self.step != first:
                self.pc[self.lanes] = self.step
                return False
            self.ordering.now += 1
            following = execute(self)
            if following == APART:
                return False
            last, self.step = self.step, following
            if last in self.memory.polls:
                break  # another lane may have to set it
        self.pc[self.lanes] = self.step
        return True

    def _release(self) -> bool:
        """Lets waiting lanes go on if they can and returns whether any do; else reports those that wait for ever."""
        if self._release_met() or self.cluster_barriers_changed():
            return True
        stuck = np.flatnonzero((self.state != LaneState.ENDED) & (self.state != LaneState.RUNS))
        if not len(stuck):
            return False
        at_warp = stuck[np.isin(self.state[stuck], (LaneState.AT_WARP, LaneState.AT_WARPGROUP))]
        if len(at_warp) and not self._has_woken:
            self._has_woken = True  # lanes that they waited for may have ended
            self.state[at_warp] = LaneState.RUNS
            return True
        self._note_stuck(stuck)
        return False

    def _release_met(self) -> bool:
        """Lets lanes go on whose block's barrier is complete; returns whether there are any."""
        ended = self.state == LaneState.ENDED
        free, numbers, counts = self.barriers.released(ended)
        if len(free):
            self._check_aligned(free, counts % self.barriers.threads == 0)
            self.ordering.join(free, self.block[free], numbers)
            self.ordering.join_ended(free[counts == 0], np.flatnonzero(ended))
            self.has_met[free] = True
            self.state[free] = LaneState.RUNS
        return bool(len(free))

    def converged(self) -> None:
        """Records that the running lanes reconverged with their warps, which orders no memory."""
        if self._has_mbarriers:
            self.ordering.converged[self.lanes] = self.ordering.now

    def progressed(self) -> None:
        """Lets lanes that wait for others of their warp check again, should nothing else be left to run."""
        self._has_woken = False

    def end_reads(self, name: str, groups: Groups) -> None:
        """Ends the pending reads by instructions called `name` that lanes have waited for."""
        left = []
        for pending in self.pending_reads:
            done = (pending.begun < groups.done[pending.lanes]) & (pending.access.instruction.name == name)
            rest = self.memory.end_reads(pending, done) if done.any() else pending
            left += [rest] if rest is not None else []
        self.pending_reads = left

    def commit_products(self, lanes: IntArray) -> None:
        """Has products so far, begun by `lanes`, read no longer, but for threads that do not wait for them."""
        self.products.commit(lanes, self.ordering.now)
        self.products.wait(lanes, 0)
        reads = [each for each in self.pending_reads if each.access.instruction.name == "tcgen05"]
        self.committed += [each.of(np.isin(each.lanes, lanes)) for each in reads]
        self.end_reads("tcgen05", self.products)

    def end_products(self, lanes: IntArray) -> None:
        """Checks what products have read that some of these lanes now know to be complete."""
        if not self.committed:
            return
        known = np.zeros(self.blocks, dtype=np.int64)
        np.maximum.at(known, self.block[lanes], self.commits.known(lanes))
        left = []
        for pending in self.committed:
            done = pending.begun < known[self.block[pending.lanes]]
            self.memory.check_unchanged(pending.of(done))
            left += [] if done.all() else [pending.of(~done)]
        self.committed = left

    def ranks(self, lanes: IntArray) -> IntArray:
        """Returns the rank of each lane's block in its cluster."""
        return (self.block[lanes] + self.first_block) % self.program.cluster

    def in_cluster(self, lanes: IntArray, ranks: IntArray | int) -> IntArray:
        """Returns the lanes of the same threads in the blocks of these ranks in each lane's cluster."""
        return lanes + (ranks - self.ranks(lanes)) * self.grid.threads

    def mbarrier(self, address: int) -> Mbarrier:
        """Returns the mbarrier at a shared address, in all blocks."""
        return self._mbarriers.setdefault(address, Mbarrier(self.blocks))

    def mbarriers_changed(self) -> None:
        """Lets lanes that wait at an mbarrier check again."""
        self.state[self.state == LaneState.AT_MBARRIER] = LaneState.RUNS

    def cluster_barriers_changed(self) -> bool:
        """Lets lanes go on whose cluster's barrier is complete; returns whether there are any."""
        if not self.ordering.clusters.complete(self.state == LaneState.ENDED, self.ordering.now):
            return False
        waits = self.state == LaneState.AT_CLUSTER
        self.state[waits] = LaneState.RUNS
        return bool(waits.any())

    def _check_aligned(self, free: IntArray, of_all: Mask) -> None:
        """Reports threads of a warp, or of a block at a barrier for all of it, that wait at different `bar.sync`."""
        for lanes, group, what in ((free, self.warp, "warp"), (free[of_all], self.block, "block")):
            low = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
            high = np.zeros_like(low)
            np.minimum.at(low, group[lanes], self.came_to[lanes])
            np.maximum.at(high, group[lanes], self.came_to[lanes])
            apart = np.flatnonzero(low < high)
            both = [self.program.instructions[int(each[apart[0]])] for each in (low, high)] if len(apart) else []
            if any(each.name == "bar" for each in both):
                one, other = sorted(both, key=lambda each: each.at.line)
                text = f"threads of one {what} wait at different barriers, here and at line {other.at.line}"
                self.findings.add(Fault.BARRIER, one.at, text, count=len(apart))
                return

    def _note_stuck(self, stuck: IntArray) -> None:
        waiting = {
            LaneState.AT_BARRIER: "a barrier that not all threads of its block reach",
            LaneState.AT_WARP: "lanes of its warp that never come here",
            LaneState.AT_WARPGROUP: "threads of its warpgroup that never come here",
            LaneState.AT_CLUSTER: "its cluster's barrier, which not all threads of the cluster reach",
            LaneState.AT_MBARRIER: "an mbarrier whose phase never completes",
        }
        for state, what in waiting.items():
            lanes = stuck[self.state[stuck] == state]
            if len(lanes):
                step = int((self.came_to if state is LaneState.AT_BARRIER else self.pc)[lanes[0]])
                self.note(Fault.BARRIER, self.program.instructions[step], lanes, f"waits for {what}")
