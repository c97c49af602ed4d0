"""Arithmetic over named values in content files. It is evaluated by walking the syntax tree, never with eval."""

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache

_THOUSANDS = re.compile(r"(?<![\w.,])\d{4,}(?![\w,])")
_LONGEST = 300  # characters; a deeply nested expression would exhaust the stack
_LARGEST = 1e300

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, tuple[Callable[..., float], int, int]] = {  # function, minimum and maximum number of arguments
    "min": (min, 2, 9),
    "max": (max, 2, 9),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "log2": (math.log2, 1, 1),
    "abs": (abs, 1, 1),
    "round": (round, 1, 1),
}
FUNCTIONS = frozenset(_FUNCTIONS)


def evaluate(expression: str, values: Mapping[str, float]) -> float:
    """The value of `expression` with these values. ValueError with a sentence if it has none."""
    try:
        return _bounded(_value(_parsed(expression), values))
    except ZeroDivisionError:
        raise ValueError(f"`{expression}` divides by zero") from None
    except OverflowError:
        raise ValueError(f"`{expression}` has a value that is too large") from None
    except RecursionError:
        raise ValueError(f"`{expression}` is nested too deeply") from None


def names(expression: str) -> set[str]:
    """The names that `expression` uses. ValueError if it is not arithmetic."""
    used: set[str] = set()
    pending: list[ast.expr] = [_parsed(expression)]
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                used.add(name)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY or isinstance(op, ast.Pow):
                pending += [left, right]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                pending.append(operand)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                pending += args
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                pass
            case node:
                raise ValueError(_refusal(node))
    return used


def whole_if_close(number: float) -> float:
    """A whole number as an int, also if the error of floating point hides that it is one; others as they are."""
    whole = round(number)
    return whole if math.isclose(number, whole, rel_tol=1e-12, abs_tol=1e-15) else number


def format_number(number: float) -> str:
    """Format a number as a learner would write it: no `.0`, no thousands separators, at most six significant digits."""
    number = whole_if_close(number)
    return str(round(number)) if isinstance(number, int) or abs(number) >= 1e6 else f"{number:.6g}"


def quantity(number: str, unit: str = "") -> str:
    """A number, or an expression, with its unit, as all screens write it: `1,900 bytes`, `5%`."""
    shown = _THOUSANDS.sub(lambda found: f"{int(found[0]):,}", number)
    return f"{shown}%" if unit == "%" else f"{shown} {unit}".strip()


def unknown_name(name: str, values: Mapping[str, object]) -> ValueError:
    """The error for a name without a value."""
    return ValueError(f"`{name}` is unknown; the names are {', '.join(values)}" if values else f"`{name}` is unknown")


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    if len(expression) > _LONGEST:
        raise ValueError(f"an expression can have {_LONGEST} characters; this one has {len(expression)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about `2if`, which is refused anyway
            return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"`{expression}` is not an arithmetic expression") from None


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id=name):
            raise unknown_name(name, values)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, values), _value(right, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, values), _value(right, values)))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _called(name, [_value(argument, values) for argument in args])
    raise ValueError(_refusal(node))


def _called(name: str, arguments: list[float]) -> float:
    function, least, most = _FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        raise ValueError(f"`{name}` takes {least} to {most} values" if most > least else f"`{name}` takes one value")
    try:
        return function(*arguments)
    except ValueError:
        raise ValueError(f"`{name}({format_number(arguments[0])})` has no value") from None


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > 1024 or (base and abs(exponent * math.log2(abs(base))) > 1000):
        raise OverflowError
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError(f"`{format_number(base)} ** {format_number(exponent)}` is not a real number")  # noqa: TRY004 - a value is at fault
    return float(result) if isinstance(result, float) else int(result)


def _bounded(number: float) -> float:
    if not -_LARGEST < number < _LARGEST:
        raise OverflowError
    return number


def _refusal(node: ast.expr) -> str:
    return (
        f"`{ast.unparse(node)}` is not allowed; an expression has numbers, names, + - * / // % ** ( )"
        f" and {' '.join(_FUNCTIONS)}"
    )
