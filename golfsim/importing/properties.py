"""Read PeerSim's configuration files: properties, blocks in braces, and expressions of numbers and names.

The rules are those of PeerSim 1.0.5, in its own words: `config/ParsedProperties.java` (lines, comments, braces),
`config/ConfigContainer.java` (names, order, inclusion, expressions by name) and `config/Operators.java` (integers of
any length, whose division is that of integers; everything with a double is a double). Nothing is ever executed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from golfsim.core.errors import UserError, nearest

Number = int | float

DEEPEST = 100  # names that refer to names, as in PeerSim, and parentheses
LONGEST = 4096  # bits of an integer
TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_][\w.]*)|(.))")
PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
NUMBER = "expected a number, or an expression of numbers, names, + - * / % ^ and parentheses"


class ConfigError(UserError):
    """A mistake in a configuration file, with its file and line."""

    placed = True


class Entry(NamedTuple):
    """A property, and the line (from 1) that defines it; 0: it was given with the command."""

    key: str
    value: str
    line: int


def read(text: str, file: str) -> list[Entry]:
    """Return the properties of a file in its order, without braces."""
    found: list[Entry] = []
    prefixes, opened, last, begun = [""], [0], "", ""
    blocks = set()
    for number, part in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        part = part.split("#", 1)[0].strip()
        if not part:
            continue
        if part.endswith("\\"):
            begun += part[:-1].rstrip() + " "
            continue
        line, begun = begun + part, ""
        if line == "{":
            if not last:
                raise ConfigError(f"{file}:{number}: “{{” without a property before it", hint="expected a property")
            if last in blocks:
                raise ConfigError(
                    f"{file}:{number}: a second block for “{last}”", hint="expected one block per property"
                )
            blocks.add(last)
            prefixes.append(last + ".")
            opened.append(number)
            last = ""
        elif line == "}":
            if len(prefixes) == 1:
                raise ConfigError(f"{file}:{number}: “}}” without “{{”", hint="expected as many “{” as “}” before it")
            prefixes.pop()
            opened.pop()
        else:
            key, *rest = re.split(r"[\s:=]+", line, maxsplit=1)
            last = prefixes[-1] + key
            found.append(Entry(last, rest[0] if rest else "", number))
    if len(prefixes) > 1:
        raise ConfigError(f"{file}:{opened[-1]}: this “{{” has no “}}”", hint="expected “}” on a line of its own")
    return found


class Properties:
    """The properties of a file by key, and which of them were looked at.

    `define` has values for placeholders such as ${NAME}, and for properties, as PeerSim takes them on its command line.
    """

    def __init__(self, text: str, file: str, define: Mapping[str, str] | None = None) -> None:
        self.file = file
        self._define = dict(define or {})
        self.entries = read(text, file)
        self.by_key = {entry.key: entry for entry in self.entries}
        self.by_key |= {key: Entry(key, value, 0) for key, value in self._define.items()}
        self.asked: set[str] = set()
        self._known: dict[str, Number] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def fail(self, key: str, what: str, hint: str = "") -> NoReturn:
        """Raise the error about the value of a property."""
        line = self.by_key[key].line if key in self.by_key else 0
        raise ConfigError(f"{self.file}:{line or 1}: {key}: {what}", hint=hint or None)

    def text(self, key: str, default: str = "") -> str:
        """Return a property as text, with its placeholders replaced."""
        if key not in self.by_key:
            return default
        self.asked.add(key)

        def replaced(found: re.Match[str]) -> str:
            if found[1] not in self._define:
                self.fail(key, f"“{found[0]}” has no value", f"give it one: --define {found[1]}=VALUE")
            self.asked.add(found[1])
            return self._define[found[1]]

        return PLACEHOLDER.sub(replaced, self.by_key[key].value).strip()

    def number(self, key: str, default: Number | None = None) -> Number:
        """Return the value of a numeric property; the default if there is no such property."""
        if key not in self.by_key and default is not None:
            return default
        try:
            return self._value(key, key, 0)
        except RecursionError:
            self.fail(key, "names and parentheses are nested too deeply", NUMBER)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a property as PeerSim reads integers: a double loses what follows its point."""
        value = self.number(key, default)
        if isinstance(value, int):
            return value
        if not math.isfinite(value):
            self.fail(key, f"{NUMBER} with a finite value; got {value}")
        return int(value)

    def names(self, kind: str) -> list[str]:
        """Return the components of a kind, e.g. “protocol”, in the order of `include`, or of `order` and by name."""
        there = sorted(key for key in self.by_key if re.fullmatch(re.escape(kind) + r"\.[^.]+", key))
        for how in ("include", "order"):
            if f"{how}.{kind}" not in self.by_key:
                continue
            named = [f"{kind}.{name}" for name in re.split(r"\W+", self.text(f"{how}.{kind}")) if name]
            for name in named:
                if name not in there:
                    what = f"there is no “{name}”"
                    self.fail(f"{how}.{kind}", what, nearest(name, there) or "expected names of components")
            named = list(dict.fromkeys(named))
            return named if how == "include" else named + [name for name in there if name not in named]
        return there

    def _value(self, key: str, first: str, depth: int) -> Number:
        if key in self._known:
            return self._known[key]
        if key not in self.by_key:
            what = "missing" if key == first else f"“{key}” has no value"
            self.fail(first, what, "" if key == first else f"define it, or give it one: --define {key}=VALUE")
        if depth > DEEPEST:
            self.fail(
                first, f"names refer to each other more than {DEEPEST} times", "expected no name that needs itself"
            )
        text = self.text(key)
        if not text:
            self.fail(key, f"{NUMBER}; got nothing")
        self._known[key] = found = _Expression(self, key, first, text, depth).value()
        return found


class _Expression:
    """Evaluate an expression: ^ before a sign, then * / %, then + −; names are values of other properties."""

    def __init__(self, properties: Properties, key: str, first: str, text: str, depth: int) -> None:
        self.properties, self.key, self.first, self.text, self.depth = properties, key, first, text, depth
        self.tokens = [match.groups() for match in TOKEN.finditer(text)]
        self.at = self.nested = 0

    def value(self) -> Number:
        found = self._sum()
        if self.at < len(self.tokens):
            self._wrong()
        return found

    def _wrong(self) -> NoReturn:
        self.properties.fail(self.key, f"{NUMBER}; got “{self.text:.60}”")

    def _next(self, symbols: str) -> str:
        """Return the next token if it is one of the symbols, and go past it."""
        symbol = self.tokens[self.at][2] if self.at < len(self.tokens) else None
        if symbol is None or symbol not in symbols:
            return ""
        self.at += 1
        return symbol

    def _sum(self) -> Number:
        found = self._product()
        while symbol := self._next("+-"):
            found = self._apply(symbol, found, self._product())
        return found

    def _product(self) -> Number:
        found = self._signed()
        while symbol := self._next("*/%"):
            found = self._apply(symbol, found, self._signed())
        return found

    def _signed(self) -> Number:
        minus = False
        while symbol := self._next("+-"):
            minus ^= symbol == "-"
        found = self._power()
        return -found if minus else found

    def _power(self) -> Number:
        found = self._operand()
        if self._next("^"):
            self._deeper()
            found = self._apply("^", found, self._signed())
            self.nested -= 1
        return found

    def _operand(self) -> Number:
        if self._next("("):
            self._deeper()
            found = self._sum()
            if not self._next(")"):
                self._wrong()
            self.nested -= 1
            return found
        if self.at == len(self.tokens):
            self._wrong()
        number, name, _ = self.tokens[self.at]
        self.at += 1
        if number is not None:
            return int(number) if number.isdigit() and len(number) <= LONGEST // 4 else float(number)
        if name is None:
            self._wrong()
        return self.properties._value(name, self.first, self.depth + 1)

    def _deeper(self) -> None:
        self.nested += 1
        if self.nested > DEEPEST:
            self._wrong()

    def _apply(self, symbol: str, a: Number, b: Number) -> Number:
        try:
            found = _whole(symbol, a, b) if isinstance(a, int) and isinstance(b, int) else _double(symbol, a, b)
        except (ArithmeticError, ValueError):
            self.properties.fail(self.key, f"“{self.text:.60}” has no finite value", NUMBER)
        return found


def _whole(symbol: str, a: int, b: int) -> int:
    """Apply an operator as Java's integers do: division towards zero, and no negative powers."""
    if symbol == "^":
        if b < 0 or max(a.bit_length(), 1) * b > LONGEST:
            raise OverflowError
        return int(a**b)
    if symbol in "/%":
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if symbol == "/" else a - b * quotient
    found = {"+": a + b, "-": a - b, "*": a * b}[symbol]
    if found.bit_length() > LONGEST:
        raise OverflowError
    return found


def _double(symbol: str, a: Number, b: Number) -> float:
    """Apply an operator to doubles; what is no finite number is an error."""
    x, y = float(a), float(b)
    if symbol == "^":
        found = math.pow(x, y)
    elif symbol == "%":
        found = math.fmod(x, y)
    else:
        found = x / y if symbol == "/" else {"+": x + y, "-": x - y, "*": x * y}[symbol]
    if not math.isfinite(found):
        raise OverflowError
    return found
