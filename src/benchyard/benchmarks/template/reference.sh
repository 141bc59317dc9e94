cat > greet.py <<'END'
import sys

print(f"Hello, {sys.argv[1]}!")
END
