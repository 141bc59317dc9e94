python3 - <<'END'
import csv, json, pathlib

for table in pathlib.Path(".").glob("*.csv"):
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table.with_suffix(".json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
END
