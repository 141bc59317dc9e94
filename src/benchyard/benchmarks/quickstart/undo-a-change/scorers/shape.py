"""Reads jobs.py without running it: `Jobs.add` calls `heapq.heappush`."""

import ast
import sys

try:
    with open("jobs.py", "rb") as file:
        tree = ast.parse(file.read())
except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
    print(f"jobs.py cannot be read as Python: {error}")
    print(0.0)
    sys.exit()

modules, names = set(), set()
for node in ast.walk(tree):
    if isinstance(node, ast.Import):
        modules |= {name.asname or name.name for name in node.names if name.name == "heapq"}
    elif isinstance(node, ast.ImportFrom) and node.module == "heapq":
        names |= {name.asname or name.name for name in node.names if name.name == "heappush"}


def pushes(node):
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Name):
        return called.id in names
    is_push = isinstance(called, ast.Attribute) and called.attr == "heappush"
    return is_push and isinstance(called.value, ast.Name) and called.value.id in modules


classes = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Jobs"]
methods = [part for each in classes for part in each.body if isinstance(part, ast.FunctionDef)]
is_used = any(pushes(node) for part in methods if part.name == "add" for node in ast.walk(part))
print("add uses heapq.heappush" if is_used else "add does not use heapq.heappush")
print(1.0 if is_used else 0.0)
