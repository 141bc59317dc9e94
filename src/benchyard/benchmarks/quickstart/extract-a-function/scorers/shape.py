"""Reads shop.py without running it: `with_tax(net)` is defined, and the three functions get to calls of it."""

import ast
import sys

CALLERS = ("price_of", "total_of", "receipt")

try:
    with open("shop.py", "rb") as file:
        tree = ast.parse(file.read())
except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
    print(f"shop.py cannot be read as Python: {error}")
    print(0.0)
    sys.exit()


def calls_it(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "with_tax"


def reached(statements):
    """The nodes of what is run, as far as that can be seen: nothing behind a return, or below `if False`."""
    for each in statements:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        never = isinstance(each, (ast.If, ast.While)) and isinstance(each.test, ast.Constant) and not each.test.value
        for name, value in ast.iter_fields(each):
            parts = value if isinstance(value, list) else [value]
            if name == "handlers":
                parts = [inner for handler in parts for inner in handler.body]
            if parts and isinstance(parts[0], ast.stmt):
                if not (never and name == "body"):
                    yield from reached(parts)
                continue
            for part in parts:
                if isinstance(part, ast.AST):
                    yield from ast.walk(part)
        if isinstance(each, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return


functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
made = functions.get("with_tax")
is_defined = made is not None and len(made.args.args) == 1
callers = [name for name in CALLERS if name in functions and any(map(calls_it, reached(functions[name].body)))]
print("with_tax(net) is defined" if is_defined else "there is no function with_tax with one parameter")
print(f"it is called by: {', '.join(callers) or 'none of ' + ', '.join(CALLERS)}")
print((4 + 2 * len(callers)) / 10 if is_defined else 0.0)
