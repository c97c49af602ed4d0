"""The rules of CONTRIBUTING.md that a program can check: how long modules, functions and test files may be, and names."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import ddpquiz

PACKAGE = Path(ddpquiz.__file__).parent
PATHS = [
    path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in {"content", "demos"}
]
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in PATHS}

MODULE, FUNCTION, COMMAND, TEST_FILE = 250, 40, 60, 400  # lines
REASON = re.compile(r"# longer than \d+ lines: \S")  # a comment that begins like this allows more lines

# Verbs that do not say what happens. `took` may name data, since a column of the progress file has this name.
RETIRED = {
    *("keep", "keeps", "keeping", "kept", "tell", "tells", "telling", "teller", "told", "hear", "hears", "heard"),
    *("hush", "mourn", "take", "takes", "taking", "taken", "took", "give", "gives", "giving", "gave"),
}

# What does not follow the rules yet, one `rule name` a line, with the number of lines where the rule is about size.
# This list only becomes shorter.
EXCEPTIONS = Path(__file__).with_name("house_exceptions.txt")


def exceptions(rule):
    lines = (line.split() for line in EXCEPTIONS.read_text("utf-8").splitlines())
    return {words[1]: int(words[2]) if words[2:] else 0 for words in lines if words[:1] == [rule]}


def named_nodes(tree, prefix=""):
    """Yield (name with its classes and functions, node) of each class and function, also of those inside others."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
            yield from named_nodes(node, f"{prefix}{node.name}.")
        else:
            yield from named_nodes(node, prefix)


@cache  # not while this module is imported, since each worker imports it
def trees():
    return {module: ast.parse(text) for module, text in SOURCES.items()}


@cache
def nodes():
    return [(module, name, node) for module, tree in trees().items() for name, node in named_nodes(tree)]


def is_command(module, node):
    """Whether Typer makes a command of it: it has its module's name, or `@group.command()` stands above it."""
    folder, _, file = module.rpartition("/")
    return folder == "cli" and (node.name == file.removesuffix(".py") or bool(node.decorator_list))


def too_long_modules():
    for module, text in SOURCES.items():
        lines = text.splitlines()
        if len(lines) > MODULE and not any(REASON.match(line) for line in lines[:10]):
            yield module, len(lines)


def too_long_functions():
    for module, name, node in nodes():
        if isinstance(node, ast.ClassDef):
            continue
        length = node.end_lineno - node.lineno + 1
        beside = SOURCES[module].splitlines()[max(node.lineno - 2, 0) : node.body[0].lineno]
        if length > (COMMAND if is_command(module, node) else FUNCTION) and not any(map(REASON.search, beside)):
            yield f"{module}:{name}", length


def repeated_classes():
    places = defaultdict(list)
    for module, name, node in nodes():
        if isinstance(node, ast.ClassDef):
            places[name.rpartition(".")[2]].append(module)
    return ((name, 0) for name, modules in places.items() if len(modules) > 1)


def retired_names():
    """Yield the modules, classes, functions, parameters, fields and module-level variables with a retired verb."""

    def is_retired(name, *, is_data=False):
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
        return bool(words & (RETIRED - {"took"} if is_data else RETIRED))

    for module, tree in trees().items():
        if is_retired(module.rpartition("/")[2].removesuffix(".py")):
            yield module, 0
        for name in variables(tree):
            if is_retired(name, is_data=True):
                yield f"{module}:{name}", 0
    for module, name, node in nodes():
        if is_retired(node.name):
            yield f"{module}:{name}", 0
        inside = variables(node) if isinstance(node, ast.ClassDef) else parameters(node)
        for variable in inside:
            if is_retired(variable, is_data=True):
                yield f"{module}:{name}.{variable}", 0


def variables(node):
    """Yield the names that a module or a class defines by assignment."""
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def parameters(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (argument.arg for argument in every if argument)


def complaints(rule, found):
    """Say what breaks a rule and is not an exception, and which exceptions are no longer needed."""
    found, known = dict(found), exceptions(rule)
    new = [f"{name} {lines or ''}".strip() for name, lines in found.items() if lines > known.get(name, -1)]
    mended = [f"no longer needed in {EXCEPTIONS.name}: {rule} {name}" for name in known if name not in found]
    return new + mended


def test_a_module_has_at_most_250_lines():
    assert complaints("module", too_long_modules()) == [], (
        f"split it along its nouns, or give the reason in its first ten lines: {REASON.pattern}"
    )


def test_a_function_has_at_most_40_lines_and_a_command_60():
    assert complaints("function", too_long_functions()) == [], (
        f"name a part of it, or give the reason above its first statement: {REASON.pattern}"
    )


def test_a_test_file_has_at_most_400_lines():
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in Path(__file__).parent.glob("*.py")}
    too_long = {name for name, lines in lengths.items() if lines > TEST_FILE}
    assert too_long <= {"test_cluster.py"}, "split it by the modules or subjects that it tests"


def test_a_class_name_exists_once():
    assert complaints("class", repeated_classes()) == [], "rename all but one"


def test_no_name_has_a_retired_verb():
    assert complaints("name", retired_names()) == [], "use save, print, send, receive, append, remove, ... instead"
