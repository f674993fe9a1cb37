"""Disassemblies written by hand: instructions with the control fields that they are to have."""

NONE = 7  # of a scoreboard field
LOW = "/* 0x0000000000000000 */"


def high(stall=1, yields=False, write=NONE, read=NONE, waits=(), reuse=0):
    """The high half of an instruction with these control fields; all its other bits are set, and must be ignored."""
    mask = sum(1 << number for number in waits)
    fields = stall | (not yields) << 4 | write << 5 | read << 8 | mask << 11 | reuse << 17
    return fields << 41 | ((1 << 41) - 1) | 0b11 << 62


def sass(*lines):
    """What cuobjdump would print of instructions: texts, or texts with the fields of `high`."""
    told = [(line, {}) if isinstance(line, str) else line for line in lines]
    return "\n".join(
        f"        /*{16 * at:04x}*/    {text} ;    {LOW}\n        /* 0x{high(**fields):016x} */"
        for at, (text, fields) in enumerate(told)
    )


def does(text, **fields):
    """An instruction and its control fields."""
    return text, fields


def load(register, scoreboard, size="", **fields):
    """A global load of a size in bits, by its modifier, which holds a scoreboard."""
    return does(f"LDG.E{size} R{register}, desc[UR4][R2.64]", write=scoreboard, **fields)


def use(*scoreboards, **fields):
    """An instruction that waits for scoreboards."""
    return does("FADD R0, R4, R5", waits=scoreboards, **fields)


STORE = "STG.E desc[UR4][R2.64], R0"
EXIT = "EXIT"
