# The work itself.
printf 'def total(numbers): return sum(numbers)\n' > ~/task/solution.py
