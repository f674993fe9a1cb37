"""Reads a kernel, its instructions and their operands, from the text of a module in PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gdnbench.errors import NotInterpretedError
from gdnbench.ptx.numbers import read_number, read_variable, read_variables
from gdnbench.ptx.program import NO_LINE, WIDTHS, Operand, Program, PtxInstruction, SourceLine, Variable


def split_operands(text: str) -> list[str]:
    """Splits operands at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def read_operand(text: str) -> Operand:
    """Reads an operand."""
    if text.startswith("[") and text.endswith("]"):
        inner = split_operands(text[1:-1])
        if len(inner) > 1:
            return Operand("", is_address=True, parts=tuple(map(read_operand, inner)))
        return replace(_with_offset(inner[0]), is_address=True)
    if text.startswith(("{", "(")):
        return Operand("", parts=tuple(map(read_operand, split_operands(text[1:-1]))))
    if "|" in text:  # a register and the predicate beside it
        return Operand("", parts=tuple(read_operand(part.strip()) for part in text.split("|")))
    if text.startswith("!"):
        return Operand(text[1:].strip(), is_negated=True)
    return _with_offset(text)


def _with_offset(text: str) -> Operand:
    match = re.fullmatch(r"(.+?)\s*([+-])\s*(-?\w+)", text)
    if match and not re.fullmatch(r"-?\d.*", text):
        offset = read_number(match[3], "s64")
        if offset is not None:
            return Operand(match[1], offset=-offset if match[2] == "-" else offset)
    return Operand(text)


def renamed(instruction: PtxInstruction, names: Mapping[str, str]) -> PtxInstruction:
    """Returns the instruction with other names in its operands."""
    if not names:
        return instruction
    guard = _renamed_operand(instruction.guard, names) if instruction.guard else None
    operands = tuple(_renamed_operand(each, names) for each in instruction.operands)
    return replace(instruction, guard=guard, operands=operands)


def _renamed_operand(operand: Operand, names: Mapping[str, str]) -> Operand:
    parts = tuple(_renamed_operand(each, names) for each in operand.parts)
    return replace(operand, text=names.get(operand.text, operand.text), parts=parts)


def read_program(text: str, entry: str) -> Program:
    """Reads the kernel `entry` of a module's PTX; raises NotInterpretedError if it is absent or has an unknown form."""
    module = _Module(text)
    if entry not in module.kernels:
        raise NotInterpretedError(f"the PTX has no kernel {entry}", f"it has {', '.join(module.kernels) or 'none'}")
    return _Body(entry, module).read(module.kernels[entry])


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+")
_SAYS_LINE = re.compile(r"\.(loc|pragma)\b")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+\d+")
_REGISTERS = re.compile(r"\.reg\s*(?:\.v[24]\s*)?\.(?P<type>\w+)\s+(?P<names>.+)$", re.DOTALL)
_RANGE = re.compile(r"(?P<stem>[\w$%]+)<(?P<count>\d+)>")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)\s*")
_BODY = re.compile(
    r"\.(?P<kind>entry|func)\s+(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$%]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{;()]*)\{",
    re.DOTALL,
)
_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_ASSERT = "__assertfail"
ASSERT_FAILS = "assertfail"
"""Name of the instruction for a call of `__assertfail`; its operand holds the address of the condition's text."""
_LONGEST = 100_000
"""Most instructions of a kernel with its inlined functions: a recursive one would have no end."""


@dataclass(frozen=True)
class _Function:
    """A kernel or a function: the names of its results, its parameters, its statements, and blocks of a cluster."""

    results: tuple[str, ...]
    parameters: str
    body: str
    cluster: int


class _Module:
    def __init__(self, text: str) -> None:
        text = _COMMENT.sub("", text.rstrip("\0"))
        self.files = {int(number): path for number, path in _FILE.findall(text)}
        self.kernels: dict[str, _Function] = {}
        self.functions: dict[str, _Function] = {}
        outside, position = [], 0
        for match in _BODY.finditer(text):
            end = _closing(text, match.end() - 1)
            results = tuple(each.name for each in read_variables(match["results"] or ""))
            function = _Function(
                results, match["parameters"] or "", text[match.end() : end], _cluster(match["directives"])
            )
            (self.kernels if match["kind"] == "entry" else self.functions)[match["name"]] = function
            outside.append(text[position : match.start()])
            position = end + 1
        outside.append(text[position:])
        self.variables: dict[str, Variable] = {}
        for statement in re.split(r";", "".join(outside)):
            # Directives without a semicolon stand before the declaration in the same statement.
            declared = re.search(r"\.(?:global|const|shared)\b.*", statement, re.DOTALL)
            if declared and ".func" not in statement:
                variable = read_variable(declared[0])
                self.variables[variable.name] = variable


def _cluster(directives: str) -> int:
    match = _CLUSTER.search(directives)
    if match and {match[2] or "1", match[3] or "1"} != {"1"}:
        raise NotInterpretedError("clusters along y or z cannot be interpreted")
    return int(match[1]) if match else 1


def _closing(text: str, opening: int) -> int:
    depth = 0
    for match in re.finditer(r"[{}]", text[opening:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return opening + match.start()
    raise NotInterpretedError("the PTX ends inside a kernel", "was the file cut off?")


@dataclass
class _Scope:
    """Names between two braces: `names` maps them to names unique in the kernel."""

    number: int  # 0 for the kernel's own scope
    first: int = 0  # number of its first instruction
    names: dict[str, str] = field(default_factory=dict)


class _Body:
    def __init__(self, entry: str, module: _Module) -> None:
        self._entry, self._files, self._functions = entry, module.files, module.functions
        self._given: frozenset[str] = frozenset()
        self._variables = dict(module.variables)
        self._registers: dict[str, str] = {}
        self._labels: dict[str, int] = {}
        self._tables: dict[str, tuple[str, ...]] = {}
        self._instructions: list[PtxInstruction] = []
        self._scopes, self._opened = [_Scope(0)], 0
        self._at = NO_LINE
        self._outer: dict[int, SourceLine] = {}  # by line: where its last instruction was inlined
        self._returns: list[str] = []

    def read(self, kernel: _Function) -> Program:
        given = read_variables(kernel.parameters)
        self._given = frozenset(each.name for each in given)
        for statement in self._statements(kernel.body):
            self._read_statement(statement)
        return Program(
            entry=self._entry,
            parameters=given,
            registers=self._registers,
            variables={**self._variables, **{each.name: each for each in given}},
            instructions=tuple(self._instructions),
            labels=self._labels,
            tables=self._tables,
            cluster=kernel.cluster,
        )

    def _statements(self, body: str) -> Iterator[str]:
        """Yields statements without their semicolons, and each brace of a scope by itself."""
        start = depth = 0
        for place, character in enumerate(body):
            if character == ";" and depth == 0:
                yield body[start:place].strip()
                start = place + 1
            elif character in "{}":
                text = body[start:place].strip()
                opens_scope = character == "{" and depth == 0 and not _takes_operands(text)
                if opens_scope or (character == "}" and depth == 0):
                    if text:
                        yield text
                    yield character
                    start = place + 1
                else:
                    depth += 1 if character == "{" else -1

    def _read_statement(self, statement: str) -> None:
        statement = self._take_lines(statement)
        while statement and (label := _LABEL.match(statement)):
            self._declare_label(label[1])
            statement = self._take_lines(statement[label.end() :])
        if not statement:
            return
        if statement == "{":
            self._opened += 1
            self._scopes.append(_Scope(self._opened, len(self._instructions)))
        elif statement == "}":
            self._forget(self._scopes.pop())
        elif statement.startswith(".branchtargets"):
            self._tables[next(reversed(self._labels))] = tuple(re.findall(r"[\w$%]+", statement[14:]))
        elif statement.startswith("."):
            self._declare(statement)
        else:
            self._add(self._read_instruction(statement))

    def _add(self, instruction: PtxInstruction) -> None:
        if len(self._instructions) > _LONGEST:
            raise NotInterpretedError(
                f"{self._entry} has more than {_LONGEST:,} instructions; does a function call itself?"
            )
        if instruction.name == "call":
            self._inline(instruction)
            return
        if outer := instruction.at.inlined_at:
            self._outer[instruction.at.line] = outer
        if instruction.name in {"ld", "st"} and instruction.has("param"):
            self._instructions.extend(self._handed_over(instruction))
        elif instruction.name == "ret" and self._returns:
            self._instructions.append(replace(instruction, name="bra", operands=(Operand(self._returns[-1]),)))
        else:
            self._instructions.append(instruction)

    def _inline(self, call: PtxInstruction) -> None:
        """Reads a function's body in place of the call, its parameters renamed to the call's."""
        groups = [each.parts for each in call.operands if each.parts]
        name = next((each.text for each in call.operands if each.text), "")
        if name == _ASSERT and groups:
            text = Operand(f"{self._renamed_outside(groups[-1][0].text)}+0")  # the register's name in `_handed_over`
            self._instructions.append(replace(call, name=ASSERT_FAILS, modifiers=(), operands=(text,)))
            return
        function = self._functions.get(name)
        if function is None or call.guard is not None:
            raise NotInterpretedError(f"{call.at}: a call of {name or 'a function'} cannot be interpreted")
        formal = (*function.results, *(each.name for each in read_variables(function.parameters)))
        actual = [part.text for group in groups for part in group]
        if len(formal) != len(actual):
            raise NotInterpretedError(f"{call.at}: the call of {name} does not fit its declaration")
        outer = [self._renamed_outside(each) for each in actual]
        self._opened += 1
        self._scopes.append(_Scope(self._opened, len(self._instructions), dict(zip(formal, outer, strict=True))))
        self._returns.append(self._name("return"))
        for statement in self._statements(function.body):
            self._read_statement(statement)
        self._returns.pop()
        self._declare_label("return")
        self._forget(self._scopes.pop())

    def _renamed_outside(self, name: str) -> str:
        """Returns a name as unique in the kernel, if one of the open scopes has declared it; else as it is."""
        return next((scope.names[name] for scope in reversed(self._scopes) if name in scope.names), name)

    def _handed_over(self, instruction: PtxInstruction) -> list[PtxInstruction]:
        """Turns loads and stores of a function's parameters into moves, as each lane has its own; keeps a kernel's."""
        loads = instruction.name == "ld"
        register, place = instruction.operands if loads else reversed(instruction.operands)
        name = self._renamed_outside(place.text)
        if name in self._given or name in self._registers:
            return [instruction]
        kind = instruction.types[-1]
        width = WIDTHS[kind]
        moves = []
        for number, each in enumerate(register.parts or (register,)):
            held = Operand(f"{name}+{place.offset + number * width}")
            self._registers.setdefault(held.text, f"b{8 * width}")
            operands = (each, held) if loads else (held, each)
            moves.append(PtxInstruction("mov", (f"b{8 * width}",), operands, instruction.guard, instruction.at))
        return moves

    def _take_lines(self, statement: str) -> str:
        """Removes a statement's leading `.loc` and `.pragma`, which end with their line, and records the source's."""
        while _SAYS_LINE.match(statement):
            directive, _, statement = statement.partition("\n")
            if match := _LOC.match(directive):
                inlined = _INLINED.search(directive)
                outer = self._inlined(inlined) if inlined else None
                self._at = SourceLine(self._files.get(int(match[1]), ""), int(match[2]), outer)
            statement = statement.strip()
        return statement

    def _inlined(self, match: re.Match[str]) -> SourceLine:
        line = int(match[2])
        # Of nested calls, the place of the outer one is recorded with the line that makes the inner one.
        return SourceLine(self._files.get(int(match[1]), ""), line, self._outer.get(line))

    def _declare_label(self, name: str) -> None:
        self._labels[self._name(name)] = len(self._instructions)

    def _declare(self, statement: str) -> None:
        if match := _REGISTERS.match(statement):
            for name in match["names"].split(","):
                self._declare_registers(name.strip(), match["type"])
        elif statement.startswith(".param"):
            self._name(read_variable(statement).name)
        elif statement.startswith((".local", ".shared")):
            variable = read_variable(statement)
            self._variables[self._name(variable.name)] = replace(variable, name=self._name(variable.name))
        else:
            raise NotInterpretedError(f"the directive `{statement.split(maxsplit=1)[0]}` cannot be interpreted")

    def _declare_registers(self, name: str, kind: str) -> None:
        if kind not in WIDTHS:
            raise NotInterpretedError(f"registers of type {kind} cannot be interpreted")
        match = _RANGE.fullmatch(name)
        names = [f"{match['stem']}{number}" for number in range(int(match["count"]))] if match else [name]
        for each in names:
            self._registers[self._name(each)] = kind

    def _name(self, name: str) -> str:
        """Returns a name of the innermost scope as unique in the kernel, since scopes reuse names."""
        scope = self._scopes[-1]
        return scope.names.setdefault(name, f"{name}@{scope.number}" if scope.number else name)

    def _forget(self, scope: _Scope) -> None:
        """Renames the instructions of a scope at its end, since a label may follow its use."""
        if not self._scopes:
            raise NotInterpretedError("a brace closes that was not opened")
        inside = self._instructions[scope.first :]
        self._instructions[scope.first :] = [renamed(each, scope.names) for each in inside]

    def _read_instruction(self, statement: str) -> PtxInstruction:
        guard = None
        if statement.startswith("@"):
            word, _, statement = statement[1:].partition(" ") if " " in statement else statement[1:].partition("\t")
            guard = Operand(word.lstrip("!").strip(), is_negated=word.startswith("!"))
            statement = statement.strip()
        opcode, *rest = statement.split(None, 1)
        name, *modifiers = [word for word in opcode.replace("::", "__").split(".") if word]
        operands = tuple(map(read_operand, split_operands(rest[0] if rest else "")))
        return PtxInstruction(name, tuple(modifiers), operands, guard, self._at)


def _takes_operands(text: str) -> bool:
    """Returns whether a brace after this text opens a vector, as it does after an opcode."""
    lines = [line for line in text.splitlines() if not _SAYS_LINE.match(line.strip())]
    last = re.sub(r"^(\s*[\w$%]+\s*:)+", "", " ".join(lines)).strip()
    return bool(last)
