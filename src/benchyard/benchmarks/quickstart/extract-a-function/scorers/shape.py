"""Reads shop.py without running it: `with_tax(net)` is defined, and the three functions call it."""

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


functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
made = functions.get("with_tax")
is_defined = made is not None and len(made.args.args) == 1
callers = [name for name in CALLERS if any(map(calls_it, ast.walk(functions.get(name, ast.Pass()))))]
print("with_tax(net) is defined" if is_defined else "there is no function with_tax with one parameter")
print(f"it is called by: {', '.join(callers) or 'none of ' + ', '.join(CALLERS)}")
print((4 + 2 * len(callers)) / 10 if is_defined else 0.0)
